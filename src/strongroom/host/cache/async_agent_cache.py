"""The cache of agents for asynchronous runtimes: `AgentCache` with coroutines.

Slow steps (building or ending an agent) run on threads, so that the event loop goes on. Messages of one chat wait for
each other in the event loop and hold no thread while they wait. A cancelled task leaves no lease behind.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from strongroom.errors import InvalidRequest
from strongroom.host.cache.agent_cache import A, AgentCache, Runtime, User
from strongroom.host.cache.key_lock import locked_for

T = TypeVar("T")


class AsyncAgentCache(Generic[A]):
    """An `AgentCache` with coroutines. Use it from one event loop."""

    def __init__(self, cache: AgentCache[A]) -> None:
        self._cache = cache
        self._waiting: dict[str, list[asyncio.Task[object] | None]] = {}
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def agent(self, key: str, *, runtime: Runtime, user: User) -> AsyncIterator[A]:
        """Lease the agent of a key for one message, as `AgentCache.agent` does."""
        async with self._turn(key):
            lease = self._cache.agent(key, runtime=runtime, user=user)
            with locked_for(object()):  # threads are borrowed, so a lease is owned by this object
                agent = await _finished(lease.__enter__, lambda: lease.__exit__(None, None, None))
                try:
                    yield agent
                finally:
                    kind, error, trace = sys.exc_info()
                    await _finished(lambda: lease.__exit__(kind, error, trace))

    async def discard(self, key: str) -> None:
        """End the agent of a key, as `AgentCache.discard` does."""
        await _finished(lambda: self._cache.discard(key))

    async def sweep(self) -> None:
        """End agents that are idle or too many, as `AgentCache.sweep` does."""
        await _finished(self._cache.sweep)

    async def close(self, wait: float = 10.0) -> bool:
        """Refuse further messages and end every agent, as `AgentCache.close` does."""
        return await _finished(lambda: self._cache.close(wait))

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """Wait until this task may lease the key. Tasks are served in the order in which they came."""
        task = asyncio.current_task()
        async with self._changed:
            queue = self._waiting.setdefault(key, [])
            if task in queue:
                raise InvalidRequest(
                    "this task already leases the agent of this key",
                    hint="end the first lease before you ask for the next",
                )
            queue.append(task)
            try:
                await self._changed.wait_for(lambda: queue[0] is task)
            except BaseException:
                self._leave(key, task)
                raise
        try:
            yield
        finally:
            async with self._changed:
                self._leave(key, task)

    def _leave(self, key: str, task: asyncio.Task[object] | None) -> None:
        queue = self._waiting[key]
        queue.remove(task)
        if not queue:
            del self._waiting[key]
        self._changed.notify_all()


async def _finished(call: Callable[[], T], undo: Callable[[], object] | None = None) -> T:
    """Run a call on a thread until it ends. A cancelled caller waits for the call and undoes it, then raises."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait((running,))
        if undo is not None and running.exception() is None:
            await asyncio.wait((asyncio.ensure_future(asyncio.to_thread(undo)),))
        raise
