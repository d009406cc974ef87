"""The states of a shelf's lines: which of them count, which were replaced, have expired or never took effect.

A line that does not count is in no answer and in no index. It is kept apart, because its text is still stored: it can
be forgotten, and the history of a line shows what it replaced.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from strongroom.model import Line, LineId, Millis

_MARK, _EXPIRY = 400, 150
"""Bytes of a replacement: two ids, and their places in two tables; and of an expiry."""


class LineStates:
    """The states of one shelf's lines. The shelf's lock is held during every call."""

    def __init__(self) -> None:
        self.hidden: dict[LineId, Line] = {}
        """Stored lines that do not count."""
        self._replaced: dict[LineId, LineId] = {}
        """Each replaced line, and the one that replaced it. Kept when either of them is gone."""
        self._before: dict[LineId, LineId] = {}
        """The same the other way round."""
        self._expiring: list[tuple[Millis, LineId]] = []
        """The lines that will expire, as a heap."""
        self.now = Millis(0)
        """The time by which lines expire here. It never goes back."""
        self.next_expiry: Millis | None = None
        """When the next line expires, if any does. May be read without the lock."""
        self.bytes = 0
        """The approximate size in RAM of what is kept about lines, also when they are gone. Read without the lock."""

    def counts(self, line: Line) -> bool:
        """Whether a line counts now."""
        details = line.details
        if line.id in self._replaced:
            return False
        return details is None or not (self._is_over(line) or self.is_void(line))

    def is_void(self, line: Line) -> bool:
        """Whether a line is a replacement that has not taken effect, or never will: another one was first."""
        replaces = None if line.details is None else line.details.replaces
        return replaces is not None and self._replaced.get(replaces) != line.id

    def _is_over(self, line: Line) -> bool:
        expires = None if line.details is None else line.details.expires
        return expires is not None and expires <= self.now

    def watch(self, line: Line) -> None:
        """Remember when a line that counts will expire."""
        if line.details is not None and line.details.expires is not None:
            heapq.heappush(self._expiring, (line.details.expires, line.id))
            self.next_expiry = self._expiring[0][0]
            self._measure()

    def expire(self, now: Millis) -> Iterator[LineId]:
        """Yield the lines that have expired by `now`."""
        self.now = max(self.now, now)
        while self._expiring and self._expiring[0][0] <= self.now:
            yield heapq.heappop(self._expiring)[1]
        self.next_expiry = self._expiring[0][0] if self._expiring else None
        self._measure()

    def replace(self, old: LineId, new: LineId) -> None:
        """Record that a line was replaced."""
        self._replaced[old] = new
        self._before[new] = old
        self._measure()

    def _measure(self) -> None:
        self.bytes = _MARK * len(self._replaced) + _EXPIRY * len(self._expiring)

    def replacement(self, old: LineId) -> LineId | None:
        """The line that replaced this one."""
        return self._replaced.get(old)

    def ended(self, before: Millis, unconfirmed: Millis) -> list[Line]:
        """Lines to be forgotten: those that expired before a moment, and void replacements written before another.

        With the newest version of a line go those that it replaced, and these come first: they are found by it.
        """
        found: dict[LineId, Line] = {}
        for line in self.hidden.values():
            if line.details is not None and line.details.expires is not None and line.details.expires <= before:
                if line.id not in self._replaced:
                    found |= {one.id: one for one in self.earlier(line)}
                found[line.id] = line
            elif self.is_void(line) and line.provenance.recorded <= unconfirmed:
                found[line.id] = line
        return list(found.values())

    def versions(self, line: Line, lines: Mapping[LineId, Line]) -> list[Line]:
        """All stored versions of a line, oldest first: what it replaced, and what replaced it. `lines` count."""
        names = [*reversed([*_chain(self._before, line.id)]), line.id, *_chain(self._replaced, line.id)]
        found = [one for name in names if (one := lines.get(name) or self.hidden.get(name)) is not None]
        return [one for one in found if not self._is_over(one) and not self.is_void(one)]

    def earlier(self, line: Line) -> Iterator[Line]:
        """The stored lines that this one replaced, directly or not, newest first. Any between may be gone."""
        return (self.hidden[name] for name in _chain(self._before, line.id) if name in self.hidden)


def _chain(links: Mapping[LineId, LineId], name: LineId) -> Iterator[LineId]:
    """The names that follow one, each after the other. No name is met twice: ids are not used again."""
    seen = {name}
    while (following := links.get(name)) is not None and following not in seen:
        seen.add(following)
        yield following
        name = following
