"""Whose turn it is with a key: one at a time, first come first served, and never a wait that cannot end.

Who has a key's turn may be slow; whoever wants another key does not notice. What is done in a turn is for others to
say. `changed` is the lock over all of it: it is held for moments only, and may be taken by whoever must do something
of its own in the same moment.
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
    """Turns taken inside belong to `owner`, not to the thread: for who is served by threads that others have too."""
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
    """Queues, one for each key that somebody has or wants."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._queues: dict[str, deque[_Place]] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many keys somebody has."""
        return len(self._queues)

    def take(self, key: str) -> None:
        """Wait for the turn. Refused where this thread would wait for itself, and from `close` on."""
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
        """Take the turn if nobody has it. Also works after `close`, for whoever tidies up."""
        with self.changed:
            if key in self._queues:
                return False
            self._queues[key] = deque([_Place(_owner())])
            return True

    def give(self, key: str) -> None:
        """Give the turn back, from whichever thread; the next in the queue has it."""
        with self.changed:
            self._leave(key, self._queues[key][0])

    def only_mine(self) -> bool:
        """Whether no other thread has a turn."""
        with self.changed:
            return all(queue[0].owner == _owner() for queue in self._queues.values())

    def close(self) -> None:
        """Turn away those who wait and those who come. Turns that are taken stay so until they are given back."""
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
            raise ProviderUnavailable("the agents are being ended", hint="take no messages after close()")

    def _refuse_circle(self, key: str, owner: object) -> None:
        """Follow who has the key, what that thread waits for, who has that, and so on."""
        wanted: str | None = key
        while wanted in self._queues:
            holder = self._queues[wanted][0].owner
            if holder == owner:
                raise InvalidRequest(
                    "this thread would wait for itself: it has the agent already, or one that its holder waits for",
                    hint="end the first lease before you ask for the next; from asyncio use AsyncAgentCache",
                )
            wanted = self._awaited_by(holder)

    def _awaited_by(self, owner: object) -> str | None:
        for key, queue in self._queues.items():
            if any(place.owner == owner for place in islice(queue, 1, None)):
                return key
        return None
