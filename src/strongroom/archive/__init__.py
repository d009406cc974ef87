"""The portable archive: an actor's lines and profiles in one file, encrypted with a passphrase (docs/spec/archive.md).

`archive_format` encodes an archive. `export_import` reads lines from a memory for it, and puts its lines into a memory.
`archive_file` reads and writes the file. Lines are read and put only through `Memory`, so the gate decides about each
line and the log names each line.
"""

from strongroom.archive.archive_file import read_archive, write_archive, write_whole
from strongroom.archive.archive_format import Archive, ArchivedLine, ArchivedProfile, Header
from strongroom.archive.export_import import ImportResult, export_lines, import_lines

__all__ = [
    "Archive",
    "ArchivedLine",
    "ArchivedProfile",
    "Header",
    "ImportResult",
    "export_lines",
    "import_lines",
    "read_archive",
    "write_archive",
    "write_whole",
]
