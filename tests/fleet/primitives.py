"""What stands in for locks, conditions, events and pools of threads among the tasks of a scheduler.

`Primitives` is what modules find under the name `threading`, and `Threads` is given wherever an executor is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from tests.fleet.scheduler import Scheduler, Task

T = TypeVar("T")


class Lock:
    """A lock that hands over instead of blocking its thread."""

    is_reentrant = False

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.owner: Task | None = None
        self.depth = 0
        self.waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = self._scheduler.running()
        while self.depth and not (self.is_reentrant and self.owner is task):
            if not blocking:
                return False
            self.waiting.append(task)
            self._scheduler.park()
        self.owner = task
        self.depth += 1
        return True

    def release(self) -> None:
        self.depth -= 1
        if not self.depth:
            self.owner = None
            waiting, self.waiting = self.waiting, []
            for task in waiting:
                self._scheduler.wake(task)

    def locked(self) -> bool:
        return self.depth > 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """The same, for a task that holds it already."""

    is_reentrant = True


class Condition:
    """A condition on such a lock."""

    def __init__(self, scheduler: Scheduler, lock: Lock) -> None:
        self._scheduler = scheduler
        self._lock = lock
        self._waiting: list[Task] = []

    def wait(self, timeout: float | None = None) -> bool:
        depth, self._lock.depth = self._lock.depth, 1
        self._waiting.append(self._scheduler.running())
        self._lock.release()
        self._scheduler.park()
        self._lock.acquire()
        self._lock.depth = depth
        return True

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._scheduler.wake(task)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Event:
    """Something to wait for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._scheduler.wake(task)

    def wait(self, timeout: float | None = None) -> bool:
        while not self._is_set:
            self._waiting.append(self._scheduler.running())
            self._scheduler.park()
        return True


_Held = Lock


class Primitives:
    """What modules find under the name `threading`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Lock(self) -> Lock:  # noqa: N802 - the name of what it stands in for
        return Lock(self._scheduler)

    def RLock(self) -> RLock:  # noqa: N802
        return RLock(self._scheduler)

    def Condition(self, lock: _Held | None = None) -> Condition:  # noqa: N802
        return Condition(self._scheduler, lock or RLock(self._scheduler))

    def Event(self) -> Event:  # noqa: N802
        return Event(self._scheduler)

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class Awaited(Future[T]):
    """A future whose result is waited for as all else is."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.over = Event(scheduler)

    def result(self, timeout: float | None = None) -> T:
        self.over.wait()
        return super().result(timeout)


class Threads(Executor):
    """A pool in which all that is submitted runs side by side, as tasks."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Awaited[T] = Awaited(self._scheduler)

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - who waits for the future hears of it
                future.set_exception(error)
            future.over.set()

        self._scheduler.spawn(f"{self._name}.{getattr(fn, '__name__', 'work')}", work)
        return future

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **_: Any) -> Iterator[T]:
        futures = [self.submit(fn, *args) for args in zip(*iterables, strict=False)]
        return iter([one.result() for one in futures])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to let go of."""


def waited(futures: Iterable[Future[Any]], *_: object) -> None:
    """In place of `concurrent.futures.wait`: all of them are over, well or badly."""
    for one in futures:
        if isinstance(one, Awaited):
            one.over.wait()
