"""Where calls are carried out, beside the event loop, which must not wait for the disk.

The fast lane is one thread: it takes whatever has arrived, brings each operation as far as its commit, makes all of
those commits in one transaction, and goes on with each. No thread waits for another, and one flush serves them all.
What takes long (a shelf to be read from disk, an erasure) moves to the slow lane, so that nobody else waits for it.
What was begun is finished, also if whoever asked has gone: a write is whole or absent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from strongroom.errors import ServerUnavailable
from strongroom.memory.doing import LONG, Doing, done
from strongroom.store import Commit, Grouping, Pending, Store

T = TypeVar("T")
_BATCH = 128


class _Job(NamedTuple):
    """One operation, and who waits for it."""

    future: asyncio.Future[Any]
    doing: Doing[Any]


class Lanes:
    """The lanes of one server. `carry_out` and `run` belong to the event loop that made it."""

    def __init__(self, store: Store, slow: int, waiting: int) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._limit = waiting
        self._under_way = 0
        self._fast: SimpleQueue[_Job | None] = SimpleQueue()
        self._slow: SimpleQueue[_Job | None] = SimpleQueue()
        self._finished: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._waking = False
        self._fast_thread = threading.Thread(target=self._run_fast, name="strongroom-fast")
        self._slow_threads = [threading.Thread(target=self._run_slow, name=f"strongroom-slow-{n}") for n in range(slow)]
        for thread in [self._fast_thread, *self._slow_threads]:
            thread.start()

    def carry_out(self, doing: Doing[T]) -> asyncio.Future[T]:
        """Have an operation carried out. Raises ServerUnavailable at once if too much waits already."""
        return self._accept(self._fast, doing)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have other work done, on the slow lane."""
        return self._accept(self._slow, _just(work))

    def _accept(self, lane: SimpleQueue[_Job | None], doing: Doing[T]) -> asyncio.Future[T]:
        if self._under_way >= self._limit:
            raise ServerUnavailable("the server has more to do than it can", hint="try again in a moment")
        self._under_way += 1
        future: asyncio.Future[T] = self._loop.create_future()
        lane.put(_Job(future, doing))
        return future

    async def close(self) -> None:
        """Finish what was begun, then end the threads."""
        self._fast.put(None)
        await asyncio.to_thread(self._fast_thread.join)
        for _ in self._slow_threads:
            self._slow.put(None)
        for thread in self._slow_threads:
            await asyncio.to_thread(thread.join)
        self._deliver()

    # The fast lane.

    def _run_fast(self) -> None:
        while (first := self._fast.get()) is not None:
            jobs = [first]
            for _ in range(min(self._fast.qsize(), _BATCH - 1)):
                job = self._fast.get()
                if job is None:
                    self._fast.put(None)  # for the next look
                    break
                jobs.append(job)
            self._carry(jobs)

    def _carry(self, jobs: Sequence[_Job]) -> None:
        """Bring operations to their end, commit by commit, all of them together."""
        waiting = [(job, step) for job in jobs if (step := self._advance(job, None)) is not None]
        while waiting:
            outcomes = self._commit([step for _, step in waiting])
            self._wake()  # what was finished before has waited for this commit long enough
            waiting = [
                (job, step)
                for (job, _), outcome in zip(waiting, outcomes, strict=True)
                if (step := self._advance(job, outcome)) is not None
            ]
        self._wake()

    def _advance(self, job: _Job, outcome: Commit | Exception | None) -> Pending | None:
        """Go on with an operation up to its next commit; None if it has ended or moved to the slow lane."""
        try:
            if outcome is None:
                step = next(job.doing)
            elif isinstance(outcome, Exception):
                step = job.doing.throw(outcome)
            else:
                step = job.doing.send(outcome)
        except StopIteration as stop:
            self._finished.append((job.future, stop.value, None))
            return None
        except BaseException as error:  # noqa: BLE001 - it is raised again where the call was made
            self._finished.append((job.future, None, error))
            return None
        if step is LONG:
            self._slow.put(job)
            return None
        return step

    def _commit(self, steps: Sequence[Pending]) -> Sequence[Commit | Exception]:
        store = self._store
        try:
            if isinstance(store, Grouping):
                return store.commit_all(steps)
        except Exception as error:  # noqa: BLE001 - each operation hears of it
            return [error] * len(steps)
        return [_committed(store, step) for step in steps]

    # The slow lane.

    def _run_slow(self) -> None:
        while (job := self._slow.get()) is not None:
            try:
                self._finished.append((job.future, done(job.doing, self._store), None))
            except BaseException as error:  # noqa: BLE001 - it is raised again where the call was made
                self._finished.append((job.future, None, error))
            del job
            self._wake()

    # Back to the event loop.

    def _wake(self) -> None:
        # Whoever finds the flag set is seen by a delivery that is still to come.
        if self._finished and not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._waking = False
        while self._finished:
            future, answer, error = self._finished.popleft()
            self._under_way -= 1
            if future.done():  # its request was cancelled
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)


def _just(work: Callable[[], T]) -> Doing[T]:
    yield LONG
    return work()


def _committed(store: Store, step: Pending) -> Commit | Exception:
    try:
        return store.commit(step.entries, step.effects, step.time)
    except Exception as error:  # noqa: BLE001 - it is the operation's to deal with
        return error
