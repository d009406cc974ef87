"""Entries of a fleet that were begun and never stated as done, and how much of each is in the store. Pure.

A worker states `done` before it acknowledges, or within moments. If it was killed or failed before that, nobody knows
whether it had acknowledged, nor whether a missing effect was never made or has been undone. The first verification that
finds such an entry settles it: effects that are there are demanded from then on, and missing ones are reported once.
The sighting is kept in the extension lines of the log's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from strongroom.audit.entry import Decision
from strongroom.audit.object_history import Statements, There, ToldEntry
from strongroom.errors import Tampered

IS_OVER = 60_000
"""A commit is over this many ms after its entry: done, given up, or its worker is dead or cut off."""

Part = tuple[int, int]
"""An entry's number, and a part of it: the index of a mark, or, after the last mark, its erasure."""


class EntryState(StrEnum):
    """How much of an entry's effect is in the store. Objects that a later entry changed count as present."""

    THERE = "there"
    PARTLY = "partly"
    MISSING = "missing"


class Unsettled(msgspec.Struct, frozen=True):
    """An entry that was begun and never stated as done. `is_known`: an earlier verification has reported it."""

    worker: str
    entry: int
    op: str
    time: int
    state: EntryState
    is_known: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the entry's effect may have been acknowledged and then undone without this having been reported."""
        return self.state != EntryState.THERE and not self.is_known


class Sighting(NamedTuple):
    """The parts seen of one log's unsettled entries, and those missing."""

    there: frozenset[Part] = frozenset()
    missing: frozenset[Part] = frozenset()

    @classmethod
    def parse(cls, lines: Sequence[str]) -> Sighting:
        """Read the extension lines of a checkpoint. Tampered if they are not exactly as `lines` writes them."""
        found = dict(line.partition(" ")[::2] for line in lines)
        try:
            read = cls(_parts(found.get("there", "")), _parts(found.get("missing", "")))
        except ValueError:
            read = cls()
        if read.lines != tuple(lines):
            raise Tampered("a checkpoint is malformed")
        return read

    @property
    def lines(self) -> tuple[str, ...]:
        named = (("there", self.there), ("missing", self.missing))
        return tuple(f"{name} {_written(parts)}" for name, parts in named if parts)

    def seen(self, number: int) -> frozenset[int]:
        """The parts of an entry that were there."""
        return frozenset(part for entry, part in self.there if entry == number)


def _parts(text: str) -> frozenset[Part]:
    pairs = [one.split(".") for one in text.split()]
    return frozenset((int(number), int(part)) for number, part in pairs)


def _written(parts: Iterable[Part]) -> str:
    return " ".join(f"{number}.{part}" for number, part in sorted(parts))


def is_open(told: ToldEntry) -> bool:
    """Whether an entry that changes something was never stated as done."""
    return told.said_at is None and told.entry.decision == Decision.ALLOW and bool(told.parts)


def judge(
    begun: Iterable[ToldEntry], seen: Sighting, said: Statements, store: There
) -> tuple[list[Unsettled], Sighting]:
    """The unsettled entries of one log with their states, and the sighting to store for them."""
    there: set[Part] = set()
    missing: set[Part] = set()
    told: list[Unsettled] = []
    for one in begun:
        effective = {part for part in one.parts if part in one.seen or said.is_effective(one, part, store)}
        lost = {(one.number, part) for part in one.parts if part not in effective}
        there |= {(one.number, part) for part in effective}
        missing |= lost
        state = EntryState.THERE if not lost else EntryState.PARTLY if effective else EntryState.MISSING
        known = lost <= seen.missing and all((one.number, part) in seen.there | seen.missing for part in one.parts)
        told.append(Unsettled(one.worker, one.number, one.entry.op, one.entry.time, state, known))
    return told, Sighting(frozenset(there), frozenset(missing))
