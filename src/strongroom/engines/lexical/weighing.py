"""The second look: weighs all signals of the lines that the first look found, but only of those that can win.

Most of a score is known from a look into a few tables. What is missing (neighbours, the line before, the speaker) has
a bound, so a line whose score cannot reach the last one of the answer need not be worked out. The answer is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

from strongroom.engines import Ranked
from strongroom.engines.lexical.index import NOBODY, LexicalIndex
from strongroom.engines.lexical.matching import Matches
from strongroom.engines.lexical.question import Question
from strongroom.engines.lexical.reading import ASKS
from strongroom.engines.lexical.signals import (
    CONTEXT,
    DATE,
    LATEST,
    QUESTION_BEFORE,
    SPEAKER,
    SUBSTANCES,
    of_line,
    of_marks,
)
from strongroom.engines.lexical.terms import Terms
from strongroom.model import LineId

_AT_FIRST = 2
"""So many times the lines that are wanted are worked out first, to learn what the others have to reach."""

_ROUNDING = 1e-9
"""Sums of the same numbers in another order differ by less."""


def best(
    question: Question, terms: Terms, indexes: Sequence[LexicalIndex], k: int, without: Collection[LineId]
) -> list[Ranked]:
    """The lines of these indexes, but those `without`, that may be among the best `k`: these, and perhaps some more."""
    looks = [_Look(Matches(index, place, terms), question, without) for place, index in enumerate(indexes)]
    hopes = sorted([hope for look in looks for hope in look.hopes])
    first = hopes[-_AT_FIRST * k] if len(hopes) > _AT_FIRST * k else -inf
    found = [ranked for look in looks for ranked in look.weighed(first, inf)]
    if first > -inf:
        least = sorted([ranked.score for ranked in found])[-k] - _ROUNDING
        found += [ranked for look in looks for ranked in look.weighed(least, first)]
    return found


class _Look:
    """The lines of one index that may answer, each with the most that it can score."""

    def __init__(self, matches: Matches, question: Question, without: Collection[LineId]) -> None:
        self._matches = matches
        self._question = question
        self._marks = of_marks(question)
        self._by_words: dict[int, float] = {}
        chosen = matches.shortlist()
        chosen -= matches.index.numbers(without)
        self._numbers = list(chosen)
        self.hopes = self._hopes()

    def _hopes(self) -> list[float]:
        found = self._matches
        index, match, session = found.index, found.match, found.session
        by_match, by_session, by_marks = found.by_match, found.by_session, self._marks
        lengths, marks, sessions, longest = index.lengths, index.marks, index.sessions, len(SUBSTANCES) - 1
        most = self._most()
        return [
            by_match * match.get(number, 0.0)
            + by_session * session.get(sessions[number], 0.0)
            + by_marks[marks[number]]
            + (SUBSTANCES[length] if (length := lengths[number]) < longest else SUBSTANCES[longest])
            + most
            for number in self._numbers
        ]

    def _most(self) -> float:
        """What the signals can add at most that take longer to work out."""
        found, question = self._matches, self._question
        most = CONTEXT + _ROUNDING
        if found.index.joined:
            most += QUESTION_BEFORE / found.mass * max(found.match.values(), default=0.0)
        if found.days:
            most += DATE * max(found.days.values())
        if found.index.is_speaker(question.names):
            most += SPEAKER
        return most + LATEST if question.asks_latest else most

    def weighed(self, least: float, below: float) -> list[Ranked]:
        """The lines that can score `least`, with their scores; not those that can score `below`."""
        found, index = self._matches, self._matches.index
        match, days, marks, session = found.match, found.days, index.marks, found.session
        by_context, by_before = CONTEXT / found.mass, QUESTION_BEFORE / found.mass
        weighed: list[Ranked] = []
        for number, hope in zip(self._numbers, self.hopes, strict=True):
            if not least <= hope < below:
                continue
            before = index.previous[number]
            score = found.by_match * match.get(number, 0.0) + by_context * self._covered(number, before)
            score += found.by_session * session.get(index.sessions[number], 0.0)
            if days:
                score += DATE * days.get(number, 0.0)
            if before != NOBODY and marks[before] & ASKS:
                score += by_before * match.get(before, 0.0)
            line = index.line(number)
            score += self._marks[marks[number]]
            weighed.append(Ranked(line, score + of_line(line, index.lengths[number], self._question)))
        return weighed

    def _covered(self, number: int, before: int) -> float:
        """What it is worth that a line and its neighbours hold between them: words and days."""
        held, days, after = self._matches.held, self._matches.days, self._matches.index.next[number]
        words = held.get(number, 0) | held.get(before, 0) | held.get(after, 0)
        covered = self._by_words.get(words)
        if covered is None:
            rarities = enumerate(self._matches.rarities)
            covered = self._by_words[words] = sum([rarity for bit, rarity in rarities if words >> bit & 1])
        if not days:
            return covered
        return covered + self._matches.days_rarity * max([days.get(one, 0.0) for one in (number, before, after)])
