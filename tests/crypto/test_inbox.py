"""Bundles: what is sealed opens with one key alone, and whatever else is given is refused before it costs anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyrage  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strongroom import NewLine, model
from strongroom.crypto import inbox
from strongroom.crypto.inbox import Bundle
from strongroom.errors import StrongroomError
from strongroom.keys import VaultSecrets

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
LINE = NewLine(text="Trip to Chengdu", namespace="travel", id=ID, time=datetime(2026, 5, 20, tzinfo=UTC))
BUNDLE = Bundle("local/alice", (LINE,))
KEY = inbox.new_identity()
TO = inbox.recipient_of(KEY)
SEALED = inbox.seal(TO, BUNDLE)


def _reason(call: Callable[..., object], *given: Any) -> str:
    with pytest.raises(StrongroomError) as refused:
        call(*given)
    return refused.value.reason


@pytest.mark.requirement("inbox-sealed")
@given(st.binary())
@example(b"age-encryption.org/v1\n")
@example(b"age-encryption.org/v1\n-> X25519 \n--- \n")
@example(b"-----BEGIN AGE ENCRYPTED FILE-----\n")
def test_non_bundle_is_refused(garbage: bytes) -> None:
    assert _reason(inbox.unseal, KEY, garbage) == "invalid_request"


@pytest.mark.requirement("inbox-sealed")
@given(st.integers(0, 8 * len(SEALED) - 1))
def test_bundle_with_any_bit_flipped_is_refused(bit: int) -> None:
    flipped = bytearray(SEALED)
    flipped[bit // 8] ^= 1 << bit % 8
    assert _reason(inbox.unseal, KEY, bytes(flipped)) == "invalid_request"


@pytest.mark.requirement("inbox-sealed")
@given(st.integers(0, len(SEALED) - 1))
def test_bundle_cut_anywhere_is_refused(end: int) -> None:
    assert _reason(inbox.unseal, KEY, SEALED[:end]) == "invalid_request"


@pytest.mark.requirement("inbox-sealed")
def test_bundle_opens_with_its_own_key_alone() -> None:
    assert _reason(inbox.unseal, inbox.new_identity(), SEALED) == "invalid_request"
    assert inbox.unseal(KEY, SEALED) == BUNDLE
    assert b"Chengdu" not in SEALED
    assert b"alice" not in SEALED


@pytest.mark.requirement("inbox-sealed")
@pytest.mark.parametrize(
    "value", [None, "text", 5, bytearray(SEALED), memoryview(SEALED)], ids=lambda one: str(type(one))
)
def test_non_bytes_are_refused(value: object) -> None:
    assert _reason(inbox.unseal, KEY, value) == "invalid_request"


@pytest.mark.requirement("inbox-limits")
def test_age_never_sees_a_bundle_that_is_too_large_or_has_a_long_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> bytes:
        raise AssertionError("age was asked")

    monkeypatch.setattr(pyrage, "decrypt", asked)
    long = SEALED.replace(b"\n--- ", b"\n" + b"".join(b"-> x %d\n\n" % n for n in range(200)) + b"--- ")
    assert _reason(inbox.unseal, KEY, SEALED + bytes(inbox.SEALED_LIMIT)) == "body_too_large"
    assert _reason(inbox.unseal, KEY, long) == "invalid_request"
    assert _reason(inbox.unseal, KEY, b"age-encryption.org/v1\n" + b"-> x\n\n" * 100_000) == "invalid_request"
    with pytest.raises(AssertionError, match="age was asked"):
        inbox.unseal(KEY, SEALED)


@pytest.mark.requirement("inbox-limits")
def test_largest_bundle_is_sealed_and_opened_and_a_larger_one_is_not() -> None:
    def of(size: int) -> Bundle:
        texts = [32_000] * (size // 32_000) + [size % 32_000]
        ids = (f"01JABCDEFGHJKMNPQRSTVWX{number:03d}" for number in range(40))
        return Bundle(
            "local/alice", tuple(NewLine(text="x" * one, id=name) for one, name in zip(texts, ids, strict=False))
        )

    largest = of(inbox.SEALED_LIMIT - 4096)
    assert inbox.unseal(KEY, inbox.seal(TO, largest)) == largest
    assert _reason(inbox.seal, TO, of(inbox.SEALED_LIMIT)) == "body_too_large"


@pytest.mark.requirement("inbox-limits")
@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        (Bundle("local/alice", ()), "invalid_request"),
        (Bundle("local/alice", (LINE, NewLine(text="x"))), "invalid_request"),
        (Bundle("local/alice", (NewLine(text="x", id="not-a-ulid"),)), "invalid_request"),
        (Bundle("local/alice", (LINE,) * 257), "too_many"),
        (Bundle("Alice", (LINE,)), "invalid_request"),
        (Bundle("local/", (LINE,)), "invalid_request"),
        (Bundle("", (LINE,)), "invalid_request"),
    ],
    ids=["no lines", "no id", "no ULID", "257 lines", "no actor", "a scope", "nobody"],
)
def test_bundle_that_no_vault_would_take_is_not_even_sealed(bundle: Bundle, reason: str) -> None:
    assert _reason(inbox.seal, TO, bundle) == reason


@pytest.mark.requirement("inbox-sealed")
@pytest.mark.parametrize(
    "wrong",
    ["", "x", TO[:-1], TO + "q", TO.upper(), KEY, TO[:-1] + ("q" if TO[-1] != "q" else "p"), None, 5],
    ids=["nothing", "letter", "shorter", "longer", "capitals", "secret", "changed", "none", "number"],
)
def test_non_recipient_is_refused(wrong: Any) -> None:
    assert _reason(inbox.seal, wrong, BUNDLE) == "invalid_request"


@pytest.mark.requirement("inbox-sealed")
@pytest.mark.parametrize("wrong", ["", "x", TO, KEY[:-1], KEY + "Q"], ids=map(str, range(5)))
def test_non_identity_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(StrongroomError) as refused:
        inbox.recipient_of(wrong)
    assert refused.value.reason == "invalid_request"
    assert KEY[20:40] not in str(refused.value)


@pytest.mark.requirement("inbox-sealed")
@given(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=300), min_size=1, max_size=5))
def test_every_bundle_comes_out_as_it_went_in(texts: list[str]) -> None:
    ids = model.LineIds(os.urandom)
    bundle = Bundle(
        "local/alice", tuple(NewLine(text=text, id=ids.new(model.Millis(5)), kind="turn") for text in texts)
    )
    assert inbox.unseal(KEY, inbox.seal(TO, bundle)) == bundle


@pytest.mark.requirement("inbox-sealed")
def test_keys_differ_each_time_and_so_does_what_is_sealed() -> None:
    assert inbox.new_identity() != KEY
    assert inbox.is_recipient(TO)
    assert not inbox.is_recipient(KEY)
    assert inbox.seal(TO, BUNDLE) != SEALED


@pytest.mark.requirement("secrets-hidden")
def test_no_text_and_no_key_is_in_a_repr() -> None:
    secrets = VaultSecrets.new({}, os.urandom, KEY)
    assert "Chengdu" not in repr(BUNDLE)
    assert KEY not in repr(secrets)
