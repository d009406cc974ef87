"""Finds the lines that may answer: a first look at every line that holds a word or has to do with the days meant.

The second look, at the best of these and their neighbours, is `weighing`'s.

BM25 gives a line `top * n / (n + base + slope * length)` for a word that stands in it `n` times. Mostly `n` is 1, and
then only `top` is the word's own: so the tops of all words are added up first, and divided once for each line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

from strongroom.engines.lexical.codec import TF_BITS, repeated_words
from strongroom.engines.lexical.index import NOBODY, LexicalIndex
from strongroom.engines.lexical.postings import Holders, Sought
from strongroom.engines.lexical.signals import MATCH, SESSION
from strongroom.engines.lexical.term_weights import Terms, WhenTerm

SHORTLIST = 100
"""Lines that get the second look, of all shelves together; their neighbours do too."""

_K1, _B = 1.2, 0.75
BASE = 1 + _K1 * (1 - _B)
SLOPE = _K1 * _B
TOP = _K1 + 1


class Matches:
    """What one index has for the terms. A line that holds all that was looked for once is worth about 1."""

    def __init__(self, index: LexicalIndex, place: int, terms: Terms, sought: Sequence[Sought]) -> None:
        self.index = index
        self.mass = terms.mass
        self.days: Mapping[int, float] = {}
        self.days_rarity = 0.0
        self.rarities = [term.rarity for term in terms.words]
        self.held = [0] * (len(index.lines) + 1)
        """Which words lines hold, a bit for each; none at the end, which is where NOBODY looks."""
        self.covered = 0.0
        """What all that any line here holds is worth."""
        self._lines = _Sums(index.lengths, terms.size.line_length)
        self._sessions = _Sums(index.session_lengths, terms.size.session_length)
        for bit, word in enumerate(sought):
            holders = word.holders[place]
            if holders.occurrences:
                self.covered += word.term.rarity
                self._look_for_word(word, self._of_known_lines(holders) if word.term.common else holders, 1 << bit)
        if terms.when is not None:
            self._look_for_days(terms.when, terms.days_of(place, index))
        self.found = self._lines.found
        """The lines that hold a word, or have to do with the days."""
        self.match = self._lines.shares()
        """How well each of these does (BM25); not yet a share."""
        self._by_match = MATCH / terms.mass
        self._worth = self._sessions.worth(SESSION / session_mass_of(terms, sought))
        self.first = self._first()
        """What match and session are worth in the score of each line that was found."""

    def _look_for_word(self, word: Sought, holders: Holders, bit: int) -> None:
        tops, held, found, top = self._lines.tops, self.held, self._lines.found, word.term.rarity * TOP
        for packed in holders.occurrences:
            number = packed >> TF_BITS
            if held[number]:
                tops[number] += top
                held[number] |= bit
            else:
                found.append(number)
                tops[number] = top
                held[number] = bit
        for number, count in holders.repeated:
            tops[number] += top * (self._lines.times(number, count) - 1)
        self._sessions.add_counts(word.session_rarity, holders.sessions)

    def _of_known_lines(self, holders: Holders) -> Holders:
        """Who holds a common word, of the lines that hold a rarer one."""
        known = self.held
        occurrences = [packed for packed in holders.occurrences if known[packed >> TF_BITS]]
        return Holders(occurrences, repeated_words(occurrences))

    def _look_for_days(self, term: WhenTerm, strengths: Mapping[int, float]) -> None:
        self.days, self.days_rarity = strengths, term.rarity
        self.covered += term.rarity
        sessions, strongest = self.index.sessions, dict[int, float]()
        for number, strength in strengths.items():
            session = sessions[number]
            if strongest.get(session, 0.0) < strength:
                strongest[session] = strength
        self._lines.add_beside(term.rarity, strengths)
        self._sessions.add_beside(term.session_rarity, strongest)

    def _first(self) -> list[float]:
        worth, sessions, by_match = self._worth, self.index.sessions, self._by_match
        return [by_match * match + worth[sessions[one]] for match, one in zip(self.match, self.found, strict=True)]

    def match_of(self, number: int) -> float:
        """How well any line does."""
        return self._lines.share(number)

    def most_covered(self, number: int, before: int) -> float:
        """The most that a line and its neighbours can hold between them, without a look at the words."""
        at = self._lines.tops
        tops = at[number] + at[before] + at[self.index.next[number]]
        return tops / TOP + self.days_rarity

    def shortlist(self, least: float) -> tuple[list[int], list[float]]:
        """The lines that are as good as that at first, and their neighbours; with what they are worth at first."""
        chosen, first = self.found, self.first
        if least > 0:
            chosen = [one for one, value in zip(chosen, first, strict=True) if value >= least]
            first = [value for value in first if value >= least]
        index = self.index
        if not (index.joined and chosen):
            return chosen, first
        near = {*_at(chosen, index.previous), *_at(chosen, index.next)}
        near.discard(NOBODY)
        near.difference_update(chosen)
        worth, sessions, by_match, share = self._worth, index.sessions, self._by_match, self._lines.share
        return [*chosen, *near], [*first, *[by_match * share(one) + worth[sessions[one]] for one in near]]


def session_mass_of(terms: Terms, sought: Sequence[Sought]) -> float:
    """What all of it is worth together to a session."""
    of_words = sum([word.session_rarity for word in sought])
    return of_words + terms.when.session_rarity if terms.when is not None else of_words


def least_of(matches: Sequence[Matches], without: Sequence[Collection[int]]) -> float:
    """What a line must be worth at first to be on the shortlist; all that are as good as its last one are on it.

    Lines that are not wanted take no place there: else those that are might not get one.
    """
    first: list[float] = []
    for one, out in zip(matches, without, strict=True):
        first += [value for value, at in zip(one.first, one.found, strict=True) if at not in out] if out else one.first
    return sorted(first)[-SHORTLIST] if len(first) > SHORTLIST else 0.0


class _Sums:
    """What words are worth to each of many texts, lines or sessions, of which BM25 needs the lengths.

    A place for every text there is: lists of them are made at once, and are twice as fast as dicts of the few.
    """

    __slots__ = ("beside", "found", "lengths", "slope", "tops")

    def __init__(self, lengths: Sequence[int], average: float) -> None:
        self.tops = [0.0] * (len(lengths) + 1)
        self.beside: dict[int, float] = {}
        """What counts as it is, whatever the length of the text."""
        self.found: list[int] = []
        """The texts that have anything."""
        self.lengths = lengths
        self.slope = SLOPE / average

    def add_counts(self, rarity: float, counts: Mapping[int, int]) -> None:
        """Add a word that they hold so many times."""
        tops, found, lengths, slope, top = self.tops, self.found, self.lengths, self.slope, rarity * TOP
        for one, count in counts.items():
            value = top
            if count > 1:  # as `times` has it, without a call for each
                once = BASE + slope * lengths[one]
                value = top * count * once / (count - 1 + once)
            if tops[one]:
                tops[one] += value
            else:
                found.append(one)
                tops[one] = value

    def add_beside(self, rarity: float, strengths: Mapping[int, float]) -> None:
        """Add something beside the words, of which each has so much. It is the last that is added."""
        tops = self.tops
        self.found += [one for one in strengths if not tops[one]]
        self.beside = {one: rarity * strength for one, strength in strengths.items()}

    def shares(self) -> list[float]:
        """What each of those that were found has."""
        lengths, slope, tops, beside = self.lengths, self.slope, self.tops, self.beside
        shares = [tops[one] / (BASE + slope * lengths[one]) for one in self.found]
        if not beside:
            return shares
        return [share + beside.get(one, 0.0) for one, share in zip(self.found, shares, strict=True)]

    def share(self, one: int) -> float:
        """What any text has."""
        return self.tops[one] / (BASE + self.slope * self.lengths[one]) + self.beside.get(one, 0.0)

    def worth(self, weight: float) -> list[float]:
        """What every text has, weighed. The sums are used up."""
        tops = self.tops
        for one, share in zip(self.found, self.shares(), strict=True):
            tops[one] = weight * share
        return tops

    def times(self, one: int, count: int) -> float:
        """What it counts that a word stands in a text so many times instead of once."""
        once = BASE + self.slope * self.lengths[one]
        return count * once / (count - 1 + once)


def _at(places: Sequence[int], values: Sequence[int]) -> Sequence[int]:
    """The values at these places, of which there are some."""
    return itemgetter(*places)(values) if len(places) > 1 else (values[places[0]],)
