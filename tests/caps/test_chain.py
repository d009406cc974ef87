"""How links hold together, whose a cap is, where it is valid and when."""

from __future__ import annotations

from typing import Any

import pytest
from scripts.vectors_cap import (
    AUDIENCE,
    HOLDERS,
    ISSUER,
    ISSUERS,
    NOW,
    ORDER,
    STRANGER,
    b64,
    chain,
    cnf,
    first,
    issuer_id,
    joined,
    jti,
    later,
    link_id,
    public,
    sign,
    unb64,
)

from strongroom.caps import chain as cap
from strongroom.caps.chain import LEEWAY
from strongroom.errors import CapSignatureInvalid, InvalidRequest
from tests.caps.chains import mint, narrow, reason, refusal, verified

SCOPE = "hermes/default/"
OTHER_VAULT = "0f0e0d0c0b0a0908"


# Holder and chain.


@pytest.mark.requirement("bad-cap")
@pytest.mark.parametrize("wrong", [None, HOLDERS[1], ISSUER, bytes(32)])
def test_cap_without_the_seed_of_its_holder_key_is_refused(wrong: bytes | None) -> None:
    links = chain({}, delegable=True)
    assert verified(joined(links, HOLDERS[0])).holder
    assert reason(joined(links, wrong)) == "cap_holder_proof"


def test_seed_that_no_link_names_is_refused() -> None:
    assert reason(joined(chain({}), HOLDERS[0])) == "cap_malformed"
    assert reason(joined(chain({}, {}), HOLDERS[0])) == "cap_malformed"


@pytest.mark.parametrize("signer", [HOLDERS[0], ISSUER])
def test_link_after_one_that_names_no_holder_key_is_refused(signer: bytes) -> None:
    (bearer,) = chain({})
    assert reason(joined([bearer, sign(signer, later(bearer))])) == "cap_signature_invalid"


def test_link_that_names_another_parent_is_refused() -> None:
    (start,) = chain({}, delegable=True)
    assert verified(joined([start, sign(HOLDERS[0], later(start))]))
    for prev in ("0" * 64, link_id(start)[::-1]):
        assert reason(joined([start, sign(HOLDERS[0], later(start, prev=prev))])) == "cap_malformed"


def test_link_made_for_another_cap_of_the_same_holder_is_refused() -> None:
    # Both caps name the same holder key, so the signature is right: only `prev` tells them apart.
    narrow_cap = chain({"ops": ["get"], "jti": jti("narrow")}, {"max_k": 20})
    wide_cap = chain({"ops": ["erase", "get"], "jti": jti("wide")}, {"max_k": 1})
    assert verified(joined(wide_cap)).max_k == 1
    assert reason(joined([wide_cap[0], narrow_cap[1]])) == "cap_malformed"


def test_two_caps_for_the_same_thing_have_different_link_ids() -> None:
    assert link_id(chain({"jti": jti("a")})[0]) != link_id(chain({"jti": jti("b")})[0])


@pytest.mark.requirement("cap-revoke")
def test_link_id_does_not_depend_on_the_signature() -> None:
    link = chain({})[0]
    signed, _, signature = link.rpartition(".")
    raw = unb64(signature)
    half = (int.from_bytes(raw[32:], "little") + ORDER).to_bytes(32, "little")
    other = f"{signed}.{b64(raw[:32] + half)}"
    assert other != link
    assert cap.parse(other).links[0].id == cap.parse(link).links[0].id == link_id(link)
    assert reason(other) == "cap_signature_invalid"


def test_link_0_signed_by_another_key_is_refused() -> None:
    for signer in (STRANGER, HOLDERS[0]):
        assert reason(sign(signer, first())) == "cap_signature_invalid"


def test_every_link_of_a_chain_is_named_in_order() -> None:
    links = chain({}, {}, {})
    assert verified(joined(links)).links == tuple(map(link_id, links))


# Scopes.


@pytest.mark.requirement("cap-scope")
def test_scope_narrowed_to_an_actor_inside_is_that_actor() -> None:
    held = verified(narrow(mint(actor_scope=SCOPE), actor=SCOPE + "telegram/12345"))
    assert held.actor == SCOPE + "telegram/12345"


@pytest.mark.requirement("cap-scope")
def test_scope_alone_names_no_actor() -> None:
    assert verified(mint(actor_scope=SCOPE)).actor is None
    assert verified(narrow(mint(actor_scope=SCOPE), actor_scope=SCOPE + "telegram/")).actor is None


@pytest.mark.requirement("cap-scope")
@pytest.mark.parametrize(
    "claims",
    [
        {"actor": "hermes/default"},
        {"actor": "hermes/default2/a"},
        {"actor": "hermes/default-/a"},
        {"actor": "hermes/a"},
        {"actor": "hermes"},
        {"actor": "local/hermes/default/a"},
        {"actor_scope": "hermes/"},
        {"actor_scope": "hermes/default2/"},
        {"actor_scope": "hermes/other/"},
        {"actor_scope": "local/"},
    ],
)
def test_actor_outside_a_scope_is_refused_at_narrowing_and_at_verifying(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        narrow(mint(actor_scope=SCOPE), **claims)
    assert reason(joined(chain({"actor": None, "actor_scope": SCOPE}, claims))) == "cap_malformed"


@pytest.mark.requirement("cap-scope")
@pytest.mark.parametrize("claims", [{"actor": "hermes/default/b"}, {"actor_scope": SCOPE}, {"actor_scope": "hermes/"}])
def test_actor_that_is_named_is_not_changed_by_a_later_link(claims: dict[str, Any]) -> None:
    start: dict[str, Any] = {"actor": None, "actor_scope": SCOPE}
    assert reason(joined(chain(start, {"actor": "hermes/default/a"}, claims))) == "cap_malformed"
    assert reason(joined(chain({"actor": "hermes/default/a"}, claims))) == "cap_malformed"


@pytest.mark.requirement("cap-scope")
def test_scope_narrowed_to_a_smaller_one_no_longer_covers_the_rest() -> None:
    start: dict[str, Any] = {"actor": None, "actor_scope": SCOPE}
    smaller: dict[str, Any] = {"actor_scope": SCOPE + "telegram/"}
    assert verified(joined(chain(start, smaller, {"actor": SCOPE + "telegram/1"}))).actor == SCOPE + "telegram/1"
    assert reason(joined(chain(start, smaller, {"actor": SCOPE + "slack/1"}))) == "cap_malformed"


# Time.


@pytest.mark.requirement("bad-cap")
def test_cap_is_valid_until_the_second_before_its_end() -> None:
    token = mint(ttl=300)
    assert verified(token, now=NOW + 299).exp == NOW + 300
    assert reason(token, now=NOW + 300) == "cap_expired"
    assert reason(token, now=2**40) == "cap_expired"


@pytest.mark.requirement("bad-cap")
def test_cap_may_start_thirty_seconds_ahead_and_no_more() -> None:
    assert LEEWAY == 30
    token = mint()
    assert verified(token, now=NOW - 30).nbf == NOW
    assert reason(token, now=NOW - 31) == "cap_not_yet_valid"


def test_nbf_and_iat_each_hold_a_cap_back() -> None:
    assert reason(joined(chain({"nbf": NOW + 31}))) == "cap_not_yet_valid"
    assert reason(joined(chain({"iat": NOW + 31}))) == "cap_not_yet_valid"
    assert reason(joined(chain({}, {"nbf": NOW + 31}))) == "cap_not_yet_valid"
    assert verified(joined(chain({"nbf": NOW + 30, "iat": NOW + 30})))


def test_end_of_a_later_link_ends_the_cap() -> None:
    token = narrow(mint(ttl=300), ttl=60)
    assert verified(token, now=NOW + 59).exp == NOW + 60
    assert reason(token, now=NOW + 60) == "cap_expired"


def test_age_of_a_cap_is_that_of_its_first_link() -> None:
    # Else who narrows a cap anew would lift it over a revocation of everything issued before.
    token = narrow(mint(), now=NOW + 100)
    assert verified(token, now=NOW + 100).issued == NOW


# Audience and issuer.


@pytest.mark.requirement("bad-cap")
def test_cap_for_another_vault_of_the_same_issuer_is_refused_and_can_be_logged() -> None:
    token = mint(audience=OTHER_VAULT)
    error = refusal(token)
    assert error.reason == "cap_audience"
    assert error.links == (link_id(token.split("~")[0]),)


@pytest.mark.requirement("bad-cap")
@pytest.mark.parametrize(("audience", "expected"), [(AUDIENCE, "cap_signature_invalid"), (OTHER_VAULT, "cap_audience")])
def test_cap_of_an_unknown_issuer_is_refused_and_leaves_nothing_to_log(audience: str, expected: str) -> None:
    error = refusal(mint(issuer_seed=STRANGER, audience=audience))
    assert error.reason == expected
    assert (error.links, error.actor, error.holder) == ((), None, "")


def test_issuer_is_found_by_its_id_alone() -> None:
    keys = {issuer_id(public(STRANGER)): public(STRANGER), **ISSUERS}
    for issuer in (STRANGER, ISSUER):
        assert cap.verify(mint(issuer_seed=issuer), keys, AUDIENCE, NOW).actor == "local/alice"
    assert cap.issuer_id(public(STRANGER)) == issuer_id(public(STRANGER))


def test_cap_under_anothers_issuer_id_is_refused() -> None:
    keys = {issuer_id(public(STRANGER)): public(STRANGER), **ISSUERS}
    token = sign(STRANGER, first())
    with pytest.raises(CapSignatureInvalid):
        cap.verify(token, keys, AUDIENCE, NOW)


# What an error says about whom, for the log.


def test_errors_after_link_0_name_the_chain_and_its_actor() -> None:
    links = chain({}, {"exp": NOW})
    error = refusal(joined(links))
    assert error.reason == "cap_expired"
    assert (error.links, error.actor) == (tuple(map(link_id, links)), "local/alice")


def test_error_of_a_narrowed_scope_names_the_actor_it_was_narrowed_to() -> None:
    token = narrow(mint(actor_scope="local/"), actor="local/alice")
    assert refusal(token, now=NOW + 300).actor == "local/alice"


@pytest.mark.parametrize("start", [{"actor": "local/mallory"}, {"actor": None, "actor_scope": "local/mallory/"}])
def test_forged_link_cannot_put_a_refusal_on_another_actors_account(start: dict[str, Any]) -> None:
    (link,) = chain(start, delegable=True)
    for signer in (HOLDERS[0], HOLDERS[1]):  # the holder itself, and somebody else
        forged = sign(signer, later(link, actor="local/alice"))
        assert refusal(joined([link, forged])).actor == start["actor"]


def test_link_that_was_not_proven_is_not_named() -> None:
    # Else whoever saw another's link could make the log say that it was used.
    ours, theirs = chain({}, {}, {}), chain({"jti": jti("another cap")}, {"max_k": 3}, holders=HOLDERS[3:])
    error = refusal(joined([*ours[:2], theirs[1]]))
    assert error.reason == "cap_signature_invalid"
    assert error.links == tuple(map(link_id, ours[:2]))


def test_expired_cap_is_refused_in_the_name_of_its_holder() -> None:
    held = verified(mint())
    assert held.holder
    assert refusal(mint(), now=NOW + 300).holder == held.holder
    assert refusal(mint(), audience=OTHER_VAULT).holder == held.holder


def test_holder_that_was_not_proven_is_not_named() -> None:
    links = chain({}, delegable=True)
    assert refusal(joined(links, HOLDERS[5])).holder == ""


def test_holder_is_named_by_a_hash_of_its_key() -> None:
    held = verified(joined([sign(ISSUER, first(cnf=cnf(public(HOLDERS[0]))))], HOLDERS[0]))
    other = verified(joined([sign(ISSUER, first(cnf=cnf(public(HOLDERS[1]))))], HOLDERS[1]))
    assert held.holder != other.holder
    assert len(held.holder) == 32
    assert verified(joined(chain({}))).holder == ""
