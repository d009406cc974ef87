"""Prove that the core works in Hermes' own environment: its pins are kept, and a line goes in and out.

Run by `make check` with the interpreter of an environment that has both installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import strongroom

PINS = {
    "hermes-agent": "0.19.0",
    "cryptography": "46.0.7",
    "httpx": "0.28.1",
    "pydantic": "2.13.4",
    "PyJWT": "2.13.0",
    "rich": "14.3.3",
}


def main() -> None:
    for name, pinned in PINS.items():
        if version(name) != pinned:
            sys.exit(f"beside_hermes: {name} is {version(name)}, but Hermes pins {pinned}")
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "check"], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        keys = strongroom.FileKeys(Path(scratch) / "keys")
        with strongroom.create(Path(scratch) / "vault", keys=keys) as vault:
            cap = vault.mint(actor="local/hermes", ops=["put", "get"], namespaces=["work"])
            vault.memory(cap).put("installed beside Hermes")
            (hit,) = vault.memory(cap).get("Hermes")
            if hit.text != "installed beside Hermes" or not vault.audit.verify().ok:
                sys.exit("beside_hermes: the line did not come back")
    print("beside_hermes: the core works next to hermes-agent", version("hermes-agent"))


if __name__ == "__main__":
    main()
