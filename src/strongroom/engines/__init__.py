"""Engines rank the opened lines they are given. They may reorder, never widen.

An engine sees only the lines of shelves that the gate allowed; its statistics come from those alone, so a denied
namespace cannot shift a score. It must be deterministic for (lines, query, now) whatever order the lines arrived
in. It knows no store, key or cap. How to write one: docs/engines.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

import msgspec

from strongroom.errors import InvalidRequest
from strongroom.model import Line, LineId

GROUP = "strongroom.engines"
"""The entry point group in which engines, the built-in ones too, register."""

DEFAULT = "lexical"


class Ranked(msgspec.Struct, frozen=True):
    """A line and how well it answers; higher is better, comparable within one answer only."""

    line: Line
    score: float


class Index(Protocol):
    """What an engine keeps for one shelf. Calls for one index never overlap."""

    def add(self, line: Line) -> None:
        """Take in a line; each id comes once until it is removed."""

    def remove(self, line: Line) -> None:
        """Forget a line completely: no later answer may depend on it."""


@runtime_checkable
class KeptIndex(Index, Protocol):
    """An index that can be filled from readings that were kept."""

    def add_read(self, lines: Sequence[Line], readings: bytes) -> None:
        """Take in lines by their readings. ValueError, and nothing taken in, if those are of no use any more."""


@runtime_checkable
class Measured(Protocol):
    """An index that can tell what it takes. Optional; of others an average is assumed."""

    def size(self) -> int:
        """About how many bytes of RAM it takes. Asked at every change, so it must not count anew."""


@runtime_checkable
class Keeping(Protocol):
    """An engine whose work on a line can be kept, sealed, and used again by a later process. Optional.

    Its indexes are KeptIndexes. A reading depends on its line alone.
    """

    def readings(self, lines: Sequence[Line]) -> bytes:
        """What `add_read` needs to take in these lines without looking at their texts again."""


class Engine(Protocol):
    """Ranks lines."""

    def index(self) -> Index:
        """An empty index for one shelf."""

    def rank(self, query: str, indexes: Sequence[Any], k: int, now: datetime) -> Sequence[Ranked]:
        """The best `k` lines of these indexes (all made by this engine), best first.

        `now` is the asker's, with its time zone: it says which day "today" is.
        """


@runtime_checkable
class Sparing(Protocol):
    """An engine that can be told which lines are not wanted. Optional; others are asked for as many more."""

    def rank_without(
        self, query: str, indexes: Sequence[Any], k: int, now: datetime, without: frozenset[LineId]
    ) -> Sequence[Ranked]:
        """What `rank` gives, where all lines are wanted; else the best `k` of the others, with the same scores."""


def load(name: str) -> Engine:
    """The engine registered as `name`. Nothing is imported but the one that was asked for."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP)))
        raise InvalidRequest(f"there is no engine called {name}", hint=f"installed: {known}")
    engine: Engine = found[0].load()()
    return engine
