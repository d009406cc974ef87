"""Finds the lines that answer best: compiled where possible, else in Python, with the same answer.

The kernel (`_kernel.c`, ADR 0030) does the work of `python_reference` for all shelves in one call, many times as fast.
It knows lines by their numbers only; signals of the line itself are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from strongroom.engines import Ranked
from strongroom.engines.lexical import python_reference, signals, term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import ASKS
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.term_weights import Size, Terms, WhenTerm, days_in, when_term
from strongroom.model import Line, LineId

_Found = tuple[list[tuple[int, int, float]], bool, bool]
kernel: Callable[..., _Found | None] | None = None
"""The compiled ranking; None where it could not be built."""
try:
    from strongroom.engines.lexical import _kernel

    kernel = _kernel.best
except ImportError:
    pass

_NO_DAYS: Mapping[int, float] = {}


class SearchResult(NamedTuple):
    """Lines that answer, and what was left out: lines with only common words (pruned), or the commonest words (cut)."""

    lines: list[Ranked]
    is_pruned: bool
    is_cut: bool


def best(
    question: Question,
    indexes: Sequence[LexicalIndex],
    k: int,
    without: frozenset[LineId],
    *,
    pruned: bool = True,
    cut: bool = True,
) -> SearchResult | None:
    """The lines of these indexes that may be among the best `k`, and perhaps some more.

    Lines in `without` are excluded. None if no line has to do with the question.
    """
    size = Size.of(indexes)
    limits = size.limits(pruned=pruned, cut=cut)
    when = when_term(question, indexes, size)
    if kernel is None:
        sought = Terms.of(question, indexes, size, limits, when)
        if sought is None:
            return None
        numbers = [index.numbers(without) for index in indexes]
        return SearchResult(
            python_reference.rank(question, sought, indexes, numbers) if k > 0 else [], sought.is_pruned, sought.is_cut
        )
    days: Sequence[Mapping[int, float]] = [_NO_DAYS] * len(indexes)
    if when is not None:
        days = days_in(question, indexes, size, limits, when)
    found = kernel(
        [(index.columns, of_index) for index, of_index in zip(indexes, days, strict=True)],
        question.words,
        without,
        signals.of_marks(question),
        signals.SUBSTANCES,
        ASKS,
        min(k, size.lines),
        (*limits, term_weights.MOST_WORDS, term_weights.SHORTLIST),
        _numbers(question, size, when, indexes),
    )
    if found is None:
        return None
    lines, is_pruned, is_cut = found
    return SearchResult(_ranked(question, indexes, lines), is_pruned, is_cut)


def _numbers(
    question: Question, size: Size, when: WhenTerm | None, indexes: Sequence[LexicalIndex]
) -> tuple[float, ...]:
    """The numbers of a question, in the order in which the kernel reads them."""
    is_speaker = any(index.is_speaker(question.names) for index in indexes)
    return (
        term_weights.BASE,
        term_weights.TOP,
        term_weights.SLOPE / size.line_length,
        term_weights.SLOPE / size.session_length,
        size.lines,
        size.sessions,
        signals.MATCH,
        signals.SESSION,
        signals.CONTEXT,
        signals.QUESTION_BEFORE,
        signals.DATE,
        signals.SPEAKER * is_speaker + signals.LATEST * question.asks_latest,
        when.rarity if when is not None else 0.0,
        when.session_rarity if when is not None else 0.0,
    )


def _ranked(
    question: Question, indexes: Sequence[LexicalIndex], found: Sequence[tuple[int, int, float]]
) -> list[Ranked]:
    """The lines that the kernel found, by index and number, with the signals of the line itself added to each score."""
    lines: list[tuple[Line, int]] = []
    for place, number, _ in found:
        line = indexes[place].lines[number]
        if line is None:
            raise LookupError("the kernel names a line that is gone")
        lines.append((line, indexes[place].lengths[number]))
    own = signals.of_lines(lines, question)
    return [Ranked(line, score + more) for (line, _), (_, _, score), more in zip(lines, found, own, strict=True)]
