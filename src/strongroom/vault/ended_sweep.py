"""The owner's sweep: forgets every line and document that has ended, whether or not anybody opens its memory.

It goes over the actors one by one and opens only what may have ended, so its use of RAM does not grow with the vault. A
memory that is damaged is counted and passed over. Nothing is returned of any line, so there is nothing for the gate to
decide; what is forgotten is on record as `expire`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from strongroom.memory import DecisionRecorder
from strongroom.memory.ended_lines import EndedCount, count_ended_of, forget_ended, forget_ended_of
from strongroom.memory.ops.forget import scrub

Progress = Callable[[int, int], None]
"""Called with the number of actors that are done, and the number of all."""


class Swept(msgspec.Struct, frozen=True):
    """What a sweep forgot. `damaged`: namespaces that it could not read. `pending`: the store's journal, or packs in a
    bucket, may still hold the bytes.
    """

    lines: int
    documents: int
    damaged: int
    pending: bool


class EndedFound(msgspec.Struct, frozen=True):
    """Lines and documents that have ended and are still stored, among those of `searched` actors out of `actors`."""

    lines: int
    documents: int
    damaged: int
    searched: int
    actors: int


class EndedSweep:
    """`vault.ended`: counts and forgets what has ended. One thread at a time may call `forget_some`."""

    def __init__(self, clerk: DecisionRecorder) -> None:
        self._clerk = clerk
        self._state = clerk.state
        self._left: Iterator[str] = iter(())
        """The actors that `forget_some` has still to go over in this round."""

    def count(self, *, most: int) -> EndedFound:
        """Count what `forget` would forget, among the first `most` actors, and change nothing."""
        self._state.catch_up()
        total, searched = EndedCount(), 0
        for searched, locator in enumerate(islice(self._state.stored_keys.locators(), most), start=1):  # noqa: B007
            total = total.plus(count_ended_of(self._clerk, locator))
        return EndedFound(*total, searched, self._state.stored_keys.count() if searched == most else searched)

    def forget(self, *, progress: Progress | None = None) -> Swept:
        """Forget everything that has ended, and remove its bytes from the store.

        It can be stopped at any moment: what is forgotten by then stays forgotten, and the next call does the rest.
        """
        self._state.catch_up()
        whole, total = self._state.stored_keys.count(), EndedCount()
        for done, locator in enumerate(self._state.stored_keys.locators(), start=1):
            total = total.plus(forget_ended_of(self._clerk, locator))
            if progress is not None:
                progress(min(done, whole), whole)
        return Swept(*total, pending=not self._state.store.scrub())

    def forget_some(self, seconds: float) -> None:
        """Forget what has ended of the shelves in RAM, then of the next actors, until about so many seconds are used.

        Each call goes on where the last one stopped, and begins anew after the last actor.
        """
        forget_ended(self._clerk)
        end = time.monotonic() + seconds
        total = EndedCount()
        while (locator := next(self._left, None)) is not None:
            total = total.plus(forget_ended_of(self._clerk, locator))
            if time.monotonic() >= end:
                break
        else:
            self._left = self._state.stored_keys.locators()
        if total.lines or total.documents:
            scrub(self._state.store)
