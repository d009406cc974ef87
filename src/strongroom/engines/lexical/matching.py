"""Finds the lines that may answer: a first look at every line that holds a word or has to do with the days meant.

The second look, at the best of these and their neighbours, is `weighing`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest

from strongroom.engines.lexical.index import NOBODY, LexicalIndex
from strongroom.engines.lexical.signals import MATCH, SESSION
from strongroom.engines.lexical.terms import Size, Term, Terms, WhenTerm

SHORTLIST = 100
"""Lines of one shelf that get the second look; their neighbours do too."""

_MANY = 2000
"""So many numbers take longer to sort than to look through for the largest."""

_K1, _B = 1.2, 0.75


class Matches:
    """What one index has for the terms, in shares of all that was looked for: a perfect match is about 1."""

    def __init__(self, index: LexicalIndex, place: int, terms: Terms) -> None:
        self.index = index
        self.mass = terms.mass
        self.match: dict[int, float] = {}
        """How well lines hold the words (BM25) and days; not yet a share."""
        self.held: dict[int, int] = {}
        """Which words lines hold, a bit for each."""
        self.session: dict[int, float] = {}
        """The same as `match` for whole sessions."""
        self.days: Mapping[int, float] = {}
        self.days_rarity = 0.0
        self.rarities = [term.rarity for term in terms.words]
        self.by_match = MATCH / self.mass
        self.by_session = SESSION / terms.session_mass
        self.covered = 0.0
        """What all that any line here holds is worth."""
        for bit, term in enumerate(terms.words):
            if term.places[place]:
                self.covered += term.rarity
                self._look_for_word(term, term.places[place], 1 << bit, terms.size)
        if terms.when is not None:
            self.covered += terms.when.rarity
            self._look_for_days(terms.when)

    def _look_for_word(self, term: Term, occurrences: Sequence[int], bit: int, size: Size) -> None:
        match, held, lengths, sessions = self.match, self.held, self.index.lengths, self.index.sessions
        top = term.rarity * (_K1 + 1)
        base, slope = _K1 * (1 - _B), _K1 * _B / size.line_length
        once = 1 + base
        counts: dict[int, int] = {}
        if term.common:
            occurrences = [packed for packed in occurrences if packed >> 8 in match]
        for packed in occurrences:
            number, count = packed >> 8, packed & 255
            far = slope * lengths[number]
            value = top / (once + far) if count == 1 else top * count / (count + base + far)
            if number in match:
                match[number] += value
                held[number] |= bit
            else:
                match[number] = value
                held[number] = bit
            session = sessions[number]
            counts[session] = counts[session] + count if session in counts else count
        self._add_sessions(term.session_rarity, counts, size)

    def _add_sessions(self, rarity: float, counts: dict[int, int], size: Size) -> None:
        lengths, session = self.index.session_lengths, self.session
        top = rarity * (_K1 + 1)
        base, slope = _K1 * (1 - _B), _K1 * _B / size.session_length
        once = 1 + base
        for number, count in counts.items():
            far = slope * lengths[number]
            value = top / (once + far) if count == 1 else top * count / (count + base + far)
            session[number] = session[number] + value if number in session else value

    def _look_for_days(self, term: WhenTerm) -> None:
        strengths = term.strengths(self.index, list(self.match))
        self.days, self.days_rarity = strengths, term.rarity
        strongest: dict[int, float] = {}
        for number, strength in strengths.items():
            self.match[number] = self.match.get(number, 0.0) + term.rarity * strength
            session = self.index.sessions[number]
            strongest[session] = max(strongest.get(session, 0.0), strength)
        for session, strength in strongest.items():
            self.session[session] = self.session.get(session, 0.0) + term.session_rarity * strength

    def shortlist(self) -> set[int]:
        """The best lines by match and session, with all that are as good as the last, and their neighbours."""
        session, sessions = self.session, self.index.sessions
        by_match, by_session = self.by_match, self.by_session
        chosen = set(self.match)
        if len(chosen) > SHORTLIST:
            first = [by_match * value + by_session * session[sessions[one]] for one, value in self.match.items()]
            least = nlargest(SHORTLIST, first)[-1] if len(first) > _MANY else sorted(first)[-SHORTLIST]
            chosen = {number for number, value in zip(self.match, first, strict=True) if value >= least}
        if self.index.joined:
            before, after = self.index.previous, self.index.next
            chosen |= {before[number] for number in chosen} | {after[number] for number in chosen}
            chosen.discard(NOBODY)
        return chosen
