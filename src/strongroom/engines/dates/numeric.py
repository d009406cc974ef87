"""Dates in digits: the ISO form first, then the forms with slashes and dots.

Most numbers are not dates. A date without a year, such as `5/25`, counts only after a preposition, and 9/11 never
counts. Versions, addresses, telephone numbers and ratios do not match, because of their shape or their neighbouring
characters.
"""

from __future__ import annotations

import re

from strongroom.engines.dates.day_arithmetic import Days, dates, day, days, months, one
from strongroom.engines.dates.grammar import FIGURES, Rule
from strongroom.engines.dates.moment import Moment

YEAR = r"(?:19[0-9]{2}|20[0-9]{2}|2100)"
_M = r"(?:1[0-2]|0?[1-9])"
_D = r"(?:3[01]|[12][0-9]|0?[1-9])"
_START = r"(?<![0-9a-z.:/])(?<![0-9]-)"
_END = r"(?![0-9a-z/:]|[.-][0-9])"
_CLOCK = (
    r"(?:[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:z\b|\s?[+-][0-9]{2}:?[0-9]{2}(?![0-9]))?)?(?![0-9a-z]|-[0-9])"
)
_TO = r"(?:\s{0,2}(?:-|~|/|\.\.|to|through|until|and)\s{0,2})"


def _iso(match: re.Match[str], _: Moment) -> list[Days]:
    first = day(int(match["y"]), int(match["m"]), int(match["d"]))
    if not match["y2"]:
        return one(first)
    return days(first, day(int(match["y2"]), int(match["m2"]), int(match["d2"])))


def _iso_month(match: re.Match[str], _: Moment) -> list[Days]:
    return months(int(match["y"]), int(match["m"]))


def _with_year(match: re.Match[str], _: Moment) -> list[Days]:
    """The possible days of a date such as 5/6/2026, which may be 6 May or 5 June: both are returned.

    5/25/2026 has one meaning only. In a date with dots, such as 5.6.2026, the day comes first.
    """
    found: set[Days] = set()
    for month, number in [("b", "a")] if match["sep"] == "." else [("a", "b"), ("b", "a")]:
        first = day(_full(match["y"]), int(match[month]), int(match[number]))
        last = day(_full(match["y2"]), int(match[month + "2"]), int(match[number + "2"])) if match["y2"] else first
        found.update(days(first, last))
    return sorted(found)


def _full(year: str) -> int:
    return int(year) + (2000 if len(year) == 2 else 0)


def _bare(match: re.Match[str], moment: Moment) -> list[Days]:
    month, number = int(match["m"]), int(match["d"])
    last_month, last = int(match["m2"] or month), int(match["d2"] or number)
    if (month, number) == (9, 11):
        return []
    crossed = (last_month, last) < (month, number)
    return moment.each_year(
        lambda year: dates((year, month, number), (year + crossed, last_month, last)),
        match,
    )


def _iso_pattern(sep: str) -> str:
    first = rf"(?P<y>{YEAR}){sep}(?P<m>{_M}){sep}(?P<d>{_D})(?![0-9])"
    second = rf"(?P<y2>{YEAR}){sep}(?P<m2>{_M}){sep}(?P<d2>{_D})(?![0-9])"
    return rf"{_START}{first}(?:{_TO}{second})?{_CLOCK}"


def _year_last(sep: str) -> str:
    year = rf"{YEAR}|[0-9]{{2}}" if sep == "/" else YEAR  # 25.5.26 may be a version
    first, second = (
        rf"(?P<a{n}>[0-9]{{1,2}})(?P<sep{n}>{sep})(?P<b{n}>[0-9]{{1,2}}){sep}(?P<y{n}>{year})(?![0-9])"
        for n in ("", "2")
    )
    return rf"{_START}{first}(?:{_TO}{second})?{_END}"


RULES: list[Rule] = [
    (FIGURES, _iso_pattern("-"), _iso),
    (FIGURES, _iso_pattern("/"), _iso),
    (FIGURES, rf"{_START}(?P<y>{YEAR})\.(?P<m>0[1-9]|1[0-2])\.(?P<d>[0-3][0-9])(?P<y2>){_END}", _iso),
    (FIGURES, rf"{_START}(?P<y>{YEAR})-(?P<m>0[1-9]|1[0-2])(?![0-9a-z:/-]|\.[0-9])", _iso_month),
    (FIGURES, _year_last("/"), _with_year),
    (FIGURES, _year_last("-"), _with_year),
    (FIGURES, _year_last(r"\."), _with_year),
    (
        "on by until till since from before after due for",
        rf"\b(?:on|by|until|till|since|from|before|after|due|for)\s(?P<m>{_M})/(?P<d>{_D})(?![0-9])"
        rf"(?:\s?(?:-|to)\s?(?P<m2>{_M})/(?P<d2>{_D}))?(?![0-9a-z/%:]|[.,][0-9]|\s(?:pages?|of)\b)",
        _bare,
    ),
]
