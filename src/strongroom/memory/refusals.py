"""Which refusals get an entry of their own in the log, and which are counted: a refused cap must not fill the log.

Refusals are told apart by the cap's first link and the reason. Of each such pair the first `EACH` within a minute are
written one by one, and so is the first of each minute whatever else happens; beyond that first one, all pairs together
write `TOTAL` a second. What comes on top is counted, and one entry for each pair and minute says how many there were,
with all that the last of them would have said. Not responsible for writing; what is admitted never passes here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from strongroom.audit.entry import Decision, Entry
from strongroom.model import Millis

EACH = 60
"""Refusals of one first link for one reason that are written one by one within a minute."""

TOTAL = 100
"""Refusals that are written one by one within a second, beside the first of each pair."""

HELD = 1024
"""Pairs that are told apart at once; the oldest is summed up early when there are more."""

_MINUTE = 60_000
_SECOND = 1000
_NEVER = 2**63

Pair = tuple[str, str]


class _Window(msgspec.Struct):
    """The current minute of one pair. `last` is the latest refusal that was counted."""

    start: Millis
    written: int = 0
    counted: int = 0
    since: Millis = Millis(0)
    last: Entry | None = None


class Refusals:
    """Decides for each refusal whether it is written or counted. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._windows: OrderedDict[Pair, _Window] = OrderedDict()
        """In the order in which their minutes began."""
        self._second = 0
        self._this_second = 0
        self._due = _NEVER
        """When the first minute is over in which something was counted, or earlier."""
        self.counted = 0
        """Refusals without an entry of their own, since the vault was opened."""

    @property
    def pending(self) -> int:
        """Counted refusals that no entry tells of yet."""
        with self._guard:
            return sum(window.counted for window in self._windows.values())

    def take(self, entry: Entry) -> list[Entry]:
        """The entries to write for a refusal: none if it is counted; sums that are due go with it."""
        if entry.decision != Decision.DENY:
            return [entry]
        with self._guard:
            sums = self._over(entry.time)
            if len(self._windows) >= HELD:
                sums += self._sums([next(iter(self._windows))], entry.time)
            window = self._window(entry)
            if self._may_write(window, entry.time):
                window.written += 1
                return [*sums, entry]
            self._count(window, entry, 1, entry.time)
            self.counted += 1
            return sums

    def is_due(self, now: Millis) -> bool:
        """Whether a sum may have to be written. Cheap, since every request asks."""
        return now >= self._due

    def over(self, now: Millis) -> list[Entry]:
        """The sums of all minutes that are over."""
        with self._guard:
            return self._over(now)

    def all(self, now: Millis) -> list[Entry]:
        """The sums of all minutes, over or not."""
        with self._guard:
            return self._sums(list(self._windows), now)

    def restore(self, sums: Iterable[Entry]) -> None:
        """Count again what sums said that could not be written."""
        with self._guard:
            for entry in sums:
                self._count(self._window(entry), entry, entry.count, _span(entry)[0])

    def _window(self, entry: Entry) -> _Window:
        pair = entry.links[0], entry.reason
        if pair not in self._windows:
            self._windows[pair] = _Window(entry.time)
        return self._windows[pair]

    def _may_write(self, window: _Window, now: Millis) -> bool:
        if not window.written:
            return not window.counted
        if window.written >= EACH or window.counted:
            return False
        if now // _SECOND != self._second:
            self._second, self._this_second = now // _SECOND, 0
        self._this_second += 1
        return self._this_second <= TOTAL

    def _count(self, window: _Window, entry: Entry, number: int, since: Millis) -> None:
        window.since = min(window.since, since) if window.counted else since
        window.counted += number
        window.last = entry
        self._due = min(self._due, window.start + _MINUTE)

    def _over(self, now: Millis) -> list[Entry]:
        ended: list[Pair] = []
        for pair, window in self._windows.items():
            if window.start <= now < window.start + _MINUTE:
                break
            ended.append(pair)
        return self._sums(ended, now)

    def _sums(self, pairs: list[Pair], now: Millis) -> list[Entry]:
        """End the minutes of these pairs; what was counted in them."""
        if not pairs:
            return []
        ended = [self._windows.pop(pair) for pair in pairs]
        started = [window.start for window in self._windows.values() if window.counted]
        self._due = min(started) + _MINUTE if started else _NEVER
        return [_sum(window, now) for window in ended if window.counted]


def _sum(window: _Window, now: Millis) -> Entry:
    """The entry that stands for what was counted in a minute."""
    last = window.last
    assert last is not None  # noqa: S101 - it was counted
    detail = f"repeated {window.since}-{_span(last)[1]}"
    return msgspec.structs.replace(last, time=now, count=window.counted, detail=detail)


def _span(entry: Entry) -> tuple[Millis, Millis]:
    """When the first and the last of the refusals were that an entry stands for."""
    if not entry.detail:
        return entry.time, entry.time
    first, _, last = entry.detail.removeprefix("repeated ").partition("-")
    return Millis(int(first)), Millis(int(last))
