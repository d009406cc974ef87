"""The sessions of the lines in one index, and the order of the lines in each session."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import repeat

from strongroom.model import Line, LineId, Millis

NOBODY = -1
"""Stands for the missing neighbour of the first or the last line of a session."""


class SessionOrder:
    """The sessions of the lines in one index. A line that names no session is a session of its own."""

    def __init__(self, lines: list[Line | None], line_lengths: array[int]) -> None:
        self.sessions = array("I")
        self.previous = array("i")
        self.next = array("i")
        self.lengths = array("I")
        """The number of words in all lines of each session."""
        self.free: list[int] = []
        """The numbers of sessions without lines, which new sessions get."""
        self._lines = lines
        self._line_lengths = line_lengths
        self._named: dict[str, int] = {}
        self._members: dict[int, list[int]] = {}

    def make_room(self, count: int) -> None:
        """Extend the columns by `count` lines."""
        for column, value in ((self.sessions, 0), (self.previous, NOBODY), (self.next, NOBODY)):
            column.extend(repeat(value, count))

    def join(self, number: int, line: Line) -> None:
        session = self._session(line.session)
        self.sessions[number] = session
        self.lengths[session] += self._line_lengths[number]
        before = after = NOBODY
        if line.session:
            members = self._members[session]
            at = self._place(number, members)
            before = members[at - 1] if at else NOBODY
            after = members[at] if at < len(members) else NOBODY
            members.insert(at, number)
        self._link(before, number)
        self._link(number, after)

    def leave(self, number: int, line: Line) -> None:
        session = self.sessions[number]
        self.lengths[session] -= self._line_lengths[number]
        self._link(self.previous[number], self.next[number])
        members = self._members.get(session, [])
        if members:
            del members[bisect_left(members, self._moment(number), key=self._moment)]
        if not members:
            self._named.pop(line.session, None)
            self._members.pop(session, None)
            self.free.append(session)

    def _session(self, name: str) -> int:
        known = self._named.get(name) if name else None
        if known is not None:
            return known
        if self.free:
            session = self.free.pop()
        else:
            session = len(self.lengths)
            self.lengths.append(0)
        if name:
            self._named[name] = session
            self._members[session] = []
        return session

    def _place(self, number: int, members: list[int]) -> int:
        """The position of a line in its session. Both ends are tried first, because most lines belong there.

        New lines come oldest first, and pages of stored lines come newest page first.
        """
        own = self._moment(number)
        if not members or own < self._moment(members[0]):
            return 0
        if own > self._moment(members[-1]):
            return len(members)
        return bisect_left(members, own, key=self._moment)

    def _moment(self, number: int) -> tuple[Millis, LineId]:
        line = self._lines[number]
        if line is None:
            raise LookupError("a session refers to a line that was removed from the index")
        return line.time, line.id

    def _link(self, before: int, after: int) -> None:
        if before != NOBODY:
            self.next[before] = after
        if after != NOBODY:
            self.previous[after] = before
