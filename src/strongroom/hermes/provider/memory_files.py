"""Removes forgotten notes from the runtime's own memory files, `MEMORY.md` and `USER.md`.

These files are part of the prompt of every session. A changed file is also imported again, so a note that stays in it
would come back. Hermes' own code removes the note, under Hermes' own lock. If that code is not available, the file's
name is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from unicodedata import normalize

from strongroom.hermes.provider import turn_ids
from strongroom.hermes.provider.provider_home import ProviderHome
from strongroom.hermes.provider.speaker import FILES
from strongroom.model import Hit, Kind, LineInfo

SEPARATOR = "\n\u00a7\n"
"""The separator between two notes of a memory file."""
DIRECTORY = "memories"
_TARGETS = {FILES[target]: target for target in ("memory", "user")}


def is_note(line: LineInfo | Hit) -> bool:
    """Whether a line is a note that is, or was, in one of the memory files."""
    return line.kind == Kind.FACT and line.author in _TARGETS


def as_kept(home: ProviderHome, text: str) -> str:
    """The text of a note as it is stored in a line."""
    plain = turn_ids.storable(text)
    look = home.look
    return normalize("NFC", look.parts.mask.masked(plain)[0] if look.policy.keep.mask_secrets else plain)


def take_out(home: ProviderHome, notes: Iterable[Hit]) -> list[str]:
    """Remove notes from the memory files. Returns the names of the files from which a note could not be removed."""
    left: set[str] = set()
    for note in notes:
        target = _TARGETS[note.author]
        path = home.path / DIRECTORY / f"{target.upper()}.md"
        for entry in _entries(path):
            if as_kept(home, entry) == note.text and not _removed(path, target, entry):
                left.add(path.name)
    return sorted(left)


def _entries(path: Path) -> list[str]:
    try:
        return [entry.strip() for entry in path.read_text(encoding="utf-8").split(SEPARATOR)]
    except (OSError, UnicodeDecodeError):
        return []


def _removed(path: Path, target: str, entry: str) -> bool:
    try:
        tool = import_module("tools.memory_tool")
        if Path(tool.get_memory_dir()).resolve() != path.parent.resolve():
            return False  # another profile is active in this process
        return bool(tool.load_on_disk_store().remove(target, entry).get("success"))
    except (ImportError, AttributeError, OSError):
        return False
