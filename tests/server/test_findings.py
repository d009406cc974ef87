"""What an attacker found, one test for each way in: bodies that vanish, caps that outlive, servers that stand still."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, api
from strongroom.caps import chain
from strongroom.errors import CapRevoked
from strongroom.memory.line_cache.cache import CachedNamespace
from strongroom.memory.operation import SlowStep
from strongroom.memory.vault_records import REVOKED
from strongroom.store import Pending, PutNew
from tests.conftest import ALL_OPS, NAMESPACES
from tests.server.conftest import StartThread
from tests.server.talking import request

ERASE = "/v1/memory/erase"


@pytest.mark.requirement("server-smuggling")
@pytest.mark.parametrize("protocol", ["h2c", "websocket", "TLS/1.3", "anything"])
def test_a_head_that_asks_for_another_protocol_is_refused_and_nothing_is_erased(
    start: StartThread, vault: Vault, protocol: str
) -> None:
    """A parser that stops at such a head drops the body, and a call without one means everything."""
    token = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    for namespace in ("personal", "travel"):
        vault.memory(token).put("a line", namespace=namespace)
    running = start()
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": protocol, "HTTP2-Settings": "AAMAAABk"}
    answer = running.ask("POST", ERASE, token, {"namespaces": ["travel"]}, headers=upgrade)
    assert answer.outcome == (400, "invalid_request")
    assert len(vault.memory(token).list().lines) == 2


@pytest.mark.requirement("server-bad-bodies")
def test_an_erasure_without_a_body_is_refused(start: StartThread, vault: Vault) -> None:
    token = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(token).put("a line", namespace="travel")
    running = start()
    assert running.ask("POST", ERASE, token).outcome == (400, "invalid_request")
    assert running.ask("POST", ERASE, token, {}).status == 200


@pytest.mark.requirement("renew-race", "renew-lineage")
def test_nobody_renews_once_any_cap_that_theirs_came_from_is_revoked(vault: Vault) -> None:
    """Also while the caps in between have not been reached yet: else who is quick outruns who revokes."""
    first = vault.mint(actor="local/alice", ops=["get", "renew"], namespaces=["travel"], ttl=3600)
    newest = first
    for _ in range(3):
        newest = vault.memory(newest).renew()
    link = chain.parse(first).links[0].id
    vault._clerk.admin.record_owner("revoke", [PutNew(REVOKED + link, b"")], links=[link])
    with pytest.raises(CapRevoked):
        vault.memory(newest).renew()
    vault.revoke(first)
    with pytest.raises(CapRevoked):
        vault.memory(newest).get("x")


@pytest.mark.requirement("server-ready", "server-connections")
def test_many_who_ask_whether_it_is_ready_share_one_look(
    start: StartThread, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    begun, go = threading.Event(), threading.Event()

    def look() -> None:
        looks.append(1)
        begun.set()
        assert go.wait(60)

    running = start()
    monkeypatch.setattr(vault, "check_ready", look)
    with ExitStack() as stack:
        connections = [stack.enter_context(running.connect()) for _ in range(20)]
        for connection in connections:
            connection.send(request("GET", "/readyz"))
        assert begun.wait(60)
        assert running.ask("GET", "/healthz").status == 200  # by now all twenty have been read
        go.set()
        assert [connection.answer().status for connection in connections] == [200] * 20
    assert len(looks) == 1


@pytest.mark.requirement("gate-recheck", "renew-lineage")
@pytest.mark.parametrize("call", [api.Get(query="x"), api.List(), api.Forget(namespaces=("travel",))], ids=str)
def test_a_call_that_waited_for_lines_is_refused_if_its_cap_was_revoked_meanwhile(
    vault: Vault,
    cap: Token,
    tmp_path: Path,
    keys: FileKeys,
    monkeypatch: pytest.MonkeyPatch,
    call: api.Call[object],
) -> None:
    vault.memory(cap).put("a line", namespace="travel")
    real = CachedNamespace.portions

    def slow(self: CachedNamespace) -> Iterator[None]:
        yield from real(self)
        vault.revoke(cap)

    monkeypatch.setattr(CachedNamespace, "portions", slow)
    with strongroom.open(tmp_path / "vault", keys=keys, now=vault._clerk.now) as other, pytest.raises(CapRevoked):
        other.door(cap).call(call)
    monkeypatch.undo()
    fresh = vault.mint(actor="local/alice", ops=["list"], namespaces=NAMESPACES)
    assert [line.namespace for line in vault.memory(fresh).list().lines] == ["travel"]


@pytest.mark.requirement("server-connections")
@pytest.mark.parametrize("text", ["x" * 20_000, "字" * 8_000])
def test_a_put_that_takes_long_to_index_leaves_the_event_loop(vault: Vault, cap: Token, text: str) -> None:
    lines = (strongroom.NewLine(text=text, namespace="travel"),)
    assert next(vault.door(cap).doing(api.Put(lines=lines))) == SlowStep("local/alice")
    short = (strongroom.NewLine(text="short", namespace="travel"),)
    assert isinstance(next(vault.door(cap).doing(api.Put(lines=short))), Pending)


@pytest.mark.requirement("server-connections")
def test_what_another_process_wrote_is_not_taken_in_on_the_event_loop(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys
) -> None:
    with strongroom.open(tmp_path / "vault", keys=keys, now=vault._clerk.now) as other:
        with other.together() as nothing_new:
            assert nothing_new
        vault.memory(cap).put("a line", namespace="travel")
        with other.together() as nothing_new:
            assert not nothing_new


@pytest.mark.requirement("server-memory")
def test_large_bodies_share_a_bound(start: StartThread, cap: Token) -> None:
    running = start(bodies_limit=100_000, unproven_limit=1000)
    big = {"query": "x" * 7000}
    assert running.ask("POST", "/v1/memory/get", cap, big).status == 200
    too_big = request("POST", "/v1/memory/get", cap, headers={"Content-Length": "150000"})
    with running.connect() as connection:
        connection.send(too_big)
        assert connection.answer().outcome == (503, "server_unavailable")
    assert [running.ask("POST", "/v1/memory/get", cap, big).status for _ in range(20)] == [200] * 20


@pytest.mark.requirement("server-memory", "server-fair")
def test_one_caps_large_bodies_leave_room_for_anothers(start: StartThread, vault: Vault, cap: Token) -> None:
    other = vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=3600)
    running = start(bodies_limit=100_000, unproven_limit=1000)
    large = {"Content-Length": "45000", "Content-Type": "application/json"}
    with running.connect() as held, running.connect() as second, running.connect() as third:
        held.send(request("POST", "/v1/memory/get", cap, headers=large))
        while not running.app._calls._room._taken:
            pass
        second.send(request("POST", "/v1/memory/get", cap, headers=large))
        assert second.answer().outcome == (503, "server_unavailable")
        third.send(request("POST", "/v1/memory/get", other, raw=b'{"query": "x"' + b" " * 44_986 + b"}"))
        assert third.answer().status == 200
    while running.app._calls._room._taken:
        pass
    assert running.ask("POST", "/v1/memory/get", cap, raw=b'{"query": "x"' + b" " * 44_986 + b"}").status == 200


@pytest.mark.requirement("admin-within", "admin-list")
def test_an_admin_cap_neither_lists_nor_revokes_caps_of_other_namespaces(vault: Vault) -> None:
    token = vault.mint(
        actor_scope="local/", ops=["mint", "revoke"], namespaces=["travel"], data_class="admin", ttl=3600
    )
    private = vault.mint(actor="local/alice", ops=["get"], namespaces=["personal", "travel"], ttl=3600)
    link = chain.parse(private).links[0].id
    door = vault.door(token)
    assert link not in [record.link for record in door.call(api.ListCaps()).caps]
    with pytest.raises(strongroom.errors.LineNotFound):
        door.call(api.Revoke(link=link))


@pytest.mark.requirement("ram-bound")
def test_a_shelf_of_words_that_are_all_different_counts_as_what_it_takes(vault: Vault, cap: Token) -> None:
    rare = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(10_000))
    vault.memory(cap).put(rare, namespace="travel")
    vault.memory(cap).get("x", namespaces=["travel"])
    assert vault.usage().shelf_bytes > 1_000_000
