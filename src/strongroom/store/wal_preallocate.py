"""Preallocation of SQLite's journal: zeros follow the bytes that were written to it.

After a checkpoint SQLite overwrites the old journal. A truncated one grows again with each commit, and the file system
then has to flush its new length too, which takes longer. Zeros are not valid frames: SQLite stops reading at them, even
after a crash.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from strongroom.private_files import sync_data


def size_of(database: Path) -> int:
    """The length of a database's journal in bytes; 0 if there is no journal."""
    try:
        return os.stat(_journal(database)).st_size
    except OSError:
        return 0


def lengthen(database: Path, size: int) -> None:
    """Extend a journal to at least `size` bytes. No one else may write to it meanwhile.

    On a full disk the journal keeps its length.
    """
    with suppress(OSError):
        file = os.open(_journal(database), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            before = os.fstat(file).st_size
            # Otherwise a file system without a journal of its own might, after a power failure, have old frames and
            # then zeros.
            os.fsync(file)
            try:
                _fill(file, before, size)
            except OSError:
                os.ftruncate(file, before)
        finally:
            os.close(file)


def _fill(file: int, start: int, stop: int) -> None:
    while start < stop:
        start += os.pwrite(file, bytes(stop - start), start)
    sync_data(file)


def _journal(database: Path) -> str:
    return f"{database}-wal"
