"""Memory of past states of a part of the bucket, to detect a rollback: a replaced version must not return.

A correct server never shows an older state after a newer one. A server that does so was restored from an older copy, or
answers from such a copy. An answer is judged only by the states known before its request began, because the answer to a
slow request may rightly be older. The memory is bounded: the oldest entries are dropped first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import count

from strongroom.store import Version
from strongroom.store.s3.object_names import Table

NAMES = 4096
"""The most objects with remembered versions, for each part of the bucket."""
VERSIONS = 16
"""The most remembered versions of each object."""
PASTS = 16_384
"""The most actors whose past states are remembered, whether or not they are in view."""
_TABLES = 8
_moments = count(1)


def moment() -> int:
    """The present moment of a logical clock.

    The clock orders what the threads of this process learn, and the beginnings of their requests.
    """
    return next(_moments)


class Past:
    """The past states of one part of the bucket.

    Thread-safe: two views of an actor may share it while one of the views is being dropped.
    """

    def __init__(self) -> None:
        self._replaced: OrderedDict[str, OrderedDict[Version, int]] = OrderedDict()
        """For each object's name, the replaced versions, with the moment at which each became known."""
        self._tables: list[tuple[int, Table]] = []
        """The highest generations known, with the moment at which each became known."""
        self._guard = threading.Lock()

    def replaced(self, name: str, version: Version) -> None:
        """Remember that a version of an object was replaced by a newer one."""
        with self._guard:
            known = self._replaced.setdefault(name, OrderedDict())
            self._replaced.move_to_end(name)
            known.setdefault(version, moment())
            while len(known) > VERSIONS:
                known.popitem(last=False)
            while len(self._replaced) > NAMES:
                self._replaced.popitem(last=False)

    def has_replaced(self, name: str, version: Version, before: int) -> bool:
        """Whether a version was known to be replaced before the given moment."""
        with self._guard:
            known = self._replaced.get(name)
            return known is not None and known.get(version, before) < before

    def reached(self, table: Table) -> None:
        """Remember the generations of an actor if they are newer than the known ones."""
        with self._guard:
            if not self._tables or (table != self._tables[-1][1] and is_as_new(table, self._tables[-1][1])):
                self._tables = [*self._tables[1 - _TABLES :], (moment(), table)]

    def floor(self, before: int) -> Table:
        """The generations that were known before the given moment.

        Generations read later must not be smaller.
        """
        with self._guard:
            return next((table for learned, table in reversed(self._tables) if learned < before), Table())


class Pasts:
    """The past of each actor. It is kept longer than the actor's view. Not thread-safe."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Past] = OrderedDict()

    def of(self, locator: str) -> Past:
        """The past of an actor. If there are too many, the least recently used ones are dropped."""
        past = self._of.setdefault(locator, Past())
        self._of.move_to_end(locator)
        while len(self._of) > PASTS:
            self._of.popitem(last=False)
        return past


def is_as_new(table: Table, floor: Table) -> bool:
    """Whether no generation is smaller than in `floor`.

    With a new generation of the actor, the generations of its namespaces start anew.
    """
    if table.actor != floor.actor:
        return table.actor > floor.actor
    return all(table.shelves.get(shelf, 0) >= generation for shelf, generation in floor.shelves.items())
