"""The lines of a namespace in one order, for reading them by id or by age.

The lines are sorted when an order is first needed. Later changes keep the order, so that reading costs only the lines
that are read.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Sequence
from typing import Any

from strongroom.model import Line, LineId, Millis


def id_of(line: Line) -> LineId:
    """The key of the order by id."""
    return line.id


def age_of(line: Line) -> tuple[Millis, LineId]:
    """The key of the order by time. The id makes the order total within a namespace."""
    return line.time, line.id


class LineOrder:
    """The lines of one namespace, sorted by `key`. No two lines may have equal keys."""

    def __init__(self, key: Callable[[Line], Any]) -> None:
        self._key = key
        self._sorted: list[Line] | None = None
        """The sorted lines, or None until they are first needed."""

    def of(self, lines: Collection[Line]) -> Sequence[Line]:
        """`lines` in order. They must be the lines that were added and not removed."""
        if self._sorted is None:
            self._sorted = sorted(lines, key=self._key)
        return self._sorted

    def add(self, line: Line) -> None:
        if self._sorted is not None:
            insort(self._sorted, line, key=self._key)

    def remove(self, line: Line) -> None:
        if self._sorted is not None:
            del self._sorted[bisect_left(self._sorted, self._key(line), key=self._key)]

    def forget(self) -> None:
        """Sort again when the order is next needed, because many lines were added."""
        self._sorted = None
