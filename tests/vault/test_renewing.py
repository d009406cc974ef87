"""Renewing a cap: what is refused first, then that the new cap is the old one with another life, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, api
from strongroom.caps import chain
from strongroom.errors import BY_REASON, CapRevoked
from strongroom.memory.vault_records import REVOKED
from strongroom.store import PutNew
from strongroom.vault import issue
from tests.conftest import Clock
from tests.vault.tools import (
    ALICE,
    BOB,
    REQUEST,
    SCOPE,
    claims,
    entries,
    foreign_cap,
    link,
    links,
    only_entry,
    refusal,
    registry,
    renewable,
    renewed,
    standing,
)

WHOSE: dict[str, dict[str, Any]] = {"actor": {"actor": ALICE}, "scope": {"actor_scope": SCOPE}}
GARBAGE = {"cap_missing", "cap_malformed", "cap_signature_invalid"}
RENEWED = {"jti", "iat", "nbf", "exp", "cnf"}
"""What may differ between a cap and its renewal."""

Bad = Callable[[Vault, Clock, dict[str, Any]], str]


def _expired(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    token = renewable(vault, **whose)
    clock.move(3600)
    return token


def _future(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    return foreign_cap(vault, now=clock() // 1000 + 31, **whose)


def _revoked(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    token = renewable(vault, **whose)
    renewed(vault, token)  # known to the gate
    vault.revoke(token)
    return token


def _narrowed(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    return strongroom.attenuate(renewable(vault, **whose), now=clock)


def _stripped(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    first, _, seed = _narrowed(vault, clock, whose).split("~")
    return f"{first}~{seed}"


def _forged(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    signed, _, rest = renewable(vault, **whose).rpartition(".")
    return f"{signed}.{'B' if rest[0] == 'A' else 'A'}{rest[1:]}"


def _other_vault(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    return foreign_cap(vault, audience="0f0e0d0c0b0a0908", **whose)


def _without_seed(vault: Vault, clock: Clock, whose: dict[str, Any]) -> str:
    return renewable(vault, **whose).partition("~")[0]


BAD: dict[str, tuple[str, Bad]] = {
    "none": ("cap_missing", lambda *_: ""),
    "garbage": ("cap_malformed", lambda *_: "garbage"),
    "forged": ("cap_signature_invalid", _forged),
    "stripped": ("cap_holder_proof", _stripped),
    "without seed": ("cap_holder_proof", _without_seed),
    "other vault": ("cap_audience", _other_vault),
    "expired": ("cap_expired", _expired),
    "future": ("cap_not_yet_valid", _future),
    "revoked": ("cap_revoked", _revoked),
    "without op": ("cap_op_mismatch", lambda vault, _, whose: renewable(vault, ops=["get", "mint"], **whose)),
    "credentials": ("cap_data_class_mismatch", lambda v, _, whose: renewable(v, data_class="credentials", **whose)),
    "admin": ("cap_data_class_mismatch", lambda vault, _, whose: renewable(vault, data_class="admin", **whose)),
    "narrowed": ("invalid_request", _narrowed),
}


@pytest.mark.requirement("renew-denied", "bad-cap", "audit-reads", "audit-garbage")
@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("bad", BAD)
def test_cap_that_may_not_be_renewed_is_refused_on_record_and_makes_no_cap(
    vault: Vault, clock: Clock, bad: str, whose: str
) -> None:
    reason, make = BAD[bad]
    token = make(vault, clock, WHOSE[whose])
    before, size = registry(vault), vault.audit.size()
    assert refusal(lambda: renewed(vault, token)).reason == reason
    assert registry(vault) == before
    if reason in GARBAGE:
        assert (vault.audit.size(), vault._clerk.refusals.garbage) == (size, 1)
        return
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.reason, entry.request) == ("renew", "deny", reason, REQUEST)
    assert entry.links == links(token)
    assert bool(entry.holder) == (reason != "cap_holder_proof")
    assert entry.objects == ()
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-denied")
def test_refused_renewal_is_logged_under_the_class_that_was_asked_for(vault: Vault, clock: Clock) -> None:
    size = vault.audit.size()
    for make in (_narrowed, _revoked):
        refusal(partial(renewed, vault, make(vault, clock, {})))
    found = [entry.data_class for entry in entries(vault, size) if entry.decision == "deny"]
    assert found == ["memory", "memory"]


@pytest.mark.requirement("renew-denied")
def test_cap_of_another_vault_with_other_keys_is_not_renewed(vault: Vault, clock: Clock, tmp_path: Path) -> None:
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other-keys"), now=clock) as other:
        token = renewable(other)
    assert refusal(lambda: renewed(vault, token)).reason == "cap_audience"


@pytest.mark.requirement("renew-denied", "cap-revoke")
@pytest.mark.parametrize("void", ["revoke_actor", "erase", "rotate_issuer"])
def test_cap_voided_with_all_others_is_not_renewed(vault: Vault, clock: Clock, void: str) -> None:
    token = renewable(vault)
    vault.memory(token).put("a trip", namespace="travel")
    getattr(vault, void)(*([] if void == "rotate_issuer" else [ALICE]))
    clock.move(60)
    reason = "cap_signature_invalid" if void == "rotate_issuer" else "cap_revoked"
    assert refusal(lambda: renewed(vault, token)).reason == reason


@pytest.mark.requirement("renew-denied")
@pytest.mark.parametrize(
    "narrowing", [{"ttl": 10**6}, {"ops": ["renew"]}, {"session": "s"}, {"max_k": 1}, {"namespaces": ["work"]}, {}]
)
def test_narrowed_cap_cannot_outlive_its_narrowing(vault: Vault, clock: Clock, narrowing: dict[str, Any]) -> None:
    child = strongroom.attenuate(renewable(vault), now=clock, **narrowing)
    error = refusal(lambda: renewed(vault, child))
    assert error.reason == "invalid_request"
    assert error.hint


@pytest.mark.requirement("renew-denied")
def test_scope_narrowed_to_one_actor_is_not_renewed(vault: Vault, clock: Clock) -> None:
    child = strongroom.attenuate(renewable(vault, actor_scope=SCOPE), actor=ALICE, now=clock)
    assert refusal(lambda: renewed(vault, child)).reason == "invalid_request"


@pytest.mark.requirement("renew-denied")
def test_token_that_splits_into_another_one_is_renewed_as_what_was_verified(vault: Vault) -> None:
    """The gate and the renewal must read the same bytes: else a forged cap would be signed."""
    wide = foreign_cap(vault, actor="local/victim", issuer_seed=bytes(32), ttl=10**6)

    class Shown(Token):
        __slots__ = ()

        def split(self, *_: Any, **__: Any) -> list[str]:
            return wide.split("~")

    try:
        found = claims(vault.memory(Shown(renewable(vault))).renew())
    except strongroom.errors.StrongroomError:
        return
    assert (found.actor, found.exp - found.nbf) == (ALICE, 3600)


# What a renewal is.


@pytest.mark.requirement("renew-same")
@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("ttl", [1, 3600, 400 * 24 * 3600])
@pytest.mark.parametrize("delegable", [True, False])
def test_renewal_says_the_same_but_for_its_time_its_id_and_its_holder(
    vault: Vault, clock: Clock, whose: str, ttl: int, delegable: bool
) -> None:
    choices: tuple[dict[str, Any], ...] = (
        {},
        {"session": "Réunion", "label": "laptop: hermes"},
        {"max_k": 3, "max_depth": 0},
        {"session": "s", "max_k": 1, "max_depth": 5, "label": "x", "ops": ["erase", "mint", "renew"]},
        {"namespaces": []},
    )
    for more in choices:
        token = renewable(vault, ttl=ttl, delegable=delegable, **WHOSE[whose], **more)
        clock.move(min(ttl - 1, 5))
        again = renewed(vault, token)
        old, new = (msgspec.structs.asdict(claims(one)) for one in (token, again))
        assert {name for name in old if old[name] != new[name]} <= RENEWED
        assert (new["nbf"], new["exp"] - new["nbf"]) == (clock() // 1000, ttl)
        assert new["iat"] <= new["nbf"]
        assert new["jti"] != old["jti"]
        assert (new["cnf"] is None) == (old["cnf"] is None) == (not delegable)
        assert not delegable or new["cnf"] != old["cnf"]
        assert chain.parse(again).seed != chain.parse(token).seed or not delegable


@pytest.mark.requirement("renew-same")
@pytest.mark.parametrize("whose", WHOSE)
def test_cap_is_renewed_until_its_last_second_and_lives_as_long_again(vault: Vault, clock: Clock, whose: str) -> None:
    token = renewable(vault, ttl=60, **WHOSE[whose])
    for _ in range(5):
        clock.move(59)
        token = renewed(vault, token)
    clock.move(60)
    assert refusal(lambda: renewed(vault, token)).reason == "cap_expired"


@pytest.mark.requirement("renew-same")
def test_old_cap_ends_when_it_would_have(vault: Vault, clock: Clock) -> None:
    old = renewable(vault, ttl=60)
    clock.move(30)
    new = renewed(vault, old)
    assert (standing(vault, old), standing(vault, new)) == ("", "")
    clock.move(30)
    assert (standing(vault, old), standing(vault, new)) == ("cap_expired", "")


@pytest.mark.requirement("renew-same", "gate-session", "gate-max-k")
def test_renewed_cap_is_held_to_the_same_limits(vault: Vault, clock: Clock) -> None:
    again = renewed(vault, renewable(vault, session="s", max_k=1, max_depth=0))
    memory = vault.memory(again)
    memory.put("a trip", namespace="travel")
    assert refusal(lambda: memory.put("x", namespace="travel", session="t")).reason == "cap_limit_exceeded"
    assert refusal(lambda: memory.get("trip", k=2)).reason == "cap_limit_exceeded"
    assert refusal(lambda: memory.get("x", namespaces=["personal"])).reason == "cap_namespace_denied"
    assert refusal(lambda: strongroom.attenuate(again, now=clock)).reason == "invalid_request"
    assert [hit.text for hit in memory.get("trip")] == ["a trip"]


@pytest.mark.requirement("renew-same", "cap-scope")
def test_renewed_scope_opens_nothing_until_it_is_narrowed_to_one_actor(vault: Vault, clock: Clock) -> None:
    again = renewed(vault, renewable(vault, actor_scope=SCOPE))
    assert refusal(lambda: vault.memory(again).get("x")).reason == "cap_malformed"
    vault.memory(strongroom.attenuate(again, actor=ALICE, now=clock)).put("hers", namespace="work")
    assert vault.memory(strongroom.attenuate(again, actor=BOB, now=clock)).get("hers") == []
    assert refusal(lambda: strongroom.attenuate(again, actor="hermes/other", now=clock)).reason == "invalid_request"


@pytest.mark.requirement("renew-lineage", "cap-revoke", "erase-void")
@pytest.mark.parametrize("void", ["revoke_actor", "erase"])
def test_renewing_a_scope_gives_no_way_back_to_an_actor_that_was_voided(vault: Vault, clock: Clock, void: str) -> None:
    scope = renewable(vault, actor_scope=SCOPE)
    vault.memory(strongroom.attenuate(scope, actor=ALICE, now=clock)).put("hers", namespace="work")
    clock.move(60)
    getattr(vault, void)(ALICE)
    clock.move(60)
    again = renewed(vault, renewed(vault, scope))
    for token in (scope, again):
        memory = vault.memory(strongroom.attenuate(token, actor=ALICE, now=clock))
        assert refusal(partial(memory.put, "back", namespace="work")).reason == "cap_revoked"
    vault.memory(strongroom.attenuate(again, actor=BOB, now=clock)).put("his", namespace="work")


@pytest.mark.requirement("renew-lineage", "audit-reads", "audit-private")
@pytest.mark.parametrize("whose", WHOSE)
def test_renewal_is_on_record_with_its_link_and_no_name(vault: Vault, whose: str) -> None:
    token = renewable(vault, **WHOSE[whose])
    size = vault.audit.size()
    again = renewed(vault, token)
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.data_class, entry.request) == ("renew", "allow", "memory", REQUEST)
    assert (entry.links, entry.count, entry.detail) == (links(token), 1, f"link {link(again)}")
    assert entry.holder
    assert [mark.shelf for mark in entry.objects] == ["vault"]
    said = entry.encoded().decode()
    assert not [text for text in ("hermes", "alice", token, again) if text in said]
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-lineage")
def test_registry_knows_what_a_renewal_came_from(vault: Vault) -> None:
    token = renewable(vault, label="laptop")
    again = renewed(vault, token)
    records = {str(record.link): record for record in vault.caps()}
    assert records[link(token)].parents == ()
    found = records[link(again)]
    assert found.parents == links(token)
    assert (found.actor, found.label, found.data_class, found.revoked) == (ALICE, "laptop", "memory", False)
    assert (found.ops, found.namespaces) == (("get", "list", "put", "renew"), ("travel", "work"))
    assert found.expires == claims(again).exp


@pytest.mark.requirement("renew-same")
def test_answer_says_the_links_id_and_end_and_its_repr_hides_the_cap(vault: Vault) -> None:
    answer = vault.door(renewable(vault)).call(api.Renew())
    assert (answer.link, answer.expires) == (link(answer.cap), claims(answer.cap).exp)
    for shown in (repr(answer), str(answer), f"{answer}", repr([answer]), repr(Token(answer.cap))):
        assert not [part for part in answer.cap.split("~") if part in shown]
    assert "<redacted>" in repr(answer)


def test_every_reason_of_the_table_is_one() -> None:
    assert {reason for reason, _ in BAD.values()} <= set(BY_REASON)


@pytest.mark.requirement("renew-denied")
def test_cap_that_comes_from_too_many_is_renewed_no_more(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each renewal depends on all before it, so there is an end to them."""
    monkeypatch.setattr(issue, "_GENERATIONS", 2)
    newest = renewed(vault, renewed(vault, renewable(vault)))
    assert refusal(lambda: renewed(vault, newest)).reason == "invalid_request"
    assert standing(vault, newest) == ""


@pytest.mark.requirement("renew-race", "renew-lineage")
def test_renewal_is_refused_once_any_ancestor_is_revoked(vault: Vault) -> None:
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
