"""What is known of a conversation: on disk two facts and no text, and the safe side where they cannot be read."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.hermes.provider import conversation
from strongroom.hermes.provider.conversation import ConversationState, Sessions
from strongroom.model import Actor, LineId, Namespace
from tests.hermes.provider.conftest import ALLERGY, TRIP, Wired, history, say
from tests.hermes.provider.people import ALICE, CHAT, FLIGHT, JOINED, OFF, namespace_of, said

ACTOR = Actor("hermes/default/owner")
PERSONAL, TRAVEL, WORK = Namespace("personal"), Namespace("travel"), Namespace("work")


def state(directory: Path, session: str = "s", actor: Actor = ACTOR) -> ConversationState:
    """As a process sees it that has just begun."""
    return Sessions(directory).of(actor, session, "", PERSONAL)


@pytest.mark.requirement("hermes-taint-durable")
def test_shown_namespaces_and_off_the_record_outlast_the_process(tmp_path: Path) -> None:
    held = state(tmp_path)
    held.carry({TRAVEL})
    held.turn_off(True)
    again = state(tmp_path)
    assert again.carried == {TRAVEL}
    assert again.is_off


@pytest.mark.requirement("hermes-taint-durable")
def test_raised_sensitivity_outlasts_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That its beginning is known does not: without it, a conversation counts as one that may hold anything."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    held = state(tmp_path)

    def syncs(change: Callable[[], None]) -> int:
        synced.clear()
        change()
        return len(synced)

    assert syncs(lambda: held.carry({TRAVEL})) == 2  # the file, and its name
    assert syncs(lambda: held.begun(with_history=False)) == 0
    assert not state(tmp_path).is_known
    assert syncs(held.settle) == 0
    assert state(tmp_path).is_known
    assert syncs(held.settle) == 0
    assert syncs(lambda: held.carry({TRAVEL, WORK})) == 2
    assert syncs(lambda: held.turn_off(True)) == 2
    off = state(tmp_path, "off")
    off.turn_off(True)
    off.begun(with_history=False)
    assert syncs(off.settle) == 2
    other = state(tmp_path, "another")
    assert syncs(lambda: other.begun(with_history=True)) == 2
    assert state(tmp_path, "another").carried == {PERSONAL}


def test_new_conversation_carries_nothing(tmp_path: Path) -> None:
    assert state(tmp_path).carried == set()


@pytest.mark.requirement("hermes-taint-durable")
@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"null", b'{"carried": 5, "off": true}', b'{"carried": ["travel"]}', b"\xff" * 40]
)
def test_damaged_file_counts_as_the_most_sensitive_there_is(tmp_path: Path, damage: bytes) -> None:
    state(tmp_path).carry({TRAVEL})
    next(tmp_path.glob("*.json")).write_bytes(damage)
    assert PERSONAL in state(tmp_path).carried


def test_directory_in_the_files_place_counts_as_the_most_sensitive_there_is(tmp_path: Path) -> None:
    state(tmp_path).carry({TRAVEL})
    place = next(tmp_path.glob("*.json"))
    place.unlink()
    place.mkdir()
    assert PERSONAL in state(tmp_path).carried


def test_files_are_the_owners_alone_and_name_nobody(tmp_path: Path) -> None:
    directory = tmp_path / "sessions"
    state(directory, "20261115_secret-title").carry({TRAVEL})
    place = next(directory.glob("*.json"))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert "secret" not in place.name + place.read_text()
    assert set(json.loads(place.read_text())) == {"carried", "off", "known"}


def test_conversations_of_two_actors_under_one_id_are_two(tmp_path: Path) -> None:
    held = Sessions(tmp_path)
    held.of(ACTOR, "s", "", PERSONAL).turn_off(True)
    assert not held.of(Actor("hermes/default/telegram/1"), "s", "agent:main:telegram:dm:1", PERSONAL).is_off


@pytest.mark.requirement("hermes-taint-durable")
def test_state_noted_by_another_process_holds_here_too(tmp_path: Path) -> None:
    """The command line goes on with a chat that a gateway holds: both replay one history."""
    here, there = Sessions(tmp_path), Sessions(tmp_path)
    here.of(ACTOR, "s", "", PERSONAL).carry({TRAVEL})
    there.of(ACTOR, "s", "", PERSONAL).carry({PERSONAL})
    assert here.of(ACTOR, "s", "", PERSONAL).carried == {TRAVEL, PERSONAL}
    here.of(ACTOR, "s", "", PERSONAL).carry({WORK})
    assert state(tmp_path).carried == {TRAVEL, PERSONAL, WORK}


def _fail(path: Path, data: bytes, *, new: bool, durable: bool) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.requirement("hermes-taint-durable")
def test_full_disk_is_refused_and_what_was_not_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = state(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(conversation, "write_file", _fail)
        with pytest.raises(StoreUnavailable):
            held.carry({PERSONAL})
        with pytest.raises(StoreUnavailable):  # it is not on disk yet, so it cannot be shown
            held.carry({PERSONAL})
    held.carry({PERSONAL})
    assert state(tmp_path).carried == {PERSONAL}


def test_off_the_record_is_written_once_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = state(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(conversation, "write_file", _fail)
        with pytest.raises(StoreUnavailable):
            held.turn_off(True)
    held.turn_off(True)
    assert state(tmp_path).is_off


def test_list_of_lines_that_were_seen_is_bounded_and_ends_with_a_compression(tmp_path: Path) -> None:
    held = state(tmp_path)
    held.see(LineId(str(number)) for number in range(conversation.SEEN_LIMIT + 5))
    assert len(held.seen) == conversation.SEEN_LIMIT
    assert LineId("0") not in held.seen
    held.carry({TRAVEL})
    held.compressed()
    assert not held.seen
    assert held.carried == {TRAVEL}


def test_threads_that_carry_at_once_lose_nothing(tmp_path: Path) -> None:
    held = Sessions(tmp_path)
    names = [Namespace(f"n{number}") for number in range(16)]
    threads = [threading.Thread(target=lambda one=one: held.of(ACTOR, "s", "", PERSONAL).carry({one})) for one in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state(tmp_path).carried == set(names)


def test_only_the_oldest_files_are_tidied_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "FILES_LIMIT", 2)
    held = Sessions(tmp_path)
    for number in range(4):
        held.of(ACTOR, str(number), "", PERSONAL).carry({TRAVEL})
        os.utime(held.of(ACTOR, str(number), "", PERSONAL).path, (number + 1, number + 1))
    held.tidy()
    left = Sessions(tmp_path)
    assert [bool(left.of(ACTOR, str(number), "", PERSONAL).carried) for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]


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
def test_privacy_of_a_conversation_outlasts_a_change_of_who_is_who(wired: Wired, restarted: bool) -> None:
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
def test_turn_of_one_person_is_not_taken_back_as_another(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    say(agent, "said as myself")
    wired.write(JOINED)
    say(agent, "said as the owner")
    agent.on_session_switch("s1", rewound=True)
    assert (said(wired, ALICE), said(wired)) == (["said as myself"], [])


@pytest.mark.requirement("hermes-taint-durable")
@pytest.mark.parametrize("lost", ["all", "one"])
def test_history_of_which_nothing_is_known_may_hold_anything(wired: Wired, lost: str) -> None:
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


def test_conversation_that_begins_or_is_known_is_not_made_more_private(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, FLIGHT, "Your flight, noted", messages=history(FLIGHT))
    say(agent, FLIGHT, "Your flight, once more", messages=history(FLIGHT, FLIGHT))
    wired.forget_process()
    say(wired.agent(), FLIGHT, "Your flight, again", messages=history(FLIGHT, FLIGHT, FLIGHT))
    assert {hit.namespace for hit in wired.lines()} == {"travel"}


@pytest.mark.requirement("hermes-taint")
def test_shown_namespaces_count_where_the_turn_is_told_under_another_id(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    agent.on_turn_start(1, FLIGHT)
    assert "peanut" in agent.prefetch("what about my peanut allergy")
    agent.sync_turn(FLIGHT, "Your flight: beware of the nuts", session_id="another")
    assert namespace_of(wired, "beware") == "personal"


@pytest.mark.requirement("hermes-taint-durable")
def test_conversation_whose_file_was_tidied_away_counts_as_the_most_private(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired.write("[recall]\nlines = 0")
    monkeypatch.setattr(conversation, "FILES_LIMIT", 1)
    say(wired.agent("old"), ALLERGY)
    for path in (wired.state / "sessions").iterdir():
        os.utime(path, (1, 1))
    say(wired.agent("new"), FLIGHT)
    wired.home.parts.sessions.tidy()
    wired.forget_process()
    say(wired.agent("old"), FLIGHT, "Your flight: beware of the nuts", messages=history(ALLERGY, FLIGHT))
    assert namespace_of(wired, "beware") == "personal"
