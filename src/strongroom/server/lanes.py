"""Where calls are carried out: on the event loop as far as their commit, which a thread makes for many at once.

The loop brings each operation to its commit, a fraction of a millisecond. The commits that have come together go to
one thread, which makes one transaction of them; then the loop goes on with each. So no two threads fight over the
interpreter, nothing is answered before it is durable, and one flush of the disk serves all.

What takes long (a shelf to be read from disk, many lines to rank, an erasure) moves to the slow lane, a few threads, so
that nobody else waits for it. What was begun is finished, also if whoever asked has gone: a write is whole or absent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from strongroom.errors import ServerUnavailable
from strongroom.memory.doing import LONG, Doing, done
from strongroom.store import Commit, Grouping, Pending, Store

T = TypeVar("T")
Outcome = Commit | Exception


class _Job(NamedTuple):
    """One operation, and who waits for it."""

    future: asyncio.Future[Any]
    doing: Doing[Any]


class Lanes:
    """The lanes of one server. `carry_out` and `run` belong to the event loop that made it."""

    def __init__(
        self, store: Store, together: Callable[[], AbstractContextManager[bool]], slow: int, waiting: int
    ) -> None:
        self._store = store
        self._together = together
        self._loop = asyncio.get_running_loop()
        self._limit = waiting
        self._under_way = 0
        self._arrived: list[_Job] = []
        self._waiting: list[tuple[_Job, Pending]] = []
        """Operations at their commit, for the next transaction."""
        self._committing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._groups: SimpleQueue[list[tuple[_Job, Pending]] | None] = SimpleQueue()
        self._slow: SimpleQueue[_Job | None] = SimpleQueue()
        self._finished: deque[tuple[_Job, Any, BaseException | None]] = deque()
        self._waking = False
        self._threads = [threading.Thread(target=self._run_commits, name="strongroom-commit")]
        self._threads += [threading.Thread(target=self._run_slow, name=f"strongroom-slow-{n}") for n in range(slow)]
        for thread in self._threads:
            thread.start()

    def carry_out(self, doing: Doing[T]) -> asyncio.Future[T]:
        """Carry out an operation. Raises ServerUnavailable at once if too much waits already."""
        job = self._accept(doing)
        self._arrived.append(job)
        if len(self._arrived) == 1:
            self._loop.call_soon(self._begin)  # once the loop has seen what else is there
        return job.future

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have other work done, on the slow lane."""
        job = self._accept(_just(work))
        self._slow.put(job)
        return job.future

    def _accept(self, doing: Doing[Any]) -> _Job:
        if self._under_way >= self._limit:
            doing.close()
            raise ServerUnavailable("the server has more to do than it can", hint="try again in a moment")
        self._under_way += 1
        self._idle.clear()
        return _Job(self._loop.create_future(), doing)

    async def close(self) -> None:
        """Finish what was begun, then end the threads."""
        await self._idle.wait()
        self._groups.put(None)
        for _ in self._threads:
            self._slow.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    # On the event loop.

    def _begin(self) -> None:
        """Begin with all that has arrived: one look for what others did serves them all.

        If there is something new, taking it in may take long, and they do so on the slow lane.
        """
        arrived, self._arrived = self._arrived, []
        try:
            with self._together() as nothing_new:
                for job in arrived:
                    if nothing_new:
                        self._advance(job, None)
                    else:
                        self._slow.put(job)
        except Exception as error:  # noqa: BLE001 - the store cannot be read: each of them hears of it
            for job in arrived:
                self._finish(job, None, error)
        if self._waiting and not self._committing:
            self._commit_waiting()

    def _advance(self, job: _Job, outcome: Outcome | None) -> None:
        """Go on with an operation up to its next commit, its end, or the point where it takes long."""
        try:
            if outcome is None:
                step = next(job.doing)
            elif isinstance(outcome, Exception):
                step = job.doing.throw(outcome)
            else:
                step = job.doing.send(outcome)
        except StopIteration as stop:
            self._finish(job, stop.value, None)
        except Exception as error:  # noqa: BLE001 - it is raised again where the call was made
            self._finish(job, None, error)
        else:
            if step is LONG:
                self._slow.put(job)
            else:
                self._waiting.append((job, step))

    def _commit_waiting(self) -> None:
        self._committing = True
        group, self._waiting = self._waiting, []
        self._groups.put(group)

    def _committed(self, group: Sequence[tuple[_Job, Pending]], outcomes: Sequence[Outcome]) -> None:
        for (job, _), outcome in zip(group, outcomes, strict=True):
            self._advance(job, outcome)
        if self._waiting:
            self._commit_waiting()
        else:
            self._committing = False

    def _finish(self, job: _Job, answer: Any, error: BaseException | None) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()
        if job.future.done():  # its request was cancelled
            return
        if error is None:
            job.future.set_result(answer)
        else:
            job.future.set_exception(error)

    def _deliver(self) -> None:
        self._waking = False
        while self._finished:
            self._finish(*self._finished.popleft())

    # On threads.

    def _run_commits(self) -> None:
        while (group := self._groups.get()) is not None:
            outcomes = self._commit([step for _, step in group])
            self._loop.call_soon_threadsafe(self._committed, group, outcomes)

    def _commit(self, steps: Sequence[Pending]) -> Sequence[Outcome]:
        store = self._store
        try:
            if isinstance(store, Grouping):
                return store.commit_all(steps)
        except Exception as error:  # noqa: BLE001 - each operation hears of it
            return [error] * len(steps)
        return [_committed_alone(store, step) for step in steps]

    def _run_slow(self) -> None:
        while (job := self._slow.get()) is not None:
            try:
                self._finished.append((job, done(job.doing, self._store), None))
            except BaseException as error:  # noqa: BLE001 - it is raised again where the call was made
                self._finished.append((job, None, error))
            del job
            # Whoever finds the flag set is seen by a delivery that is still to come.
            if not self._waking:
                self._waking = True
                self._loop.call_soon_threadsafe(self._deliver)


def _just(work: Callable[[], T]) -> Doing[T]:
    yield LONG
    return work()


def _committed_alone(store: Store, step: Pending) -> Outcome:
    try:
        return store.commit(step.entries, step.effects, step.time, since=step.since)
    except Exception as error:  # noqa: BLE001 - it is the operation's to deal with
        return error
