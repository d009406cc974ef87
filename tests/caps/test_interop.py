"""An independent JOSE library reads our links, and we read its: a link is a plain compact JWS (RFC 7515, RFC 9864)."""

from __future__ import annotations

import json

import pytest
from joserfc import jws
from joserfc.errors import BadSignatureError
from joserfc.jwk import OKPKey
from scripts.vectors_cap import HOLDERS, ISSUER, b64, canonical, cnf, first, joined, later, public

from tests.caps.chains import mint, narrow, verified

HEADER = {"alg": "Ed25519", "typ": "strongroom-cap"}


def _public(key: bytes) -> OKPKey:
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": b64(key)})


def _private(seed: bytes) -> OKPKey:
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": b64(public(seed)), "d": b64(seed)})


def _signed(payload: bytes, seed: bytes) -> str:
    return jws.serialize_compact(HEADER, payload, _private(seed), algorithms=["Ed25519"])


@pytest.mark.requirement("cap-interop")
def test_jose_library_verifies_link_0_with_the_issuer_key_and_link_1_with_the_key_in_cnf() -> None:
    token = narrow(mint(), ops=["get"])
    link, child, _ = token.split("~")
    start = jws.deserialize_compact(link, _public(public(ISSUER)), algorithms=["Ed25519"])
    assert start.headers() == HEADER
    claims = json.loads(start.payload)
    assert claims["actor"] == "local/alice"
    end = jws.deserialize_compact(child, OKPKey.import_key(claims["cnf"]["jwk"]), algorithms=["Ed25519"])
    assert json.loads(end.payload)["ops"] == ["get"]


@pytest.mark.requirement("cap-interop")
def test_jose_library_refuses_our_links_under_another_key() -> None:
    link, child, _ = narrow(mint()).split("~")
    for text, key in ((link, public(HOLDERS[0])), (child, public(ISSUER))):
        with pytest.raises(BadSignatureError):
            jws.deserialize_compact(text, _public(key), algorithms=["Ed25519"])


@pytest.mark.requirement("cap-interop")
def test_links_signed_by_a_jose_library_are_accepted() -> None:
    start = _signed(canonical(first(cnf=cnf(public(HOLDERS[0])))), ISSUER)
    assert verified(joined([start], HOLDERS[0])).actor == "local/alice"
    end = _signed(canonical(later(start, ops=["get"])), HOLDERS[0])
    assert verified(joined([start, end])).ops == {"get"}


@pytest.mark.requirement("cap-interop")
def test_jose_library_makes_the_same_bytes_as_mint() -> None:
    token = mint()
    link = token.split("~")[0]
    payload = jws.deserialize_compact(link, _public(public(ISSUER)), algorithms=["Ed25519"]).payload
    assert _signed(payload, ISSUER) == link
