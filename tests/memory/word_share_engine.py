"""A small engine that judges and explains: confidence is the share of the query's words that a line has.

A line `key: value` is superseded by the next line with the same key and author. A line that begins with `always` is a
standing instruction: it is returned for every query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from strongroom import NewLine, Token, Vault
from strongroom.engines import Ranked
from strongroom.model import Hit, Line, LineId
from tests.conftest import ALL_OPS, NAMESPACES

RARE = 2.0
DAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
TEXTS = ("trip to Chengdu", "boat trip on the lake", "seat: 12A", "seat: 14C", "picnic by the river")
STANDING = "always metric units"


class WordShareIndex:
    def __init__(self) -> None:
        self.lines: dict[LineId, Line] = {}

    def add(self, line: Line) -> None:
        self.lines[line.id] = line

    def remove(self, line: Line) -> None:
        self.lines.pop(line.id, None)


class WordShare:
    """Counts the words that a line shares with the query. A word that only one of the given lines has counts more."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """The calls to the engine, in order: `rank` or `explain`."""

    def index(self) -> WordShareIndex:
        return WordShareIndex()

    def rank(self, query: str, indexes: Sequence[WordShareIndex], k: int, now: datetime) -> Sequence[Ranked]:
        self.asked.append("rank")
        lines = [line for index in indexes for line in index.lines.values()]
        wanted = _words(query)
        found = [one for one in self._judged(wanted, lines, now) if one.score or one.standing]
        return sorted(found, key=lambda one: (one.score, one.line.time, one.line.id, one.line.namespace))[::-1][:k]

    def _judged(self, wanted: frozenset[str], lines: Sequence[Line], now: datetime) -> Iterator[Ranked]:
        del now
        for line in lines:
            standing = line.text.startswith("always")
            signals = _signals(wanted, line, lines)
            share = len(wanted & _words(line.text)) / max(len(wanted), 1)
            yield Ranked(line, sum(signals.values()), 1.0 if standing else share, _later(line, lines), standing)

    def explain(
        self, query: str, indexes: Sequence[WordShareIndex], now: datetime, lines: frozenset[LineId]
    ) -> Mapping[tuple[str, LineId], Mapping[str, float]]:
        del now
        self.asked.append("explain")
        every = [line for index in indexes for line in index.lines.values()]
        wanted = _words(query)
        return {(line.namespace, line.id): _signals(wanted, line, every) for line in every if line.id in lines}


def _signals(wanted: frozenset[str], line: Line, lines: Sequence[Line]) -> dict[str, float]:
    words = wanted & _words(line.text)
    rare = [word for word in words if sum(word in _words(one.text) for one in lines) == 1]
    return {"words": float(len(words)), "rare": RARE * len(rare)}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().replace(":", " ").split())


def _later(line: Line, lines: Sequence[Line]) -> LineId | None:
    """The next line by the same author with the same key."""
    key, colon, _ = line.text.partition(":")
    same = [one for one in lines if colon and one.author == line.author and one.text.startswith(f"{key}:")]
    later = [one for one in same if (one.time, one.id) > (line.time, line.id)]
    return min(later, key=lambda one: (one.time, one.id)).id if later else None


def owner(vault: Vault, namespaces: Sequence[str] = NAMESPACES) -> Token:
    return vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=list(namespaces), ttl=3600)


def fill(vault: Vault) -> None:
    """Put the TEXTS into `travel`, a day apart, the last one as the newest."""
    lines = [
        NewLine(text=text, namespace="travel", author="alice", time=DAY + timedelta(days=n))
        for n, text in enumerate(TEXTS)
    ]
    vault.memory(owner(vault)).put_many(lines)


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def reads(vault: Vault) -> list[tuple[str, ...]]:
    """The lines that each get of the log names."""
    return [entry.lines for _, entry in vault.audit.entries() if entry is not None and entry.op == "get"]
