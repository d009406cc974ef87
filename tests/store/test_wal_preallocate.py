"""The room of SQLite's journal: after a scrub it is as long as before and holds nothing, whatever happens then."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from strongroom.store import Delete, PutNew, sqlite_scrub, wal_preallocate
from strongroom.store.conformance.helpers import NOW, SuiteMac, everything
from strongroom.store.sqlite import SqliteStore
from tests.store.children import in_fork

MAC = SuiteMac()
DEADLOCK = 60
"""Only a test that fails waits so long."""
TOLD = b"what must not stay" * 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def store(place: Path) -> Iterator[SqliteStore]:
    made = SqliteStore.create(str(place), MAC, [b"made"], [PutNew("vault/format", b"1")], NOW)
    yield made
    made.close()


def _put(store: SqliteStore, name: str, body: bytes = b"a body") -> int:
    return store.commit([b"put"], [PutNew(name, body)], NOW).version


def _length(place: Path) -> int:
    return (place / "vault.db-wal").stat().st_size


def _as_after_a_kill(place: Path, there: Path) -> Path:
    """The files as they are now, without what only living processes share."""
    there.mkdir()
    for name in ("vault.db", "vault.db-wal"):
        shutil.copy(place / name, there / name)
    return there


def _check(place: Path) -> None:
    with sqlite3.connect(place / "vault.db") as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.requirement("journal-room")
def test_scrubbed_journal_keeps_its_length_and_nothing_else(store: SqliteStore, place: Path) -> None:
    version = _put(store, "things/a", TOLD)
    _put(store, "things/b")
    assert TOLD in (place / "vault.db-wal").read_bytes()
    store.commit([b"gone"], [Delete("things/a", version)], NOW)
    before = _length(place)
    assert store.scrub() is True
    assert (place / "vault.db-wal").read_bytes() == bytes(before)
    assert all(TOLD not in file.read_bytes() for file in place.iterdir())


@pytest.mark.requirement("journal-room")
def test_commits_within_the_room_do_not_lengthen_the_journal(store: SqliteStore, place: Path) -> None:
    for number in range(20):
        _put(store, f"things/{number}")
    store.scrub()
    before = _length(place)
    _put(store, "things/one more")
    assert _length(place) == before


@pytest.mark.requirement("journal-room")
@pytest.mark.parametrize("more", [0, 1, 5])
def test_process_that_dies_then_leaves_a_whole_vault(
    store: SqliteStore, place: Path, tmp_path: Path, more: int
) -> None:
    for number in range(20):
        _put(store, f"things/{number}")
    assert store.scrub() is True
    for number in range(more):
        _put(store, f"later/{number}")
    dead = _as_after_a_kill(place, tmp_path / "dead")
    opened = SqliteStore.open(str(dead))
    opened.authenticate(MAC)
    assert everything(opened) == everything(store)
    _put(opened, "things/after")
    opened.close()
    _check(dead)
    again = _as_after_a_kill(place, tmp_path / "read by another program")
    _check(again)


def test_another_process_goes_on_in_the_room(store: SqliteStore, place: Path) -> None:
    other = SqliteStore.open(str(place))
    other.authenticate(MAC)
    for number in range(20):
        _put(store if number % 2 else other, f"things/{number}")
        assert (other if number % 2 else store).scrub() is True
        assert len(store.names("things/")) == number + 1
    assert everything(other) == everything(store)
    other.close()
    _check(place)


def test_room_is_bounded(store: SqliteStore, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_scrub, "_ROOM", 10_000)
    for number in range(20):
        _put(store, f"things/{number}")
    assert _length(place) > 10_000
    store.scrub()
    assert _length(place) == 10_000


def test_journal_stays_short_on_a_full_disk(store: SqliteStore, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if offset:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(file, data[: len(data) // 2], offset)

    _put(store, "things/a")
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        assert store.scrub() is True
    assert _length(place) == 0
    _put(store, "things/b")
    assert len(store.names("things/")) == 2


def test_writer_beside_us_keeps_its_frames(store: SqliteStore, place: Path) -> None:
    """A lock of ours does not keep other programs away: SQLite's own does."""
    _put(store, "things/a")
    other = apsw.Connection(str(place / "vault.db"))
    other.execute("BEGIN IMMEDIATE")
    assert store.scrub() is False
    other.execute("UPDATE head SET time = time + 1")
    other.execute("COMMIT")
    other.close()
    assert store.scrub() is True
    _check(place)


def test_system_without_fdatasync_scrubs_too(store: SqliteStore, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fdatasync")
    _put(store, "things/a")
    before = _length(place)
    assert store.scrub() is True
    assert _length(place) == before


def test_interrupt_while_it_is_lengthened_keeps_nobody_out(
    store: SqliteStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    _put(store, "things/a")
    with monkeypatch.context() as patch:
        patch.setattr(wal_preallocate, "lengthen", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.scrub()
    other = SqliteStore.open(str(place))
    other.authenticate(MAC)
    _put(other, "things/b")
    _put(store, "things/c")
    other.close()


def test_connection_that_is_given_back_within_a_transaction_keeps_nobody_out(store: SqliteStore, place: Path) -> None:
    """An interrupt may come between any two steps."""
    connection = store._take()
    connection.execute("BEGIN IMMEDIATE")
    store._give_back(connection)
    other = SqliteStore.open(str(place))
    other.authenticate(MAC)
    _put(other, "things/a")
    _put(store, "things/b")
    other.close()


def test_fork_scrubs_nothing_and_waits_for_nobody(store: SqliteStore, place: Path) -> None:
    def scrubbed() -> str:
        signal.alarm(DEADLOCK)
        return str(store.scrub())

    with store._lock:
        assert in_fork(scrubbed) == "False"
    _put(store, "things/a")


def test_link_in_the_journals_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "vault.db-wal").symlink_to(victim)
    wal_preallocate.lengthen(tmp_path / "vault.db", 100)
    assert victim.read_bytes() == b"mine"
    wal_preallocate.lengthen(tmp_path / "nowhere.db", 100)
    assert not (tmp_path / "nowhere.db-wal").exists()
    assert wal_preallocate.size_of(tmp_path / "nowhere.db") == 0
