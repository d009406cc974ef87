"""The steps in which Hermes remembers through the gate: wired by one command, it recalls across sessions, within its
cap, and each person's own.

What must be true is read off what reached the model, and off what is kept; never off a reply.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

from demo.chapters.http_server import needs
from demo.hermes_home import (
    COMMENT,
    ME,
    MY_ID,
    PROFILE,
    RUNTIME_OPS,
    SERVED,
    Chats,
    Home,
    Shown,
    person,
    python_of,
)
from demo.stage import Stage
from demo.talk import QUESTION
from strongroom.cli.demo_stage import expect

_WRITES = ("cap", "policy", "plugin", "provider")
_ALLERGY = "By the way, I am allergic to peanuts."
_BOTH = "In Chengdu, ask at the hotel for dishes without peanuts."
_ASKED = "What am I allergic to, and where am I going this weekend?"
_PRIVATE = {"alice": "mimosa-17", "bob": "begonia-28"}
_SHARED = "crocus-39"


def trip(today: date) -> str:
    """The trip, told in passing, with the dates of the weekend that comes."""
    first = today + timedelta(days=(5 - today.weekday()) % 7)
    last = first + timedelta(days=4)
    told = f"my trip to Chengdu is from {first:%B} {first.day} to {last:%B} {last.day}"
    return f"Shorten this text, please; {told}, so it has to be out by Friday."


def wiring(name: str) -> Callable[[Stage], Shown]:
    """The step that makes a home and wires it."""

    def attempt(stage: Stage) -> Shown:
        python = python_of(stage)
        if name == SERVED:
            needs(stage)
        return _wired(Home(stage, name, python))

    return attempt


def _wired(home: Home) -> Shown:
    options = ("--me", f"telegram:{MY_ID}", *(_served(home) if home.name == SERVED else ()))
    home.stage.tell("strongroom wire hermes")
    first = home.wire(*options)
    expect("every step ok", {"ok"}, {step["state"] for step in first["steps"]})
    home.stage.tell("again, and with --check-only")
    with ThreadPoolExecutor(2) as pool:
        again, looked = pool.map(lambda more: home.wire(*options, *more), ((), ("--check-only",)))
    states = {step["name"]: step["state"] for step in again["steps"]}
    expect("nothing left to write", (False, ["skip"] * 4), (again["changed"], [states[name] for name in _WRITES]))
    expect("nothing to find with --check-only", (True, False), (looked["ok"], looked["drift"]))
    expect("the owner's comment kept", True, COMMENT in (home.place / "config.yaml").read_text())
    home.stage.homes[home.name] = home
    shown = ", ".join(f"{step['number']} {step['name']} {step['state']}" for step in first["steps"])
    return shown, first["wall"].partition(": ")[0].partition(". ")[0]


def _served(home: Home) -> tuple[str, ...]:
    """A server with a vault of its own, on a unix socket; what it gives is a cap."""
    home.keeper.mkdir()
    home.keys_work("init")
    cap = home.minted("hermes.cap", "--scope", PROFILE, "--label", "hermes", ops=RUNTIME_OPS)
    command = [sys.executable, "-m", "strongroom", "serve", "--json", "--socket", str(home.root / "socket")]
    surroundings = {"cwd": home.root, "env": home.environment(home.keeper)}
    home.url = home.stage.beside("server-hermes", command, surroundings).hear()["url"]
    return (*home.reach, "--cap-file", cap)


def a_fresh_session_recalls_the_trip(home: Home) -> Shown:
    """Told in passing to `hermes chat`; asked of another process. Nothing of ours lies in clear."""
    said = trip(home.stage.today)
    home.chat(said, "Here it is, shorter.")
    expect("nothing recalled at first", "", home.model.seen(said).recalled)
    home.start()  # it takes a while, and is needed next
    home.chat(QUESTION, "It stands above.")
    recalled = home.model.seen(QUESTION).recalled
    expect("the trip to reach the model", True, said in recalled)
    (line,) = [one for one in recalled.splitlines() if said in one]
    home.trip = line[-27:-1]
    _check_nothing_in_clear(home, "Chengdu", "Shorten this", "weekend")
    return (line,)


def _check_nothing_in_clear(home: Home, *words: str) -> None:
    """No file of ours has a word of it; those of Hermes have, or the search would be worth nothing."""
    places = {home.root / "user", home.keeper}
    expect("no word of it in our files", 0, sum(_found(home, place, *words) for place in places))
    expect("the search to find it in Hermes' own", True, _found(home, home.place, *words) > 0)


def _found(home: Home, place: Path, *words: str) -> int:
    return int(home.stage.attack("find_words", str(place), *words))


def a_cap_for_travel_gets_travel(home: Home) -> Shown:
    """The owner's phone is the same person as the terminal. A reply that mentioned both is as private as either."""
    chats = home.chats()
    chats.say(ME, _ALLERGY, "I keep that in mind.")
    chats.say(ME, "What should I mind on the trip to Chengdu?", _BOTH)
    kept = {line["text"]: line["namespace"] for line in home.lines()}
    said = trip(home.stage.today)
    places = ("travel", "personal", "personal")
    expect("trip, allergy, and the reply with both", places, tuple(map(kept.get, (said, _ALLERGY, _BOTH))))
    expect("both told with the whole cap", (True, True), _told_both(home, chats, f"{_ASKED} All of it, please."))
    with home.with_cap_for("travel"):
        expect("the trip alone told with that for travel", (True, False), _told_both(home, chats, _ASKED))
    return (f'kept in personal: "{_BOTH}"',)


def _told_both(home: Home, chats: Chats, question: str) -> tuple[bool, bool]:
    """Whether the trip and the allergy reach the model in a new session."""
    chats.say(ME, "/new")
    chats.say(ME, question)
    told = home.model.seen(question).everything
    return trip(home.stage.today) in told, "peanuts" in told


def people_stay_apart(home: Home) -> None:
    """Two people at once in one process, and the thread that both read."""
    chats = home.chats()
    people = {name: person(name) for name in _PRIVATE}
    thread = {name: person(name, chat="-5", type="group", thread="77") for name in _PRIVATE}
    asks = {name: f"Which number has the locker, asks {name}?" for name in people}
    chats.together(
        *({**people[name], "text": f"My locker has the number {number}."} for name, number in _PRIVATE.items())
    )
    chats.say(thread["alice"], f"The locker for the picnic has the number {_SHARED}.")
    chats.together(*({**who, "text": "/new"} for who in (*people.values(), thread["bob"])))
    chats.together(*({**people[name], "text": asks[name]} for name in people))
    chats.say(thread["bob"], "Which number has the locker here?")
    numbers = {*_PRIVATE.values(), _SHARED}
    for name, question in {**asks, "the thread": "Which number has the locker here?"}.items():
        told = home.model.seen(question).everything
        own = {_PRIVATE.get(name, _SHARED)}
        expect(f"their own number for {name}, and no other", own, {one for one in numbers if one in told})
