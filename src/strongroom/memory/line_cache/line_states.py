"""The states of a namespace's lines: which lines can be recalled, and which were replaced or have expired.

A line that can be recalled is said to count. A line that does not count is in no answer and in no index. It is kept in
`hidden`, because its text is still stored: it can be forgotten, and the history of a line shows its replaced versions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from strongroom.model import Line, LineId, Millis

_MARK, _EXPIRY = 400, 150
"""The RAM in bytes of a replacement (two ids, and their entries in two tables), and that of an expiry."""


class LineStates:
    """The states of one namespace's lines. The lock of the cached namespace is held during every call."""

    def __init__(self) -> None:
        self.hidden: dict[LineId, Line] = {}
        """The stored lines that do not count: they are in no answer."""
        self._replaced: dict[LineId, LineId] = {}
        """Each replaced line, with the line that replaced it. An entry stays when one of the two lines is forgotten."""
        self._before: dict[LineId, LineId] = {}
        """Each line that replaced another one, with the line that it replaced."""
        self._expiring: list[tuple[Millis, LineId]] = []
        """The lines that will expire, with the times when they do, as a heap."""
        self.now = Millis(0)
        """The time up to which expired lines were hidden. It never goes back."""
        self.next_expiry: Millis | None = None
        """The time when the next line expires, or None if no line expires. May be read without the lock."""
        self.bytes = 0
        """The approximate RAM of the tables of replacements and expiries, in bytes. May be read without the lock."""

    def counts(self, line: Line) -> bool:
        """Whether a line counts now: it was not replaced, has not expired, and is no void replacement."""
        details = line.details
        if line.id in self._replaced:
            return False
        return details is None or not (self._is_over(line) or self.is_void(line))

    def is_void(self, line: Line) -> bool:
        """Whether a line is a replacement that has not taken effect (yet).

        The replacement never takes effect if another line was first to replace the same line.
        """
        replaces = None if line.details is None else line.details.replaces
        return replaces is not None and self._replaced.get(replaces) != line.id

    def _is_over(self, line: Line) -> bool:
        expires = None if line.details is None else line.details.expires
        return expires is not None and expires <= self.now

    def watch(self, line: Line) -> None:
        """Note when a line that counts will expire."""
        if line.details is not None and line.details.expires is not None:
            heapq.heappush(self._expiring, (line.details.expires, line.id))
            self.next_expiry = self._expiring[0][0]
            self._measure()

    def expire(self, now: Millis) -> Iterator[LineId]:
        """Yield the ids of the lines that have expired by `now`."""
        self.now = max(self.now, now)
        while self._expiring and self._expiring[0][0] <= self.now:
            yield heapq.heappop(self._expiring)[1]
        self.next_expiry = self._expiring[0][0] if self._expiring else None
        self._measure()

    def replace(self, old: LineId, new: LineId) -> None:
        """Record that the line `new` replaced the line `old`."""
        self._replaced[old] = new
        self._before[new] = old
        self._measure()

    def _measure(self) -> None:
        self.bytes = _MARK * len(self._replaced) + _EXPIRY * len(self._expiring)

    def replacement(self, old: LineId) -> LineId | None:
        """The id of the line that replaced the line `old`, or None."""
        return self._replaced.get(old)

    def ended(self, before: Millis, unconfirmed: Millis) -> list[Line]:
        """The lines to be forgotten: those that expired by `before`, and void replacements written by `unconfirmed`.

        If the newest version of a line has expired, its replaced versions are forgotten too. These come first in the
        list, because they are found through the newest version.
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
        """All stored versions of a line, oldest first: the lines that it replaced, the line, and the lines after it.

        `lines` are the lines of the namespace that count. The others are looked up in `hidden`.
        """
        names = [*reversed([*_chain(self._before, line.id)]), line.id, *_chain(self._replaced, line.id)]
        found = [one for name in names if (one := lines.get(name) or self.hidden.get(name)) is not None]
        return [one for one in found if not self._is_over(one) and not self.is_void(one)]

    def earlier(self, line: Line) -> Iterator[Line]:
        """The stored lines that `line` replaced, directly or through other lines, newest first.

        Versions that were forgotten are left out.
        """
        return (self.hidden[name] for name in _chain(self._before, line.id) if name in self.hidden)


def _chain(links: Mapping[LineId, LineId], name: LineId) -> Iterator[LineId]:
    """The ids that follow `name` in a table of links, one after the other. No id is returned twice."""
    seen = {name}
    while (following := links.get(name)) is not None and following not in seen:
        seen.add(following)
        yield following
        name = following
