"""Taking turns back: what was undone is forgotten, and never anything else."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom.hermes.provider import StrongroomProvider
from tests.hermes.provider.conftest import GROUP, GROUP_ACTOR, Served, Wired, history, say

pytestmark = pytest.mark.requirement("hermes-undo")
KEY = "agent:main:telegram:dm:100"
CHAT: dict[str, Any] = {
    "platform": "telegram", "user_id": "100", "chat_id": "100", "chat_type": "dm", "gateway_session_key": KEY
}  # fmt: skip
ACTOR = "hermes/default/telegram/100"
SUMMARY = "[CONTEXT COMPACTION \u2014 REFERENCE ONLY] Earlier turns were compacted."


def talk(agent: StrongroomProvider, *said: str) -> None:
    """Turns with the history that a runtime hands over."""
    for number in range(len(said)):
        say(agent, said[number], messages=history(*said[: number + 1]))


def undo(agent: StrongroomProvider, session: str = "s1") -> None:
    agent.on_session_switch(session, parent_session_id="", reset=False, rewound=True)


def said(wired: Wired, actor: str = "hermes/default/owner") -> list[str]:
    return [text for text in wired.texts(actor) if text != "Noted."]


# On the command line, where a hook tells.


def test_undone_turn_is_forgotten(either: Wired) -> None:
    agent = either.agent()
    talk(agent, "one", "two")
    undo(agent)
    assert either.texts() == ["one", "Noted."]
    undo(agent)
    assert either.texts() == []


def test_undone_turn_is_recalled_no_more(either: Wired) -> None:
    agent = either.agent()
    talk(agent, "My trip to Chengdu is on May 25")
    undo(agent)
    assert either.agent("s2").prefetch("When is my trip to Chengdu?") == ""


def test_more_undos_than_turns_take_nothing_else(wired: Wired) -> None:
    talk(wired.agent("before"), "from another conversation")
    agent = wired.agent()
    talk(agent, "one")
    for _ in range(3):
        undo(agent)
    assert said(wired) == ["from another conversation"]


def test_undoing_a_turn_off_the_record_takes_back_no_other(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me", "off the record, forget it")
    undo(agent)
    assert said(wired) == ["keep me"]


def test_undoing_a_turn_that_was_interrupted_takes_back_no_other(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    agent.on_turn_start(2, "never mind")
    undo(agent)
    assert said(wired) == ["keep me"]
    wired.forget_process()
    wired.agent("s2")
    assert said(wired) == ["keep me"]  # nor does its draft come back


def test_words_that_were_interrupted_undone_and_said_again_are_kept(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    agent.on_turn_start(2, "go on")
    undo(agent)
    say(agent, "go on", "done")
    assert wired.texts() == ["keep me", "Noted.", "go on", "done"]


def test_undoing_a_turn_that_is_told_late_keeps_it_from_being_kept(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    agent.on_turn_start(2, "never mind")
    undo(agent)
    agent.sync_turn("never mind", "ok", session_id="s1")
    assert wired.texts() == ["keep me", "Noted."]


def test_undoing_a_turn_of_a_platform_that_is_not_kept_takes_back_no_other(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "keep me")
    wired.write('[off_the_record]\nplatforms = ["cli"]')
    say(agent, "not kept")
    undo(agent)
    assert said(wired) == ["keep me"]


def test_turn_is_taken_back_later_if_the_server_is_down_now(remote: Served) -> None:
    agent = remote.agent()
    talk(agent, "one", "two")
    remote.stop()
    undo(agent)
    assert remote.problems()["taking a turn back"] == "server_unavailable"
    remote.start()
    say(agent, "three")
    assert said(remote) == ["one", "three"]
    assert remote.problems() == {}


def test_spooled_turn_that_is_undone_is_never_delivered(remote: Served) -> None:
    agent = remote.agent()
    remote.stop()
    say(agent, "keep me")
    say(agent, "never mind")
    undo(agent)
    remote.forget_process()
    remote.start()
    remote.agent("s2")
    assert said(remote) == ["keep me"]


def test_undo_after_a_rotation_takes_back_the_turn_before_it(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "one", "two")
    agent.on_session_switch("s2", parent_session_id="s1", reason="compression")
    undo(agent, "s2")
    assert said(wired) == ["one"]


def test_undo_after_a_restart_takes_back_the_last_turn_of_the_conversation(either: Wired) -> None:
    """A conversation that another process goes on with: `hermes --resume`, then /undo."""
    talk(either.agent("other"), "from another conversation")
    talk(either.agent(), "one", "two")
    either.forget_process()
    undo(either.agent())
    assert said(either) == ["from another conversation", "one"]


def test_undone_turn_may_be_said_again(wired: Wired) -> None:
    agent = wired.agent()
    talk(agent, "hello")
    undo(agent)
    say(agent, "hello")
    assert said(wired) == ["hello"]


# In a gateway, where no hook tells.


def test_gateways_undo_is_noticed_at_the_next_turn(either: Wired) -> None:
    talk(either.agent(**CHAT), "one", "two", "three")
    say(either.agent(**CHAT), "four", messages=history("one", "four"))  # a new agent: the old one was evicted
    assert said(either, ACTOR) == ["one", "four"]


def test_undo_of_the_only_turn_is_noticed(either: Wired) -> None:
    talk(either.agent(**CHAT), "one")
    say(either.agent(**CHAT), "two", messages=history("two"))
    assert said(either, ACTOR) == ["two"]


def test_undo_in_a_shared_thread_is_noticed_whoever_speaks_next(wired: Wired) -> None:
    group = {**GROUP, "gateway_session_key": "agent:main:telegram:group:-5"}
    talk(wired.agent(**{**group, "user_name": "alice"}), "[alice] one", "[alice] two")
    say(
        wired.agent(**{**group, "user_id": "200", "user_name": "bob"}),
        "[bob] three",
        messages=history("[alice] one", "[bob] three"),
    )
    assert said(wired, GROUP_ACTOR) == ["one", "three"]


# What looks like an undo and is none.


def test_history_that_goes_on_loses_nothing(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    talk(agent, "yes", "no", "yes", "yes", "no", "yes")
    assert said(wired, ACTOR) == ["yes", "no", "yes", "yes", "no", "yes"]


def test_turn_with_a_picture_is_not_taken_for_undone(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    picture = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, {"type": "image_url"}]}
    talk(agent, "one")
    agent.on_turn_start(2, "")
    shown = [*history("one"), picture, {"role": "assistant", "content": "Noted."}]
    agent.sync_turn("[1 image]\nwhat is this?", "Noted.", session_id="s1", messages=shown)
    say(agent, "three", messages=[*shown, *history("three")])
    assert said(wired, ACTOR) == ["one", "[1 image]\nwhat is this?", "three"]


def test_turn_whose_message_the_runtime_changed_is_not_taken_for_undone(wired: Wired) -> None:
    """A skill's text stands in the history in place of what the person wrote."""
    agent = wired.agent(**CHAT)
    talk(agent, "one")
    agent.on_turn_start(2, "/plan a trip")
    shown = history("one", "[SKILL] a long text about planning: a trip")
    agent.sync_turn("/plan a trip", "Noted.", session_id="s1", messages=shown)
    say(agent, "three", messages=[*shown, *history("three")])
    assert said(wired, ACTOR) == ["one", "/plan a trip", "three"]


@pytest.mark.parametrize("left", [("one",), (), ("one", "four"), ("four", "five")])
def test_compression_is_not_taken_for_an_undo(wired: Wired, left: tuple[str, ...]) -> None:
    """Hermes keeps the first messages and the last, and a summary between them."""
    agent = wired.agent(**CHAT)
    talk(agent, "one", "two", "three", "four", "five")
    head = history(*left[:1])
    shown = [*head, {"role": "user", "content": SUMMARY}, *history(*left[1:], "six")]
    say(wired.agent(**CHAT), "six", messages=shown)
    assert said(wired, ACTOR) == ["one", "two", "three", "four", "five", "six"]
    say(wired.agent(**CHAT), "seven", messages=[*shown, *history("seven")])
    assert said(wired, ACTOR) == ["one", "two", "three", "four", "five", "six", "seven"]


def test_compression_that_ends_like_an_earlier_turn_is_not_taken_for_an_undo(wired: Wired) -> None:
    """Three messages at the head and a summary are as many as there were after the second turn."""
    agent = wired.agent(**CHAT)
    talk(agent, "one", "two", "three")
    shown = [*history("one", "two")[:3], {"role": "assistant", "content": SUMMARY}, *history("four")]
    say(agent, "four", messages=shown)
    assert said(wired, ACTOR) == ["one", "two", "three", "four"]


def merged(text: str) -> str:
    """A message as Hermes rewrites it where a summary of its own would follow one of the same role."""
    head = "[PRIOR CONTEXT \u2014 for reference only; not a new message]\n"
    end = "--- END OF CONTEXT SUMMARY \u2014 respond to the message below, not the summary above ---"
    return f"{head}{text}\n\n[END OF PRIOR CONTEXT \u2014 COMPACTION SUMMARY BELOW]\n\n{SUMMARY}\n\n{end}"


def test_summary_that_is_merged_into_the_message_of_this_turn_is_not_taken_for_an_undo(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    talk(agent, "one", "two")
    say(agent, "three", messages=history(merged("three")))
    assert said(wired, ACTOR) == ["one", "two", "three"]


def test_summary_that_is_merged_into_a_reply_is_not_taken_for_an_undo(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    talk(agent, "one", "two", "three")
    shown = [{"role": "user", "content": "one"}, {"role": "assistant", "content": merged("Noted.")}, *history("four")]
    say(agent, "four", messages=shown)
    assert said(wired, ACTOR) == ["one", "two", "three", "four"]


def test_undo_after_a_compression_is_noticed(wired: Wired) -> None:
    agent = wired.agent(**CHAT)
    talk(agent, "one", "two")
    shown = [{"role": "user", "content": SUMMARY}, *history("three")]
    say(agent, "three", messages=shown)
    say(agent, "four", messages=[*shown, *history("four")])
    say(agent, "five", messages=[*shown, *history("five")])
    assert said(wired, ACTOR) == ["one", "two", "three", "five"]


def test_client_of_the_api_server_that_sends_one_message_at_a_time_loses_nothing(wired: Wired) -> None:
    agent = wired.agent(platform="api_server", gateway_session_key="web")
    for text in ("one", "two", "three"):
        say(agent, text, messages=history(text))
    found = next(str(one) for one in wired.vault.actors() if "/key/" in str(one))
    assert said(wired, found) == ["one", "two", "three"]


def test_history_that_grew_before_a_turn_was_told_loses_nothing(wired: Wired) -> None:
    """Hermes hands over its live list, and the next turn may stand in it already."""
    agent = wired.agent(**CHAT)
    agent.on_turn_start(1, "one")
    agent.on_turn_start(2, "two")
    live = [*history("one"), {"role": "user", "content": "two"}]
    agent.sync_turn("one", "Noted.", session_id="s1", messages=live)
    agent.sync_turn("two", "Noted.", session_id="s1", messages=history("one", "two"))
    say(agent, "three", messages=history("one", "two", "three"))
    assert said(wired, ACTOR) == ["one", "two", "three"]


@pytest.mark.parametrize("kwargs", [{"reset": True, "reason": "new_session"}, {"reason": "resume"}])
def test_another_conversation_takes_nothing_back(wired: Wired, kwargs: dict[str, Any]) -> None:
    agent = wired.agent(**CHAT)
    talk(agent, "one", "two")
    agent.on_session_switch("s2", parent_session_id="s1", **kwargs)
    say(agent, "three", session="s2", messages=history("three"))
    assert said(wired, ACTOR) == ["one", "two", "three"]
