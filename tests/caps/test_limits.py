"""Size and link limits, and every shape, are checked before any cryptography is spent on a token."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from scripts.vectors_cap import HOLDERS, ISSUER, chain, filled, first, joined, later, link_id, sign

from strongroom.caps import chain as cap
from tests.caps.chains import reason, verified


class _NoCryptography:
    """Stands in for a key class; any use of it fails the test."""

    def __getattr__(self, name: str) -> Any:
        def fail(*args: object) -> NoReturn:
            pytest.fail(f"{name} was called")

        return fail


@pytest.fixture
def no_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cap, "Ed25519PublicKey", _NoCryptography())
    monkeypatch.setattr(cap, "Ed25519PrivateKey", _NoCryptography())


NINE = joined(chain({}, *[{}] * 8, delegable=True), HOLDERS[8])


def test_stand_in_is_what_verification_uses(no_cryptography: None) -> None:
    with pytest.raises(pytest.fail.Exception):
        verified(joined(chain({})))


@pytest.mark.requirement("cap-limits-first")
def test_nine_links_are_refused_without_cryptography(no_cryptography: None) -> None:
    assert len(NINE) <= cap.MAX_BYTES
    assert reason(NINE) == "cap_malformed"


@pytest.mark.requirement("cap-limits-first")
def test_eight_links_are_accepted() -> None:
    assert len(verified(joined(chain({}, *[{}] * 7, delegable=True), HOLDERS[7])).links) == cap.MAX_LINKS


@pytest.mark.requirement("cap-limits-first")
def test_token_over_8_kib_is_refused_without_cryptography(no_cryptography: None) -> None:
    _, sound = filled(cap.MAX_BYTES + 1)
    assert len(sound) == 8193
    for token in (sound, "x" * 8193, joined(chain({})) + "~" * 8192, NINE * 2):
        assert reason(token) == "cap_malformed"


@pytest.mark.requirement("cap-limits-first")
def test_token_of_exactly_8_kib_is_accepted() -> None:
    names, token = filled(cap.MAX_BYTES)
    assert len(token) == 8192
    assert verified(token).namespaces == set(names)


@pytest.mark.requirement("cap-limits-first")
def test_malformed_last_link_is_refused_without_cryptography(no_cryptography: None) -> None:
    (start,) = chain({}, delegable=True)
    bad = sign(HOLDERS[0], {**later(start), "unknown": 1})
    assert reason(joined([start, bad])) == "cap_malformed"
    upper = sign(HOLDERS[0], later(start, prev=link_id(start).upper()))
    assert reason(joined([start, upper])) == "cap_malformed"
    assert reason(joined([start], HOLDERS[0][:31])) == "cap_malformed"


@pytest.mark.requirement("cap-limits-first")
def test_unknown_issuer_is_refused_without_cryptography(no_cryptography: None) -> None:
    token = sign(ISSUER, first(iss="0" * 16))
    assert reason(token) == "cap_signature_invalid"
