"""Chooses the standing instructions and preferences that an answer gets beside the lines that match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

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
    chosen = _chosen(question, given, without, {_name(one.line) for one in answer[:FIRST]})
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
        kinds = None if number is None else index.standing.kinds_of(number)
        if number is not None and kinds is not None:
            if kinds & question.kinds:
                return True
            return any(number in index.standing.with_word(word) for word in question.words)
    return False


def _chosen(
    question: Question, indexes: Sequence[LexicalIndex], without: frozenset[LineId], first: set[_Name]
) -> list[Line]:
    """The standing lines that fit the question best: by common words, then by kinds that few standing lines have."""
    bits = bits_of(question.kinds)
    holding = {bit: sum([len(index.standing.of_kind(bit)) for index in indexes]) for bit in bits}
    words = [word for word in question.words if sum([len(index.standing.with_word(word)) for index in indexes]) <= MOST]
    worths = [(bit, 1 / holding[bit]) for bit in bits if holding[bit] and not GENERAL >> bit & 1]
    rarest = sorted(bits, key=holding.__getitem__)
    judged: list[tuple[_Fit, Line]] = []
    for index in indexes:
        common = Counter([number for word in words for number in index.standing.with_word(word)])
        numbers = set(common)
        for bit in rarest:
            numbers.update(_newest(index, bit, MOST - len(numbers), without, first))
        for number in numbers:
            line = index.line(number)
            if line.id not in without and _name(line) not in first:
                kinds = index.standing.kinds_of(number) or 0
                value = common[number] + sum([worth for bit, worth in worths if kinds >> bit & 1])
                judged.append(((value, line.time, line.id, line.namespace), line))
    judged.sort(key=_fit, reverse=True)
    return [line for _, line in judged[: len(PLACES)]]


def _newest(index: LexicalIndex, bit: int, count: int, without: frozenset[LineId], first: set[_Name]) -> Iterator[int]:
    """The numbers of the newest `count` lines of a kind, without those that are excluded or among the first."""
    left = max(count, len(PLACES))
    for _, name, number in reversed(index.standing.of_kind(bit)):
        if name not in without and (index.line(number).namespace, name) not in first:
            yield number
            left -= 1
            if not left:
                return


def _fit(one: tuple[_Fit, Line]) -> _Fit:
    return one[0]
