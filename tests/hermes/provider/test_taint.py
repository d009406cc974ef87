"""The taint rule: what a reply may repeat, it carries, on every path by which something came before the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from strongroom import settings
from strongroom.hermes import cap_file
from strongroom.hermes.provider import StrongroomProvider, conversation
from tests.hermes.provider.conftest import ALLERGY, DM, GROUP, GROUP_ACTOR, OWNER, SCOPE, TRIP, Wired, history

REPLY = "Chengdu it is, and mind the peanuts on your trip"
"""Its own words say travel."""

pytestmark = pytest.mark.requirement("hermes-taint")


def turn(
    agent: StrongroomProvider,
    user: str,
    reply: str,
    session: str = "",
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """A turn for which nothing is recalled: what taints a reply is what the test says, and nothing else."""
    agent.on_turn_start(1, user)
    agent.sync_turn(user, reply, session_id=session, messages=messages)


def readable_with_travel(wired: Wired, actor: str = OWNER) -> list[str]:
    return wired.texts(actor, "travel")


def test_reply_alone_would_be_readable_with_a_travel_cap(wired: Wired) -> None:
    """What the other tests here stand on."""
    turn(wired.agent(), TRIP, REPLY)
    assert REPLY in readable_with_travel(wired)


def test_reply_to_a_private_turn_is_private(either: Wired) -> None:
    turn(either.agent(), f"{ALLERGY}. Where do I go?", REPLY)
    assert readable_with_travel(either) == []
    assert REPLY in either.texts(OWNER, "personal")


def test_reply_after_a_private_turn_of_the_same_conversation_is_private(either: Wired) -> None:
    agent = either.agent()
    turn(agent, ALLERGY, "Noted")
    turn(agent, TRIP, REPLY)
    assert REPLY not in readable_with_travel(either)
    assert TRIP in readable_with_travel(either)  # what the person said is not tainted by what he said before


def test_reply_after_a_private_line_was_shown_is_private(either: Wired) -> None:
    either.put(ALLERGY, "personal")
    agent = either.agent()
    assert "peanut" in agent.prefetch("what about peanut allergy on my trip?")
    turn(agent, TRIP, REPLY)
    assert REPLY not in readable_with_travel(either)


def test_travel_cap_gets_the_trip_and_not_the_allergy_after_a_reply_that_mentioned_both(either: Wired) -> None:
    agent = either.agent()
    turn(agent, TRIP, "Nice")
    turn(agent, ALLERGY, "Noted")
    turn(either.agent("s2"), "What do I need for my trip to Chengdu with my peanut allergy?", REPLY)
    cap_file.write(either.cap, cap_file.mint(either.vault, SCOPE, ("travel",)))
    shown = either.agent("s3").prefetch("trip to Chengdu, peanuts, allergy")
    assert TRIP in shown
    assert "peanut" not in shown


def test_lines_shown_by_the_recall_tool_count(either: Wired) -> None:
    either.put(ALLERGY, "personal")
    either.write(tools='"recall"')
    agent = either.agent()
    assert "peanut" in agent.handle_tool_call("strongroom_recall", {"query": "peanut allergy"})
    turn(agent, TRIP, REPLY)
    assert REPLY not in readable_with_travel(either)


def test_profiles_in_the_system_prompt_count(either: Wired) -> None:
    either.profile("Has a peanut allergy.", "personal")
    agent = either.agent()
    assert "peanut" in agent.system_prompt_block()
    turn(agent, TRIP, REPLY)
    assert REPLY not in readable_with_travel(either)


def test_profile_that_did_not_fit_taints_nothing(wired: Wired) -> None:
    wired.profile("x" * 5000, "personal")
    agent = wired.agent()
    agent.system_prompt_block()
    turn(agent, TRIP, REPLY)
    assert REPLY in readable_with_travel(wired)


def test_taint_outlasts_the_process(either: Wired) -> None:
    """The runtime replays the history, with everything that was shown."""
    either.put(ALLERGY, "personal")
    either.agent().prefetch("peanut allergy?")
    either.forget_process()
    turn(either.agent(), TRIP, REPLY)
    assert REPLY not in readable_with_travel(either)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xff"])
def test_damaged_state_counts_as_the_most_sensitive(wired: Wired, damage: bytes) -> None:
    agent = wired.agent()
    turn(agent, TRIP, "Nice")
    wired.forget_process()
    (place,) = (wired.state / "sessions").glob("*.json")
    place.write_bytes(damage)
    turn(wired.agent(), "another trip", REPLY)
    assert REPLY not in readable_with_travel(wired)


@pytest.mark.parametrize("kwargs", [{"reason": "compression"}, {"reason": "branch"}, {"reason": "something new"}, {}])
@pytest.mark.parametrize("new", ["s1", "s2"])
def test_taint_goes_along_into_a_rotated_or_branched_conversation(
    wired: Wired, new: str, kwargs: dict[str, Any]
) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    agent.prefetch("peanut allergy?")
    agent.on_session_switch(new, parent_session_id="s1", **kwargs)
    wired.forget_process()
    turn(wired.agent(new), TRIP, REPLY, session=new)
    assert REPLY not in readable_with_travel(wired)


def test_new_conversation_begins_clean(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    agent.prefetch("peanut allergy?")
    agent.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    turn(agent, TRIP, REPLY, session="s2")
    assert REPLY in readable_with_travel(wired)


def test_turn_of_the_old_conversation_that_is_told_after_the_new_one_began_is_still_tainted(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    agent.on_turn_start(1, TRIP)
    agent.prefetch("peanut allergy?")
    agent.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    agent.sync_turn(TRIP, REPLY, session_id="s1")
    assert REPLY not in readable_with_travel(wired)


def test_lines_shown_before_a_late_switch_taint_the_turn_told_after_it(either: Wired) -> None:
    """A runtime may queue the switch to a new conversation behind other work, and begin its first turn at once."""
    either.put(ALLERGY, "personal")
    agent = either.agent()
    agent.on_turn_start(1, TRIP)
    assert "peanut" in agent.prefetch("which peanut dishes on my trip?")
    agent.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    agent.sync_turn(TRIP, REPLY, session_id="s2", messages=history(TRIP))
    assert REPLY not in readable_with_travel(either)
    turn(agent, "another trip", "Another trip!", session="s2", messages=history(TRIP, "another trip"))
    assert "Another trip!" not in readable_with_travel(either)


def test_lines_shown_by_the_tool_before_a_late_switch_count(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    wired.write(tools='"recall"')
    agent = wired.agent()
    agent.on_turn_start(1, TRIP)
    agent.handle_tool_call("strongroom_recall", {"query": "peanut allergy"})
    agent.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    agent.sync_turn(TRIP, REPLY, session_id="s2")
    assert REPLY not in readable_with_travel(wired)


def test_system_prompt_from_before_a_late_switch_counts(wired: Wired) -> None:
    wired.profile("Has a peanut allergy.", "personal")
    agent = wired.agent()
    assert "peanut" in agent.system_prompt_block()
    agent.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    turn(agent, TRIP, REPLY, session="s2")
    assert REPLY not in readable_with_travel(wired)


def test_lines_shown_to_another_agent_taint_its_result(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    parent, child = wired.agent("parent"), wired.agent("child", agent_context="subagent")
    parent.on_turn_start(1, TRIP)
    assert "peanut" in child.prefetch("which peanut allergy do I have?")
    parent.on_delegation("book the hotel of the trip", REPLY, child_session_id="child")
    parent.sync_turn(TRIP, "The trip is booked", session_id="parent")
    assert [text for text in readable_with_travel(wired) if text != TRIP] == []


# A history from before.


def test_history_that_nobody_knows_counts_as_the_most_sensitive_before_a_turn_is_told(wired: Wired) -> None:
    agent = wired.agent("old")
    agent.on_turn_start(3, TRIP)
    agent.on_delegation("plan the trip", "a hotel without peanuts")
    agent.sync_turn(TRIP, REPLY, session_id="old", messages=history(ALLERGY, "what else?", TRIP))
    assert readable_with_travel(wired) == [TRIP]


def test_turn_that_only_began_makes_no_history_known(wired: Wired) -> None:
    wired.agent("old").on_turn_start(1, TRIP)
    wired.forget_process()
    turn(wired.agent("old"), "another trip", REPLY, "old", history(ALLERGY, "another trip"))
    assert REPLY not in readable_with_travel(wired)


@pytest.mark.parametrize("settled", [True, False])
def test_history_that_was_told_of_is_known_also_to_the_next_process(wired: Wired, settled: bool) -> None:
    """Hermes says after each turn that there is time. A process that dies before has made nothing known."""
    agent = wired.agent()
    turn(agent, TRIP, "Nice", messages=history(TRIP))
    if settled:
        agent.queue_prefetch(TRIP, session_id="s1")
    wired.forget_process()
    agent = wired.agent()
    agent.on_turn_start(2, "another trip")
    agent.sync_turn("another trip", REPLY, messages=history(TRIP, "another trip"))
    assert (REPLY in readable_with_travel(wired)) is settled
    assert REPLY in wired.texts(OWNER, "travel", "personal")


def test_first_turn_that_was_interrupted_is_no_unknown_history(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "My trip")
    agent.on_turn_start(2, TRIP)
    agent.sync_turn(TRIP, REPLY, messages=history(TRIP))
    assert REPLY in readable_with_travel(wired)


def test_most_sensitive_is_what_the_policy_says_now(wired: Wired) -> None:
    wired.write(namespaces="['work', 'personal', 'family', 'travel']")
    agent = wired.agent("old")
    agent.on_turn_start(1, TRIP)
    wired.write(namespaces="['personal', 'family', 'work', 'travel']")
    agent.sync_turn(TRIP, REPLY, session_id="old", messages=history(ALLERGY, TRIP))
    assert REPLY in wired.texts(OWNER, "personal")


def test_resumed_conversation_has_its_own_taint_and_not_that_of_the_one_it_was_left_for(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    wired.agent("old").prefetch("peanut allergy?")
    agent = wired.agent("new")
    turn(agent, TRIP, "Nice", session="new")
    agent.on_session_switch("old", reason="resume")
    turn(agent, "another trip", REPLY, session="old")
    assert REPLY not in readable_with_travel(wired)
    agent.on_session_switch("new", reason="resume")
    turn(agent, "a third trip", "Third trip!", session="new")
    assert "Third trip!" in readable_with_travel(wired)


def test_lines_recalled_for_one_speaker_of_a_thread_taint_the_reply_to_another(wired: Wired) -> None:
    wired.put(ALLERGY, "personal", actor=GROUP_ACTOR)
    alice, bob = wired.agent(**GROUP), wired.agent(**{**GROUP, "user_id": "200"})
    alice.prefetch("[alice] peanut allergy?")
    turn(bob, f"[bob] {TRIP}", REPLY)
    assert REPLY not in readable_with_travel(wired, GROUP_ACTOR)


def test_joining_an_account_between_two_turns_leaves_no_taint_behind(wired: Wired) -> None:
    """The actor is another from now on; the history that the model reads is the same."""
    agent = wired.agent(**DM)
    turn(agent, ALLERGY, "Noted")
    wired.write('[people]\nme = ["telegram:100"]')
    turn(agent, TRIP, REPLY)
    assert TRIP in readable_with_travel(wired)
    assert REPLY not in readable_with_travel(wired)


@pytest.mark.parametrize("how", ["delegation", "memory", "remember"])
def test_notes_of_an_agent_within_a_turn_are_as_private_as_the_turn(wired: Wired, how: str) -> None:
    wired.write(tools='"full"')
    agent = wired.agent()
    agent.on_turn_start(1, f"{ALLERGY}; find me a hotel")
    if how == "delegation":
        agent.on_delegation("a hotel for the trip without peanuts", "the Grand hotel")
    elif how == "memory":
        agent.on_memory_write("add", "memory", "no peanuts on a trip")
    else:
        agent.handle_tool_call("strongroom_remember", {"text": "no peanuts on a trip"})
    assert len(wired.texts()) == 1
    assert readable_with_travel(wired) == []


def test_line_that_cannot_be_noted_on_disk_is_not_shown(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a restart would make it look as if it had never been shown."""
    wired.put(ALLERGY, "personal")
    agent = wired.agent()

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(conversation, "write_file", full)
        assert agent.prefetch("peanut allergy?") == ""
        assert agent.prefetch("peanut allergy?") == ""
        assert wired.problems()["recall"] == "store_unavailable"
    assert "peanut" in agent.prefetch("peanut allergy?")


def test_namespace_that_the_policy_no_longer_orders_counts_as_the_most_sensitive(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    agent.prefetch("peanut allergy?")
    wired.write(namespaces='["work", "travel"]')
    turn(agent, TRIP, REPLY)
    assert REPLY not in wired.texts(OWNER, "work", "travel")
    assert TRIP in readable_with_travel(wired)


def test_reply_that_the_owners_rules_put_out_of_reach_is_not_kept_however_private_the_conversation_is(
    wired: Wired,
) -> None:
    config = settings.config_path()
    config.parent.mkdir(parents=True)
    config.write_text(
        '[routing]\ndefault = "personal"\n'
        '[[routing.rules]]\nname = "safe"\nnamespace = "safe"\nwords = ["combination"]\n'
    )
    agent = wired.agent()
    turn(agent, ALLERGY, "Noted")
    turn(agent, "and what was it again?", "The combination is 12-34-56")
    kept = wired.texts(OWNER, *wired.vault.namespaces)
    assert "Noted" in kept
    assert not [text for text in kept if "combination" in text]


def test_chat_mapped_to_travel_does_not_wash_what_was_shown(wired: Wired) -> None:
    wired.put(ALLERGY, "personal", actor=GROUP_ACTOR)
    wired.write('[chats]\n"telegram:-5" = "travel"')
    agent = wired.agent(**GROUP)
    agent.prefetch("[a] peanut allergy?")
    turn(agent, "[a] hello", REPLY)
    assert REPLY not in readable_with_travel(wired, GROUP_ACTOR)


def test_compression_forgets_what_was_shown_and_not_how_private_it_was(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    turn(agent, "peanut allergy?", "yes", messages=history("a", "b", "peanut allergy?"))
    agent.on_session_switch("s1", parent_session_id="s1", reason="compression")
    turn(agent, TRIP, REPLY, messages=history("summary", TRIP))
    assert REPLY not in readable_with_travel(wired)
