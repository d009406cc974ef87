"""The signals of the lines that a question finds, as numbers: what weights are fitted on.

They are the engine's own: `python_reference` computes them, with a weight of 1 for each signal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.evaldata import Pool, Question
from strongroom.engines.lexical import python_reference
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.query import Question as Parsed
from strongroom.engines.lexical.signals import Weighing
from strongroom.engines.lexical.term_weights import SHORTLIST, Size, Terms, when_term
from strongroom.engines.lexical.weights import Weights
from strongroom.model import LineId

Numbers: TypeAlias = NDArray[np.float64]
SIGNALS = Weights._fields
_PLAIN = Weighing.of(Weights(*[1.0] * len(SIGNALS)))


class Found(NamedTuple):
    """The lines that a question finds: a row of signals for each, and whether the line answers."""

    signals: Numbers
    answers: NDArray[np.bool_]
    sought: int
    """How many lines answer, found or not."""
    cover: float
    """The largest share of the question's words that one of the best lines holds, unknown words counted."""
    context: float
    """The largest such share of a line together with its neighbours."""


def found_in(pool: Pool, questions: Iterable[Question] | None = None) -> Iterator[Found]:
    """What each question finds in a pool. Other questions than the pool's own have no answer there."""
    index = LexicalIndex()
    for line in pool.lines:
        index.add(line)
    for question in pool.questions if questions is None else questions:
        yield _found(index, question.text, question, question.gold if questions is None else frozenset())


def _found(index: LexicalIndex, text: str, question: Question, gold: frozenset[LineId]) -> Found:
    parsed = Parsed.of(text, question.now)
    size = Size.of([index])
    when = when_term(parsed, [index], size)
    terms = Terms.of(parsed, [index], size, size.limits(pruned=True, cut=True), when)
    if terms is None:
        return Found(np.zeros((0, len(SIGNALS))), np.zeros(0, dtype=bool), len(gold), 0.0, 0.0)
    (shelf,) = python_reference.weighed(terms, _PLAIN, [index])
    first = sorted(shelf.first.values(), reverse=True)
    least = first[SHORTLIST - 1] if len(first) > SHORTLIST else 0.0
    numbers = sorted(shelf.shortlist(least), key=lambda number: (index.line(number).time, index.line(number).id))
    rows = []
    for number in numbers:
        own = _PLAIN.shares(index.line(number), index.lengths[number], index.marks[number], parsed)
        shares = {**shelf.shares(number), **own}
        rows.append([shares[name] for name in SIGNALS])
    best = [number for number in numbers if shelf.first.get(number, -1.0) >= least]
    return Found(
        np.array(rows),
        np.array([index.line(number).id in gold for number in numbers]),
        len(gold),
        max(map(shelf.cover_of, best), default=0.0) / terms.whole,
        max(map(shelf.context_of, best), default=0.0) / terms.whole,
    )
