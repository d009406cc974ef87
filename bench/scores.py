"""How well lines are found: the measures themselves, and how figures of several engines are shown beside each other.

Pure: it ranks nothing and loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from strongroom.model import Line, LineId

OURS, FTS5, BM25, RECENCY = "lexical", "FTS5", "BM25", "recency"
ENGINES = (OURS, FTS5, BM25, RECENCY)
"""The columns, ours first."""


def recall(gold: Set[LineId], ranked: Sequence[Line], k: int) -> float:
    """Which share of the lines that answer is among the first `k`."""
    return len(gold & {line.id for line in ranked[:k]}) / len(gold)


def hit(gold: Set[LineId], ranked: Sequence[Line], k: int) -> float:
    """1 if any line that answers is among the first `k`, else 0."""
    return float(not gold.isdisjoint(line.id for line in ranked[:k]))


def recall_all(sessions: Set[str], ranked: Sequence[Line], k: int) -> float:
    """1 if every session that answers has a line among the first `k`, else 0."""
    return float(sessions <= {line.session for line in ranked[:k]})


def newest_first(gold: Set[LineId], outdated: Set[LineId], ranked: Sequence[Line]) -> float:
    """1 if a line of `gold` is above every outdated line, or no outdated line was found, else 0."""
    firsts = (line.id in gold for line in ranked if line.id in gold or line.id in outdated)
    return float(next(firsts, True))


def auc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """How often an answerable question has more evidence than an unanswerable one. Equal evidence counts half."""
    pairs = ((yes > no) + 0.5 * (yes == no) for yes in answerable for no in unanswerable)
    return sum(pairs) / (len(answerable) * len(unanswerable))


@dataclass(frozen=True, slots=True)
class Miss:
    """A question of our own sets that our engine did not answer, with what it should have found and what it found."""

    question: str
    wanted: Sequence[str]
    found: Sequence[str]


@dataclass(frozen=True, slots=True)
class Score:
    """One measure over some questions, in percent, for each engine that was there. No questions means no data."""

    name: str
    what: str
    questions: int
    percent: Mapping[str, float]
    goal: float | None = None
    detail: bool = False
    misses: Sequence[Miss] = field(default=(), compare=False)

    @property
    def reached(self) -> str:
        if self.goal is None or OURS not in self.percent:
            return ""
        # What is shown decides: 71.96 is shown as 72.0.
        return "yes" if round(self.percent[OURS], 1) >= self.goal else "missed"


def table(scores: Sequence[Score]) -> str:
    """The scores as aligned text."""
    head = ("row", "what", "questions", *ENGINES, "goal", "reached")
    cells = [head, *map(_cells, scores)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at > 1 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _cells(score: Score) -> tuple[str, ...]:
    missing = "-" if score.questions else "no data"
    figures = (f"{score.percent[name]:.1f}" if name in score.percent else missing for name in ENGINES)
    goal = "" if score.goal is None else f"{score.goal:g}"
    return score.name, score.what, f"{score.questions:,}", *figures, goal, score.reached


def missed(score: Score) -> str:
    """The questions that a score missed, with what was wanted (+) and what came instead (-)."""
    lines = [f"{score.name}: {len(score.misses)} missed"]
    for miss in score.misses:
        lines += [miss.question, *(f"  + {text}" for text in miss.wanted), *(f"  - {text}" for text in miss.found)]
    return "\n".join(lines)
