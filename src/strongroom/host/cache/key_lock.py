"""One lock per key: first come, first served, with detection of waits that could never end.

A holder of one key may be slow without delaying other keys. `changed` is the lock over all queues. It is held for
moments only, and callers may take it to do something of their own atomically with a change here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice

from strongroom.errors import InvalidRequest, ProviderUnavailable

_OWNER: ContextVar[object] = ContextVar("owner")


@contextmanager
def locked_for(owner: object) -> Iterator[None]:
    """Turns taken inside belong to `owner` instead of the thread, for work that moves between threads."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


def _owner() -> object:
    return _OWNER.get(threading.get_ident())


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A place in a queue. The first one has the turn."""

    owner: object


class KeyLocks:
    """Queues, one for each key that is held or awaited."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._queues: dict[str, deque[_Place]] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many keys are held."""
        return len(self._queues)

    def take(self, key: str) -> None:
        """Wait for the turn. InvalidRequest if this owner would wait for itself; ProviderUnavailable after `close`."""
        place = _Place(_owner())
        with self.changed:
            self._refuse_circle(key, place.owner)
            queue = self._queues.setdefault(key, deque())
            queue.append(place)
            try:
                self.changed.wait_for(lambda: self._closed or queue[0] is place)
                self._refuse_closed()
            except BaseException:
                self._leave(key, place)
                raise

    def try_take(self, key: str) -> bool:
        """Take the turn if the key is free. Works after `close` too, for clean-up."""
        with self.changed:
            if key in self._queues:
                return False
            self._queues[key] = deque([_Place(_owner())])
            return True

    def give(self, key: str) -> None:
        """Give the turn back, from any thread, to the next in the queue."""
        with self.changed:
            self._leave(key, self._queues[key][0])

    def only_mine(self) -> bool:
        """Whether no other owner holds a key."""
        with self.changed:
            return all(queue[0].owner == _owner() for queue in self._queues.values())

    def close(self) -> None:
        """Refuse those who wait and those who come. Turns that are held stay so until they are given back."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def _leave(self, key: str, place: _Place) -> None:
        queue = self._queues[key]
        queue.remove(place)
        if not queue:
            del self._queues[key]
        self.changed.notify_all()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ProviderUnavailable("the cache is closed and ends its agents", hint="take no messages after close()")

    def _refuse_circle(self, key: str, owner: object) -> None:
        """Deadlock detection: follow the holder of the key, the key it waits for, that key's holder, and so on."""
        wanted: str | None = key
        while wanted in self._queues:
            holder = self._queues[wanted][0].owner
            if holder == owner:
                raise InvalidRequest(
                    "this would deadlock: the thread already leases this agent, or one that its holder waits for",
                    hint="end the first lease before you ask for the next; from asyncio use AsyncAgentCache",
                )
            wanted = self._awaited_by(holder)

    def _awaited_by(self, owner: object) -> str | None:
        for key, queue in self._queues.items():
            if any(place.owner == owner for place in islice(queue, 1, None)):
                return key
        return None
