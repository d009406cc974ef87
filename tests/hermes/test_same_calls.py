"""Hermes' own agent and our host drive one provider through the same script; what differs is a table, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.hermes import compare, homes, script
from tests.hermes.differences import DIFFERENCES
from tests.hermes.model_server import ModelServer, Request, last_user_text


class Run(NamedTuple):
    log: compare.Log
    requests: list[Request]
    said: dict[str, Any]


def _driven(where: Path, module: str) -> Run:
    with ModelServer(script.model_script()) as model:
        home = homes.make(where, model_url=model.url, provider="logging_provider", plugins=(homes.LOGGING_PROVIDER,))
        calls = home.root / "calls.jsonl"
        printed = homes.run(home, module, model.url, environment={"LOGGED_CALLS": str(calls)})
        return Run(compare.read(calls), model.requests, json.loads(printed.splitlines()[-1]))


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _driven(tmp_path_factory.mktemp("hermes") / "home", "tests.hermes.drive_hermes")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _driven(tmp_path_factory.mktemp("host") / "home", "tests.hermes.drive_host")


@pytest.mark.requirement("hermes-same-calls")
def test_every_difference_is_in_the_table(hermes: Run, host: Run) -> None:
    listed = {(row.event, row.hermes, row.host) for row in DIFFERENCES}
    assert compare.differences(hermes.log, host.log) - listed == set()


@pytest.mark.requirement("hermes-same-calls")
def test_every_row_of_the_table_is_a_difference_that_occurs(hermes: Run, host: Run) -> None:
    found = compare.differences(hermes.log, host.log)
    assert [row for row in DIFFERENCES if (row.event, row.hermes, row.host) not in found] == []
    assert len({row.event for row in DIFFERENCES}) == len(DIFFERENCES)
    assert all(row.why for row in DIFFERENCES)


@pytest.mark.requirement("hermes-same-calls")
def test_script_reaches_every_method_of_a_session(hermes: Run, host: Run) -> None:
    """Otherwise the comparison would say nothing about what is not called."""
    for run in (hermes, host):
        called = {call.method for calls in run.log.values() for call in calls}
        assert called - {"cache_busting_signature"} == {
            "__init__",
            "is_available",
            "get_tool_schemas",
            "initialize",
            "system_prompt_block",
            "on_turn_start",
            "prefetch",
            "handle_tool_call",
            "sync_turn",
            "queue_prefetch",
            "on_memory_write",
            "on_delegation",
            "on_pre_compress",
            "on_session_end",
            "on_session_switch",
            "shutdown",
        }


def test_difference_in_calls_arguments_and_threads_is_found() -> None:
    one = {"turn": [compare.Call("prefetch", {"query": "a", "kept": {"x": 1}}, "main")]}
    other = {"turn": [compare.Call("prefetch", {"query": "b", "kept": {}}, "other")]}
    assert compare.differences(one, one) == set()
    assert compare.differences(one, other) == {
        ("prefetch query", '"a"', '"b"'),
        ("prefetch kept x", "1", "not given"),
        ("thread of prefetch", "the agent's", "another"),
    }
    assert compare.differences(one, {"turn": []}) == {("calls at turn", "prefetch", "")}


def test_hermes_and_host_hand_the_model_the_recalled_text_and_the_providers_block(hermes: Run, host: Run) -> None:
    for run in (hermes, host):
        first = run.requests[0]
        assert "The logged recollection." in last_user_text(first)
        assert "# Logged memory" in first["messages"][0]["content"]


def test_hermes_and_host_hand_the_remark_before_compression_to_the_summary(hermes: Run, host: Run) -> None:
    for run in (hermes, host):
        (summary,) = [one for one in run.requests if "The logged remark." in last_user_text(one)]
        assert not summary.get("tools")


def test_hermes_and_host_show_the_built_in_memory_as_it_is_in_the_prompt_after_new(hermes: Run, host: Run) -> None:
    for run in (hermes, host):
        first, last = run.requests[0], run.requests[-1]
        assert script.KEPT not in first["messages"][0]["content"]
        assert script.KEPT in last["messages"][0]["content"]


def test_neither_touches_anything_outside_its_home(hermes: Run, host: Run) -> None:
    for run in (hermes, host):
        assert run.said == {"outside": [], "connected": ["127.0.0.1"]}
