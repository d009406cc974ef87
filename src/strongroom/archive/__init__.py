"""The portable archive: an actor's lines and profiles in one file, encrypted to a passphrase (docs/spec/archive.md).

`archive_format` is the bytes, `export_import` moves lines out of a memory and into one, `archive_file` reads and writes
the file.
Lines move through `Memory` alone, so the gate decides about each and the log names each.
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
