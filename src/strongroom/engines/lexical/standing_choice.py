"""Chooses the standing instructions and preferences that an answer gets beside the lines that match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from strongroom.engines import Ranked
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.standing import BUDGET, GENERAL, PLACES, bits_of
from strongroom.model import Line, LineId

CONFIDENCE = 0.05
"""The confidence of a standing line that fits the kind of the question but matches none of its words."""

_Fit = tuple[float, int, str, str]


def with_standing(
    ranked: Sequence[Ranked], question: Question, indexes: Sequence[LexicalIndex], without: frozenset[LineId]
) -> list[Ranked]:
    """The ranked lines, those that are standing marked, and up to `BUDGET` more that fit the kind of the question."""
    if not question.kinds or any(index.is_speaker(question.names) for index in indexes):
        return list(ranked)
    answer = list(ranked)
    places = {(one.line.namespace, one.line.id): at for at, one in enumerate(ranked)}
    fitting: list[tuple[int, int, Line]] = []
    sought = frozenset(question.words)
    for index in indexes:
        for number, (kinds, held) in index.standing.items():
            shared, common = kinds & question.kinds, len(held & sought)
            if not shared and not common:
                continue
            line = index.line(number)
            at = places.get((line.namespace, line.id))
            if at is not None:
                answer[at] = msgspec.structs.replace(answer[at], standing=True)
            fitting.append((shared & ~GENERAL, common, line))
    holding = Counter(bit for shared, _, _ in fitting for bit in bits_of(shared))
    judged = [
        ((common + sum([1 / holding[bit] for bit in bits_of(shared)]), line.time, line.id, line.namespace), line)
        for shared, common, line in fitting
        if (line.namespace, line.id) not in places and line.id not in without
    ]
    judged.sort(key=_fit, reverse=True)
    for place, (_, line) in zip(PLACES, judged[:BUDGET], strict=False):
        answer.insert(place, Ranked(line, 0.0, CONFIDENCE, standing=True))
    return answer


def _fit(one: tuple[_Fit, Line]) -> _Fit:
    return one[0]
