"""Threads that many agents share, and lanes: work that keeps its order on them.

The number of threads is bounded by the host, not by the number of chats. They are daemons: a provider that hangs can
hold one of them, and can never hold up the end of the process. (The executor of the standard library joins its threads
at exit, so it would wait for a hung provider for ever.) A thread that is held for long is replaced, up to a bound: else
the chats in which a provider hangs would take the memory of all the others.
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
    """At most `most` daemon threads, made when they are needed. An idle one leaves after a while.

    Those that have been at one task for `held` seconds do not count, as long as there are no more than `spare`.
    """

    def __init__(self, name: str, most: int, spare: int = 0, held: float = 1.0) -> None:
        self._name = name
        self._most = most
        self._spare = spare
        self.held = held
        self._guard = threading.Condition()
        self._waiting: deque[tuple[Task, Future[Any] | None]] = deque()
        self._since: dict[int, float] = {}
        """Since when each thread that is at work has been at its task."""
        self._idle = 0
        self._starting = 0
        self._made = 0
        self._closed = False
        self.threads = 0

    def submit(self, task: Task, future: Future[Any] | None = None) -> bool:
        """Have a task run as soon as a thread is free. It must not raise. False after `close`: it is dropped."""
        with self._guard:
            if self._closed:
                return False
            self._waiting.append((task, future))
            self._guard.notify()
            self._staff()
        return True

    def wait(self, future: Future[Any], seconds: float) -> None:
        """Wait for a call, and see to it that it gets a thread if others are held for long."""
        with suppress(TimeoutError, CancelledError):  # `futures.wait` takes half as long again
            future.exception(min(seconds, self.held))
        if not future.done() and seconds > self.held:
            self.relieve()
            with suppress(TimeoutError, CancelledError):
                future.exception(seconds - self.held)

    def relieve(self) -> None:
        """See whether what waits needs another thread by now."""
        with self._guard:
            self._staff()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function with the caller's context variables. Cancelling works until a thread has taken it."""
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
        """In a child process: there are no threads any more, and none are made."""
        self._guard = threading.Condition()
        self._closed = True
        self._waiting.clear()
        self.threads = 0

    def close(self) -> None:
        """Let idle threads go and drop what waits; calls are cancelled. A thread at work ends after its task."""
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
            except RuntimeError as error:  # the machine has no more: what waits is taken by those that are there
                log.error("no thread for %s: %s", self._name, error)
                return
            self.threads += 1
            self._starting += 1
            self._made += 1

    def _out(self) -> int:
        """How many threads are held for so long that they do not count."""
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
            except BaseException as error:  # one task's defect must not cost the others their thread
                log.error("a task of %s raised %s", self._name, type(error).__name__, exc_info=error)
            task = None  # or an idle thread would hold on to an agent that is gone

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
    """Tasks that run one after the other, in the order they were given, on whichever thread is free."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._busy = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting) + self._busy

    def submit(self, task: Task) -> bool:
        """Add a task, with the caller's context variables; False once the lane is closed."""
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
        """Wait until nothing is left to do, or not that long."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._busy and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, self._workers.held))
                self._workers.relieve()
            return not self._busy

    def close(self) -> int:
        """Take no more tasks and drop those that have not begun; how many there were."""
        with self._changed:
            self._closed = True
            dropped = len(self._waiting)
            self._waiting.clear()
            return dropped

    def _step(self) -> None:
        # One task at a time, then back to the end of the queue: a chat with much to do does not hold up the others.
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
