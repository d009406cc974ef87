"""Finds the lines that may answer: a first look at every line that holds a word or has to do with the days meant.

The second look, at the best of these and their neighbours, is `weighing`'s.

BM25 gives a line `top * n / (n + base + slope * length)` for a word that stands in it `n` times. Mostly `n` is 1, and
then only `top` is the word's own: so the tops of all words are added up first, and divided once for each line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest
from operator import itemgetter

from strongroom.engines.lexical.holding import Holders, holders_of
from strongroom.engines.lexical.index import NOBODY, LexicalIndex
from strongroom.engines.lexical.keeping import TF_BITS
from strongroom.engines.lexical.signals import MATCH, SESSION
from strongroom.engines.lexical.terms import Term, Terms, WhenTerm

SHORTLIST = 100
"""Lines of one shelf that get the second look; their neighbours do too."""

_MANY = 2000
"""So many numbers take longer to sort than to look through for the largest."""

_K1, _B = 1.2, 0.75
_BASE = 1 + _K1 * (1 - _B)


class Matches:
    """What one index has for the terms. A line that holds all that was looked for once is worth about 1."""

    def __init__(self, index: LexicalIndex, place: int, terms: Terms) -> None:
        self.index = index
        self.mass = terms.mass
        self.days: Mapping[int, float] = {}
        self.by_match = MATCH / terms.mass
        self.by_session = SESSION / terms.session_mass
        self.words: list[tuple[float, Holders]] = []
        """The rarity of each word that a line here holds, and who does."""
        self._lines = _Sums(index.lengths, terms.size.line_length)
        self._sessions = _Sums(index.session_lengths, terms.size.session_length)
        for term in terms.words:
            holders = term.holders[place]
            if holders.occurrences:
                self._look_for_word(term, self._of_known_lines(holders) if term.common else holders)
        self.covered = sum([rarity for rarity, _ in self.words])
        """What all that any line here holds is worth."""
        self.days_rarity = 0.0
        if terms.when is not None:
            self._look_for_days(terms.when)

    def _look_for_word(self, term: Term, holders: Holders) -> None:
        self.words.append((term.rarity, holders))
        self._lines.add_occurrences(term.rarity, holders)
        self._sessions.add_counts(term.session_rarity, holders.sessions)

    def _of_known_lines(self, holders: Holders) -> Holders:
        """Who holds a common word, of the lines that hold a rarer one."""
        known = self._lines.tops
        return holders_of([packed for packed in holders.occurrences if packed >> TF_BITS in known], self.index)

    def _look_for_days(self, term: WhenTerm) -> None:
        self.days = term.strengths(self.index, list(self._lines.tops))
        self.days_rarity = term.rarity
        self.covered += term.rarity
        strongest: dict[int, float] = {}
        sessions = self.index.sessions
        for number, strength in self.days.items():
            session = sessions[number]
            strongest[session] = max(strongest.get(session, 0.0), strength)
        self._lines.add_shares(term.rarity, self.days)
        self._sessions.add_shares(term.session_rarity, strongest)

    def match(self, number: int) -> float:
        """How well a line holds the words (BM25) and days; not yet a share."""
        return self._lines.share(number)

    def most_match(self) -> float:
        """The most that any line's match can be."""
        return max(self._lines.tops.values(), default=0.0) / _BASE

    def most_covered(self, number: int, before: int) -> float:
        """The most that a line and its neighbours can hold between them, without a look at the words."""
        get = self._lines.tops.get
        tops = get(number, 0.0) + get(before, 0.0) + get(self.index.next[number], 0.0)
        return min(self.covered, tops / (_K1 + 1) + self.days_rarity)

    def shortlist(self) -> tuple[list[int], list[float]]:
        """The best lines by match and session, with all that are as good as the last, and their neighbours.

        And what match and session are worth in the score of each.
        """
        tops, index = self._lines.tops, self.index
        lengths, slope, by_match = index.lengths, self._lines.slope, self.by_match
        by_session, sessions = self._sessions.shares(self.by_session), index.sessions
        first = [
            by_match * top / (_BASE + slope * lengths[one]) + by_session[sessions[one]] for one, top in tops.items()
        ]
        chosen = list(tops)
        if len(first) > SHORTLIST:
            least = nlargest(SHORTLIST, first)[-1] if len(first) > _MANY else sorted(first)[-SHORTLIST]
            chosen = [one for one, value in zip(tops, first, strict=True) if value >= least]
            first = [value for value in first if value >= least]
        if index.joined and chosen:
            near = {*_at(chosen, index.previous), *_at(chosen, index.next)}
            near.discard(NOBODY)
            near.difference_update(chosen)
            chosen += near
            first += [
                by_session[sessions[one]] + (by_match * self.match(one) if one in tops else 0.0) for one in near
            ]
        return chosen, first


class _Sums:
    """What words are worth to each of many texts, lines or sessions, of which BM25 needs the lengths."""

    __slots__ = ("lengths", "slope", "tops")

    def __init__(self, lengths: Sequence[int], average: float) -> None:
        self.tops: dict[int, float] = {}
        self.lengths = lengths
        self.slope = _K1 * _B / average

    def add_occurrences(self, rarity: float, holders: Holders) -> None:
        """Add a word that these lines hold."""
        tops, top = self.tops, rarity * (_K1 + 1)
        for packed in holders.occurrences:
            number = packed >> TF_BITS
            if number in tops:
                tops[number] += top
            else:
                tops[number] = top
        for number, count in holders.repeated:
            tops[number] += top * (self._times(number, count) - 1)

    def add_counts(self, rarity: float, counts: Mapping[int, int]) -> None:
        """Add a word that they hold so many times."""
        tops, top = self.tops, rarity * (_K1 + 1)
        for one, count in counts.items():
            value = top if count == 1 else top * self._times(one, count)
            if one in tops:
                tops[one] += value
            else:
                tops[one] = value

    def add_shares(self, rarity: float, strengths: Mapping[int, float]) -> None:
        """Add what is no word."""
        tops = self.tops
        for one, strength in strengths.items():
            tops[one] = tops.get(one, 0.0) + rarity * strength * self._once(one)

    def share(self, one: int) -> float:
        top = self.tops.get(one)
        return 0.0 if top is None else top / self._once(one)

    def shares(self, by: float) -> dict[int, float]:
        lengths, slope = self.lengths, self.slope
        return {one: by * top / (_BASE + slope * lengths[one]) for one, top in self.tops.items()}

    def _once(self, one: int) -> float:
        return _BASE + self.slope * self.lengths[one]

    def _times(self, one: int, count: int) -> float:
        """What it counts that a word stands in a text so many times instead of once."""
        once = self._once(one)
        return count * once / (count - 1 + once)


def _at(places: Sequence[int], values: Sequence[int]) -> Sequence[int]:
    """The values at these places, of which there are some."""
    return itemgetter(*places)(values) if len(places) > 1 else (values[places[0]],)
