"""A fair queue for slow work on few threads.

Work belongs to a cap, together with all that was narrowed or renewed from it, and to the actor whose memory it is.
Caps take turns. Among them, the one whose cap and actor have the fewest threads at work goes first. Nobody gets the
last free thread in addition to others of their own, so that one is always left for somebody else.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Owned(Protocol):
    """A piece of work, with the cap and the actor that it is done for."""

    @property
    def cap(self) -> Hashable: ...

    @property
    def actor(self) -> Hashable: ...


W = TypeVar("W", bound=Owned)


class FairQueue(Generic[W]):
    """Hands work to `threads` threads. Thread-safe."""

    def __init__(self, threads: int) -> None:
        self._most = max(threads - 1, 1)
        """The most threads that may work for one cap, or one actor, at once."""
        self._waiting: OrderedDict[Hashable, deque[W]] = OrderedDict()
        """The waiting work of each cap; the cap whose turn is next comes first."""
        self._at_work: Counter[Hashable] = Counter()
        self._taken: dict[int, list[Hashable]] = {}
        """The owners that each piece of work was counted for: its actor may become known while a thread works on it."""
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, work: W) -> None:
        with self._changed:
            self._waiting.setdefault(work.cap, deque()).append(work)
            self._changed.notify()

    def take(self) -> W | None:
        """Wait for the next piece of work; None once the queue is closed. `finished` must follow."""
        with self._changed:
            while True:
                if self._is_closed:
                    return None
                cap = self._next()
                if cap is not None:
                    return self._begin(cap)
                self._changed.wait()

    def finished(self, work: W) -> None:
        """Record that a thread no longer works on this. Call it before the same work is put again."""
        with self._changed:
            for owner in self._taken.pop(id(work)):
                self._at_work[owner] -= 1
                if not self._at_work[owner]:
                    del self._at_work[owner]
            self._changed.notify()

    def is_awaited(self, work: W) -> bool:
        """Whether another cap's work could use the thread that works on this."""
        with self._changed:
            return any(self._load(queue[0]) < self._most for cap, queue in self._waiting.items() if cap != work.cap)

    def close(self) -> None:
        """Let every thread that takes from it end. Waiting work is not handed out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next(self) -> Hashable | None:
        loads = ((self._load(queue[0]), cap) for cap, queue in self._waiting.items())
        best = min(loads, key=lambda one: one[0], default=None)
        return best[1] if best is not None and best[0] < self._most else None

    def _begin(self, cap: Hashable) -> W:
        queue = self._waiting.pop(cap)
        work = queue.popleft()
        if queue:
            self._waiting[cap] = queue  # at the end, behind the other caps
        self._taken[id(work)] = owners = _owners(work)
        self._at_work.update(owners)
        return work

    def _load(self, work: W) -> int:
        """The number of threads at work for the same cap or the same actor."""
        return max(self._at_work.get(owner, 0) for owner in _owners(work))


def _owners(work: Owned) -> list[Hashable]:
    """The keys to count work under. Tagged, because a cap and an actor may be spelt alike; no actor before the gate."""
    cap, actor = ("cap", work.cap), ("actor", work.actor)
    return [cap, actor] if work.actor else [cap]
