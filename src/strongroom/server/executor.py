"""The executor of calls. A call runs on the event loop up to its commit, and one thread commits for many calls.

The loop runs each operation up to its commit, which takes a fraction of a millisecond. One thread then writes all
commits that are ready in one transaction (group commit), and the loop continues each operation. So threads do not
compete for the interpreter, each answer follows its durable commit, and one flush of the disk serves many calls.

Slow work (many lines to rank, an erasure) moves to a few slow threads, which are shared fairly (`fair_queue.py`). Such
work consists of short steps, and after each step the thread may turn to another operation. An operation that waits for
a namespace to be loaded holds no thread. The server's own work, such as its metrics, has separate threads.

The number of operations under way is limited, and the limit is shared fairly. A cap may have at most as many operations
under way as there are free places, so there is always a place for the next cap. A write that has begun is finished even
if the caller has gone, since a write is whole or absent. A read that no caller waits for any more is dropped at its
next pause.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

from strongroom.errors import RateLimited, ServerUnavailable, StrongroomError
from strongroom.memory.operation import AT_ONCE, Loading, Operation, SlowStep, Step
from strongroom.server.fair_queue import FairQueue
from strongroom.store import Commit, Grouping, Pending, Store

_TURN_SECONDS = 2e-3
"""Seconds after which operations pause, so that the event loop can read from and write to connections."""

T = TypeVar("T")
Outcome = Commit | Exception
_OWN_THREADS = 3
"""Threads for the server's own work.

There are several, so that a slow checkpoint does not delay metrics or health checks.
"""


class _Job:
    """One operation with the future for its answer, and the cap and the actor for whom it runs."""

    __slots__ = ("actor", "cap", "doing", "future", "only_reads", "seconds")

    def __init__(self, future: asyncio.Future[Any], doing: Operation[Any], cap: Hashable, *, only_reads: bool) -> None:
        self.future = future
        self.doing = doing
        self.cap = cap
        self.only_reads = only_reads
        self.actor = ""
        self.seconds = 0.0
        """Seconds used so far: on the event loop, on a slow thread, and for namespaces that it began to load."""

    @property
    def is_idle(self) -> bool:
        """Whether the operation only reads, and no caller waits for its answer any more."""
        return self.only_reads and self.future.done()


class RoundRobin(Generic[T]):
    """A queue of items of several callers, which gives one item of each caller in turn. For use on one thread."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, owner: Hashable, item: T) -> None:
        self._waiting.setdefault(owner, deque()).append(item)

    def take(self) -> T:
        """Remove and return the next item. The queue must not be empty."""
        owner, queue = self._waiting.popitem(last=False)
        item = queue.popleft()
        if queue:
            self._waiting[owner] = queue  # at the end: the others come first
        return item


class Executor:
    """Runs the operations of one server.

    `carry_out` and `run` must be called on the event loop that made the executor. `charge` is called with the seconds
    that each call of a cap took: time on the event loop, which serves nobody else meanwhile, and CPU time on other
    threads. Loading a namespace is charged once, to one of the calls that waited for it.
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
        """The number of operations under way for each cap."""
        self._arrived: RoundRobin[_Job] = RoundRobin()
        self._outcomes: RoundRobin[tuple[_Job, Outcome]] = RoundRobin()
        """Operations whose commit has succeeded or failed, each with its outcome."""
        self._is_called = False
        """Whether the event loop is already going to call `_take_turns`."""
        self._waiting: list[tuple[_Job, Pending]] = []
        """Operations that have reached their commit, for the next transaction."""
        self._committing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._groups: SimpleQueue[list[tuple[_Job, Pending]] | None] = SimpleQueue()
        self._slow: FairQueue[_Job] = FairQueue(slow)
        self._returned: deque[Callable[[], None]] = deque()
        """Functions that threads pass to the event loop, to be called there."""
        self._waking = False
        self._own = ThreadPoolExecutor(_OWN_THREADS, "strongroom-own")
        self._threads = [threading.Thread(target=self._run_commits, name="strongroom-commit")]
        self._threads += [threading.Thread(target=self._run_slow, name=f"strongroom-slow-{n}") for n in range(slow)]
        for thread in self._threads:
            thread.start()

    def carry_out(self, doing: Operation[T], cap: Hashable, *, only_reads: bool = False) -> asyncio.Future[T]:
        """Carry out an operation for a cap. Returns the future of its answer.

        Raises ServerUnavailable if too many operations are under way, and RateLimited if too many of them are the
        cap's. An operation that `only_reads` may be dropped once its future is done; when a client goes, the caller
        completes the future.
        """
        left = self._limit - self._under_way
        if self._places[cap] >= left:
            doing.close()
            if left <= 0:
                raise ServerUnavailable("the server is overloaded", hint="try again in a moment")
            raise RateLimited(
                "too many requests with this cap are running", hint="wait until one of these requests is answered"
            )
        self._under_way += 1
        self._places[cap] += 1
        self._idle.clear()
        job = _Job(self._loop.create_future(), doing, cap, only_reads=only_reads)
        self._arrive(job)
        return job.future

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run the server's own work, on threads that serve no calls."""
        return self._loop.run_in_executor(self._own, work)

    async def close(self) -> None:
        """Wait until all operations under way have ended, then end the threads."""
        await self._idle.wait()
        self._groups.put(None)
        self._slow.close()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(self._own.shutdown)

    # On the event loop.

    def _arrive(self, job: _Job) -> None:
        self._arrived.put(job.cap, job)
        self._call_soon()

    def _call_soon(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._take_turns)  # in the loop's next round, together with others

    def _take_turns(self) -> None:
        """Advance operations for `_TURN_SECONDS`, one of each cap in turn.

        The remaining operations wait until the loop has done its I/O. A cap with hundreds of calls under way thus
        delays the only call of another cap by a moment, not by hundreds of calls.
        """
        self._is_called = False
        end = perf_counter() + _TURN_SECONDS
        while self._outcomes:
            self._advance(*self._outcomes.take())
            if perf_counter() >= end:
                break
        self._begin(perf_counter() + _TURN_SECONDS)
        if self._waiting and not self._committing:
            self._commit_waiting()
        if self._arrived or self._outcomes:
            self._call_soon()

    def _begin(self, end: float) -> None:
        """Begin operations that have arrived, after one check for changes by other processes.

        Reading such changes may take long, so if there are any, the operations begin on the slow threads.
        """
        if not self._arrived:
            return
        try:
            with self._together() as nothing_new:
                while self._arrived:
                    job = self._arrived.take()
                    if job.is_idle:
                        self._drop(job)
                    elif nothing_new:
                        self._advance(job, None)
                    else:
                        self._slow.put(job)
                    if perf_counter() >= end:
                        break
        except Exception as error:  # noqa: BLE001 - the store cannot be read: each of them hears of it
            while self._arrived:
                self._finish(self._arrived.take(), None, error)

    def _advance(self, job: _Job, outcome: Outcome | None) -> None:
        """Run an operation until its next commit, its end, or a slow step."""
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
            elif isinstance(step, SlowStep):
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
            self._outcomes.put(job.cap, (job, outcome))
        self._committing = False
        self._take_turns()

    def _await_loads(self, job: _Job, step: Loading) -> None:
        """Continue an operation when its namespaces are loaded, it may wait no longer, or its caller has gone.

        It holds no thread while it waits.
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
            if job.future.done():  # already answered with what was loaded
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
        if job.future.done():  # the caller has gone
            return
        if isinstance(error, StrongroomError):
            # The frames of a refusal hold the request's body and lead to the job, and the job to the refusal: the body
            # would stay in RAM until the collector looks for cycles. Nobody needs the frames; a defect keeps its own.
            error.__traceback__ = error.__context__ = None
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
        """Have a function called on the event loop."""
        self._returned.append(work)
        # If the flag is set, a `_catch` is still to come, which sees what was appended.
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._catch)

    def _run_commits(self) -> None:
        while (group := self._groups.get()) is not None:
            outcomes = self._commit([step for _, step in group])
            self._loop.call_soon_threadsafe(self._committed, group, outcomes)
            del group, outcomes  # until the next group comes, they would hold what was asked

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
        """Advance an operation on this thread. Returns a function that does the next thing with it.

        The operation runs until it ends, until it waits for namespaces, or until it can pause while other work needs
        the thread.
        """
        outcome: Outcome | None = None
        if job.is_idle:
            return partial(self._return, partial(self._drop, job))
        try:
            while True:
                step = _resumed(job.doing, outcome)
                if isinstance(step, Loading):
                    return partial(self._return, partial(self._await_loads, job, step))
                if isinstance(step, SlowStep):
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


def _resumed(doing: Operation[Any], outcome: Outcome | None) -> Step:
    """Resume an operation with the outcome of its last step.

    Without an outcome, the operation begins or continues after a pause.
    """
    if outcome is None:
        return next(doing)
    if isinstance(outcome, Exception):
        return doing.throw(outcome)
    return doing.send(outcome)


def _outcome(store: Store, step: Pending) -> Outcome:
    try:
        return store.commit(step.entries, step.effects, step.time, since=step.since)
    except Exception as error:  # noqa: BLE001 - it is the operation's to deal with
        return error
