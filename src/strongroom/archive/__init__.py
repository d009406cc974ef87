"""The portable archive: what an actor has, in one file, encrypted with a passphrase (docs/spec/archive.md).

`archive_format` encodes an archive. `export_import` and `document_transfer` read lines, profiles and documents from a
memory for it, and write them into a memory. `archive_file` reads and writes the file. All of it goes through `Memory`,
so the gate decides about each line and each document, and the log names each of them.
"""

from strongroom.archive.archive_file import read_archive, write_archive, write_whole
from strongroom.archive.archive_format import Archive, ArchivedDocument, ArchivedLine, ArchivedProfile, Header
from strongroom.archive.export_import import export_lines, import_lines
from strongroom.archive.import_result import ImportResult

__all__ = [
    "Archive",
    "ArchivedDocument",
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
