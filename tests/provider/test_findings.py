"""What an attack on the provider found, each finding as it was shown, so that it stays closed."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import errors
from strongroom.errors import InvalidRequest, StoreUnavailable, StrongroomError
from strongroom.memory import Memory
from strongroom.model import Actor, Millis
from strongroom.provider import manners, serving, sessions, spool, status, storing
from strongroom.provider.home import Home
from strongroom.provider.hooks.binding import Bound
from strongroom.provider.hooks.payload import Payload
from strongroom.provider.manners import Asked
from strongroom.provider.speaking import Conversation, Nobody, Speaker, name_of, who
from strongroom.provider.spool import Entry, Outcome, Spool, drained
from strongroom.wiring import capfile, runtimecap
from strongroom.wiring import policy as policies
from tests.provider.conftest import ALLERGY, DM, OWNER, SCOPE, TRIP, Served, Wired, history, say

ALICE, BOB = f"{SCOPE}telegram/100", f"{SCOPE}telegram/200"
BOBS: dict[str, Any] = {**DM, "user_id": "200", "chat_id": "200"}
CHAT: dict[str, Any] = {**DM, "gateway_session_key": "agent:main:telegram:dm:100"}
JOINED = '[people]\nme = ["telegram:100"]\n'
FLIGHT = "My flight to Rome is on May 5"
OFF = "this conversation is off the record"


def said(wired: Wired, actor: str = OWNER) -> list[str]:
    """What people said."""
    return [hit.text for hit in wired.lines(actor) if hit.author != "assistant"]


def namespace_of(wired: Wired, part: str, actor: str = OWNER) -> str:
    (found,) = [hit.namespace for hit in wired.lines(actor) if part in hit.text]
    return found


# Slack calls a conversation of several people direct.


SLACK: dict[str, Any] = {"platform": "slack", "user_id": "UALICE", "chat_type": "dm"}


@pytest.mark.requirement("hermes-shared")
@pytest.mark.parametrize("chat", ["G0123", "C0123", "g0123", "dm0123"])
@pytest.mark.parametrize("joined", ["", '[people]\nme = ["slack:UALICE"]\n'])
def test_a_slack_conversation_of_several_is_shown_nobodys_own_memory(wired: Wired, chat: str, joined: str) -> None:
    wired.write(joined)
    say(wired.agent("d", **SLACK, chat_id="D1", gateway_session_key="agent:main:slack:dm:D1"), ALLERGY)
    group = wired.agent("g", **SLACK, chat_id=chat, gateway_session_key=f"agent:main:slack:dm:{chat}:17")
    assert group.prefetch("what about my peanut allergy") == ""
    say(group, "We meet at nine")
    alone = OWNER if joined else strongroom.actor_path("hermes", "default", "slack", "UALICE")
    assert said(wired, alone) == [ALLERGY]
    assert said(wired, strongroom.actor_path("hermes", "default", "slack", "chat", chat)) == ["We meet at nine"]


# A history that Hermes could not read.


def hermes_record(wired: Wired, *rows: tuple[str, int, int, float]) -> None:
    """Hermes' record of what was said in s1: text, whether it is active, whether it was compacted, and when."""
    database = sqlite3.connect(wired.path / "state.db")
    with database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT,"
            " active INTEGER, compacted INTEGER, timestamp REAL)"
        )
        database.execute("DELETE FROM messages")
        database.executemany(
            "INSERT INTO messages (session_id, role, content, active, compacted, timestamp)"
            " VALUES ('s1', 'user', ?, ?, ?, ?)",
            rows,
        )
    database.close()


FIVE = [f"Trip {number} is on May {number}" for number in range(1, 6)]


@pytest.fixture
def talked(wired: Wired) -> Wired:
    """A chat in which five things were said."""
    agent = wired.agent("s1", **CHAT)
    for number in range(5):
        say(agent, FIVE[number], messages=history(*FIVE[: number + 1]))
    assert said(wired, ALICE) == FIVE
    return wired


@pytest.mark.requirement("hermes-undo")
def test_an_empty_history_takes_back_one_turn_at_most(talked: Wired) -> None:
    say(talked.agent("s1", **CHAT), "hello", messages=history("hello"))
    assert said(talked, ALICE) == [*FIVE[:4], "hello"]


@pytest.mark.requirement("hermes-undo")
@pytest.mark.parametrize("left", [(), FIVE[:4], FIVE[:2]])
def test_what_hermes_does_not_call_undone_is_not_forgotten(talked: Wired, left: tuple[str, ...]) -> None:
    hermes_record(talked, *((text, 1, 0, time.time()) for text in FIVE))
    say(talked.agent("s1", **CHAT), "hello", messages=history(*left, "hello"))
    assert said(talked, ALICE) == [*FIVE, "hello"]


@pytest.mark.requirement("hermes-undo")
def test_what_a_compression_dropped_is_not_forgotten(talked: Wired) -> None:
    hermes_record(talked, *((text, 0, 1, time.time()) for text in FIVE))
    say(talked.agent("s1", **CHAT), "hello", messages=history("hello"))
    assert said(talked, ALICE) == [*FIVE, "hello"]


@pytest.mark.requirement("hermes-undo")
def test_a_record_that_cannot_be_read_takes_nothing_back(talked: Wired) -> None:
    (talked.path / "state.db").write_bytes(b"no database at all, " * 100)
    say(talked.agent("s1", **CHAT), "hello", messages=history("hello"))
    assert said(talked, ALICE) == [*FIVE, "hello"]


@pytest.mark.requirement("hermes-undo")
@pytest.mark.parametrize("kept", [0, 3])
def test_what_hermes_calls_undone_is_forgotten(talked: Wired, kept: int) -> None:
    hermes_record(talked, *((text, int(number < kept), 0, time.time()) for number, text in enumerate(FIVE)))
    say(talked.agent("s1", **CHAT), "hello", messages=history(*FIVE[:kept], "hello"))
    assert said(talked, ALICE) == [*FIVE[:kept], "hello"]


@pytest.mark.requirement("hermes-undo")
def test_words_that_were_undone_and_said_again_stay_after_a_restart(wired: Wired) -> None:
    """The first was undone; the second was kept, and is in a summary by now."""
    say(wired.agent("s1", **CHAT), TRIP, messages=history(TRIP))
    now = time.time()
    hermes_record(wired, (TRIP, 0, 0, now - 60), (TRIP, 0, 1, now))
    wired.forget_process()
    summed = history("[CONTEXT COMPACTION] The trip was noted.", "hello again")
    say(wired.agent("s1", **CHAT), "hello again", messages=summed)
    assert TRIP in said(wired, ALICE)


@pytest.mark.requirement("hermes-undo")
def test_words_that_were_undone_and_said_again_stay_when_the_history_is_empty(wired: Wired) -> None:
    agent = wired.agent("s1", **CHAT)
    say(agent, TRIP, messages=history(TRIP))
    now = time.time()
    hermes_record(wired, (TRIP, 0, 0, now - 60), (TRIP, 1, 0, now))
    say(agent, "hello", messages=history("hello"))
    assert said(wired, ALICE) == [TRIP, "hello"]


@pytest.mark.requirement("hermes-undo")
def test_of_two_turns_of_the_same_words_the_one_that_was_undone_goes(wired: Wired) -> None:
    """Nobody noticed the undo before the restart, and the other of the two is in a summary by now."""
    agent = wired.agent("s1", **CHAT)
    say(agent, "go on", "first")
    say(agent, "go on", "second")
    first, second = [hit.time.timestamp() for hit in wired.lines(ALICE) if hit.text == "go on"]
    hermes_record(wired, ("go on", 0, 1, first + 0.001), ("go on", 0, 0, second + 0.001))
    wired.forget_process()
    summed = history("[CONTEXT COMPACTION] It went on.", "hello again")
    say(wired.agent("s1", **CHAT), "hello again", messages=summed)
    assert wired.texts(ALICE) == ["go on", "first", "hello again", "Noted."]


# One person's erasure.


def both_wait(remote: Served) -> None:
    """Alice and Bob each say something while the server is down."""
    remote.stop()
    say(remote.agent("a", **DM), "Alice flies to Oslo")
    say(remote.agent("b", **BOBS), "Bob flies to Bonn")
    assert remote.waiting() == 2
    remote.start()


@pytest.mark.requirement("hermes-erased")
@pytest.mark.parametrize("cap", ["same", "renewed"])
def test_an_erased_persons_waiting_turns_go_and_those_of_the_others_are_delivered(remote: Served, cap: str) -> None:
    say(remote.agent("a", **DM), "Alice flies to Rome")
    both_wait(remote)
    remote.vault.erase(ALICE)
    if cap == "renewed":
        remote.home.parts.caps.renew(remote.home.way)
    say(remote.agent("b", **BOBS), "hello")
    assert said(remote, BOB) == ["Bob flies to Bonn", "hello"]
    assert said(remote, ALICE) == []
    assert remote.waiting() == 0
    assert remote.files(".turn") == remote.files(".refused") == []


@pytest.mark.requirement("hermes-erased")
def test_what_an_erased_person_took_back_holds_up_nobody(remote: Served) -> None:
    alice = remote.agent("s1", **DM)
    say(alice, "Alice flies to Rome")
    remote.stop()
    undo(remote, alice)
    say(remote.agent("b", **BOBS), "Bob flies to Bonn")
    remote.start()
    remote.vault.erase(ALICE)
    remote.agent("c")
    assert (remote.waiting(), said(remote, BOB)) == (0, ["Bob flies to Bonn"])


@pytest.mark.requirement("hermes-erased")
def test_what_an_erased_person_says_is_not_left_in_the_spool(either: Wired) -> None:
    agent = either.agent("a", **DM)
    say(agent, "Alice flies to Rome")
    either.vault.erase(ALICE)
    say(agent, "Alice flies to Oslo")
    assert either.waiting() == 0
    assert either.files(".draft") == []
    assert said(either, ALICE) == []
    assert either.problems()["keeping"] == "cap_revoked"


@pytest.mark.requirement("hermes-spool")
def test_a_revoked_cap_of_the_runtime_costs_nobody_a_waiting_turn(remote: Served) -> None:
    both_wait(remote)
    runtimecap.revoke(remote.vault, capfile.read(remote.cap))
    say(remote.agent("b", **BOBS), "hello")
    assert remote.waiting() == 3
    capfile.write(remote.cap, capfile.mint(remote.vault, SCOPE, remote.vault.namespaces))
    say(remote.agent("b", **BOBS), "hello again")
    assert said(remote, ALICE) == ["Alice flies to Oslo"]
    assert said(remote, BOB) == ["Bob flies to Bonn", "hello", "hello again"]


@pytest.mark.requirement("hermes-spool")
def test_a_new_cap_that_comes_between_refusal_and_question_costs_no_turn(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent("a", **DM)
    runtimecap.revoke(remote.vault, capfile.read(remote.cap))
    say(agent, "Alice flies to Oslo")
    real = storing._is_voided

    def wired_again(*args: Any) -> bool:
        capfile.write(remote.cap, capfile.mint(remote.vault, SCOPE, remote.vault.namespaces))
        return real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(storing, "_is_voided", wired_again)
        remote.agent("b", **BOBS)
        say(agent, "Alice flies to Bonn")
    say(agent, "hello")
    assert sorted(said(remote, ALICE)) == ["Alice flies to Bonn", "Alice flies to Oslo", "hello"]


# What is refused for good, and what passes.


FOR_GOOD = {
    errors.InvalidRequest,
    errors.LineTooLarge,
    errors.TooMany,
    errors.BodyTooLarge,
    errors.CapLimitExceeded,
    errors.Conflict,
    errors.LineConflict,
    errors.VersionConflict,
}
"""What is wrong with a turn itself."""


def _every(kind: type[StrongroomError] = StrongroomError) -> Iterator[type[StrongroomError]]:
    for one in kind.__subclasses__():
        if one.__module__ == errors.__name__:
            yield one
            yield from _every(one)


@pytest.mark.requirement("hermes-spool")
def test_a_waiting_turn_is_set_aside_only_for_what_is_wrong_with_itself(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wait(remote)
    every = set(_every())
    aside = {error for error in every if _refused_with(error, remote, monkeypatch)}
    assert aside == FOR_GOOD
    assert len(every) > 40, "the table is of all errors there are"
    remote.agent("last")
    assert (said(remote, ALICE), said(remote, BOB)) == (["Alice flies to Oslo"], ["Bob flies to Bonn"])


def _refused_with(error: type[StrongroomError], remote: Served, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether turns are set aside when each delivery is refused so; they wait again afterwards."""

    def refuse(_self: Memory, _sealed: bytes) -> None:
        raise error("no")

    remote.rest()
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "deliver", refuse)
        patched.setattr(storing, "_is_voided", lambda *_: False)
        remote.agent("c")
    found = {problem: reason for problem, reason in remote.problems().items() if problem.startswith("delivering")}
    assert error.reason in found.values()
    aside = remote.files(".refused")
    assert len(aside) + remote.waiting() == 2
    for one in aside:
        one.rename(one.with_suffix(".turn"))
    remote.rest()
    return bool(aside)


@pytest.mark.requirement("hermes-spool")
def test_a_cap_that_was_narrowed_for_a_while_makes_one_person_wait_and_not_the_others(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wait(remote)
    real = serving.ask

    def narrow(home: Any, actor: Actor, use: Any, **more: Any) -> Any:
        if actor == ALICE:
            raise errors.CapNamespaceDenied("not now")
        return real(home, actor, use, **more)

    with monkeypatch.context() as patched:
        patched.setattr(storing, "ask", narrow)
        remote.agent("c")
        assert (remote.waiting(), said(remote, BOB)) == (1, ["Bob flies to Bonn"])
    remote.agent("d")
    assert (remote.waiting(), said(remote, ALICE)) == (0, ["Alice flies to Oslo"])


def test_a_persons_undo_does_not_overtake_their_turns_that_have_to_wait(tmp_path: Path) -> None:
    held = Spool(tmp_path, 1 << 20)
    held.add(Actor(ALICE), b"one", Millis(1))
    held.add_forgetting(Actor(ALICE), ["an id"], Millis(2))
    held.add_forgetting(Actor(BOB), ["another"], Millis(3))
    tried: list[Entry] = []

    def deliver(entry: Entry) -> Outcome:
        tried.append(entry)
        return Outcome.DONE if entry.ids else Outcome.LATER

    assert drained(held, deliver) == 1
    assert [(entry.actor, entry.ids) for entry in tried] == [(ALICE, ()), (BOB, ("another",))]
    assert [entry.ids for entry in held.entries()] == [(), ("an id",)]


@pytest.mark.requirement("hermes-spool")
def test_a_turn_is_not_held_up_by_all_that_waits(remote: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[Callable[[], object]] = []
    agent = remote.agent()
    remote.stop()
    for number in range(5):
        say(agent, f"turn {number}")
    remote.start()
    monkeypatch.setattr(storing, "AT_ONCE", 2)
    monkeypatch.setattr(Home, "later", lambda _self, work: later.append(work))
    say(agent, "hello")
    assert said(remote) == ["turn 0", "turn 1", "hello"]
    while later:
        later.pop(0)()
    assert said(remote) == [*(f"turn {number}" for number in range(5)), "hello"]
    assert remote.waiting() == 0


@pytest.mark.parametrize("suffix", [".turn", ".forget"])
def test_what_a_killed_process_left_half_written_is_tidied_away(tmp_path: Path, suffix: str) -> None:
    held = Spool(tmp_path, 1 << 20)
    held.add(Actor(ALICE), b"one", Millis(1))
    half = tmp_path / f".{'0' * 26}-{'a' * 16}{suffix}-x1y2z3"
    half.write_bytes(b"half of it")
    held.adopt()
    assert not half.exists()
    assert len(list(held.entries())) == 1


# What stands in the spool and is none of ours.


@pytest.mark.requirement("hermes-spool")
@pytest.mark.parametrize("suffix", [".turn", ".forget"])
@pytest.mark.parametrize("odd", ["pipe", "directory", "endless", "nowhere", "text"])
def test_nothing_that_lies_in_the_spool_holds_up_a_turn(remote: Served, odd: str, suffix: str) -> None:
    agent = remote.agent()
    remote.stop()
    say(agent, TRIP)
    place = remote.spool / f"{'0' * 26}-1{suffix}"
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(place),
        "directory": place.mkdir,
        "endless": lambda: place.symlink_to("/dev/zero"),
        "nowhere": lambda: place.symlink_to("/nowhere/at/all"),
        "text": lambda: place.write_bytes(b"not ours"),
    }
    make[odd]()
    remote.start()
    say(agent, "hello")
    assert said(remote) == [TRIP, "hello"]
    assert remote.waiting() == 0
    assert remote.home.parts.spool.aside() == 1


@pytest.mark.requirement("hermes-never-silent")
def test_a_spool_that_cannot_be_read_is_said_and_nothing_is_set_aside(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wait(remote)

    def broken(_handle: int) -> bytes:
        os.close(_handle)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(spool, "_content", broken)
        remote.agent("c")
        assert remote.problems()["delivering"] == "store_unavailable"
        assert (remote.waiting(), remote.home.parts.spool.aside()) == (2, 0)
    remote.agent("d")
    assert remote.waiting() == 0
    assert "delivering" not in remote.problems()


# The owner says who is who while a conversation goes on.


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize("restarted", [False, True])
def test_off_the_record_outlasts_a_change_of_who_is_who(wired: Wired, restarted: bool) -> None:
    agent = wired.agent(**CHAT)
    say(agent, OFF)
    wired.write(JOINED)
    if restarted:
        wired.forget_process()
        agent = wired.agent(**CHAT)
    say(agent, "I am leaving my job")
    assert said(wired) == said(wired, ALICE) == []
    say(agent, "we are back on the record")
    say(agent, TRIP)
    assert TRIP in said(wired)


@pytest.mark.requirement("hermes-taint-durable")
@pytest.mark.parametrize("restarted", [False, True])
def test_how_private_a_conversation_is_outlasts_a_change_of_who_is_who(wired: Wired, restarted: bool) -> None:
    agent = wired.agent(**CHAT)
    say(agent, ALLERGY)
    wired.write(JOINED)
    if restarted:
        wired.forget_process()
        agent = wired.agent(**CHAT)
    say(agent, FLIGHT, "Your flight: beware of the nuts")
    assert namespace_of(wired, "beware") == "personal"
    assert namespace_of(wired, "flight to Rome") == "travel"


@pytest.mark.requirement("hermes-people")
def test_what_was_said_as_one_person_is_not_taken_back_as_another(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    say(agent, "said as myself")
    wired.write(JOINED)
    say(agent, "said as the owner")
    agent.on_session_switch("s1", rewound=True)
    assert (said(wired, ALICE), said(wired)) == (["said as myself"], [])


# A history of which nothing is known.


@pytest.mark.requirement("hermes-taint-durable")
@pytest.mark.parametrize("lost", ["all", "one"])
def test_a_history_of_which_nothing_is_known_may_hold_anything(wired: Wired, lost: str) -> None:
    wired.write("[recall]\nlines = 0")
    say(wired.agent(), ALLERGY)
    wired.forget_process()
    if lost == "all":
        shutil.rmtree(wired.state / "sessions")
    else:
        (found,) = (wired.state / "sessions").glob("*.json")
        found.unlink()
    agent = wired.agent()
    say(agent, FLIGHT, "Your flight: beware of the nuts", messages=history(ALLERGY, FLIGHT))
    assert namespace_of(wired, "beware") == "personal"
    say(agent, FLIGHT, "The flight leaves at nine", messages=history(ALLERGY, FLIGHT, FLIGHT))
    assert namespace_of(wired, "at nine") == "personal"


def test_a_conversation_that_begins_or_is_known_is_not_made_more_private(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, FLIGHT, "Your flight, noted", messages=history(FLIGHT))
    say(agent, FLIGHT, "Your flight, once more", messages=history(FLIGHT, FLIGHT))
    wired.forget_process()
    say(wired.agent(), FLIGHT, "Your flight, again", messages=history(FLIGHT, FLIGHT, FLIGHT))
    assert {hit.namespace for hit in wired.lines()} == {"travel"}


@pytest.mark.requirement("hermes-taint")
def test_what_was_shown_counts_also_where_the_turn_is_told_under_another_id(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    agent.on_turn_start(1, FLIGHT)
    assert "peanut" in agent.prefetch("what about my peanut allergy")
    agent.sync_turn(FLIGHT, "Your flight: beware of the nuts", session_id="another")
    assert namespace_of(wired, "beware") == "personal"


# An undo while the server is away.


def undo(wired: Wired, agent: Any) -> None:
    agent.on_session_switch("s1", parent_session_id="", reset=False, rewound=True)
    assert wired.problems()["taking a turn back"] == "server_unavailable"


@pytest.mark.requirement("hermes-undo")
def test_an_undo_while_the_server_is_away_outlasts_the_process(remote: Served) -> None:
    agent = remote.agent()
    say(agent, "one")
    say(agent, TRIP)
    remote.stop()
    undo(remote, agent)
    assert len(remote.files(".forget")) == 1
    remote.forget_process()
    remote.start()
    remote.agent("s2")
    assert said(remote) == ["one"]
    assert remote.files(".forget") == []
    assert remote.problems() == {}


@pytest.mark.requirement("hermes-spool-sealed")
def test_what_waits_to_be_forgotten_says_nothing(remote: Served) -> None:
    agent = remote.agent()
    say(agent, TRIP)
    ids = {hit.id for hit in remote.lines()}
    remote.stop()
    undo(remote, agent)
    (found,) = remote.files(".forget")
    content = found.read_bytes()
    assert all(one.encode() in content for one in ids)
    assert b"Chengdu" not in content
    assert found.stat().st_mode & 0o077 == 0


@pytest.mark.requirement("hermes-undo")
def test_an_undo_that_waits_takes_nothing_of_what_is_said_after_it(remote: Served) -> None:
    agent = remote.agent()
    say(agent, TRIP)
    remote.stop()
    undo(remote, agent)
    say(agent, TRIP)
    assert remote.waiting() == 2
    remote.forget_process()
    remote.start()
    remote.agent("s2")
    assert said(remote) == [TRIP]
    assert remote.waiting() == 0


@pytest.mark.requirement("hermes-undo")
def test_an_undo_that_cannot_be_written_down_is_done_with_a_later_turn(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent()
    say(agent, TRIP)
    remote.stop()

    def full(*_: object) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "add_forgetting", full)
        agent.on_session_switch("s1", rewound=True)
    remote.start()
    say(agent, "hello")
    assert said(remote) == ["hello"]


# Keeping goes on only where that is asked for plainly.


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize(
    "text",
    [
        "I'll tell you when we're back on the record",
        "don't go back on the record yet",
        "what does back on the record mean",
        "are we back on the record?",
        "Never say that you can remember again",
        "We are back on the record once my lawyer has read all of this and agreed to it in writing",
        "we aren't back on the record",
        "I can\u2019t say that you can remember again",
        "wenn ich es sage, merk dir wieder alles",
        "可以继续记吗",
        "等我说可以再记",
        "我没说可以继续记",
        "また覚えて\uff1f",
        "まだ覚えてるよね",
        "また覚えてとは言ってない",
        "다시 기억해 달라고 하지 않았어",
    ],
)
def test_a_mere_mention_does_not_end_off_the_record(wired: Wired, text: str) -> None:
    assert manners.asks(text) is not Asked.ON
    agent = wired.agent()
    for one in (OFF, text, "I am leaving my job"):
        say(agent, one)
    assert wired.texts() == []


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize(
    "text",
    [
        "back on the record",
        "OK, we're back on the record now.",
        "not off the record anymore",
        "No longer off the record!",
        "you can remember again, thanks",
        "Du darfst dir wieder alles merken",
        "可以继续记了",
        "また覚えて。",
        "다시 기억해",
    ],
)
def test_who_says_so_plainly_is_on_the_record_again(wired: Wired, text: str) -> None:
    agent = wired.agent()
    for one in (OFF, text, TRIP):
        say(agent, one)
    assert said(wired) == [text, TRIP]


@pytest.mark.requirement("hermes-off-the-record")
def test_in_a_shared_chat_nobodys_mention_ends_what_another_asked_for(wired: Wired) -> None:
    thread = {"platform": "telegram", "chat_id": "-5", "chat_type": "group", "thread_id": "7"}
    key = {"gateway_session_key": "agent:main:telegram:group:-5:7"}
    alice = wired.agent("g", **thread, **key, user_id="1", user_name="alice")
    bob = wired.agent("g", **thread, **key, user_id="2", user_name="bob")
    say(alice, f"[alice] {OFF}")
    say(bob, "[bob] what does back on the record mean")
    say(alice, "[alice] I am leaving my job")
    assert wired.texts(strongroom.actor_path("hermes", "default", "telegram", "chat", "-5", "7")) == []


# A turn that could not be kept.


@pytest.mark.requirement("hermes-durable")
def test_the_draft_of_a_turn_that_could_not_be_kept_is_delivered_later(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent()
    say(agent, "one")
    remote.stop()

    def full(*_: object) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "add", full)
        with pytest.raises(StoreUnavailable):
            say(agent, TRIP)
    remote.start()
    say(agent, "hello")
    assert said(remote) == ["one", TRIP, "hello"]
    assert remote.files(".draft") == remote.files(".turn") == []


# The mirror of the built-in memory.


@pytest.mark.requirement("hermes-mirror")
def test_where_several_notes_could_be_meant_none_is_forgotten_and_that_is_said(either: Wired) -> None:
    agent = either.agent()
    notes = ["Trip to Rome in May", "Rome office closed on Friday"]
    for note in notes:
        agent.on_memory_write("add", "memory", note)
    with pytest.raises(InvalidRequest):
        agent.on_memory_write("remove", "memory", "", metadata={"old_text": "Rome"})
    assert either.texts() == notes
    assert "invalid_request" in either.problems().values()
    agent.on_memory_write("remove", "memory", "", metadata={"old_text": notes[0]})
    assert either.texts() == notes[1:]


@pytest.mark.requirement("hermes-mirror")
def test_of_several_notes_the_one_that_is_named_exactly_is_forgotten(wired: Wired) -> None:
    agent = wired.agent()
    for note in ("Likes tea", "Likes tea with milk"):
        agent.on_memory_write("add", "memory", note)
    agent.on_memory_write("remove", "memory", "", metadata={"old_text": "Likes tea"})
    assert wired.texts() == ["Likes tea with milk"]


@pytest.mark.requirement("hermes-mirror")
def test_a_note_is_not_forgotten_for_one_that_lies_outside_the_cap(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "memory", "Flies to Rome in May")
    names = tuple(name for name in wired.vault.namespaces if name != "personal")
    capfile.write(wired.cap, capfile.mint(wired.vault, SCOPE, names))
    agent.on_memory_write("replace", "memory", "Has a peanut allergy", metadata={"old_text": "Rome"})
    assert wired.texts() == ["Flies to Rome in May"]


@pytest.mark.requirement("hermes-mirror")
@pytest.mark.parametrize("new", ["Prefers coffee", "Prefers tea"])
def test_off_the_record_no_note_takes_the_place_of_another(wired: Wired, new: str) -> None:
    agent = wired.agent()
    notes = ["Flies to Rome in May", "Prefers tea"]
    for note in notes:
        agent.on_memory_write("add", "memory", note)
    say(agent, OFF)
    agent.on_memory_write("replace", "memory", new, metadata={"old_text": "Rome"})
    assert wired.texts() == notes


# Ids that anybody may take.


@pytest.mark.requirement("hermes-forged-ids")
@pytest.mark.parametrize("platform", ["irc", "raft"])
def test_a_direct_chat_where_ids_are_not_proved_opens_nobodys_memory(wired: Wired, platform: str) -> None:
    chat = {"platform": platform, "user_id": "alice", "chat_id": "alice", "chat_type": "dm"}
    wired.put(ALLERGY, "personal", actor=f"{SCOPE}{platform}/alice")
    agent = wired.agent(**chat)
    assert say(agent, "what about my peanut allergy") == ""
    assert said(wired, f"{SCOPE}{platform}/alice") == [ALLERGY]
    wired.write("[people]\nunproven = []")
    assert "peanut" in say(agent, "what about the peanut allergy")


@pytest.mark.requirement("hermes-forged-ids")
@pytest.mark.parametrize("table", ['me = ["irc:alice"]', '[people.aliases]\nann = ["raft:bridge"]'])
def test_an_account_that_anybody_may_take_cannot_be_joined(table: str) -> None:
    with pytest.raises(InvalidRequest):
        policies.read(f"[people]\n{table}")
    assert policies.read(f"[people]\nunproven = []\n{table}").unproven == frozenset()


def test_a_channel_where_ids_are_not_proved_is_a_shared_chat_all_the_same() -> None:
    found = who(policies.read(""), Conversation(platform="irc", user_id="alice", chat_id="#rust", chat_type="channel"))
    assert isinstance(found, Speaker)
    assert found.actor == strongroom.actor_path("hermes", "default", "irc", "chat", "#rust")
    assert isinstance(who(policies.read(""), Conversation(platform="irc", user_id="alice")), Nobody)


# A hook that a tool calls.


@pytest.mark.requirement("hermes-hook-check-arguments")
@pytest.mark.parametrize("name", ["memory-inject", "audit", "check"])
def test_a_tool_may_not_call_a_hook(wired: Wired, name: str) -> None:
    document = '{"extra":{"user_message":"allergy","platform":"cli"}}'
    command = f"echo '{document}' | strongroom hook {name}"
    assert Bound(wired.path).reached(Payload(tool="terminal", arguments={"command": command})) is not None


@pytest.mark.requirement("hermes-hook-inject")
@pytest.mark.parametrize(("source", "is_shown"), [("telegram", False), ("cli", True)])
def test_a_hook_does_not_take_a_chat_for_the_command_line(wired: Wired, source: str, is_shown: bool) -> None:
    wired.put(ALLERGY, "personal")
    database = sqlite3.connect(wired.path / "state.db")
    with database:
        database.execute("CREATE TABLE sessions (id TEXT, source TEXT, user_id TEXT)")
        database.execute("INSERT INTO sessions VALUES ('s1', ?, '666')", (source,))
    database.close()
    document = Payload(session="s1", extra={"user_message": "my peanut allergy", "platform": "cli"})
    if is_shown:
        assert "peanut" in Bound(wired.path).recall(document)
    else:
        with pytest.raises(InvalidRequest):
            Bound(wired.path).recall(document)


# A runtime of another version, and names that resemble the model's.


@pytest.mark.requirement("hermes-kwargs")
@pytest.mark.parametrize("odd", [None, 7, b"x", ["x"]])
def test_odd_values_of_a_runtime_break_no_hook_and_lose_no_turn(wired: Wired, odd: Any) -> None:
    agent = wired.agent()
    agent.on_turn_start(odd, TRIP)
    agent.sync_turn(TRIP, "Noted.", session_id=odd, messages=odd, turn_id=odd)
    assert wired.texts() == [TRIP, "Noted."]
    agent.on_memory_write("add", "memory", "Likes tea", metadata=odd)
    agent.on_memory_write(odd, odd, odd)
    agent.on_delegation(odd, odd)
    assert agent.on_pre_compress(odd) == ""
    agent.on_session_switch(odd, parent_session_id=odd, reset=False)
    agent.on_session_end(odd)
    say(agent, "hello")
    assert "hello" in wired.texts()


@pytest.mark.requirement("hermes-forged-ids")
@pytest.mark.parametrize(
    "name", ["assistant\u200b", "Assi\u00adstant", "\uff41ssistant", "ASSISTANT ", "hermes\u2060 memory"]
)
def test_a_name_that_looks_like_the_models_is_not_taken(name: str) -> None:
    assert name_of(name) == ""


# A vault that is moved or replaced under a running agent.


@pytest.mark.requirement("hermes-durable")
def test_a_turn_waits_while_the_vault_is_gone_from_its_place(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one")
    (wired.base / "vault").rename(wired.base / "away")
    say(agent, TRIP)
    assert wired.waiting() == 1
    assert "keeping" in wired.problems()
    (wired.base / "away").rename(wired.base / "vault")
    say(agent, "hello")
    assert wired.waiting() == 0
    assert said(wired) == ["one", TRIP, "hello"]


@pytest.mark.requirement("hermes-durable")
def test_a_turn_goes_to_the_vault_that_is_at_the_place_now(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one")
    shutil.copytree(wired.base / "vault", wired.base / "copy")
    (wired.base / "vault").rename(wired.base / "away")
    (wired.base / "copy").rename(wired.base / "vault")
    say(agent, TRIP)
    say(agent, "hello")
    wired.forget_process()
    assert "Chengdu" in wired.agent("s2").prefetch("When is my trip to Chengdu?")


# A pipe in the place of a file.


@pytest.mark.parametrize("name", ["cap", "status", "ids", "session", "counts"])
def test_a_pipe_in_a_files_place_holds_up_no_turn(wired: Wired, name: str) -> None:
    say(wired.agent(), "one")
    wired.forget_process()
    (session,) = (wired.state / "sessions").glob("*.json")
    places = {"cap": wired.cap, "status": wired.state / status.FILE, "ids": wired.state / "ids.key"}
    place = {**places, "session": session, "counts": wired.state / status.COUNTS}[name]
    place.unlink(missing_ok=True)
    os.mkfifo(place, 0o600)
    turn = threading.Thread(target=_quietly, args=(wired,), daemon=True)
    turn.start()
    turn.join(10)
    is_held_up = turn.is_alive()
    while turn.is_alive():  # let it go
        with suppress(OSError):
            os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK))
        turn.join(0.01)
    assert not is_held_up


def _quietly(wired: Wired) -> None:
    with suppress(StrongroomError):
        say(wired.agent(), "two")


# What was counted.


def test_counts_outlast_the_process_and_add_up(wired: Wired) -> None:
    say(wired.agent(), TRIP)
    wired.forget_process()
    say(wired.agent("s2"), "When do I fly to Chengdu?", "On May 25")
    found = status.read_counts(wired.state)
    assert (found["kept"], found["recalled"]) == (4, 1)
    assert b"Chengdu" not in (wired.state / status.COUNTS).read_bytes()
    assert [path.name for path in wired.state.iterdir() if path.name.startswith(".counts")] == []


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"kept": "x"}', b"\xff"])
def test_damaged_counts_begin_anew_and_break_nothing(wired: Wired, damage: bytes) -> None:
    wired.state.mkdir(parents=True)
    (wired.state / status.COUNTS).write_bytes(damage)
    say(wired.agent(), TRIP)
    assert status.read_counts(wired.state) == {"kept": 2}


# The oldest conversations.


@pytest.mark.requirement("hermes-taint-durable")
def test_a_conversation_whose_file_was_tidied_away_counts_as_the_most_private(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired.write("[recall]\nlines = 0")
    monkeypatch.setattr(sessions, "FILES_LIMIT", 1)
    say(wired.agent("old"), ALLERGY)
    for path in (wired.state / "sessions").iterdir():
        os.utime(path, (1, 1))
    say(wired.agent("new"), FLIGHT)
    wired.home.parts.sessions.tidy()
    wired.forget_process()
    say(wired.agent("old"), FLIGHT, "Your flight: beware of the nuts", messages=history(ALLERGY, FLIGHT))
    assert namespace_of(wired, "beware") == "personal"
