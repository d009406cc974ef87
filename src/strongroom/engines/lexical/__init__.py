"""The default engine: BM25 over exactly the lines it is given, with signals from the structure of a conversation.

The engine uses no vectors and no model. It ranks by words, sessions, neighbouring lines, speakers, days, and the kind
of answer that the question asks for.

- `tokenizer` and `line_features` read one line, and `codec` encodes the result for storage.
- `index` and `session_order` hold the lines of one actor's namespace.
- `query` parses a question, and `term_weights` weighs its words and days by their rarity among the lines given.
- `search` finds the best lines by the `signals`, with compiled code (`_kernel.c`) or the `python_reference`, and says
  how likely each line answers the question.
- `session_spread` spreads the answer over sessions if the question asks for several things.
- `restatements` puts a later statement before the earlier one that it replaces.
- `standing_choice` adds `standing_lines`: instructions and preferences that fit the kind of the question.

Measurements of its recall: docs/recall.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from strongroom.engines import Ranked
from strongroom.engines.lexical import restatements, session_spread
from strongroom.engines.lexical.codec import pack
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import extract
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.search import Candidate, best, explained
from strongroom.engines.lexical.standing_choice import FIRST, with_standing
from strongroom.engines.lexical.tokenizer import Known
from strongroom.model import Line, LineId, Millis

_score = attrgetter("score")
_NOTHING: Mapping[tuple[str, LineId], LineId] = {}


class Lexical:
    """Ranks lines by their words, their place in a conversation, and time."""

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
        window = session_spread.WINDOW if question.asks_many else restatements.WINDOW
        found = _best(question, indexes, max(k, window), without)
        if question.asks_many:
            found = session_spread.spread(found)
        ordered, superseded = found, _NOTHING
        if not question.windows:  # a question about days asks for what was said or planned then
            ordered, superseded = restatements.in_order(found, query)
        ranked = [
            Ranked(one.line, one.score, one.confidence, superseded.get((one.line.namespace, one.line.id)))
            for one in ordered[: max(k, FIRST)]
        ]
        return with_standing(ranked, question, indexes, without)[:k]

    def explain(
        self, query: str, indexes: Sequence[LexicalIndex], now: datetime, lines: frozenset[LineId]
    ) -> Mapping[tuple[str, LineId], Mapping[str, float]]:
        return explained(Question.of(query, now), indexes, lines)


def _best(question: Question, indexes: Sequence[LexicalIndex], k: int, without: frozenset[LineId]) -> list[Candidate]:
    """The best `k` lines, best first."""
    found = best(question, indexes, k, without)
    if found is None:
        return []
    lines = _in_order(found.lines, k)
    may_be_more = found.is_pruned or (found.is_cut and not lines)
    if without and may_be_more and len(lines) < k:
        lines += _left_out(question, indexes, k - len(lines), without, lines)
    return lines


def _in_order(found: list[Candidate], k: int) -> list[Candidate]:
    """The best `k` lines, by score. If scores are equal, the newer line comes first.

    That comparison (`_precedence`) is slow, so it is made only if two of the best `k + 1` scores are equal.
    """
    found.sort(key=_score, reverse=True)
    scores = [one.score for one in found[: k + 1]]
    if len(set(scores)) == len(scores):
        return found[:k]
    least = scores[min(k, len(scores)) - 1]
    return sorted([one for one in found if one.score >= least], key=_precedence, reverse=True)[:k]


def _left_out(
    question: Question,
    indexes: Sequence[LexicalIndex],
    k: int,
    without: frozenset[LineId],
    found: Sequence[Candidate],
) -> list[Candidate]:
    """The best lines among the lines that the first search skipped. Used if excluded lines leave too few results.

    The first search skips lines with only common words, if enough lines contain a rarer word.
    """
    without = without.union([one.line.id for one in found])
    more = best(question, indexes, k, without, pruned=False, cut=bool(found))
    return [] if more is None else _in_order(more.lines, k)


def _precedence(found: Candidate) -> tuple[float, Millis, LineId, str]:
    # Ids are unique within a namespace only. The namespace makes the order total.
    line = found.line
    return found.score, line.time, line.id, line.namespace
