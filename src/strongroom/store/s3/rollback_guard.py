"""Memory of past states of a part of the bucket, to detect a rollback: a replaced version must not return.

A correct server never shows an older state after a newer one. One that does was restored from an older copy, or answers
from one. An answer is only judged by what was known before its request began, because a slow request may rightly be
older. The memory is bounded; the oldest entries are dropped first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import count

from strongroom.store import Version
from strongroom.store.s3.object_names import Table

NAMES = 4096
"""Maximum number of objects with remembered versions, for each part."""
VERSIONS = 16
"""Most remembered versions of each object."""
PASTS = 16_384
"""Most actors with a remembered past, in view or not."""
_TABLES = 8
_moments = count(1)


def moment() -> int:
    """A logical clock: orders what threads of this process learn, and when their requests began."""
    return next(_moments)


class Past:
    """The past of one part. Thread-safe: two views of an actor may share it while one is being dropped."""

    def __init__(self) -> None:
        self._replaced: OrderedDict[str, OrderedDict[Version, int]] = OrderedDict()
        """Replaced versions by the object's name, and when each was learned."""
        self._tables: list[tuple[int, Table]] = []
        """The highest generations, and when each was learned."""
        self._guard = threading.Lock()

    def replaced(self, name: str, version: Version) -> None:
        """Remember that a version of an object was replaced."""
        with self._guard:
            known = self._replaced.setdefault(name, OrderedDict())
            self._replaced.move_to_end(name)
            known.setdefault(version, moment())
            while len(known) > VERSIONS:
                known.popitem(last=False)
            while len(self._replaced) > NAMES:
                self._replaced.popitem(last=False)

    def has_replaced(self, name: str, version: Version, before: int) -> bool:
        """Whether a version was known to be replaced before a moment."""
        with self._guard:
            known = self._replaced.get(name)
            return known is not None and known.get(version, before) < before

    def reached(self, table: Table) -> None:
        """Remember the generations if they are newer."""
        with self._guard:
            if not self._tables or (table != self._tables[-1][1] and is_as_new(table, self._tables[-1][1])):
                self._tables = [*self._tables[1 - _TABLES :], (moment(), table)]

    def floor(self, before: int) -> Table:
        """The generations that were known before a moment. Current ones must not be smaller."""
        with self._guard:
            return next((table for learned, table in reversed(self._tables) if learned < before), Table())


class Pasts:
    """The past of each actor, which outlives its view. Not thread-safe."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Past] = OrderedDict()

    def of(self, locator: str) -> Past:
        """The past of an actor. The least recently used ones are dropped."""
        past = self._of.setdefault(locator, Past())
        self._of.move_to_end(locator)
        while len(self._of) > PASTS:
            self._of.popitem(last=False)
        return past


def is_as_new(table: Table, floor: Table) -> bool:
    """Whether no generation is smaller than in `floor`. Namespaces start anew with each generation of the actor."""
    if table.actor != floor.actor:
        return table.actor > floor.actor
    return all(table.shelves.get(shelf, 0) >= generation for shelf, generation in floor.shelves.items())
