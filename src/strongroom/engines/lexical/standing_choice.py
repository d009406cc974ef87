"""Chooses the standing instructions and preferences that an answer gets beside the lines that match."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from strongroom.engines import Ranked
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.question_kinds import GENERAL, bits_of
from strongroom.model import Line, LineId

PLACES = (2, 4)
"""The places of the chosen lines in an answer, counted from 0: behind the best matches. There is one line for each."""

FIRST = 5
"""A standing line among so many of the best matches keeps its place. Others may be chosen.

The number does not depend on how many lines are asked for. So a longer answer begins with the lines of a shorter one.
"""

CONFIDENCE = 0.05
"""The confidence of a chosen line. It fits the kind of the question, but it may match none of the words."""

MOST = 16
"""About so many standing lines are compared with each other, so that their number does not slow an answer down.

A word counts only if at most so many standing lines contain it. Then come the newest lines of the kinds that the fewest
standing lines have.
"""

_Fit = tuple[float, int, str, str]
"""How well a line fits, then its time, its id and its namespace, so that the order is total."""
_Name = tuple[str, LineId]
"""The namespace and the id of a line."""


def with_standing(
    ranked: Sequence[Ranked], question: Question, indexes: Sequence[LexicalIndex], without: frozenset[LineId]
) -> list[Ranked]:
    """The ranked lines with the standing ones marked, and the standing lines that fit the kind of the question."""
    answer = list(ranked)
    given = [index for index in indexes if index.standing]
    if not given or not question.kinds:
        return answer
    for index in indexes:
        if index.is_speaker(question.names):
            return answer
    answer = [structs.replace(one, standing=True) if _fits(one.line, question, given) else one for one in answer]
    chosen = _chosen(question, given, without, [one.line for one in answer[:FIRST]])
    lifted = set(map(_name, chosen))
    answer = [one for one in answer if _name(one.line) not in lifted]
    for place, line in zip(PLACES, chosen, strict=False):
        answer.insert(place, Ranked(line, 0.0, CONFIDENCE, standing=True))
    return answer


def _name(line: Line) -> _Name:
    return line.namespace, line.id


def _fits(line: Line, question: Question, indexes: Sequence[LexicalIndex]) -> bool:
    """Whether a line is a standing line that has a kind or a word in common with the question."""
    for index in indexes:
        number = index.number_of(line)
        if number is not None:
            return index.standing.is_fit(number, question.kinds, question.words)
    return False


def _chosen(
    question: Question, indexes: Sequence[LexicalIndex], without: frozenset[LineId], first: Sequence[Line]
) -> list[Line]:
    """The standing lines that fit the question best: by common words, then by kinds that few standing lines have."""
    bits = bits_of(question.kinds)
    counts = [index.standing.count(bits, question.words) for index in indexes]
    of_kinds = [sum(column) for column in zip(*[kinds for kinds, _ in counts], strict=True)]
    of_words = [sum(column) for column in zip(*[words for _, words in counts], strict=True)]
    words = [word for word, count in zip(question.words, of_words, strict=True) if count <= MOST]
    holding = dict(zip(bits, of_kinds, strict=True))
    worths = [(bit, 1 / count) for bit, count in holding.items() if count and not GENERAL >> bit & 1]
    rarest = sorted(bits, key=holding.__getitem__)
    judged: list[tuple[_Fit, Line]] = []
    for index in indexes:
        standing = index.standing
        common = standing.with_words(words)
        known = {number for number in map(index.number_of, first) if number is not None}
        newest = standing.newest(rarest, MOST - len(common), len(PLACES), without, known)
        for number in newest.union(common) - known:
            line, kinds = index.line(number), standing.kinds_of(number) or 0
            # One common word alone is no reason: the words of the question find such a line without this.
            if line.id not in without and (kinds & question.kinds or common[number] > 1):
                value = common[number] + sum([worth for bit, worth in worths if kinds >> bit & 1])
                judged.append(((value, line.time, line.id, line.namespace), line))
    judged.sort(key=_fit, reverse=True)
    return [line for _, line in judged[: len(PLACES)]]


def _fit(one: tuple[_Fit, Line]) -> _Fit:
    return one[0]
