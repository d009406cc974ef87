"""What was shown in a conversation outlasts the process: nothing is shown twice after a restart."""

from __future__ import annotations

import os
import stat

import pytest

from strongroom.hermes.provider import conversation, shown_lines
from tests.hermes.provider.conftest import DM, TRIP, Wired, say

pytestmark = pytest.mark.requirement("hermes-recall-once")
QUESTION = "When is my trip to Chengdu?"


def shown_files(wired: Wired) -> list[os.PathLike[str]]:
    return list((wired.state / "sessions").glob(f"*{shown_lines.SHOWN}"))


def test_line_is_not_shown_again_after_a_restart(either: Wired) -> None:
    either.put(TRIP)
    assert "Chengdu" in say(either.agent(), QUESTION, "On May 25.")
    either.forget_process()
    assert either.agent().prefetch(QUESTION) == ""
    assert "Chengdu" in either.agent("another").prefetch(QUESTION)


def test_lines_of_a_conversation_are_not_shown_in_it_after_a_restart(wired: Wired) -> None:
    say(wired.agent(), TRIP)
    wired.forget_process()
    assert wired.agent().prefetch(QUESTION) == ""


def test_turn_that_was_cut_short_counts_when_its_agent_was_let_go(wired: Wired) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    assert "Chengdu" in agent.prefetch(QUESTION)
    agent.shutdown()
    wired.forget_process()
    assert wired.agent().prefetch(QUESTION) == ""


def test_line_shown_to_one_person_is_shown_to_another(wired: Wired) -> None:
    wired.put(TRIP)
    wired.put(TRIP, actor="hermes/default/telegram/100")
    say(wired.agent(), QUESTION)
    wired.forget_process()
    assert "Chengdu" in wired.agent(**DM).prefetch(QUESTION)


def test_line_may_be_shown_again_after_a_compression_and_a_restart(wired: Wired) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    say(agent, QUESTION)
    agent.on_session_switch("s1", parent_session_id="s1", reason="compression")
    wired.forget_process()
    assert "Chengdu" in wired.agent().prefetch(QUESTION)


def test_lines_of_an_undone_turn_are_not_held_as_shown(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, TRIP)
    agent.on_session_switch("s1", rewound=True)
    agent.queue_prefetch("")
    wired.forget_process()
    say(wired.agent("s2"), TRIP)
    assert "Chengdu" in wired.agent().prefetch(QUESTION)


@pytest.mark.parametrize("damage", [b"", b"x" * 200, None])
def test_damaged_or_foreign_file_shows_lines_again_and_breaks_nothing(wired: Wired, damage: bytes | None) -> None:
    wired.put(TRIP)
    say(wired.agent(), QUESTION)
    (place,) = (wired.state / "sessions").glob(f"*{shown_lines.SHOWN}")
    found = bytearray(place.read_bytes())
    found[-1] ^= 1
    place.write_bytes(bytes(found) if damage is None else damage)
    wired.forget_process()
    assert "Chengdu" in wired.agent().prefetch(QUESTION)
    assert wired.problems() == {}


def test_file_of_one_conversation_opens_for_no_other(wired: Wired) -> None:
    wired.put(TRIP)
    say(wired.agent(), QUESTION)
    say(wired.agent("s2"), "hello")
    places = sorted((wired.state / "sessions").glob(f"*{shown_lines.SHOWN}"))
    for one, other in zip(places, reversed([place.read_bytes() for place in places]), strict=True):
        one.write_bytes(other)
    wired.forget_process()
    assert "Chengdu" in wired.agent().prefetch(QUESTION)


def test_file_is_the_owners_alone_and_holds_no_id_in_clear(wired: Wired) -> None:
    line = wired.put(TRIP)
    say(wired.agent(), QUESTION)
    (place,) = (wired.state / "sessions").glob(f"*{shown_lines.SHOWN}")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert line.encode() not in place.read_bytes()


def test_shown_lines_are_bounded_and_the_oldest_files_go(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "SEEN_LIMIT", 10)
    monkeypatch.setattr(conversation, "FILES_LIMIT", 2)
    for number in range(4):
        agent = wired.agent(f"s{number}")
        for turn in range(8):
            say(agent, f"word {turn}")
    assert all(place.stat().st_size < 600 for place in (wired.state / "sessions").glob(f"*{shown_lines.SHOWN}"))
    wired.home.parts.sessions.tidy()
    assert len(shown_files(wired)) == 2


def test_turn_costs_no_sync_of_its_own_for_it(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    say(agent, "hello")
    assert "Chengdu" in agent.prefetch(QUESTION)
    (place,) = (wired.state / "sessions").glob(f"*{shown_lines.SHOWN}")
    before = place.read_bytes()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    agent.queue_prefetch(QUESTION)
    assert synced == []
    assert place.read_bytes() != before


def test_two_processes_that_show_in_one_conversation_both_count(wired: Wired) -> None:
    first = wired.put(TRIP)
    key = lambda: b"k" * 32  # noqa: E731
    here, there = conversation.Sessions(wired.state, key), conversation.Sessions(wired.state, key)
    one, other = (held.of("a", "s", "", "personal") for held in (here, there))  # type: ignore[arg-type]
    one.see([first])  # type: ignore[list-item]
    one.settle()
    other.see([wired.put("another")])  # type: ignore[list-item]
    other.settle()
    again = conversation.Sessions(wired.state, key).of("a", "s", "", "personal")  # type: ignore[arg-type]
    assert first in again.seen
    assert len(again.seen) == 2
