"""What earlier versions wrote, as they wrote it: tests/fixtures, one directory for each version that froze its own.

A frozen file is opened by every later version and never written again. `scripts/make_fixtures.py` makes those of a new
version; the manifest's hash is then added here.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from strongroom import Memory, Vault
from strongroom.model import Hit
from tests.conftest import Clock

FIXTURES = Path(__file__).parents[1] / "fixtures"
PINNED = {"v0.1": "d5ccf1c1d6f41e26cb1aa202799a0998b061c8488ce4276d46f55beb7e9c33e3"}
"""The SHA-256 of each version's manifest, which has those of the other files."""


@dataclass(frozen=True)
class Frozen:
    """The fixtures of one version."""

    place: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / "manifest.json").read_text())
        return found

    def clock(self) -> Clock:
        """A clock that stands at the time at which the last of it was made."""
        clock = Clock()
        clock.millis = self.manifest["now"]
        return clock

    def files(self, name: str) -> dict[str, bytes]:
        """What is in one of its archives."""
        with tarfile.open(self.place / f"{name}.tar.xz") as archive:
            return {one.name: _body(archive, one) for one in archive.getmembers()}

    def unpack(self, name: str, target: Path) -> Path:
        """The files of one of its archives in a directory, for their owner alone."""
        for path, body in self.files(name).items():
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            place.write_bytes(body)
            place.chmod(0o600)
        return target


def _body(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None, f"{member.name} is no file"
    return file.read()


def versions() -> list[Frozen]:
    """Every version that froze its fixtures, the oldest first."""
    return [Frozen(FIXTURES / name) for name in PINNED]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# What a manifest says of a vault, compared with the vault.


def asked(vault: Vault, said: dict[str, Any]) -> dict[str, str]:
    """The first line that each question of the manifest finds."""
    found = {}
    for one in said["queries"]:
        memory = vault.memory(said["caps"][one["cap"]])
        hits = memory.get(one["query"], namespaces=one.get("namespaces"), k=one.get("k"))
        found[f"{one['cap']}: {one['query']}"] = hits[0].text
    return found


def expected(said: dict[str, Any]) -> dict[str, str]:
    return {f"{one['cap']}: {one['query']}": one["first"] for one in said["queries"]}


def lines(memory: Memory) -> list[Hit]:
    """Every line of a cap, in the order of their ids."""
    ids = [info.id for info in memory.list(limit=1000).lines]
    return [hit for start in range(0, len(ids), 20) for hit in memory.get(ids=ids[start : start + 20])]


def as_said(hit: Hit, said: dict[str, Any]) -> dict[str, Any]:
    """The members of a line that the manifest names, as it names them."""
    have = {"id": hit.id, "text": hit.text, "namespace": hit.namespace, "time": hit.time.isoformat()}
    have |= {"session": hit.session, "author": hit.author, "kind": str(hit.kind)}
    return {name: have[name] for name in said}
