"""What an attack on the provider found: whose memory it is, what is kept, and what a runtime may hand over."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from contextlib import suppress
from typing import Any

import pytest

import strongroom
from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.hermes import cap_file
from strongroom.hermes import policy as policies
from strongroom.hermes.hooks.guarded_home import Bound
from strongroom.hermes.hooks.hook_payload import Payload
from strongroom.hermes.provider import privacy_phrases, problem_log
from strongroom.hermes.provider.privacy_phrases import Asked
from strongroom.hermes.provider.speaker import Conversation, Nobody, Speaker, name_of, who
from tests.hermes.provider.conftest import ALLERGY, OWNER, SCOPE, TRIP, Wired, say
from tests.hermes.provider.findings import OFF, said

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
    assert privacy_phrases.asks(text) is not Asked.ON
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
        "I want to be back on the record now",
        "OK agent, you can remember again",
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
    cap_file.write(wired.cap, cap_file.mint(wired.vault, SCOPE, names))
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
    places = {"cap": wired.cap, "status": wired.state / problem_log.FILE, "ids": wired.state / "ids.key"}
    place = {**places, "session": session, "counts": wired.state / problem_log.COUNTS}[name]
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
    found = problem_log.read_counts(wired.state)
    assert (found["kept"], found["recalled"]) == (4, 1)
    assert b"Chengdu" not in (wired.state / problem_log.COUNTS).read_bytes()
    assert [path.name for path in wired.state.iterdir() if path.name.startswith(".counts")] == []


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"kept": "x"}', b"\xff"])
def test_damaged_counts_begin_anew_and_break_nothing(wired: Wired, damage: bytes) -> None:
    wired.state.mkdir(parents=True)
    (wired.state / problem_log.COUNTS).write_bytes(damage)
    say(wired.agent(), TRIP)
    assert problem_log.read_counts(wired.state) == {"kept": 2}


def test_counts_are_saved_after_a_turn_and_at_the_end_and_not_after_every_turn(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one")
    assert problem_log.read_counts(wired.state) == {"kept": 2}
    say(agent, "two")
    assert problem_log.read_counts(wired.state) == {"kept": 2}
    wired.home.tended -= 60
    say(agent, "three")
    assert problem_log.read_counts(wired.state) == {"kept": 6}
    say(agent, "four")
    agent.shutdown()
    assert problem_log.read_counts(wired.state) == {"kept": 8}
