"""Rates: what a holder may ask, what an address may get wrong, and that nobody pays for somebody else.

The buckets are driven with a clock of the test's own. The server's rates are so small here that no test can be slow
enough to gain a request.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import strongroom
from strongroom import Token, Vault
from strongroom.server.http import connection as protocol
from strongroom.server.http.connection_limits import user_of
from strongroom.server.http.request_parser import neighbourhood
from strongroom.server.listen import ListenPlace
from strongroom.server.rate_limits import LONGEST, Buckets
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.server.conftest import StartThread
from tests.server.running import Running
from tests.server.talking import Answer, request

GET = "/v1/memory/get"
LIMITED = (429, "rate_limited")
SLOW = {"holder_rate": 0.001, "burst_seconds": 3500}
"""One request in 1,000 seconds, and four at once."""
SLOW_ADDRESS = {"address_rate": 0.001, "burst_seconds": 10_500}
"""One request in 1,000 seconds, and eleven at once."""


def statuses(running: Running, cap: str | None, count: int, path: str = GET, **more: object) -> list[int]:
    return [running.ask("POST", path, cap, {}, **more).status for _ in range(count)]


def bob(vault: Vault) -> Token:
    return vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=3600)


# Buckets alone.


@pytest.mark.requirement("server-rates")
def test_bucket_gives_its_burst_and_then_its_rate() -> None:
    buckets = Buckets(rate=2, burst_seconds=3)
    taken = 0
    while not buckets.wait("a", now=100):
        buckets.take("a", now=100)
        taken += 1
    assert taken == 7
    assert buckets.wait("a", now=100) == 0.5
    assert buckets.wait("a", now=100.25) == 0.25
    assert buckets.wait("a", now=100.5) == 0


@pytest.mark.requirement("server-rates")
def test_bucket_refills_to_its_burst_and_no_further() -> None:
    buckets = Buckets(rate=1, burst_seconds=2)
    for now in (0.0, 10_000.0):
        taken = 0
        while not buckets.wait("a", now):
            buckets.take("a", now)
            taken += 1
        assert taken == 3


@pytest.mark.requirement("server-rates")
def test_bucket_gives_no_more_than_its_rate_and_one_burst_over_any_time() -> None:
    buckets = Buckets(rate=5, burst_seconds=2)
    taken = 0
    for tick in range(10_000):
        if not buckets.wait("a", tick / 100):
            buckets.take("a", tick / 100)
            taken += 1
    assert taken <= 5 * 100 + 5 * 2 + 1


@pytest.mark.requirement("server-rates")
def test_buckets_do_not_share() -> None:
    buckets = Buckets(rate=1, burst_seconds=1)
    for _ in range(100):
        buckets.take("a", now=0)
    assert buckets.wait("a", now=0) == 99
    assert buckets.wait("b", now=0) == 0


@pytest.mark.requirement("server-rates")
def test_cost_counts_as_so_many_requests() -> None:
    one, many = Buckets(1, 100), Buckets(1, 100)
    one.take("a", 0, cost=50)
    for _ in range(50):
        many.take("a", 0)
    one.take("a", 0, cost=70)
    assert many.wait("a", 0) == 0
    assert one.wait("a", 0) == 20


@pytest.mark.requirement("server-rates")
def test_no_rate_is_no_limit() -> None:
    buckets = Buckets(rate=0, burst_seconds=0)
    for _ in range(1000):
        buckets.take("a", 0)
    assert buckets.wait("a", 0) == 0


@pytest.mark.requirement("server-rates")
def test_time_beyond_its_share_turns_nobody_away_for_long() -> None:
    buckets = Buckets(rate=0.5, burst_seconds=4)
    buckets.charge("a", now=100, seconds=1.5)
    assert buckets.wait("a", now=100) == 0
    buckets.charge("a", now=100, seconds=1)
    assert buckets.wait("a", now=100) == 1
    buckets.charge("a", now=100, seconds=1000)
    assert buckets.wait("a", now=100) == LONGEST
    buckets.take("a", now=100, cost=5)
    buckets.charge("a", now=100, seconds=1)
    assert buckets.wait("a", now=100) == LONGEST + 10
    assert buckets.wait("b", now=100) == 0


@pytest.mark.requirement("server-rates")
def test_no_rate_is_no_limit_of_time_either() -> None:
    buckets = Buckets(rate=0, burst_seconds=0)
    buckets.charge("a", now=0, seconds=1000)
    assert buckets.wait("a", 0) == 0


@pytest.mark.requirement("server-rates", "server-memory")
def test_number_of_buckets_is_bounded_and_the_oldest_go_first() -> None:
    buckets = Buckets(rate=0.001, burst_seconds=0, held=100)
    for number in range(10_000):
        buckets.take("busy", 0)
        buckets.take(number, 0)
    assert len(buckets._full_at) <= 100
    assert buckets.wait("busy", 0) > 0
    assert buckets.wait(9_999, 0) > 0
    assert buckets.wait(0, 0) == 0


# Holders.


@pytest.mark.requirement("server-rates")
def test_holder_beyond_its_rate_is_told_when_to_come_again(start: StartThread, cap: Token) -> None:
    running = start(**SLOW)
    assert statuses(running, cap, 4) == [200] * 4
    answer = running.ask("POST", GET, cap, {})
    assert answer.outcome == LIMITED
    assert 1 <= int(answer.headers["retry-after"]) <= 1001


@pytest.mark.requirement("server-rates")
def test_one_holder_cannot_use_up_anothers(start: StartThread, vault: Vault, cap: Token) -> None:
    running = start(**SLOW)
    assert statuses(running, cap, 6)[-1] == 429
    assert statuses(running, bob(vault), 4) == [200] * 4


@pytest.mark.requirement("server-rates")
def test_narrowed_caps_share_the_rate_of_what_they_were_narrowed_from(
    start: StartThread, cap: Token, clock: Clock
) -> None:
    running = start(**SLOW)
    narrowed = [strongroom.attenuate(cap, namespaces=[name], now=clock) for name in ("work", "travel", "family")]
    deeper = strongroom.attenuate(narrowed[0], ops=["get"], now=clock)
    assert [running.ask("POST", GET, one, {}).status for one in (*narrowed, deeper)] == [200] * 4
    for one in (cap, deeper, strongroom.attenuate(cap, ops=["get"], now=clock)):
        assert running.ask("POST", GET, one, {}).outcome == LIMITED


@pytest.mark.requirement("server-rates")
@pytest.mark.requirement("server-rates")
def test_renewed_caps_share_the_rate_of_what_they_were_renewed_from(
    start: StartThread, vault: Vault, clock: Clock
) -> None:
    running = start(**SLOW)
    first = vault.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, ttl=3600)
    clock.move(1000)
    again = vault.memory(first).renew()
    narrowed = strongroom.attenuate(again, ops=["get"], now=clock)
    asked = (first, again, narrowed, vault.memory(again).renew())
    assert [running.ask("POST", GET, one, {}).status for one in asked] == [200] * 4
    for one in asked:
        assert running.ask("POST", GET, one, {}).outcome == LIMITED
    assert running.ask("POST", GET, bob(vault), {}).status == 200


@pytest.mark.requirement("server-rates")
def test_caps_of_one_scope_share_no_rate_unless_one_was_renewed_from_the_other(
    start: StartThread, vault: Vault, clock: Clock
) -> None:
    running = start(**SLOW)
    gateway, archive = (
        strongroom.attenuate(
            vault.mint(actor_scope="local/", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600, label=label),
            actor="local/alice",
            now=clock,
        )
        for label in ("gateway", "archive")
    )
    assert statuses(running, gateway, 5) == [200] * 4 + [429]
    assert statuses(running, archive, 4) == [200] * 4


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (GET, {"ids": ["01JABCDEFGHJKMNPQRSTVWXYZ0"]}, 404),
        (GET, {"nonsense": 1}, 400),
        (GET, {"namespaces": ["nowhere"]}, 403),
        ("/v1/status", {}, 403),
    ],
)
def test_refused_request_counts_as_well(
    start: StartThread, cap: Token, path: str, body: dict[str, object], status: int
) -> None:
    """Each of them is an entry in the log: they may not be free."""
    running = start(**SLOW)
    found = [running.ask("POST", path, cap, body).status for _ in range(6)]
    assert found == [status] * 4 + [429] * 2


@pytest.mark.requirement("server-rates")
def test_garbage_in_a_holders_name_costs_the_holder_nothing(start: StartThread, cap: Token, clock: Clock) -> None:
    running = start(**SLOW)
    first = cap.partition("~")[0]
    narrowed = strongroom.attenuate(cap, ops=["get"], now=clock)
    for bad in (first, f"{first}~", f"{first}~{'A' * 43}", f"{first}~x~y", narrowed[:-1], f"{first}~{first}"):
        assert statuses(running, bad, 3) == [401] * 3
    assert statuses(running, cap, 4) == [200] * 4


@pytest.mark.requirement("server-rates")
def test_request_beyond_the_rate_is_not_carried_out_nor_logged(start: StartThread, cap: Token, vault: Vault) -> None:
    running = start(**SLOW)
    put = {"lines": [{"text": "x", "namespace": "work"}]}
    answers = [running.ask("POST", "/v1/memory/put", cap, put).status for _ in range(10)]
    assert answers == [200] * 4 + [429] * 6
    assert len(vault.memory(cap).list(namespaces=["work"]).lines) == 4
    puts = [entry for _, entry in vault.audit.entries(0) if entry is not None and entry.op == "put"]
    assert len(puts) == 4


@pytest.mark.requirement("server-rates")
def test_tools_share_the_holders_rate(start: StartThread, cap: Token) -> None:
    running = start(**SLOW, mcp=True)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    answers = [running.ask("POST", "/mcp", cap, call, headers=headers) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert statuses(running, cap, 2) == [200, 429]
    assert running.ask("POST", "/mcp", cap, call, headers=headers).outcome == LIMITED


@pytest.mark.requirement("server-rates")
def test_time_that_a_caps_calls_took_beside_the_loop_is_the_holders(
    start: StartThread, vault: Vault, cap: Token, clock: Clock
) -> None:
    running = start(holder_rate=0.001, burst_seconds=3500)
    seconds = 10_000.0
    running.app._calls.charge(vault.door(cap).lineage(), seconds)
    narrowed = strongroom.attenuate(cap, ops=["get"], now=clock)
    assert running.ask("POST", GET, narrowed, {}).outcome == LIMITED
    assert running.ask("POST", GET, bob(vault), {}).status == 200


# Addresses.


@pytest.mark.requirement("server-rates")
@pytest.mark.parametrize("bad", [None, "garbage"])
def test_address_whose_caps_fail_beyond_its_rate_is_told_when_to_come_again(
    start: StartThread, bad: str | None
) -> None:
    running = start(**SLOW_ADDRESS)
    assert statuses(running, bad, 2) == [401] * 2
    answer = running.ask("POST", GET, bad, {})
    assert answer.outcome == LIMITED
    assert 1 <= int(answer.headers["retry-after"]) <= 10_001


@pytest.mark.requirement("server-rates", "server-unix")
@pytest.mark.parametrize("is_unix", [True, False])
@pytest.mark.parametrize("bad", [None, "garbage", "revoked", "broken"])
def test_peer_whose_caps_fail_costs_nobody_elses_valid_cap_anything(
    start: StartThread, vault: Vault, cap: Token, tmp_path: Path, is_unix: bool, bad: str | None
) -> None:
    running = start(ListenPlace(unix=tmp_path / "socket") if is_unix else None, **SLOW_ADDRESS)
    shown = {"revoked": bob(vault), "broken": cap[:-1]}.get(bad or "", bad)
    if bad == "revoked":
        vault.revoke(str(shown))
    assert 429 in statuses(running, shown, 30)
    put = {"lines": [{"text": "x" * 100_000, "namespace": "work"}]}
    assert running.ask("POST", "/v1/memory/put", shown, put).outcome == LIMITED
    assert statuses(running, cap, 20) == [200] * 20
    fresh = vault.mint(actor="local/carol", ops=["get"], namespaces=["work"], ttl=3600)
    assert running.ask("POST", GET, fresh, {}).status == 200


@pytest.mark.requirement("server-rates")
def test_valid_cap_is_never_charged_to_its_address(start: StartThread, cap: Token) -> None:
    running = start(**SLOW_ADDRESS)
    assert statuses(running, cap, 30) == [200] * 30
    assert running.ask("POST", GET, cap, {"namespaces": ["nowhere"]}).status == 403
    assert running.ask("GET", "/openapi.json").status == 200


@pytest.mark.requirement("server-rates", "server-logs")
@pytest.mark.parametrize("headers", [{}, {"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_unknown_route_or_host_is_charged_to_its_address(start: StartThread, headers: dict[str, str]) -> None:
    running = start(**SLOW_ADDRESS)
    found = [running.ask("GET", "/nowhere", headers=headers).status for _ in range(13)]
    assert set(found[:11]) <= {404, 421, 403}
    assert found[11:] == [429] * 2


@pytest.mark.requirement("server-rates", "server-unix")
def test_each_user_of_a_unix_socket_pays_alone(
    start: StartThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says whose a connection is; here it is asked, and then made to say somebody else."""
    running = start(ListenPlace(unix=tmp_path / "socket"), **SLOW_ADDRESS)
    asked: list[str] = []

    def told(held: socket.socket | None) -> str:
        asked.append(user_of(held))
        return "uid 4711"

    assert 429 in statuses(running, "garbage", 3)
    monkeypatch.setattr(protocol, "user_of", told)
    assert running.ask("POST", GET, "garbage", {}).status == 401
    assert asked == [f"uid {os.getuid()}"]


@pytest.mark.requirement("server-rates", "server-bad-bodies")
def test_beyond_its_rate_nothing_of_a_body_is_waited_for_without_a_valid_cap(start: StartThread, cap: Token) -> None:
    running = start(**SLOW_ADDRESS)
    assert 429 in statuses(running, "garbage", 3)
    with running.connect() as connection:
        connection.send(request("POST", GET, "garbage", headers={"Content-Length": "100"}))
        assert connection.answer().outcome == LIMITED


@pytest.mark.requirement("server-rates", "server-audit")
def test_cap_that_is_refused_beyond_its_addresss_rate_is_on_record(start: StartThread, vault: Vault) -> None:
    running, token = start(**SLOW_ADDRESS), bob(vault)
    vault.revoke(token)
    size = vault.audit.size()
    assert statuses(running, token, 4) == [401] * 2 + [429] * 2
    found = [entry.reason for _, entry in vault.audit.entries(size) if entry is not None]
    assert found == ["cap_revoked"] * 4


@pytest.mark.requirement("server-rates")
def test_cap_that_fails_behind_a_trusted_proxy_is_charged_to_whom_the_proxy_names(
    start: StartThread, cap: Token
) -> None:
    running = start(ListenPlace(port=0, trusted_proxies=("127.0.0.1",)), **SLOW_ADDRESS)
    away, other = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
    assert statuses(running, "garbage", 3, headers=away) == [401] * 2 + [429]
    assert statuses(running, "garbage", 1, headers=other) == [401]
    assert statuses(running, cap, 1, headers=away) == [200]


@pytest.mark.requirement("server-rates", "server-ready")
def test_health_and_metrics_are_answered_whatever_others_send(start: StartThread) -> None:
    running = start(**SLOW_ADDRESS)
    assert LIMITED[0] in statuses(running, None, 30)
    paths = ("/healthz", "/readyz", "/metrics") * 20
    assert [running.ask("GET", path).status for path in paths] == [200] * 60


@pytest.mark.requirement("server-rates")
def test_addresses_of_one_ipv6_network_pay_together(start: StartThread) -> None:
    running = start(ListenPlace(port=0, trusted_proxies=("127.0.0.1",)), **SLOW_ADDRESS)
    found = [forwarded(running, f"2001:db8::{number:x}").status for number in range(1, 13)]
    assert found == [200] * 11 + [429]
    assert forwarded(running, "2001:db8:0:1::1").status == 200


def forwarded(running: Running, address: str, path: str = "/openapi.json") -> Answer:
    return running.ask("GET", path, headers={"X-Forwarded-For": address})


@pytest.mark.requirement("server-rates")
def test_address_is_not_what_the_peer_says_it_is(start: StartThread) -> None:
    running = start(**SLOW_ADDRESS)
    found = [forwarded(running, f"192.0.2.{number}").status for number in range(12)]
    assert found == [200] * 11 + [429]


@pytest.mark.requirement("server-rates")
def test_each_address_behind_a_trusted_proxy_pays_for_itself(start: StartThread) -> None:
    running = start(ListenPlace(port=0, trusted_proxies=("127.0.0.1",)), **SLOW_ADDRESS)
    assert [forwarded(running, "192.0.2.1").status for _ in range(12)] == [200] * 11 + [429]
    assert forwarded(running, "192.0.2.2").status == 200
    # Only what the proxy itself added counts: the rest of the list is the peer's own.
    assert forwarded(running, "198.51.100.7, 192.0.2.1").outcome == LIMITED


@pytest.mark.requirement("server-rates")
def test_ipv4_addresses_on_an_ipv6_socket_do_not_share_a_bucket() -> None:
    assert neighbourhood("::ffff:192.0.2.1") == neighbourhood("192.0.2.1")
    assert neighbourhood("::ffff:192.0.2.1") != neighbourhood("::ffff:198.51.100.1")
    assert neighbourhood("2001:db8::1%eth0") == neighbourhood("2001:db8::2") != neighbourhood("2001:db8:0:1::1")
