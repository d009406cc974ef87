"""Threads that run the vault's calls, which wait for the disk, beside the event loop, which must not.

Own threads rather than an executor: a call costs one wake-up each way, and answers that are ready together wake the
loop once. What a worker has begun it finishes, also if whoever asked has gone: a write is whole or absent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from strongroom.errors import ServerUnavailable

T = TypeVar("T")
_Job = tuple["asyncio.Future[Any]", Callable[[], Any]]


class Workers:
    """A fixed number of threads for one event loop. `run` belongs to that loop."""

    def __init__(self, count: int, waiting: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = waiting
        self._under_way = 0
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._waking = False
        self._threads = [threading.Thread(target=self._work, name=f"strongroom-{n}") for n in range(count)]
        for thread in self._threads:
            thread.start()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have `work` done by a thread. Raises ServerUnavailable at once if too much waits already."""
        if self._under_way >= self._limit:
            raise ServerUnavailable("the server has more to do than it can", hint="try again in a moment")
        future: asyncio.Future[T] = self._loop.create_future()
        self._under_way += 1
        self._jobs.put((future, work))
        return future

    @property
    def under_way(self) -> int:
        """Calls that run or wait."""
        return self._under_way

    async def close(self) -> None:
        """Finish what was begun, then end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._deliver()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            try:
                self._done.append((future, work(), None))
            except BaseException as error:  # noqa: BLE001 - it is raised again where the call was made
                self._done.append((future, None, error))
            del job, future, work
            # Whoever finds the flag set has been seen by a delivery that is still to come.
            if not self._waking:
                self._waking = True
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._waking = False
        while self._done:
            future, answer, error = self._done.popleft()
            self._under_way -= 1
            if future.done():  # its request was cancelled
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
