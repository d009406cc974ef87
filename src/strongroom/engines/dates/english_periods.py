"""English names of seasons, quarters, years and holidays."""

from __future__ import annotations

import re
from datetime import date

from strongroom.engines.dates.day_arithmetic import Days, dates, days, months, part, season, years
from strongroom.engines.dates.english_dates import AFTER_YEAR, FIRST_WHICH, THINGS, WHICH
from strongroom.engines.dates.grammar import FIGURES, Rule
from strongroom.engines.dates.moment import Moment
from strongroom.engines.dates.numeric import YEAR

_FEASTS = {
    "christmas eve": (12, 24, 24),
    "christmas": (12, 24, 26),
    "xmas": (12, 24, 26),
    "boxing day": (12, 26, 26),
    "new years eve": (12, 31, 31),
    "new years": (1, 1, 1),
    "halloween": (10, 31, 31),
    "valentines": (2, 14, 14),
}


def _season(match: re.Match[str], moment: Moment) -> list[Days]:
    name = match["season"]
    if match["y"]:
        year = int(match["y"])
        return (season(name, year - 1) if name == "winter" else []) + season(name, year)
    if match["which"]:
        return moment.which_year(lambda year: season(name, year), match["which"])
    return moment.each_year(lambda year: season(name, year), match)


def _quarter(match: re.Match[str], moment: Moment) -> list[Days]:
    first = 3 * int(match["q"]) - 2
    if match["y"]:
        return months(int(match["y"]), first, 3)
    return moment.each_year(lambda year: months(year, first, 3), match)


def _year(match: re.Match[str], _: Moment) -> list[Days]:
    first, last = int(match["y"]), int(match["y2"] or match["y"])
    found = years(first, last - first + 1) if last >= first else []
    return [part(at, match["part"]) for at in found] if match["part"] else found


def _asked_year(match: re.Match[str], moment: Moment) -> list[Days]:
    year = int(match["y"])
    return years(year) if moment.asked and 2000 <= year <= moment.year + 5 else []


def _easter(year: int) -> int:
    """Easter Sunday by the Gregorian computus (Gauss's rule in the form that needs no exceptions)."""
    moon, century = year % 19, year // 100
    epact = (19 * moon + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (year % 100 // 4) - epact - year % 4) % 7
    late = (moon + 11 * epact + 22 * weekday) // 451
    month, number = divmod(epact + weekday - 7 * late + 114, 31)
    return date(year, month, number + 1).toordinal()


def _easter_days(match: re.Match[str], moment: Moment) -> list[Days]:
    """The days of Easter, from Good Friday to Easter Monday."""

    def option(year: int) -> list[Days]:
        return days(_easter(year) - 2, _easter(year) + 1) if 1583 <= year <= 9999 else []

    if match["y"]:
        return option(int(match["y"]))
    if match["which"]:
        return moment.which_year(option, match["which"])
    return moment.each_year(option, match)


def _feast(match: re.Match[str], moment: Moment) -> list[Days]:
    name = " ".join(match["feast"].replace("'", "").split()).replace("new year ", "new years ").removesuffix(" day")
    name = {"boxing": "boxing day", "new year": "new years", "valentine": "valentines"}.get(name, name)
    month, first, last = _FEASTS[name]

    def option(year: int) -> list[Days]:
        return dates((year, month, first), (year, month, last))

    if match["y"]:
        return option(int(match["y"]))
    if match["which"]:
        return moment.which_year(option, match["which"])
    return moment.each_year(option, match)


_YEAR = f"{YEAR}{AFTER_YEAR}"
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
_FIRST_SEASONS = "spring summer autumn fall winter"
_FIRST_FEASTS = "christmas xmas boxing new halloween valentine valentines easter"
RULES: list[Rule] = [
    (
        f"{FIRST_WHICH} {_FIRST_SEASONS} in during over",
        rf"\b(?:{WHICH}\s|(?:in|during|over)\sthe\s)?{_SEASON}\s(?:of\s)?(?P<y>{_YEAR})",
        _season,
    ),
    (
        f"{FIRST_WHICH} in during over",
        rf"\b(?:{WHICH}|(?:in|during|over)\sthe)\s{_SEASON}(?P<y>)\b",
        _season,
    ),
    (
        "in during over for",
        r"\b(?:in|during|over|for)\s(?P<season>spring|summer|autumn|winter)(?P<y>)(?P<which>)\b"
        r"(?!\s(?:break|camp|clothes|coats?|jobs?|olympics|school|tires|tyres)\b)",
        _season,
    ),
    ("q", rf"\bq(?P<q>[1-4])(?:\s(?:of\s)?(?P<y>{_YEAR}))?(?![0-9a-z:.)])", _quarter),
    (
        "in during since until till by from between before after around year early mid late",
        r"\b(?:in|during|since|until|till|by|from|between|before|after|around|year|(?P<part>early|mid|late))[\s-]"
        rf"(?:the\syear\s)?(?P<y>{YEAR})(?:(?:-|\s(?:to|and|until)\s)(?P<y2>{YEAR}))?"
        rf"{AFTER_YEAR}{THINGS}",
        _year,
    ),
    (FIGURES, rf"(?<![0-9a-z$#.:/-])(?<!\$\s)(?P<y>{YEAR})(?=\s{{0,2}}[?.!]?\s{{0,2}}$)", _asked_year),
    (
        f"{FIRST_WHICH} {_FIRST_FEASTS}",
        rf"\b(?:{WHICH}\s)?(?P<feast>christmas\seve|christmas(?:\sday)?|xmas|boxing\sday|new\syear'?s?\seve"
        r"|new\syear(?:'?s(?:\sday)?|\sday)|halloween|valentine'?s?(?:\sday)?)\b"
        rf"(?:\s(?:of\s)?(?P<y>{_YEAR}))?(?!\s(?:tree|cards?|carols?|songs?|music|movie|film|story|resolutions?)\b)",
        _feast,
    ),
    (
        f"{FIRST_WHICH} easter",
        rf"\b(?:{WHICH}\s)?easter(?:\s(?:weekend|sunday|monday|holidays?))?\b(?:\s(?:of\s)?(?P<y>{_YEAR}))?(?!\s(?:eggs?|bunny)\b)",
        _easter_days,
    ),
]
TRIGGERS = frozenset(f"{_FIRST_SEASONS} {_FIRST_FEASTS} q1 q2 q3 q4 year years".split()) - {"new"}
"""A text with no digit and none of these words is not searched, because no rule of this grammar can match it."""
