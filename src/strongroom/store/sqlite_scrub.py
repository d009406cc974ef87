"""Removing what deleted bytes left in SQLite's journal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw

from strongroom.store import wal_preallocate

DUE = "vault.scrub"
"""A file that is there while a scrub is due."""
_ROOM = 1024 * 1024
"""Bytes of room at most that a scrubbed journal keeps: some dozen turns."""


def mark(file: Path, *, due: bool) -> None:
    """Write down that a scrub is due, or that none is any more."""
    with suppress(OSError):  # on a full disk nothing is written down, and the next scrub does it all the same
        if due:
            file.touch(0o600)
        else:
            file.unlink(missing_ok=True)


def empty_journal(connection: apsw.Connection, database: Path) -> bool:
    """Empty the journal, and then give it its room back: a commit that has to lengthen it takes much longer."""
    room = min(wal_preallocate.size_of(database), _ROOM)
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    if busy:
        return False
    try:
        connection.execute("BEGIN IMMEDIATE")  # nobody else writes to the journal meanwhile, or cuts it
        wal_preallocate.lengthen(database, room)
    except apsw.BusyError:
        return True  # it is empty, and somebody fills it
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return True
