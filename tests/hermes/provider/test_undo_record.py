"""Hermes' own record of undone turns, read beside Hermes in its own process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.hermes.provider.undo_record import Undone, undone_in

pytestmark = pytest.mark.requirement("hermes-undo")

_TAKE_ALL = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
database.execute("PRAGMA locking_mode = exclusive")
try:
    database.execute("BEGIN EXCLUSIVE")
except sqlite3.OperationalError:
    print("refused")
"""


@pytest.fixture
def record(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database as Hermes has it open."""
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL,"
            " active INTEGER, compacted INTEGER)"
        )
        yield database


def _say(record: sqlite3.Connection, text: object, *, active: int = 0, compacted: int | None = 0) -> None:
    row = ("s1", "user", text, 5.0, active, compacted)
    record.execute(
        "INSERT INTO messages (session_id, role, content, timestamp, active, compacted) VALUES (?,?,?,?,?,?)", row
    )


def test_reading_it_leaves_hermes_locks_where_they_are(record: sqlite3.Connection, tmp_path: Path) -> None:
    """A second copy of SQLite would drop them when it closes the file, and another process could rewrite it."""
    _say(record, "hello")
    record.execute("BEGIN")
    record.execute("SELECT count(*) FROM messages").fetchall()
    assert undone_in(tmp_path / "state.db", "s1") == [Undone("hello", 5.0)]
    other = [sys.executable, "-c", _TAKE_ALL, str(tmp_path / "state.db")]
    assert subprocess.run(other, capture_output=True, text=True, check=True).stdout == "refused\n"


def test_only_what_was_undone_and_not_said_again_is_named(record: sqlite3.Connection, tmp_path: Path) -> None:
    for text in ("gone", "said again", "summed up", b"no text"):
        _say(record, text, compacted=int(text == "summed up"))
    _say(record, "said again", active=1)
    _say(record, "stands", active=1)
    _say(record, "older version", compacted=None)
    found = undone_in(tmp_path / "state.db", "s1")
    assert found is not None
    assert {one.said for one in found} == {"gone", "older version"}
    assert undone_in(tmp_path / "state.db", "s2") == []


def test_nothing_is_said_if_there_is_no_record(record: sqlite3.Connection, tmp_path: Path) -> None:
    assert undone_in(tmp_path / "none.db", "s1") is None
    assert undone_in(tmp_path / "state.db", "") is None
    record.execute("ALTER TABLE messages DROP COLUMN compacted")
    assert undone_in(tmp_path / "state.db", "s1") is None


@pytest.mark.parametrize("name", ["state.db", "a ?#%name.db"])
def test_file_that_is_no_database_is_named_as_such(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no database at all, " * 100)
    with pytest.raises(StoreUnavailable):
        undone_in(tmp_path / name, "s1")
