"""Decides which refusals get a log entry of their own, and which are only counted. A refused cap must not fill the log.

Refusals are grouped by a pair: the first link of the cap, and the reason. In each minute:

- The first refusal of a pair gets an entry, for at most `HELD` pairs.
- Up to `EACH` refusals of a pair get an entry, as long as all pairs together get at most `TOTAL` entries a second.
- Further refusals are counted for each pair and actor. When the minute is over, one entry (a sum) tells their number
  and their namespaces, with the other fields of the last refusal. At most `TOTAL` sums are written a second.

This module does not write to the log, and admitted requests never pass through it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from strongroom.audit.entry import Decision, Entry
from strongroom.model import Millis

EACH = 60
"""How many refusals of one pair (cap and reason) get an entry of their own in a minute. Further ones are counted."""

TOTAL = 100
"""Maximum number of entries in a second, beside the first of each pair (cap and reason).

Also the maximum number of sums (entries for counted refusals) in a second.
"""

HELD = 1024
"""Maximum number of pairs (cap and reason) in RAM. Also that of first refusals in a minute, and of sums in RAM."""

NAMED = 256
"""Maximum number of namespaces that one sum (an entry for many refusals) names."""

OTHERS = " and others"
"""The end of the `detail` field of an entry that counts refusals of more caps, actors or namespaces than it names."""

_MINUTE = 60_000
_SECOND = 1000
_NEVER = 2**63

Pair = tuple[str, str]
_ANY_CAP = ""
"""Replaces the cap's first link in a pair if the refusals of all caps are counted together."""


class _Bound:
    """A rate limit: at most `most` entries in each span of `span` milliseconds."""

    def __init__(self, most: int, span: int) -> None:
        self._most = most
        self._span = span
        self._current = 0
        self._taken = 0

    def takes(self, now: Millis) -> bool:
        """Count one more entry in the present span of time. Returns False if the limit is exceeded."""
        if now // self._span != self._current:
            self._current, self._taken = now // self._span, 0
        self._taken += 1
        return self._taken <= self._most


class _Sum(msgspec.Struct):
    """Refusals that were counted together. `last` is the entry that the latest of them would have got."""

    last: Entry
    since: Millis
    until: Millis
    counted: int = 0
    namespaces: dict[str, None] = {}
    has_others: bool = False


class _Window(msgspec.Struct):
    """The current minute of one pair (cap and reason).

    `sums` has a sum for each actor, by the actor's tag. The key None is for all actors that have no room of their own.
    """

    start: Millis
    written: int = 0
    sums: dict[str | None, _Sum] = {}


class RefusalLog:
    """Decides for each refusal whether it is written or counted. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._windows: OrderedDict[Pair, _Window] = OrderedDict()
        """The current minute of each pair (cap and reason), in the order in which these minutes began."""
        self._ready: deque[Entry] = deque()
        """Entries for the refusals counted in past minutes, to be written as soon as the limit for a second allows."""
        self._open = 0
        """The number of sums (counted refusals of one pair and actor) in current minutes."""
        self._further, self._sums = _Bound(TOTAL, _SECOND), _Bound(TOTAL, _SECOND)
        self._firsts = _Bound(HELD, _MINUTE)
        self.due = _NEVER
        """The time from which an entry for counted refusals may be due. Every request compares its clock with this."""
        self.counted = 0
        """The number of refusals without an entry of their own, since the vault was opened."""

    @property
    def pending(self) -> int:
        """The number of counted refusals that are in no log entry yet."""
        with self._guard:
            windows = sum(one.counted for window in self._windows.values() for one in window.sums.values())
            return windows + sum(entry.count for entry in self._ready)

    def take(self, entry: Entry) -> list[Entry]:
        """The entries to write now: the entry of this refusal if it gets one, and entries for counted refusals."""
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
        """Entries for the refusals counted in past minutes: as many as the limit for this second allows."""
        with self._guard:
            return self._over(now)

    def all(self, now: Millis) -> list[Entry]:
        """Entries for all counted refusals, including those of the current minutes."""
        with self._guard:
            for pair in list(self._windows):
                self._end(pair)
            return self._told(now, len(self._ready))

    def restore(self, sums: Iterable[Entry]) -> None:
        """Put back sums (entries for counted refusals) that could not be written to the log."""
        with self._guard:
            self._ready.extendleft(reversed(list(sums)))
            self.due = 0

    def _pair(self, entry: Entry) -> Pair:
        """The pair (cap and reason) of a refusal. If there are too many pairs, the oldest minute ends early."""
        pair = entry.links[0], entry.reason
        if pair not in self._windows and len(self._windows) >= HELD:
            oldest, window = next(iter(self._windows.items()))
            if len(self._ready) + len(window.sums) > HELD:
                return _ANY_CAP, entry.reason
            self._end(oldest)
        return pair

    def _may_write(self, pair: Pair, window: _Window, entry: Entry) -> bool:
        """Whether a refusal gets an entry of its own.

        Once a refusal of a pair was only counted, all further ones of that minute are only counted.
        """
        if window.sums or window.written >= EACH or pair[0] == _ANY_CAP:
            return False
        return (self._further if window.written else self._firsts).takes(entry.time)

    def _count(self, pair: Pair, window: _Window, entry: Entry) -> None:
        """Count a refusal for its actor. If there is too little room, it is counted for all actors of the pair."""
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
        """End the current minute of a pair (cap and reason): its counted refusals can be written from now on."""
        window = self._windows.pop(pair)
        self._open -= len(window.sums)
        self._ready.extend(_entry(pair, actor, one) for actor, one in window.sums.items())

    def _told(self, now: Millis, number: int) -> list[Entry]:
        """Take `number` entries for counted refusals, to be written now."""
        found = [msgspec.structs.replace(self._ready.popleft(), time=now) for _ in range(number)]
        if self._ready:
            self.due = (now // _SECOND + 1) * _SECOND
        else:
            oldest = next(iter(self._windows.values()), None)
            self.due = _NEVER if oldest is None else oldest.start + _MINUTE
        return found


def _entry(pair: Pair, actor: str | None, found: _Sum) -> Entry:
    """The log entry for counted refusals. If it stands for several caps or actors, it names none of them."""
    detail = f"repeated {found.since}-{found.until}{OTHERS if found.has_others else ''}"
    namespaces = tuple(found.namespaces)
    entry = msgspec.structs.replace(found.last, count=found.counted, namespaces=namespaces, detail=detail)
    if pair[0] == _ANY_CAP:
        entry = msgspec.structs.replace(entry, links=(), holder="")
    return msgspec.structs.replace(entry, actor="") if actor is None else entry
