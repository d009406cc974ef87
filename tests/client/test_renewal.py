"""Renewal before a cap ends: when, once, and that a failure harms nobody."""

from __future__ import annotations

import threading

import pytest

import strongroom
from strongroom import Token, Vault, errors
from strongroom.caps import chain
from tests.client.conftest import Reach, Start
from tests.client.peer import Reply, Seen, answer, done_but, for_vault, given, hang_up, refuse
from tests.conftest import ALL_OPS, NAMESPACES, Clock

RENEW = "/v1/caps/renew"


def _paths(seen: list[Seen]) -> list[str]:
    return [one.path.rpartition("/")[2] for one in seen]


@pytest.mark.requirement("client-renew")
def test_cap_is_renewed_in_the_last_fifth_of_its_life_and_the_new_one_used(
    start: Start, reach: Reach, renewable: Token, clock: Clock
) -> None:
    peer, stored = start(), list[Token]()
    memory = reach(peer, renewable, on_renew=stored.append)
    clock.move(799)
    memory.get("x")
    assert stored == []
    clock.move(1)
    memory.get("x")
    memory.get("x")
    assert _paths(peer.seen) == ["get", "renew", "get", "get"]
    (new,) = stored
    assert type(new) is Token
    assert [seen.token for seen in peer.seen] == [renewable, renewable, new, new]
    assert chain.parse(new).first.exp == chain.parse(renewable).first.exp + 800
    clock.move(700)
    assert memory.get("x") == []


@pytest.mark.requirement("client-renew")
def test_renewed_cap_is_renewed_again(start: Start, reach: Reach, renewable: Token, clock: Clock) -> None:
    stored: list[Token] = []
    memory = reach(start(), renewable, on_renew=stored.append)
    for _ in range(5):
        clock.move(850)
        memory.get("x")
    assert len(set(stored)) == 5


@pytest.mark.requirement("client-renew")
def test_cap_that_has_ended_is_expired_and_not_renewed(
    start: Start, reach: Reach, renewable: Token, clock: Clock
) -> None:
    peer = start()
    memory = reach(peer, renewable)
    clock.move(1000)
    with pytest.raises(errors.CapExpired):
        memory.get("x")
    assert _paths(peer.seen) == ["get"]


@pytest.mark.requirement("client-renew")
def test_caps_that_cannot_be_renewed_are_not_tried(
    start: Start, reach: Reach, renewable: Token, clock: Clock, vault: Vault
) -> None:
    narrowed = strongroom.attenuate(renewable, namespaces=["work"], now=clock)
    silent = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=1000)
    clock.move(900)
    for token in (narrowed, silent):
        peer = start()
        reach(peer, token).get("x")
        assert _paths(peer.seen) == ["get"]
    peer = start()
    with pytest.raises(errors.CapMalformed):
        reach(peer, "gar.ba.ge").get("x")
    assert _paths(peer.seen) == ["get"]


@pytest.mark.requirement("client-renew")
@pytest.mark.parametrize(
    "step",
    [
        hang_up,
        refuse("server_unavailable"),
        refuse("cap_op_mismatch"),
        refuse("rate_limited"),
        answer(200, b"garbage"),
        answer(502, b"<html>"),
        given({"cap": "garbage", "link": "x", "expires": 5}),
        given({"cap": "two\r\nlines", "link": "x", "expires": 5}),
    ],
)
def test_failed_renewal_is_not_fatal_and_is_tried_again_later_a_few_times(
    step: object, start: Start, reach: Reach, renewable: Token, clock: Clock
) -> None:
    def no_renewal(seen: Seen) -> Reply:
        return step(seen) if seen.path == RENEW else answer(200, b'{"lines":[]}')(seen)  # type: ignore[operator]

    stored: list[Token] = []
    peer = start(then=no_renewal)
    memory = reach(peer, renewable, on_renew=stored.append)
    clock.move(800)
    for _ in range(199):
        memory.get("x")
        clock.move(1)
    assert _paths(peer.seen).count("get") == 199
    assert 4 <= _paths(peer.seen).count("renew") <= 6
    assert stored == []
    assert {seen.token for seen in peer.seen} == {renewable}


@pytest.mark.requirement("client-renew")
def test_lost_renewal_leaves_the_old_cap_and_the_next_one_succeeds(
    start: Start, reach: Reach, renewable: Token, clock: Clock, vault: Vault
) -> None:
    stored: list[Token] = []
    peer = start(done_but(hang_up, for_vault(vault)))
    memory = reach(peer, renewable, on_renew=stored.append)
    clock.move(800)
    assert memory.get("x") == []
    clock.move(60)
    assert memory.get("x") == []
    assert _paths(peer.seen) == ["renew", "get", "renew", "get"]
    assert len(stored) == 1


@pytest.mark.requirement("client-renew")
def test_clock_that_runs_ahead_does_not_renew_at_every_call(
    start: Start, reach: Reach, renewable: Token, clock: Clock
) -> None:
    ahead = Clock()
    ahead.move(900)
    peer = start()
    memory = reach(peer, renewable, now=ahead)
    for _ in range(20):
        memory.get("x")
    assert _paths(peer.seen).count("renew") == 1


@pytest.mark.requirement("client-renew")
def test_many_threads_renew_once_and_do_not_wait_for_it(
    start: Start, reach: Reach, renewable: Token, clock: Clock, vault: Vault
) -> None:
    begun, others_done = threading.Event(), threading.Event()
    serve = for_vault(vault)

    def slow_renewal(seen: Seen) -> Reply:
        if seen.path == RENEW:
            begun.set()
            assert others_done.wait(20)
        return serve(seen)

    stored: list[Token] = []
    peer = start(then=slow_renewal)
    memory = reach(peer, renewable, on_renew=stored.append)
    clock.move(900)
    renewing = threading.Thread(target=memory.get, args=("x",))
    renewing.start()
    assert begun.wait(20)
    others = [threading.Thread(target=memory.get, args=("x",)) for _ in range(8)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    others_done.set()
    renewing.join()
    assert _paths(peer.seen).count("renew") == 1
    assert len(stored) == 1
    assert [seen.token for seen in peer.seen].count(renewable) == 9


@pytest.mark.requirement("client-renew")
def test_renewing_by_hand_returns_the_cap_and_changes_nothing(
    start: Start, reach: Reach, renewable: Token, clock: Clock
) -> None:
    stored: list[Token] = []
    peer = start()
    memory = reach(peer, renewable, on_renew=stored.append)
    clock.move(900)
    assert memory.renew() != renewable
    assert (_paths(peer.seen), stored) == (["renew"], [])


def test_client_that_cannot_store_a_cap_hears_of_it_and_uses_the_new_cap(
    start: Start, reach: Reach, renewable: Token, clock: Clock
) -> None:
    def full(token: Token) -> None:
        raise OSError("disk full")

    peer = start()
    memory = reach(peer, renewable, on_renew=full)
    clock.move(900)
    with pytest.raises(OSError, match="disk full"):
        memory.get("x")
    memory.get("x")
    assert _paths(peer.seen) == ["renew", "get"]
    assert peer.seen[1].token != renewable
