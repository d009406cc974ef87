"""What an attack on conversations found: nothing is forgotten that was not undone, and nothing becomes less private."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time

import pytest

from strongroom.hermes.provider import conversation
from tests.hermes.provider.conftest import ALLERGY, TRIP, Wired, history, say
from tests.hermes.provider.findings import ALICE, CHAT, FLIGHT, JOINED, OFF, namespace_of, said

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


# The oldest conversations.


@pytest.mark.requirement("hermes-taint-durable")
def test_a_conversation_whose_file_was_tidied_away_counts_as_the_most_private(
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
