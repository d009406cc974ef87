"""Where calls are carried out: on the event loop as far as their commit, which a thread makes for many at once.

The loop brings each operation to its commit, a fraction of a millisecond. The commits that have come together go to
one thread, which makes one transaction of them; then the loop goes on with each. So no two threads fight over the
interpreter, nothing is answered before it is durable, and one flush of the disk serves all.

Work that takes long (many lines to rank, an erasure) moves to the slow lane, a few threads that are shared out fairly
(`fair_queue.py`); between two portions of it the thread goes to whoever waits. An operation that waits for a shelf to
be loaded holds no thread. The server's own work, such as its metrics, has threads of its own.

Places are shared out, too: a cap has at most as many operations under way as places are left, so there is always one
for the next cap. What was begun is finished, also if whoever asked has gone, since a write is whole or absent; but a
question that nobody waits for any more is dropped where it would wait, and its place is free.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from time import perf_counter, thread_time
from typing import Any, TypeVar

from strongroom.errors import RateLimited, ServerUnavailable
from strongroom.memory.doing import AT_ONCE, Doing, Loading, Long, Step, carried_out
from strongroom.server.fair_queue import FairQueue
from strongroom.store import Commit, Grouping, Pending, Store

T = TypeVar("T")
Outcome = Commit | Exception
_OWN_THREADS = 3
"""Threads for the server's own work: a checkpoint may take long, and nobody who watches the server waits for it."""


class _Job:
    """One operation, who waits for it, and for whom it is done."""

    __slots__ = ("actor", "cap", "doing", "future", "only_reads", "seconds")

    def __init__(self, future: asyncio.Future[Any], doing: Doing[Any], cap: Hashable, *, only_reads: bool) -> None:
        self.future = future
        self.doing = doing
        self.cap = cap
        self.only_reads = only_reads
        self.actor = ""
        self.seconds = 0.0
        """Time that it has taken: on the event loop, on a slow thread, and what it was the first to have loaded."""

    @property
    def is_idle(self) -> bool:
        """Whether all that is left is to answer somebody who has gone."""
        return self.only_reads and self.future.done()


class Lanes:
    """The lanes of one server. `carry_out` and `run` belong to the event loop that made it.

    `charge` is told how many seconds each call of a cap took: of the event loop's time, in which nobody else was
    served, and of a thread's CPU time elsewhere. A load is charged once, to one of those who waited for it.
    """

    def __init__(
        self,
        store: Store,
        together: Callable[[], AbstractContextManager[bool]],
        slow: int,
        waiting: int,
        charge: Callable[[Hashable, float], None],
    ) -> None:
        self._store = store
        self._together = together
        self._charge = charge
        self._loop = asyncio.get_running_loop()
        self._limit = waiting
        self._under_way = 0
        self._places: Counter[Hashable] = Counter()
        """How many of those under way are each cap's."""
        self._arrived: list[_Job] = []
        self._waiting: list[tuple[_Job, Pending]] = []
        """Operations at their commit, for the next transaction."""
        self._committing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._groups: SimpleQueue[list[tuple[_Job, Pending]] | None] = SimpleQueue()
        self._slow: FairQueue[_Job] = FairQueue(slow)
        self._returned: deque[Callable[[], None]] = deque()
        """What threads have for the loop to do."""
        self._waking = False
        self._own = ThreadPoolExecutor(_OWN_THREADS, "strongroom-own")
        self._threads = [threading.Thread(target=self._run_commits, name="strongroom-commit")]
        self._threads += [threading.Thread(target=self._run_slow, name=f"strongroom-slow-{n}") for n in range(slow)]
        for thread in self._threads:
            thread.start()

    def carry_out(self, doing: Doing[T], cap: Hashable, *, only_reads: bool = False) -> asyncio.Future[T]:
        """Carry out an operation for a cap. Raises Unavailable at once if too much waits already, or too much of it.

        One that `only_reads` may be dropped once its future is done, which whoever made the call ends when they go.
        """
        left = self._limit - self._under_way
        if self._places[cap] >= left:
            doing.close()
            if left <= 0:
                raise ServerUnavailable("the server has more to do than it can", hint="try again in a moment")
            raise RateLimited("too many requests are under way", hint="wait for the answer to one of them")
        self._under_way += 1
        self._places[cap] += 1
        self._idle.clear()
        job = _Job(self._loop.create_future(), doing, cap, only_reads=only_reads)
        self._arrive(job)
        return job.future

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have work of the server's own done, beside all calls."""
        return self._loop.run_in_executor(self._own, work)

    async def close(self) -> None:
        """Finish what was begun, then end the threads."""
        await self._idle.wait()
        self._groups.put(None)
        self._slow.close()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(self._own.shutdown)

    # On the event loop.

    def _arrive(self, job: _Job) -> None:
        self._arrived.append(job)
        if len(self._arrived) == 1:
            self._loop.call_soon(self._begin)  # once the loop has seen what else is there

    def _begin(self) -> None:
        """Begin with all that has arrived: one look for what others did serves them all.

        If there is something new, taking it in may take long, and they do so on the slow lane.
        """
        arrived, self._arrived = self._arrived, []
        try:
            with self._together() as nothing_new:
                for job in arrived:
                    if job.is_idle:
                        self._drop(job)
                    elif nothing_new:
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
        began = perf_counter()
        try:
            step = _resumed(job.doing, outcome)
        except StopIteration as stop:
            job.seconds += perf_counter() - began
            self._finish(job, stop.value, None)
        except Exception as error:  # noqa: BLE001 - it is raised again where the call was made
            job.seconds += perf_counter() - began
            self._finish(job, None, error)
        else:
            job.seconds += perf_counter() - began
            if isinstance(step, Pending):
                self._waiting.append((job, step))
            elif isinstance(step, Long):
                job.actor = step.actor or job.actor
                self._slow.put(job)
            else:
                self._await_loads(job, step)

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

    def _await_loads(self, job: _Job, step: Loading) -> None:
        """Go on with an operation when its shelves are loaded, its patience is over, or its caller has gone.

        No thread waits.
        """
        left, resumed = len(step.loads), False

        def resume(_: object = None) -> None:
            nonlocal resumed
            if not resumed:
                resumed = True
                self._arrive(job)

        def ended(charge: Callable[[], float]) -> None:
            nonlocal left
            left -= 1
            if job.future.done():  # answered before, with what there was
                self._charge(job.cap, charge())
            else:
                job.seconds += charge()
            if not left:
                resume()

        if job.only_reads:
            job.future.add_done_callback(resume)
        if step.patience is not None:
            self._loop.call_later(step.patience, resume)
        step.begin_in_background()
        for load in step.loads:
            load.on_end(partial(self._return, partial(ended, load.charge)))

    def _finish(self, job: _Job, answer: Any, error: BaseException | None) -> None:
        self._under_way -= 1
        self._places[job.cap] -= 1
        if not self._places[job.cap]:
            del self._places[job.cap]
        if not self._under_way:
            self._idle.set()
        self._charge(job.cap, job.seconds)
        if job.future.done():  # nobody waits for it any more
            return
        if error is None:
            job.future.set_result(answer)
        else:
            job.future.set_exception(error)

    def _drop(self, job: _Job) -> None:
        job.doing.close()
        self._finish(job, None, None)

    def _catch(self) -> None:
        self._waking = False
        while self._returned:
            self._returned.popleft()()

    # On threads.

    def _return(self, work: Callable[[], None]) -> None:
        """Have the loop do something."""
        self._returned.append(work)
        # Whoever finds the flag set is seen by a `_catch` that is still to come.
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._catch)

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
        return [_outcome(store, step) for step in steps]

    def _run_slow(self) -> None:
        while (job := self._slow.take()) is not None:
            began = thread_time()
            work = self._drive(job)
            job.seconds += thread_time() - began
            self._slow.finished(job)
            work()
            del job, work

    def _drive(self, job: _Job) -> Callable[[], None]:
        """Carry on with an operation on this thread; what is to be done with it then.

        It goes on until it ends, has to wait for shelves, or is between two portions while somebody else waits.
        """
        outcome: Outcome | None = None
        if job.is_idle:
            return partial(self._return, partial(self._drop, job))
        try:
            while True:
                step = _resumed(job.doing, outcome)
                if isinstance(step, Loading):
                    return partial(self._return, partial(self._await_loads, job, step))
                if isinstance(step, Long):
                    job.actor = step.actor or job.actor
                    if self._slow.is_awaited(job):
                        return partial(self._slow.put, job)
                    outcome = AT_ONCE
                else:
                    outcome = _outcome(self._store, step)
        except StopIteration as stop:
            return partial(self._return, partial(self._finish, job, stop.value, None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the call was made
            return partial(self._return, partial(self._finish, job, None, error))


def _resumed(doing: Doing[Any], outcome: Outcome | None) -> Step:
    """The next step of an operation that is told how the last one went; None: it begins, or time has passed."""
    if outcome is None:
        return next(doing)
    if isinstance(outcome, Exception):
        return doing.throw(outcome)
    return doing.send(outcome)


def _outcome(store: Store, step: Pending) -> Outcome:
    try:
        return carried_out(step, store)
    except Exception as error:  # noqa: BLE001 - it is the operation's to deal with
        return error
