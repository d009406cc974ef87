"""What the demonstration's person says in a year: one trip, one allergy, and 500 ordinary lines around them.

Every ordinary line has the words "going" and "weekend", and none is said twice. Those of the last weeks before the
question name no day: one that spoke of the same weekend would be a true answer. Pure; the same for the same `now`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from strongroom.model import NewLine

TRIP = "trip to Chengdu, May 25-29"
ALLERGY = "allergic to peanuts"
QUESTION = "where am I going this weekend?"
QUESTION_IN_CHINESE = "这个周末我要去哪里？"
AUTHOR = "alice"

LINES = 500
PER_SESSION = 5
_YEAR = 364
_SAID_BEFORE = timedelta(days=60)
_UNDATED = timedelta(days=24)
_SHELVES = ("travel",) * 15 + ("personal",) * 4 + ("family",) * 3 + ("work",) * 3
"""Most of them share the trip's namespace, so that the trip is hidden there too, and ends up in an index page."""

_WHO = "my sister|our neighbour|the plumber|Jonas|Priya|my boss|uncle Ted|the band|our coach|Mei|the landlord|Oskar"
_DO = "paint|sell|mend|clean|move|photograph|borrow|pack|measure|sort|give back|wrap"
_THING = "the old sofa|the bicycles|the fence|two lamps|the tent|the piano|the garden chairs|the kettle|the bookshelf"
_PLACE = "the lake|the library|the market|the harbour|the castle|the climbing hall|the allotment|the museum|the mill"
_LISTS = {"who": _WHO.split("|"), "do": _DO.split("|"), "thing": _THING.split("|"), "place": _PLACE.split("|")}

_ANY_DAY = (
    "Nobody is going to {do} {thing} on a weekend, least of all {who}.",
    "{who} keeps going on about {place}; a quiet weekend would do me good.",
    "Is {who} really going to {do} {thing} in a single weekend?",
    "I am not going to {do} {thing} on yet another weekend.",
    "Going to {place} with {who} every weekend is too much for me.",
    "We are going through {thing} that {who} left at {place}, one weekend after the other.",
)
_SOME_DAY = (
    "I am going to {place} with {who} this weekend.",
    "This weekend {who} and I are going to {do} {thing}.",
    "I was going to {do} {thing} last weekend, but {who} needed me at {place}.",
    "Next weekend we are going to {place}, and {who} will {do} {thing}.",
    "{who} is going to {do} {thing} at {place} over the weekend.",
)


def trip_year(today: date) -> int:
    """The year of the next May 25-29 that is not over yet."""
    return today.year if today <= date(today.year, 5, 29) else today.year + 1


def asked(year: int) -> datetime:
    """When the question is asked: nine o'clock on the Monday of the week in which the trip begins."""
    begins = datetime(year, 5, 25, 9, tzinfo=UTC)
    return begins - timedelta(days=begins.weekday())


def said(now: datetime) -> datetime:
    """When the trip and the allergy are told."""
    return now - _SAID_BEFORE


def ordinary_lines(now: datetime) -> list[NewLine]:
    """The 500 lines, oldest first, in sessions of five, spread over the year that ends with the question."""
    texts = {True: _texts(_ANY_DAY), False: _texts(_ANY_DAY + _SOME_DAY)}
    seen: set[str] = set()
    lines: list[NewLine] = []
    for number in range(LINES):
        time = _time(now, number)
        text = next(text for text in texts[now - time < _UNDATED] if text not in seen)
        seen.add(text)
        session = f"day-{number // PER_SESSION:03}"
        namespace = _SHELVES[number % len(_SHELVES)]
        lines.append(NewLine(text=text, namespace=namespace, session=session, author=AUTHOR, kind="turn", time=time))
    return lines


def _time(now: datetime, number: int) -> datetime:
    """The last session is a few hours before the question, the first a year."""
    session, turn = divmod(number, PER_SESSION)
    sessions = LINES // PER_SESSION
    return now - timedelta(days=_YEAR * (sessions - 1 - session) / sessions, hours=3, minutes=PER_SESSION - turn)


def _texts(shapes: tuple[str, ...]) -> Iterator[str]:
    chance = random.Random(len(shapes))  # noqa: S311 - the same talk in every run; nothing depends on its secrecy
    while True:
        text = chance.choice(shapes).format(**{name: chance.choice(words) for name, words in _LISTS.items()})
        yield text[0].upper() + text[1:]
