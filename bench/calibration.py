"""How far confidence can be trusted: of the lines with about the same confidence, which share answers the question?

Lines are the first ten of each question that has an answer. Requests that stand, which are shown for their kind and
not for their words, are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench import evaldata, packed_sets
from bench.evaldata import NoData
from bench.measure import Run
from bench.rankers import Answered, Load, answer_public
from bench.scores import OURS

EDGES = (0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Where one bin of confidence ends and the next begins."""

_NAME = "recall.calibration"
_SETS: Mapping[str, Sequence[tuple[Load, int, int]]] = {
    "LoCoMo": [(evaldata.locomo, 5, 1)],
    "LongMemEval": [(evaldata.longmemeval, 50, 5), (packed_sets.longmemeval_fit, 120, 5)],
    "FriendsQA": [(packed_sets.friendsqa, 9, 1)],
}
"""The sets by name, with the numbers of pools of a full and of a quick run."""


@dataclass(frozen=True, slots=True)
class Bin:
    """The lines of one set whose confidence is between two edges."""

    name: str
    of: str
    low: float
    high: float
    lines: int
    confidence: float
    """The mean confidence of the lines."""
    gold: float
    """The share of the lines that answer their question."""


def rows(run: Run) -> Iterator[Bin]:
    for name, parts in _SETS.items():
        try:
            answered = [one for load, full, quick in parts for one in answer_public(load, run.pick(full, quick))]
        except NoData as missing:
            print(f"bench: {_NAME}: {missing}", file=sys.stderr)
            continue
        yield from bins(name, answered)


def bins(name: str, answered: Sequence[Answered]) -> Iterator[Bin]:
    """The bins that hold lines, by rising confidence."""
    judged = [
        (one.confidence, one.line.id in asked.question.gold)
        for asked in answered
        for one in asked.ranked[OURS]
        if not one.standing
    ]
    for low, high in pairwise(EDGES):
        some = [(sure, gold) for sure, gold in judged if low <= sure < high or sure == high == EDGES[-1]]
        if some:
            sure, gold = (sum(column) / len(some) for column in zip(*some, strict=True))
            yield Bin(_NAME, name, low, high, len(some), sure, gold)


def table(found: Sequence[Bin]) -> str:
    """The bins as a table of Markdown: mean confidence / share of the lines that answer (number of lines)."""
    sets = list(dict.fromkeys(one.of for one in found))
    rows = [["confidence", *sets], ["---"] * (1 + len(sets))]
    for low, high in sorted({(one.low, one.high) for one in found}):
        there = {one.of: _cell(one) for one in found if one.low == low}
        rows.append([f"{low:.2f} to {high:.2f}", *(there.get(name, "") for name in sets)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(one: Bin) -> str:
    return f"{one.confidence:.3f} / {one.gold:.3f} ({one.lines:,})"
