"""Bytes of forgotten lines that packs still hold, and when they are removed.

A line is gone once its tombstone is written. Removing its bytes means rewriting the pack. Many forgets must not each
rewrite every pack of an actor, so removals are throttled. The first forget removes bytes at once. After that a timer
does so at most once in `PAUSE` seconds, and once more when the store is closed. If a worker is killed, the next
compaction of that actor finds its leftovers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from strongroom.errors import StoreUnavailable, Tampered
from strongroom.store.s3.worker_log import Later

PAUSE = 15.0
"""The least number of seconds between two removals."""


class Leftovers:
    """The actors whose packs hold bytes of forgotten lines, as far as this process knows. Thread-safe."""

    def __init__(self, finish: Callable[[str], bool], later: Later, clock: Callable[[], float]) -> None:
        self._finish = finish
        self._later = later
        self._clock = clock
        self._waiting: dict[str, int] = {}
        """For each waiting actor, how often it was added.

        An actor that is added again during a removal keeps waiting.
        """
        self._last = float("-inf")
        self._cancel: Callable[[], object] | None = None
        self._is_closed = False
        self._guard = threading.Lock()

    def add(self, locator: str) -> None:
        """Queue an actor. The bytes of its forgotten lines are removed from packs later."""
        with self._guard:
            self._waiting[locator] = self._waiting.get(locator, 0) + 1

    def take_out_soon(self) -> bool:
        """Remove the bytes now, or let the timer do so if the last removal was a moment ago.

        Returns True if no actor is waiting any more.
        """
        with self._guard:
            if not self._waiting:
                return True
            if self._clock() < self._last + PAUSE:
                self._set_timer()
                return False
        return self.take_out()

    def take_out(self) -> bool:
        """Remove the bytes for all waiting actors now.

        Returns True if no actor is waiting any more; otherwise the timer tries again. The timer does not try again for
        an actor whose objects were tampered with, because only the owner can repair those. Such an actor waits for the
        next forget or `scrub`.
        """
        with self._guard:
            some = dict(self._waiting)
            self._last = self._clock()
        tampered: set[str] = set()
        with suppress(StoreUnavailable):  # the other actors are out of reach then, too
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
        """Remove the bytes for all waiting actors, and never start the timer again.

        Calling `close` twice is harmless.
        """
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
        """Start the timer if it is not running. The caller holds the guard."""
        if self._cancel is None and not self._is_closed:
            self._cancel = self._later(PAUSE, self._ring)

    def _ring(self) -> None:
        with self._guard:
            self._cancel = None
            if self._is_closed:
                return
        self.take_out()
