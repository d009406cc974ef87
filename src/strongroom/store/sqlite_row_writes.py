"""Writes the changes of one request to the table of objects, in a transaction shared with other requests."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from strongroom.store import Delete, Effect, Expect, Lost, Purge, PutNew, Swap, Version

_SELECT_VERSION = "SELECT version FROM objects WHERE name = ?"
_SELECT_LIVE = "SELECT version FROM objects WHERE name = ? AND body IS NOT NULL"
_DELETE_ROW = "DELETE FROM objects WHERE version = ?"
_INSERT_ROW = "INSERT INTO objects (version, name, body) VALUES (?, ?, ?)"
_REPLACING = (Swap, Delete)
_CONDITIONAL = (Expect, *_REPLACING)


def apply(connection: apsw.Connection, effects: Sequence[Effect], version: Version) -> Version:
    """Check the conditions of a request and write its effects.

    A request that is Lost leaves no change in the transaction that it shares with others.
    """
    old = {effect.name: _find(connection, effect) for effect in effects if isinstance(effect, _CONDITIONAL)}
    start = version
    for effect in effects:  # new objects first: `_insert` undoes everything written so far
        if isinstance(effect, PutNew):
            version += 1
            _insert(connection, effect, version, start)
    for effect in effects:
        if isinstance(effect, Purge):
            span = (effect.prefix, end_of(effect.prefix))
            connection.execute("DELETE FROM objects WHERE name >= ? AND name < ?", span)
        elif isinstance(effect, _REPLACING):
            version += 1
            connection.execute(_DELETE_ROW, (old[effect.name],))
            connection.execute(_INSERT_ROW, (version, effect.name, None if isinstance(effect, Delete) else effect.body))
    return version


def _insert(connection: apsw.Connection, effect: PutNew, version: Version, start: Version) -> None:
    """Insert a new object.

    The unique index reports a name that is taken, which saves a query for each line.
    """
    try:
        connection.execute(_INSERT_ROW, (version, effect.name, effect.body))
    except apsw.ConstraintError as error:
        if getattr(error, "extendedresult", None) != apsw.SQLITE_CONSTRAINT_UNIQUE:
            raise
        # New objects are written before everything else, so this undoes all that the request has written.
        connection.execute("DELETE FROM objects WHERE version > ?", (start,))
        raise Lost(effect.name) from None


def _find(connection: apsw.Connection, effect: Expect | Swap | Delete) -> Version:
    """The version of the row that an effect touches, or 0 for no row.

    Raises Lost if the effect requires another version.
    """
    replacing = not isinstance(effect, Expect)
    row = connection.execute(_SELECT_LIVE if replacing else _SELECT_VERSION, (effect.name,)).fetchone()
    found = int(row[0]) if row else 0
    if found != effect.version or (replacing and not found):  # version 0: there is nothing to replace
        raise Lost(effect.name)
    return found


def end_of(prefix: str) -> str:
    """The smallest name that sorts after all names with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else "\U0010ffff"
