"""What is past: the states of a part of the bucket that this process has seen come to an end, and that must not return.

A server that keeps to its contract never shows an older state after a newer one. So what does is an older copy that
somebody has put back, or a server that answers from one. Judged is only what was known before the answer was asked for:
a request that was under way meanwhile may well be older. What is remembered is bounded, the oldest goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import count

from strongroom.store import Version
from strongroom.store.s3.layout import Table

NAMES = 4096
"""Of how many objects replaced versions are remembered, for each part."""
VERSIONS = 16
"""How many for each object."""
_TABLES = 8
_moments = count(1)


def moment() -> int:
    """A number for now. It orders what threads of this process learn, and when their requests began."""
    return next(_moments)


class Past:
    """What was, of one part. Thread-safe: two views of an actor may have it, while one of them is being dropped."""

    def __init__(self) -> None:
        self._replaced: OrderedDict[str, OrderedDict[Version, int]] = OrderedDict()
        """Versions that were replaced, by the object's name, and when that was learned."""
        self._tables: list[tuple[int, Table]] = []
        """The highest generations, and when each was learned."""
        self._guard = threading.Lock()

    def replaced(self, name: str, version: Version) -> None:
        """Remember that an object is no longer what it was."""
        with self._guard:
            known = self._replaced.setdefault(name, OrderedDict())
            self._replaced.move_to_end(name)
            known.setdefault(version, moment())
            while len(known) > VERSIONS:
                known.popitem(last=False)
            while len(self._replaced) > NAMES:
                self._replaced.popitem(last=False)

    def has_replaced(self, name: str, version: Version, before: int) -> bool:
        """Whether a version was known to be replaced at a moment."""
        with self._guard:
            known = self._replaced.get(name)
            return known is not None and known.get(version, before) < before

    def reached(self, table: Table) -> None:
        """Remember that generations have come so far."""
        with self._guard:
            if not self._tables or (table != self._tables[-1][1] and is_as_new(table, self._tables[-1][1])):
                self._tables = [*self._tables[1 - _TABLES :], (moment(), table)]

    def floor(self, before: int) -> Table:
        """The generations that were known at a moment: those of now are not smaller."""
        with self._guard:
            return next((table for learned, table in reversed(self._tables) if learned < before), Table())


def is_as_new(table: Table, floor: Table) -> bool:
    """Whether no generation is smaller than it was. Those of namespaces begin anew with each of the actor's."""
    if table.actor != floor.actor:
        return table.actor > floor.actor
    return all(table.shelves.get(shelf, 0) >= generation for shelf, generation in floor.shelves.items())
