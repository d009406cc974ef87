"""A fair queue: whose work is next, where everybody's takes long and threads are few.

Work belongs to the cap that asked for it, by the cap's first link, and to the actor whose memory it is. Caps take
turns. Of those whose turn it could be, the one goes first for whose cap and actor the fewest threads are at work; and
nobody gets the last free thread besides others of their own, so that there is always one for somebody else.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Owned(Protocol):
    """A piece of work: the cap and the actor that it is done for."""

    @property
    def cap(self) -> Hashable: ...

    @property
    def actor(self) -> Hashable: ...


W = TypeVar("W", bound=Owned)


class FairQueue(Generic[W]):
    """Hands work to `threads` threads. Thread-safe."""

    def __init__(self, threads: int) -> None:
        self._most = max(threads - 1, 1)
        """Threads that may work for one cap, or for one actor, at once."""
        self._waiting: OrderedDict[Hashable, deque[W]] = OrderedDict()
        """What each cap waits for; the cap whose turn is next comes first."""
        self._at_work: Counter[Hashable] = Counter()
        self._taken: dict[int, list[Hashable]] = {}
        """For whom each piece of work was counted: its actor may become known while a thread works on it."""
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, work: W) -> None:
        with self._changed:
            self._waiting.setdefault(work.cap, deque()).append(work)
            self._changed.notify()

    def take(self) -> W | None:
        """The next piece of work, once there is one; None once the queue is closed. `finished` must follow."""
        with self._changed:
            while True:
                if self._is_closed:
                    return None
                cap = self._next()
                if cap is not None:
                    return self._begin(cap)
                self._changed.wait()

    def finished(self, work: W) -> None:
        """A thread no longer works on this. Call it before the same work is put again."""
        with self._changed:
            for owner in self._taken.pop(id(work)):
                self._at_work[owner] -= 1
                if not self._at_work[owner]:
                    del self._at_work[owner]
            self._changed.notify()

    def is_awaited(self, work: W) -> bool:
        """Whether somebody else could use the thread that works on this."""
        with self._changed:
            return any(self._load(queue[0]) < self._most for cap, queue in self._waiting.items() if cap != work.cap)

    def close(self) -> None:
        """Let every thread that takes from it end. What still waits is not handed out."""
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
            self._waiting[cap] = queue  # at the end: the others come first
        self._taken[id(work)] = owners = _owners(work)
        self._at_work.update(owners)
        return work

    def _load(self, work: W) -> int:
        """Threads at work for the same cap or the same actor."""
        return max(self._at_work.get(owner, 0) for owner in _owners(work))


def _owners(work: Owned) -> list[Hashable]:
    """A cap and an actor may be spelled alike, and before the gate was asked no actor is known."""
    cap, actor = ("cap", work.cap), ("actor", work.actor)
    return [cap, actor] if work.actor else [cap]
