"""Finds the lines that answer a question best, with compiled code if it could be built, and otherwise in Python.

The compiled code (`_kernel.c`, the kernel, ADR 0030) does the work of `python_reference` for all indexes in one call.
Its answer is the same, and it is many times as fast. The kernel knows only the numbers of lines, so the signals that
need the line itself, such as its speaker, are added here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from strongroom.engines.lexical import python_reference, term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import ASKS
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.signals import Weighing, weighing_for
from strongroom.engines.lexical.term_weights import Size, Terms, WhenTerm, days_in, when_term
from strongroom.engines.lexical.weights import CONFIDENCE, Weights
from strongroom.model import Line, LineId

_Entry = tuple[int, int, float, int, int, int]
"""A line that the kernel found.

The position of its index, its number there, the kernel's score, whether it is excluded, and the question's words that
it contains: a bit for each word, the first 64 words in the first number.
"""
_Found = tuple[list[_Entry], bool, bool, float, float]
kernel: Callable[..., _Found | None] | None = None
"""The compiled ranking, or None if it could not be built."""
try:
    from strongroom.engines.lexical import _kernel

    kernel = _kernel.best
except ImportError:
    pass

_NO_DAYS: Mapping[int, float] = {}


class Candidate(NamedTuple):
    """A line that may be among the best."""

    line: Line
    score: float
    held: int
    """The words of the question that the line contains: a bit for each, the rarest word first."""
    odds: float
    """The logarithm of the odds that the line answers the question."""

    @property
    def confidence(self) -> float:
        """How likely the line answers the question, from 0 to 1."""
        return 1 / (1 + math.exp(-self.odds))


class SearchResult(NamedTuple):
    """The lines that were found, and whether the search skipped something to be fast.

    `is_pruned`: lines that contain only common words were skipped. `is_cut`: the commonest words were skipped.
    """

    lines: list[Candidate]
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
    weighing = weighing_for(size.lines, size.replies)
    if kernel is None:
        sought = Terms.of(question, indexes, size, limits, when)
        if sought is None:
            return None
        numbers = [index.numbers(without) for index in indexes]
        return _result(question, weighing, indexes, python_reference.rank(question, weighing, sought, indexes, numbers))
    days: Sequence[Mapping[int, float]] = [_NO_DAYS] * len(indexes)
    if when is not None:
        days = days_in(question, indexes, size, limits, when)
    found = kernel(
        [(index.columns, of_index) for index, of_index in zip(indexes, days, strict=True)],
        question.words,
        without,
        weighing.of_marks(question),
        weighing.substances,
        ASKS,
        min(k, size.lines),
        (*limits, term_weights.MOST_WORDS, term_weights.SHORTLIST),
        _numbers(question, weighing.weights, size, when, indexes),
    )
    return None if found is None else _result(question, weighing, indexes, found)


def _numbers(
    question: Question, weights: Weights, size: Size, when: WhenTerm | None, indexes: Sequence[LexicalIndex]
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
        weights.match,
        weights.cover,
        weights.session,
        weights.best_of_session,
        weights.context,
        weights.question_before,
        weights.date,
        weights.speaker * is_speaker + weights.latest * question.asks_latest,
        when.rarity if when is not None else 0.0,
        when.session_rarity if when is not None else 0.0,
        term_weights.FEW,
    )


def _result(question: Question, weighing: Weighing, indexes: Sequence[LexicalIndex], found: _Found) -> SearchResult:
    """The lines that the ranking found, with the signals of the line itself added to each score.

    Confidence has two parts. One is the same for all lines: how much of the question the best evidence covers. The
    other is the distance of a score from the best one. Excluded lines count in both, so that excluding a line changes
    no confidence.
    """
    entries, is_pruned, is_cut, cover, context = found
    if not entries:
        return SearchResult([], is_pruned, is_cut)
    lines: list[tuple[Line, int]] = []
    for entry in entries:
        index, number = indexes[entry[0]], entry[1]
        line = index.lines[number]
        if line is None:
            raise LookupError("the kernel refers to a line that was removed from the index")
        lines.append((line, index.lengths[number]))
    own = weighing.of_lines(lines, question)
    scores = [entry[2] + more for entry, more in zip(entries, own, strict=True)]
    evidence = CONFIDENCE.bias + CONFIDENCE.cover * cover + CONFIDENCE.context * context
    lead, top = CONFIDENCE.lead, max(scores)
    kept = [
        Candidate(line, score, high << 64 | low, evidence + lead * (score - top))
        for (line, _), score, (_, _, _, is_out, low, high) in zip(lines, scores, entries, strict=True)
        if not is_out
    ]
    return SearchResult(kept, is_pruned, is_cut)


def explained(
    question: Question, indexes: Sequence[LexicalIndex], lines: frozenset[LineId]
) -> Mapping[tuple[str, LineId], Mapping[str, float]]:
    """The weighted signals of these lines, by (namespace, id) and name.

    This runs in Python, because people ask for it rarely.
    """
    size = Size.of(indexes)
    weighing = weighing_for(size.lines, size.replies)
    terms = Terms.of(question, indexes, size, size.limits(pruned=True, cut=True), when_term(question, indexes, size))
    if terms is None:
        return {}
    found: dict[tuple[str, LineId], Mapping[str, float]] = {}
    for shelf in python_reference.weighed(terms, weighing, indexes):
        index = shelf.index
        for number in index.numbers(lines):
            line = index.line(number)
            own = weighing.shares(line, index.lengths[number], index.marks[number], question)
            found[line.namespace, line.id] = {**shelf.shares(number), **own}
    return found
