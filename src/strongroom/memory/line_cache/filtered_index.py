"""Indexes for filtered recalls: each index has only the lines of a namespace that meet one condition.

A line that does not meet the condition must not change a score. So the engine gets an index that never had this line.
The indexes of the latest conditions are kept, and updated when they are next used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import NamedTuple, Protocol

from strongroom.engines import Index, Measured
from strongroom.model import Line, LineId

_KEPT = 4
_OF_A_LINE = 500
"""The assumed RAM of a line in an index, in bytes, if the index does not report its size."""


class Condition(Hashable, Protocol):
    """A condition on lines."""

    def means(self, line: Line) -> bool:
        """Whether a line meets this condition."""


class _Kept(NamedTuple):
    engine_index: Index
    lines: dict[LineId, Line]
    revision: int = -1
    """The revision of the cached namespace at the last update of this index."""

    @property
    def bytes(self) -> int:
        return self.engine_index.size() if isinstance(self.engine_index, Measured) else _OF_A_LINE * len(self.lines)


class FilteredIndexes:
    """The filtered indexes of one cached namespace. The lock of the namespace is held during every call."""

    def __init__(self) -> None:
        self._kept: dict[Condition, _Kept] = {}
        """The kept indexes by their conditions, least recently used first."""
        self.bytes = 0

    def index(
        self,
        condition: Condition,
        lines: Mapping[LineId, Line],
        unreadable: Collection[LineId],
        make: Callable[[], Index],
        revision: int,
    ) -> Index:
        """The index of all `lines` that meet the condition.

        If `revision` shows that the lines have changed since the last use, the condition is checked for all lines
        again. Lines in `unreadable` are left out, because the engine raised an error for them.
        """
        kept = self._kept.pop(condition, None) or _Kept(make(), {})
        if kept.revision == revision:
            self._kept[condition] = kept
            return kept.engine_index
        meant = {name: line for name, line in lines.items() if condition.means(line)}
        for name in [name for name, line in kept.lines.items() if meant.get(name) is not line]:
            kept.engine_index.remove(kept.lines.pop(name))
        for name in sorted(meant.keys() - kept.lines.keys() - set(unreadable)):
            kept.engine_index.add(meant[name])
            kept.lines[name] = meant[name]
        self._kept[condition] = kept._replace(revision=revision)
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        self._measure()
        return kept.engine_index

    def drop(self, line: Line) -> None:
        """Remove a line from every kept index, for example when it was forgotten."""
        for kept in self._kept.values():
            if kept.lines.pop(line.id, None) is not None:
                kept.engine_index.remove(line)
        if self._kept:
            self._measure()

    def _measure(self) -> None:
        self.bytes = sum(kept.bytes for kept in self._kept.values())
