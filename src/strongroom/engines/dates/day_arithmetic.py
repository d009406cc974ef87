"""Arithmetic on days as `date.toordinal()` numbers, which never overflows.

A day that does not exist in the calendar (30 February, or a day in the year 10000) is None. A range is cut to the years
1 to 9999. Weeks start on Monday. Seasons are those of the northern hemisphere, in whole months.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import MAXYEAR, MINYEAR, date

from strongroom.model import Millis

Days = tuple[int, int]
"""A range of days as (first, last), both included."""

FIRST, LAST = date.min.toordinal(), date.max.toordinal()
_EPOCH = date(1970, 1, 1).toordinal()
_LENGTH = 86_400_000
"""The length of a day in milliseconds."""
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The first month of each season."""


def day(year: int, month: int, number: int) -> int | None:
    """The number of the day with this date, or None if the calendar has no such day."""
    try:
        return date(year, month, number).toordinal()
    except ValueError:
        return None


def days(first: int | None, last: int | None) -> list[Days]:
    """The range of days as a list with one item.

    The list is empty if `first` or `last` is None, `first` is after `last`, or the range is outside the calendar.
    """
    if first is None or last is None or first > last or first > LAST or last < FIRST:
        return []
    return [(max(first, FIRST), min(last, LAST))]


def dates(first: tuple[int, int, int], last: tuple[int, int, int]) -> list[Days]:
    """The range from one date to another, each given as year, month and day."""
    return days(day(*first), day(*last))


def one(number: int | None) -> list[Days]:
    return days(number, number)


def months(year: int, month: int, count: int = 1) -> list[Days]:
    """`count` whole months. `month` may be less than 1 or more than 12, which means another year."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    end_year, end_month = year + (month + count - 2) // 12, (month + count - 2) % 12 + 1
    if not (MINYEAR <= year <= MAXYEAR and MINYEAR <= end_year <= MAXYEAR):
        return []
    return days(day(year, month, 1), day(end_year, end_month, monthrange(end_year, end_month)[1]))


def years(year: int, count: int = 1) -> list[Days]:
    return months(year, 1, 12 * count)


def season(name: str, year: int) -> list[Days]:
    """The days of a season. A winter belongs to the year in which it begins."""
    return months(year, SEASONS[name], 3)


def week(today: int, offset: int = 0) -> Days:
    """Monday to Sunday of the week that is `offset` weeks after this week. These days may be outside the calendar."""
    monday = today - (today - 1) % 7 + 7 * offset  # ordinal 1 was a Monday
    return monday, monday + 6


def part(of: Days, which: str) -> Days:
    """The early, middle or late third of a range of days."""
    length = of[1] - of[0] + 1
    third = max(1, length // 3)
    if which == "early":
        return of[0], of[0] + third - 1
    if which == "late":
        return of[0] + 2 * third, of[1]
    return min(of[0] + third, of[1]), min(of[0] + 2 * third - 1, of[1])


def shifted_months(today: int, count: int) -> int:
    """The day `count` months after today, or the last day of that month if it is shorter.

    The result may be outside the calendar.
    """
    when = date.fromordinal(today)
    year, month = when.year + (when.month - 1 + count) // 12, (when.month - 1 + count) % 12 + 1
    if not MINYEAR <= year <= MAXYEAR:
        return today + count * 30
    return date(year, month, min(when.day, monthrange(year, month)[1])).toordinal()


def day_of(time: Millis) -> int:
    """The day on which a moment falls, in UTC."""
    return _EPOCH + time // _LENGTH


def start_of(day: int, offset: int) -> Millis:
    """The moment at which a day begins in a time zone that is `offset` milliseconds ahead of UTC."""
    return Millis((day - _EPOCH) * _LENGTH - offset)
