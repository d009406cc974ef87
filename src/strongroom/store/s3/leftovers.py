"""Bytes of forgotten lines that packs still hold, and when they are taken out.

A line is gone once it is buried. To take its bytes out of a pack, the pack is written anew. So that many forgets do not
each rewrite every pack of an actor, what they leave is taken out together: at once after the first of them, then at
most once in `PAUSE` seconds. What waits is taken out by a timer, or when the store is closed. What a killed worker
leaves, the next compaction of that actor finds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from strongroom.errors import StoreUnavailable, Tampered
from strongroom.store.s3.worker_log import Later

PAUSE = 15.0
"""Seconds between two times."""


class Leftovers:
    """What one process has left in packs, by actor. Thread-safe."""

    def __init__(self, finish: Callable[[str], bool], later: Later, clock: Callable[[], float]) -> None:
        self._finish = finish
        self._later = later
        self._clock = clock
        self._waiting: dict[str, int] = {}
        """Actors, and how often each was added: who is added meanwhile goes on waiting."""
        self._last = float("-inf")
        self._cancel: Callable[[], object] | None = None
        self._is_closed = False
        self._guard = threading.Lock()

    def add(self, locator: str) -> None:
        """Have the bytes of an actor's forgotten lines taken out of packs, some time."""
        with self._guard:
            self._waiting[locator] = self._waiting.get(locator, 0) + 1

    def take_out_soon(self) -> bool:
        """Take out what there is, or have it done by the timer if that was done a moment ago. Whether nothing waits."""
        with self._guard:
            if not self._waiting:
                return True
            if self._clock() < self._last + PAUSE:
                self._set_timer()
                return False
        return self.take_out()

    def take_out(self) -> bool:
        """Take out what there is, now. Whether nothing waits; if something does, the timer tries again.

        It does not for an actor whose objects were tampered with: only the owner can mend those. They wait for the next
        forget or `scrub`.
        """
        with self._guard:
            some = dict(self._waiting)
            self._last = self._clock()
        tampered: set[str] = set()
        with suppress(StoreUnavailable):  # then the others are out of reach, too
            for locator, added in some.items():
                try:
                    if self._finish(locator):
                        self._done(locator, added)
                except Tampered:
                    tampered.add(locator)
        with self._guard:
            if self._waiting.keys() - tampered:
                self._set_timer()
            return not self._waiting

    def close(self) -> None:
        """Take out what waits, and set no timer any more. Idempotent."""
        with self._guard:
            self._is_closed = True
            cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()
        self.take_out()

    def _done(self, locator: str, added: int) -> None:
        with self._guard:
            if self._waiting.get(locator) == added:
                del self._waiting[locator]

    def _set_timer(self) -> None:
        """The guard is held."""
        if self._cancel is None and not self._is_closed:
            self._cancel = self._later(PAUSE, self._ring)

    def _ring(self) -> None:
        with self._guard:
            self._cancel = None
            if self._is_closed:
                return
        self.take_out()
