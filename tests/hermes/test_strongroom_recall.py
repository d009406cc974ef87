"""Hermes remembers through the gate: what one session said reaches the model in the next, within the cap, and lies
nowhere of ours in clear. In the real Hermes, embedded and over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from strongroom.hermes.provider.line_format import HEADING
from tests.hermes import rig_agent
from tests.hermes.model_server import ToolCall
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import OWNER, Wired, database, ids, in_clear, served, wired

QUESTION = "where am I going this weekend?"
ALLERGY = "I'm allergic to peanuts, they made me very ill once."
SMALL_TALK = (  # more lines with a word of the question than a model is shown
    "The printer on the second floor keeps going off.",
    "Our cat is going grey.",
    "I have finished the book about lighthouses, which was slow going.",
    "The new coffee machine is going to the workshop.",
    "My bicycle is going well with the new chain.",
    "They are going to paint the staircase green.",
    "The soup is going to be too salty.",
)


def trip() -> str:
    """The seed's sentence, with the dates of the weekend that comes."""
    today = datetime.now().astimezone().date()
    first = today + timedelta(days=(5 - today.weekday()) % 7)
    return f"By the way, my trip to Chengdu is from {_said(first)} to {_said(first + timedelta(days=4))}."


def _said(day: date) -> str:
    return f"{day:%B} {day.day}"


@contextmanager
def embedded(where: Path, model: Model) -> Iterator[Wired]:
    yield wired(where, model)


Setting = Callable[[Path, Model], AbstractContextManager[Wired]]


@pytest.mark.requirement("hermes-no-manual-add", "hermes-no-plaintext")
@pytest.mark.parametrize("setting", [embedded, pytest.param(served, marks=pytest.mark.long)])
def test_words_said_in_passing_reach_the_model_in_the_next_process_and_lie_nowhere_of_ours_in_clear(
    tmp_path: Path, setting: Setting
) -> None:
    with Model() as model, setting(tmp_path / "home", model) as home:
        home.owner.put(SMALL_TALK)
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(trip(), "Have a good time.")
            me.say("How long is my trip to Chengdu?")
            assert trip() not in home.told("How long is"), "what this session said itself is before the model anyway"
        assert process.told[-1]["outside"] == [], "Hermes' process touched nothing outside its home"
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(QUESTION)
            recalled = home.told(QUESTION)
            assert recalled.startswith(HEADING)
            assert trip() in recalled
            assert len(ids(recalled)) <= 3
            for _ in range(4):
                me.command("/new")
                me.say(QUESTION)
                assert trip() in home.told(QUESTION), "also where the question itself was asked before"
        words = ("Chengdu", "Have a good time", "lighthouses", QUESTION)
        assert in_clear(words, home.owner.data, home.policy.state) == []
        assert in_clear(words[:1], home.rig.home.hermes), "the search finds what does lie in clear: Hermes' own files"


@pytest.mark.requirement("hermes-first-turn-10000")
def test_first_turn_of_a_fresh_process_recalls_among_ten_thousand_lines(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        home.owner.put(f"On shelf {n} of the archive there is box {n * 7919 % 10007}." for n in range(9_999))
        home.owner.put([trip()], "travel")
        with rig_agent.start(home.rig) as process:
            process.terminal().say(QUESTION)
        assert trip() in home.told(QUESTION)


@pytest.mark.requirement("hermes-travel-only", "hermes-taint")
def test_cap_for_travel_gets_the_trip_and_not_the_allergy_also_after_a_reply_with_both(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        both = "On your trip to Chengdu, mind the peanuts in the hotel."
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(trip(), "Have a good flight.")
            me.say(ALLERGY, "I see.")
            me.say("What should I think of in the hotel?", both)
            me.command("/new")
            me.say("Past the peanuts, how?", "Take a taxi to the airport, and no peanuts.")
        kept = {line.text: line.hit.namespace for line in home.owner.lines()}
        assert (kept[trip()], kept[ALLERGY], kept[both]) == ("travel", "personal", "personal")
        assert kept["Have a good flight."] == "travel", "said before anything personal was"
        assert ALLERGY in home.told("Past the peanuts, how?")
        assert kept["Take a taxi to the airport, and no peanuts."] == "personal", "said where the allergy was recalled"
        home.wire("--namespaces", "travel")
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(QUESTION)
            me.say("Which allergies do I have, peanuts perhaps? What about my hotel and the airport?")
            me.say("I am allergic to strawberries.")
        asked = model.seen("Which allergies do I have").everything
        assert trip() in asked
        assert "very ill" not in asked
        assert "mind the peanuts" not in asked
        assert "no peanuts" not in asked
        assert "strawberries" not in " ".join(home.owner.texts()), "what lies outside the cap is not kept either"


@pytest.mark.requirement("hermes-profile", "hermes-tools-none")
def test_model_has_the_owner_s_profile_and_tools_of_memory_only_by_the_owner_s_word(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        home.owner.put(["The spare key is under the flowerpot.", "The gate code is 4711.", *SMALL_TALK])
        with home.owner.memory() as memory:
            memory.set_profile("Alice prefers short answers.", namespace="personal")
        asks = ToolCall("strongroom_recall", {"query": "where is the spare key?", "lines": 1})
        asks_more = ToolCall("strongroom_recall", {"query": "what is the gate code?", "lines": 1})
        with rig_agent.start(home.rig) as process:
            process.agent("without").say("Hello there.")
            home.write(tools="recall")
            looking = process.agent("with")
            looking.say("Look it up, please.", "It is there.", [asks])
            home.write(tools="none")
            looking.say("Look again, please.", "No.", [asks_more])
    first, *later = [request for request in model.requests if request.get("tools")]
    assert "Alice prefers short answers." in model.seen("Hello there.").system
    assert "flowerpot" not in model.seen("Hello there.").system
    assert _offered(first) == []
    assert _offered(later[0]) == ["strongroom_forget", "strongroom_recall"]
    found, refused = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"]
    assert ("flowerpot" in found, "4711" in found) == (True, False)
    assert "4711" not in refused, "a tool that is offered no more is refused"


def _offered(request: dict[str, object]) -> list[str]:
    tools = request["tools"]
    assert isinstance(tools, list)
    return sorted(name for one in tools if (name := str(one["function"]["name"])).startswith("strongroom"))


@pytest.mark.requirement("hermes-recalled-never-stored")
def test_recalled_line_is_shown_once_in_a_session_and_never_kept_again(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        home.owner.put([trip()], "travel")
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(QUESTION, "To Chengdu.")
            quoted = home.told(QUESTION)
            me.say(f"You were given this:\n{quoted}\nDid you see it?", f"I was given:\n{quoted}")
            me.say("And my trip to Chengdu, from when to when?")
            again = [home.told("You were given this"), home.told("from when to when?")]
            me.compress()
            me.say("Once more: where am I going this weekend, to Chengdu?")
        line = next(one.hit.id for one in home.owner.lines(OWNER) if one.text == trip())
        assert line in ids(quoted)
        assert all(line not in ids(one) for one in again)
        assert line in ids(home.told("Once more")), "what was summarised away is shown again"
        kept = home.owner.lines(OWNER)
        assert [one.hit.id for one in kept if trip() in one.text] == [line]
        assert not any(HEADING in one.text or "memory-context" in one.text for one in kept)
        stored = database(home.rig, "select api_content from messages where api_content is not null")
        assert any(trip() in text for (text,) in stored), "Hermes itself keeps it there"
