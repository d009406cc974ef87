"""The default engine: BM25 over exactly the lines it is given, with signals from the structure of a conversation.

No vectors and no model: words, sessions, neighbours, speakers, days, and the kind of answer that the question asks for.
`tokenizer` and `line_features` read one line, `codec` stores the result; `index` and `session_order` hold a shelf.
`query` and `term_weights` weigh a question against the shelves given, and `search` finds the lines by the `signals`:
compiled (`_kernel.c`), or by the `python_reference`.

Figures: docs/recall.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from strongroom.engines import Ranked
from strongroom.engines.lexical.codec import pack
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import extract
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.search import best
from strongroom.engines.lexical.tokenizer import Known
from strongroom.model import Line, LineId, Millis

_score = attrgetter("score")


class Lexical:
    """Ranks by words, structure and time."""

    def index(self) -> LexicalIndex:
        return LexicalIndex()

    def readings(self, lines: Sequence[Line]) -> bytes:
        known: Known = {}
        return pack([extract(line, known) for line in lines])

    def rank(self, query: str, indexes: Sequence[LexicalIndex], k: int, now: datetime) -> Sequence[Ranked]:
        return self.rank_without(query, indexes, k, now, frozenset())

    def rank_without(
        self, query: str, indexes: Sequence[LexicalIndex], k: int, now: datetime, without: frozenset[LineId]
    ) -> Sequence[Ranked]:
        question = Question.of(query, now)
        found = best(question, indexes, k, without)
        if found is None:
            return _in_order(_newest(indexes, k, without), k)
        lines = found.lines
        may_be_more = found.is_pruned or (found.is_cut and not lines)
        if without and may_be_more and len(lines) < k:
            lines = [*lines, *_left_out(question, indexes, k - len(lines), without, lines)]
        return _in_order(lines, k)


def _in_order(found: list[Ranked], k: int) -> Sequence[Ranked]:
    """The best `k`, by score. Ties with the last of them are settled by the slower total order."""
    found.sort(key=_score, reverse=True)
    scores = [one.score for one in found[: k + 1]]
    if len(set(scores)) == len(scores):
        return found[:k]
    least = scores[min(k, len(scores)) - 1]
    return sorted([one for one in found if one.score >= least], key=_best, reverse=True)[:k]


def _left_out(
    question: Question,
    indexes: Sequence[LexicalIndex],
    k: int,
    without: frozenset[LineId],
    found: Sequence[Ranked],
) -> list[Ranked]:
    """The best lines that were pruned because enough others hold a rarer word, for when those others are excluded."""
    without = without.union([one.line.id for one in found])
    more = best(question, indexes, k, without, pruned=False, cut=bool(found))
    return [] if more is None else [*_in_order(more.lines, k)]


def _newest(indexes: Sequence[LexicalIndex], k: int, without: frozenset[LineId]) -> list[Ranked]:
    lines = [line for index in indexes for line in index.newest(k + len(index.numbers(without)))]
    return [Ranked(line, 0.0) for line in lines if line.id not in without]


def _best(ranked: Ranked) -> tuple[float, Millis, LineId, str]:
    # Ids are unique within a namespace only. The namespace makes the order total.
    line: Line = ranked.line
    return ranked.score, line.time, line.id, line.namespace
