"""Files of a fixture in one tar.xz: sorted, without owners or times, so that the same files make the same bytes."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

_MADE_ANEW = ("vault.turn", "vault.lock", "vault.db-shm", "rotation.lock")


def files_below(root: Path, *names: str) -> dict[str, bytes]:
    """The files below some directories of `root`, by their path from there; not those that a process makes anew."""
    places = [root / name for name in names] or [root]
    found = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place])]
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in found
        if path.is_file() and not path.is_symlink() and path.name not in _MADE_ANEW
    }


def pack(target: Path, files: Mapping[str, bytes]) -> None:
    """Write them; a file of keys is readable by its owner alone, or it would be refused."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as archive:
        for name, body in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(body), 0o600
            archive.addfile(member, io.BytesIO(body))
