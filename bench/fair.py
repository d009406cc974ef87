"""One caller's slowest answer while another keeps the server busy, beside its slowest answer alone.

Each scenario has a server of its own, with its usual limits, and two clients, each a process of its own: one asks ten
times a second, by turns for a get, a put and a list of its few lines; the other does what the scenario says. Where the
scenario says so, both call over MCP. What is refused to the first counts as well. Times are counted from when a request
was due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from statistics import quantiles
from typing import Any

import msgspec

import strongroom
from bench import vaults
from bench.lines import lines, of_size
from bench.load import Load, Plan, Report, request
from bench.measure import Goal, Row, Run
from bench.served import MCP_HEADERS
from bench.server import Server, running
from strongroom import Token, Vault, api
from strongroom.caps.chain import parse
from strongroom.vault.create_open import SHELF_BYTES

_PACE = 0.1
_TEXT = 2_000
_NAMESPACES = ("personal", "work", "travel", "family")
_AT_ONCE = 8
_IDLE = 4_096
_BOUND = 250
"""Milliseconds that no scenario may make of the p99, however slow the caller is alone."""
_ALONE = "the same caller alone"
_ALONE_OVER_MCP = "the same caller alone, over MCP"


@dataclass(frozen=True, slots=True)
class _Caps:
    """Of the caller with much text, of two more, and of the one with a few lines."""

    large: Token
    others: tuple[Token, Token]
    small: Token


@dataclass(frozen=True, slots=True)
class _Scenario:
    """What the one caller does while the other asks: so many requests, and so many at once."""

    what: str
    requests: Sequence[bytes] = ()
    at_once: int = _AT_ONCE
    is_warm: bool = False
    """Whether its lines are in RAM when it begins."""
    is_once: bool = False
    """Whether each connection asks once, and not again and again."""
    is_over_mcp: bool = False
    """Whether both callers call over MCP."""


def rows(run: Run) -> Iterator[Row]:
    """The other caller's p99 beside its p99 alone in every scenario, and the server's RAM."""
    with vaults.make(run.scratch) as vault:
        caps = _filled(vault, run.pick(64, 2) * 1_000_000)
    count = run.pick(600, 30)
    alone_by_door = {
        over_mcp: _measured(run, caps, _Scenario("alone", at_once=0, is_over_mcp=over_mcp), count)
        for over_mcp in (False, True)
    }
    for scenario in _scenarios(caps):
        alone, idle, _ = alone_by_door[scenario.is_over_mcp]
        who = _ALONE_OVER_MCP if scenario.is_over_mcp else _ALONE
        report, _, peak = _measured(run, caps, scenario, count)
        yield Row("fair", scenario.what, "ms p99", _millis(report), _millis(alone), who, Goal("ratio", 5, 2))
        yield Row("fair", scenario.what, "ms p99", _millis(report), _BOUND, "the bound", Goal("ratio", 1, 0.4))
        yield Row("fair", scenario.what, "ms slowest", max(report.latencies) * 1e3, max(alone.latencies) * 1e3, who)
        yield Row("fair", scenario.what, "refused", _refused(report), len(report.latencies), "all that it asked")
        room = SHELF_BYTES + idle
        yield Row(
            "fair",
            scenario.what,
            "MB at most",
            peak / 1e6,
            room / 1e6,
            "the budget and an idle server",
            Goal("ratio", 1.3, 1),
        )


def _filled(vault: Vault, size: int) -> _Caps:
    large, second, third, small = (
        vault.mint(actor=actor, ops=["get", "put", "list", "forget"], namespaces=_NAMESPACES, ttl=vaults.DAY)
        for actor in ("local/large", "local/second", "local/third", "local/small")
    )
    texts = of_size(3, _TEXT)
    for cap in (large, second, third):
        for namespace in _NAMESPACES:
            some = islice(texts, size // _TEXT // len(_NAMESPACES))
            vaults.fill(vault.memory(cap), (strongroom.NewLine(text=text, namespace=namespace) for text in some))
    vaults.fill(vault.memory(strongroom.attenuate(small, namespaces=["work"])), lines(1, 100))
    return _Caps(large, (second, third), small)


def _scenarios(caps: _Caps) -> Iterator[_Scenario]:
    gets = [_call(api.Get(query=f"the harbour and boat {number}"), caps.large) for number in range(_AT_ONCE)]
    yield _Scenario("eight gets of 64 MB, warm", gets, is_warm=True)
    yield _Scenario("eight gets of 64 MB, right after a restart", gets)
    # Together three need more RAM than the budget: each pushes out lines of the others.
    asked = [api.Get(query=f"the harbour and boat {number}") for number in range(_AT_ONCE)]
    all_three = [_call(call, cap) for call in asked for cap in (caps.large, *caps.others)]
    yield _Scenario("the same by three callers with 64 MB each", all_three, at_once=3 * _AT_ONCE)
    tools = [_tool(caps.large, "memory_get", query=f"the harbour and boat {number}") for number in range(_AT_ONCE)]
    what = "over MCP, eight gets of 64 MB"
    yield _Scenario(f"{what}, warm", tools, is_warm=True, is_over_mcp=True)
    yield _Scenario(f"{what}, right after a restart", tools, is_over_mcp=True)
    yield _Scenario("a flood without a cap", [request(api.Get.path, b"{}"), request("/nowhere", b"{}")], at_once=16)
    yield _Scenario(f"{_IDLE:,} idle connections", at_once=_IDLE)
    # Last, since nothing is left after it.
    link = parse(caps.large).links[0].id
    yield _Scenario("eight forgets of 64 MB", [_call(api.Forget(link=link), caps.large)], is_once=True)


def _call(call: api.Call[Any], cap: Token) -> bytes:
    return request(call.path, msgspec.json.encode(call), cap=cap)


def _tool(cap: Token, name: str, **arguments: object) -> bytes:
    params = {"name": name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return request("/mcp", msgspec.json.encode(message), cap=cap, headers=MCP_HEADERS)


def _asking(cap: Token, *, over_mcp: bool) -> list[bytes]:
    if over_mcp:
        return [
            _tool(cap, "memory_get", query="boat"),
            _tool(cap, "memory_put", text="the boat leaves at noon", namespace="work"),
            _tool(cap, "memory_list", limit=20),
        ]
    line = strongroom.NewLine(text="the boat leaves at noon", namespace="work")
    return [_call(call, cap) for call in (api.Get(query="boat"), api.Put(lines=(line,)), api.List(limit=20))]


def _measured(run: Run, caps: _Caps, scenario: _Scenario, count: int) -> tuple[Report, int, int]:
    """What the one with few lines saw; the bytes of the server before anybody asked, and at most."""
    with ExitStack() as stack:
        server = stack.enter_context(running("guarded", run.scratch))
        first, second = (stack.enter_context(Load()) for _ in range(2))
        idle = server.resident()
        if scenario.is_warm:
            second.run(Plan(server.port, 1, len(scenario.requests), list(scenario.requests)))
        beside = stack.enter_context(ThreadPoolExecutor(1))
        if scenario.at_once:
            noise = beside.submit(second.run, _noise(server, scenario, count * _PACE))
        asked = Plan(server.port, 4, count, _asking(caps.small, over_mcp=scenario.is_over_mcp), pace=_PACE)
        report = first.run(asked)
        if scenario.at_once:
            noise.result()
        return report, idle, server.peak()


def _noise(server: Server, scenario: _Scenario, seconds: float) -> Plan:
    count = scenario.at_once if scenario.is_once else 1 << 40
    requests = list(scenario.requests)
    return Plan(server.port, scenario.at_once, count if requests else 0, requests, seconds=seconds)


def _millis(report: Report) -> float:
    return quantiles(report.latencies, n=100)[98] * 1e3


def _refused(report: Report) -> int:
    return len(report.latencies) - report.statuses.get(200, 0)
