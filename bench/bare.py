"""The bare side: SQLite alone, writing rows of the same sizes into the same tables under the same pragmas.

It starts from a copy of the vault's own file. No gate, no crypto, no lock between processes, no head to check.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import apsw

from strongroom.store import Commit
from strongroom.store.group_commit import CommitRequest, GroupCommit
from strongroom.store.sqlite_schema import PRAGMAS

DATABASE = "vault.db"


def connect(file: Path) -> apsw.Connection:
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
    for name, value in PRAGMAS:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
    return connection


def copied(vault: Path, target: Path) -> Path:
    """A copy of a vault's database, page by page, through SQLite: the vault stays open meanwhile."""
    target.mkdir(parents=True)
    source, copy = apsw.Connection(str(vault / DATABASE)), apsw.Connection(str(target / DATABASE))
    with copy.backup("main", source, "main") as backup:
        backup.step()
    copy.close()
    source.close()
    return target / DATABASE


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the rows of one operation are."""

    prefix: str
    body: int
    entry: int

    @classmethod
    def of_last_put(cls, file: Path) -> Sizes:
        connection = apsw.Connection(str(file))
        name, body = connection.execute("SELECT name, body FROM objects ORDER BY version DESC").fetchone() or ("", b"")
        connection.close()
        return cls(name.rsplit("/", 1)[0], len(body), _last_entry(file))

    @classmethod
    def of_last_entry(cls, file: Path) -> Sizes:
        return cls("", 0, _last_entry(file))


def _last_entry(file: Path) -> int:
    connection = apsw.Connection(str(file))
    (entry,) = connection.execute("SELECT length(entry) FROM entries ORDER BY number DESC").fetchone() or (0,)
    connection.close()
    return int(entry)


class BareLog:
    """Writes rows without meaning, one transaction for one group."""

    def __init__(self, file: Path, sizes: Sizes) -> None:
        self._connection = connect(file)
        head = self._connection.execute("SELECT version, size FROM head").fetchone() or (0, 0)
        self._version, self._size = int(head[0]), int(head[1])
        self._prefix = sizes.prefix
        self._numbers = count()
        self._body = os.urandom(sizes.body)
        self._entry = os.urandom(sizes.entry)
        self._group = GroupCommit(self._write)

    def put(self) -> None:
        """One line and its log entry, in a transaction of their own."""
        self._transaction([self._name()])

    def put_grouped(self) -> None:
        """The same, sharing its transaction with whatever other threads write."""
        self._group.submit(CommitRequest([], [], 0))

    def replace(self) -> None:
        """The same row with other bytes, and a log entry, in a transaction of their own."""
        self._transaction([f"{self._prefix}/replaced"], "INSERT OR REPLACE")

    def read(self) -> None:
        """Read that row, and write a log entry."""
        name = f"{self._prefix}/replaced"
        self._connection.execute("SELECT version, body FROM objects WHERE name = ?", (name,)).fetchone()
        self.append()

    def append(self) -> None:
        """A log entry alone."""
        self._transaction([None])

    def close(self) -> None:
        self._connection.close()

    def _name(self) -> str:
        return f"{self._prefix}/7{next(self._numbers):025d}"

    def _write(self, group: Sequence[CommitRequest]) -> None:
        self._transaction([self._name() for _ in group])
        for request in group:
            request.commit = Commit(0, 0)

    def _transaction(self, names: Sequence[str | None], verb: str = "INSERT") -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for name in names:
            if name is not None:
                self._version += 1
                row = self._version, name, self._body
                execute(f"{verb} INTO objects (version, name, body) VALUES (?, ?, ?)", row)
            execute("INSERT INTO entries (number, leaf, entry) VALUES (?, ?, ?)", (self._size, bytes(32), self._entry))
            self._size += 1
        peaks = bytes(32 * self._size.bit_count())
        execute(
            "UPDATE head SET version = ?, size = ?, peaks = ?, time = ?, mac = ?",
            (self._version, self._size, peaks, 0, bytes(32)),
        )
        execute("COMMIT")
