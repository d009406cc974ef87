"""The simplest engine: the lines that contain the query, newest first. It uses no statistics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from heapq import nlargest
from itertools import islice

from strongroom.engines import Ranked
from strongroom.model import Line, LineId, Millis

_Key = tuple[Millis, LineId, str]


def _newest(line: Line) -> _Key:
    # Ids are unique within a namespace only. The namespace makes the order total.
    return line.time, line.id, line.namespace


class RecencyIndex:
    """The lines of one actor's namespace."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._sorted = True

    @property
    def lines(self) -> list[Line]:
        """All lines of the index, oldest first."""
        if not self._sorted:
            self._lines.sort(key=_newest)
            self._sorted = True
        return self._lines

    def add(self, line: Line) -> None:
        # Sorted on demand: loading adds the newest thousand first, and inserting each in order would be slow.
        self._sorted = self._sorted and (not self._lines or _newest(self._lines[-1]) < _newest(line))
        self._lines.append(line)

    def remove(self, line: Line) -> None:
        at = bisect_left(self.lines, _newest(line), key=_newest)
        if at < len(self.lines) and self.lines[at].id == line.id:
            del self.lines[at]


class Recency:
    """Returns the lines that contain the query as a substring, newest first. For an empty query, these are all."""

    def index(self) -> RecencyIndex:
        return RecencyIndex()

    def rank(self, query: str, indexes: Sequence[RecencyIndex], k: int, now: datetime) -> Sequence[Ranked]:  # noqa: ARG002
        wanted = query.casefold().strip()
        found: list[Line] = []
        for index in indexes:
            found += islice((line for line in reversed(index.lines) if wanted in line.text.casefold()), k)
        return [Ranked(line, 1.0) for line in nlargest(k, found, key=_newest)]
