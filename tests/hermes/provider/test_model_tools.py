"""The tools: none unless the owner says so, within the speaker's own memory, and truthful about what they did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strongroom.hermes import cap_file
from strongroom.hermes.policy import Tools
from strongroom.hermes.provider import model_tools
from strongroom.hermes.provider.model_tools import FORGET, RECALL, REMEMBER
from strongroom.model import Kind
from tests.hermes.provider.conftest import ALLERGY, DM, GROUP, SCOPE, TRIP, Served, Wired, say

OFFERED = {"none": set(), "forget": {FORGET}, "recall": {RECALL, FORGET}, "full": {RECALL, FORGET, REMEMBER}}
CALLS: dict[str, dict[str, Any]] = {FORGET: {"last_turn": True}, RECALL: {"query": "trip"}, REMEMBER: {"text": "tea"}}


def call(agent: Any, name: str, **args: Any) -> dict[str, Any]:
    found = json.loads(agent.handle_tool_call(name, args))
    assert isinstance(found, dict)
    return found


# Refusals.


@pytest.mark.requirement("hermes-tools")
def test_no_tool_is_offered_by_default(wired: Wired) -> None:
    agent = wired.agent()
    assert agent.get_tool_schemas() == []
    for name in CALLS:
        assert call(agent, name, **CALLS[name])["reason"] == "invalid_request"


@pytest.mark.requirement("hermes-tools")
@pytest.mark.parametrize("setting", list(Tools))
def test_only_what_the_policy_offers_can_be_called(wired: Wired, setting: Tools) -> None:
    wired.write(tools=f'"{setting}"')
    agent = wired.agent()
    assert {str(one["name"]) for one in agent.get_tool_schemas()} == OFFERED[setting]
    for name in CALLS:
        refused = call(agent, name, **CALLS[name]).get("reason") == "invalid_request"
        assert refused is (name not in OFFERED[setting])


@pytest.mark.requirement("hermes-tools")
def test_tool_that_the_owner_takes_away_is_refused_at_the_next_call(wired: Wired) -> None:
    wired.write(tools='"full"')
    agent = wired.agent()
    assert call(agent, REMEMBER, text="Likes tea")["kept"]
    wired.write(tools='"none"')
    assert call(agent, REMEMBER, text="Likes coffee")["reason"] == "invalid_request"
    assert wired.texts() == ["Likes tea"]


@pytest.mark.parametrize("name", ["memory", "strongroom_list", "", "x" * 5000, "strongroom_erase"])
def test_unknown_tool_is_refused(wired: Wired, name: str) -> None:
    wired.write(tools='"full"')
    assert call(wired.agent(), name)["reason"] == "invalid_request"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        (FORGET, {}),
        (FORGET, {"ids": []}),
        (FORGET, {"ids": "01JABCDEFGHJKMNPQRSTVWXYZ0"}),
        (FORGET, {"ids": ["../x"]}),
        (FORGET, {"ids": [5]}),
        (FORGET, {"ids": ["01JABCDEFGHJKMNPQRSTVWXYZ0"] * 21}),
        (FORGET, {"last_turn": "yes"}),
        (RECALL, {}),
        (RECALL, {"query": 5}),
        (RECALL, {"query": " "}),
        (RECALL, {"query": "trip", "lines": 21}),
        (RECALL, {"query": "trip", "lines": True}),
        (RECALL, {"query": "trip", "lines": -1}),
        (REMEMBER, {}),
        (REMEMBER, {"text": ["tea"]}),
        (REMEMBER, {"text": ""}),
    ],
)
def test_bad_arguments_are_refused_and_forget_nothing(wired: Wired, name: str, args: dict[str, Any]) -> None:
    wired.write(tools='"full"')
    agent = wired.agent()
    say(agent, "hello", "hi")
    assert call(agent, name, **args)["reason"] == "invalid_request"
    assert wired.texts() == ["hello", "hi"]


@pytest.mark.parametrize("args", [None, "text", ["a"], 5])
def test_arguments_that_are_no_table_are_refused(wired: Wired, args: Any) -> None:
    wired.write(tools='"full"')
    assert "reason" in json.loads(wired.agent().handle_tool_call(RECALL, args))


@pytest.mark.requirement("hermes-people")
def test_nobody_forgets_or_recalls_somebody_elses_line(either: Wired) -> None:
    either.write(tools='"full"')
    line = either.put(TRIP)
    for told in (DM, GROUP):
        agent = either.agent(**told)
        assert call(agent, FORGET, ids=[line]) == {"forgotten": [], "lines": 0, "not_found": [line]}
        assert call(agent, RECALL, query="trip to Chengdu")["count"] == 0
    assert either.texts() == [TRIP]


@pytest.mark.requirement("hermes-api-nobody")
def test_nobodys_tools_do_nothing(wired: Wired) -> None:
    wired.write(tools='"full"')
    agent = wired.agent(platform="api_server")
    assert "reason" in call(agent, FORGET, last_turn=True)
    assert call(agent, RECALL, query="trip").get("count", 0) == 0
    assert call(agent, REMEMBER, text="Likes tea").get("kept") is not True


# What they do.


@pytest.mark.requirement("hermes-forget-in-chat")
def test_person_in_a_chat_asks_to_forget_what_was_recalled(either: Wired) -> None:
    either.write(tools='"forget"')
    line = either.put(TRIP, actor=f"{SCOPE}telegram/100")
    agent = either.agent(**DM)
    assert f"[{line}]" in agent.prefetch("When is my trip to Chengdu?")
    assert call(agent, FORGET, ids=[f"[{line}]"])["forgotten"] == [line]
    assert either.texts(f"{SCOPE}telegram/100") == []


def test_turn_before_is_forgotten_and_not_the_one_before_that(wired: Wired) -> None:
    wired.write(tools='"forget"')
    agent = wired.agent()
    say(agent, "one", "first")
    say(agent, "two", "second")
    agent.on_turn_start(3, "forget that please")
    assert "nothing" not in call(agent, FORGET, last_turn=True)["forgotten"]
    assert wired.texts() == ["one", "first"]


def test_nothing_is_said_to_be_forgotten_if_there_is_no_turn_before(wired: Wired) -> None:
    wired.write(tools='"forget"')
    assert call(wired.agent(), FORGET, last_turn=True).get("forgotten") in ("nothing", None, [])


def test_recalled_lines_come_quoted_and_with_their_ids(either: Wired) -> None:
    either.write(tools='"recall"')
    line = either.put(TRIP)
    found = call(either.agent(), RECALL, query="trip to Chengdu", lines=3)
    assert found["count"] == 1
    assert f'"{TRIP}" [{line}]' in found["recalled"]


def test_fact_is_kept_with_its_kind(either: Wired) -> None:
    either.write(tools='"full"')
    assert call(either.agent(), REMEMBER, text="Likes tea")["kept"] is True
    (line,) = either.lines()
    assert line.kind == Kind.FACT


# Truth.


@pytest.mark.requirement("hermes-never-silent")
@pytest.mark.parametrize("name", [RECALL, FORGET])
def test_tool_that_did_not_reach_the_server_says_so(remote: Served, name: str) -> None:
    remote.write(tools='"full"')
    agent = remote.agent()
    say(agent, TRIP)
    remote.stop()
    found = call(agent, name, **({"query": "trip"} if name == RECALL else {"last_turn": True}))
    assert found.get("reason") == "server_unavailable" or found.get("forgotten") in ("nothing", "later")
    assert "count" not in found


@pytest.mark.parametrize(
    "table", ["[keep]\nturns = false", '[off_the_record]\nplatforms = ["cli"]', '[off_the_record]\nturn = ["hush"]']
)
def test_fact_that_was_not_kept_is_not_said_to_be(wired: Wired, table: str) -> None:
    wired.write(table, tools='"full"')
    agent = wired.agent()
    agent.on_turn_start(1, "hush, remember that I like tea")
    assert call(agent, REMEMBER, text="Likes tea").get("kept") is not True
    assert wired.texts() == []


def test_fact_that_the_cap_does_not_let_in_is_not_said_to_be_kept(either: Wired) -> None:
    either.write(tools='"full"')
    token = either.vault.mint(actor_scope=SCOPE, ops=["get", "snapshot", "list"], namespaces=["travel"], ttl=86_400)
    cap_file.write(either.cap, token)
    assert call(either.agent(), REMEMBER, text="A trip to remember").get("kept") is not True
    assert either.texts() == []


def test_fact_outside_the_caps_namespaces_is_not_said_to_be_kept(either: Wired) -> None:
    either.write(tools='"full"')
    cap_file.write(either.cap, cap_file.mint(either.vault, SCOPE, ("travel",)))
    assert call(either.agent(), REMEMBER, text=ALLERGY).get("kept") is not True


def test_schemas_that_a_runtime_changes_stay_as_they_were() -> None:
    dict.update(model_tools.tool_schemas(Tools.FULL)[0], name="changed")
    assert model_tools.tool_schemas(Tools.FULL)[0]["name"] == RECALL
