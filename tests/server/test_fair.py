"""One caller's long work does not hold up another caller's: loads and forgets that do not end until the test says
so."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from time import monotonic

import pytest

from strongroom import NewLine, Token, Vault
from strongroom.caps.chain import parse
from strongroom.memory.stored_pages import CachePageSet
from strongroom.server.http import cap_calls
from tests.conftest import ALL_OPS, NAMESPACES
from tests.server.conftest import StartThread
from tests.server.holding import DEADLOCK, forgets_held, loads_held
from tests.server.mcp.messages import tool_call
from tests.server.running import Running
from tests.server.talking import Answer, Connection, request

EIGHT = 8
GET, PUT, LIST, FORGET = (f"/v1/memory/{name}" for name in ("get", "put", "list", "forget"))
ONE = {"lines": [{"text": "the boat leaves at noon", "namespace": "work"}]}
MANY = {"lines": [{"text": f"boat {number}", "namespace": "work"} for number in range(40)]}
"""So many that they are sealed on a slow thread."""


@pytest.fixture
def large(vault: Vault) -> Token:
    """Of an actor with something in every namespace."""
    cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    for namespace in NAMESPACES:
        vault.memory(cap).put_many([NewLine(text=f"boat {number}", namespace=namespace) for number in range(20)])
    return cap


@pytest.fixture
def small(vault: Vault) -> Token:
    cap = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(cap).put("a boat", namespace="work")
    return cap


def _sent(stack: ExitStack, running: Running, cap: Token, path: str, body: object) -> list[Connection]:
    """The same call eight times at once; nobody has read an answer yet."""
    asking = [stack.enter_context(running.connect()) for _ in range(EIGHT)]
    for connection in asking:
        connection.send(request("POST", path, cap, body))
    return asking


def _all_answered(running: Running, cap: Token) -> None:
    calls: Sequence[tuple[str, object]] = (
        (GET, {"query": "boat"}),
        (PUT, ONE),
        (LIST, {}),
        (PUT, MANY),
        (GET, {"query": "boat", "k": 3}),
        (FORGET, {"session": "none"}),
    )
    for path, body in calls:
        assert running.ask("POST", path, cap, body).status == 200, path
    assert running.ask("GET", "/metrics").status == 200
    assert running.ask("GET", "/readyz").status == 200


def _places(running: Running) -> Counter[Hashable]:
    """How many calls of each cap are under way."""
    return running.app._open_executor()._places


def _wait_until(holds: Callable[[], bool]) -> None:
    end = monotonic() + DEADLOCK
    while not holds():
        assert monotonic() < end


def _statuses(asking: Sequence[Connection]) -> list[int]:
    return [connection.answer().status for connection in asking]


@pytest.mark.requirement("server-fair")
@pytest.mark.parametrize("slow", [0, 2, 8], ids=["default", "two", "eight"])
def test_eight_gets_of_a_memory_that_is_loading_hold_up_nobody_else(
    start: StartThread, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start(slow=slow)
        asking = _sent(stack, running, large, GET, {"query": "boat"})
        _all_answered(running, small)
        go.set()
        assert _statuses(asking) == [200] * EIGHT


@pytest.mark.requirement("server-fair")
def test_gets_of_as_many_loading_memories_as_there_are_slow_threads_hold_up_nobody_else(
    start: StartThread, vault: Vault, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = vault.mint(actor="local/carol", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(other).put("a boat", namespace="work")
    with loads_held(monkeypatch, held=("local/alice", "local/carol")) as go, ExitStack() as stack:
        running = start(slow=2)
        asking = [one for cap in (large, other) for one in _sent(stack, running, cap, GET, {"query": "boat"})]
        _all_answered(running, small)
        go.set()
        assert _statuses(asking) == [200] * 2 * EIGHT


@pytest.mark.requirement("server-fair")
def test_actor_whose_memory_is_loading_can_still_put(
    start: StartThread, large: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start()
        asking = _sent(stack, running, large, GET, {"query": "ferry", "k": 20})
        assert running.ask("POST", PUT, large, {"lines": [{"text": "a ferry", "namespace": "work"}]}).status == 200
        go.set()
        for connection in asking:
            assert "a ferry" in [hit["text"] for hit in connection.answer().json["lines"]]


@pytest.mark.requirement("server-fair")
@pytest.mark.parametrize("slow", [0, 2, 8], ids=["default", "two", "eight"])
def test_eight_forgets_of_everything_hold_up_nobody_else(
    start: StartThread, vault: Vault, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    vault.memory(large).list()
    began = threading.Semaphore(0)
    with forgets_held(monkeypatch, began) as go, ExitStack() as stack:
        running = start(slow=slow)
        asking = _sent(stack, running, large, FORGET, {"link": parse(large).links[0].id})
        assert began.acquire(timeout=DEADLOCK)
        _all_answered(running, small)
        go.set()
        assert _statuses(asking) == [200] * EIGHT
    assert vault.memory(large).list().lines == ()


@pytest.mark.requirement("server-fair", "cap-revoke")
def test_cap_that_is_revoked_while_its_memory_loads_is_refused_on_record(
    start: StartThread, vault: Vault, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start()
        asking = _sent(stack, running, large, GET, {"query": "boat"})
        _all_answered(running, small)
        vault.revoke(large)
        size = vault.audit.size()
        go.set()
        assert {connection.answer().outcome for connection in asking} == {(401, "cap_revoked")}
    assert vault.audit.size() - size == EIGHT


@pytest.mark.requirement("server-fair", "store-missing-broken")
def test_load_that_fails_is_heard_by_each_call_that_waits(
    start: StartThread, large: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start()
        asking = _sent(stack, running, large, GET, {"query": "boat"})
        assert running.ask("POST", PUT, large, ONE).status == 200
        monkeypatch.setattr(CachePageSet, "_living", _broken)
        go.set()
        assert _statuses(asking) == [500] * EIGHT
        monkeypatch.undo()
        assert running.ask("POST", GET, large, {"query": "boat"}).status == 200


def _broken(_: CachePageSet) -> None:
    raise RuntimeError("a defect")


@pytest.mark.requirement("server-fair", "erase-keys")
def test_erasure_while_a_memory_loads_leaves_nothing_to_answer_with(
    start: StartThread, large: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start()
        asking = _sent(stack, running, large, GET, {"query": "boat"})
        assert running.ask("POST", "/v1/memory/erase", large, {"namespaces": list(NAMESPACES)}).status == 200
        go.set()
        answers: list[Answer] = [connection.answer() for connection in asking]
        assert [(answer.status, answer.json["lines"]) for answer in answers] == [(200, [])] * EIGHT


@pytest.mark.requirement("server-fair", "server-rates")
def test_cap_that_has_taken_its_share_of_time_is_slowed_down(
    start: StartThread, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"holder_rate": 0.001, "burst_seconds": 3500}
    usual = start(**slow)
    assert [usual.ask("POST", GET, small, {}).status for _ in range(5)] == [200] * 4 + [429]
    monkeypatch.setattr(cap_calls, "_SHARE", 1e-9)
    long = start(**slow)
    assert [long.ask("POST", GET, small, {}).status for _ in range(2)] == [200, 429]


@pytest.mark.requirement("server-fair", "server-connections")
def test_cap_with_many_calls_under_way_leaves_places_for_everybody_else(
    start: StartThread, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start(waiting=EIGHT)
        asking = _sent(stack, running, large, GET, {"query": "boat"})
        _all_answered(running, small)
        assert running.ask("POST", PUT, large, ONE).outcome == (429, "rate_limited")
        go.set()
        assert sorted(_statuses(asking)) == [200] * 4 + [429] * 4
        assert running.ask("POST", PUT, large, ONE).status == 200


@pytest.mark.requirement("server-fair", "server-connections")
def test_renewing_a_cap_gives_its_holder_no_further_places(
    start: StartThread, vault: Vault, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    cap = vault.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, ttl=3600)
    renewed = [vault.memory(cap).renew() for _ in range(EIGHT)]
    with loads_held(monkeypatch) as go, ExitStack() as stack:
        running = start(waiting=EIGHT)
        asking = [one for token in (cap, *renewed) for one in _sent(stack, running, token, GET, {"query": "boat"})]
        _all_answered(running, small)
        go.set()
        assert sorted(_statuses(asking)) == [200] * 4 + [429] * (len(asking) - 4)
        assert running.ask("POST", PUT, large, ONE).status == 200


@pytest.mark.requirement("server-fair", "server-connections", "mcp-http")
@pytest.mark.parametrize("path", [GET, "/mcp"])
def test_caller_who_goes_while_a_memory_loads_frees_its_place_and_leaves_no_entry(
    start: StartThread, vault: Vault, large: Token, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    body, headers = ({"query": "boat"}, {}) if path == GET else tool_call("memory_get", query="boat")
    began = threading.Event()
    with loads_held(monkeypatch, began) as go:
        running = start(waiting=2, mcp=True)
        with running.connect() as connection:
            connection.send(request("POST", path, large, body, headers=headers))
            assert began.wait(DEADLOCK)
            assert running.ask("POST", PUT, large, ONE).outcome == (429, "rate_limited")
            size = vault.audit.size()
        while running.ask("POST", PUT, large, ONE).status == 429:
            pass
        go.set()
        assert running.ask("POST", GET, large, {"query": "boat"}).status == 200
    entries = [entry for _, entry in vault.audit.entries(size) if entry is not None]
    assert [entry.op for entry in entries] == ["put", "get"]


@pytest.mark.requirement("server-fair", "server-rates")
def test_caller_who_goes_before_the_answer_is_charged(
    start: StartThread, large: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go:
        running = start(holder_rate=0.001, burst_seconds=3500)
        for _ in range(3):
            with running.connect() as connection:
                connection.send(request("POST", GET, large, {"query": "boat"}))
                _wait_until(lambda: bool(_places(running)))
            _wait_until(lambda: not _places(running))
        assert [running.ask("POST", PUT, large, ONE).status for _ in range(2)] == [200, 429]
        go.set()


@pytest.mark.requirement("server-fair")
def test_forget_is_finished_though_its_caller_has_gone(
    start: StartThread, large: Token, small: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loads_held(monkeypatch) as go:
        running = start()
        with running.connect() as connection:
            connection.send(request("POST", FORGET, large, {"link": parse(large).links[0].id}))
            _wait_until(lambda: bool(_places(running)))
        _all_answered(running, small)
        go.set()
        _wait_until(lambda: not _places(running))
        assert running.ask("POST", LIST, large, {}).json["lines"] == []
