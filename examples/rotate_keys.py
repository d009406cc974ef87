"""Rotate every key of a vault, and see which old things still work: lines do, caps of an old issuer do not."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import strongroom


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path, copy = Path(scratch) / "vault", Path(scratch) / "copy"
        keys = strongroom.FileKeys(Path(scratch) / "keys")
        with strongroom.create(path, keys=keys) as vault:
            cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"])
            vault.memory(cap).put("Trip to Chengdu, May 25-29")

            # An actor's keys: new lines get a new epoch, old ones stay readable.
            vault.rotate_actor("local/alice")
            vault.memory(cap).put("Hotel near Kuanzhai Alley")
            print("after rotate_actor:", len(vault.memory(cap).get()), "lines")

            # The issuer's: every cap minted before is void.
            vault.rotate_issuer()
            try:
                vault.memory(cap).get()
            except strongroom.errors.CapSignatureInvalid as denial:
                print("after rotate_issuer, an old cap:", denial.reason)

            # The root: re-wrapped in one commit. A copy made before does not open with the new root.
            shutil.copytree(path, copy)
            vault.rotate_root()
            fresh = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"])
            print("after rotate_root:", len(vault.memory(fresh).get()), "lines")
            print("the log agrees:", vault.audit.verify().ok)
        try:
            strongroom.open(copy, keys=keys)
        except strongroom.errors.KeyUnavailable as missing:
            print("a copy from before:", missing.reason)


if __name__ == "__main__":
    main()
