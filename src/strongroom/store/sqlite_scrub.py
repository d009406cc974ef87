"""Removal of deleted bytes from SQLite's journal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw

from strongroom.store import wal_preallocate

DUE = "vault.scrub"
"""The name of a file that exists while a scrub (removal of deleted bytes) is due."""
_ROOM = 1024 * 1024
"""The most bytes that the journal keeps on disk after a scrub: room for some dozen turns of a conversation."""


def mark(file: Path, *, due: bool) -> None:
    """Record that a scrub is due, or no longer due."""
    with suppress(OSError):  # on a full disk it is not recorded, and the next scrub runs anyway
        if due:
            file.touch(0o600)
        else:
            file.unlink(missing_ok=True)


def empty_journal(connection: apsw.Connection, database: Path) -> bool:
    """Empty the journal, and then restore its length.

    The length is restored because a commit that has to extend the journal takes much longer.
    """
    room = min(wal_preallocate.size_of(database), _ROOM)
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    if busy:
        return False
    try:
        connection.execute("BEGIN IMMEDIATE")  # keeps other processes from writing or truncating the journal
        wal_preallocate.lengthen(database, room)
    except apsw.BusyError:
        return True  # it is empty, and another process is filling it
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return True
