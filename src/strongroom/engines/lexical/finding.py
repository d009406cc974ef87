"""Finds the lines that answer best: compiled where that was possible, else in Python, with the same answer.

The kernel (`_kernel.c`, ADR 0030) does what `matching` and `weighing` do, for all shelves in one call and several times
as fast. It sees numbers only; what speaks for a line itself is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from strongroom.engines import Ranked
from strongroom.engines.lexical import matching, signals, weighing
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.question import Question
from strongroom.engines.lexical.reading import ASKS
from strongroom.engines.lexical.terms import Terms

kernel: Callable[..., list[tuple[int, int, float]]] | None = None
"""The compiled ranking; None where it could not be built."""
try:
    from strongroom.engines.lexical import _kernel

    kernel = _kernel.best
except ImportError:
    pass


def best(
    question: Question, terms: Terms, indexes: Sequence[LexicalIndex], k: int, without: Sequence[Collection[int]]
) -> list[Ranked]:
    """The lines of these indexes that may be among the best `k`: these, and perhaps some more.

    Those whose numbers are in `without`, for each index, are not.
    """
    if kernel is None:
        return weighing.best(question, terms, indexes, k, without)
    k = min(k, terms.size.lines)
    if k < 1:
        return []
    found = kernel(
        [_columns(terms, place, index, out) for place, (index, out) in enumerate(zip(indexes, without, strict=True))],
        terms.words,
        signals.of_marks(question),
        signals.SUBSTANCES,
        ASKS,
        k,
        matching.SHORTLIST,
        _numbers(question, terms, indexes),
    )
    return [_ranked(question, indexes[place], number, score) for place, number, score in found]


def _columns(terms: Terms, place: int, index: LexicalIndex, out: Collection[int]) -> tuple[object, ...]:
    """What the kernel is told of one index."""
    return (
        index.lengths,
        index.sessions,
        index.previous,
        index.next,
        index.marks,
        index.session_lengths,
        terms.days_of(place, index),
        out,
    )


def _numbers(question: Question, terms: Terms, indexes: Sequence[LexicalIndex]) -> tuple[float, ...]:
    """What the kernel is told of a question, in the order in which it reads them."""
    size, mass, when = terms.size, terms.mass, terms.when
    is_speaker = any(index.is_speaker(question.names) for index in indexes)
    return (
        matching.BASE,
        matching.TOP,
        matching.SLOPE / size.line_length,
        matching.SLOPE / size.session_length,
        size.sessions,
        signals.MATCH / mass,
        signals.SESSION,
        signals.CONTEXT / mass,
        signals.QUESTION_BEFORE / mass,
        signals.DATE,
        signals.SPEAKER * is_speaker + signals.LATEST * question.asks_latest,
        when.rarity if when is not None else 0.0,
        when.session_rarity if when is not None else 0.0,
    )


def _ranked(question: Question, index: LexicalIndex, number: int, score: float) -> Ranked:
    line = index.line(number)
    return Ranked(line, score + signals.of_line(line, index.lengths[number], question))
