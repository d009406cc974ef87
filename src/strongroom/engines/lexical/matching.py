"""Finds the lines that may answer and scores them: a first look at every line that holds a word, a second at the
best of these and their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest

from strongroom.engines import Ranked
from strongroom.engines.lexical.index import NOBODY, LexicalIndex
from strongroom.engines.lexical.question import Question
from strongroom.engines.lexical.reading import ASKS
from strongroom.engines.lexical.signals import CONTEXT, DATE, MATCH, QUESTION_BEFORE, SESSION, of_line, of_marks
from strongroom.engines.lexical.terms import Size, Term, WhenTerm, when_term, word_terms

SHORTLIST = 100
"""Lines of one shelf that get the second look; their neighbours do too."""

_MANY = 2000
"""So many numbers take longer to sort than to look through for the largest."""

_K1, _B = 1.2, 0.75


def scored(question: Question, indexes: Sequence[LexicalIndex]) -> list[Ranked]:
    """The lines of these indexes that may answer. None if nothing in them has to do with the question."""
    size = Size.of(indexes)
    words = word_terms(question, indexes, size)
    when = when_term(question, indexes, size)
    both: list[Term | WhenTerm] = [*words, *([when] if when else [])]
    found: list[Ranked] = []
    if not both:
        return found
    mass = sum([term.rarity for term in both])
    session_mass = sum([term.session_rarity for term in both])
    for place, index in enumerate(indexes):
        matches = _Matches(index, size, mass, session_mass)
        for term in words:
            matches.look_for_word(term, term.places[place])
        if when is not None:
            matches.look_for_days(when)
        found += matches.best(question)
    return found


class _Matches:
    """What one index has for the terms. `mass` is all that was looked for, so that a perfect match is about 1."""

    def __init__(self, index: LexicalIndex, size: Size, mass: float, session_mass: float) -> None:
        self._index = index
        self._size = size
        self._mass = mass
        self._session_mass = session_mass
        self._match: dict[int, float] = {}
        self._held: dict[int, int] = {}
        self._session: dict[int, float] = {}
        self._days: Mapping[int, float] = {}
        self._days_rarity = 0.0
        self._rarities: list[float] = []

    def look_for_word(self, term: Term, occurrences: Sequence[int]) -> None:
        match, held, lengths, sessions = self._match, self._held, self._index.lengths, self._index.sessions
        bit = 1 << len(self._rarities)
        self._rarities.append(term.rarity)
        top = term.rarity * (_K1 + 1)
        base, slope = _K1 * (1 - _B), _K1 * _B / self._size.line_length
        counts: dict[int, int] = {}
        if term.common:
            occurrences = [packed for packed in occurrences if packed >> 8 in match]
        for packed in occurrences:
            number, count = packed >> 8, packed & 255
            match[number] = match.get(number, 0.0) + top * count / (count + base + slope * lengths[number])
            held[number] = held.get(number, 0) | bit
            session = sessions[number]
            counts[session] = counts.get(session, 0) + count
        self._add_sessions(term.session_rarity, counts)

    def _add_sessions(self, rarity: float, counts: dict[int, int]) -> None:
        lengths, session = self._index.session_lengths, self._session
        top = rarity * (_K1 + 1)
        base, slope = _K1 * (1 - _B), _K1 * _B / self._size.session_length
        for number, count in counts.items():
            session[number] = session.get(number, 0.0) + top * count / (count + base + slope * lengths[number])

    def look_for_days(self, term: WhenTerm) -> None:
        strengths = term.strengths(self._index, list(self._match))
        self._days, self._days_rarity = strengths, term.rarity
        strongest: dict[int, float] = {}
        for number, strength in strengths.items():
            self._match[number] = self._match.get(number, 0.0) + term.rarity * strength
            session = self._index.sessions[number]
            strongest[session] = max(strongest.get(session, 0.0), strength)
        for session, strength in strongest.items():
            self._session[session] = self._session.get(session, 0.0) + term.session_rarity * strength

    def best(self, question: Question) -> list[Ranked]:
        """The second look: all signals, for the shortlist and its neighbours."""
        index, match, held, days, session = self._index, self._match, self._held, self._days, self._session
        by_match, by_session = MATCH / self._mass, SESSION / self._session_mass
        by_context, by_before = CONTEXT / self._mass, QUESTION_BEFORE / self._mass
        by_words: dict[int, float] = {}
        by_marks: dict[int, float] = {}
        lines, joined, before, after = index.lines, index.joined, NOBODY, NOBODY
        found: list[Ranked] = []
        for number in self._shortlist(by_match, by_session):
            line, marks, words = lines[number], index.marks[number], held.get(number, 0)
            if line is None:
                raise index.gone()
            if joined:
                before, after = index.previous[number], index.next[number]
                words |= held.get(before, 0) | held.get(after, 0)
            if words not in by_words:
                by_words[words] = self._rarity_of(words)
            covered = by_words[words]
            if days:
                covered += self._days_rarity * max([days.get(one, 0.0) for one in (number, before, after)])
            score = by_match * match.get(number, 0.0) + by_context * covered
            score += by_session * session.get(index.sessions[number], 0.0)
            if days:
                score += DATE * days.get(number, 0.0)
            if before != NOBODY and index.marks[before] & ASKS:
                score += by_before * match.get(before, 0.0)
            if marks not in by_marks:
                by_marks[marks] = of_marks(marks, question)
            found.append(Ranked(line, score + by_marks[marks] + of_line(line, index.lengths[number], question)))
        return found

    def _shortlist(self, by_match: float, by_session: float) -> set[int]:
        """The best lines by match and session, with all that are as good as the last, and their neighbours."""
        session, sessions = self._session, self._index.sessions
        chosen = set(self._match)
        if len(chosen) > SHORTLIST:
            first = [by_match * value + by_session * session[sessions[one]] for one, value in self._match.items()]
            least = nlargest(SHORTLIST, first)[-1] if len(first) > _MANY else sorted(first)[-SHORTLIST]
            chosen = {number for number, value in zip(self._match, first, strict=True) if value >= least}
        if self._index.joined:
            before, after = self._index.previous, self._index.next
            chosen |= {before[number] for number in chosen} | {after[number] for number in chosen}
            chosen.discard(NOBODY)
        return chosen

    def _rarity_of(self, held: int) -> float:
        """What the words are worth that a line and its neighbours hold between them."""
        return sum([rarity for bit, rarity in enumerate(self._rarities) if held >> bit & 1])
