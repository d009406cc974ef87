"""Engines rank the decrypted lines that they are given. They may reorder, never widen.

An engine sees only the lines of shelves that the gate allowed. Its statistics come from those alone, so that a denied
namespace cannot shift a score. Its answer must depend on (lines, query, now) only, not on the order in which lines
arrived. It knows no store, key or cap. How to write one: docs/engines.md.
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
"""The entry point group in which engines register, the built-in ones too."""

DEFAULT = "lexical"


class Ranked(msgspec.Struct, frozen=True):
    """A line and its score. Higher is better; scores are comparable within one answer only."""

    line: Line
    score: float


class Index(Protocol):
    """An engine's data for one shelf. Calls for one index never overlap."""

    def add(self, line: Line) -> None:
        """Add a line. Each id comes once until it is removed."""

    def remove(self, line: Line) -> None:
        """Remove a line completely: no later answer may depend on it."""


@runtime_checkable
class KeptIndex(Index, Protocol):
    """An index that can be filled from stored readings."""

    def add_read(self, lines: Sequence[Line], readings: bytes) -> None:
        """Add lines by their readings. ValueError, and nothing added, if the readings cannot be used any more."""


@runtime_checkable
class Measured(Protocol):
    """An index that reports its size. Optional; for others an average is assumed."""

    def size(self) -> int:
        """The approximate RAM it takes, in bytes. Called at every change, so it must be cheap."""


@runtime_checkable
class Keeping(Protocol):
    """An engine whose readings of lines can be stored, sealed, and used again by a later process. Optional.

    Its indexes are KeptIndexes. A reading depends on its line alone.
    """

    def readings(self, lines: Sequence[Line]) -> bytes:
        """The data that `add_read` needs to add these lines without reading their texts again."""


class Engine(Protocol):
    """Ranks lines."""

    def index(self) -> Index:
        """An empty index for one shelf."""

    def rank(self, query: str, indexes: Sequence[Any], k: int, now: datetime) -> Sequence[Ranked]:
        """The best `k` lines of these indexes (all made by this engine), best first.

        `now` is the asker's time with its zone, which decides what "today" is.
        """


@runtime_checkable
class Sparing(Protocol):
    """An engine that can exclude lines. Optional; others are asked for more lines, and the excluded ones dropped."""

    def rank_without(
        self, query: str, indexes: Sequence[Any], k: int, now: datetime, without: frozenset[LineId]
    ) -> Sequence[Ranked]:
        """Like `rank`, but leave out the lines in `without`. The scores of the other lines must not change."""


def load(name: str) -> Engine:
    """The engine registered as `name`. No other engine is imported."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP)))
        raise InvalidRequest(f"there is no engine called {name}", hint=f"installed: {known}")
    engine: Engine = found[0].load()()
    return engine
