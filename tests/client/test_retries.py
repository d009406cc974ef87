"""What is sent again, what is not, and that a repeated call does its work once."""

from __future__ import annotations

import socket
from collections.abc import Callable

import httpx
import pytest

import strongroom
from strongroom import Memory, NewLine, Token, Vault, api, errors
from strongroom.client.http_transport import HttpTransport
from strongroom.client.server_address import Address
from tests.client.conftest import Reach, Start
from tests.client.peer import Reply, Step, always, answer, done_but, for_vault, hang_up, never, refuse, reset

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
HTML = b"<html>Bad Gateway</html>"
PASSING: dict[str, Step] = {
    "hung up": hang_up,
    "reset": reset,
    "half an answer": always(Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", hang_up=True)),
    "server_unavailable": refuse("server_unavailable"),
    "audit_unavailable": refuse("audit_unavailable"),
    "store_unavailable": refuse("store_unavailable"),
    "rate_limited": refuse("rate_limited"),
    "a proxy's 502": answer(502, HTML),
    "a proxy's 503": answer(503, HTML),
    "a proxy's 504": answer(504, HTML),
    "a proxy's 429": answer(429, HTML),
}
LASTING = sorted(set(api.STATUS) - {"server_unavailable", "audit_unavailable", "store_unavailable", "rate_limited"})


@pytest.mark.requirement("client-retries")
@pytest.mark.parametrize("reason", LASTING)
def test_refusal_that_lasts_is_raised_at_once_as_the_same_class(reason: str, start: Start, reach: Reach) -> None:
    peer = start(refuse(reason))
    with pytest.raises(errors.StrongroomError) as refused:
        reach(peer).get("x")
    assert type(refused.value) is errors.BY_REASON[reason]
    assert refused.value.hint == "a hint"
    assert (len(peer.seen), reach.slept) == (1, [])


@pytest.mark.requirement("client-retries")
@pytest.mark.parametrize("failure", sorted(PASSING))
def test_failure_that_stays_is_raised_after_the_last_try(failure: str, start: Start, reach: Reach) -> None:
    peer = start(then=PASSING[failure])
    with pytest.raises(errors.Unavailable) as refused:
        reach(peer, retries=2).get("x")
    expected = "rate_limited" if "429" in failure else failure if "_" in failure else "server_unavailable"
    assert refused.value.reason == expected
    assert (len(peer.seen), len(reach.slept)) == (3, 2)


@pytest.mark.requirement("client-retries")
@pytest.mark.parametrize("reason", ["audit_unavailable", "store_unavailable"])
def test_last_answer_before_a_server_fell_silent_is_raised(reason: str, start: Start, reach: Reach) -> None:
    peer = start(refuse(reason), hang_up, hang_up)
    with pytest.raises(errors.Unavailable) as refused:
        reach(peer, retries=2).get("x")
    assert refused.value.reason == reason
    assert len(peer.seen) == 3


@pytest.mark.requirement("client-retries")
@pytest.mark.parametrize("failure", sorted(PASSING))
def test_put_that_met_a_failure_before_its_work_is_written_once(
    failure: str, start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    peer = start(PASSING[failure])
    receipt = reach(peer).put("Trip to Chengdu", namespace="travel")
    assert (receipt.duplicate, len(peer.seen)) == (False, 2)
    assert [line.id for line in vault.memory(cap).list().lines] == [receipt.id]


@pytest.mark.requirement("client-retries", "client-once")
@pytest.mark.parametrize("failure", sorted(PASSING))
def test_put_whose_acknowledgement_was_lost_is_there_once_and_is_no_duplicate(
    failure: str, start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    lost = done_but(PASSING[failure], for_vault(vault))
    peer = start(lost, lost)
    receipts = reach(peer).put_many([NewLine(text=f"line {n}", namespace="travel") for n in range(3)])
    assert [receipt.duplicate for receipt in receipts] == [False] * 3
    assert [line.id for line in vault.memory(cap).list().lines] == [receipt.id for receipt in receipts]
    assert len({seen.body for seen in peer.seen}) == 1
    assert len({seen.headers["x-request-id"] for seen in peer.seen}) == 1


@pytest.mark.requirement("client-once")
def test_duplicate_under_an_id_of_the_callers_own_is_reported(start: Start, reach: Reach) -> None:
    memory = reach(start())
    lines = [NewLine(text="mine", namespace="work", id=ID), NewLine(text="other", namespace="work")]
    assert [receipt.duplicate for receipt in memory.put_many(lines)] == [False, False]
    assert [receipt.duplicate for receipt in memory.put_many(lines)] == [True, False]


@pytest.mark.requirement("client-retries")
def test_reads_are_repeated_after_a_lost_answer(start: Start, reach: Reach, vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel", id=ID)
    lost = done_but(hang_up, for_vault(vault))
    reads: list[Callable[[Memory], object]] = [
        lambda memory: memory.get("chengdu")[0].id,
        lambda memory: memory.list().lines[0].id,
        lambda memory: memory.snapshot().profiles,
        lambda memory: memory.profile("work").text,
    ]
    for read in reads:
        peer = start(lost)
        assert read(reach(peer)) == read(vault.memory(cap))
        assert len(peer.seen) == 2


@pytest.mark.requirement("client-retries")
def test_forget_whose_answer_was_lost_is_repeated_and_finds_nothing_more(
    start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    vault.memory(cap).put("Trip", namespace="travel", id=ID)
    forgotten = reach(start(done_but(hang_up, for_vault(vault)))).forget(ids=[ID])
    assert (forgotten.ids, forgotten.missing) == ((), (ID,))
    assert vault.memory(cap).list().lines == ()


@pytest.mark.requirement("client-retries")
def test_profile_whose_answer_was_lost_is_found_to_be_written(
    start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    peer = start(done_but(hang_up, for_vault(vault)))
    written = reach(peer).set_profile("Cafe\u0301 person", namespace="work")
    assert written == vault.memory(cap).profile("work")
    assert [seen.method for seen in peer.seen] == ["PUT", "PUT", "GET"]


@pytest.mark.requirement("client-retries")
def test_profile_that_somebody_else_wrote_meanwhile_is_still_a_conflict(
    start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    def other(seen: object) -> Reply:
        vault.memory(cap).set_profile("theirs", namespace="work")
        return Reply(hang_up=True)

    with pytest.raises(errors.VersionConflict):
        reach(start(other)).set_profile("mine", namespace="work")
    assert vault.memory(cap).profile("work").text == "theirs"


def test_conflict_without_an_unclear_failure_is_not_looked_into(
    start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    vault.memory(cap).set_profile("the same", namespace="work")
    peer = start(refuse("rate_limited"))
    with pytest.raises(errors.VersionConflict):
        reach(peer).set_profile("the same", namespace="work")
    assert [seen.method for seen in peer.seen] == ["PUT", "PUT"]


@pytest.mark.requirement("client-retries")
@pytest.mark.parametrize("failure", sorted(set(PASSING) - {"rate_limited", "a proxy's 429"}))
def test_erase_and_a_renewal_are_not_repeated_once_they_may_have_been_carried_out(
    failure: str, start: Start, reach: Reach, renewable: Token
) -> None:
    peer = start(then=PASSING[failure])
    memory = reach(peer, renewable)
    for call in (lambda: memory.erase(["travel"]), memory.renew):
        with pytest.raises(errors.Unavailable):
            call()
    assert len(peer.seen) == 2


@pytest.mark.requirement("client-retries")
def test_erase_and_a_renewal_that_were_turned_away_unread_are_repeated(
    start: Start, reach: Reach, renewable: Token
) -> None:
    peer = start(refuse("rate_limited"), for_work := refuse("rate_limited"))
    memory = reach(peer, renewable)
    assert memory.erase(["travel"]).objects == 0
    peer.steps.append(for_work)
    assert memory.renew() != renewable


@pytest.mark.requirement("client-retries")
def test_minting_through_the_door_is_not_repeated_and_a_revocation_is(
    start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    admin = vault.mint(actor_scope="local/", ops=["mint", "revoke"], namespaces=["work"], data_class="admin")
    lost = done_but(hang_up, for_vault(vault))
    door = reach(start(lost), admin)._door
    assert isinstance(door, HttpTransport)
    with pytest.raises(errors.ServerUnavailable):
        door.call(api.Mint(ops=("get",), namespaces=("work",), actor="local/bob"))
    (minted,) = [record for record in vault.caps() if record.actor == "local/bob"]
    revoking = reach(start(lost), admin)._door
    assert revoking.call(api.Revoke(link=minted.link)).links == (minted.link,)
    assert [record.revoked for record in vault.caps() if record.actor == "local/bob"] == [True]


@pytest.mark.requirement("client-retries")
def test_nobody_listening_is_server_unavailable_for_every_call_after_the_tries(reach: Reach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with strongroom.connect(url, reach.cap, retries=0) as memory:
        for call in (lambda: memory.get("x"), lambda: memory.put("x"), lambda: memory.erase(), memory.renew):
            with pytest.raises(errors.ServerUnavailable):
                call()


@pytest.mark.requirement("client-retries")
@pytest.mark.parametrize("failure", [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout])
def test_erase_that_never_left_is_sent_again(failure: type[httpx.TransportError], reach: Reach) -> None:
    tries: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        tries.append(request)
        if len(tries) == 1:
            raise failure("not now")
        return httpx.Response(200, stream=httpx.ByteStream(b'{"objects":3}'))

    address = Address.of("http://127.0.0.1:1")
    door = HttpTransport(
        address,
        reach.cap,
        lambda: httpx.MockTransport(respond),
        timeout=20.0,
        retries=1,
        on_renew=None,
        now=reach.clock,
        sleep=reach.slept.append,
    )
    assert Memory(door).erase(["work"]).objects == 3
    assert (len(tries), len(reach.slept)) == (2, 1)


@pytest.mark.requirement("client-retries")
def test_waits_grow_in_part_by_chance_and_stay_bounded(start: Start, reach: Reach) -> None:
    with pytest.raises(errors.ServerUnavailable):
        reach(start(then=hang_up), retries=7, timeout=1000.0).get("x")
    for turn, wait in enumerate(reach.slept):
        backoff = min(2.0, 0.1 * 2**turn)
        assert backoff / 2 <= wait <= backoff


@pytest.mark.requirement("client-retries")
def test_wait_that_the_server_asks_for_is_kept_or_the_caller_told(start: Start, reach: Reach) -> None:
    assert reach(start(refuse("rate_limited", Retry_After="7"))).get("x") == []
    (wait,) = reach.slept
    assert 7 < wait < 8
    with pytest.raises(errors.RateLimited):
        reach(start(refuse("rate_limited", Retry_After="11"))).get("x")
    assert reach(start(refuse("rate_limited", Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"))).get("x") == []
    assert len(reach.slept) == 2


@pytest.mark.requirement("client-retries")
def test_no_try_begins_after_the_time_for_the_call(start: Start, reach: Reach) -> None:
    peer = start(then=refuse("rate_limited", Retry_After="7"))
    slept = [0.0]
    with pytest.raises(errors.RateLimited):
        reach(peer, timeout=14.0, retries=9, clock=lambda: sum(slept), sleep=slept.append).get("x")
    assert len(peer.seen) == 2


@pytest.mark.requirement("client-retries")
def test_answer_that_does_not_come_in_time_is_server_unavailable(start: Start, reach: Reach) -> None:
    peer = start(never)
    with pytest.raises(errors.ServerUnavailable):
        reach(peer, timeout=0.05).get("x")
    assert len(peer.seen) == 1


def test_answer_that_trickles_beyond_its_time_is_given_up(start: Start, reach: Reach) -> None:
    ticks = iter([0.0, 0.0, 0.0, 21.0])
    late = answer(200, b'{"lines":[]}')
    with pytest.raises(errors.ServerUnavailable):
        reach(start(late), retries=0, clock=lambda: next(ticks)).get("x")


def test_patience_of_a_get_is_added_to_its_time(start: Start, reach: Reach) -> None:
    ticks = iter(range(0, 10_000, 5))
    peer = start(refuse("server_unavailable"))
    assert reach(peer, timeout=2.0, clock=lambda: float(next(ticks))).get("x", patience=100) == []
    assert len(peer.seen) == 2


@pytest.mark.requirement("client-retries")
def test_connections_are_used_again_and_a_stale_one_is_replaced(start: Start, reach: Reach) -> None:
    peer = start()
    memory = reach(peer)
    for _ in range(5):
        memory.get("x")
    assert peer.connections == 1
    peer.steps.append(hang_up)
    memory.get("x")
    assert (peer.connections, len(peer.seen)) == (2, 7)
