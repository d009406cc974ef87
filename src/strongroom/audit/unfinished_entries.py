"""Entries of a fleet that were begun and never stated as done, and how much of each is in the store. Pure.

A worker states an entry as `done` before it answers its caller, or a moment later. If the worker was killed or failed
before that, two things are unknown: whether it had answered, and whether a missing effect was never made or was undone
later. The first verification that finds such an entry settles it. Effects that are in the store are required from then
on, and missing effects are reported once. A sighting lists both kinds of effects, and is kept in the extension lines of
the log's checkpoint.
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
"""Milliseconds after which the commit of an entry is over.

By then it is done or given up, or its worker is dead or cut off.
"""

Part = tuple[int, int]
"""A part of an entry: the entry's number, and the index of an object state in it. The erasure has the last index."""


class EntryState(StrEnum):
    """How much of an entry's effect is in the store. An object that a later entry changed counts as present."""

    THERE = "there"
    PARTLY = "partly"
    MISSING = "missing"


class Unsettled(msgspec.Struct, frozen=True):
    """An entry that was begun and never stated as done.

    `is_known` is true if an earlier verification has reported the entry.
    """

    worker: str
    entry: int
    op: str
    time: int
    state: EntryState
    is_known: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the entry's effect may have been acknowledged and then undone, and this was not reported before."""
        return self.state != EntryState.THERE and not self.is_known


class Sighting(NamedTuple):
    """The parts of one log's unsettled entries whose effect is in the store, and the parts whose effect is missing."""

    there: frozenset[Part] = frozenset()
    missing: frozenset[Part] = frozenset()

    @classmethod
    def parse(cls, lines: Sequence[str]) -> Sighting:
        """Read the extension lines of a checkpoint.

        Raises Tampered if the lines are not exactly as `lines` writes them.
        """
        found = dict(line.partition(" ")[::2] for line in lines)
        try:
            read = cls(_parts(found.get("there", "")), _parts(found.get("missing", "")))
        except ValueError:
            read = cls()
        if read.lines != tuple(lines):
            raise Tampered("the last seen checkpoint of a worker's log is malformed")
        return read

    @property
    def lines(self) -> tuple[str, ...]:
        named = (("there", self.there), ("missing", self.missing))
        return tuple(f"{name} {_written(parts)}" for name, parts in named if parts)

    def seen(self, number: int) -> frozenset[int]:
        """The parts of an entry whose effect was in the store."""
        return frozenset(part for entry, part in self.there if entry == number)


def _parts(text: str) -> frozenset[Part]:
    pairs = [one.split(".") for one in text.split()]
    return frozenset((int(number), int(part)) for number, part in pairs)


def _written(parts: Iterable[Part]) -> str:
    return " ".join(f"{number}.{part}" for number, part in sorted(parts))


def is_open(told: ToldEntry) -> bool:
    """Whether an entry is unsettled: it changes something and was never stated as done."""
    return told.said_at is None and told.entry.decision == Decision.ALLOW and bool(told.parts)


def judge(
    begun: Iterable[ToldEntry], seen: Sighting, said: Statements, store: There
) -> tuple[list[Unsettled], Sighting]:
    """Judge the unsettled entries of one log.

    Returns the entries with their states, and the sighting to store for them.
    """
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
