"""A thread pool that many agents share, and lanes: ordered queues of tasks for the pool.

The number of threads is bounded by the host, not by the number of chats. Threads are daemons, because a provider that
hangs must not hold up the end of the process; the standard library's executor joins its threads at exit and would wait
for ever. A thread that is held for long is replaced, up to a bound. Otherwise the chats with a hanging provider would
starve all other chats.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

log = logging.getLogger("strongroom.host")

T = TypeVar("T")
Task = Callable[[], object]

_IDLE_SECONDS = 30.0


class Workers:
    """A pool of at most `most` daemon threads, started on demand. An idle thread ends after a while.

    A thread that has been at one task for more than `held` seconds does not count towards `most`. Up to `spare` threads
    are left out of the count.
    """

    def __init__(self, name: str, most: int, spare: int = 0, held: float = 1.0) -> None:
        self._name = name
        self._most = most
        self._spare = spare
        self.held = held
        self._guard = threading.Condition()
        self._waiting: deque[tuple[Task, Future[Any] | None]] = deque()
        self._since: dict[int, float] = {}
        """The time at which each busy thread began its current task."""
        self._idle = 0
        self._starting = 0
        self._made = 0
        self._closed = False
        self.threads = 0

    def submit(self, task: Task, future: Future[Any] | None = None) -> bool:
        """Queue a task, which must not raise. After `close`, the task is dropped and False is returned."""
        with self._guard:
            if self._closed:
                return False
            self._waiting.append((task, future))
            self._guard.notify()
            self._staff()
        return True

    def wait(self, future: Future[Any], seconds: float) -> None:
        """Wait for the result of a call. A spare thread is added if tasks hold the other threads for long."""
        with suppress(TimeoutError, CancelledError):  # `futures.wait` takes half as long again
            future.exception(min(seconds, self.held))
        if not future.done() and seconds > self.held:
            self.relieve()
            with suppress(TimeoutError, CancelledError):
                future.exception(seconds - self.held)

    def relieve(self) -> None:
        """Add threads if the waiting tasks need more of them by now."""
        with self._guard:
            self._staff()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function with the caller's context variables. The call can be cancelled until a thread has taken it."""
        context = copy_context()
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(function))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
                future.set_exception(error)

        if not self.submit(run, future):
            future.cancel()
        return future

    def forked(self) -> None:
        """Disable the pool in a forked child process: its threads are gone, and no new ones are started."""
        self._guard = threading.Condition()
        self._closed = True
        self._waiting.clear()
        self.threads = 0

    def close(self) -> None:
        """End idle threads and drop queued tasks; their futures are cancelled. A busy thread ends after its task."""
        with self._guard:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._guard.notify_all()
        for _, future in waiting:
            if future is not None:
                future.cancel()

    def _staff(self) -> None:
        while self._idle + self._starting < len(self._waiting) and self.threads < self._most + self._out():
            try:
                threading.Thread(target=self._work, name=f"{self._name}-{self._made + 1}", daemon=True).start()
            except RuntimeError as error:  # no more threads on this machine: those that exist take the work
                log.error("no thread for %s: %s", self._name, error)
                return
            self.threads += 1
            self._starting += 1
            self._made += 1

    def _out(self) -> int:
        """The number of threads that do not count, because one task has held them for too long."""
        if self.threads < self._most:
            return 0
        latest = time.monotonic() - self.held
        return min(self._spare, sum(since < latest for since in self._since.values()))

    def _work(self) -> None:
        with self._guard:
            self._starting -= 1
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException as error:  # a failing task must not end its thread
                log.error("a task of %s raised %s", self._name, type(error).__name__, exc_info=error)
            task = None  # otherwise an idle thread would keep an ended agent alive

    def _next(self) -> Task | None:
        own = threading.get_ident()
        with self._guard:
            self._since.pop(own, None)
            while not self._waiting:
                self._idle += 1
                called = not self._closed and self._guard.wait(_IDLE_SECONDS)
                self._idle -= 1
                if not called and not self._waiting:
                    self.threads -= 1
                    return None
            self._since[own] = time.monotonic()
            return self._waiting.popleft()[0]


class Lane:
    """Tasks that run one after the other, in order, on whichever thread is free."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._busy = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting) + self._busy

    def submit(self, task: Task) -> bool:
        """Add a task, with the caller's context variables. False if the lane is closed."""
        context = copy_context()
        with self._changed:
            if self._closed:
                return False
            self._waiting.append(lambda: context.run(task))
            if self._busy:
                self._workers.relieve()
            else:
                self._busy = self._workers.submit(self._step)
        return True

    def drained(self, seconds: float) -> bool:
        """Wait until no task is left. False if the time runs out first."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._busy and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, self._workers.held))
                self._workers.relieve()
            return not self._busy

    def close(self) -> int:
        """Take no more tasks, and drop those that have not begun. Returns the number of dropped tasks."""
        with self._changed:
            self._closed = True
            dropped = len(self._waiting)
            self._waiting.clear()
            return dropped

    def _step(self) -> None:
        # One task at a time, then back to the end of the pool's queue: a busy chat must not hold up the others.
        with self._changed:
            task = self._waiting.popleft() if self._waiting else None
        try:
            if task is not None:
                task()
        finally:
            with self._changed:
                self._busy = bool(self._waiting) and self._workers.submit(self._step)
                if not self._busy:
                    self._changed.notify_all()
