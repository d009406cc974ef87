"""Compaction in the background: one thread for each store, which compacts one actor at a time.

Only actors with enough unpacked lines or small packs are compacted.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from strongroom.store.s3.actor_replica import ActorView
from strongroom.store.s3.compaction import Compactor

REST = 15.0
"""Seconds between verifying a pack and deleting the objects it replaces. Reading one page of a list takes less."""
AGAIN = 60.0
"""Seconds until the same actor may be compacted again."""
SOON = 15.0
"""Seconds until an actor with many unpacked lines may be compacted again. Such lines slow down every get."""
_MANY = 512
"""With more unpacked lines than this, an actor may be compacted again after SOON, and not only after AGAIN."""
_WAITING = 256
_PATIENCE = 15.0


class Background:
    """Compacts actors that are due. Errors are counted and have no other effect."""

    def __init__(
        self, compactor: Compactor, *, clock: Callable[[], float] = time.monotonic, rest: float = REST
    ) -> None:
        self._compactor = compactor
        self._clock = clock
        self._rest = rest
        self._waiting: queue.Queue[str | None] = queue.Queue()
        self._turns: dict[str, float] = {}
        """For each queued or lately compacted actor: the time from which it may be queued again.

        The time is infinity while the actor waits in the queue.
        """
        self._pauses: dict[str, float] = {}
        """For each queued actor: the pause in seconds after its compaction."""
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.passes = 0
        self.errors = 0

    def consider(self, view: ActorView) -> None:
        """Queue an actor if compaction is due. Cheap, and never raises.

        If the queue is full, nothing happens, and a later call can queue the actor.
        """
        now = self._clock()
        if self._stop.is_set() or self._turns.get(view.locator, now) > now or not self._compactor.is_due(view):
            return
        with self._guard:
            if self._turns.get(view.locator, now) > now or self._waiting.qsize() >= _WAITING or self._stop.is_set():
                return
            self._turns = {locator: turn for locator, turn in self._turns.items() if turn > now}
            self._turns[view.locator] = float("inf")
            self._pauses[view.locator] = SOON if len(view.places()) > _MANY else AGAIN
            self._waiting.put(view.locator)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="strongroom-compacting", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop after the current pass, which then neither waits nor deletes anything.

        Calling `close` twice is harmless.
        """
        with self._guard:
            self._stop.set()
            self._waiting.put(None)
            thread = self._thread
        if thread is not None:
            thread.join(_PATIENCE)

    def _run(self) -> None:
        while (locator := self._waiting.get()) is not None and not self._stop.is_set():
            try:
                self._compactor.compact(locator, lambda: not self._stop.wait(self._rest))
            except Exception:  # noqa: BLE001 - what fails here is tried again, and nobody waits for it
                self.errors += 1
            self.passes += 1
            with self._guard:
                self._turns[locator] = self._clock() + self._pauses.pop(locator, AGAIN)
