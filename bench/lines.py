"""Lines that look like what people tell an agent: no two alike, the same in every run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from strongroom import NewLine


def _words(text: str) -> list[str]:
    return text.split()


_NAMES = _words("""
    Alice Amir Anna Bao Carla Chen Dana Diego Elif Emma Farid Greta Hana Ivan Jonas Kaito Lena Luca Mara Milan Nadia
    Noor Oskar Paula Priya Rafael Rosa Sami Sofia Tariq Theo Uma Viktor Wanda Yara Zoe
""")
_PLACES = _words("""
    Chengdu Lisbon Oslo Kyoto Nairobi Lima Tallinn Porto Hanoi Split Tromso Quito Ghent Busan Malaga Riga Cork Basel
    Leipzig Taipei Bergen Turin Aarhus Medellin Granada Bristol Sapporo Valletta Utrecht Ljubljana
""")
_THINGS = _words("""
    passport bicycle invoice sourdough telescope garden kayak dentist violin marathon printer mortgage sofa laptop
    vaccine ferry museum recipe lease camera puzzle choir thesis boiler tent budget piano allotment podcast roof
""")
_VERBS = _words("""
    booked cancelled moved repaired finished painted ordered returned discussed borrowed signed collected planned
    shipped renewed cleaned measured promised sold tested
""")
_FEELINGS = _words("""
    relieved tired curious worried delighted annoyed hopeful surprised grateful nervous proud unsure
""")
_REASONS = (
    "weather turned",
    "price went up",
    "old one broke",
    "school asked for it",
    "train was late",
    "doctor advised it",
    "deadline moved",
    "neighbours complained",
)
_MONTHS = ("January", "March", "May", "June", "August", "October", "December")
_SHAPES: Sequence[str] = (
    "{name} {verb} the {thing} in {place} on {date} and paid {number} euros, because the {reason}.",
    "Remember that {name} is {feeling} about the {thing}; call back before {date}, extension {number}.",
    "On {date} I {verb} a {thing} with {name} near {place}. It took {number} minutes and I felt {feeling}.",
    "The {thing} for {place} is due {date}: {name} {verb} the first part, reference {number}.",
    "{name} told me the {thing} in {place} was {verb} twice; the {reason}, so keep {number} until {date}.",
    "Flight to {place} with {name} on {date}, seat {number}, and the {thing} goes as hold luggage.",
    "{name} has been {feeling} since {date}: the {thing} cost {number} more than {other} said it would in {place}.",
    "I asked {other} whether {name} {verb} the {thing}; no, the {reason}. Ask again on {date}, room {number}.",
)
_RARE = 5
_START = datetime(2025, 3, 1, 8, tzinfo=UTC)


def texts(seed: int) -> Iterator[str]:
    """Sentences of 60 to 200 characters without end, never the same twice."""
    pick = random.Random(seed)
    seen: set[str] = set()
    while True:
        text = " ".join(_sentence(pick) for _ in range(pick.choice((1, 1, 1, 2))))
        if text not in seen:
            seen.add(text)
            yield text


def of_size(seed: int, size: int) -> Iterator[str]:
    """Texts of exactly `size` bytes."""
    source = texts(seed)
    while True:
        text = next(source)
        while len(text) < size:
            text += " " + next(source)
        yield text[:size]


def lines(seed: int, count: int, source: Iterator[str] | None = None) -> Iterator[NewLine]:
    """New lines, a few minutes apart and about twenty to a session."""
    pick = random.Random(seed)
    time = _START
    for number, text in enumerate(islice(source or texts(seed), count)):
        time += timedelta(seconds=pick.randint(20, 900))
        yield NewLine(
            text=text,
            session=f"chat-{seed}-{number // 20}",
            author=pick.choice(("user", "agent")),
            time=time,
            kind="turn",
        )


def rare_queries(known: Sequence[str], count: int) -> list[str]:
    """Phrases of four words that hardly any of `known` contains, so that nobody can stop looking early."""
    pick = random.Random(len(known))
    everything = "\n".join(known).casefold()
    found: list[str] = []
    while len(found) < count:
        words = pick.choice(known).split()
        at = pick.randrange(len(words) - 3)
        phrase = " ".join(words[at : at + 4])
        if everything.count(phrase.casefold()) < _RARE:
            found.append(phrase)
    return found


def _sentence(pick: random.Random) -> str:
    return pick.choice(_SHAPES).format(
        name=pick.choice(_NAMES),
        other=pick.choice(_NAMES),
        place=pick.choice(_PLACES),
        thing=pick.choice(_THINGS),
        verb=pick.choice(_VERBS),
        feeling=pick.choice(_FEELINGS),
        reason=pick.choice(_REASONS),
        number=pick.randint(2, 9999),
        date=f"{pick.choice(_MONTHS)} {pick.randint(1, 28)}",
    )
