"""The contract of an engine: the code that ranks the decrypted lines it is given, and never returns other lines.

An engine sees only lines of namespaces that the gate allowed. Its statistics come from those lines alone, because a
denied namespace must not shift a score. Its answer must depend on (lines, query, now) only, not on the order in which
the lines arrived. An engine knows no store, key or cap. How to write an engine: docs/engines.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

import msgspec

from strongroom.errors import InvalidRequest
from strongroom.model import Line, LineId

GROUP = "strongroom.engines"
"""The entry point group in which all engines register, including the built-in ones."""

DEFAULT = "lexical"


class Ranked(msgspec.Struct, frozen=True):
    """A line and its score. Higher is better; scores are comparable within one answer only."""

    line: Line
    score: float
    confidence: float = 1.0
    """How likely the line answers the question, from 0 to 1. An engine that does not judge this leaves 1."""
    superseded_by: LineId | None = None
    """The id of a later line by the same author that states the same thing anew."""
    standing: bool = False
    """Whether the line is a standing instruction or preference, returned because it fits the kind of the question."""


class Index(Protocol):
    """An engine's data for the lines of one actor's namespace. Calls for one index never overlap."""

    def add(self, line: Line) -> None:
        """Add a line. A line with this id is not added again before it was removed."""

    def remove(self, line: Line) -> None:
        """Remove a line completely: no later answer may depend on it."""


@runtime_checkable
class KeptIndex(Index, Protocol):
    """An index to which lines can be added from stored index data (`readings`), without reading their texts again."""

    def add_read(self, lines: Sequence[Line], readings: bytes) -> None:
        """Add lines by their stored readings.

        If the readings cannot be used any more, raises ValueError and adds no line.
        """


@runtime_checkable
class Recognising(Protocol):
    """An index that recognises standing instructions and preferences. Optional."""

    def standing_lines(self) -> Iterable[Line]:
        """The lines that are standing instructions or preferences, in any order."""


@runtime_checkable
class Measured(Protocol):
    """An index that reports its size. Optional: for an index without `size`, an average is assumed."""

    def size(self) -> int:
        """The approximate RAM that the index takes, in bytes. Called at every change, so this must be cheap."""


@runtime_checkable
class Keeping(Protocol):
    """An engine whose index data of lines (`readings`) can be sealed, stored and used by a later process. Optional.

    The indexes of such an engine are KeptIndexes. The reading of a line depends on that line alone.
    """

    def readings(self, lines: Sequence[Line]) -> bytes:
        """The index data of these lines. `add_read` uses it to add the lines without reading their texts again."""


class Engine(Protocol):
    """Makes indexes of lines, and ranks the lines in them for a query."""

    def index(self) -> Index:
        """An empty index for the lines of one actor's namespace."""

    def rank(self, query: str, indexes: Sequence[Any], k: int, now: datetime) -> Sequence[Ranked]:
        """The best `k` lines of these indexes, best first. All the indexes were made by this engine.

        `now` is the asker's time with its time zone. It decides which day "today" is.
        """


@runtime_checkable
class Sparing(Protocol):
    """An engine that can exclude lines. Optional.

    An engine without `rank_without` is asked for more than `k` lines, and its caller drops the excluded lines.
    """

    def rank_without(
        self, query: str, indexes: Sequence[Any], k: int, now: datetime, without: frozenset[LineId]
    ) -> Sequence[Ranked]:
        """Like `rank`, but leave out the lines in `without`. The scores of the other lines must not change."""


@runtime_checkable
class Explaining(Protocol):
    """An engine that can say why it ranks a line where it does. Optional."""

    def explain(
        self, query: str, indexes: Sequence[Any], now: datetime, lines: frozenset[LineId]
    ) -> Mapping[tuple[str, LineId], Mapping[str, float]]:
        """The share of each signal in the score of these lines, by (namespace, id) and the name of the signal.

        Lines that the indexes do not hold are left out.
        """


def load(name: str) -> Engine:
    """The engine registered as `name`. No other engine is imported."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP)))
        raise InvalidRequest(f"there is no engine called {name}", hint=f"the installed engines are {known}")
    engine: Engine = found[0].load()()
    return engine
