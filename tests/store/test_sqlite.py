"""What is SQLite's own: pragmas, modes, making a vault, forks, closing, locks between processes, damage."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.crypto import merkle_log
from strongroom.errors import StoreUnavailable, StrongroomError
from strongroom.store import Effect, Expect, HeadMac, Object, PutNew, sqlite, sqlite_schema
from strongroom.store.conformance.helpers import NOW, SuiteMac, everything
from strongroom.store.fair_lock import FairLock
from strongroom.store.sqlite import SqliteStore
from tests.store.children import Process, in_fork, reason_of

MAC = SuiteMac()


def _create(place: Path, body: bytes = b"1") -> SqliteStore:
    return SqliteStore.create(str(place), MAC, [b"made"], [PutNew("vault/format", body)], NOW)


def _open(place: Path) -> SqliteStore:
    store = SqliteStore.open(str(place))
    store.authenticate(MAC)
    return store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def store(place: Path) -> Iterator[SqliteStore]:
    made = _create(place)
    yield made
    made.close()


# Pragmas and modes.


@pytest.mark.requirement("store-pragmas")
def test_every_connection_has_its_pragmas(store: SqliteStore) -> None:
    wanted = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    assert wanted.items() <= dict(sqlite_schema.PRAGMAS).items()
    one, two = store._take(), store._take()
    assert one is not two
    for connection in (one, two):
        for name, value in sqlite_schema.PRAGMAS:
            assert connection.execute(f"PRAGMA {name}").fetchone() == (value,)
        store._give_back(connection)


@pytest.mark.requirement("store-pragmas")
@pytest.mark.parametrize("name", [name for name, _ in sqlite_schema.PRAGMAS])
def test_pragma_that_does_not_take_refuses_the_connection(
    store: SqliteStore, place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    class Deaf(apsw.Connection):
        def execute(self, statements: str, *values: Any, **more: Any) -> apsw.Cursor:
            asked = "SELECT 'other'" if statements == f"PRAGMA {name}" else statements
            return super().execute(asked, *values, **more)

    monkeypatch.setattr(apsw, "Connection", Deaf)
    assert reason_of(lambda: SqliteStore.open(str(place))) == "store_unavailable"
    assert reason_of(lambda: _create(place.with_name("other"))) == "store_unavailable"
    assert not (place.with_name("other") / "vault.db").exists()


@pytest.mark.requirement("store-pragmas")
def test_database_that_left_wal_mode_is_brought_back(place: Path) -> None:
    _create(place).close()
    with _sql(place) as connection:
        connection.execute("PRAGMA journal_mode = delete")
    store = _open(place)
    used = store._take()
    assert used.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store._give_back(used)
    store.close()


def test_every_directory_made_above_a_vault_is_for_the_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    before = os.umask(0)
    try:
        _create(tmp_path / "shared" / "data" / "strongroom" / "vault").close()
    finally:
        os.umask(before)
    above = tmp_path / "shared" / "data"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (above, *above.rglob("*")) if path.is_dir()} == {0o700}
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_vault_below_a_file_or_a_broken_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        for place in (tmp_path / name, tmp_path / name / "vault", tmp_path / name / "a" / "vault"):
            assert reason_of(lambda place=place: _create(place)) == "store_unavailable"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_nobody_else_can_read_the_files_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        store = _create(place)
        store.commit([b"e"], [PutNew("things/a", b"")], NOW)
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert set(found) == {"vault.db", "vault.db-wal", "vault.db-shm", "vault.turn", "vault.lock"}
        assert set(found.values()) == {0o600}
        store.close()
    finally:
        os.umask(before)


# Making one.


def test_creation_that_fails_half_way_leaves_no_vault_and_no_draft(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = SqliteStore._fill

    def broken(*args: Any) -> None:
        fill(*args)
        raise StoreUnavailable("the power failed")

    monkeypatch.setattr(SqliteStore, "_fill", broken)
    assert reason_of(lambda: _create(place)) == "store_unavailable"
    assert {path.name for path in place.iterdir()} <= {"vault.turn", "vault.lock"}
    monkeypatch.undo()
    _create(place).close()


def test_draft_whose_journal_cannot_be_written_back_is_no_vault(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "scrub", lambda _: False)
    assert reason_of(lambda: _create(place)) == "store_unavailable"
    assert reason_of(lambda: _open(place)) == "vault_missing"


def test_new_vault_is_whole_without_any_journal(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    link = os.link

    def look(source: Path, target: Path) -> None:
        seen.extend(path.name for path in place.iterdir() if path.name.endswith("-wal") and path.stat().st_size)
        link(source, target)

    monkeypatch.setattr(os, "link", look)
    store = _create(place)
    assert seen == []
    assert store.get("vault/format") is not None
    store.close()


def _fill_and_wait(pipe: Connection, place: Path) -> None:
    fill = SqliteStore._fill

    def slow(*args: Any) -> None:
        fill(*args)
        pipe.send("filled")
        pipe.recv()

    SqliteStore._fill = slow  # type: ignore[assignment,method-assign]
    _create(place)


def test_creator_that_is_killed_leaves_no_vault(place: Path) -> None:
    creator = Process(_fill_and_wait, place)
    assert creator.pipe.recv() == "filled"
    creator.kill()
    assert reason_of(lambda: _open(place)) == "vault_missing"
    store = _create(place, b"second")
    assert store.get("vault/format") == Object("vault/format", 1, b"second")
    store.close()


def test_later_of_two_creators_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = SqliteStore._fill
    first: list[SqliteStore] = []

    def overtaken(
        directory: Path, draft: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> None:
        fill(directory, draft, mac, entries, effects, time)
        if not first:
            monkeypatch.undo()
            first.append(_create(place, b"first"))

    monkeypatch.setattr(SqliteStore, "_fill", overtaken)
    assert reason_of(lambda: _create(place, b"second")) == "vault_exists"
    assert first[0].get("vault/format") == Object("vault/format", 1, b"first")
    first[0].close()


def _answer_when_told(pipe: Connection, place: Path, body: bytes) -> None:
    pipe.send("ready")
    while True:
        name = pipe.recv()
        pipe.send(reason_of(lambda: _create(place / name, body).close()))  # noqa: B023 - called at once


def test_one_of_two_processes_that_create_wins_and_the_other_is_told(tmp_path: Path) -> None:
    creators = [Process(_answer_when_told, tmp_path, body) for body in (b"one", b"two")]
    try:
        for creator in creators:
            assert creator.pipe.recv() == "ready"
        for name in map(str, range(10)):
            for creator in creators:
                creator.pipe.send(name)
            reasons = [creator.pipe.recv() for creator in creators]
            assert sorted(reasons) == ["", "vault_exists"]
            store = _open(tmp_path / name)
            assert store.get("vault/format") == Object("vault/format", 1, [b"one", b"two"][reasons.index("")])
            store.close()
            assert not [path for path in (tmp_path / name).iterdir() if path.name.startswith(".new-")]
    finally:
        for creator in creators:
            creator.kill()


# What is no vault.


@pytest.mark.requirement("bad-vault", "store-missing-broken")
def test_file_in_place_of_the_directory_is_neither_a_vault_nor_replaced(place: Path) -> None:
    place.write_text("something else")
    assert reason_of(lambda: _open(place)) == "vault_missing"
    assert reason_of(lambda: _create(place)) == "store_unavailable"
    assert place.read_text() == "something else"


@pytest.mark.requirement("bad-vault", "store-missing-broken")
@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"a text file\n" * 500, bytes(8192)])
def test_file_that_is_no_database_is_tampered_and_left_alone(place: Path, content: bytes) -> None:
    place.mkdir()
    (place / "vault.db").write_bytes(content)
    assert reason_of(lambda: _open(place)) == "tampered"
    assert reason_of(lambda: _create(place)) == "vault_exists"
    assert (place / "vault.db").read_bytes() == content


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the open files in /proc")
def test_vault_that_does_not_open_leaves_no_file_open(place: Path) -> None:
    place.mkdir()
    (place / "vault.db").write_bytes(b"a text file\n" * 500)
    assert reason_of(lambda: _open(place)) == "tampered"
    assert _files_open_below(place) == []
    (place / "vault.lock").unlink()
    (place / "vault.lock").mkdir()
    assert reason_of(lambda: _open(place)) == "store_unavailable"
    assert _files_open_below(place) == []


def _files_open_below(place: Path) -> list[str]:
    found: list[str] = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(handle)
        except FileNotFoundError:
            continue
        if target.startswith(str(place)):
            found.append(target)
    return found


# Forks and closing.


def test_forked_child_has_to_open_again(store: SqliteStore, place: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get("vault/format"),
        lambda: store.commit([b"e"], [], NOW),
        lambda: store.put_if_absent("a/derived/x", b""),
        lambda: store.archive(1),
    ]
    assert in_fork(lambda: " ".join(map(reason_of, calls))) == " ".join(["store_unavailable"] * 4)
    assert in_fork(lambda: str(_open(place).commit([b"child"], [], NOW).first)) == "1"
    assert store.commit([b"parent"], [], NOW).first == 2


def test_forked_child_cannot_let_go_of_its_parents_lock(store: SqliteStore, place: Path) -> None:
    other = os.open(place / "vault.lock", os.O_RDWR)
    try:
        with store._lock:
            assert in_fork(lambda: f"{store.scrub()} {reason_of(store.close)}") == "False "
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
    assert store.scrub()


def test_closing_while_threads_use_it_refuses_them_and_leaves_nothing_open(place: Path) -> None:
    store = _create(place)
    started = threading.Barrier(9)
    wrong: list[object] = []

    def use(call: Callable[[], object]) -> None:
        started.wait()
        try:
            while True:
                call()
        except StrongroomError as error:
            if error.reason != "store_unavailable":
                wrong.append(error)
        except BaseException as error:  # noqa: BLE001 - compared below
            wrong.append(error)

    calls: list[Callable[[], object]] = [
        lambda: store.get("vault/format"),
        lambda: store.list(""),
        lambda: list(store.entries(0, 5)),
        lambda: store.commit([b"e"], [], NOW),
    ]
    threads = [threading.Thread(target=use, args=(call,)) for call in calls * 2]
    for thread in threads:
        thread.start()
    started.wait()
    store.close()
    for thread in threads:
        thread.join()
    assert wrong == []
    if Path("/proc/self/fd").exists():
        assert _files_open_below(place) == []


def _shared_lock_is_held(place: Path) -> str:
    """Asked from another process: whether somebody holds the lock that keeps the WAL from being taken away."""
    with (place / "vault.db").open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # SQLite's shared range
        except OSError:
            return "held"
    return "free"


def test_opening_twice_in_one_process_keeps_its_locks(store: SqliteStore, place: Path) -> None:
    """Closing any handle on a file drops all of the process's locks on it, so nothing but SQLite may open it."""
    store.commit([b"e"], [PutNew("things/a", b"a")], NOW)
    assert in_fork(lambda: _shared_lock_is_held(place)) == "held"
    _open(place).close()
    assert reason_of(lambda: _create(place)) == "vault_exists"
    assert in_fork(lambda: _shared_lock_is_held(place)) == "held"


# Locks between processes.


def _hold(pipe: Connection, place: Path, what: str) -> None:
    if what == "lock":
        with FairLock(place, 10.0):
            pipe.send("held")
            pipe.recv()
    elif what == "turn":
        handle = os.open(place / "vault.turn", os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX)
        pipe.send("held")
        pipe.recv()
    else:

        def hold(_: apsw.Connection) -> None:
            pipe.send("held")
            pipe.recv()

        _open(place)._transaction(hold)


@pytest.mark.requirement("store-crash", "audit-closed")
@pytest.mark.parametrize("what", ["lock", "turn", "transaction"])
def test_stopped_holder_is_named_and_a_killed_one_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    _create(place).close()
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    store = _open(place)
    holder = Process(_hold, place, what)
    assert holder.pipe.recv() == "held"
    os.kill(holder.pid, signal.SIGSTOP)
    before = everything(store)
    calls: list[Callable[[], object]] = [
        lambda: store.commit([b"e"], [], NOW),
        lambda: store.put_if_absent("a/derived/x", b""),
        lambda: store.archive(1),
    ]
    assert [reason_of(call) for call in calls] == ["audit_unavailable"] * 3
    assert store.scrub() is False
    assert everything(store) == before
    holder.kill()
    assert [reason_of(call) for call in calls] == ["", "", ""]
    assert store.scrub() is True
    store.close()


def test_lock_that_was_given_up_is_free(tmp_path: Path) -> None:
    one, two = FairLock(tmp_path, 0.05), FairLock(tmp_path, 0.05)
    with one:
        assert reason_of(lambda: two.__enter__()) == "audit_unavailable"
    with pytest.raises(ZeroDivisionError), one:
        _ = 1 / 0
    with two:
        pass
    one.close()
    one.close()
    assert reason_of(lambda: one.__enter__()) == "store_unavailable"
    two.close()


# Damage, done with SQL: what SQLite itself does not notice.


@contextmanager
def _sql(place: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.requirement("bad-object")
@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE head SET peaks = zeroblob(32)",
        "UPDATE head SET time = time + 1",
        "UPDATE head SET mac = zeroblob(32)",
        "UPDATE head SET size = 0, peaks = x''",
        "DELETE FROM head",
    ],
)
def test_forged_head_is_noticed_also_by_who_wrote_the_last_one(store: SqliteStore, place: Path, edit: str) -> None:
    store.commit([b"e"], [], NOW)
    with _sql(place) as connection:
        connection.execute(edit)
    assert reason_of(lambda: store.commit([b"e"], [], NOW)) == "tampered"
    assert reason_of(lambda: store.put_if_absent("a/derived/x", b"")) == "tampered"
    assert reason_of(lambda: _open(place)) == "tampered"


def _agrees(store: SqliteStore) -> bool:
    """Whether the head is that of the entries."""
    whole = merkle_log.Range()
    for _, leaf, _ in store.entries(0, 10**6):
        whole.append(leaf)
    head = store.head()
    return (head.size, head.peaks) == (whole.size, whole.packed())


class _Hesitant:
    """Signs heads, but not this time."""

    def sign(self, size: int, peaks: bytes, time: int) -> bytes:
        raise StoreUnavailable("not now")

    check = MAC.check


@pytest.mark.requirement("audit-closed", "store-crash")
def test_commit_that_fails_after_its_entries_were_written_leaves_the_next_one_sound(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        store.commit([b"e"], [], NOW)
        with monkeypatch.context() as patch:
            patch.setattr(store, "_mac", _Hesitant())
            assert reason_of(lambda: store.commit([b"lost"] * 3, [PutNew("things/lost", b"")], NOW)) is not None
        store.commit([b"e", b"f"], [PutNew(f"things/{number}", b"")], NOW)
        assert _agrees(store)
    assert store.get("things/lost") is None
    assert store.head().size == 1 + 5 * 3


@pytest.mark.requirement("store-crash")
def test_stores_that_commit_in_turns_go_on_from_each_other(store: SqliteStore, place: Path) -> None:
    other = _open(place)
    for number in range(9):
        (store, other)[number % 2].commit([b"e"] * (number % 3 + 1), [], NOW)
        (store, store, other)[number % 3].commit([], [Expect("things/none", 0)], NOW)
        assert _agrees(store)
    other.close()


@pytest.mark.requirement("bad-object", "store-missing-broken")
def test_store_without_its_head_answers_nothing(store: SqliteStore, place: Path) -> None:
    with _sql(place) as connection:
        connection.execute("DELETE FROM head")
    assert reason_of(store.version) == "tampered"
    assert reason_of(store.head) == "tampered"


@pytest.mark.requirement("bad-object")
def test_version_that_was_set_back_is_noticed(store: SqliteStore, place: Path) -> None:
    store.commit([b"e"], [PutNew("things/a", b"")], NOW)
    with _sql(place) as connection:
        connection.execute("UPDATE head SET version = version - 1")
    assert reason_of(lambda: store.commit([b"e"], [PutNew("things/b", b"")], NOW)) == "tampered"


@pytest.mark.requirement("bad-object", "residue")
@pytest.mark.parametrize(
    "foreign",
    [
        "CREATE TABLE kept (body BLOB)",
        "CREATE TRIGGER keep BEFORE DELETE ON objects BEGIN UPDATE head SET time = 0; END",
        "CREATE VIEW seen AS SELECT body FROM objects",
        "CREATE INDEX sizes ON objects (length(body))",
    ],
)
def test_file_with_more_than_a_vault_in_it_is_tampered(place: Path, foreign: str) -> None:
    _create(place).close()
    with _sql(place) as connection:
        connection.execute(foreign)
    assert reason_of(lambda: _open(place)) == "tampered"


@pytest.mark.requirement("bad-object", "residue")
def test_trigger_planted_under_an_open_store_does_not_run(store: SqliteStore, place: Path) -> None:
    with _sql(place) as connection:
        connection.execute("CREATE TABLE kept (body BLOB)")
        connection.execute("CREATE TRIGGER keep AFTER INSERT ON objects BEGIN INSERT INTO kept VALUES (new.body); END")
    store.commit([b"e"], [PutNew("things/a", b"secret")], NOW)
    with _sql(place) as connection:
        assert list(connection.execute("SELECT * FROM kept")) == []


READS: dict[str, Callable[[SqliteStore], object]] = {
    "UPDATE objects SET name = CAST(x'7aff' AS TEXT)": lambda store: store.list(""),
    "UPDATE objects SET name = x'6162'": lambda store: store.changes(0),
    "UPDATE objects SET body = 5": lambda store: store.get("vault/format"),
    "UPDATE objects SET body = 'text'": lambda store: store.list("vault/"),
    "UPDATE entries SET leaf = 5": lambda store: list(store.entries(0, 1)),
    "UPDATE entries SET entry = 'text'": lambda store: list(store.entries(0, 1)),
    "UPDATE head SET version = NULL": lambda store: store.version(),
    "UPDATE head SET size = 'text'": lambda store: store.head(),
    "UPDATE head SET size = -1": lambda store: store.head(),
    "UPDATE head SET time = -1": lambda store: store.head(),
    "UPDATE head SET peaks = 5": lambda store: store.head(),
    "UPDATE head SET mac = NULL": lambda store: store.head(),
    "INSERT INTO head VALUES (2, 1, 1, x'', 1, x'')": lambda store: store.head(),
    "DROP TABLE objects": lambda store: store.get("vault/format"),
    "DROP TABLE entries": lambda store: list(store.entries(0, 1)),
}


@pytest.mark.requirement("bad-object", "store-missing-broken")
@pytest.mark.parametrize("edit", READS)
def test_rows_of_the_wrong_kind_are_tampered(place: Path, edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "_check_schema", lambda _: None)  # the rows must be checked by themselves
    _create(place).close()
    with _sql(place) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema"
            " SET sql = replace(replace(replace(sql, ' STRICT', ''), ' NOT NULL', ''), ' CHECK (one = 1)', '')"
        )
    store = _open(place)
    with _sql(place) as connection:
        connection.execute(edit)
    assert reason_of(READS[edit], store) == "tampered"
    assert reason_of(store.commit, [b"e"], [Expect("things/none", 0)], NOW) in ("", "tampered")
    store.close()
