"""The room of SQLite's journal: zeros behind all that was written to it.

SQLite writes over an old journal once it was checkpointed. One that was cut to nothing grows again with each commit,
and the file system then has to write down its new length besides, which takes longer. Zeros are no frames: SQLite
stops reading at them, also after a crash.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from strongroom.private_files import sync_data


def size_of(database: Path) -> int:
    """How long a database's journal is; nothing, if there is none."""
    try:
        return os.stat(_journal(database)).st_size
    except OSError:
        return 0


def lengthen(database: Path, size: int) -> None:
    """Make a journal at least so long. Nobody else may write to it meanwhile. On a disk without room it stays short."""
    with suppress(OSError):
        file = os.open(_journal(database), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            before = os.fstat(file).st_size
            # Else a file system without a journal of its own might, after a power loss, have old frames and then zeros.
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
