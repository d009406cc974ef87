"""Threads that run one at a time, in an order that a seed decides, on a clock that only the scheduler moves.

A task hands over wherever it waits: for simulated time, for a lock, for a future. Nothing else lets another one run, so
the same seed gives the same history. What stands in for locks and pools is in `primitives`.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from random import Random

_LONGEST = 3_600_000
"""In ms: a history that is not over by then will never be. The longest take seven minutes."""


class Stuck(Exception):
    """Every task that is left waits for another one, or some do while others wait for them again and again."""


class Task:
    """A thread that runs only when it is handed the baton."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self.work = work
        self.baton = _closed()
        self.is_over = False


class Scheduler:
    """Decides which task runs, and what time it is (in ms)."""

    def __init__(self, seed: int, began: int) -> None:
        self.random = Random(seed)
        self.now = began
        self._ends = began + _LONGEST
        self.steps = 0
        self.current: Task | None = None
        self._due: list[tuple[int, float, int, Task]] = []
        self._asked = 0
        self._tasks: set[Task] = set()
        self._finished = _closed()
        self._failure: BaseException | None = None

    def spawn(self, name: str, work: Callable[[], None], delay: int = 0) -> Task:
        """A task that begins after a while."""
        task = Task(name, work)
        self._tasks.add(task)
        threading.Thread(target=self._run, args=(task,), name=f"simulated {name}", daemon=True).start()
        self.wake(task, delay)
        return task

    def wake(self, task: Task, delay: int = 0) -> None:
        """Let a task go on after a while; of several that are due at one moment the seed picks one."""
        self._asked += 1
        heapq.heappush(self._due, (self.now + delay, self.random.random(), self._asked, task))

    def pause(self, delay: int) -> None:
        """Let time pass for the running task."""
        task = self.running()
        self.wake(task, delay)
        self.park()

    def running(self) -> Task:
        if self.current is None:
            raise RuntimeError("only a task can wait")
        return self.current

    def park(self) -> None:
        """Hand over, and come back when somebody wakes this task."""
        task = self.running()
        self._hand_over()
        task.baton.acquire()

    def tick(self) -> int:
        """A number that only grows: what happened before has a smaller one."""
        self.steps += 1
        return self.steps

    def run(self) -> None:
        """Run all tasks to their end."""
        self._hand_over()
        self._finished.acquire()
        if self._failure is not None:
            raise self._failure

    def _run(self, task: Task) -> None:
        task.baton.acquire()
        try:
            if self._failure is None:
                task.work()
        except BaseException as error:  # noqa: BLE001 - whoever runs the scheduler hears of it
            self._failure = self._failure or error
        task.is_over = True
        self._tasks.discard(task)
        self._hand_over()

    def _hand_over(self) -> None:
        is_late = self.now > self._ends
        if not self._due or is_late or self._failure is not None:
            if self._tasks and self._failure is None:
                names = ", ".join(sorted(task.name for task in self._tasks))
                self._failure = Stuck(f"{'after an hour' if is_late else 'each for another one'} these wait: {names}")
            self._finished.release()
            return
        due, _, _, task = heapq.heappop(self._due)
        self.now = max(self.now, due)
        self.current = task
        task.baton.release()


def _closed() -> threading.Lock:
    """A real lock that is held: to acquire it is to wait until somebody releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock
