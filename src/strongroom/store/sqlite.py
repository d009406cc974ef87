"""The embedded store: one SQLite file in WAL mode, shared by any number of threads and processes.

A row's id is its version: a change writes a new row at the end and removes the old one, so `changes` is a range scan of
the table itself. Commits of concurrent threads share one transaction (group commit). A pair of file locks in front of
`BEGIN IMMEDIATE` keeps processes fair, since SQLite's own busy handler starves the slower one (`fair_lock`).
"""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import apsw

from strongroom.crypto import merkle_log
from strongroom.errors import AuditUnavailable, ClockBehind, StoreUnavailable, Tampered, Unavailable
from strongroom.store import (
    ANY,
    CLOCK_LEEWAY,
    Commit,
    Delete,
    Effect,
    Expect,
    Head,
    HeadMac,
    Lost,
    Object,
    Pending,
    PutNew,
    Stale,
    Swap,
    Version,
    check_derived,
    sqlite_scrub,
)
from strongroom.store.fair_lock import FairLock
from strongroom.store.group_commit import CommitRequest, GroupCommit
from strongroom.store.sqlite_copy import DATABASE, copy_database
from strongroom.store.sqlite_errors import broken, damaged, headless, refused, uncopied
from strongroom.store.sqlite_files import already_there, check_there, drafted, size_of
from strongroom.store.sqlite_row_writes import apply, end_of
from strongroom.store.sqlite_schema import SCHEMA, SELECT_SCHEMA, Rows, configure, own_schema

_BUSY_SECONDS = 10.0
_SCRUB_SECONDS = 0.25  # a reader elsewhere must not block all writers; a scrub can be done later

_NO_BODY = "CASE WHEN body IS NULL THEN NULL ELSE x'' END"
# One lower bound each: with two, SQLite seeks to the first and steps over everything between, for every page.
_PAGES = {
    (body, lower): f"SELECT name, version, {body} FROM objects WHERE name {lower} ? AND name < ? ORDER BY name LIMIT ?"  # noqa: S608
    for body in ("body", _NO_BODY)
    for lower in (">", ">=")
}
_SELECT_CHANGES = f"SELECT name, version, {_NO_BODY} FROM objects WHERE version > ? ORDER BY version LIMIT ?"  # noqa: S608
_SELECT_HEAD = "SELECT version, size, peaks, time, mac FROM head"
_INSERT_HEAD = "INSERT INTO head (one, version, size, peaks, time, mac) VALUES (1, ?, ?, ?, ?, ?)"
_UPDATE_HEAD = "UPDATE head SET version = ?, size = ?, peaks = ?, time = ?, mac = ?"
_SELECT_ENTRIES = "SELECT number, leaf, entry FROM entries WHERE number >= ? AND number < ? ORDER BY number LIMIT 1024"
_ARCHIVE = "UPDATE entries SET entry = NULL WHERE number < ? AND entry IS NOT NULL"
_INSERT_ENTRY = "INSERT INTO entries (number, leaf, entry) VALUES (?, ?, ?)"


T = TypeVar("T")


class SqliteConnections:
    """Connections to one SQLite file, each for one thread at a time, and the lock that keeps writers fair."""

    def __init__(self, directory: Path, file: str = DATABASE) -> None:
        self._directory = directory
        self._file = directory / file
        self._pid = os.getpid()
        self._idle: deque[apsw.Connection] = deque()
        self._closed = False
        self._lock = FairLock(directory, _BUSY_SECONDS)

    def close(self) -> None:
        self._closed = True
        if self._pid == os.getpid():
            self._drain()
            self._lock.close()

    def _drain(self) -> None:
        """Close the idle connections. Each thread closes its own connection when it is done."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _transaction(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` in an exclusive write transaction: committed if `work` returns, rolled back if it raises."""
        connection = self._take()
        try:
            with self._lock:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    done = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                return done
        finally:
            self._give_back(connection)

    def _read(self, query: str, values: tuple[str | int, ...], *, patience: float | None = None) -> Rows:
        connection = self._take()
        try:
            if patience is not None:
                connection.set_busy_timeout(int(patience * 1000))
            return connection.execute(query, values).fetchall()
        except apsw.Error as error:
            raise broken(error) from None
        except UnicodeDecodeError:
            raise damaged() from None
        finally:
            if patience is not None:
                connection.set_busy_timeout(int(_BUSY_SECONDS * 1000))
            self._give_back(connection)

    def _usable(self) -> None:
        """Raise if the store is closed, or was opened before a fork: neither SQLite nor file locks survive a fork."""
        if self._closed or self._pid != os.getpid():
            raise StoreUnavailable(
                "the vault is closed" if self._closed else "the vault was opened before a fork",
                hint="open the vault again in this process",
            )

    def _take(self) -> apsw.Connection:
        """A connection for this thread alone, until it is given back."""
        self._usable()
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _give_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:  # interrupted at the wrong moment: it would block all writers
            connection.close()
            return
        self._idle.append(connection)
        if self._closed:
            self._drain()

    def _connect(self) -> apsw.Connection:
        try:
            connection = apsw.Connection(str(self._file), flags=apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_timeout(int(_BUSY_SECONDS * 1000))
            configure(connection, self._directory)
        except apsw.Error as error:
            raise broken(error) from None
        return connection


class SqliteReader(SqliteConnections):
    """The part of a SQLite store that reads. It needs no keys."""

    def get(self, name: str) -> Object | None:
        rows = self._read("SELECT name, version, body FROM objects WHERE name = ?", (name,))
        return _object(rows[0]) if rows else None

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return self._page("body", prefix, after, limit)

    def names(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return self._page(_NO_BODY, prefix, after, limit)

    def _page(self, body: str, prefix: str, after: str, limit: int) -> Sequence[Object]:
        lower, bound = (">", after) if after >= prefix else (">=", prefix)
        found = [_object(row) for row in self._read(_PAGES[body, lower], (bound, end_of(prefix), limit))]
        # In a damaged index a seek may end anywhere, and paging would loop.
        _check_rising([after, *[thing.name for thing in found]])
        return found

    def scope(self, name: str) -> str:  # noqa: ARG002 - it is all one
        return ""

    def version(self, scope: str = "") -> Version:  # noqa: ARG002
        rows = self._read("SELECT version FROM head", ())
        if not rows or type(rows[0][0]) is not int:
            raise headless()
        version: Version = rows[0][0]
        return version

    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return [self.version()] * len(scopes)

    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:  # noqa: ARG002
        found = [_object(row) for row in self._read(_SELECT_CHANGES, (after, limit))]
        _check_rising([after, *[thing.version for thing in found]])
        return found

    def head(self) -> Head:
        return _head(self._read(_SELECT_HEAD, ()))[1]

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        while rows := self._read(_SELECT_ENTRIES, (start, stop)):
            for number, leaf, entry in rows:
                if type(leaf) is not bytes or not (entry is None or type(entry) is bytes):
                    raise damaged()
                yield number, leaf, entry
                start = number + 1

    def directory(self) -> Path:
        return self._directory

    def scrub_is_due(self) -> bool:
        return (self._directory / sqlite_scrub.DUE).exists()

    def _check_schema(self) -> None:
        """Raise Tampered for tables, indexes or triggers that are not ours: such a table could keep deleted bytes."""
        if sorted(self._read(SELECT_SCHEMA, ())) != sorted(own_schema()):
            raise Tampered(
                "the vault's database does not have the schema of a vault",
                hint="keep the files as they are, and restore a backup",
            )


class SqliteStore(SqliteReader):
    """A `Store` in one SQLite file."""

    is_whole = True
    is_distant = False

    def __init__(self, directory: Path, file: str = DATABASE) -> None:
        super().__init__(directory, file)
        self._due = directory / sqlite_scrub.DUE
        self._group = GroupCommit(self._write)
        self._mac: HeadMac | None = None
        self._trusted: Head | None = None
        self._edge: merkle_log.Range | None = None
        """The right edge of the log's Merkle tree at the trusted head."""

    @classmethod
    def create(
        cls, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> SqliteStore:
        directory = Path(location)
        if size_of(directory) is not None:
            raise already_there(directory)
        with drafted(directory) as draft:
            cls._fill(directory, draft, mac, entries, effects, time)
        store = cls.open(location)
        store.authenticate(mac)
        return store

    @classmethod
    def _fill(
        cls,
        directory: Path,
        draft: str,
        mac: HeadMac,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
    ) -> None:
        store = cls(directory, draft)
        store._mac = mac
        try:
            empty = merkle_log.Range().packed()
            row = (0, 0, empty, 0, mac.sign(0, empty, 0))
            store._transaction(lambda connection: (connection.execute(SCHEMA), connection.execute(_INSERT_HEAD, row)))
            store.commit(entries, effects, time)
            # Closing would do this too, but ignores a failure, and the draft's journal is not kept.
            if not store.scrub():
                raise StoreUnavailable(f"cannot make a vault in {directory}: its journal cannot be checkpointed")
        except apsw.Error as error:
            raise refused(error) from None
        finally:
            store.close()

    @classmethod
    def open(cls, location: str) -> SqliteStore:
        directory = Path(location)
        check_there(directory)
        store = cls(directory)
        try:
            store.head()
            store._check_schema()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def copy(cls, location: str, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        source, directory = Path(location), Path(target)
        check_there(source)
        if size_of(directory) is not None:
            raise already_there(directory)
        with drafted(directory) as draft:
            try:
                copy_database(source / DATABASE, directory / draft, progress)
            except apsw.Error as error:
                raise uncopied(error, directory) from None

    def authenticate(self, mac: HeadMac) -> None:
        mac.check(self.head())
        self._mac = mac

    # Derived objects.

    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        return self._derived(PutNew(name, body), *given)

    def compare_and_swap(self, name: str, body: bytes, version: Version) -> Version:
        return self._derived(Swap(name, body, version))

    def delete(self, name: str, version: Version) -> Version:
        return self._derived(Delete(name, version))

    # The ledger.

    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        return self._group.submit(CommitRequest(entries, effects, time, accept_clock=accept_clock, since=since))

    def commit_all(self, pending: Sequence[Pending]) -> Sequence[Commit | Exception]:
        requests = [CommitRequest(one.entries, one.effects, one.time, since=one.since) for one in pending]
        return self._group.submit_all(requests)

    def archive(self, stop: int) -> None:
        self._usable()
        self._authenticated()
        try:
            self._transaction(lambda connection: connection.execute(_ARCHIVE, (stop,)))
        except apsw.Error as error:
            raise refused(error) from None

    def scrub(self) -> bool:
        try:
            self._usable()
            # Marked before the attempt: if this process is killed, the next one sees that a scrub is due.
            sqlite_scrub.mark(self._due, due=True)
            with self._lock:
                connection = self._take()
                try:
                    connection.set_busy_timeout(int(_SCRUB_SECONDS * 1000))
                    done = sqlite_scrub.empty_journal(connection, self._file)
                except apsw.Error as error:
                    raise broken(error) from None
                finally:
                    connection.set_busy_timeout(int(_BUSY_SECONDS * 1000))
                    self._give_back(connection)
                sqlite_scrub.mark(self._due, due=not done)
                return done
        except Unavailable:
            return False

    def group_sizes(self) -> tuple[Mapping[int, int], int]:
        return dict(self._group.sizes), self._group.grouped

    # Writing.

    def _derived(self, effect: PutNew | Swap | Delete, *given: Expect) -> Version:
        check_derived(effect.name)
        return self._group.submit(CommitRequest([], [*given, effect], -1)).version

    def _write(self, group: Sequence[CommitRequest]) -> None:
        edge, self._edge = self._edge, None  # taken out while it grows: a failed transaction must not leave it
        try:
            self._trusted, self._edge = self._transaction(lambda connection: self._append(connection, group, edge))
        except apsw.Error as error:
            raise refused(error) from None

    def _append(
        self, connection: apsw.Connection, group: Sequence[CommitRequest], edge: merkle_log.Range | None
    ) -> tuple[Head, merkle_log.Range]:
        """Write a group of commits. Returns the log's new head and edge, valid once the transaction is committed."""
        version, head = _head(connection.execute(_SELECT_HEAD).fetchall())
        if edge is None or self._trusted != head:
            self._check(head)
            edge = merkle_log.Range.of(head.size, head.peaks)
        latest = head.time
        for request in group:
            if 0 <= request.time < latest - CLOCK_LEEWAY and not request.accept_clock:
                request.error = ClockBehind(
                    "this machine's clock is far behind the log's latest entry",
                    hint="set this machine's clock; if it is right, the owner can call vault.accept_clock()",
                )
                continue
            try:
                if not {version}.issuperset(request.since.values()):
                    raise Stale({"": version})
                if request.effects:
                    version = apply(connection, request.effects, version)
            except Lost as lost:
                request.error = lost
                continue
            request.commit = Commit(edge.size, version)
            for leaf, entry in zip(request.leaves, request.entries, strict=True):
                connection.execute(_INSERT_ENTRY, (edge.size, leaf, entry))
                edge.append(leaf)
            latest = request.time if request.accept_clock else max(latest, request.time)
        peaks = edge.packed()
        mac = self._authenticated().sign(edge.size, peaks, latest)
        connection.execute(_UPDATE_HEAD, (version, edge.size, peaks, latest, mac))
        return Head(edge.size, peaks, latest, mac), edge

    def _check(self, head: Head) -> None:
        # A head that this process wrote last is trusted; another process's is authenticated.
        if self._trusted != head:
            self._authenticated().check(head)
            if self._trusted is not None and head.size < self._trusted.size:
                raise Tampered(
                    "the log has lost entries that this process wrote",
                    hint="run vault.audit.verify(); it lists every fault",
                )

    def _authenticated(self) -> HeadMac:
        if self._mac is None:
            raise AuditUnavailable("the vault's keys are not open, so nothing can be logged")
        return self._mac


def _head(rows: Rows) -> tuple[Version, Head]:
    """The store's version and the log's head, from the one row that holds both."""
    if len(rows) != 1:
        raise headless()
    version, size, peaks, time, mac = rows[0]
    whole = type(version) is int and type(size) is int and type(time) is int
    if not whole or type(peaks) is not bytes or type(mac) is not bytes or size < 0 or time < 0:
        raise headless()
    return version, Head(size, peaks, time, mac)


def _object(row: tuple[Any, ...]) -> Object:
    """Convert a row to an object. Its types are checked: a STRICT table does not prevent edits of the file."""
    name, version, body = row
    if type(name) is not str or type(version) is not int or not (body is None or type(body) is bytes):
        raise damaged()
    return Object(name, version, body)


def _check_rising(keys: Sequence[Any]) -> None:
    if not all(map(operator.lt, keys, islice(keys, 1, None))):
        raise damaged()
