"""One lock per key, first come, first served. Waits that could never end are detected.

A slow holder of one key does not delay other keys. `changed` is the lock over all queues, which is held for moments
only. Callers may take `changed` to make a change of their own atomic with a change of the queues.
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
    """Inside this context, locks are held by `owner` instead of the thread, for work that moves between threads."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


def _owner() -> object:
    return _OWNER.get(threading.get_ident())


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A place in the queue of a key. The first place holds the lock."""

    owner: object


class KeyLocks:
    """The queues of all keys that are held or awaited."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._queues: dict[str, deque[_Place]] = {}
        self._closed = False

    def __len__(self) -> int:
        """The number of keys that are held."""
        return len(self._queues)

    def take(self, key: str) -> None:
        """Wait for the lock of a key.

        Raises InvalidRequest if the caller would wait for itself, and ProviderUnavailable after `close`.
        """
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
        """Take the lock of a key if the key is free. This works after `close` too, for clean-up."""
        with self.changed:
            if key in self._queues:
                return False
            self._queues[key] = deque([_Place(_owner())])
            return True

    def give(self, key: str) -> None:
        """Release the lock of a key, from any thread, for the next in its queue."""
        with self.changed:
            self._leave(key, self._queues[key][0])

    def only_mine(self) -> bool:
        """True if nobody but the caller holds the lock of a key."""
        with self.changed:
            return all(queue[0].owner == _owner() for queue in self._queues.values())

    def close(self) -> None:
        """Refuse all callers that wait now or come later. A lock that is held stays so until it is released."""
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
        """Detect a deadlock: follow the holder of the key to the key that the holder waits for, and so on."""
        wanted: str | None = key
        while wanted in self._queues:
            holder = self._queues[wanted][0].owner
            if holder == owner:
                raise InvalidRequest(
                    "this would deadlock: this thread holds the agent already, or the holder waits for this thread",
                    hint="end the first lease before you ask for the next; from asyncio use AsyncAgentCache",
                )
            wanted = self._awaited_by(holder)

    def _awaited_by(self, owner: object) -> str | None:
        for key, queue in self._queues.items():
            if any(place.owner == owner for place in islice(queue, 1, None)):
                return key
        return None
