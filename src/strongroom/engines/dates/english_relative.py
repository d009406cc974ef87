"""English expressions relative to today: tomorrow, last Friday, the weekend, in two weeks, the past few days.

The rules at the end are the grammar; the functions above them give the days that a match means.
"""

from __future__ import annotations

import re

from strongroom.engines.dates.day_arithmetic import Days, days, months, part, shifted_months, week, years
from strongroom.engines.dates.english_dates import PART_OF, PARTS
from strongroom.engines.dates.grammar import FIGURES, Rule
from strongroom.engines.dates.moment import FUTURE, OPEN, PAST, Moment

RECENT = 30
"""How many days before today "recently" means. The word has no meaning in lines, only in questions."""
AHEAD = 60
"""How many days after today "upcoming" and "my next appointment" mean. Such words have no meaning in lines."""

_DAY_NAMES = "mon tue wed thu fri sat sun"
_WEEKDAYS = {name: at for at, name in enumerate(_DAY_NAMES.split())}
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
_NAMED = {
    "today": 0,
    "tonight": 0,
    "tomorrow": 1,
    "yesterday": -1,
    "last night": -1,
    "day before yesterday": -2,
    "day after tomorrow": 2,
}
_COUNTS = {word: (at, at) for at, word in enumerate(_NUMBERS.split())} | {
    "a": (1, 1),
    "an": (1, 1),
    "fourteen": (14, 14),
    "fifteen": (15, 15),
    "twenty": (20, 20),
    "thirty": (30, 30),
    "couple": (2, 3),
    "few": (2, 6),
    "several": (3, 8),
}
"""The smallest and the largest number that a number word may mean."""
_SLACK = {"day": 0, "night": 0, "week": 2, "fortnight": 2, "month": 7, "year": 183}
"""The tolerance for each unit, in days on either side, because people do not count distant days exactly."""
_OFFSETS = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1, "following": 1}

_WEEKDAY = (
    r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tues?|wed|thurs?|thu|fri|sat|sun)\b"
)
_COUNT = (
    r"(?P<n>[0-9]{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|fifteen|twenty"
    r"|thirty|(?:a\s)?(?:couple(?:\sof)?|few)|several)"
)
_UNIT = r"(?P<unit>day|night|week|fortnight|month|year)s?\b"
_SPELL = r"(?P<unit>weekend|week|fortnight|month|quarter|year)\b(?![-'])"
_DATE_FOLLOWS = (
    r"(?!,?\s{1,3}(?:the\s)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\b\.?\s[0-9]"
    r"|,?\s{1,3}(?:the\s)?[0-9]{1,2}(?:(?:st|nd|rd|th)\b|\s(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
    r"|,?\s{1,3}\(?[0-9]{4}-)"
)
_NOT_A_DAY = re.compile(
    r"\b(?:a|every|each|black|good|casual|ruby|girl|man|cyber|ash|palm|easter|super|alternate|does|named|called)\s$"
    r"|\b(?:every|each)\s[a-z]{3,9}\s(?:and|or|&)\s$|\bmon(?:day)?(?:\s?-\s?|\s(?:to|through)\s)$"
)
_OVER_THE = re.compile(r"\b(?:in|over|during|within|for)\sthe\s$")
_EVERY = re.compile(r"\s(?:morning|afternoon|evening|night)s\b")


def _named(match: re.Match[str], moment: Moment) -> list[Days]:
    offset = _NAMED.get(" ".join(match[0].split()).removeprefix("the "), 0)
    return moment.span(offset, offset)


def _weekday(match: re.Match[str], moment: Moment, led: bool) -> int | None:
    """The number of the weekday, 0 for Monday. None if the word is not one day in this place.

    The word may be a repeating day ("every Friday"), a verb ("sat"), the sun, or a name.
    """
    start, word = match.start("weekday"), match["weekday"]
    before = moment.low[max(0, start - 24) : start]
    if _NOT_A_DAY.search(before) or _EVERY.match(moment.low, match.end("weekday")):
        return None
    capital = moment.text[start].isupper()
    if word in ("sat", "sun", "wed", "mon") and not (capital and (led or re.search(r"\b(?:on|by|until)\s$", before))):
        return None
    after = moment.text[match.end("weekday") : match.end("weekday") + 2]
    if before.endswith("the ") and len(after) == 2 and after[1].isupper() and not moment.text.isupper():
        return None
    return _WEEKDAYS[word[:3]]


def _bare_weekday(match: re.Match[str], moment: Moment) -> list[Days]:
    """A weekday without "last" or "next". If the text has no tense, a question means the nearest such day.

    A line without a tense means the last such day and the coming one.
    """
    weekday = _weekday(match, moment, led=False)
    if weekday is None:
        return []
    tense = moment.tense(match)
    coming = (weekday - (moment.today - 1)) % 7
    offsets = {PAST: [coming - 7], FUTURE: [coming], OPEN: [coming - 7, coming]}[tense]
    if coming == 0:
        offsets = {PAST: [-7, 0], FUTURE: [0, 7], OPEN: [-7, 0, 7]}[tense]
    if moment.asked and tense == OPEN:
        offsets = [min(offsets, key=abs)]
    return [found for offset in offsets for found in moment.span(offset, offset)]


def _which_weekday(match: re.Match[str], moment: Moment) -> list[Days]:
    """A weekday with "last", "this" or "next".

    "Next Friday" has two meanings, and both days are returned: the coming Friday, and the Friday of next week.
    """
    weekday = _weekday(match, moment, led=True)
    if weekday is None:
        return []
    today, monday = moment.today, week(moment.today)[0]
    which = _OFFSETS[match["which"]]
    if which > 0:
        found = {today + ((weekday - today + 1) % 7 or 7), monday + 7 + weekday}
    elif which < 0:
        found = {today - ((today - 1 - weekday) % 7 or 7), monday - 7 + weekday}
    else:
        found = {monday + weekday}
        if monday + weekday < today and moment.tense(match) != PAST:
            found.add(monday + 7 + weekday)
    return [at for when in sorted(found) for at in days(when, when)]


def _weekday_of_week(match: re.Match[str], moment: Moment) -> list[Days]:
    weekday = _weekday(match, moment, led=True)
    if weekday is None:
        return []
    when = week(moment.today, _OFFSETS[match["which"]])[0] + weekday
    return days(when, when)


def _week_from_weekday(match: re.Match[str], moment: Moment) -> list[Days]:
    weekday = _weekday(match, moment, led=True)
    if weekday is None:
        return []
    when = (weekday - moment.today + 1) % 7 + 7
    return moment.span(when, when)


def _weekday_range(match: re.Match[str], moment: Moment) -> list[Days]:
    """A range of weekdays. "Monday to Friday" without "from" is a habit and means no days."""
    first, last = _WEEKDAYS[match["first"][:3]], _WEEKDAYS[match["last"][:3]]
    if (first, last) == (0, 4) and not match["from"]:
        return []
    start = (first - moment.today + 1) % 7
    if moment.tense(match) == PAST:
        start -= 7
    return moment.span(start, start + (last - first) % 7)


def _weekend(moment: Moment, offset: int) -> list[Days]:
    """Saturday and Sunday of the week that is `offset` weeks after this one. Weeks end on Sunday."""
    sunday = week(moment.today, offset)[1]
    return days(sunday - 1, sunday)


def _bare_weekend(match: re.Match[str], moment: Moment) -> list[Days]:
    if _NOT_A_DAY.search(moment.low[max(0, match.start() - 12) : match.start()]):
        return []
    tense = moment.tense(match)
    before, this, after = (_weekend(moment, offset) for offset in (-1, 0, 1))
    if this and this[0][0] <= moment.today:
        return this + (after if tense == FUTURE else [])
    if tense == OPEN and moment.asked:
        return this
    return {PAST: before, FUTURE: this, OPEN: before + this}[tense]


def _unit(moment: Moment, unit: str, offset: int) -> list[Days]:
    """A whole week, weekend, month, quarter or year. `offset` is 0 for the present one and 1 for the next."""
    if unit == "weekend":
        return _weekend(moment, offset)
    if unit in ("week", "fortnight"):
        first, last = week(moment.today, offset)
        return days(first, last + (7 if unit == "fortnight" else 0))
    if unit == "month":
        return months(moment.year, moment.month + offset)
    if unit == "quarter":
        return months(moment.year, (moment.month - 1) // 3 * 3 + 1 + 3 * offset, 3)
    return years(moment.year + offset)


def _which_unit(match: re.Match[str], moment: Moment) -> list[Days]:
    which, unit = match["which"], match["unit"]
    counted = which in ("past", "coming") or _OVER_THE.search(moment.low, max(0, match.start() - 12), match.start())
    if counted and unit in _SLACK and _OFFSETS[which]:
        return _window(moment, 1, unit, _OFFSETS[which])
    found = _unit(moment, unit, _OFFSETS[which])
    inside = week(moment.today)[1] - 1 <= moment.today
    if unit == "weekend" and which in ("next", "coming") and not inside:
        return _unit(moment, unit, 0) + (found if which == "next" else [])
    return found


def _after_next(match: re.Match[str], moment: Moment) -> list[Days]:
    return _unit(moment, match["unit"], 2 if match["which"] == "next" else -2)


def _part_of_unit(match: re.Match[str], moment: Moment) -> list[Days]:
    which = match["part"] or PARTS[match["of"]]
    found = _unit(moment, match["unit"], _OFFSETS.get(match["which"], 0))
    return [part(at, which) for at in found]


def _rest_of_unit(match: re.Match[str], moment: Moment) -> list[Days]:
    found = _unit(moment, match["unit"], 0)
    if match["side"] == "earlier":
        return [(min(first, moment.today), moment.today) for first, _ in found]
    return [(moment.today, max(last, moment.today)) for _, last in found]


def _count(word: str) -> tuple[int, int]:
    if word.isdigit():
        return int(word), int(word)
    return _COUNTS[" ".join(word.split()).removeprefix("a ").removesuffix(" of")]


def _shifted(moment: Moment, count: int, unit: str) -> int:
    if unit in ("month", "year"):
        return shifted_months(moment.today, count * (12 if unit == "year" else 1))
    return moment.today + count * {"week": 7, "fortnight": 14}.get(unit, 1)


def _ago(match: re.Match[str], moment: Moment) -> list[Days]:
    (least, most), unit = _count(match["n"]), match["unit"]
    slack = _SLACK[unit]
    return days(_shifted(moment, -most, unit) - slack, min(_shifted(moment, -least, unit) + slack, moment.today))


def _ahead(match: re.Match[str], moment: Moment) -> list[Days]:
    """The days of "in two weeks". "We did it in two weeks" and "twice in a week" mean no days."""
    before = moment.low[max(0, match.start() - 12) : match.start()]
    if re.search(r"\b(?:once|twice|times|day|days)\s$", before):
        return []
    if moment.tense(match) == PAST:
        return []
    (least, most), unit = _count(match["n"]), match["unit"]
    slack = _SLACK[unit]
    first = moment.today if match[0].startswith("within") else _shifted(moment, least, unit) - slack
    return days(max(first, moment.today), _shifted(moment, most, unit) + slack)


def _window(moment: Moment, count: int, unit: str, side: int) -> list[Days]:
    end = _shifted(moment, side * count, unit)
    return days(min(moment.today, end), max(moment.today, end))


def _last_or_next_n(match: re.Match[str], moment: Moment) -> list[Days]:
    return _window(moment, _count(match["n"])[1], match["unit"], _OFFSETS[match["side"]])


def _recent_units(match: re.Match[str], moment: Moment) -> list[Days]:
    return _window(moment, _COUNTS["few"][1], match["unit"], 1 if match["side"] == "coming" else -1)


def _other_day(_: re.Match[str], moment: Moment) -> list[Days]:
    return moment.span(-7, -1)


def _asked_weekend(match: re.Match[str], moment: Moment) -> list[Days]:
    return _bare_weekend(match, moment) if moment.asked else []


def _recently(_: re.Match[str], moment: Moment) -> list[Days]:
    return moment.span(-RECENT, 0) if moment.asked else []


def _upcoming(_: re.Match[str], moment: Moment) -> list[Days]:
    return moment.span(0, AHEAD) if moment.asked else []


_W = _WEEKDAY.replace("(?P<weekday>", "(?P<{}>")
_WHICH = r"(?P<which>last|this|next|past|coming|previous|following)"
_FIRST_DAYS = "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun"
_FIRST_WHICH = "last this next past coming previous following"
_FIRST_COUNTS = f"{FIGURES} {' '.join(_COUNTS)}"
RULES: list[Rule] = [
    ("the day", r"\b(?:the\s)?day\s(?:before\syesterday|after\stomorrow)\b", _named),
    ("today tonight tomorrow yesterday last", r"\b(?:today|tonight|tomorrow|yesterday|last\snight)\b", _named),
    ("this", r"\bthis\s(?:morning|afternoon|evening)\b", _named),
    ("a", rf"\ba\sweek\sfrom\s{_WEEKDAY}", _week_from_weekday),
    (_FIRST_WHICH, rf"\b{_WHICH}\sweek(?:'s|\son)?\s{_WEEKDAY}", _weekday_of_week),
    (_FIRST_DAYS, rf"\b{_WEEKDAY}(?:\sof)?\s{_WHICH}\sweek\b", _weekday_of_week),
    (_FIRST_WHICH, rf"\b(?:this\s)?{_WHICH}\s{_WEEKDAY}{_DATE_FOLLOWS}", _which_weekday),
    (
        f"from {_FIRST_DAYS}",
        rf"\b(?P<from>from\s)?{_W.format('first')}(?:\s?-\s?|\s(?:to|through|thru|until|till)\s){_W.format('last')}",
        _weekday_range,
    ),
    (_FIRST_DAYS, rf"\b{_WEEKDAY}{_DATE_FOLLOWS}", _bare_weekday),
    (
        "the weekend week month year",
        r"\b(?:the\s)?(?P<unit>weekend|week|month|year)\s(?:after\s(?P<which>next)|before\slast)\b",
        _after_next,
    ),
    (
        "early mid late beginning start middle end",
        rf"\b{PART_OF}(?P<which>the|this|next|last)\s(?P<unit>week|month|quarter|year)\b",
        _part_of_unit,
    ),
    (
        "later earlier rest",
        r"\b(?P<side>later|earlier|rest\sof)\s(?:this|the)\s(?P<unit>week|month|quarter|year)\b",
        _rest_of_unit,
    ),
    (_FIRST_WHICH, rf"\b(?:this\s)?{_WHICH}\s{_SPELL}", _which_unit),
    ("the", r"\bthe\sweekend\b", _bare_weekend),
    ("weekend", r"\bweekend\b", _asked_weekend),
    ("the", r"\bthe\sother\sday\b", _other_day),
    (_FIRST_COUNTS, rf"\b{_COUNT}\s{{1,3}}{_UNIT}\s{{1,3}}(?:ago|back)\b", _ago),
    (
        "in within",
        rf"\b(?:in|within)\s(?:the\snext\s)?(?:about\s|around\s)?{_COUNT}\s{_UNIT}(?!\s(?:of|old|or)\b|'s)",
        _ahead,
    ),
    (_FIRST_COUNTS, rf"\b{_COUNT}\s{_UNIT}\sfrom\s(?:now|today)\b", _ahead),
    (
        f"the these {_FIRST_WHICH}",
        rf"\b(?:the\s|these\s)?(?P<side>past|last|previous|next|coming|following)\s{_COUNT}\s{_UNIT}",
        _last_or_next_n,
    ),
    ("the past coming recent", r"\b(?:the\s)?(?P<side>past|coming|recent)\s(?P<unit>day|week|month)s\b", _recent_units),
    ("recently lately", r"\b(?:recently|lately)\b", _recently),
    ("upcoming coming", r"\b(?:upcoming|coming\sup)\b", _upcoming),
    ("next", r"(?:(?<=what's\s)|(?<=what\sis\s)|(?<=whats\s))next\b", _upcoming),
    ("next", r"\bnext(?=\s(?!to\b|door\b|of\b|time\b|level\b|best\b|generation\b|step)[a-z])", _upcoming),
]
_OTHER_TRIGGERS = (
    "today tonight tomorrow yesterday weekend day days night nights week weeks fortnight fortnights month months "
    "quarter year years recent recently lately upcoming"
)
TRIGGERS = frozenset(f"{_FIRST_WHICH} {_FIRST_DAYS} {_OTHER_TRIGGERS}".split())
"""A text without any of these words is not searched, because no rule of this grammar can match it."""
