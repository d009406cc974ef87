"""A fair queue for slow work on few threads.

Work belongs to a cap and to an actor. A cap counts together with every cap narrowed or renewed from it. Caps take
turns. The work whose cap and actor have the fewest threads at work goes first. A cap or actor that has threads at work
never gets the last free thread, so that one thread is always left for another.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Owned(Protocol):
    """A piece of work, with the cap and the actor for whom it is done."""

    @property
    def cap(self) -> Hashable: ...

    @property
    def actor(self) -> Hashable: ...


W = TypeVar("W", bound=Owned)


class FairQueue(Generic[W]):
    """Hands pieces of work to a fixed number of threads. Thread-safe."""

    def __init__(self, threads: int) -> None:
        self._most = max(threads - 1, 1)
        """The most threads that may work at once for one cap or for one actor."""
        self._waiting: OrderedDict[Hashable, deque[W]] = OrderedDict()
        """The waiting work of each cap. The first cap is the next whose turn it is."""
        self._at_work: Counter[Hashable] = Counter()
        self._taken: dict[int, list[Hashable]] = {}
        """For each piece of work, the cap and actor that it was counted for.

        Kept because the actor may become known only while a thread works on the piece.
        """
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, work: W) -> None:
        with self._changed:
            self._waiting.setdefault(work.cap, deque()).append(work)
            self._changed.notify()

    def take(self) -> W | None:
        """Wait for the next piece of work and return it; None once the queue is closed.

        The caller must call `finished` when it stops working on the piece.
        """
        with self._changed:
            while True:
                if self._is_closed:
                    return None
                cap = self._next()
                if cap is not None:
                    return self._begin(cap)
                self._changed.wait()

    def finished(self, work: W) -> None:
        """Record that a thread no longer works on this piece. Call it before the same piece is put again."""
        with self._changed:
            for owner in self._taken.pop(id(work)):
                self._at_work[owner] -= 1
                if not self._at_work[owner]:
                    del self._at_work[owner]
            self._changed.notify()

    def is_awaited(self, work: W) -> bool:
        """Whether work of another cap is waiting that could use the thread of this work."""
        with self._changed:
            return any(self._load(queue[0]) < self._most for cap, queue in self._waiting.items() if cap != work.cap)

    def close(self) -> None:
        """Make `take` return None from now on, so that every thread ends. Waiting work is not handed out any more."""
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
        """The number of threads at work for the cap or for the actor of this work, whichever is greater."""
        return max(self._at_work.get(owner, 0) for owner in _owners(work))


def _owners(work: Owned) -> list[Hashable]:
    """The keys under which work is counted: its cap and its actor.

    The keys are tagged, because a cap and an actor may have the same text. Before the gate has decided, the actor is
    not known.
    """
    cap, actor = ("cap", work.cap), ("actor", work.actor)
    return [cap, actor] if work.actor else [cap]
