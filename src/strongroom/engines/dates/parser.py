"""Finds the days that a text mentions: dates in lines, and time words in questions.

The result depends on the text and its day only, not on a clock, a locale or a configuration. The English modules,
`cjk` and `numeric` hold the grammars. `moment` chooses between several possible days. The other choices are these:

- Weeks start on Monday, a weekend is Saturday and Sunday, and seasons are those of the northern hemisphere.
- "Last Friday" and "next weekend" have two common meanings, and both are returned.
- A weekday alone in a line is chosen by the tense around it. If there is no tense, the last such day and the coming one
  are both returned. In a question without tense, the nearest such day is returned.
- "In two weeks" has a tolerance of two days on either side. For months it is seven days, for years half a year. "A few"
  is two to six.
- "Since Monday" means Monday up to today, and "until June 3" means today up to June 3. "By Friday" means Friday in a
  line, and the days up to Friday in a question.
- "Before May 5" and "after May 5" mean 30 days in a question, and the day itself in a line.
- "Recently" means the last 30 days; "upcoming" and "my next appointment" mean the coming 60 days. These words have no
  days in a line.
- Repeating times ("every Friday", "Fridays") have no days. A birthday has its days in five years.
- Years run from 1900 to 2100. At most 16 ranges of days are returned, and only the first 32,768 characters are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from strongroom.engines.dates import cjk, english_dates, english_periods, english_relative, numeric
from strongroom.engines.dates.day_arithmetic import Days, days
from strongroom.engines.dates.grammar import Found, Grammar
from strongroom.engines.dates.moment import Moment

__all__ = ["MOST_SPANS", "Span", "dates_in_line", "dates_in_query"]

MOST_SPANS = 16
"""How many ranges of days are returned for one text. A text that names more is probably about none of them."""
MOST_CHARACTERS = 32 * 1024
AROUND = 30
"""How many days "before" and "after" cover in a question."""

_ENGLISH = Grammar(
    "[a-z]+|[0-9]+", numeric.RULES + english_dates.RULES + english_periods.RULES + english_relative.RULES
)
_CJK = Grammar(cjk.WORDS, cjk.RULES)
_TRIGGERS = frozenset(
    word.encode() for module in (english_dates, english_periods, english_relative) for word in module.TRIGGERS
)
# Everything but letters and digits ends a word, and so does every byte of other scripts.
_TO_WORDS = bytes(ord(chr(at).lower()) if chr(at).isalnum() and at < 128 else 32 for at in range(256))
_FIGURE = re.compile(r"[0-9]")
_FIGURES = re.compile(r"[0-9]{4}|[0-9](?:st|nd|rd|th)\b|[0-9][/.][0-9]")
# Full-width forms, dashes, quotes and spaces. Each becomes one character, so that positions stay the same.
_FOLD = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)} | str.maketrans(
    "–—−‐‑〜～’‘\u3000\u00a0\u202f", "-----~~''   "
)
_LEAD = re.compile(r"(?:^|[^a-z])(since|until|till|by|before|after)\s(?:the\s|on\s)?$")
_LED = re.compile(r"(since|until|till|by|before|after)\s")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of days, and the place in the text that mentions it.

    `first` and `last` are numbers of `date.toordinal()`, both included. `start` and `end` are positions in the text.
    """

    first: int
    last: int
    start: int
    end: int


def dates_in_line(text: str, written: date) -> list[Span]:
    """The days that a line mentions, relative to the day on which it was written."""
    return _spans(text, written, asked=False)


def dates_in_query(query: str, today: date) -> list[Span]:
    """The days that a question asks about, relative to the day on which it is asked.

    Each span covers exactly the time words, so that the engine can leave these words out of the word match.
    """
    return _spans(query, today, asked=True)


def _spans(text: str, today: date, *, asked: bool) -> list[Span]:
    low = _folded(text)
    english = _has_english(low)
    other = not text.isascii() and cjk.TRIGGER.search(low) is not None
    if not english and not other:
        return []
    moment = Moment(text[:MOST_CHARACTERS], low, today, asked)
    found: Iterable[Found] = _ENGLISH.find(moment) if english else ()
    if other:
        found = _merged([*_CJK.find(moment)], [*found])
    spans: list[Span] = []
    for start, end, meant in _without_repeats(found, low):
        start, meant = _directed(moment, start, meant)
        spans += [Span(first, last, start, end) for first, last in meant]
        if len(spans) >= MOST_SPANS:
            break
    return spans[:MOST_SPANS]


def _has_english(low: str) -> bool:
    """Whether a rule for English could match. This cheap test rejects most lines."""
    # A lone surrogate cannot be encoded, and is no letter anyway.
    if not _TRIGGERS.isdisjoint(low.encode(errors="replace").translate(_TO_WORDS).split()):
        return True
    return _FIGURE.search(low) is not None and _FIGURES.search(low) is not None


def _folded(text: str) -> str:
    """The text in lower case, with ASCII digits and punctuation. The position of each character stays the same."""
    text = text[:MOST_CHARACTERS]
    if text.isascii():
        return text.lower()
    plain = text.translate(_FOLD)
    low = plain.lower()
    return low if len(low) == len(plain) else "".join(c if len(c.lower()) != 1 else c.lower() for c in plain)


def _merged(chosen: list[Found], others: list[Found]) -> list[Found]:
    taken = [(start, end) for start, end, _ in chosen]
    free = [at for at in others if all(at[1] <= start or end <= at[0] for start, end in taken)]
    return sorted(chosen + free)[: 4 * MOST_SPANS]


def _without_repeats(found: Iterable[Found], low: str) -> Iterator[Found]:
    """The mentions without repetitions: "May 29 (Friday)" counts as one mention, and so does a date given twice."""
    known: Found | None = None
    for at in found:
        if known is None or not _same(known, at, low):
            yield at
        known = at


def _same(known: Found, new: Found, low: str) -> bool:
    between = low[known[1] : new[0]]
    if len(between) > 3 or any(sign.isalnum() for sign in between) or len(known[2]) != 1:
        return False
    first, last = known[2][0]
    weekday = first == last and not any(sign.isdigit() for sign in low[new[0] : new[1]])
    return known[2] == new[2] or (weekday and all(a == b and (a - first) % 7 == 0 for a, b in new[2]))


def _directed(moment: Moment, start: int, meant: list[Days]) -> tuple[int, list[Days]]:
    """Extend the days of a mention after "since", "until", "by", "before" or "after".

    Returns the start of the mention with that word, and the days.
    """
    near = moment.low[max(0, start - 11) : start]
    lead = _LEAD.search(near) or _LED.match(moment.low, start)
    if lead is None:
        return start, meant
    directed = [at for days_ in meant for at in _toward(moment, lead[1], days_)]
    if lead.string is near:
        start -= len(near) - lead.start(1)
    return start, directed


def _toward(moment: Moment, lead: str, at: Days) -> list[Days]:
    first, last = at
    if lead == "since" and first <= moment.today:
        return [(first, moment.today)]
    if (lead in ("until", "till") or (lead == "by" and moment.asked)) and last >= moment.today:
        return [(moment.today, last)]
    if moment.asked and lead == "before":
        return days(moment.today if first > moment.today else first - AROUND, first - 1) or [at]
    if moment.asked and lead == "after":
        return days(last + 1, last + AROUND) or [at]
    return [at]
