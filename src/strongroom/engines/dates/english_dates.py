"""English dates: days and months by name and number.

The rules at the end are the grammar; the functions above them give the days that a match means. Words that are also
verbs or names (may, march, April, June, Jan) count only if a neighbouring word shows that they are months.
"""

from __future__ import annotations

import re

from strongroom.engines.dates.day_arithmetic import Days, dates, months, part
from strongroom.engines.dates.grammar import FIGURES, Rule
from strongroom.engines.dates.moment import Moment
from strongroom.engines.dates.numeric import YEAR

_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: at for at, name in enumerate(_NAMES.split(), 1)}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_VERBS = frozenset(("may", "march", "mar"))
_PEOPLE = frozenset(("april", "may", "june", "august", "jan", "march"))
PARTS = {"beginning": "early", "start": "early", "middle": "mid", "end": "late"}
PART_OF = r"(?:(?P<part>early|mid|late)(?:[\s-]|\sin\s)|(?P<of>beginning|start|middle|end)\sof\s)"

MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?)"
)
_SURE = r"(?:january|february|july|september|october|november|december)"
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])(?:st|nd|rd|th)?(?![0-9a-z%:/]|\.[0-9]|,[0-9]{3}\b)"
AFTER_YEAR = r"(?![0-9a-z:%/]|[.,-][0-9])"
_YEAR = rf"{YEAR}{AFTER_YEAR}"
_THEN_Y, _THEN_Y2 = (rf"(?:,?\s{{1,3}}(?P<{name}>{_YEAR}))?" for name in ("y", "y2"))
_TO = r"(?:\s{0,2}[-~]\s{0,2}|\s{1,3}(?:to|through|thru|until|till|and)\s{1,3})"
_THE = r"(?:the\s)?"
_NO_DAY = rf"(?!\s{{1,3}}(?:the\s)?{_DAY})"
_NO_YEAR = rf"(?!,?\s{{1,3}}{_YEAR})"
_NTH = r"[0-9]{1,2}(?:st|nd|rd|th)"
_FROM = r"(?:(?:from|between)\s)?"
WHICH = r"(?P<which>last|this|next|past|coming)"
THINGS = (
    r"(?!\s{1,3}(?:miles|km|people|percent|steps|words|pages|pieces|dollars|euros|meters|metres|times|minutes|hours"
    r"|days|weeks|months|years|points|bytes|lines|rows|items|files|users|calories|kg|mb|gb|px|ms)\b)"
)
_DAY_ENDS = (
    r"(?=\s{0,2}(?:$|[^\s0-9a-z])|\s{1,3}(?:at|in|for|to|and|or|we|i|he|she|they|you|it|is|was|will|with|by|from|until"
    r"|then|but|if|when|after|before|there|around|because|so|this|next|last|please|are|were|am|as|did|do|does|the|my|our"
    r"|morning|afternoon|evening|night)\b)"
)

_BEFORE_A_DATE = re.compile(r"(?:^|[^\s0-9a-z]\s?|\b(?:on|from|to|until|by|since|before|after|for|of)\s)$")


def _number(word: str) -> int:
    return int(word.rstrip("sthndr"))


def _month(match: re.Match[str], group: str = "month") -> int:
    return _MONTHS[match[group][:3]]


def _is_month(match: re.Match[str], moment: Moment) -> bool:
    """Whether the word in front of a number is a month. In "Today may 25 come", "may" is not, for it has no capital."""
    word, start = match["month"].rstrip("."), match.start("month")
    if word not in _VERBS or moment.text[start].isupper() or moment.text.islower():
        return True
    return _BEFORE_A_DATE.search(moment.low, max(0, start - 8), start) is not None


def _range(first_month: int, first: int, last_month: int, last: int, year: int, last_year: int) -> list[Days]:
    if last_year == year and (last_month, last) < (first_month, first):
        last_year += 1  # from 28 December to 3 January
    return dates((year, first_month, first), (last_year, last_month, last))


def _dated(match: re.Match[str], moment: Moment, first: tuple[int, int], last: tuple[int, int]) -> list[Days]:
    """The days from one (month, day) to another, in the year that the text names, or in the likely year."""
    year, last_year = match["y"], match["y2"]
    if year or last_year:
        start, end = int(year or last_year), int(last_year or year)
        if not year and last < first:
            start -= 1  # 28 December to 3 January 2027
        return _range(*first, *last, start, end)

    def option(at: int) -> list[Days]:
        return _range(*first, *last, at, at)

    if moment.yearly(match) and first == last:
        return [found for at in range(moment.year - 1, moment.year + 4) for found in option(at)]
    return moment.each_year(option, match)


def _month_day(match: re.Match[str], moment: Moment) -> list[Days]:
    if not _is_month(match, moment):
        return []
    first = _month(match), _number(match["day"])
    last = (
        (_month(match, "month2") if match["month2"] else first[0], _number(match["day2"])) if match["day2"] else first
    )
    return _listed(match, moment, first, last)


def _listed(match: re.Match[str], moment: Moment, first: tuple[int, int], last: tuple[int, int]) -> list[Days]:
    """The days of a pair: "May 3 and 7" are two days, but "between May 3 and 7" and "May 3 and 4" are ranges."""
    if " and " in match[0] and not match[0].startswith("between") and (last[0], last[1] - 1) != first:
        return _dated(match, moment, first, first) + _dated(match, moment, last, last)
    return _dated(match, moment, first, last)


def _day_month(match: re.Match[str], moment: Moment) -> list[Days]:
    if not _is_month(match, moment):
        return []
    first = last = _month(match), _number(match["day"])
    if match["dayb"]:
        last = first[0], _number(match["dayb"])
    if match["day2"]:
        last = _month(match, "month2"), _number(match["day2"])
    return _listed(match, moment, first, last)


def _month_year(match: re.Match[str], moment: Moment) -> list[Days]:
    return months(int(match["y"]), _month(match)) if _is_month(match, moment) else []


def _month_range(match: re.Match[str], moment: Moment) -> list[Days]:
    if " and " in match[0] and not match[0].startswith("between"):
        return []
    first, last = _month(match), _month(match, "month2")
    count = (last - first) % 12 + 1
    if match["y"]:
        return months(int(match["y"]) - (last < first), first, count)
    return moment.each_year(lambda year: months(year, first, count), match)


def _whole_month(match: re.Match[str], moment: Moment) -> list[Days]:
    word = match["month"].rstrip(".")
    firm = match["lead"] in ("in", "during", "since", "until", "till")
    if word == "mar" or (not firm and (word in _PEOPLE or len(word) < 4)):
        return []
    if word in _PEOPLE and moment.low.startswith("'s", match.end()):
        return []
    return moment.each_year(lambda year: months(year, _month(match)), match)


def _sure_month(match: re.Match[str], moment: Moment) -> list[Days]:
    return moment.each_year(lambda year: months(year, _month(match)), match)


def _which_month(match: re.Match[str], moment: Moment) -> list[Days]:
    if match["month"] in _VERBS and match["which"] == "this" and not moment.text[match.start("month")].isupper():
        return []
    return moment.which_year(lambda year: months(year, _month(match)), match["which"])


def _part_of_month(match: re.Match[str], moment: Moment) -> list[Days]:
    which = match["part"] or PARTS[match["of"]]

    def option(year: int) -> list[Days]:
        return [part(at, which) for at in months(year, _month(match))]

    if match["y"]:
        return option(int(match["y"]))
    return moment.each_year(option, match)


def _nth_of_month(match: re.Match[str], moment: Moment) -> list[Days]:
    """A week, weekday or weekend by its number in a month, such as "the second Monday in May"."""
    nth = {"first": 0, "second": 7, "third": 14, "fourth": 21}.get(match["nth"])

    def option(year: int) -> list[Days]:
        return [_nth(month, match["unit"], nth) for month in months(year, _month(match))]

    if match["y"]:
        return option(int(match["y"]))
    if match["which"]:
        return moment.which_year(option, match["which"])
    return moment.each_year(option, match)


def _nth(month: Days, unit: str, nth: int | None) -> Days:
    first, last = month
    if unit == "week":
        return (last - 6, last) if nth is None else (first + nth, first + nth + 6)
    weekday = 5 if unit == "weekend" else _WEEKDAYS.index(unit)  # Monday is 0, and ordinal 1 was a Monday
    begin = last - (last - 1 - weekday) % 7 if nth is None else first + (weekday - first + 1) % 7 + nth
    return begin, begin + (unit == "weekend")


def _day_alone(match: re.Match[str], moment: Moment) -> list[Days]:
    """A day of an unnamed month, such as "the 5th": the coming one, and also one in the last ten days."""
    first, last = _number(match["day"]), _number(match["day2"] or match["day"])
    index = moment.year * 12 + moment.month - 1

    def option(offset: int) -> list[Days]:
        year, month = divmod(index + offset, 12)
        return dates((year, month + 1, first), (year, month + 1, last))

    if match["of"]:
        return option({"last": -1, "next": 1}.get(match["of"], 0))
    options = [at for offset in (-2, -1, 0, 1, 2) for at in option(offset)]
    return moment.pick_near(options, match)


_FIRST_MONTHS = f"{_NAMES} sept january february march april june july august september october november december"
FIRST_WHICH = "last this next past coming"
_FIRST_PARTS = "early mid late beginning start middle end"
RULES: list[Rule] = [
    (
        f"from between {_FIRST_MONTHS}",
        rf"\b{_FROM}(?P<month>{MONTH})\s{{1,3}}{_THE}(?P<day>{_DAY}){THINGS}{_THEN_Y}"
        rf"(?:{_TO}(?:(?P<month2>{MONTH})\s{{1,3}})?{_THE}(?P<day2>{_DAY}){_THEN_Y2})?",
        _month_day,
    ),
    (
        f"from between the {FIGURES}",
        rf"(?<![0-9a-z.:/$#-]){_FROM}{_THE}(?P<day>{_DAY})(?:{_TO}{_THE}(?P<dayb>{_DAY}))?\s{{1,3}}(?:of\s)?"
        rf"(?P<month>{MONTH})(?![0-9a-z]){_THEN_Y}"
        rf"(?:{_TO}{_THE}(?P<day2>{_DAY})\s{{1,3}}(?:of\s)?(?P<month2>{MONTH})(?![0-9a-z]){_THEN_Y2})?",
        _day_month,
    ),
    (
        f"from between {_FIRST_MONTHS}",
        rf"\b{_FROM}(?P<month>{MONTH})(?:-|\s(?:to|through|and)\s)(?P<month2>{MONTH})(?![0-9a-z]){_NO_DAY}{_THEN_Y}",
        _month_range,
    ),
    (
        _FIRST_PARTS,
        rf"\b{PART_OF}{_THE}(?P<month>{MONTH})(?![0-9a-z]){_NO_DAY}{_THEN_Y}",
        _part_of_month,
    ),
    (
        "first second third fourth last",
        rf"\b(?P<nth>first|second|third|fourth|last)\s(?P<unit>week(?:end)?|{'|'.join(_WEEKDAYS)})\s(?:of|in)\s"
        rf"(?:{WHICH}\s)?(?P<month>{MONTH})(?![0-9a-z]){_THEN_Y}",
        _nth_of_month,
    ),
    (_FIRST_MONTHS, rf"\b(?P<month>{MONTH}),?\s(?:of\s)?(?P<y>{_YEAR}){THINGS}", _month_year),
    (FIRST_WHICH, rf"\b{WHICH}\s(?P<month>{MONTH})(?![0-9a-z]){_NO_DAY}", _which_month),
    (
        "in during since until till of by before after from for",
        r"\b(?P<lead>in|during|since|until|till|of|by|before|after|from|for)\s"
        rf"(?P<month>{MONTH})(?![0-9a-z]){_NO_DAY}{_NO_YEAR}",
        _whole_month,
    ),
    ("january february july september october november december", rf"\b(?P<month>{_SURE})\b{_NO_DAY}", _sure_month),
    (
        "from the",
        rf"\b(?:from\s)?the\s(?P<day>{_NTH})(?:{_TO}{_THE}(?P<day2>{_NTH}))?"
        rf"(?:\s(?:of\s)?(?P<of>this|next|last|the)\smonth\b|{_DAY_ENDS})",
        _day_alone,
    ),
    (FIGURES, rf"\b(?P<day>{_NTH})(?P<day2>)(?P<of>)(?=\s{{0,2}}[?.!]?\s{{0,2}}$)", _day_alone),
]
TRIGGERS = frozenset(_FIRST_MONTHS.split())
"""A text with no digit and none of these words is not searched, because no rule of this grammar can match it."""
