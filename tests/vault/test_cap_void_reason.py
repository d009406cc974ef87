"""Which minted caps are void, why, and since when: as the gate would judge them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strongroom import Token, Vault, attenuate, errors
from strongroom.caps import chain
from strongroom.model import CapRecord, Void
from strongroom.vault import cap_void_reason
from tests.conftest import Clock

pytestmark = pytest.mark.requirement("cap-void")


def _mint(vault: Vault) -> Token:
    return vault.mint(actor="local/alice", ops=["get"], namespaces=["work"], ttl=3600)


def _of(vault: Vault, token: Token) -> CapRecord:
    link = chain.parse(token).links[0].id
    (found,) = [one for one in cap_void_reason.date(vault.caps(), vault.audit.newest()) if one.link == link]
    return found


VOIDED: list[tuple[Callable[[Vault, Token], object], Void, type[errors.Denied]]] = [
    (lambda vault, token: vault.revoke(token), Void.REVOKED, errors.CapRevoked),
    (lambda vault, _: vault.revoke_actor("local/alice"), Void.ACTOR_REVOKED, errors.CapRevoked),
    (lambda vault, _: vault.rotate_issuer(), Void.ISSUER_ROTATED, errors.CapSignatureInvalid),
]


@pytest.mark.parametrize(("act", "why", "refusal"), VOIDED, ids=[str(why) for _, why, _ in VOIDED])
def test_cap_that_the_gate_refuses_is_void_with_why_and_since_when(
    vault: Vault, clock: Clock, act: Callable[[Vault, Token], object], why: Void, refusal: type[errors.Denied]
) -> None:
    token = _mint(vault)
    assert (_of(vault, token).void, _of(vault, token).void_since) == (None, None)
    clock.move(60)
    act(vault, token)
    since = clock() // 1000
    clock.move(60)
    with pytest.raises(refusal):
        vault.memory(token).get("x")
    assert (_of(vault, token).void, _of(vault, token).void_since) == (why, since)
    assert _of(vault, token).revoked is (why != Void.ISSUER_ROTATED)
    fresh = _mint(vault)
    vault.memory(fresh).get("x")
    assert _of(vault, fresh).void is None


def test_each_of_several_rotations_dates_the_caps_before_it(vault: Vault, clock: Clock) -> None:
    tokens, times = [], []
    for _ in range(3):
        tokens.append(_mint(vault))
        clock.move(60)
        vault.rotate_issuer()
        times.append(clock() // 1000)
        clock.move(60)
    assert [_of(vault, token).void_since for token in tokens] == times


def test_cap_for_a_scope_is_not_void_but_shut_out_from_actors_whose_caps_were_revoked_since(
    vault: Vault, clock: Clock
) -> None:
    def scope() -> Token:
        return vault.mint(actor_scope="local/", ops=["put"], namespaces=["work"], ttl=3600)

    old, whose = scope(), ("local/alice", "local/bob", "local/carol", "locals/dan")
    for actor in whose:
        vault.memory(vault.mint(actor=actor, ops=["put"], namespaces=["work"], ttl=60)).put("a line")
    clock.move(60)
    for actor in ("local/alice", "local/bob", "locals/dan"):
        vault.revoke_actor(actor)
    vault.erase("local/bob")
    clock.move(60)
    link = chain.parse(old).links[0].id
    assert vault.shut_out(link) == ("local/alice",), "an erased actor is nobody any more"
    assert _of(vault, old).void is None
    assert vault.shut_out(chain.parse(scope()).links[0].id) == vault.shut_out("0" * 64) == ()


def test_scopes_cap_of_the_owner_made_in_the_second_of_a_revocation_opens_that_actors_memory(
    vault: Vault, clock: Clock
) -> None:
    """Else the cap of a command typed at once is void for that actor for as long as it lives."""

    def scope() -> Token:
        return vault.mint(actor_scope="local/", ops=["get"], namespaces=["work"], ttl=3600)

    def opens(token: Token) -> bool:
        try:
            vault.memory(attenuate(token, actor="local/alice", ops=["get"], ttl=60, now=clock)).get("x")
        except errors.CapRevoked:
            return False
        return True

    _mint(vault)
    old = scope()
    for _ in range(3):
        vault.revoke_actor("local/alice")
        new = scope()
        assert (opens(old), opens(new)) == (False, True)
        old = new
