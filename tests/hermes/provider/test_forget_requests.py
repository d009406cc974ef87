"""A request to forget is not kept, the reply to it neither, and the model is told how forgetting is done."""

from __future__ import annotations

import json

import pytest

from strongroom.hermes.provider.line_format import HEADING
from strongroom.hermes.provider.model_tools import FORGET, REMEMBER
from tests.hermes.provider.conftest import DM, Wired, history, say

pytestmark = pytest.mark.requirement("hermes-forget-request")
CODE = "My gym code is 5521"
ASKED = "Please forget that my gym code is 5521."


@pytest.mark.parametrize(
    "asked", [ASKED, "Bitte vergiss, dass mein Code 5521 ist.", "delete what I told you about 5521"]
)
def test_neither_a_request_to_forget_nor_the_reply_is_kept(wired: Wired, asked: str) -> None:
    agent = wired.agent()
    say(agent, "hello", "hi")
    say(agent, asked, "I forgot that it is 5521.", messages=history("hello", asked))
    assert wired.texts() == ["hello", "hi"]
    assert b"is 5521" not in wired.raw()
    assert b"told you about" not in wired.raw()


def test_nor_is_what_tools_and_other_agents_write_in_that_turn(wired: Wired) -> None:
    wired.write(tools='"full"')
    agent = wired.agent()
    agent.on_turn_start(1, ASKED)
    assert json.loads(agent.handle_tool_call(REMEMBER, {"text": "The code was 5521"}))["kept"] is False
    agent.on_memory_write("add", "user", "5521 is to be forgotten")
    agent.on_delegation("forget 5521", "done")
    agent.sync_turn(ASKED, "Done.", session_id="s1")
    assert wired.texts() == []


def test_request_that_a_runtime_tells_of_in_other_words_or_not_at_all_when_it_begins_is_not_kept(
    wired: Wired,
) -> None:
    agent = wired.agent()
    agent.sync_turn(ASKED, "Done.", session_id="s1")
    agent.on_turn_start(2, "")
    agent.sync_turn(ASKED, "Done.", session_id="s1")
    assert wired.texts() == []


def test_request_in_a_process_that_dies_is_not_delivered(wired: Wired) -> None:
    wired.agent().on_turn_start(1, ASKED)
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == []


def test_request_that_also_says_on_the_record_is_not_kept(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "this conversation is off the record")
    say(agent, f"back on the record. {ASKED}")
    assert "5521" not in " ".join(wired.texts())


@pytest.mark.parametrize("said", ["I always forget my keys", "Don't forget to buy milk", "Did I forget the milk?"])
def test_talk_about_forgetting_is_kept(wired: Wired, said: str) -> None:
    say(wired.agent(), said)
    assert said in wired.texts()


def test_owner_may_have_requests_kept(wired: Wired) -> None:
    wired.write("[keep]\nforget_requests = true")
    shown = say(wired.agent(), ASKED)
    assert ASKED in wired.texts()
    assert "this turn is not kept" not in shown


# What the model is told.


def test_model_without_a_tool_is_told_the_owners_command(either: Wired) -> None:
    line = either.put(CODE)
    shown = either.agent().prefetch(ASKED)
    assert f"[{line}]" in shown
    assert "`hermes strongroom forget --turn ID`" in shown
    assert "strongroom_forget" not in shown


def test_model_with_the_tool_is_told_to_use_it(wired: Wired) -> None:
    wired.write(tools='"forget"')
    line = wired.put(CODE)
    shown = wired.agent().prefetch(ASKED)
    assert f"[{line}]" in shown
    assert "strongroom_forget" in shown
    assert "hermes strongroom forget" not in shown


def test_command_names_the_person_whose_memory_it_is(wired: Wired) -> None:
    shown = wired.agent(**DM).prefetch(ASKED)
    assert "forget --as hermes/default/telegram/100 --turn ID" in shown
    assert HEADING not in shown


def test_lines_that_were_shown_before_are_shown_again_with_their_ids(wired: Wired) -> None:
    line = wired.put(CODE)
    agent = wired.agent()
    assert f"[{line}]" in agent.prefetch("What is my gym code?")
    assert f"[{line}]" in agent.prefetch(ASKED)


def test_ordinary_question_gets_no_note(wired: Wired) -> None:
    wired.put(CODE)
    assert "not kept" not in wired.agent().prefetch("What is my gym code?")


# What is done.


def test_turn_in_which_the_tool_forgot_something_is_not_kept_however_it_was_asked(wired: Wired) -> None:
    wired.write(tools='"forget"')
    line = wired.put(CODE)
    agent = wired.agent()
    asked = "the thing with 5521, away with it"
    agent.on_turn_start(1, asked)
    assert json.loads(agent.handle_tool_call(FORGET, {"ids": [line]}))["lines"] == 1
    agent.sync_turn(asked, "5521 is gone.", session_id="s1")
    assert wired.texts() == []
    assert wired.files(".draft") == []


def test_note_that_is_removed_on_request_takes_its_turn_along(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, CODE)
    agent.on_memory_write("add", "user", "The gym code is 5521.")
    agent.sync_turn(CODE, "5521, noted.", session_id="s1")
    agent.on_turn_start(2, ASKED)
    agent.on_memory_write("remove", "user", "", {"old_text": "5521"})
    agent.sync_turn(ASKED, "Done.", session_id="s1")
    assert wired.texts() == []


def test_note_that_the_model_tidies_away_by_itself_goes_alone(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, CODE)
    agent.on_memory_write("add", "user", "The gym code is 5521.")
    agent.sync_turn(CODE, "noted.", session_id="s1")
    agent.on_memory_write("remove", "user", "", {"old_text": "5521"})
    assert wired.texts() == [CODE, "noted."]
