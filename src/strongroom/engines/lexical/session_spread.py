"""The answer to a question that asks for many things, spread over sessions instead of taken from one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from strongroom.engines.lexical.search import Candidate

WINDOW = 30
"""How many of the best lines are put in a new order. It does not depend on how many are asked for."""

PENALTY = 0.5
"""What a line loses for each line of its session before it."""


def spread(found: Sequence[Candidate]) -> list[Candidate]:
    """The lines, each time the best of the rest, where a line counts less for each line of its session before it."""
    rest = list(found[:WINDOW])
    taken: list[Candidate] = []
    before: Counter[tuple[str, str]] = Counter()
    while rest:
        at = max(range(len(rest)), key=lambda at: (rest[at].score - PENALTY * before[_session(rest[at])], -at))
        taken.append(rest.pop(at))
        before[_session(taken[-1])] += 1
    return [*taken, *found[WINDOW:]]


def _session(one: Candidate) -> tuple[str, str]:
    return one.line.namespace, one.line.session or one.line.id
