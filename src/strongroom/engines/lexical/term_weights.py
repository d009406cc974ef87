"""The weights of a question's terms: each word, and the days it means, by their rarity among the lines given.

The days count as one more word that a line holds or not. So a question of common words and rare days is decided by the
days, and the reverse, without a rule for either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import msgspec

from strongroom.engines.dates.day_arithmetic import start_of
from strongroom.engines.lexical.codec import TF_BITS
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import Days
from strongroom.engines.lexical.query import Question
from strongroom.model import Millis

NEAR = 3
"""Days by which a line may miss the days asked for and still be considered."""

ENOUGH = 1000
"""Once so many lines hold the rarer words, lines that hold only commoner ones are left out."""

SURELY = 200
"""On small shelves a twentieth of the lines is enough, but at least this many."""

THEN = 1000
"""Of the lines written on the days asked for, so many of the newest count even without any of the words."""

WRITTEN_THEN = 0.9
"""The weight of a line written on the days asked for, relative to one that mentions them."""

NEARLY = 0.3
"""The weight of a line that mentions a day just outside; it falls with the distance."""

MOST_WORDS = 100
"""In a longer query only the rarest words count: real questions are shorter, and each word costs a lookup."""

SHORTLIST = 100
"""How many of the best lines, over all shelves, are scored a second time, together with their neighbours."""

# BM25 gives a text `rarity * TOP * n / (n - 1 + BASE + SLOPE * length / average)` for a word it holds `n` times.
_K1, _B = 1.2, 0.75
BASE = 1 + _K1 * (1 - _B)
SLOPE = _K1 * _B
TOP = _K1 + 1

_WEEK, _MONTHS = 7, 62


class Size(msgspec.Struct, frozen=True):
    """The size of the indexes given; every statistic is relative to this."""

    lines: int
    sessions: int
    line_length: float
    session_length: float

    @classmethod
    def of(cls, indexes: Sequence[LexicalIndex]) -> Size:
        lines = sessions = words = 0
        for index in indexes:
            lines += index.line_count
            sessions += index.session_count
            words += index.word_count
        return cls(lines, sessions, max(words / max(lines, 1), 1.0), max(words / max(sessions, 1), 1.0))

    def limits(self, *, pruned: bool, cut: bool) -> tuple[int, int]:
        """How many lines make later words common, and how many lines may hold a word at most."""
        enough = min(max(self.lines // 20, SURELY), ENOUGH)
        most = max(enough, self.lines // 2) if cut else self.lines
        return enough if pruned else self.lines * MOST_WORDS, most


def rarity(total: int, holding: int) -> float:
    """Inverse document frequency, as in BM25: how much a word in a line (or session) says about the subject."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


class Term(NamedTuple):
    """One word looked for, and its occurrences in each index.

    A `common` word finds no lines of its own, because enough hold a rarer one. It only adds to lines found by others.
    """

    rarity: float
    places: list[Sequence[int]]
    common: bool


class WhenTerm(msgspec.Struct, frozen=True):
    """The days looked for, as a term."""

    rarity: float
    session_rarity: float
    windows: tuple[Window, ...]

    def strengths(self, index: LexicalIndex, matched: Callable[[], Iterable[int]]) -> dict[int, float]:
        """How well each line fits the days asked for, by the days it mentions or the day on which it was written.

        If many lines were written in that time, only the newest count, and those that also match a word.
        """
        found: dict[int, float] = {}
        for window in self.windows:
            then = set(index.calendar.written(window.start, window.end, THEN))
            if len(then) >= THEN:  # otherwise these are all that were written then
                then.update([one for one in matched() if window.start <= index.line(one).time < window.end])
            _strengthen(found, then, window.weight * WRITTEN_THEN)
            for days, lines in index.calendar.spoken(window.near):
                _strengthen(found, lines, window.weight * _overlap(window.days, days))
        return found


def _strengthen(found: dict[int, float], lines: Iterable[int], strength: float) -> None:
    """Raise lines to a strength; stronger ones stay."""
    for number in lines:
        if found.get(number, 0.0) < strength:
            found[number] = strength


class Window(msgspec.Struct, frozen=True):
    """Days that a question means: as days, and as the moments between which a line was written on them."""

    days: Days
    start: Millis
    end: Millis

    @classmethod
    def of(cls, days: Days, offset: int) -> Window:
        return cls(days, start_of(days.first, offset), start_of(days.last + 1, offset))

    @property
    def near(self) -> Days:
        return Days(self.days.first - NEAR, self.days.last + NEAR)

    @property
    def weight(self) -> float:
        """The weight of a window: full for a week or less, lower for a month or two, lowest for longer."""
        days = self.days.last - self.days.first + 1
        return 1.0 if days <= _WEEK else 0.75 if days <= _MONTHS else 0.25


class Terms(msgspec.Struct, frozen=True):
    """Everything that a question looks for."""

    words: list[Term]
    when: WhenTerm | None
    size: Size
    mass: float
    """The sum of all rarities."""
    is_pruned: bool
    """Whether lines that hold only common words are left out."""
    is_cut: bool
    """Whether words that most lines hold are left out."""

    @classmethod
    def of(
        cls,
        question: Question,
        indexes: Sequence[LexicalIndex],
        size: Size,
        limits: tuple[int, int],
        when: WhenTerm | None,
    ) -> Terms | None:
        """The terms of a question; None if no line can answer it. `limits` are those of `Size.limits`."""
        words, is_cut = word_terms(question, indexes, size, *limits)
        both: list[Term | WhenTerm] = [*words, *([when] if when else [])]
        if not both:
            return None
        mass = sum([term.rarity for term in both])
        return cls(words, when, size, mass, bool(words) and words[-1].common, is_cut)

    def days_of(self, place: int, index: LexicalIndex) -> dict[int, float]:
        """The strength of the days looked for in each line of the index at this place."""
        return self.when.strengths(index, lambda: _lines_with(self.words, place)) if self.when is not None else {}


def days_in(
    question: Question, indexes: Sequence[LexicalIndex], size: Size, limits: tuple[int, int], when: WhenTerm
) -> list[dict[int, float]]:
    """The strength of the days looked for in each line, for each index.

    The words are looked up only where so many lines were written on the days that not all of them count.
    """
    words = cache(lambda: word_terms(question, indexes, size, *limits)[0])

    def matched(place: int) -> Iterator[int]:
        return _lines_with(words(), place)

    return [when.strengths(index, partial(matched, place)) for place, index in enumerate(indexes)]


def _lines_with(words: Iterable[Term], place: int) -> Iterator[int]:
    """The lines of one index that a word found."""
    return (packed >> TF_BITS for word in words if not word.common for packed in word.places[place])


def word_terms(
    question: Question, indexes: Sequence[LexicalIndex], size: Size, enough: int, most: int
) -> tuple[list[Term], bool]:
    """The question's words that any line holds, rarest first, and whether some that most lines hold were left out.

    Words after `enough` lines are common. A word that more than `most` hold is left out, except if all words are.
    """
    counted: list[tuple[int, str, list[Sequence[int]]]] = []
    tables = [index.postings for index in indexes]
    for word in question.words:
        held = [table.get(word, ()) for table in tables]
        places: list[Sequence[int]] = [(one,) if isinstance(one, int) else one for one in held]
        if lines := sum(map(len, places)):
            counted.append((lines, word, places))
    counted.sort()
    if counted and counted[0][0] > most:
        most = size.lines
    found: list[Term] = []
    seen = 0
    for lines, _, places in counted[:MOST_WORDS]:
        if lines > most:
            return found, True
        found.append(Term(rarity(size.lines, lines), places, seen >= enough))
        seen += lines
    return found, False


def when_term(question: Question, indexes: Sequence[LexicalIndex], size: Size) -> WhenTerm | None:
    """The days that the question means as a term, or None if no line has to do with them."""
    if not question.windows:
        return None
    windows = tuple(Window.of(days, question.offset) for days in question.windows)
    lines = sum(
        index.calendar.count(window.start, window.end)
        + sum([len(lines) for _, lines in index.calendar.spoken(window.near)])
        for window in windows
        for index in indexes
    )
    if not lines:
        return None
    return WhenTerm(
        rarity(size.lines, min(lines, size.lines)), rarity(size.sessions, min(lines, size.sessions)), windows
    )


def _overlap(window: Days, days: Days) -> float:
    """How well the days that a line mentions answer those asked for: best if all inside, worst for a near miss."""
    shared = min(window.last, days.last) - max(window.first, days.first) + 1
    if shared <= 0:
        return NEARLY / (1 - shared)
    # The cube root: a trip of five days still answers well for one of them, "in summer" badly.
    return math.cbrt(shared / (days.last - days.first + 1))
