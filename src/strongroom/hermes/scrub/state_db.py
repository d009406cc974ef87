"""Finds recalled text in Hermes' `state.db`, and removes it so that no byte of it stays in the file.

1. All rows are changed in one transaction, and the freed bytes are overwritten. A database that stays busy is not
   changed.
2. Hermes' own triggers update its search index. The index is merged in the same transaction, because its pages hold
   deleted text until a merge.
3. The write-ahead log is emptied.
4. The file is rewritten if no other process has it open: pages that Hermes freed earlier may still hold text.

The caller decides which lines are forgotten (`is_gone`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from strongroom.errors import StoreUnavailable
from strongroom.hermes.scrub import recalled_text
from strongroom.hermes.scrub.session_facts import COLUMNS, Facts
from strongroom.model import LineId

FILE = "state.db"
WAIT = 10.0
"""Seconds to wait for a busy database."""
_ENDING = re.compile(rb'" \[([0-7][0-9A-HJKMNP-TV-Z]{25})\]')
_CHUNK = 1 << 22
_OVERLAP = 64

IsGone = Callable[[Facts, LineId], bool]


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """The result of a scrub: the number of changed messages, and the removed lines."""

    messages: int
    gone: frozenset[LineId]


@dataclass(frozen=True, slots=True)
class Finished:
    """How a scrub ended: whether the write-ahead log was emptied, and whether the file was rewritten."""

    is_emptied: bool
    is_rewritten: bool


@dataclass(frozen=True, slots=True)
class _Message:
    row: int
    role: str
    content: str
    sent: str
    facts: Facts

    def ids(self) -> set[LineId]:
        if self.role == "tool":
            return recalled_text.result_ids(self.content)
        return recalled_text.sent_ids(self.content, self.sent)

    def cut(self, is_gone: IsGone) -> recalled_text.Cut:
        def gone(one: LineId) -> bool:
            return is_gone(self.facts, one)

        if self.role == "tool":
            return recalled_text.cut_result(self.content, gone)
        return recalled_text.cut_sent(self.content, self.sent, gone)


def find_recalled(path: Path) -> dict[Facts, set[LineId]]:
    """Find the recalled lines in the database, grouped by the facts of their sessions. Nothing is changed."""
    found: dict[Facts, set[LineId]] = {}
    with _opened(path, apsw.SQLITE_OPEN_READONLY, WAIT) as database:
        for message in _messages(database):
            if ids := message.ids():
                found.setdefault(message.facts, set()).update(ids)
    return found


def facts_of(path: Path, session: str, *, wait: float = WAIT) -> Facts | None:
    """The facts of a session; None if the database does not have the session."""
    if not session or not path.exists():
        return None
    with _opened(path, apsw.SQLITE_OPEN_READONLY, wait) as database:
        query = f"SELECT {_facts(database)} FROM sessions s WHERE s.id = ?"  # noqa: S608 - names of columns
        row = database.execute(query, (session,)).fetchone()
    return None if row is None else Facts.told(dict(zip(COLUMNS, row, strict=True)))


def scrub(path: Path, is_gone: IsGone, *, wait: float = WAIT) -> Scrubbed:
    """Remove every forgotten line, in one transaction. Raises StoreUnavailable if the database stays busy."""
    with _opened(path, apsw.SQLITE_OPEN_READWRITE, wait) as database:
        database.pragma("secure_delete", True)
        database.execute("BEGIN IMMEDIATE")
        try:
            done = _scrubbed(database, is_gone)
            database.execute("COMMIT")
        except BaseException:
            with suppress(apsw.Error):
                database.execute("ROLLBACK")
            raise
    return done


def finish(path: Path, *, wait: float = WAIT) -> Finished:
    """Empty the write-ahead log, and rewrite the file if no other process has it open. Can be repeated safely."""
    with _opened(path, apsw.SQLITE_OPEN_READWRITE, wait) as database:
        (row,) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        is_emptied = row[0] == 0
    return Finished(is_emptied, _rewritten(path))


def traces(path: Path, gone: frozenset[LineId]) -> frozenset[LineId]:
    """The forgotten lines whose recalled text is still in the raw bytes of the database's files."""
    there: set[str] = set()
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(FileNotFoundError), file.open("rb") as bytes_of:
            before = b""
            while chunk := bytes_of.read(_CHUNK):
                there.update(found[1].decode() for found in _ENDING.finditer(before + chunk))
                before = chunk[-_OVERLAP:]
    return frozenset(one for one in gone if one in there)


def _rewritten(path: Path) -> bool:
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as database:
            # Requested before the first access, this lock is refused while another process has the file open.
            database.pragma("locking_mode", "exclusive")
            database.pragma("secure_delete", True)
            database.execute("BEGIN EXCLUSIVE; COMMIT")
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.BusyError:
        return False
    except apsw.Error as error:
        raise _unusable(path, error) from None
    return True


@contextmanager
def _opened(path: Path, flags: int, wait: float) -> Iterator[apsw.Connection]:
    try:
        with closing(apsw.Connection(str(path), flags=flags)) as database:
            database.set_busy_timeout(round(wait * 1000))
            yield database
    except apsw.Error as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: apsw.Error) -> StoreUnavailable:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable(
            f"the database {path} is in use by Hermes",
            hint="stop Hermes, or wait until it is idle, and run this command again",
        )
    return StoreUnavailable(
        f"the database {path} cannot be used: {type(error).__name__}",
        hint="`hermes doctor` says more; nothing was changed",
    )


def _scrubbed(database: apsw.Connection, is_gone: IsGone) -> Scrubbed:
    changed: list[int] = []
    gone: set[LineId] = set()
    is_index_touched = False
    for message in list(_messages(database)):
        cut = message.cut(is_gone)
        if cut.gone:
            is_tool = message.role == "tool"
            column = "content" if is_tool else "api_content"
            database.execute(f"UPDATE messages SET {column} = ? WHERE id = ?", (cut.text, message.row))  # noqa: S608 - one of two names
            is_index_touched = is_index_touched or is_tool
            changed.append(message.row)
            gone.update(cut.gone)
    if is_index_touched:
        _clean_index(database, changed)
    return Scrubbed(len(changed), frozenset(gone))


def _messages(database: apsw.Connection) -> Iterator[_Message]:
    """The messages that may hold recalled text, each with the facts of its session."""
    if not _columns(database, "messages"):
        return
    facts = _facts(database)
    sent = "m.api_content" if "api_content" in _columns(database, "messages") else "NULL"
    rows = database.execute(
        f"SELECT m.id, m.role, m.content, {sent}, {facts} FROM messages m "  # noqa: S608 - names of columns
        "LEFT JOIN sessions s ON s.id = m.session_id "
        f"WHERE (m.role = 'tool' AND m.tool_name LIKE '%strongroom%') OR {sent} LIKE '%[%]%'"
    )
    for row, role, content, kept, *said in rows:
        known = Facts.told(dict(zip(COLUMNS, said, strict=True)))
        yield _Message(row, role, _text(content), _text(kept), known)


def _facts(database: apsw.Connection) -> str:
    """The SQL column list for a session's facts, with NULL for each column that this version of Hermes lacks."""
    there = _columns(database, "sessions")
    return ", ".join(f"s.{column}" if column in there else "NULL" for column in COLUMNS.values())


def _clean_index(database: apsw.Connection, changed: list[int]) -> None:
    """Remove deleted text from the search index. If an index has no trigger, its rows of changed messages are deleted
    too.
    """
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%messages_fts%'"
    for (name,) in list(database.execute(tables)):
        table = '"' + name.replace('"', '""') + '"'
        triggers = "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE ?"
        if not database.execute(triggers, (f"%AFTER UPDATE ON messages%INTO {name}(%",)).fetchone():
            database.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(row,) for row in changed])  # noqa: S608
        database.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")  # noqa: S608 - a quoted name


def _columns(database: apsw.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
