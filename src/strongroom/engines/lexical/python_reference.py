"""The ranking in plain Python, which explains `_kernel.c` and replaces it if that file could not be compiled.

The Python code and the C code take the same steps and add in the same order, so their scores differ by rounding at
most. A property test compares the scores. The Python code is written to be read, not to be fast.

The first pass scores every line that contains a word of the question or has to do with its days. The second pass adds
up all signals for the best lines of the first pass and for their neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from strongroom.engines.lexical import term_weights
from strongroom.engines.lexical.codec import TF_BITS
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import ASKS, TF_LIMIT
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.session_order import NOBODY
from strongroom.engines.lexical.signals import Weighing
from strongroom.engines.lexical.term_weights import BASE, SLOPE, TOP, Term, Terms, rarity

_LOW = (1 << 64) - 1
_Entry = tuple[int, int, float, int, int, int]


def rank(
    question: Question,
    weighing: Weighing,
    terms: Terms,
    indexes: Sequence[LexicalIndex],
    without: Sequence[Collection[int]],
) -> tuple[list[_Entry], bool, bool, float, float]:
    """The best lines of all these indexes, in the form that the kernel returns.

    `without` has the numbers of the excluded lines, for each index.
    """
    shelves = weighed(terms, weighing, indexes)
    first = [
        (value, one in out) for shelf, out in zip(shelves, without, strict=True) for one, value in shelf.first.items()
    ]
    whole_least = _least([value for value, _ in first])
    least = _least([value for value, is_out in first if not is_out])
    entries: list[_Entry] = []
    cover = context = 0.0
    of_marks = weighing.of_marks(question)
    for place, (shelf, out) in enumerate(zip(shelves, without, strict=True)):
        for number in shelf.shortlist(least):
            if number in shelf.first and shelf.first[number] >= whole_least:
                cover = max(cover, shelf.cover_of(number))
                context = max(context, shelf.context_of(number))
            score = sum(shelf.shares(number).values()) + of_marks[shelf.index.marks[number]]
            held = shelf.held(number)
            entries.append((place, number, score, int(number in out), held & _LOW, held >> 64))
    return entries, terms.is_pruned, terms.is_cut, cover / terms.whole, context / terms.whole


def weighed(terms: Terms, weighing: Weighing, indexes: Sequence[LexicalIndex]) -> list[Shelf]:
    """The indexes with the scores of the first pass, for each line that was found."""
    shelves = [Shelf(index, terms, weighing, place) for place, index in enumerate(indexes)]
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
    return shelves


def _least(values: list[float]) -> float:
    """The least score on the shortlist."""
    return sorted(values, reverse=True)[term_weights.SHORTLIST - 1] if len(values) > term_weights.SHORTLIST else 0.0


class Shelf:
    """The sums of scores for the lines and sessions of one index.

    BM25 gives a text `top * n / (n - 1 + once)` for a word that occurs `n` times in it. `once` depends on the length of
    the text. Mostly `n` is 1, so the tops of all words are added up first and divided by `once` at the end.
    """

    def __init__(self, index: LexicalIndex, terms: Terms, weighing: Weighing, place: int) -> None:
        self.index = index
        self.first: dict[int, float] = {}
        """The score of the first pass for each line that was found: how it matches, and its session."""
        self._weights = weighing.weights
        self._terms = terms
        self._place = place
        self._tops: dict[int, float] = {}
        self._held: dict[int, int] = {}
        """The words of the question that each line contains, one bit for each word."""
        self._session_tops: dict[int, float] = {}
        self._session_worth: dict[int, float] = {}
        self._session_best: dict[int, float] = {}
        """The greatest match of a line in each session."""
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
        """Compute the scores of the first pass, after all words were added."""
        sessions, strongest = self.index.sessions, dict[int, float]()
        for number, strength in self._days.items():
            strongest[sessions[number]] = max(strongest.get(sessions[number], 0.0), strength)
        of_days = self._terms.when.session_rarity if self._terms.when is not None else 0.0
        for session in self._session_tops.keys() | strongest.keys():
            share = self._session_tops.get(session, 0.0) / self._session_once(session)
            share += of_days * strongest.get(session, 0.0)
            self._session_worth[session] = self._weights.session / session_mass * share
        by_first = (self._weights.match + self._weights.cover) / self._terms.mass
        for number in self._tops.keys() | self._days.keys():
            match, session = self._match_of(number), sessions[number]
            self._session_best[session] = max(self._session_best.get(session, 0.0), match)
            self.first[number] = by_first * match + self._session_worth.get(session, 0.0)

    def shortlist(self, least: float) -> set[int]:
        """The lines with a score of at least `least` in the first pass, and their neighbours."""
        chosen = {number for number, value in self.first.items() if value >= least}
        near = {column[number] for number in chosen for column in (self.index.previous, self.index.next)}
        return chosen | near - {NOBODY}

    def shares(self, number: int) -> Mapping[str, float]:
        """The weighted signals of a line that come from the terms of the question and from its neighbours, by name."""
        index, mass, weights = self.index, self._terms.mass, self._weights
        session, before = index.sessions[number], index.previous[number]
        is_question_before = before != NOBODY and index.marks[before] & ASKS != 0
        return {
            "match": weights.match / mass * self._match_of(number),
            "cover": weights.cover / mass * self.cover_of(number),
            "session": self._session_worth.get(session, 0.0),
            "best_of_session": weights.best_of_session / mass * self._session_best.get(session, 0.0),
            "context": weights.context / mass * self.context_of(number),
            "date": weights.date * self._days.get(number, 0.0),
            "question_before": weights.question_before / mass * self._match_of(before) if is_question_before else 0.0,
        }

    def held(self, number: int) -> int:
        """The words of the question that a line contains, one bit for each word."""
        return self._held.get(number, 0)

    def _match_of(self, number: int) -> float:
        share = self._tops.get(number, 0.0) / self._once(number)
        return share + self._days_rarity * self._days.get(number, 0.0)

    def cover_of(self, number: int) -> float:
        """The sum of the rarities of all words and days of the question that occur in a line."""
        return self._sum_of((number,))

    def context_of(self, number: int) -> float:
        """The sum of the rarities of all words and days of the question that occur in a line or in its neighbours."""
        return self._sum_of((number, self.index.previous[number], self.index.next[number]))

    def _sum_of(self, numbers: Collection[int]) -> float:
        held = 0
        for one in numbers:
            held |= self._held.get(one, 0)
        words = sum([term.rarity for bit, term in enumerate(self._terms.words) if held >> bit & 1])
        return words + self._days_rarity * max([self._days.get(one, 0.0) for one in numbers])

    def _once(self, number: int) -> float:
        return BASE + self._slope * self.index.lengths[number]

    def _session_once(self, session: int) -> float:
        return BASE + self._session_slope * self.index.session_lengths[session]


def _times(once: float, count: int) -> float:
    """The factor by which BM25 weighs a word that occurs `count` times in a text, relative to one occurrence."""
    return count * once / (count - 1 + once)
