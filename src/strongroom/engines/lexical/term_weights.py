"""The weights of a question's terms (its words, and the days it means) by their rarity among the lines given.

All the days of a question count like one more word. If few lines have to do with these days, the days weigh more than
common words; if many lines do, rare words weigh more. No separate rule is needed for either case.
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
"""A line is still considered if its days are at most this many days before or after the days asked for."""

ENOUGH = 1000
"""Once this many lines contain the rarer words of a question, lines with only its commoner words are left out."""

SURELY = 200
"""If there are few lines, a twentieth of their number replaces `ENOUGH`, but never less than this number."""

THEN = 1000
"""Maximum number of lines that count only because they were written on the days asked for. The newest ones count."""

WRITTEN_THEN = 0.9
"""The weight of a line written on the days asked for, relative to a line that mentions these days."""

NEARLY = 0.3
"""The weight of a line that mentions a day next to the days asked for. The weight falls with the distance."""

MOST_WORDS = 100
"""Maximum number of words of a query that count. In a longer query, the commonest words are left out.

Real questions have fewer words, and each word costs a lookup.
"""

SHORTLIST = 100
"""How many of the best lines, over all indexes, are scored a second time, together with their neighbours."""

FEW = 30
"""With so many lines, a word that no line contains lowers confidence half as much as in a large memory.

A small memory does not know most words, so an unknown word tells little there.
"""

# BM25 gives a text `rarity * TOP * n / (n - 1 + BASE + SLOPE * length / average)` for a word that occurs `n` times.
_K1, _B = 1.2, 0.75
BASE = 1 + _K1 * (1 - _B)
SLOPE = _K1 * _B
TOP = _K1 + 1

_WEEK, _MONTHS = 7, 62


class Size(msgspec.Struct, frozen=True):
    """The number and the average length of the lines and sessions in the indexes given."""

    lines: int
    sessions: int
    replies: int
    """How many of the lines an assistant wrote."""
    line_length: float
    session_length: float

    @classmethod
    def of(cls, indexes: Sequence[LexicalIndex]) -> Size:
        lines = sessions = words = replies = 0
        for index in indexes:
            lines += index.line_count
            sessions += index.session_count
            words += index.word_count
            replies += index.reply_count
        return cls(lines, sessions, replies, max(words / max(lines, 1), 1.0), max(words / max(sessions, 1), 1.0))

    def limits(self, *, pruned: bool, cut: bool) -> tuple[int, int]:
        """Two limits on the words that are looked up, as (enough, most).

        Once `enough` lines contain the rarer words, all other words are common. A word in more than `most` lines is
        left out.
        """
        enough = min(max(self.lines // 20, SURELY), ENOUGH)
        most = max(enough, self.lines // 2) if cut else self.lines
        return enough if pruned else self.lines * MOST_WORDS, most


def rarity(total: int, holding: int) -> float:
    """The inverse document frequency of BM25: the weight of a word in `holding` of `total` lines (or sessions)."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


class Term(NamedTuple):
    """One word looked for, and its occurrences in each index.

    A `common` word only adds to the scores of lines that contain a rarer word. It finds no further lines, because
    enough lines contain a rarer word.
    """

    rarity: float
    places: list[Sequence[int]]
    common: bool


class WhenTerm(msgspec.Struct, frozen=True):
    """The days that a question means, weighed like one more word."""

    rarity: float
    session_rarity: float
    windows: tuple[Window, ...]

    def strengths(self, index: LexicalIndex, matched: Callable[[], Iterable[int]]) -> dict[int, float]:
        """How well each line fits the days asked for, by the days it mentions or the day on which it was written.

        If many lines were written on those days, only the newest of these lines count, and the ones that also match a
        word.
        """
        found: dict[int, float] = {}
        for window in self.windows:
            then = set(index.calendar.written(window.start, window.end, THEN))
            if len(then) >= THEN:  # otherwise `then` has all lines that were written on these days
                then.update([one for one in matched() if window.start <= index.line(one).time < window.end])
            _strengthen(found, then, window.weight * WRITTEN_THEN)
            for days, lines in index.calendar.spoken(window.near):
                _strengthen(found, lines, window.weight * _overlap(window.days, days))
        return found


def _strengthen(found: dict[int, float], lines: Iterable[int], strength: float) -> None:
    """Set the strength of lines, except for lines that have a higher strength already."""
    for number in lines:
        if found.get(number, 0.0) < strength:
            found[number] = strength


class Window(msgspec.Struct, frozen=True):
    """A range of days that a question means, and the moments at which the range begins and ends."""

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
        """The weight of these days: 1 for a week or less, lower for up to two months, and lowest for a longer time."""
        days = self.days.last - self.days.first + 1
        return 1.0 if days <= _WEEK else 0.75 if days <= _MONTHS else 0.25


class Terms(msgspec.Struct, frozen=True):
    """The words and days that a question looks for, with their weights."""

    words: list[Term]
    when: WhenTerm | None
    size: Size
    mass: float
    """The sum of the rarities of all words and of the days."""
    whole: float
    """The same sum with the words that no line contains, each as rare as a word can be."""
    is_pruned: bool
    """Whether lines that contain only common words are left out."""
    is_cut: bool
    """Whether words that most lines contain are left out."""

    @classmethod
    def of(
        cls,
        question: Question,
        indexes: Sequence[LexicalIndex],
        size: Size,
        limits: tuple[int, int],
        when: WhenTerm | None,
    ) -> Terms | None:
        """The terms of a question, or None if no line contains a term. `limits` is the result of `Size.limits`."""
        words, unknown, is_cut = word_terms(question, indexes, size, *limits)
        both: list[Term | WhenTerm] = [*words, *([when] if when else [])]
        if not both:
            return None
        mass = sum([term.rarity for term in both])
        whole = mass + unknown * rarity(size.lines, 0) * size.lines / (size.lines + FEW)
        return cls(words, when, size, mass, whole, bool(words) and words[-1].common, is_cut)

    def days_of(self, place: int, index: LexicalIndex) -> dict[int, float]:
        """How well each line of `index` fits the days looked for. `place` is the position of `index` in the list."""
        return self.when.strengths(index, lambda: _lines_with(self.words, place)) if self.when is not None else {}


def days_in(
    question: Question, indexes: Sequence[LexicalIndex], size: Size, limits: tuple[int, int], when: WhenTerm
) -> list[dict[int, float]]:
    """For each index, how well each line fits the days looked for.

    The words are looked up only if more lines were written on these days than count without a word.
    """
    words = cache(lambda: word_terms(question, indexes, size, *limits)[0])

    def matched(place: int) -> Iterator[int]:
        return _lines_with(words(), place)

    return [when.strengths(index, partial(matched, place)) for place, index in enumerate(indexes)]


def _lines_with(words: Iterable[Term], place: int) -> Iterator[int]:
    """The numbers of the lines in one index that contain a word which is not common."""
    return (packed >> TF_BITS for word in words if not word.common for packed in word.places[place])


def word_terms(
    question: Question, indexes: Sequence[LexicalIndex], size: Size, enough: int, most: int
) -> tuple[list[Term], int, bool]:
    """The question's words that occur in any line, rarest first.

    Also returns how many of its words occur in none, and whether very frequent words were left out.

    Once `enough` lines contain the words so far, all further words are marked as common. Words that occur in more than
    `most` lines are left out. If every word does, all words are kept.
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
    unknown = len(question.words) - len(counted)
    found: list[Term] = []
    seen = 0
    for lines, _, places in counted[:MOST_WORDS]:
        if lines > most:
            return found, unknown, True
        found.append(Term(rarity(size.lines, lines), places, seen >= enough))
        seen += lines
    return found, unknown, False


def when_term(question: Question, indexes: Sequence[LexicalIndex], size: Size) -> WhenTerm | None:
    """The days that the question means, as a term. None if no line mentions these days or was written on them."""
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
    """How well the days that a line mentions fit the days asked for, as a number from 0 to 1.

    The value is 1 if all of the line's days are among the days asked for, and lowest if its days are only near them.
    """
    shared = min(window.last, days.last) - max(window.first, days.first) + 1
    if shared <= 0:
        return NEARLY / (1 - shared)
    # The cube root, because a trip of five days still fits one of these days well, but "in summer" fits a day badly.
    return math.cbrt(shared / (days.last - days.first + 1))
