"""A cap says exactly what its grammar admits, in exactly one spelling.

Every token here is signed by the right key, so only its shape can be what refuses it. Single cases with their
descriptions are the vectors; these tests go through all claims, all neighbours and all parts.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from scripts.vectors_cap import (
    AUDIENCE,
    HOLDERS,
    ISSUER,
    b64,
    canonical,
    cnf,
    first,
    joined,
    jti,
    later,
    public,
    sign,
    sign_parts,
)

from strongroom.caps import chain
from strongroom.errors import InvalidRequest
from tests.caps.chains import mint, narrow, reason, verified

FULL = first(session="s", max_k=5, max_depth=3, cnf=cnf(public(HOLDERS[0])), label="phone")
START = sign(ISSUER, first(cnf=cnf(public(HOLDERS[0]))))
FULL_LATER = later(
    START,
    nbf=1,
    exp=2**50,
    actor="local/alice",
    ops=["get"],
    namespaces_allowed=["work"],
    session="s",
    max_k=5,
    max_depth=3,
    cnf=cnf(public(HOLDERS[1])),
    label="phone",
)
REQUIRED = ["v", "iss", "aud", "jti", "iat", "nbf", "exp", "actor", "data_class", "ops", "namespaces_allowed"]
REQUIRED_LATER = ["v", "prev", "jti", "iat"]
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _as_first(payload: bytes | dict[str, Any]) -> str:
    return joined([sign(ISSUER, payload)], HOLDERS[0])


def _as_later(payload: bytes | dict[str, Any]) -> str:
    return joined([START, sign(HOLDERS[0], payload)], HOLDERS[1])


PLACES = pytest.mark.parametrize(
    ("made", "claims"), [(_as_first, FULL), (_as_later, FULL_LATER)], ids=["first", "later"]
)


@PLACES
def test_token_that_these_tests_change_is_accepted(made: Any, claims: dict[str, Any]) -> None:
    assert verified(made(claims)).max_k == 5


@pytest.mark.requirement("cap-closed")
@PLACES
@pytest.mark.parametrize(
    "name", ["sub", "kid", "scope", "admin", "Actor", "actor ", "", "namespaces", "ops_allowed", "ttl", "__proto__"]
)
def test_unknown_claim_is_refused(made: Any, claims: dict[str, Any], name: str) -> None:
    assert reason(made({**claims, name: 1})) == "cap_malformed"
    assert reason(made({name: 1, **claims})) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
def test_claims_of_link_0_are_unknown_in_a_later_link_and_the_other_way_round() -> None:
    for name in ("iss", "aud", "data_class"):
        assert reason(_as_later({**FULL_LATER, name: FULL[name]})) == "cap_malformed"
    assert reason(_as_first({**FULL, "prev": FULL_LATER["prev"]})) == "cap_malformed"
    assert reason(_as_first(FULL_LATER)) == "cap_malformed"
    assert reason(_as_later(FULL)) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("name", REQUIRED)
def test_missing_claim_is_refused(name: str) -> None:
    assert reason(_as_first({key: value for key, value in FULL.items() if key != name})) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("name", REQUIRED_LATER)
def test_missing_claim_in_a_later_link_is_refused(name: str) -> None:
    assert reason(_as_later({key: value for key, value in FULL_LATER.items() if key != name})) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@PLACES
@pytest.mark.parametrize("wrong", [None, True, 1.5, -1, 2**53, 2**64, "\0", [], {}, [[]], [None], {"jwk": None}])
def test_claim_of_a_wrong_type_or_out_of_range_is_refused(made: Any, claims: dict[str, Any], wrong: object) -> None:
    for name in claims:
        if wrong == [] and name in ("ops", "namespaces_allowed"):
            continue  # an empty set is sound, and admits nothing
        assert reason(made({**claims, name: wrong})) == "cap_malformed", name


@pytest.mark.requirement("cap-closed")
@PLACES
def test_claim_given_twice_is_refused(made: Any, claims: dict[str, Any]) -> None:
    for name, value in claims.items():
        member = canonical({name: value})[1:-1]
        whole = canonical(claims)
        assert whole.count(member) == 1
        assert reason(made(whole.replace(member, member + b"," + member))) == "cap_malformed", name
        assert reason(made(whole[:-1] + b"," + member + b"}")) == "cap_malformed", name


@pytest.mark.requirement("cap-closed")
@PLACES
def test_claims_in_any_other_order_are_refused(made: Any, claims: dict[str, Any]) -> None:
    members = list(claims.items())
    for place in range(len(members) - 1):
        swapped = members.copy()
        swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
        assert reason(made(dict(swapped))) == "cap_malformed", members[place]
    assert reason(made(dict(sorted(members)))) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@PLACES
@pytest.mark.parametrize("space", [" ", "\n", "\t", "\r"])
def test_white_space_anywhere_between_tokens_is_refused(made: Any, claims: dict[str, Any], space: str) -> None:
    text = json.dumps(claims, separators=(",", ":"))
    inside = False
    for place, character in enumerate(text):
        if character == '"':
            inside = not inside
        if not inside:
            spaced = text[: place + 1] + space + text[place + 1 :]
            assert reason(made(spaced.encode())) == "cap_malformed", spaced
    assert reason(made((space + text).encode())) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@PLACES
def test_letter_written_as_an_escape_is_refused(made: Any, claims: dict[str, Any]) -> None:
    whole = canonical(claims)
    for name in claims:
        spelled = f'"\\u{ord(name[0]):04x}{name[1:]}"'.encode()
        assert reason(made(whole.replace(f'"{name}"'.encode(), spelled))) == "cap_malformed", name


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("version", [0, 2, -1, "1", "v1", True, None, 1.0])
@PLACES
def test_another_version_is_refused(made: Any, claims: dict[str, Any], version: object) -> None:
    assert reason(made({**claims, "v": version})) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("algorithm", ["EdDSA", "ed25519", "ES256", "HS256", "RS256", "none", "", None, ["Ed25519"]])
def test_another_algorithm_is_refused_in_every_link(algorithm: object) -> None:
    header = canonical({"alg": algorithm, "typ": "strongroom-cap"})
    assert reason(joined([sign(ISSUER, FULL, header)], HOLDERS[0])) == "cap_malformed"
    assert reason(joined([START, sign(HOLDERS[0], FULL_LATER, header)], HOLDERS[1])) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("extra", ["kid", "jku", "jwk", "x5c", "crit", "b64", "cty", "zip", "x"])
def test_another_header_member_is_refused(extra: str) -> None:
    header = canonical({"alg": "Ed25519", "typ": "strongroom-cap", extra: "1"})
    assert reason(joined([sign(ISSUER, FULL, header)], HOLDERS[0])) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
def test_spare_bits_in_any_part_are_refused() -> None:
    claims = first(cnf=cnf(public(HOLDERS[0])))
    assert len(canonical(claims)) % 3, "the payload must leave bits unused for this test to say something"
    header, payload, signature = sign(ISSUER, claims).split(".")
    seed = b64(HOLDERS[0])
    assert verified(f"{header}.{payload}.{signature}~{seed}")
    for other in _with_spare_bits(signature):
        assert reason(f"{header}.{payload}.{other}~{seed}") == "cap_malformed"
    for other in _with_spare_bits(seed):
        assert reason(f"{header}.{payload}.{signature}~{other}") == "cap_malformed"
    for other in _with_spare_bits(payload):
        assert reason(f"{sign_parts(ISSUER, header, other)}~{seed}") == "cap_malformed"
    for other in _with_spare_bits(header):
        assert reason(f"{sign_parts(ISSUER, other, payload)}~{seed}") == "cap_malformed"
    for other in _with_spare_bits(claims["cnf"]["jwk"]["x"]):
        key = {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": other}}
        assert reason(f"{sign(ISSUER, {**claims, 'cnf': key})}~{seed}") == "cap_malformed"


@pytest.mark.requirement("cap-closed")
def test_spare_bits_in_a_jti_are_refused() -> None:
    for other in _with_spare_bits(jti("0")):
        assert reason(_as_first({**FULL, "jti": other})) == "cap_malformed"


def _with_spare_bits(text: str) -> list[str]:
    """Every other spelling of the same bytes: the bits that base64 leaves unused in its last character."""
    unused = {2: 16, 3: 4}.get(len(text) % 4, 1)
    place = ALPHABET.index(text[-1])
    assert place % unused == 0
    return [text[:-1] + ALPHABET[place + extra] for extra in range(1, unused)]


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("padding", ["=", "==", "===", "===="])
def test_padding_of_any_part_is_refused(padding: str) -> None:
    header, payload, signature = sign(ISSUER, FULL).split(".")
    seed = b64(HOLDERS[0])
    assert reason(f"{header}.{payload}.{signature}{padding}~{seed}") == "cap_malformed"
    assert reason(f"{header}.{payload}.{signature}~{seed}{padding}") == "cap_malformed"
    assert reason(f"{sign_parts(ISSUER, header, payload + padding)}~{seed}") == "cap_malformed"
    assert reason(f"{sign_parts(ISSUER, header + padding, payload)}~{seed}") == "cap_malformed"


@pytest.mark.requirement("cap-closed")
def test_alphabet_with_plus_and_slash_is_refused() -> None:
    changed = 0
    for label in map(str, range(40)):
        token = _as_first({**FULL, "label": label})
        other = token.replace("-", "+").replace("_", "/")
        if other != token:
            changed += 1
            assert reason(other) == "cap_malformed"
    assert changed


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("name", ["ops", "namespaces_allowed"])
@PLACES
def test_sets_that_are_unsorted_or_repeat_a_member_are_refused(made: Any, claims: dict[str, Any], name: str) -> None:
    one, other = ("get", "put") if name == "ops" else ("travel", "work")
    assert verified(made({**claims, name: [one, other]}))
    for values in ([other, one], [one, one], [one, other, one]):
        assert reason(made({**claims, name: values})) == "cap_malformed"


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize(
    "bad",
    [
        {"actor": "local/Alice"},
        {"actor": "/"},
        {"actor": ""},
        {"actor": "local/alice/"},
        {"actor": "local/аlice"},
        {"actor": None, "actor_scope": ""},
        {"actor": None, "actor_scope": "/"},
        {"actor": None, "actor_scope": "local"},
        {"actor": None, "actor_scope": "local//"},
        {"actor": "local/alice", "actor_scope": "local/"},
        {"actor": None},
        {"namespaces": ["*"]},
        {"namespaces": [""]},
        {"namespaces": "travel"},
        {"ops": ["everything"]},
        {"ops": "get"},
        {"data_class": "all"},
        {"session": ""},
        {"session": "a\tb"},
        {"session": "e\u0301"},
        {"session": "s" * 257},
        {"max_k": 0},
        {"max_k": 21},
        {"max_depth": -1},
        {"label": ""},
        {"label": "a\nb"},
        {"label": "x" * 65},
        {"audience": ""},
        {"audience": "é"},
        {"jti": b"short"},
        {"ttl": 2**53},
        {"now": -1},
        {"namespaces": [f"n{place}" for place in range(2000)]},
    ],
)
def test_minting_what_no_gate_would_accept_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        mint(**bad)


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize("bad", [{"max_k": 2.5}, {"max_k": True}, {"max_depth": 1.5}, {"max_depth": False}])
def test_minting_a_limit_that_is_no_whole_number_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        mint(**bad)


@pytest.mark.requirement("cap-closed")
@pytest.mark.parametrize(
    "bad",
    [
        {"ops": "get"},
        {"ops": ["everything"]},
        {"namespaces": ["No"]},
        {"actor": "local/alice", "actor_scope": "local/"},
        {"max_k": 2.5},
        {"jti": b""},
        {"nbf": -1},
        {"namespaces": [f"n{place}" for place in range(2000)]},
    ],
)
def test_narrowing_to_what_no_gate_would_accept_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        narrow(mint(), **bad)


def test_minting_and_narrowing_sort_and_merge_their_sets() -> None:
    token = mint(ops=["put", "get", "get"], namespaces=iter(["work", "travel", "work"]))
    assert verified(token).ops == {"get", "put"}
    assert verified(narrow(token, ops=("put", "put"), namespaces={"work"})).namespaces == {"work"}


def test_minted_link_is_the_canonical_encoding_of_its_claims() -> None:
    token = mint(jti=bytes(16), session='a"\\é', max_k=5, max_depth=3, label="phone")
    claims = first(
        jti=b64(bytes(16)),
        iat=1_779_440_000,
        nbf=1_779_440_000,
        exp=1_779_440_300,
        session='a"\\é',
        max_k=5,
        max_depth=3,
        cnf=cnf(public(HOLDERS[0])),
        label="phone",
    )
    assert token == joined([sign(ISSUER, claims)], HOLDERS[0])
    assert claims["aud"] == AUDIENCE


@pytest.mark.requirement("secrets-hidden")
def test_no_repr_shows_a_token_a_seed_or_a_link() -> None:
    for token in (mint(), mint(holder_seed=None), narrow(mint())):
        unverified = chain.parse(token)
        shown = [repr(token), f"{token!r}", repr([token]), repr(unverified), repr(verified(token)), repr({"a": token})]
        shown += map(repr, unverified.links)
        secrets = [*token.split("~"), *(part for link in token.split("~") for part in link.split(".")[1:])]
        secrets += [repr(link.signature)[2:-1] for link in unverified.links]
        secrets += [] if unverified.seed is None else [repr(unverified.seed)[2:-1], unverified.seed.hex()]
        for text in shown:
            assert not [secret for secret in secrets if secret in text]


@pytest.mark.requirement("secrets-hidden")
def test_no_error_shows_the_token_that_it_refuses() -> None:
    token = mint()
    for bad in (token[:-1], token + "~", token.split("~")[0], token.replace(".", "..")):
        with pytest.raises(Exception) as caught:
            verified(bad)
        assert not [part for part in token.split("~") if part in f"{caught.value!r} {caught.value.__dict__}"]
