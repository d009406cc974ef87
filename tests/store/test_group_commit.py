"""Group commit: threads share transactions, each succeeds or fails for itself, and no one is left waiting."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from strongroom.errors import AuditUnavailable, ClockBehind, StrongroomError
from strongroom.store import Commit, Lost, PutNew
from strongroom.store.conformance.helpers import NOW, SuiteMac, pages
from strongroom.store.group_commit import CommitRequest, GroupCommit
from strongroom.store.sqlite import SqliteStore

MAC = SuiteMac()
PATIENCE = 60  # seconds after which a test that hangs fails instead

Write = Callable[[Sequence[CommitRequest]], None]


class Queue(deque[CommitRequest]):
    """The waiting requests, and a signal once so many have come."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.full = threading.Event()
        self._missing = wanted

    def append(self, request: CommitRequest) -> None:
        super().append(request)
        self._missing -= 1
        if not self._missing:
            self.full.set()


class Held:
    """A group commit whose first transaction waits until so many more requests have queued up."""

    def __init__(self, group: GroupCommit, waiting: int) -> None:
        self.sizes: list[int] = []
        self._write = group._write
        self._queue = Queue(1 + waiting)
        self.writing = threading.Event()
        group._waiting = self._queue
        group._write = self._hold

    def _hold(self, group: Sequence[CommitRequest]) -> None:
        self.sizes.append(len(group))
        if len(self.sizes) == 1:
            self.writing.set()
            assert self._queue.full.wait(PATIENCE)
        self._write(group)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore.create(str(tmp_path / "vault"), MAC, [], [], NOW)
    yield made
    made.close()


def _at_once(held: Held, calls: Sequence[Callable[[], object]]) -> list[object]:
    """Run the first call, and once it writes, all the others. Returns what each returned or raised."""
    outcomes: list[object] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            outcomes[number] = calls[number]()
        except Exception as error:  # noqa: BLE001 - compared by the test
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(calls))]
    threads[0].start()
    assert held.writing.wait(PATIENCE)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread was left waiting"
    return outcomes


@pytest.mark.requirement("store-group")
def test_commits_of_32_threads_take_two_transactions(store: SqliteStore) -> None:
    held = Held(store._group, 31)
    calls = [
        lambda number=number: store.commit([b"%d" % number], [PutNew(f"things/{number}", b"")], NOW)
        for number in range(32)
    ]
    outcomes = _at_once(held, calls)
    assert held.sizes == [1, 31]
    firsts = [outcome.first for outcome in outcomes if isinstance(outcome, Commit)]
    assert sorted(firsts) == list(range(32))
    assert len(pages(store, "things/")) == 32
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, Commit)
        assert [entry for _, _, entry in store.entries(outcome.first, outcome.first + 1)] == [b"%d" % number]


@pytest.mark.requirement("store-group")
def test_bad_request_fails_alone_in_its_group(store: SqliteStore) -> None:
    held = Held(store._group, 5)
    calls: list[Callable[[], object]] = [
        lambda: store.commit([b"0"], [PutNew("things/0", b"")], NOW),
        lambda: store.commit([b"1"], [PutNew("things/1", b"")], NOW),
        lambda: store.commit([b"2"], [PutNew("things/2", b""), PutNew("things/0", b"")], NOW),
        lambda: store.commit([b"3"], [PutNew("things/3", b"")], 0),
        lambda: store.put_if_absent("a/derived/4", b""),
        lambda: store.commit([b"5"], [PutNew("things/5", b"")], NOW),
    ]
    outcomes = _at_once(held, calls)
    assert held.sizes == [1, 5]
    assert [type(outcome) for outcome in outcomes] == [Commit, Commit, Lost, ClockBehind, int, Commit]
    assert [thing.name for thing in pages(store, "")] == ["a/derived/4", "things/0", "things/1", "things/5"]
    assert {entry for _, _, entry in store.entries(0, 9)} == {b"0", b"1", b"5"}


@pytest.mark.requirement("store-group")
def test_one_of_two_in_one_group_that_want_one_name_is_told(store: SqliteStore) -> None:
    held = Held(store._group, 2)
    calls: list[Callable[[], object]] = [lambda: store.commit([b"0"], [], NOW)]
    calls += [lambda: store.commit([b"e"], [PutNew("things/a", b"")], NOW)] * 2
    outcomes = _at_once(held, calls)
    assert held.sizes == [1, 2]
    assert {type(outcome) for outcome in outcomes[1:]} == {Commit, Lost}
    assert store.head().size == 2


@pytest.mark.requirement("store-group", "audit-closed")
def test_error_of_the_leader_reaches_everyone_of_its_group(store: SqliteStore) -> None:
    held = Held(store._group, 3)
    write = held._write

    def fail_for_groups(group: Sequence[CommitRequest]) -> None:
        if len(group) > 1:
            raise AuditUnavailable("the disk is full", hint="make room")
        write(group)

    held._write = fail_for_groups
    outcomes = _at_once(held, [lambda: store.commit([b"e"], [PutNew("things/a", b"")], NOW)] * 4)
    assert isinstance(outcomes[0], Commit)
    errors = [outcome for outcome in outcomes[1:] if isinstance(outcome, StrongroomError)]
    assert [error.reason for error in errors] == ["audit_unavailable"] * 3
    assert len({id(error) for error in errors}) == 3, "an error shared by threads would share its traceback"
    assert [error.hint for error in errors] == ["make room"] * 3
    assert store.head().size == 1
    assert isinstance(store.commit([b"e"], [], NOW), Commit)


@pytest.mark.requirement("store-group")
def test_leader_that_is_interrupted_tells_its_group(store: SqliteStore) -> None:
    held = Held(store._group, 2)
    write = held._write

    def interrupt_groups(group: Sequence[CommitRequest]) -> None:
        if len(group) > 1:
            raise KeyboardInterrupt
        write(group)

    held._write = interrupt_groups
    interrupted: list[bool] = []

    def commit() -> object:
        try:
            return store.commit([b"e"], [], NOW)
        except KeyboardInterrupt:
            interrupted.append(True)
            return None

    outcomes = _at_once(held, [commit] * 3)
    assert interrupted == [True]
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AuditUnavailable", "Commit", "NoneType"]
    assert isinstance(store.commit([b"e"], [], NOW), Commit)


class _Interrupted(BaseException):
    pass


@pytest.mark.requirement("store-group")
def test_waiting_thread_that_is_interrupted_does_not_stop_the_others() -> None:
    writing, gone = threading.Event(), threading.Event()
    queued = Queue(2)
    written: list[int] = []
    interrupted: list[bool] = []

    def write(group: Sequence[CommitRequest]) -> None:
        if not written:
            writing.set()
            assert queued.full.wait(PATIENCE)
            main = threading.main_thread().ident
            assert main is not None
            while not gone.wait(0.01):  # a signal that comes just before a thread blocks does not wake it
                signal.pthread_kill(main, signal.SIGUSR1)
        for request in group:
            written.append(request.time)
            request.commit = Commit(0, 0)

    def interrupt(number: int, frame: object) -> None:
        if not interrupted:
            interrupted.append(True)
            raise _Interrupted

    group = GroupCommit(write)
    group._waiting = queued
    first, last = (
        threading.Thread(target=lambda time=time: group.submit(CommitRequest([], [], time)), daemon=True)
        for time in (1, 3)
    )
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        first.start()
        assert writing.wait(PATIENCE)
        with pytest.raises(_Interrupted):
            group.submit(CommitRequest([], [], 2))
        gone.set()
        last.start()
        for thread in (first, last):
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the lead was left with a thread that is gone"
    finally:
        gone.set()
        first.join(PATIENCE)  # it must not send another signal once the handler is gone
        signal.signal(signal.SIGUSR1, before)
    assert written == [1, 3]
