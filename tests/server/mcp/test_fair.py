"""Calls over MCP wait in the same lanes as those over HTTP: nobody's long work holds up another caller's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from strongroom import NewLine, Token, Vault
from strongroom.caps.chain import parse
from strongroom.server.http.cap_calls import _MESSAGE_BYTE_SECONDS, _MESSAGE_SECONDS, CapCalls
from tests.conftest import NAMESPACES
from tests.server.conftest import QUIET
from tests.server.holding import DEADLOCK, forgets_held, loads_held
from tests.server.mcp.conftest import TOOL_OPS
from tests.server.mcp.messages import tool_call
from tests.server.running import Running, serving_in_thread
from tests.server.talking import Connection, request

MANY = 24
"""More than threads ever served MCP."""

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("memory_get", {"query": "boat"}),
    ("memory_put", {"text": "the boat leaves at noon", "namespace": "work"}),
    ("memory_list", {}),
    ("memory_snapshot", {}),
    ("memory_forget", {"session": "none"}),
]


@pytest.fixture
def cap(vault: Vault) -> Token:
    """Of an actor with something in every namespace."""
    made = vault.mint(actor="local/alice", ops=TOOL_OPS, namespaces=NAMESPACES, ttl=3600)
    for namespace in NAMESPACES:
        vault.memory(made).put_many([NewLine(text=f"boat {number}", namespace=namespace) for number in range(20)])
    return made


@pytest.fixture
def small(vault: Vault) -> Token:
    made = vault.mint(actor="local/bob", ops=TOOL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(made).put("a boat", namespace="work")
    return made


@contextmanager
def _serving(vault: Vault, **options: Any) -> Iterator[Running]:
    with serving_in_thread(vault, replace(QUIET, mcp=True, **options)) as running:
        yield running


def _sent(stack: ExitStack, running: Running, cap: Token, name: str, **arguments: Any) -> list[Connection]:
    """The same call many times at once; nobody has read an answer yet. Half of them of each era."""
    asking = []
    for number in range(MANY):
        body, headers = tool_call(name, era=("legacy", "modern")[number % 2], **arguments)
        asking.append(stack.enter_context(running.connect()))
        asking[-1].send(request("POST", "/mcp", cap, body, headers=headers))
    return asking


def _asked(running: Running, cap: Token, name: str, **arguments: Any) -> Any:
    body, headers = tool_call(name, **arguments)
    return running.ask("POST", "/mcp", cap, body, headers=headers).json["result"]


def _all_answered(running: Running, cap: Token) -> None:
    for name, arguments in CALLS:
        assert not _asked(running, cap, name, **arguments)["isError"], name
    assert running.ask("POST", "/v1/memory/get", cap, {"query": "boat"}).status == 200


def _all_right(asking: list[Connection]) -> bool:
    return all(not connection.answer().json["result"]["isError"] for connection in asking)


@pytest.mark.requirement("server-fair")
@pytest.mark.parametrize("slow", [0, 2, 8], ids=["default", "two", "eight"])
def test_many_gets_of_a_memory_that_is_loading_hold_up_nobody_elses_calls(
    vault: Vault, cap: Token, small: Token, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    with loads_held(monkeypatch) as go, _serving(vault, slow=slow) as running, ExitStack() as stack:
        asking = _sent(stack, running, cap, "memory_get", query="boat")
        _all_answered(running, small)
        go.set()
        assert _all_right(asking)


@pytest.mark.requirement("server-fair")
@pytest.mark.parametrize("slow", [0, 2, 8], ids=["default", "two", "eight"])
def test_many_forgets_of_everything_hold_up_nobody_elses_calls(
    vault: Vault, cap: Token, small: Token, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    vault.memory(cap).list()
    began = threading.Semaphore(0)
    with forgets_held(monkeypatch, began) as go, _serving(vault, slow=slow) as running, ExitStack() as stack:
        asking = _sent(stack, running, cap, "memory_forget", link=parse(cap).links[0].id)
        assert began.acquire(timeout=DEADLOCK)
        _all_answered(running, small)
        go.set()
        assert _all_right(asking)
    assert vault.memory(cap).list().lines == ()


@pytest.mark.requirement("server-fair", "server-rates")
def test_time_of_a_call_over_mcp_counts_against_its_cap(
    vault: Vault, cap: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strongroom.server.http.cap_calls._SHARE", 1e-9)
    body, headers = tool_call("memory_get", query="boat")
    with _serving(vault, holder_rate=0.001, burst_seconds=3500) as running:
        first = running.ask("POST", "/mcp", cap, body, headers=headers)
        assert first.status == 200
        assert running.ask("POST", "/mcp", cap, body, headers=headers).outcome == (429, "rate_limited")
        assert running.ask("POST", "/mcp", small, body, headers=headers).status == 200


@pytest.mark.requirement("server-fair", "server-rates")
def test_protocol_time_on_the_event_loop_counts_against_the_cap(
    vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, headers = tool_call("memory_list")
    charged: list[float] = []
    monkeypatch.setattr(CapCalls, "charge", lambda _, __, seconds: charged.append(seconds))
    with _serving(vault) as running:
        answer = running.ask("POST", "/mcp", cap, body, headers=headers)
    size = len(json.dumps(body)) + len(answer.body)
    assert charged[-1] == pytest.approx(_MESSAGE_SECONDS + size * _MESSAGE_BYTE_SECONDS, rel=0.1)


@pytest.mark.requirement("server-fair", "server-connections")
def test_cap_with_too_many_calls_under_way_is_told_so_by_the_tool(
    vault: Vault, cap: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go, _serving(vault, waiting=8) as running, ExitStack() as stack:
        asking = _sent(stack, running, cap, "memory_get", query="boat")
        _all_answered(running, small)
        go.set()
        outcomes = [connection.answer() for connection in asking]
        told = {one.reason or one.json["result"].get("structuredContent", {}).get("reason", "") for one in outcomes}
        assert told == {"", "rate_limited"}
