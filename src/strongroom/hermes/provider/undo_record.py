"""Reads Hermes' own record of undone turns, its `state.db`, in Hermes' own process.

The module uses Python's `sqlite3`, as Hermes does. A second copy of SQLite in one process would not know the first
copy's locks, and would drop them when it closes the file. Another process could then rewrite the file while Hermes uses
it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from strongroom.errors import StoreUnavailable

_COLUMNS = {"active", "compacted", "role", "content", "session_id", "timestamp"}
# A text that was said again later and not undone stands, whatever happened to it before.
_UNDONE = """
SELECT m.content, m.timestamp FROM messages m WHERE m.session_id = ? AND m.role = 'user' AND m.active = 0
AND COALESCE(m.compacted, 0) = 0 AND NOT EXISTS (SELECT 1 FROM messages n WHERE
n.session_id = m.session_id AND n.role = 'user' AND n.content = m.content AND n.id > m.id
AND (n.active = 1 OR n.compacted = 1))
"""


@dataclass(frozen=True, slots=True)
class Undone:
    """A person's text in an undone turn, and its time in seconds since 1970."""

    said: str
    time: float


def undone_in(path: Path, session: str, *, wait: float = 1.0) -> list[Undone] | None:
    """The person's texts in undone turns of a session. None if Hermes has no such record.

    Hermes keeps these messages, and marks them differently from messages that a compression has dropped.
    """
    if not session or not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=wait, uri=True)) as database:
            if not {row[1] for row in database.execute("PRAGMA table_info(messages)")} >= _COLUMNS:
                return None
            rows = database.execute(_UNDONE, (session,)).fetchall()
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"the database {path} cannot be read: {type(error).__name__}", hint="run `hermes doctor`"
        ) from None
    return [Undone(said, float(time or 0)) for said, time in rows if isinstance(said, str)]
