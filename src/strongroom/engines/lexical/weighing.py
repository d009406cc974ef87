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
    substance_of,
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
    found = [ranked for look in looks for ranked in look.weighed(-inf, first, inf)]
    if first > -inf:
        least = sorted([ranked.score for ranked in found])[-k] - _ROUNDING
        found += [ranked for look in looks for ranked in look.weighed(least, least, first)]
    return found


class _Look:
    """The lines of one index that may answer, each with the most that it can score."""

    def __init__(self, matches: Matches, question: Question, without: Collection[LineId]) -> None:
        self._matches = matches
        self._question = question
        self._marks = of_marks(question)
        self._by_words: dict[int, float] = {}
        self._of_line = SPEAKER * matches.index.is_speaker(question.names) + LATEST * question.asks_latest
        self._before = self._most_before()
        self._numbers = list(matches.shortlist() - matches.index.numbers(without))
        self.hopes = self._hopes()

    def _hopes(self) -> list[float]:
        found, index, by_marks, most = self._matches, self._matches.index, self._marks, self._most()
        match, session, by_match, by_session = found.match, found.session, found.by_match, found.by_session
        lengths, marks, sessions, longest = index.lengths, index.marks, index.sessions, len(SUBSTANCES) - 1
        return [
            by_match * match.get(number, 0.0)
            + by_session * session[sessions[number]]
            + by_marks[marks[number]]
            + (SUBSTANCES[length] if (length := lengths[number]) < longest else SUBSTANCES[longest])
            + most
            for number in self._numbers
        ]

    def _most(self) -> float:
        """What the signals can add at most that take longer to work out."""
        found = self._matches
        most = CONTEXT / found.mass * found.covered + self._before + self._of_line + _ROUNDING
        return most + DATE * max(found.days.values()) if found.days else most

    def _most_before(self) -> float:
        """What it can add at most that the line before asked for it."""
        marks, match = self._matches.index.marks, self._matches.match
        if not self._matches.index.joined:
            return 0.0
        asking = [value for number, value in match.items() if marks[number] & ASKS]
        return QUESTION_BEFORE / self._matches.mass * max(asking, default=0.0)

    def weighed(self, least: float, low: float, high: float) -> list[Ranked]:
        """The lines that score `least`, with their scores, of those whose hopes are from `low` up to `high`."""
        found, index = self._matches, self._matches.index
        match, days, marks, session = found.match, found.days, index.marks, found.session
        by_context, by_before = CONTEXT / found.mass, QUESTION_BEFORE / found.mass
        weighed: list[Ranked] = []
        for number, hope in [one for one in zip(self._numbers, self.hopes, strict=True) if low <= one[1] < high]:
            before = index.previous[number]
            asked = by_before * match.get(before, 0.0) if before != NOBODY and marks[before] & ASKS else 0.0
            if hope - self._before + asked < least:
                continue
            score = found.by_match * match.get(number, 0.0) + by_context * self._covered(number, before)
            score += found.by_session * session[index.sessions[number]]
            if days:
                score += DATE * days.get(number, 0.0)
            score += asked
            score += self._marks[marks[number]]
            length = index.lengths[number]
            if score + substance_of(length) + self._of_line < least:
                continue
            line = index.line(number)
            weighed.append(Ranked(line, score + of_line(line, length, self._question)))
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
