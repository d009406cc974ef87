"""Which refusals get an entry of their own in the log, and which are counted: a refused cap must not fill the log.

Refusals come in pairs of the cap's first link and the reason. The first of a pair in a minute is written, of `HELD`
pairs at most; of each pair `EACH` are written one by one, as far as all pairs together write no more than `TOTAL` in a
second. What comes on top is counted for each pair and actor, and one entry says how many there were, in which
namespaces, with all that the last of them would have said. Of these sums, too, no more than `TOTAL` are written in a
second. Not responsible for writing; what is admitted never passes here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from strongroom.audit.entry import Decision, Entry
from strongroom.model import Millis

EACH = 60
"""Refusals of one first link for one reason that are written one by one within a minute."""

TOTAL = 100
"""Entries within a second: so many beside the first of each pair, and so many sums."""

HELD = 1024
"""Pairs that are told apart at once, those whose first refusal is written in one minute, and sums."""

NAMED = 256
"""Namespaces that one sum names."""

OTHERS = " and others"
"""What `detail` ends with where a sum stands for more caps, actors or namespaces than it has room to name."""

_MINUTE = 60_000
_SECOND = 1000
_NEVER = 2**63

Pair = tuple[str, str]
_ANY_CAP = ""
"""Stands in a pair for the first link of caps that are not told apart."""


class _Bound:
    """So many within each span of time."""

    def __init__(self, most: int, span: int) -> None:
        self._most = most
        self._span = span
        self._current = 0
        self._taken = 0

    def takes(self, now: Millis) -> bool:
        """Whether there is room for one more; it has it then."""
        if now // self._span != self._current:
            self._current, self._taken = now // self._span, 0
        self._taken += 1
        return self._taken <= self._most


class _Sum(msgspec.Struct):
    """Refusals that were counted together. `last` is the latest of them."""

    last: Entry
    since: Millis
    until: Millis
    counted: int = 0
    namespaces: dict[str, None] = {}
    has_others: bool = False


class _Window(msgspec.Struct):
    """The current minute of one pair; what was counted in it by the actor's tag, None for those beyond room."""

    start: Millis
    written: int = 0
    sums: dict[str | None, _Sum] = {}


class RefusalLog:
    """Decides for each refusal whether it is written or counted. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._windows: OrderedDict[Pair, _Window] = OrderedDict()
        """In the order in which their minutes began."""
        self._ready: deque[Entry] = deque()
        """Sums that are to be written, as soon as the second has room."""
        self._open = 0
        """Sums in windows."""
        self._further, self._sums = _Bound(TOTAL, _SECOND), _Bound(TOTAL, _SECOND)
        self._firsts = _Bound(HELD, _MINUTE)
        self.due = _NEVER
        """When a sum may have to be written. Every request compares it with its clock."""
        self.counted = 0
        """Refusals without an entry of their own, since the vault was opened."""

    @property
    def pending(self) -> int:
        """Counted refusals that no entry tells of yet."""
        with self._guard:
            windows = sum(one.counted for window in self._windows.values() for one in window.sums.values())
            return windows + sum(entry.count for entry in self._ready)

    def take(self, entry: Entry) -> list[Entry]:
        """The entries to write for a refusal: none if it is counted; sums that are due go with it."""
        if entry.decision != Decision.DENY:
            return [entry]
        with self._guard:
            sums = self._over(entry.time)
            pair = self._pair(entry)
            window = self._windows.setdefault(pair, _Window(entry.time))
            if self._may_write(pair, window, entry):
                window.written += 1
                return [*sums, entry]
            self._count(pair, window, entry)
            self.counted += 1
            return sums

    def over(self, now: Millis) -> list[Entry]:
        """The sums of all minutes that are over, as many as this second has room for."""
        with self._guard:
            return self._over(now)

    def all(self, now: Millis) -> list[Entry]:
        """The sums of all minutes, over or not."""
        with self._guard:
            for pair in list(self._windows):
                self._end(pair)
            return self._told(now, len(self._ready))

    def restore(self, sums: Iterable[Entry]) -> None:
        """Keep sums that could not be written."""
        with self._guard:
            self._ready.extendleft(reversed(list(sums)))
            self.due = 0

    def _pair(self, entry: Entry) -> Pair:
        """As what a refusal is counted: the oldest minute ends early where there is no room for another."""
        pair = entry.links[0], entry.reason
        if pair not in self._windows and len(self._windows) >= HELD:
            oldest, window = next(iter(self._windows.items()))
            if len(self._ready) + len(window.sums) > HELD:
                return _ANY_CAP, entry.reason
            self._end(oldest)
        return pair

    def _may_write(self, pair: Pair, window: _Window, entry: Entry) -> bool:
        """Whether a refusal is written by itself. None is once one of its pair was counted in this minute."""
        if window.sums or window.written >= EACH or pair[0] == _ANY_CAP:
            return False
        return (self._further if window.written else self._firsts).takes(entry.time)

    def _count(self, pair: Pair, window: _Window, entry: Entry) -> None:
        """Count a refusal for its actor. A pair has at most as many sums as there is room left: none takes it all."""
        actor: str | None = entry.actor
        room = HELD - self._open - len(self._ready)
        if pair[0] == _ANY_CAP or (actor not in window.sums and len(window.sums) >= room):
            actor = None
        found = window.sums.get(actor)
        if found is None:
            found = window.sums[actor] = _Sum(entry, entry.time, entry.time, has_others=actor is None)
            self._open += 1
        found.counted += 1
        found.last, found.until = entry, entry.time
        found.since = min(found.since, entry.time)
        for tag in entry.namespaces:
            if tag in found.namespaces or len(found.namespaces) < NAMED:
                found.namespaces[tag] = None
            else:
                found.has_others = True
        self.due = min(self.due, window.start + _MINUTE)

    def _over(self, now: Millis) -> list[Entry]:
        while self._windows and len(self._ready) <= HELD:
            pair, window = next(iter(self._windows.items()))
            if window.start <= now < window.start + _MINUTE:
                break
            self._end(pair)
        room = 0
        while room < len(self._ready) and self._sums.takes(now):
            room += 1
        return self._told(now, room)

    def _end(self, pair: Pair) -> None:
        """End the minute of a pair."""
        window = self._windows.pop(pair)
        self._open -= len(window.sums)
        self._ready.extend(_entry(pair, actor, one) for actor, one in window.sums.items())

    def _told(self, now: Millis, number: int) -> list[Entry]:
        """Some of the sums that are ready, to be written now."""
        found = [msgspec.structs.replace(self._ready.popleft(), time=now) for _ in range(number)]
        if self._ready:
            self.due = (now // _SECOND + 1) * _SECOND
        else:
            oldest = next(iter(self._windows.values()), None)
            self.due = _NEVER if oldest is None else oldest.start + _MINUTE
        return found


def _entry(pair: Pair, actor: str | None, found: _Sum) -> Entry:
    """The entry that stands for what was counted; it names no actor and no cap where it stands for several."""
    detail = f"repeated {found.since}-{found.until}{OTHERS if found.has_others else ''}"
    namespaces = tuple(found.namespaces)
    entry = msgspec.structs.replace(found.last, count=found.counted, namespaces=namespaces, detail=detail)
    if pair[0] == _ANY_CAP:
        entry = msgspec.structs.replace(entry, links=(), holder="")
    return msgspec.structs.replace(entry, actor="") if actor is None else entry
