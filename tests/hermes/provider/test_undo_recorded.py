"""Taking turns back by Hermes' own record: it tells of an undo once, however many turns it took back."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import StoreUnavailable, StrongroomError
from strongroom.hermes.provider import StrongroomProvider, delivery, turn_writer
from strongroom.hermes.provider.memory_session import SpeakerView
from strongroom.model import NewLine
from tests.hermes.provider.conftest import ALLERGY, TRIP, Served, Wired, history, say
from tests.hermes.provider.people import ALICE, CHAT, namespace_of, said
from tests.hermes.provider.test_wrapped import ALONE, SKILL

pytestmark = pytest.mark.requirement("hermes-undo")
PICTURE = '\0json:[{"type": "text", "text": "what is this?"}, {"type": "image_url"}]'
SHOWN = "[1 image] what is this?"
Row = tuple[str, bool]
"""What was said, and whether it stands."""


def undo(wired: Wired, agent: StrongroomProvider, *rows: Row, earlier: Sequence[tuple[str, float]] = ()) -> None:
    """An undo that Hermes has on record: all that was said, and whether it stands; `earlier` was undone too, by then.

    Hermes writes down what was said when a turn has begun.
    """
    now = time.time()
    written = ((text, int(stands), 0, now + place / 1000) for place, (text, stands) in enumerate(rows))
    hermes_record(wired, *((text, 0, 0, when) for text, when in earlier), *written)
    agent.on_session_switch("s1", parent_session_id="", reset=False, rewound=True)


def talk(agent: StrongroomProvider, *texts: str) -> None:
    for number in range(len(texts)):
        say(agent, texts[number], messages=history(*texts[: number + 1]))


def picture(agent: StrongroomProvider) -> None:
    """A turn that begins without a text, and is told with one."""
    agent.on_turn_start(2, "")
    agent.sync_turn(SHOWN, "A cat.", session_id="s1")


# What was not undone stays.


def test_turns_in_the_record_are_not_taken_back(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one", "two", "three")
    undo(wired, agent, ("one", True), ("two", True), ("three", False))
    assert said(wired) == ["one", "two"]


def test_undone_turn_that_was_never_kept_takes_back_no_other(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    undo(wired, agent, ("keep me", True), ("said to nobody", False))
    assert said(wired) == ["keep me"]


def test_interrupted_turn_that_is_undone_takes_back_no_other(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    agent.on_turn_start(2, "never mind")
    undo(wired, agent, ("keep me", True), ("never mind", False))
    assert wired.files(".draft") == []
    agent.sync_turn("never mind", "ok", session_id="s1")
    assert said(wired) == ["keep me"]


def test_newest_turn_of_the_same_words_is_taken_back_however_often(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "yes", "one")
    began = time.time()
    for number in range(1, 3):
        say(agent, "yes", "undone")
        later = [("yes", 0, 0, began + 0.01 * (place + 1)) for place in range(number)]
        hermes_record(wired, ("yes", 1, 0, began), *later)
        agent.on_session_switch("s1", rewound=True)
        assert wired.texts() == ["yes", "one"]


def test_undo_before_this_process_takes_back_nothing_of_it(wired: Wired) -> None:
    talk(wired.agent(), "yes")
    long_ago = time.time() - 3600
    wired.forget_process()
    agent = wired.agent()
    talk(agent, "one", "yes", "two")
    undo(wired, agent, ("two", False), earlier=[("yes", long_ago)])
    assert said(wired) == ["yes", "one", "yes"]


def test_undo_before_this_agent_was_built_costs_the_turns_before_it_nothing(wired: Wired) -> None:
    first = wired.agent()
    talk(first, "yes")
    say(first, "yes", "undone")
    then = time.time()
    undo(wired, first, earlier=[("yes", then)])
    second = wired.agent()
    talk(second, "one", "two", "three")
    undo(wired, second, ("three", False), earlier=[("yes", then)])
    assert said(wired) == ["yes", "one", "two"]


def test_record_that_cannot_be_read_takes_back_the_last_turn_alone(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one", "two")
    (wired.path / "state.db").write_bytes(b"no database at all, " * 100)
    agent.on_session_switch("s1", rewound=True)
    assert said(wired) == ["one"]


# What was undone goes, all of it and at once.


@pytest.mark.parametrize("left", [0, 1, 2])
def test_undo_of_several_turns_forgets_them_all_at_once(either: Wired, left: int) -> None:
    agent = either.agent()
    texts = ("one", "two", "three")
    talk(agent, *texts)
    undo(either, agent, *((text, place < left) for place, text in enumerate(texts)))
    assert said(either) == list(texts[:left])
    assert len(either.texts()) == 2 * left


def test_undo_of_several_turns_forgets_those_of_an_earlier_process_too(either: Wired) -> None:
    talk(either.agent(), "one", "two")
    then = time.time()
    either.forget_process()
    agent = either.agent()
    talk(agent, "three")
    undo(either, agent, ("three", False), earlier=[("two", then)])
    assert either.texts() == ["one", "Noted."]


def test_turns_of_an_earlier_process_that_cannot_be_reached_now_are_asked_for_at_the_next_undo(remote: Served) -> None:
    talk(remote.agent(), "one", "two")
    then = time.time()
    remote.forget_process()
    agent = remote.agent()
    talk(agent, "three")
    remote.stop()
    undo(remote, agent, ("three", False), earlier=[("two", then)])
    remote.start()
    say(agent, "four")
    undo(remote, agent, ("four", False), earlier=[("two", then)])
    assert said(remote) == ["one"]


def test_turn_before_one_that_failed_is_forgotten_when_it_is_undone(wired: Wired) -> None:
    """Hermes tells nothing of a turn in which the model failed."""
    agent = wired.agent()
    talk(agent, "never mind")
    agent.on_turn_start(2, "next")
    undo(wired, agent, ("never mind", False))
    assert said(wired) == []
    agent.sync_turn("next", "ok", session_id="s1")
    assert said(wired) == ["next"]


def test_turn_with_a_picture_is_forgotten_when_it_is_undone(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one")
    picture(agent)
    undo(wired, agent, ("one", True), (PICTURE, False))
    assert said(wired) == ["one"]


def test_turn_with_a_picture_is_forgotten_with_the_one_before(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one", "two")
    picture(agent)
    undo(wired, agent, ("one", True), ("two", False), (PICTURE, False))
    assert said(wired) == ["one"]


def test_turn_with_a_skill_is_forgotten_when_it_is_undone(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one")
    agent.on_turn_start(2, SKILL)
    agent.sync_turn("look at my trip", "Done.", session_id="s1")
    assert said(wired) == ["one", "look at my trip"]
    undo(wired, agent, ("one", True), (SKILL, False))
    assert said(wired) == ["one"]


def test_bare_skill_that_is_undone_takes_back_no_other(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one")
    agent.on_turn_start(2, ALONE)
    undo(wired, agent, ("one", True), (ALONE, False))
    assert said(wired) == ["one"]


# A turn that was interrupted and sent again.


@pytest.mark.parametrize("is_recorded", [False, True])
def test_turn_that_was_sent_again_is_forgotten_when_it_is_undone(wired: Wired, is_recorded: bool) -> None:
    agent = wired.agent()
    talk(agent, "hello")
    agent.on_turn_start(2, "never mind")
    agent.on_turn_start(3, "never mind")
    before = [*history("hello"), {"role": "user", "content": "never mind"}]
    agent.sync_turn("never mind", "Noted.", session_id="s1", messages=[*before, *history("never mind")])
    if is_recorded:
        undo(wired, agent, ("hello", True), ("never mind", True), ("never mind", False))
    else:
        agent.on_session_switch("s1", rewound=True)
    say(agent, "next", messages=[*before, *history("next")])
    assert said(wired) == ["hello", "next"]


# A turn that is undone while it is kept, or that could not be kept.


def test_turn_that_is_undone_while_it_is_kept_is_forgotten(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    storing_now, undone = threading.Event(), threading.Event()

    def slow(view: SpeakerView, lines: Sequence[NewLine]) -> tuple[Path, ...] | None:
        storing_now.set()
        assert undone.wait(60)
        return delivery.store(view, lines)

    monkeypatch.setattr(turn_writer, "store", slow)
    agent.on_turn_start(2, "never mind")
    worker = threading.Thread(target=lambda: agent.sync_turn("never mind", "ok", session_id="s1"))
    worker.start()
    assert storing_now.wait(60)
    agent.on_session_switch("s1", rewound=True)
    undone.set()
    worker.join(60)
    assert wired.texts() == ["keep me", "Noted."]


def fails(*_: Any) -> Path:
    raise StoreUnavailable("the spool is full")


def not_kept(remote: Served, agent: StrongroomProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that neither the vault nor the spool takes; its draft is left to be delivered."""
    remote.stop()
    agent.on_turn_start(2, "never mind")
    with monkeypatch.context() as patched:
        patched.setattr(remote.home.parts.spool, "add", fails)
        with pytest.raises(StrongroomError) as refused:
            agent.sync_turn("never mind", "ok", session_id="s1")
    assert refused.value.reason == "store_unavailable"
    assert len(remote.files(".turn")) == 1


def test_turn_that_could_not_be_kept_is_not_delivered_if_it_is_undone(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent()
    not_kept(remote, agent, monkeypatch)
    agent.on_session_switch("s1", rewound=True)
    assert remote.files(".turn") == []
    remote.start()
    say(agent, "later")
    assert said(remote) == ["later"]


def test_turn_that_was_delivered_late_is_forgotten_when_it_is_undone(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent()
    not_kept(remote, agent, monkeypatch)
    remote.start()
    say(agent, "later")
    assert said(remote) == ["never mind", "later"]
    undo(remote, agent, ("never mind", False), ("later", False))
    assert said(remote) == []


def test_turn_that_could_not_be_kept_outlives_the_next_one(remote: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = remote.agent()
    not_kept(remote, agent, monkeypatch)
    say(agent, "while it is down")
    remote.start()
    say(agent, "later")
    assert said(remote) == ["never mind", "while it is down", "later"]


# What looks like an undo and is none: where there is no record, the history alone tells.


def test_words_that_were_said_before_are_not_taken_for_the_beginning_of_a_turn_with_a_picture(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    talk(agent, "yes", "my cat is Tom")
    shown = {"role": "user", "content": [{"type": "text", "text": "yes"}, {"type": "image_url"}]}
    messages = [*history("yes", "my cat is Tom"), shown, {"role": "assistant", "content": "Noted."}]
    say(agent, "yes", messages=messages)
    assert said(wired, ALICE) == ["yes", "my cat is Tom", "yes"]


@pytest.mark.requirement("hermes-taint")
def test_turn_with_a_picture_behind_an_unknown_history_is_not_taken_for_its_beginning(wired: Wired) -> None:
    shown = {"role": "user", "content": [{"type": "text", "text": TRIP}, {"type": "image_url"}]}
    messages = [*history(TRIP, ALLERGY), shown, {"role": "assistant", "content": "A trip without nuts."}]
    say(wired.agent(**CHAT), TRIP, "A trip without nuts.", messages=messages)
    assert namespace_of(wired, "without nuts", ALICE) == "personal"


@pytest.mark.parametrize("first", ["yes", "hello"])
def test_words_that_were_said_before_are_not_taken_for_the_beginning_of_a_turn_with_a_skill(
    wired: Wired, first: str
) -> None:
    agent = wired.agent(**CHAT)
    texts = (first, "yes", "my cat is Tom")
    talk(agent, *texts)
    say(agent, "yes", messages=history(*texts, "[SKILL] a long text: yes"))
    assert said(wired, ALICE) == [*texts, "yes"]


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
def test_empty_history_takes_back_one_turn_at_most(talked: Wired) -> None:
    say(talked.agent("s1", **CHAT), "hello", messages=history("hello"))
    assert said(talked, ALICE) == [*FIVE[:4], "hello"]


@pytest.mark.requirement("hermes-undo")
@pytest.mark.parametrize("left", [(), FIVE[:4], FIVE[:2]])
def test_turns_that_hermes_does_not_call_undone_are_not_forgotten(talked: Wired, left: tuple[str, ...]) -> None:
    hermes_record(talked, *((text, 1, 0, time.time()) for text in FIVE))
    say(talked.agent("s1", **CHAT), "hello", messages=history(*left, "hello"))
    assert said(talked, ALICE) == [*FIVE, "hello"]


@pytest.mark.requirement("hermes-undo")
def test_turns_that_a_compression_dropped_are_not_forgotten(talked: Wired) -> None:
    hermes_record(talked, *((text, 0, 1, time.time()) for text in FIVE))
    say(talked.agent("s1", **CHAT), "hello", messages=history("hello"))
    assert said(talked, ALICE) == [*FIVE, "hello"]


@pytest.mark.requirement("hermes-undo")
def test_record_that_cannot_be_read_takes_nothing_back(talked: Wired) -> None:
    (talked.path / "state.db").write_bytes(b"no database at all, " * 100)
    say(talked.agent("s1", **CHAT), "hello", messages=history("hello"))
    assert said(talked, ALICE) == [*FIVE, "hello"]


@pytest.mark.requirement("hermes-undo")
@pytest.mark.parametrize("kept", [0, 3])
def test_turns_that_hermes_calls_undone_are_forgotten(talked: Wired, kept: int) -> None:
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
def test_undone_one_of_two_turns_of_the_same_words_goes(wired: Wired) -> None:
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
