"""The second look: weighs all signals of the lines that the first look found, but only of those that can win.

Most of a score is known from a look into a few tables. What is missing (neighbours, the line before, the speaker) has
a bound, so a line whose score cannot reach the last one of the answer need not be worked out. The answer is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

from strongroom.engines import Ranked
from strongroom.engines.lexical.candidates import Matches, least_of
from strongroom.engines.lexical.index import NOBODY, LexicalIndex
from strongroom.engines.lexical.line_features import ASKS
from strongroom.engines.lexical.postings import sought_of
from strongroom.engines.lexical.query import Question
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
from strongroom.engines.lexical.term_weights import Terms

_AT_FIRST = 2
"""So many times the lines that are wanted are worked out first, to learn what the others have to reach."""

_ROUNDING = 1e-9
"""Sums of the same numbers in another order differ by less."""


def best(
    question: Question, terms: Terms, indexes: Sequence[LexicalIndex], k: int, without: Sequence[Collection[int]]
) -> list[Ranked]:
    """The lines of these indexes that may be among the best `k`: these, and perhaps some more.

    Those whose numbers are in `without`, for each index, are not.
    """
    if k < 1:
        return []
    sought = sought_of(terms, indexes)
    matches = [Matches(index, place, terms, sought) for place, index in enumerate(indexes)]
    least = least_of(matches, without)
    looks = [_Look(one, question, out, least) for one, out in zip(matches, without, strict=True) if one.found]
    hopes = sorted([hope for look in looks for hope in look.hopes])
    count, low = _AT_FIRST * k, inf
    found: list[Ranked] = []
    while len(found) < k and low > -inf:  # again where many of the best are not wanted
        low, high = hopes[-count] if len(hopes) > count else -inf, low
        found += [ranked for look in looks for ranked in look.weighed(-inf, low, high)]
        count *= 2
    if low > -inf:
        least = sorted([ranked.score for ranked in found])[-k] - _ROUNDING
        found += [ranked for look in looks for ranked in look.weighed(least, least, low)]
    return found


class _Look:
    """The lines of one index that may answer, each with the most that it can score."""

    def __init__(self, matches: Matches, question: Question, without: Collection[int], least: float) -> None:
        self._matches = matches
        self._question = question
        self._marks = of_marks(question)
        self._by_words: dict[int, float] = {}
        self._of_line = SPEAKER * matches.index.is_speaker(question.names) + LATEST * question.asks_latest
        self._before = self._most_before()
        self._numbers, self._first = matches.shortlist(least)
        self._without = without
        self.hopes = self._hopes()

    def _hopes(self) -> list[float]:
        index, by_marks, most = self._matches.index, self._marks, self._most()
        lengths, marks, longest = index.lengths, index.marks, len(SUBSTANCES) - 1
        return [
            first
            + by_marks[marks[number]]
            + (SUBSTANCES[length] if (length := lengths[number]) < longest else SUBSTANCES[longest])
            + most
            for number, first in zip(self._numbers, self._first, strict=True)
        ]

    def _most(self) -> float:
        """What the signals can add at most that take longer to work out."""
        found = self._matches
        most = CONTEXT / found.mass * found.covered + self._before + self._of_line + _ROUNDING
        return most + DATE * max(found.days.values()) if found.days else most

    def _most_before(self) -> float:
        """What it can add at most that the line before asked for it."""
        found = self._matches
        if not found.index.joined:
            return 0.0
        return QUESTION_BEFORE / found.mass * max(found.match, default=0.0)

    def weighed(self, least: float, low: float, high: float) -> list[Ranked]:
        """The lines that score `least`, with their scores, of those whose hopes are from `low` up to `high`."""
        found, index = self._matches, self._matches.index
        match_of, days, marks, previous = found.match_of, found.days, index.marks, index.previous
        by_context, by_before = CONTEXT / found.mass, QUESTION_BEFORE / found.mass
        most = by_context * found.covered
        weighed: list[Ranked] = []
        hopeful = zip(self.hopes, self._numbers, self._first, strict=True)
        for hope, number, first in [one for one in hopeful if low <= one[0] < high]:
            before = previous[number]
            asked = by_before * match_of(before) if before != NOBODY and marks[before] & ASKS else 0.0
            known = hope - self._before + asked
            if known < least or number in self._without:
                continue
            if known - most + by_context * found.most_covered(number, before) < least:
                continue
            score = first + by_context * self._covered(number, before)
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
        words = held[number] | held[before] | held[after]
        covered = self._by_words.get(words)
        if covered is None:
            rarities = enumerate(self._matches.rarities)
            covered = self._by_words[words] = sum([rarity for bit, rarity in rarities if words >> bit & 1])
        if not days:
            return covered
        return covered + self._matches.days_rarity * max([days.get(one, 0.0) for one in (number, before, after)])
