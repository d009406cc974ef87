"""What a model is shown: for the question asked now, within the budget, once, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.engines.lexical import term_weights
from strongroom.hermes.provider.line_format import HEADING
from strongroom.memory import Memory
from tests.hermes.provider.conftest import (
    ALLERGY,
    DM,
    GROUP,
    GROUP_ACTOR,
    OWNER,
    SCOPE,
    TRIP,
    Served,
    Wired,
    history,
    say,
)

QUESTION = "When is my trip to Chengdu?"
SUMMARY = "[CONTEXT COMPACTION \u2014 REFERENCE ONLY] Earlier turns were compacted."


# Nothing.


@pytest.mark.requirement("hermes-api-nobody")
def test_api_server_without_a_session_key_recalls_and_keeps_nothing(either: Wired) -> None:
    either.put(TRIP)
    agent = either.agent(platform="api_server")
    assert say(agent, QUESTION) == ""
    assert agent.system_prompt_block() == ""
    assert either.texts() == [TRIP]
    assert either.files(".draft") == []


@pytest.mark.requirement("hermes-shared")
def test_private_memory_is_never_shown_in_a_shared_chat(either: Wired) -> None:
    either.put(TRIP, actor=f"{SCOPE}telegram/100")
    either.put(TRIP, actor=OWNER)
    either.profile("Lives in Berlin.", "personal", f"{SCOPE}telegram/100")
    either.write('[people]\nme = ["telegram:100"]')
    agent = either.agent(**GROUP)
    assert agent.prefetch(QUESTION) == ""
    assert agent.system_prompt_block() == ""


@pytest.mark.requirement("hermes-people")
def test_two_people_never_see_each_others_lines(either: Wired) -> None:
    alice, bob = either.agent(**DM), either.agent(**{**DM, "user_id": "200", "chat_id": "200"})
    say(alice, TRIP)
    say(bob, "My trip to Lisbon is on May 3")
    assert "Chengdu" in either.agent("s2", **DM).prefetch("Where is my trip?")
    assert "Lisbon" not in either.agent("s3", **DM).prefetch("Where is my trip?")


@pytest.mark.parametrize("query", ["", "   ", "\x00", "\ud800", "[alice]"])
def test_question_of_nothing_shows_nothing_and_breaks_nothing(either: Wired, query: str) -> None:
    either.put(TRIP)
    either.agent().prefetch(query)
    assert either.problems() == {}


@pytest.mark.parametrize("query", [None, 5, [{"type": "text", "text": QUESTION}]])
def test_question_that_is_no_text_shows_nothing(wired: Wired, query: Any) -> None:
    assert wired.agent().prefetch(query) == ""


def test_setting_of_no_lines_shows_nothing(wired: Wired) -> None:
    wired.put(TRIP)
    wired.write("[recall]\nlines = 0")
    assert wired.agent().prefetch(QUESTION) == ""


# Something.


@pytest.mark.requirement("hermes-first-turn")
def test_first_turn_of_a_fresh_process_recalls(either: Wired) -> None:
    line = either.put(TRIP, author="alice")
    shown = either.agent().prefetch(QUESTION)
    assert shown.startswith(HEADING)
    assert f'travel, alice: "{TRIP}" [{line}]' in shown


@pytest.mark.requirement("hermes-any-script")
@pytest.mark.parametrize(
    ("line", "question"),
    [("我五月二十五日去成都旅行", "我什么时候去成都?"), ("Поездка в Чэнду 25 мая", "Когда поездка в Чэнду?")],
)
def test_another_script_is_recalled_as_it_was_said(wired: Wired, line: str, question: str) -> None:
    wired.put(line)
    assert line in wired.agent().prefetch(question)


def test_huge_question_is_answered(either: Wired) -> None:
    either.put(TRIP)
    either.write("[recall]\nmin_confidence = 0.0")
    assert "Chengdu" in either.agent().prefetch(QUESTION + " please" * 50_000)
    assert either.problems() == {}


@pytest.mark.requirement("hermes-recall-once")
def test_nothing_is_shown_twice_in_a_conversation(either: Wired) -> None:
    either.put(TRIP)
    agent = either.agent()
    assert "Chengdu" in agent.prefetch(QUESTION)
    assert agent.prefetch(QUESTION) == ""
    assert "Chengdu" in either.agent("another").prefetch(QUESTION)


def test_lines_of_this_conversation_are_not_shown_in_it(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, TRIP)
    assert agent.prefetch(QUESTION) == ""


@pytest.mark.requirement("hermes-recall-once")
@pytest.mark.parametrize("new", ["s1", "s1-rotated"])
def test_line_may_be_shown_again_after_a_compression(wired: Wired, new: str) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    agent.prefetch(QUESTION)
    agent.on_session_switch(new, parent_session_id="s1", reason="compression")
    assert "Chengdu" in agent.prefetch(QUESTION)


def test_compression_that_no_hook_tells_of_lets_lines_be_shown_again(wired: Wired) -> None:
    """A gateway's /compress is only to be seen by the shorter history."""
    wired.put(TRIP)
    agent = wired.agent()
    agent.on_turn_start(1, QUESTION)
    agent.prefetch(QUESTION)
    agent.sync_turn(QUESTION, "On May 25", session_id="s1", messages=history("a", "b", "c", QUESTION))
    say(agent, "go on", messages=history(SUMMARY, "go on"))
    assert "Chengdu" in agent.prefetch(QUESTION)


@pytest.mark.parametrize(
    ("kwargs", "again"), [({"reset": True, "reason": "new_session"}, True), ({"reason": "branch"}, False)]
)
def test_new_conversation_may_see_a_line_again_and_a_branch_has_it_in_its_history(
    wired: Wired, kwargs: dict[str, Any], again: bool
) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    agent.prefetch(QUESTION)
    agent.on_session_switch("s2", parent_session_id="s1", **kwargs)
    assert bool(agent.prefetch(QUESTION)) is again


def test_two_agents_of_a_shared_thread_do_not_show_a_line_twice(wired: Wired) -> None:
    wired.put(TRIP, actor=GROUP_ACTOR)
    alice, bob = wired.agent(**GROUP), wired.agent(**{**GROUP, "user_id": "200"})
    assert "Chengdu" in alice.prefetch(f"[alice] {QUESTION}")
    assert bob.prefetch(f"[bob] {QUESTION}") == ""


def test_recall_holds_at_most_the_lines_and_characters_of_the_policy_even_if_it_changed(wired: Wired) -> None:
    for number in range(12):
        wired.put(f"Trip number {number} to Chengdu " + "x" * 200)
    agent = wired.agent()
    assert agent.prefetch("trip to Chengdu").count("\n- ") == 3
    wired.write("[recall]\nlines = 2")
    assert agent.prefetch("trip to Chengdu").count("\n- ") == 2
    wired.write("[recall]\nlines = 20\ncharacters = 700")
    assert len(agent.prefetch("trip to Chengdu")) <= 700


@pytest.mark.requirement("hermes-floor")
def test_unrelated_lines_are_shown_only_as_the_policy_says(either: Wired) -> None:
    either.put(TRIP)
    agent = either.agent()
    assert agent.prefetch("How do I boil an egg?") == ""
    either.write("[recall]\nunrelated = true")
    assert "Chengdu" in agent.prefetch("How do I boil an egg?")
    either.write("[recall]\nunrelated = true\nlines = 0")
    assert either.agent("s2").prefetch("How do I boil an egg?") == ""


@pytest.mark.requirement("hermes-floor")
def test_floor_of_the_policy_goes_to_the_vault(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    wired.put(TRIP)
    floors: list[float | None] = []
    get = Memory.get

    def noted(memory: Memory, *query: Any, **more: Any) -> Any:
        floors.append(more.get("min_confidence"))
        return get(memory, *query, **more)

    monkeypatch.setattr(Memory, "get", noted)
    agent = wired.agent()
    floors.clear()
    agent.prefetch(QUESTION)
    assert set(floors) == {0.02}
    wired.write("[recall]\nmin_confidence = 0.0")
    floors.clear()
    agent.prefetch(QUESTION)
    assert set(floors) == {None}
    wired.write("[recall]\nmin_confidence = 0.3")
    floors.clear()
    agent.prefetch(QUESTION)
    assert set(floors) == {0.3}


@pytest.mark.requirement("hermes-floor")
@pytest.mark.parametrize("floor", ["-0.1", "1.5", "nan", '"high"'])
def test_floor_of_the_policy_that_is_no_share_is_refused_and_named(
    wired: Wired, caplog: pytest.LogCaptureFixture, floor: str
) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    wired.write(f"[recall]\nmin_confidence = {floor}")
    assert "Chengdu" in agent.prefetch(QUESTION)
    assert "recall.min_confidence" in caplog.text
    assert wired.home.policy.recall.min_confidence == 0.02


def test_failed_recall_counts_no_lines_of_the_question_before(remote: Served) -> None:
    remote.put(TRIP)
    agent = remote.agent()
    agent.prefetch(QUESTION)
    status = agent.recall_status()
    assert status is not None
    assert status.count == 1
    remote.stop()
    agent.prefetch(QUESTION)
    status = agent.recall_status()
    assert status is None or status.count == 0


def test_every_recall_is_on_record(either: Wired) -> None:
    line = either.put(TRIP)
    either.agent().prefetch(QUESTION)
    gets = [entry for _, entry in either.vault.audit.entries() if entry is not None and entry.op.endswith("get")]
    assert any(line in entry.lines for entry in gets)


# The system prompt.


@pytest.mark.requirement("hermes-profile")
def test_owners_profiles_are_in_the_system_prompt(either: Wired) -> None:
    either.profile("Prefers trains.", "travel")
    shown = either.agent().system_prompt_block()
    assert "Prefers trains." in shown
    assert len(shown) <= 4000


def test_system_prompt_without_a_profile_has_nothing(either: Wired) -> None:
    either.put(ALLERGY, "personal")
    assert either.agent().system_prompt_block() == ""


def test_profile_that_cannot_be_read_is_said(remote: Served) -> None:
    agent = remote.agent()
    remote.stop()
    assert agent.system_prompt_block() == ""
    assert remote.problems()["the profile"] == "server_unavailable"


@pytest.mark.parametrize("is_new", [True, False])
def test_question_that_was_asked_before_recalls_what_it_did_where_most_lines_hold_its_one_known_word(
    wired: Wired, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, its rare words stand in one line: the question itself, which is left out as an echo."""
    monkeypatch.setattr(term_weights, "SURELY", 5)
    wired.write("[recall]\nlines = 5\nmin_confidence = 0.0")
    for number in range(12):
        wired.put(f"Anna likes number {number}" if number % 3 else f"It rained on day {number}")
    if not is_new:
        wired.put("Anna zucchini allergies?", author="owner", kind="turn")
    assert say(wired.agent("s2"), "Anna zucchini allergies?").count("Anna likes") > 2
