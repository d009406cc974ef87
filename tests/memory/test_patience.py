"""Patience: an answer from what is loaded so far, newest lines first, and never one that was forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from strongroom import Token, Vault, errors
from strongroom.engines.lexical import Lexical
from strongroom.engines.recency import Recency
from strongroom.memory import operation, stored_pages
from strongroom.memory.line_cache.cache import Batch, CachedNamespace, LineCache, Load
from strongroom.memory.stored_pages import CachePageSet
from strongroom.model import Kind, Line, LineId, Millis, Namespace, Provenance
from tests.audit.tools import edit
from tests.conftest import NAMESPACES
from tests.memory.line_cache.shelves import shelf_of
from tests.memory.test_stored_pages import ALICE, NEVER, WORK, later, listed, put, small

__all__ = ["small"]

Reopen = Callable[[], Vault]
DEADLOCK = 60.0
"""Only a test that fails waits so long."""
NOW = datetime(2026, 5, 22, tzinfo=UTC)


def _line(number: int) -> Line:
    origin = Provenance((), "", "python", Millis(number))
    name = LineId(f"01JABCDEFGHJKMNPQRSTVWX{number:03d}")
    return Line(name, Millis(number), Kind.NOTE, Namespace("work"), "", "", f"line {number}", origin)


class Slow:
    """A source that gives a batch only when it is let, and can be told to fail instead."""

    def __init__(self, *batches: Sequence[int]) -> None:
        self._batches = batches
        self._let = threading.Semaphore(0)
        self.gone: set[LineId] = set()
        self.error: Exception | None = None
        self.loads = 0
        self.given = 0
        self._changed = threading.Condition()

    def batches(self) -> Iterator[Batch]:
        self.loads += 1
        for numbers in self._batches:
            self._wait()
            yield Batch([_line(number) for number in numbers])
            with self._changed:  # the shelf has it now
                self.given += 1
                self._changed.notify_all()
        self._wait()

    def read(self, name: LineId) -> Line | None:
        return None if name in self.gone else _line(int(name[-3:]))

    def replacement(self, name: LineId) -> LineId | None:
        return None

    def _wait(self) -> None:
        assert self._let.acquire(timeout=DEADLOCK)
        if self.error is not None:
            raise self.error

    def let(self, count: int = 1) -> None:
        """Let so many batches come, and wait until they are on the shelf."""
        with self._changed:
            wanted = self.given + count
            self._let.release(count)
            assert self._changed.wait_for(lambda: self.given >= wanted, DEADLOCK)

    def end(self) -> None:
        """Let all come, whatever is left."""
        self._let.release(100)


@pytest.fixture
def slow() -> Iterator[Slow]:
    source = Slow([7, 8, 9], [4, 5, 6], [1, 2, 3])
    yield source
    source.end()


@pytest.fixture(params=[Lexical, Recency])
def shelves(request: pytest.FixtureRequest) -> LineCache:
    return LineCache(request.param(), 1 << 20)


def _numbers(shelves: LineCache, shelf: CachedNamespace, query: str = "line", k: int = 20) -> list[int]:
    return sorted(one.line.time for one in shelves.rank([shelf], query, k, NOW))


def _ended(source: Slow, shelves: LineCache, birth: bytes = b"b") -> CachedNamespace:
    source.end()
    return shelf_of(shelves, "a/", birth, lambda: source)


@pytest.mark.requirement("recall-patience")
def test_lines_loaded_so_far_are_ranked_newest_batches_first(shelves: LineCache, slow: Slow) -> None:
    shelf = shelf_of(shelves, "a/", b"b", lambda: slow, 0.0)
    assert _numbers(shelves, shelf) == []
    slow.let()
    assert shelf_of(shelves, "a/", b"b", lambda: slow, 0.0) is shelf
    assert _numbers(shelves, shelf) == [7, 8, 9]
    slow.let()
    assert _numbers(shelves, shelf_of(shelves, "a/", b"b", lambda: slow, 0.0)) == [4, 5, 6, 7, 8, 9]
    assert _ended(slow, shelves) is shelf
    assert _numbers(shelves, shelf) == list(range(1, 10))
    assert slow.loads == 1


@pytest.mark.requirement("recall-patience")
def test_enough_patience_waits_for_everything(shelves: LineCache, slow: Slow) -> None:
    slow.end()
    assert _numbers(shelves, shelf_of(shelves, "a/", b"b", lambda: slow, DEADLOCK)) == list(range(1, 10))


@pytest.mark.requirement("recall-patience")
def test_caller_without_a_limit_waits_for_everything_although_another_began_in_the_background(
    shelves: LineCache, slow: Slow
) -> None:
    part = shelf_of(shelves, "a/", b"b", lambda: slow, 0.0)
    got: list[list[int]] = []
    thread = threading.Thread(target=lambda: got.append(_numbers(shelves, shelf_of(shelves, "a/", b"b", lambda: slow))))
    thread.start()
    slow.let(2)
    assert got == []
    assert _numbers(shelves, part) == [4, 5, 6, 7, 8, 9]
    slow.end()
    thread.join(DEADLOCK)
    assert got == [list(range(1, 10))]
    assert slow.loads == 1


@pytest.mark.requirement("recall-patience", "forget-other-process")
def test_line_deleted_while_its_shelf_is_half_loaded_is_not_ranked(shelves: LineCache, slow: Slow) -> None:
    shelf = shelf_of(shelves, "a/", b"b", lambda: slow, 0.0)
    slow.let()
    assert 8 in _numbers(shelves, shelf)
    slow.gone |= {_line(8).id, _line(5).id}
    for name in slow.gone:
        shelves.changed("a/", name, None, deleted=True)
    assert _numbers(shelves, shelf) == [7, 9]
    slow.let()
    assert _numbers(shelves, shelf) == [4, 6, 7, 9]
    _ended(slow, shelves)
    assert _numbers(shelves, shelf) == [1, 2, 3, 4, 6, 7, 9]


@pytest.mark.requirement("recall-patience")
def test_line_put_while_its_shelf_is_half_loaded_is_there_once_it_is_loaded(shelves: LineCache, slow: Slow) -> None:
    shelf = shelf_of(shelves, "a/", b"b", lambda: slow, 0.0)
    slow.let()
    shelves.changed("a/", _line(10).id, _line(10), b"b", deleted=False)
    shelves.changed("a/", _line(5).id, None, deleted=False)  # also on its way in a batch
    _ended(slow, shelves)
    assert _numbers(shelves, shelf) == list(range(1, 11))
    assert len(shelf.lines) == 10


@pytest.mark.requirement("recall-patience")
@pytest.mark.parametrize("error", [errors.StoreUnavailable("gone"), errors.Tampered("bad"), RuntimeError("a defect")])
def test_failure_in_the_background_reaches_who_waits_and_the_next_tries_again(
    shelves: LineCache, error: Exception
) -> None:
    broken, sound = Slow([1]), Slow([1, 2])
    broken.error = error
    broken.end()
    with pytest.raises(type(error)):
        shelf_of(shelves, "a/", b"b", lambda: broken, DEADLOCK)
    assert shelves.usage() == (0, 0)
    sound.end()
    assert _numbers(shelves, shelf_of(shelves, "a/", b"b", lambda: sound, DEADLOCK)) == [1, 2]


@pytest.mark.requirement("recall-patience")
def test_failure_that_nobody_waited_for_is_heard_by_the_next_who_does_not_wait(shelves: LineCache) -> None:
    broken, sound = Slow([1], [2]), Slow([1, 2])
    shelf_of(shelves, "a/", b"b", lambda: broken, 0.0)
    broken.let()
    broken.error = errors.StoreUnavailable("gone")
    broken.end()
    with pytest.raises(errors.StoreUnavailable):
        shelf_of(shelves, "a/", b"b", lambda: sound, DEADLOCK)
    sound.end()
    assert _numbers(shelves, shelf_of(shelves, "a/", b"b", lambda: sound, DEADLOCK)) == [1, 2]


@pytest.mark.requirement("recall-patience", "store-missing-broken")
def test_failure_that_nobody_waited_for_does_not_stop_the_next_who_waits(shelves: LineCache) -> None:
    broken, sound = Slow([1], [2]), Slow([1, 2])
    part = shelf_of(shelves, "a/", b"b", lambda: broken, 0.0)
    broken.let()
    broken.error = errors.StoreUnavailable("gone")
    broken.end()
    sound.end()
    # Without patience: waits for the one that fails, then loads on its own account.
    whole = shelf_of(shelves, "a/", b"b", lambda: sound)
    assert whole is not part
    assert _numbers(shelves, whole) == [1, 2]
    assert (broken.loads, sound.loads) == (1, 1)


@pytest.mark.requirement("recall-patience", "shelf-bounded")
def test_many_threads_of_mixed_patience_load_a_shelf_once(shelves: LineCache, slow: Slow) -> None:
    barrier = threading.Barrier(12)
    whole: list[list[int]] = []
    part: list[list[int]] = []

    def ask(number: int) -> None:
        barrier.wait(DEADLOCK)
        patience = (None, 0.0, DEADLOCK)[number % 3]
        got = _numbers(shelves, shelf_of(shelves, "a/", b"b", lambda: slow, patience))
        (part if patience == 0.0 else whole).append(got)
        if len(part) == 4:
            slow.end()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLOCK)
    assert whole == [list(range(1, 10))] * 8
    assert len(part) == 4
    assert slow.loads == 1


@pytest.mark.requirement("recall-patience", "shelf-bounded")
def test_shelf_loaded_in_the_background_counts_against_the_bound_once(shelves: LineCache, slow: Slow) -> None:
    shelf_of(shelves, "a/", b"b", lambda: slow, 0.0)
    slow.let(2)
    count, size = shelves.usage()
    assert count == 1
    assert size > 0, "what is loaded so far counts"
    shelf = _ended(slow, shelves)
    assert shelf.bytes > size
    assert shelves.usage() == (1, shelf.bytes)
    shelves.drop("a/")
    assert shelves.usage() == (0, 0)


@pytest.mark.requirement("recall-patience")
def test_impatient_do_not_wait_for_a_namespace_that_was_erased_while_it_loaded(shelves: LineCache, slow: Slow) -> None:
    """The old one is still being read when its namespace, erased, has been made anew under other keys."""
    old = shelf_of(shelves, "a/", b"old", lambda: slow, 0.0)
    slow.let()
    shelves.drop("a/")
    new = Slow([11])
    new.end()
    got: list[list[int]] = []
    done = threading.Event()

    def ask() -> None:
        got.append(_numbers(shelves, shelf_of(shelves, "a/", b"new", lambda: new, 0.0)))
        done.set()

    thread = threading.Thread(target=ask)
    thread.start()
    came = done.wait(5.0)
    slow.end()
    thread.join(DEADLOCK)
    assert came, "it waited for the old one to be read to its end"
    assert got in ([[]], [[11]])
    assert _numbers(shelves, shelf_of(shelves, "a/", b"new", lambda: new)) == [11]
    assert 11 not in _numbers(shelves, old)


# Through a cap.


@contextmanager
def _held_up(
    monkeypatch: pytest.MonkeyPatch,
    after: int,
    began: threading.Semaphore | None = None,
    reached: threading.Event | None = None,
) -> Iterator[threading.Event]:
    """Loading stops behind so many batches until the event is set; `began` is told of every shelf that does.

    `reached` is set once a thread waits there.
    """
    go, real = threading.Event(), CachePageSet.batches

    def batches(source: CachePageSet) -> Iterator[Batch]:
        count = 0
        for batch in real(source):
            if batch.lines and count == after and began is not None:
                began.release()
                while not go.wait(0.001):
                    yield Batch(())  # the others get their turn
            elif batch.lines and count == after:
                if reached is not None:
                    reached.set()
                assert go.wait(DEADLOCK)
            count += bool(batch.lines)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(CachePageSet, "batches", batches)
        yield go
        go.set()


def _until(vault: Vault, cap: Token, count: int) -> list[str]:
    """Ask impatiently until so many lines have come; each call is an answer of its own."""
    for _ in range(100_000):
        hits = vault.memory(cap).get("", k=20, namespaces=["work"], patience=0.001)
        if len(hits) >= count:
            return sorted(hit.id for hit in hits)
    raise AssertionError("they never came")


@pytest.mark.requirement("recall-patience")
def test_impatient_get_of_a_cold_vault_answers_and_a_later_one_sees_all(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    made = put(vault, cap, 10)
    other = reopen()
    first = other.memory(cap).get("Chengdu", k=20, patience=0.0)
    assert {hit.id for hit in first} <= set(made)
    assert {hit.id for hit in other.memory(cap).get("Chengdu", k=20)} == set(made)
    assert {hit.id for hit in other.memory(cap).get("Chengdu", k=20, patience=0.0)} == set(made)


@pytest.mark.requirement("recall-patience", "pages-fresh")
@pytest.mark.parametrize("from_pages", [False, True], ids=["lines", "pages"])
def test_impatient_get_ranks_the_newest_lines_and_ids_list_and_forget_wait_for_all(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, from_pages: bool
) -> None:
    made = put(vault, cap, 12)
    if from_pages:
        with reopen() as writer:
            listed(writer, cap)
    other = reopen()
    memory = other.memory(cap)
    calls: list[tuple[Callable[[], Any], Any]] = [
        (lambda: [hit.id for hit in memory.get(ids=[made[0]], patience=0.0)], [made[0]]),
        (lambda: listed(other, cap), made),
        (lambda: memory.forget(ids=[made[1]]).ids, (made[1],)),
    ]
    with _held_up(monkeypatch, 1) as go:
        assert _until(other, cap, 6) == made[6:]
        got: list[Any] = []
        for call, _ in calls:
            thread = threading.Thread(target=lambda call=call: got.append(call()))
            thread.start()
            if not go.is_set():
                assert _until(other, cap, 6) == made[6:]
                assert got == []
                go.set()
            thread.join(DEADLOCK)
    assert got == [wanted for _, wanted in calls]


@pytest.mark.requirement("recall-patience", "forget-other-process")
def test_line_forgotten_elsewhere_leaves_a_half_loaded_shelf_at_once(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = put(vault, cap, 12)
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        listed(vault, cap)
    other = reopen()
    with _held_up(monkeypatch, 1) as go:
        assert _until(other, cap, 6) == made[6:]
        vault.memory(cap).forget(ids=[made[8]])
        for query in ("", "Chengdu", "plan number 8"):
            hits = other.memory(cap).get(query, k=20, patience=0.0)
            assert made[8] not in {hit.id for hit in hits}
        go.set()
    assert listed(other, cap) == [*made[:8], *made[9:]]


@pytest.mark.requirement("recall-patience", "store-changes")
def test_line_just_put_is_ranked_although_its_shelf_is_half_loaded(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = put(vault, cap, 12)
    other = reopen()
    with _held_up(monkeypatch, 1) as go:
        assert _until(other, cap, 6) == made[6:]
        later(other)
        new = other.memory(cap).put("the newest of all", namespace="work").id
        assert new in {hit.id for hit in other.memory(cap).get("newest", k=20, patience=0.0)}
        go.set()
    assert listed(other, cap) == [*made, new]


@pytest.mark.requirement("recall-patience", "erase-keys")
def test_namespace_erased_while_its_shelf_is_half_loaded_is_in_no_later_answer(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = put(vault, cap, 12)
    put(vault, cap, 1, namespace="travel")
    other = reopen()
    with _held_up(monkeypatch, 1) as go:
        assert _until(other, cap, 6) == made[6:]
        vault.memory(cap).erase(["work"])
        assert other.memory(cap).get("", k=20, namespaces=["work"], patience=0.0) == []
        go.set()
    assert listed(other, cap, namespaces=["work"]) == []


@pytest.mark.requirement("recall-patience")
def test_several_namespaces_share_one_patience(
    vault: Vault, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that one namespace took is not given to the next: a clock that jumps leaves nothing for it."""
    for namespace in ("personal", "family", "work", "travel"):
        put(vault, cap, 1, namespace=namespace)
    given: list[float] = []
    ticks = iter(range(0, 1000, 2))
    real = Load.wait

    def wait(self: Load, seconds: float) -> bool:
        given.append(seconds)
        return real(self, seconds)

    other = reopen()
    monkeypatch.setattr(Load, "wait", wait)
    with monkeypatch.context() as patch:
        patch.setattr(operation, "monotonic", lambda: float(next(ticks)))
        other.memory(cap).get("Chengdu", patience=5.0)
    assert given == [3.0, 1.0, 0.0, 0.0]
    given.clear()
    reopen().memory(cap).list()
    assert given == []


@pytest.mark.requirement("recall-patience", "hermes-first-turn-10000")
@pytest.mark.parametrize("from_pages", [False, True], ids=["lines", "pages"])
def test_first_answer_holds_the_newest_lines_of_every_namespace_although_none_is_loaded(
    vault: Vault, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, from_pages: bool
) -> None:
    """Time is up when every shelf has got its first lines; what is left comes later."""
    monkeypatch.setattr(stored_pages, "_NEWEST", 2)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    made = {namespace: put(vault, cap, 12, namespace=namespace) for namespace in NAMESPACES}
    if from_pages:
        with reopen() as writer:
            writer.memory(cap).get("Chengdu")
        for namespace, names in made.items():
            names += put(vault, cap, 2, namespace=namespace)
    began = threading.Semaphore(0)

    def wait(self: Load, seconds: float) -> bool:
        for _ in NAMESPACES if seconds else ():
            assert began.acquire(timeout=DEADLOCK)
        return False

    other = reopen()
    monkeypatch.setattr(Load, "wait", wait)
    ticks = iter([0.0, 0.0])  # all the time there is goes by with the first
    monkeypatch.setattr(operation, "monotonic", lambda: next(ticks, DEADLOCK))
    with _held_up(monkeypatch, 1, began):
        hits = other.memory(cap).get("Chengdu", k=20, patience=1.0)
    assert sorted(hit.id for hit in hits) == sorted(name for names in made.values() for name in names[-2:])


@pytest.mark.requirement("recall-patience", "store-missing-broken")
def test_store_that_fails_while_loading_is_told_to_who_waits_and_the_next_get_tries_again(
    vault: Vault, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = put(vault, cap, 5)
    other = reopen()

    def broken(*_: object, **__: object) -> None:
        raise errors.StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(other._state.store, "names", broken)
        for _ in range(2):
            with pytest.raises(errors.StoreUnavailable):
                other.memory(cap).get("Chengdu", patience=DEADLOCK)
    hits = other.memory(cap).get("Chengdu", k=20, patience=DEADLOCK)
    assert {hit.id for hit in hits} == set(made)


@pytest.mark.requirement("recall-patience", "bad-object")
def test_damaged_line_is_told_to_who_waits_and_is_on_record(
    vault: Vault, cap: Token, reopen: Reopen, tmp_path: Path
) -> None:
    (name,) = put(vault, cap, 1)
    slot = f"{vault._state.slots.shelf(ALICE, WORK)}lines/{name}"
    edit(tmp_path / "vault", "UPDATE objects SET body = x'00' WHERE name = ?", slot)
    other = reopen()
    with pytest.raises(errors.Tampered):
        other.memory(cap).get("Chengdu", patience=DEADLOCK)
    entries = [entry for _, entry in vault.audit.entries() if entry is not None]
    assert (entries[-1].op, entries[-1].decision, entries[-1].reason) == ("get", "fail", "tampered")


@pytest.mark.requirement("recall-patience")
@pytest.mark.parametrize("patience", [float("nan"), float("inf"), -1.0, 1e300, "soon"])
def test_patience_that_is_no_time_is_refused_or_waited_for_but_never_a_defect(
    vault: Vault, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, patience: Any
) -> None:
    made, real = put(vault, cap, 2), threading.Event.wait

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        """Complains of a time that it cannot wait for also where it need not wait."""
        if timeout is not None and timeout > 0:
            threading.Lock().acquire(timeout=timeout)
        return real(event, timeout)

    other = reopen()
    monkeypatch.setattr(threading.Event, "wait", wait)
    try:
        hits = other.memory(cap).get("Chengdu", patience=patience)
    except errors.Invalid:
        return
    assert {hit.id for hit in hits} <= set(made)


@pytest.mark.requirement("recall-patience")
def test_closing_a_vault_that_is_still_loading_waits_for_one_batch_and_its_thread_ends(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(vault, cap, 12)
    before = set(threading.enumerate())
    other, reached = reopen(), threading.Event()
    with _held_up(monkeypatch, 1, reached=reached) as go:
        other.memory(cap).get("Chengdu", patience=0.0)
        (loader,) = set(threading.enumerate()) - before
        assert loader.daemon
        assert reached.wait(DEADLOCK), "else it may end before its first batch"
        closing = threading.Thread(target=other.close)
        closing.start()
        assert loader.is_alive(), "it is in the middle of a batch"
        go.set()
        closing.join(DEADLOCK)
        assert not closing.is_alive()
        assert not loader.is_alive(), "nothing outlives the vault"
        with pytest.raises(errors.StoreUnavailable):
            other.memory(cap).get("Chengdu", patience=0.0)
    assert listed(vault, cap)


@pytest.mark.requirement("recall-patience", "pages-derived")
def test_impatient_get_still_leaves_pages_for_the_next_process(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = put(vault, cap, 12)
    with reopen() as other:
        other.memory(cap).get("Chengdu", patience=0.0)
        listed(other, cap)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
    with reopen() as fresh:
        assert fresh.memory(cap).get("Chengdu", k=20, patience=DEADLOCK)
        assert listed(fresh, cap) == made
