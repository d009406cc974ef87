"""Chooses the day that a mention of time such as "May 25" means, if several years or months are possible.

The choice depends on the day of the text, on whether the text is a question or a line, and on the tense near the
mention:

- Past or future words near the mention decide between a past and a coming day.
- The tense of a line is easily misread ("we rented it from May 25"). If the chosen day is more than half a year away,
  the nearest day in the other direction is returned too. If that day is within 92 days, it is returned alone.
- The tense of a question is trusted, except for the present: "what is on April 24?", asked in May, means the coming
  April 24 and the one just past.
- A line without tense means the first possible day that is not more than 92 days in the past.
- A question without tense means the nearest day. If that day is more than 92 days away, the question means both the
  nearest past day and the nearest coming day.
- A birthday or another yearly day in a line means five days: in the year before, in this year, and in the next three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date

from strongroom.engines.dates.day_arithmetic import Days, days

PAST, OPEN, FUTURE = -1, 0, 1
BACK = 92
"""How many days ago a day without a year may be in a line. For a day longer ago, next year's is meant."""
HALF_YEAR = 183

_BEFORE, _AFTER = 60, 40  # Characters around a mention in which the tense is sought.

_PAST_WORDS = (
    "did was were had went been ago happened met saw came got took bought ate told said made left flew drove spent "
    "gave sent wrote found lost won ran began slept felt caught paid sold heard broke fell"
)
_FUTURE_WORDS = (
    "will going gonna shall plan plans planning planned tomorrow upcoming next scheduled booked due deadline "
    "appointment reserved must should remind reminder arrive arrives leave leaves fly flies starts begins expire "
    "expires need needs might want hope hoping ll"
)
_NOT_PAST_WORDS = "need speed seed breed indeed hundred sched book plann resch reserv expect suppos invit postpon"
_PAST, _FUTURE = frozenset(_PAST_WORDS.split()), frozenset(_FUTURE_WORDS.split())
_NOT_PAST = tuple(_NOT_PAST_WORDS.split())
"""Beginnings of words that end in -ed but are no past tense, or that speak of the future, such as "scheduled"."""
_OTHER_PAST = re.compile(r"了|过|過|ました|でした|だった|した[。、]|했|었|았")
_OTHER_FUTURE = re.compile(r"要|将|打算|计划|計劃|准备|予定|つもり|예정|할")
_WORDS = re.compile(r"[a-z]+")
_BREAK = re.compile(r"[.,;:!?()\n。、，！？]")
_ASKED_PAST = re.compile(
    r"\b(?:did|was|were|had|went|happened|been|ago|(?:have|has)\s(?:i|we|you|he|she|they|[a-z]{2,12}ed)"
    r"|met|saw|came|got|took|bought|ate|told|said|made|left|flew|spent)\b|了|过|過|ました|でした|だった|했|었|았",
    re.ASCII,
)
_ASKED_FUTURE = re.compile(
    r"\b(?:will|going|gonna|shall|am|are|is|plan|plans|planned|due|should|must|can|upcoming|next|do\si|do\swe|have\sto"
    r"|need|remind|scheduled|booked|free|busy)\b|'ll\b|'m\b|'s\b|'re\b"
    r"|要|将|会|會|打算|计划|計劃|准备|予定|つもり|ますか|예정|할",
    re.ASCII,
)
_LEAD = re.compile(r"\b(?:(?P<past>since)|by|until|till|for|due)\s(?:on\s|the\s)?$")
_LED = re.compile(r"(?:(?P<past>since)|by|until|till)\s")
_YEARLY = ("birthday", "anniversary", "every year", "each year", "生日", "誕生日", "記念日", "纪念日", "생일", "기념일")


class Moment:
    """A text, and the day on which it was written or asked."""

    __slots__ = ("asked", "low", "month", "text", "today", "year")

    def __init__(self, text: str, low: str, today: date, asked: bool) -> None:
        self.text = text
        self.low = low
        self.today = today.toordinal()
        self.year, self.month = today.year, today.month
        self.asked = asked

    def tense(self, match: re.Match[str]) -> int:
        """The tense near a mention: PAST, FUTURE, or OPEN if the words around the mention show no tense.

        The word directly before the mention is tried first, then the words of its clause, then words further away.
        """
        if lead := self._lead(match):
            return PAST if lead["past"] else FUTURE
        before, after = self._around(match)
        if self.asked:
            # Past words win: "is" often stands beside "did".
            words = f"{before} {after}"
            return PAST if _ASKED_PAST.search(words) else FUTURE if _ASKED_FUTURE.search(words) else OPEN
        return self.clause_tense(match) or _told(f"{before} {after}")

    def clause_tense(self, match: re.Match[str]) -> int:
        """The tense of a line's words up to the next punctuation on either side."""
        before, after = self._around(match)
        return _told(f"{_BREAK.split(before)[-1]} {_BREAK.split(after, maxsplit=1)[0]}")

    def yearly(self, match: re.Match[str]) -> bool:
        before, after = self._around(match)
        return not self.asked and any(word in before or word in after for word in _YEARLY)

    def pick(self, options: Iterable[Days], match: re.Match[str]) -> list[Days]:
        """The days that a mention means, chosen from its possible days. `options` are these days, oldest first."""
        found, tense = list(options), self.tense(match)
        before = [at for at in found if at[0] <= self.today][-1:]
        after = [at for at in found if at[1] >= self.today][:1]
        if tense == OPEN:
            return self._open(found, before, after)
        chosen, other = (before, after) if tense == PAST else (after, before)
        if self.asked and tense == FUTURE and self._just_missed(chosen, other):
            return sorted({*chosen, *other})
        if chosen and (self.asked or self._lead(match) or self.away(chosen[0]) <= HALF_YEAR):
            return chosen
        near = other and self.away(other[0]) <= BACK
        return other if near else sorted({*chosen, *other})

    def _just_missed(self, chosen: list[Days], other: list[Days]) -> bool:
        """Whether a question may mean the day just past: "what is on April 24?", asked in May."""
        far = not chosen or self.away(chosen[0]) > HALF_YEAR
        return far and bool(other) and self.away(other[0]) <= BACK

    def pick_near(self, options: Iterable[Days], match: re.Match[str]) -> list[Days]:
        """The days meant by a day of an unnamed month, such as "the 5th".

        In a line without tense, these are the coming such day, and also one in the last ten days.
        """
        # Only the tense of the mention's own clause counts: other clauses say little about a day so near.
        if not self.asked and self.clause_tense(match) == OPEN:
            return [at for at in options if self.today - 10 <= at[1] <= self.today + 31][:2]
        return self.pick(options, match)

    def _lead(self, match: re.Match[str]) -> re.Match[str] | None:
        start = match.start()
        return _LEAD.search(self.low, max(0, start - 10), start) or _LED.match(self.low, start)

    def _around(self, match: re.Match[str]) -> tuple[str, str]:
        start, end = match.span()
        return self.low[max(0, start - _BEFORE) : start], self.low[end : end + _AFTER]

    def _open(self, found: list[Days], before: list[Days], after: list[Days]) -> list[Days]:
        if not self.asked:
            return [at for at in found if at[1] >= self.today - BACK][:1] or found[-1:]
        either = sorted({*before, *after}, key=self.away)
        return sorted(either) if either and self.away(either[0]) > BACK else either[:1]

    def each_year(self, option: Callable[[int], list[Days]], match: re.Match[str]) -> list[Days]:
        """The days meant by a mention without a year. `option` gives the possible days for each year.

        If the neighbouring years have no such day, as with February 29, eight years before and after are tried.
        """
        near = [at for year in range(self.year - 1, self.year + 2) for at in option(year)]
        far = range(self.year - 8, self.year + 9) if not near else ()
        return self.pick(near or [at for year in far for at in option(year)], match)

    def which_year(self, option: Callable[[int], list[Days]], which: str) -> list[Days]:
        """The days meant by "last", "next" or "this" with a month, season or holiday.

        "Last" means the last one that is over, "next" the first one that has not begun, and "this" the present one, or
        that of this year.
        """
        found = [at for year in range(self.year - 2, self.year + 3) for at in option(year)]
        if which in ("last", "past"):
            return [at for at in found if at[1] < self.today][-1:]
        if which in ("next", "coming"):
            return [at for at in found if at[0] > self.today][:1]
        return [at for at in found if at[0] <= self.today <= at[1]] or option(self.year)

    def away(self, at: Days) -> int:
        """The number of days between today and the nearer end of a range, or 0 if today is in the range."""
        return max(at[0] - self.today, self.today - at[1], 0)

    def span(self, first: int, last: int) -> list[Days]:
        """The range of days from `first` to `last`, each given as a number of days after today."""
        return days(self.today + first, self.today + last)


def _told(words: str) -> int:
    """The tense of these words of a line: OPEN if past and future words occur, or neither."""
    each = _WORDS.findall(words)
    past = not _PAST.isdisjoint(each) or any(
        word.endswith("ed") and len(word) > 4 and not word.startswith(_NOT_PAST) for word in each
    )
    future = not _FUTURE.isdisjoint(each)
    if not words.isascii():
        past, future = past or bool(_OTHER_PAST.search(words)), future or bool(_OTHER_FUTURE.search(words))
    return int(future) - int(past)
