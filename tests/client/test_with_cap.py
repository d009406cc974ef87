"""Other caps over the same connections: each its own, none renewed, and nothing of one told to another."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ulid import ULID

from strongroom import NewLine, Token, Vault, api, errors
from strongroom.crypto import inbox
from tests.client.conftest import Reach, Start
from tests.client.peer import done_but, for_vault, given, hang_up, refuse
from tests.client.served import served
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def _cap(vault: Vault, actor: str) -> Token:
    return vault.mint(actor=actor, ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, ttl=1000)


@pytest.mark.requirement("client-with-cap")
def test_closed_memory_is_closed_for_every_cap_and_closing_another_closes_none(start: Start, reach: Reach) -> None:
    memory = reach(start())
    other = memory.with_cap(reach.cap)
    other.close()
    assert memory.get("x") == other.get("x") == []
    memory.close()
    for closed in (memory, other, other.with_cap(reach.cap)):
        with pytest.raises(errors.ServerUnavailable):
            closed.get("x")


@pytest.mark.requirement("client-with-cap")
def test_many_caps_are_shown_over_one_connection_each_with_its_own_calls(
    start: Start, reach: Reach, vault: Vault
) -> None:
    peer = start()
    memory = reach(peer)
    caps = [_cap(vault, f"local/user-{number}") for number in range(5)]
    for token in caps:
        memory.with_cap(token).put("x", namespace="work")
    memory.get("x")
    assert [seen.token for seen in peer.seen] == [*caps, reach.cap]
    assert peer.connections == 1


@pytest.mark.requirement("client-with-cap", "client-renew")
def test_another_cap_is_not_renewed_and_the_first_still_is(
    start: Start, reach: Reach, renewable: Token, clock: Clock, vault: Vault
) -> None:
    peer, stored = start(), list[Token]()
    memory = reach(peer, renewable, on_renew=stored.append)
    other = memory.with_cap(_cap(vault, "local/bob"))
    clock.move(900)
    other.get("x")
    assert ([seen.path for seen in peer.seen], stored) == (["/v1/memory/get"], [])
    memory.get("x")
    assert len(stored) == 1


@pytest.mark.requirement("client-with-cap")
def test_ids_made_for_one_cap_tell_nothing_of_what_is_put_with_another(
    start: Start, reach: Reach, vault: Vault
) -> None:
    memory = reach(start())
    alice, bob = (memory.with_cap(_cap(vault, f"local/{name}")) for name in ("alice", "bob"))
    first = ULID.from_str(alice.put("x", namespace="work").id)
    ids = [ULID.from_str(bob.put("x", namespace="work").id) for _ in range(3)]
    assert int(ids[2]) - int(ids[0]) == 2, "within one cap they count on: the clock stands still"
    assert all(abs(int(one) - int(first)) > 1000 for one in ids)


@pytest.mark.requirement("client-with-cap")
def test_another_cap_keeps_the_settings_and_retries_as_the_first_does(start: Start, reach: Reach) -> None:
    peer = start(refuse("rate_limited"), hang_up)
    assert reach(peer, retries=2).with_cap(reach.cap).get("x") == []
    assert (len(peer.seen), len(reach.slept)) == (3, 2)


FORKING = """
import json, os, sys
import strongroom
url, first, second = sys.argv[1:4]
memory = strongroom.connect(url, first, now=lambda: 1_779_440_000_000)
other = memory.with_cap(second)
other.put("before", namespace="work")
child = os.fork()
if child == 0:
    for turn in range(5):
        other.put(f"child {turn}", namespace="work")
    assert memory.get("x") == []
    os._exit(0)
for turn in range(5):
    other.put(f"parent {turn}", namespace="work")
print(json.dumps(os.waitpid(child, 0)[1]))
memory.close()
"""


@pytest.mark.requirement("client-with-cap", "client-threads")
def test_forked_process_connects_anew_for_every_cap(vault: Vault, cap: Token) -> None:
    bob = _cap(vault, "local/bob")
    with served(vault) as url:
        done = subprocess.run(
            [sys.executable, "-c", FORKING, url, cap, bob], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == 0
    assert len(vault.memory(bob).list().lines) == 11


@pytest.mark.requirement("client-with-cap")
def test_embedded_door_for_another_cap_keeps_source_and_request(vault: Vault, cap: Token) -> None:
    door = vault.door(cap, source="hermes", request="r1").with_cap(_cap(vault, "local/bob"))
    size = vault.audit.size()
    door.call(api.Put(lines=(NewLine(text="x", namespace="work", id=ID),)))
    ((_, entry),) = vault.audit.entries(size)
    assert entry is not None
    assert entry.request == "r1"
    assert [hit.provenance.source for hit in vault.memory(_cap(vault, "local/bob")).get(ids=[ID])] == ["hermes"]


# What may be sent again.


@pytest.mark.requirement("client-retries", "inbox-put")
def test_delivery_whose_answer_was_lost_is_sent_again_and_written_once(
    start: Start, reach: Reach, vault: Vault, cap: Token
) -> None:
    line = NewLine(text="Trip", namespace="travel", id=ID)
    memory = reach(peer := start())
    sealed = inbox.seal(memory.inbox(), inbox.Bundle("local/alice", (line,)))
    peer.steps.append(done_but(hang_up, for_vault(vault)))
    assert [receipt.id for receipt in memory.deliver(sealed)] == [ID]
    assert [seen.path.rpartition("/")[2] for seen in peer.seen] == ["inbox", "deliver", "deliver"]
    assert len(vault.memory(cap).list().lines) == 1


@pytest.mark.requirement("client-retries", "observe-gated")
def test_observation_that_was_sent_twice_is_on_record_under_one_request_id(
    start: Start, reach: Reach, vault: Vault
) -> None:
    peer = start(done_but(hang_up, for_vault(vault)))
    reach(peer).observe("terminal", "0" * 64)
    first, second = peer.seen
    assert first.headers["x-request-id"] == second.headers["x-request-id"]


@pytest.mark.requirement("client-answers")
@pytest.mark.parametrize(
    "recipient", ["", "age1", "age1" + "q" * 57, "ssh-ed25519 AAAA", "AGE-SECRET-KEY-1", "age1" + "b" * 58]
)
def test_server_whose_inbox_key_is_none_is_not_believed(recipient: str, start: Start, reach: Reach) -> None:
    with pytest.raises(errors.ServerDefect):
        reach(start(given({"recipient": recipient}))).inbox()
