"""Lanes: whatever becomes of an operation, whoever waits for it hears of it, its time is charged and its place is
free again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager

import pytest

from strongroom import Vault
from strongroom.engines.recency import Recency
from strongroom.errors import RateLimited, ServerUnavailable, StoreUnavailable
from strongroom.memory.line_cache.cache import Batch, LineCache, Load
from strongroom.memory.operation import AT_ONCE, SLOW_STEP, Loading, Operation
from strongroom.server import executor
from strongroom.server.executor import Executor
from strongroom.store import Pending
from tests.memory.line_cache.test_cache_loader import Portions

pytestmark = pytest.mark.requirement("server-fair")

DEADLOCK = 60.0
CAP = "one"
Together = Callable[[], AbstractContextManager[bool]]


@contextmanager
def _nothing_new() -> Iterator[bool]:
    yield True


@contextmanager
def _something_new() -> Iterator[bool]:
    yield False


class Server:
    """Lanes and what they were told to charge."""

    def __init__(self, vault: Vault, together: Together = _nothing_new, waiting: int = 8) -> None:
        self.charged: list[Hashable] = []
        self.lanes = Executor(vault._state.store, together, 2, waiting, lambda cap, _: self.charged.append(cap))

    async def ask(self, doing: Operation[str], cap: Hashable = CAP) -> str:
        return await asyncio.wait_for(self.lanes.carry_out(doing, cap), DEADLOCK)


@asynccontextmanager
async def _server(vault: Vault, together: Together = _nothing_new, waiting: int = 8) -> AsyncIterator[Server]:
    server = Server(vault, together, waiting)
    try:
        yield server
    finally:
        await asyncio.wait_for(server.lanes.close(), DEADLOCK)


def _run(work: Awaitable[None]) -> None:
    async def main() -> None:
        await work

    asyncio.run(main())


def _ends() -> Operation[str]:
    return "done"
    yield  # never reached: it makes this an operation


def _fails() -> Operation[str]:
    raise StoreUnavailable("gone")
    yield


def _in_portions(threads: set[int], failure: Exception | None = None) -> Operation[str]:
    for _ in range(3):
        yield SLOW_STEP
        threads.add(threading.get_ident())
    if failure is not None:
        raise failure
    return "done"


@pytest.mark.parametrize("together", [_nothing_new, _something_new], ids=["loop", "slow"])
def test_operation_that_ends_answers_and_is_charged(vault: Vault, together: Together) -> None:
    async def work() -> None:
        async with _server(vault, together) as server:
            assert await server.ask(_ends()) == "done"
            assert server.charged == [CAP]

    _run(work())


@pytest.mark.parametrize("together", [_nothing_new, _something_new], ids=["loop", "slow"])
def test_operation_that_fails_tells_and_is_charged(vault: Vault, together: Together) -> None:
    async def work() -> None:
        async with _server(vault, together) as server:
            with pytest.raises(StoreUnavailable):
                await server.ask(_fails())
            assert server.charged == [CAP]

    _run(work())


def test_portions_are_done_on_slow_threads(vault: Vault) -> None:
    async def work() -> None:
        threads: set[int] = set()
        async with _server(vault) as server:
            assert await server.ask(_in_portions(threads)) == "done"
            with pytest.raises(StoreUnavailable):
                await server.ask(_in_portions(threads, StoreUnavailable("gone")))
            assert server.charged == [CAP, CAP]
        assert threading.get_ident() not in threads

    _run(work())


def test_operation_whose_caller_has_gone_is_finished(vault: Vault) -> None:
    async def work() -> None:
        go, ended = threading.Event(), threading.Event()

        def held() -> Operation[str]:
            yield SLOW_STEP
            assert go.wait(DEADLOCK)
            ended.set()
            return "done"

        async with _server(vault) as server:
            asked = server.lanes.carry_out(held(), CAP)
            await asyncio.sleep(0)
            asked.cancel()
            go.set()
        assert ended.is_set()
        assert server.charged == [CAP]

    _run(work())


def test_too_many_operations_are_turned_away_until_one_has_ended(vault: Vault) -> None:
    async def work() -> None:
        go = threading.Event()

        def held() -> Operation[str]:
            yield SLOW_STEP
            assert go.wait(DEADLOCK)
            return "done"

        async with _server(vault, waiting=1) as server:
            first = server.lanes.carry_out(held(), CAP)
            with pytest.raises(ServerUnavailable):
                server.lanes.carry_out(_ends(), CAP)
            go.set()
            assert await asyncio.wait_for(first, DEADLOCK) == "done"
            assert await server.ask(_ends()) == "done"

    _run(work())


def _begun(shelves: LineCache, source: Portions) -> Load:
    found = shelves.find("actors/a/memory/x/", b"birth", lambda: source)
    assert isinstance(found, Load)
    return found


class _Held(Portions):
    """A source that goes on when it is told to."""

    def __init__(self) -> None:
        super().__init__(2)
        self.go = threading.Event()

    def batches(self) -> Iterator[Batch]:
        assert self.go.wait(DEADLOCK)
        yield from super().batches()


def test_operation_that_waits_for_a_load_holds_no_thread(vault: Vault) -> None:
    async def work() -> None:
        shelves, source = LineCache(Recency(), 1 << 40), _Held()

        def waits() -> Operation[str]:
            load = _begun(shelves, source)
            assert (yield Loading(shelves, [load])) is not AT_ONCE
            return "done" if load.is_whole else "too early"

        async with _server(vault) as server:
            asked = [server.lanes.carry_out(waits(), CAP) for _ in range(4)]
            assert await server.ask(_in_portions(set()), "other") == "done"
            assert not any(one.done() for one in asked)
            source.go.set()
            assert await asyncio.wait_for(asyncio.gather(*asked), DEADLOCK) == ["done"] * 4
        shelves.close()

    _run(work())


def test_cap_has_as_many_places_as_are_left_and_there_is_one_for_the_next(vault: Vault) -> None:
    async def work() -> None:
        go = threading.Event()

        def held() -> Operation[str]:
            yield SLOW_STEP
            assert go.wait(DEADLOCK)
            return "done"

        async with _server(vault) as server:
            asked = [server.lanes.carry_out(held(), "many") for _ in range(4)]
            with pytest.raises(RateLimited):
                server.lanes.carry_out(held(), "many")
            asked += [server.lanes.carry_out(held(), "more") for _ in range(2)]
            with pytest.raises(RateLimited):
                server.lanes.carry_out(held(), "more")
            asked.append(server.lanes.carry_out(held(), "few"))
            go.set()
            assert await asyncio.wait_for(asyncio.gather(*asked), DEADLOCK) == ["done"] * 7
            assert await server.ask(held(), "many") == "done"
            assert not server.lanes._places

    _run(work())


@pytest.mark.parametrize("seconds", [0.0, DEADLOCK], ids=["one by one", "all at once"])
@pytest.mark.parametrize("commits", [False, True], ids=["begun", "committed"])
def test_cap_with_many_operations_is_no_further_in_any_step_than_one_with_a_single_operation(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, commits: bool, seconds: float
) -> None:
    monkeypatch.setattr(executor, "_TURN_SECONDS", seconds)

    async def work() -> None:
        ended: list[Hashable] = []

        def ends(cap: Hashable) -> Operation[str]:
            if commits:
                yield Pending([], [], vault._clerk.now())
            ended.append(cap)
            return "done"

        async with _server(vault, waiting=64) as server:
            asked = [server.lanes.carry_out(ends("many"), "many") for _ in range(20)]
            asked.append(server.lanes.carry_out(ends("single"), "single"))
            await asyncio.wait_for(asyncio.gather(*asked), DEADLOCK)
        assert ended.index("single") <= 2

    _run(work())


def test_many_operations_leave_the_loop_to_others_in_between(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_TURN_SECONDS", 0.0)

    async def work() -> None:
        async with _server(vault, waiting=64) as server:
            asked = [server.lanes.carry_out(_ends(), CAP) for _ in range(20)]
            for _ in range(2):
                await asyncio.sleep(0)
            assert 0 < sum(one.done() for one in asked) < 20
            assert await asyncio.wait_for(asyncio.gather(*asked), DEADLOCK) == ["done"] * 20

    _run(work())


def test_store_that_cannot_be_looked_at_is_told_to_all_that_have_arrived(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_TURN_SECONDS", 0.0)

    @contextmanager
    def fails() -> Iterator[bool]:
        raise StoreUnavailable("gone")
        yield

    async def work() -> None:
        async with _server(vault, fails) as server:
            asked = [server.lanes.carry_out(_ends(), CAP) for _ in range(3)]
            found = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), DEADLOCK)
            assert [type(one) for one in found] == [StoreUnavailable] * 3
            assert not server.lanes._places

    _run(work())


@pytest.mark.parametrize("only_reads", [True, False], ids=["question", "change"])
def test_only_a_question_is_dropped_when_its_caller_goes_while_it_waits_for_a_load(
    vault: Vault, only_reads: bool
) -> None:
    async def work() -> None:
        shelves, source = LineCache(Recency(), 1 << 40), _Held()
        ended: list[str] = []

        def waits() -> Operation[str]:
            yield Loading(shelves, [_begun(shelves, source)])
            ended.append("whole")
            return "done"

        async with _server(vault) as server:
            asked = server.lanes.carry_out(waits(), CAP, only_reads=only_reads)
            assert await server.ask(_ends(), "other") == "done"
            asked.set_exception(StoreUnavailable("gone"))
            assert await server.ask(_ends(), "other") == "done"
            assert await server.ask(_ends(), "other") == "done"
            assert (CAP in server.lanes._places) is not only_reads
            assert isinstance(asked.exception(), StoreUnavailable)
            source.go.set()
        assert ended == ([] if only_reads else ["whole"])
        assert CAP in server.charged
        shelves.close()

    _run(work())


def test_question_whose_caller_has_gone_is_not_begun(vault: Vault) -> None:
    async def work() -> None:
        go = threading.Event()
        begun: list[str] = []

        def held() -> Operation[str]:
            yield SLOW_STEP
            assert go.wait(DEADLOCK)
            return "done"

        def asks() -> Operation[str]:
            begun.append("at once")
            return "done"
            yield

        def asks_slowly() -> Operation[str]:
            yield SLOW_STEP
            begun.append("slowly")
            return "done"

        async with _server(vault) as server:
            first = server.lanes.carry_out(held(), CAP)
            behind = server.lanes.carry_out(asks_slowly(), CAP, only_reads=True)
            assert await server.ask(_ends(), "other") == "done"
            at_once = server.lanes.carry_out(asks(), CAP, only_reads=True)
            behind.cancel()
            at_once.cancel()
            go.set()
            assert await asyncio.wait_for(first, DEADLOCK) == "done"
        assert begun == []

    _run(work())


def test_patience_ends_before_the_load(vault: Vault) -> None:
    async def work() -> None:
        shelves, source = LineCache(Recency(), 1 << 40), _Held()

        def waits() -> Operation[str]:
            load = _begun(shelves, source)
            yield Loading(shelves, [load], 0.0)
            return "whole" if load.is_whole else "so far"

        async with _server(vault) as server:
            assert await server.ask(waits()) == "so far"
            source.go.set()
        shelves.close()

    _run(work())


def test_closing_waits_for_work_under_way(vault: Vault) -> None:
    async def work() -> None:
        go = threading.Event()

        def held() -> Operation[str]:
            yield SLOW_STEP
            assert go.wait(DEADLOCK)
            yield SLOW_STEP
            return "done"

        server = Server(vault)
        asked = server.lanes.carry_out(held(), CAP)
        closing = asyncio.ensure_future(server.lanes.close())
        await asyncio.sleep(0)
        assert not closing.done()
        go.set()
        await asyncio.wait_for(closing, DEADLOCK)
        assert asked.result() == "done"
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("strongroom-slow")]

    _run(work())
