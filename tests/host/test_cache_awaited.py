"""The cache of agents from asyncio: one message at a time for a chat, chats apart, no lease left behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.host import AgentCache, AsyncAgentCache, User
from tests.host.doubles import PATIENCE

USER = User("ana")


class _Memory:
    def cache_busting_signature(self) -> None:
        return None


class _Agent:
    def __init__(self) -> None:
        self.memory = _Memory()
        self.ended = 0

    def end(self) -> None:
        self.ended += 1


class _Cache(AsyncAgentCache[_Agent]):
    """Counts what it builds; a build waits for `go`."""

    def __init__(self, **more: Any) -> None:
        self.built: list[_Agent] = []
        self.building = threading.Event()
        self.go = threading.Event()
        self.go.set()
        super().__init__(AgentCache(self._build, **more))

    def _build(self, *_: object) -> _Agent:
        self.building.set()
        assert self.go.wait(PATIENCE)
        self.built.append(_Agent())
        return self.built[-1]

    def lease(self, key: str = "chat") -> Any:
        return self.agent(key, runtime={}, user=USER)


def test_messages_of_one_chat_take_turns_in_their_order() -> None:
    async def story() -> None:
        cache, said = _Cache(), list[tuple[int, str]]()

        async def message(number: int) -> None:
            async with cache.lease():
                said.append((number, "begin"))
                await asyncio.sleep(0)
                said.append((number, "end"))

        await asyncio.gather(*(message(number) for number in range(20)))
        assert said == [(number, part) for number in range(20) for part in ("begin", "end")]
        assert len(cache.built) == 1
        assert await cache.close()
        assert cache.built[0].ended == 1

    asyncio.run(story())


def test_chat_that_is_being_built_holds_up_no_other() -> None:
    async def story() -> None:
        cache = _Cache()
        async with cache.lease("ready"):
            pass
        cache.go.clear()
        slow = asyncio.ensure_future(_visit(cache, "slow"))
        assert await asyncio.to_thread(cache.building.wait, PATIENCE)
        async with cache.lease("ready"):
            assert not slow.done()
        cache.go.set()
        await slow
        assert await cache.close()

    asyncio.run(story())


async def _visit(cache: _Cache, key: str) -> None:
    async with cache.lease(key):
        pass


def test_many_waiting_messages_of_one_chat_take_no_thread_from_the_others() -> None:
    async def story() -> None:
        cache = _Cache()
        async with cache.lease("busy"):
            waiting = [asyncio.ensure_future(_visit(cache, "busy")) for _ in range(100)]
            for number in range(20):
                await _visit(cache, f"other-{number}")
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting)
        assert await cache.close()

    asyncio.run(story())


def test_task_that_is_cancelled_while_it_waits_leaves_the_chat_free() -> None:
    async def story() -> None:
        cache = _Cache()
        async with cache.lease():
            waiting = asyncio.ensure_future(_visit(cache, "chat"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait((waiting,))
            assert waiting.cancelled()
        await _visit(cache, "chat")
        assert await cache.close()

    asyncio.run(story())


def test_task_that_is_cancelled_while_its_agent_is_built_leaves_the_chat_free() -> None:
    async def story() -> None:
        cache = _Cache()
        cache.go.clear()
        visiting = asyncio.ensure_future(_visit(cache, "chat"))
        assert await asyncio.to_thread(cache.building.wait, PATIENCE)
        visiting.cancel()
        cache.go.set()
        await asyncio.wait((visiting,))
        assert visiting.cancelled()
        await _visit(cache, "chat")
        assert len(cache.built) == 1
        assert await cache.close()
        assert cache.built[0].ended == 1

    asyncio.run(story())


def test_task_that_asks_twice_for_one_chat_is_refused() -> None:
    async def story() -> None:
        cache = _Cache()
        async with cache.lease():
            with pytest.raises(InvalidRequest):
                await _visit(cache, "chat")
            await _visit(cache, "another")
        assert await cache.close()

    asyncio.run(story())


def test_error_in_the_turn_goes_on_and_gives_the_agent_back() -> None:
    async def story() -> None:
        cache = _Cache()
        with pytest.raises(KeyError):
            async with cache.lease():
                raise KeyError("x")
        await _visit(cache, "chat")
        assert len(cache.built) == 1
        await cache.discard("chat")
        await cache.sweep()
        assert cache.built[0].ended == 1
        assert await cache.close()

    asyncio.run(story())


def test_closed_cache_refuses() -> None:
    async def story() -> str:
        cache = _Cache()
        await cache.close()
        try:
            await _visit(cache, "chat")
        except StrongroomError as error:
            return error.reason
        return ""

    assert asyncio.run(story()) == "provider_unavailable"
