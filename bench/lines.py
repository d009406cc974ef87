"""Lines that look like what people tell an agent, and questions about them: no two alike, the same in every run.

Most are ordinary talk (bench/filler.py); one in four has a date, a place or a number in it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice

from bench import filler
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
_QUESTIONS: Sequence[str] = (
    "What did {name} say about the {thing}?",
    "When was the {thing} {verb}?",
    "Who {verb} the {thing} in {place}?",
    "Where did I leave the <like> <thing> and the <thing>?",
    "How much did the {thing} in {place} cost?",
    "Is {name} still {feeling} about the {thing}?",
    "What does <tail> know about <subject>?",
    "What happened in {place} on {date}?",
    "Did my <person> ever <do> the <thing> near the <place>?",
    "Why was {name} {feeling} last month?",
)
_DATED = 0.25
_FACTS = 100_000
"""So many numbers of facts belong to one seed."""
_START = datetime(2025, 3, 1, 8, tzinfo=UTC)


def texts(seed: int) -> Iterator[str]:
    """What is said in one turn, without end: 40 to 280 characters, half of them above 100, never the same twice."""
    pick, talk = random.Random(seed), filler.Talk(seed)
    seen: set[str] = set()
    while True:
        text = _filled(pick, pick.choice(_SHAPES)) if pick.random() < _DATED else talk.line()
        if text not in seen:
            seen.add(text)
            yield text


def facts(seed: int) -> Iterator[str]:
    """Facts of twelve words, each with a number of its own, without end: all worded alike, as notes of one sort are."""
    pick = random.Random(seed)
    for number in count(seed * _FACTS + 1):
        name, thing, place = pick.choice(_NAMES), pick.choice(_THINGS), pick.choice(_PLACES)
        yield f"Fact number {number} is that {name} keeps the {thing} in {place} now."


def of_size(seed: int, size: int) -> Iterator[str]:
    """Texts of exactly `size` bytes."""
    source = texts(seed)
    while True:
        text = next(source)
        while len(text) < size:
            text += " " + next(source)
        yield text[:size]


def lines(seed: int, most: int, source: Iterator[str] | None = None) -> Iterator[NewLine]:
    """New lines in sessions of ten, seconds apart within a session, about an hour from one to the next."""
    pick = random.Random(seed)
    time = _START
    pair: Sequence[str] = ()
    for number, text in enumerate(islice(source or texts(seed), most)):
        time += timedelta(seconds=pick.randint(20, 90))
        if number % filler.SESSION == 0:
            time += timedelta(minutes=pick.randint(20, 120))
            pair = pick.choice(filler.PAIRS)
        yield NewLine(
            text=text,
            session=f"chat-{seed}-{number // filler.SESSION}",
            author=pair[number % 2],
            time=time,
            kind="turn",
        )


def after(known: Iterable[NewLine]) -> datetime:
    """An hour after the last of these lines: when questions about them are asked."""
    return max(line.time for line in known if line.time is not None) + timedelta(hours=1)


def questions(most: int) -> list[str]:
    """Questions of several forms about such lines; some of their words are in many lines and some in few."""
    pick, talk = random.Random(most), filler.Talk(most)
    return [_filled(pick, _asking(talk, _QUESTIONS[number % len(_QUESTIONS)])) for number in range(most)]


def about_facts(number: int) -> list[str]:
    """Questions that name the number of one of the first `number` facts that `facts(1)` gives."""
    first = _FACTS + 1
    asked = random.Random(number).sample(range(first, first + number), number)
    return [f"What was fact number {one} about?" for one in asked]


def _asking(talk: filler.Talk, shape: str) -> str:
    """A question with its words of ordinary talk, which are written <so>, filled in."""
    return re.sub(r"<(\w+)>", lambda slot: talk.word(slot[1]), shape)


def _filled(pick: random.Random, shape: str) -> str:
    return shape.format(
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
