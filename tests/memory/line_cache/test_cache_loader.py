"""Loads: in portions, by turns, once for everybody who waits, and with an end that each of them hears of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from strongroom import errors
from strongroom.engines.recency import Recency
from strongroom.memory.line_cache.cache import Batch, LineCache, Load
from strongroom.model import Kind, Line, LineId, Millis, Namespace, Provenance
from tests.memory.line_cache.shelves import shelf_of

DEADLOCK = 60.0
MANY = 1 << 40
Gate = Callable[[], None]


def _line(number: int, text: str = "a line") -> Line:
    origin = Provenance((), "", "python", Millis(number))
    name = LineId(f"01JABCDEFGHJKMNPQRSTVWX{number:03d}")
    return Line(name, Millis(number), Kind.NOTE, Namespace("work"), "", "", text, origin)


class Portions:
    """A source of so many portions; `before` is called with the number of each."""

    def __init__(self, count: int, before: Callable[[int], None] = lambda number: None, text: str = "a line") -> None:
        self._count, self._before, self._text = count, before, text

    def batches(self) -> Iterator[Batch]:
        for number in range(self._count):
            self._before(number)
            yield Batch([_line(number, self._text)])

    def read(self, name: LineId) -> Line | None:
        return None

    def replacement(self, name: LineId) -> LineId | None:
        return None


def _shelves(budget: int = MANY) -> LineCache:
    return LineCache(Recency(), budget)


def _begun(shelves: LineCache, prefix: str, source: Portions) -> Load:
    found = shelves.find(prefix, b"birth", lambda: source)
    assert isinstance(found, Load)
    return found


def _ended(load: Load) -> bool:
    return load.wait(DEADLOCK)


@pytest.mark.requirement("store-missing-broken")
def test_load_that_fails_is_heard_by_everybody_who_waits_and_tried_again_by_the_next() -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise errors.StoreUnavailable("gone")

    shelves = _shelves()
    load = _begun(shelves, "actors/a/memory/x/", Portions(3, fail))
    told: list[str] = []
    load.on_end(lambda: told.append("early"))
    shelves.load_in_background(load)
    assert _ended(load)
    load.on_end(lambda: told.append("late"))
    for _ in range(3):
        with pytest.raises(errors.StoreUnavailable):
            shelves.check(load)
    assert sorted(told) == ["early", "late"]
    assert shelves.usage() == (0, 0)
    again = _begun(shelves, "actors/a/memory/x/", Portions(1))
    assert again is not load


@pytest.mark.requirement("server-fair")
def test_actor_with_many_loads_gets_one_turn_for_each_turn_of_another() -> None:
    order: list[str] = []
    go = threading.Event()

    def noted(name: str) -> Callable[[int], None]:
        def note(number: int) -> None:
            assert go.wait(DEADLOCK)
            order.append(name)

        return note

    shelves = _shelves()
    loads = [_begun(shelves, f"actors/large/memory/{n}/", Portions(8, noted("large"))) for n in range(4)]
    loads.append(_begun(shelves, "actors/small/memory/x/", Portions(4, noted("small"))))
    for load in loads:
        shelves.load_in_background(load)
    go.set()
    assert all(map(_ended, loads))
    last = max(at for at, name in enumerate(order) if name == "small")
    assert order[:last].count("large") <= 5, "one ahead, and then one for each of its own"


@pytest.mark.requirement("shelf-bounded")
def test_bytes_loaded_so_far_count_and_large_loads_wait_for_room_but_small_ones_do_not() -> None:
    ahead, go = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        if number == 2:
            ahead.set()
            assert go.wait(DEADLOCK)

    shelves = _shelves(budget=1_500_000)
    first = _begun(shelves, "actors/a/memory/x/", Portions(4, hold, "x" * 1_100_000))
    shelves.load_in_background(first)
    assert ahead.wait(DEADLOCK)
    assert shelves.usage()[1] > 2_000_000, "while it is loading"
    assert not shelves._has_room()
    second = _begun(shelves, "actors/b/memory/x/", Portions(4, text="x" * 1_100_000))
    small = _begun(shelves, "actors/c/memory/x/", Portions(4))
    for load in (second, small):
        shelves.load_in_background(load)
    loader = shelves._loader
    next(second._portions)  # it has its first portion, and is no longer small
    assert not loader._may_go_on(second)
    assert loader._may_go_on(small)
    go.set()
    assert all(map(_ended, (first, second, small)))


@pytest.mark.requirement("shelf-bounded", "erase-keys")
def test_shelf_dropped_while_it_loads_ends_its_load_and_counts_no_more() -> None:
    ahead, go = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        if number == 1:
            ahead.set()
            assert go.wait(DEADLOCK)

    shelves = _shelves()
    load = _begun(shelves, "actors/a/memory/x/", Portions(5, hold))
    shelves.load_in_background(load)
    assert ahead.wait(DEADLOCK)
    shelves.drop("actors/a/")
    go.set()
    assert _ended(load)
    assert not load.is_whole
    assert load.failure is None, "those who wait look for it again"
    assert len(load.shelf.lines) < 5
    assert shelves.usage() == (0, 0)


@pytest.mark.parametrize("count", [1, 4])
def test_close_while_loading_ends_every_load_and_every_thread(count: int) -> None:
    ahead, go = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        ahead.set()
        assert go.wait(DEADLOCK)

    shelves = _shelves()
    loads = [_begun(shelves, f"actors/{n}/memory/x/", Portions(3, hold)) for n in range(count)]
    for load in loads:
        shelves.load_in_background(load)
    assert ahead.wait(DEADLOCK)
    closing = threading.Thread(target=shelves.close)
    closing.start()
    go.set()
    closing.join(DEADLOCK)
    assert not closing.is_alive()
    assert not shelves._loader._threads
    for load in loads:
        assert load.failure is None or isinstance(load.failure, errors.StoreUnavailable)
        assert _ended(load)


def test_load_that_is_begun_after_close_fails_instead_of_hanging() -> None:
    shelves = _shelves()
    shelves.close()
    load = _begun(shelves, "actors/a/memory/x/", Portions(3))
    shelves.load_in_background(load)
    assert _ended(load)
    with pytest.raises(errors.StoreUnavailable):
        shelves.check(load)


@pytest.mark.requirement("server-rates")
def test_load_is_charged_once() -> None:
    shelves = _shelves()
    load = _begun(shelves, "actors/a/memory/x/", Portions(50))
    load.finish()
    assert load.charge() > 0
    assert load.charge() == 0


class _Endless:
    """Lines that never end, as on a very large shelf."""

    def __init__(self) -> None:
        self.started = threading.Event()

    def batches(self) -> Iterator[Batch]:
        while True:
            self.started.set()
            yield Batch(())

    def read(self, name: LineId) -> Line | None:
        return None

    def replacement(self, name: LineId) -> LineId | None:
        return None


@pytest.mark.requirement("recall-patience")
def test_closing_ends_what_loads_in_the_background() -> None:
    """A thread that outlives its vault can crash the process at exit."""
    shelves = LineCache(Recency(), 1 << 20)
    source = _Endless()
    before = threading.active_count()
    shelf_of(shelves, "a/", b"birth", lambda: source, 0.0)
    source.started.wait(60)
    shelves.close()
    assert threading.active_count() == before
