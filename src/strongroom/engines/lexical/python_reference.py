"""The ranking in plain Python, which explains `_kernel.c` and replaces it if that file could not be compiled.

The Python code and the C code take the same steps and add in the same order, so their scores differ by rounding at
most. A property test compares the scores. The Python code is written to be read, not to be fast.

The first pass scores every line that contains a word of the question or has to do with its days. The second pass adds
up all signals for the best lines of the first pass and for their neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from strongroom.engines import Ranked
from strongroom.engines.lexical import term_weights
from strongroom.engines.lexical.codec import TF_BITS
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import ASKS, TF_LIMIT
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.session_order import NOBODY
from strongroom.engines.lexical.signals import CONTEXT, DATE, MATCH, QUESTION_BEFORE, SESSION, of_line, of_marks
from strongroom.engines.lexical.term_weights import BASE, SLOPE, TOP, Term, Terms, rarity


def rank(
    question: Question, terms: Terms, indexes: Sequence[LexicalIndex], without: Sequence[Collection[int]]
) -> list[Ranked]:
    """The best lines of all these indexes, with scores.

    `without` has the numbers of the excluded lines, for each index.
    """
    shelves = [_Shelf(index, terms, place) for place, index in enumerate(indexes)]
    session_mass = 0.0
    for bit, term in enumerate(terms.words):
        counts = [shelf.add_word(term, bit) for shelf in shelves]
        if term.common:
            continue  # nearly every session holds it, so it tells nothing
        session_rarity = rarity(terms.size.sessions, sum(map(len, counts)))
        session_mass += session_rarity
        for shelf, of_sessions in zip(shelves, counts, strict=True):
            shelf.add_to_sessions(session_rarity, of_sessions)
    session_mass += terms.when.session_rarity if terms.when is not None else 0.0
    for shelf in shelves:
        shelf.look_first(session_mass)
    both = list(zip(shelves, without, strict=True))
    first = sorted([value for shelf, out in both for one, value in shelf.first.items() if one not in out], reverse=True)
    least = first[term_weights.SHORTLIST - 1] if len(first) > term_weights.SHORTLIST else 0.0
    return [shelf.ranked(one, question) for shelf, out in both for one in shelf.shortlist(least) if one not in out]


class _Shelf:
    """The sums of scores for the lines and sessions of one index.

    BM25 gives a text `top * n / (n - 1 + once)` for a word that occurs `n` times in it. `once` depends on the length of
    the text. Mostly `n` is 1, so the tops of all words are added up first and divided by `once` at the end.
    """

    def __init__(self, index: LexicalIndex, terms: Terms, place: int) -> None:
        self.index = index
        self.first: dict[int, float] = {}
        """The score of the first pass for each line that was found: the signals MATCH and SESSION."""
        self._terms = terms
        self._place = place
        self._tops: dict[int, float] = {}
        self._held: dict[int, int] = {}
        """The words of the question that each line contains, one bit for each word."""
        self._session_tops: dict[int, float] = {}
        self._session_worth: dict[int, float] = {}
        self._days = terms.days_of(place, index)
        self._days_rarity = terms.when.rarity if terms.when is not None else 0.0
        self._slope = SLOPE / terms.size.line_length
        self._session_slope = SLOPE / terms.size.session_length

    def add_word(self, term: Term, bit: int) -> Counter[int]:
        """Score the lines that contain a word, and return how often the word occurs in each session.

        For a common word, only lines that a rarer word has found already are scored and counted.
        """
        sessions = Counter[int]()
        top = term.rarity * TOP
        for packed in term.places[self._place]:
            number, count = packed >> TF_BITS, packed & TF_LIMIT
            if term.common and number not in self._tops:
                continue
            self._tops[number] = self._tops.get(number, 0.0) + top
            if count > 1:
                self._tops[number] += top * (_times(self._once(number), count) - 1)
            self._held[number] = self._held.get(number, 0) | 1 << bit
            sessions[self.index.sessions[number]] += count
        return sessions

    def add_to_sessions(self, session_rarity: float, counts: Counter[int]) -> None:
        """Score the sessions that contain a word. `counts` says how often the word occurs in each session."""
        for session, count in counts.items():
            worth = session_rarity * TOP * _times(self._session_once(session), count)
            self._session_tops[session] = self._session_tops.get(session, 0.0) + worth

    def look_first(self, session_mass: float) -> None:
        """Compute the scores of the first pass (MATCH and SESSION), after all words were added."""
        sessions, strongest = self.index.sessions, dict[int, float]()
        for number, strength in self._days.items():
            strongest[sessions[number]] = max(strongest.get(sessions[number], 0.0), strength)
        of_days = self._terms.when.session_rarity if self._terms.when is not None else 0.0
        for session in self._session_tops.keys() | strongest.keys():
            share = self._session_tops.get(session, 0.0) / self._session_once(session)
            share += of_days * strongest.get(session, 0.0)
            self._session_worth[session] = SESSION / session_mass * share
        self.first = {number: self._first_of(number) for number in self._tops.keys() | self._days.keys()}

    def shortlist(self, least: float) -> set[int]:
        """The lines with a score of at least `least` in the first pass, and their neighbours."""
        chosen = {number for number, value in self.first.items() if value >= least}
        near = {column[number] for number in chosen for column in (self.index.previous, self.index.next)}
        return chosen | near - {NOBODY}

    def ranked(self, number: int, question: Question) -> Ranked:
        """A line with its score: the sum of all signals."""
        index, mass = self.index, self._terms.mass
        before = index.previous[number]
        score = self._first_of(number) + CONTEXT / mass * self._context_of(number)
        score += DATE * self._days.get(number, 0.0)
        if before != NOBODY and index.marks[before] & ASKS:
            score += QUESTION_BEFORE / mass * self._match_of(before)
        score += of_marks(question)[index.marks[number]]
        line = index.line(number)
        return Ranked(line, score + of_line(line, index.lengths[number], question))

    def _first_of(self, number: int) -> float:
        worth = self._session_worth.get(self.index.sessions[number], 0.0)
        return MATCH / self._terms.mass * self._match_of(number) + worth

    def _match_of(self, number: int) -> float:
        share = self._tops.get(number, 0.0) / self._once(number)
        return share + self._days_rarity * self._days.get(number, 0.0)

    def _context_of(self, number: int) -> float:
        """The sum of the rarities of all words and days that occur in a line or in its neighbours."""
        around = (number, self.index.previous[number], self.index.next[number])
        held = 0
        for one in around:
            held |= self._held.get(one, 0)
        words = sum([term.rarity for bit, term in enumerate(self._terms.words) if held >> bit & 1])
        return words + self._days_rarity * max([self._days.get(one, 0.0) for one in around])

    def _once(self, number: int) -> float:
        return BASE + self._slope * self.index.lengths[number]

    def _session_once(self, session: int) -> float:
        return BASE + self._session_slope * self.index.session_lengths[session]


def _times(once: float, count: int) -> float:
    """The factor by which BM25 weighs a word that occurs `count` times in a text, relative to one occurrence."""
    return count * once / (count - 1 + once)
