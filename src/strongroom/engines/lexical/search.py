"""Finds the lines that answer a question best, with compiled code if it could be built, and otherwise in Python.

The compiled code (`_kernel.c`, the kernel, ADR 0030) does the work of `python_reference` for all indexes in one call.
Its answer is the same, and it is many times as fast. The kernel knows only the numbers of lines, so the signals that
need the line itself, such as its speaker, are added here.
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
"""The compiled ranking, or None if it could not be built."""
try:
    from strongroom.engines.lexical import _kernel

    kernel = _kernel.best
except ImportError:
    pass

_NO_DAYS: Mapping[int, float] = {}


class SearchResult(NamedTuple):
    """The lines that were found, and whether the search skipped something to be fast.

    `is_pruned`: lines that contain only common words were skipped. `is_cut`: the commonest words were skipped.
    """

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
    """All lines of these indexes that may be among the best `k`, and perhaps some more lines.

    Lines in `without` are excluded. Returns None if no line contains a word of the question or has to do with its days.
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
    """The weights, sizes and rarities that the kernel needs for a question, in the order in which it reads them."""
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
    """The lines that the kernel found, with the signals of the line itself added to each score.

    Each entry of `found` is the position of an index, the number of a line in it, and the kernel's score.
    """
    lines: list[tuple[Line, int]] = []
    for place, number, _ in found:
        line = indexes[place].lines[number]
        if line is None:
            raise LookupError("the kernel refers to a line that was removed from the index")
        lines.append((line, indexes[place].lengths[number]))
    own = signals.of_lines(lines, question)
    return [Ranked(line, score + more) for (line, _), (_, _, score), more in zip(lines, found, own, strict=True)]
