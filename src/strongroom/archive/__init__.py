"""The portable archive: an actor's lines and profiles in one file, encrypted to a passphrase (docs/spec/archive.md).

`format` is the bytes, `moving` takes lines out of a memory and brings them into one, `files` reads and writes the file.
Lines move through `Memory` alone, so the gate decides about each and the log names each.
"""

from strongroom.archive.files import read_archive, write_archive, write_whole
from strongroom.archive.format import Archive, ArchivedLine, ArchivedProfile, Header
from strongroom.archive.moving import Outcome, export_lines, import_lines

__all__ = [
    "Archive",
    "ArchivedLine",
    "ArchivedProfile",
    "Header",
    "Outcome",
    "export_lines",
    "import_lines",
    "read_archive",
    "write_archive",
    "write_whole",
]
