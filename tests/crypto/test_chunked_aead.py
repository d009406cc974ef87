"""Committing encryption: against the specification's text, written out here a second time, and against every edit.

`spec_seal` and `spec_open` follow c2sp.org/chunked-encryption step by step on `hmac` and AES-GCM alone. They share no
code with the module under test.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.crypto import chunked_aead, hmac_state
from strongroom.errors import Tampered

KEY = bytes(range(32))
SALT = bytes(range(100, 124))
CONTEXT = b"a place"
BORDERS = [0, 1, 16_383, 16_384, 16_385, 32_768, 40_000]


def _spec_derive(key: bytes, salt: bytes, ctx: bytes) -> tuple[bytes, bytes, bytes]:
    """HKDF-Expand (RFC 5869 2.3) with SHA-512, cut into key, base nonce and commitment."""
    info = b"c2sp.org/chunked-encryption@v1+" + b"AEAD_AES_256_GCM" + b"\x00" + salt + ctx
    output, block, counter = b"", b"", 1
    while len(output) < 32 + 12 + 32:
        block = hmac.digest(key, block + info + bytes([counter]), "sha512")
        output += block
        counter += 1
    return output[:32], output[32:44], output[44:76]


def _spec_nonce(base: bytes, number: int) -> bytes:
    wide = number.to_bytes(12, "big")
    return bytes(left ^ right for left, right in zip(base, wide, strict=True))


def spec_seal(key: bytes, plaintext: bytes, ctx: bytes, salt: bytes) -> bytes:
    """Seal as the specification says: 16 KiB chunks, of which the last is always shorter."""
    one_time, base, commitment = _spec_derive(key, salt, ctx)
    sealed, number, rest = salt + commitment, 0, plaintext
    while len(rest) >= 16_384:
        sealed += AESGCM(one_time).encrypt(_spec_nonce(base, number), rest[:16_384], b"")
        number, rest = number + 1, rest[16_384:]
    return sealed + AESGCM(one_time).encrypt(_spec_nonce(base, number), rest, b"")


def spec_open(key: bytes, sealed: bytes, ctx: bytes) -> bytes:
    """Open as the specification says; what it forbids is an assertion error or an InvalidTag."""
    salt, commitment, rest = sealed[:24], sealed[24:56], sealed[56:]
    one_time, base, expected = _spec_derive(key, salt, ctx)
    assert hmac.compare_digest(commitment, expected)
    opened, number = b"", 0
    while len(rest) >= 16_384 + 16:
        opened += AESGCM(one_time).decrypt(_spec_nonce(base, number), rest[: 16_384 + 16], b"")
        number, rest = number + 1, rest[16_384 + 16 :]
    assert len(rest) >= 16
    return opened + AESGCM(one_time).decrypt(_spec_nonce(base, number), rest, b"")


def flips(data: bytes, step: int = 1) -> Iterator[bytes]:
    """`data` with one bit turned, for every `step`-th bit."""
    for bit in range(0, len(data) * 8, step):
        edited = bytearray(data)
        edited[bit // 8] ^= 1 << bit % 8
        yield bytes(edited)


def _refused(sealed: bytes, key: bytes = KEY, ctx: bytes = CONTEXT) -> bool:
    try:
        chunked_aead.unseal(key, sealed, ctx)
    except Tampered as error:
        return error.reason == "tampered"
    return False


@pytest.mark.requirement("seal-chunks")
@pytest.mark.parametrize("size", BORDERS)
def test_plaintext_at_a_chunk_border_comes_back_whole(size: int) -> None:
    plaintext = os.urandom(size)
    sealed = chunked_aead.seal(KEY, plaintext, CONTEXT, SALT)
    assert chunked_aead.unseal(KEY, sealed, CONTEXT) == plaintext
    assert len(sealed) == 56 + size + 16 * (size // 16_384 + 1)


@pytest.mark.requirement("seal-chunks")
@pytest.mark.parametrize("size", BORDERS)
def test_sealed_bytes_open_by_the_specification_and_the_other_way_round(size: int) -> None:
    plaintext = os.urandom(size)
    ours = chunked_aead.seal(KEY, plaintext, CONTEXT, SALT)
    assert ours == spec_seal(KEY, plaintext, CONTEXT, SALT)
    assert spec_open(KEY, ours, CONTEXT) == plaintext
    assert chunked_aead.unseal(KEY, spec_seal(KEY, plaintext, CONTEXT, SALT), CONTEXT) == plaintext


@settings(deadline=None)
@given(key=st.binary(min_size=32, max_size=32), plaintext=st.binary(max_size=200), ctx=st.binary(max_size=80))
def test_any_key_and_context_agree_with_the_specification(key: bytes, plaintext: bytes, ctx: bytes) -> None:
    sealed = chunked_aead.seal(key, plaintext, ctx, SALT)
    assert sealed == spec_seal(key, plaintext, ctx, SALT)
    assert chunked_aead.unseal(key, sealed, ctx) == plaintext


@pytest.mark.requirement("seal-bits")
@pytest.mark.parametrize("size", [0, 1, 33])
def test_every_flipped_bit_of_a_small_ciphertext_is_refused(size: int) -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(size), CONTEXT, SALT)
    assert not _refused(sealed)
    assert all(map(_refused, flips(sealed)))


@pytest.mark.requirement("seal-bits")
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("size", [16_384, 16_385])
def test_flipped_bits_of_a_ciphertext_of_two_chunks_are_refused(size: int, step: int) -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(size), CONTEXT, SALT)
    assert not _refused(sealed)
    assert all(map(_refused, flips(sealed, step)))


@pytest.mark.parametrize("size", [0, 1, 40])
def test_small_ciphertext_cut_at_any_length_is_refused(size: int) -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(size), CONTEXT, SALT)
    assert all(_refused(sealed[:length]) for length in range(len(sealed)))


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("size", [16_383, 16_384, 16_385, 32_768])
def test_ciphertext_of_several_chunks_cut_anywhere_is_refused(size: int, step: int) -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(size), CONTEXT, SALT)
    border = 16_384 + 16
    lengths = set(range(0, len(sealed), step))
    # Cuts around a chunk's end are the dangerous ones: the rest is a well formed ciphertext of another length.
    lengths |= {at + near for at in range(56, len(sealed), border) for near in range(-20, 20)}
    assert all(_refused(sealed[:length]) for length in lengths if 0 <= length < len(sealed))


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 16_385])
def test_extended_ciphertext_is_refused(size: int) -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(size), CONTEXT, SALT)
    whole_chunk = 16_384 + 16
    for more in [*range(1, 40), whole_chunk - 1, whole_chunk, whole_chunk + 16]:
        assert _refused(sealed + bytes(more))
        assert _refused(sealed + sealed[-more:])


def test_chunks_in_another_order_or_left_out_are_refused() -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(3 * 16_384), CONTEXT, SALT)
    step = 16_384 + 16
    head, chunks = sealed[:56], [sealed[56 + n * step : 56 + (n + 1) * step] for n in range(4)]
    for order in ([1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3], [1, 2, 3], [3], [0, 1, 2], [0, 0, 1, 2, 3]):
        assert _refused(head + b"".join(chunks[number] for number in order))


@pytest.mark.parametrize("size", [0, 300, 20_000])
def test_wrong_key_or_context_is_refused(size: int) -> None:
    sealed = chunked_aead.seal(KEY, os.urandom(size), CONTEXT, SALT)
    assert _refused(sealed, key=bytes(32))
    assert _refused(sealed, ctx=CONTEXT + b"\0")
    assert _refused(sealed, ctx=CONTEXT[:-1])
    assert _refused(sealed, ctx=b"")


def test_key_and_context_are_committed_to_and_not_only_tagged() -> None:
    """GCM alone can be made to open under two keys. The commitment differs for each key, context and salt."""

    def commitment(key: bytes, ctx: bytes, salt: bytes) -> bytes:
        return chunked_aead.seal(key, b"", ctx, salt)[24:56]

    made = {commitment(KEY, CONTEXT, SALT), commitment(bytes(32), CONTEXT, SALT)}
    made |= {commitment(KEY, b"", SALT), commitment(KEY, CONTEXT, bytes(24))}
    assert len(made) == 4


@pytest.mark.parametrize(("key", "salt"), [(bytes(31), SALT), (bytes(33), SALT), (KEY, bytes(23)), (KEY, b"")])
def test_key_or_salt_of_the_wrong_size_seals_nothing(key: bytes, salt: bytes) -> None:
    with pytest.raises(ValueError):
        chunked_aead.seal(key, b"text", CONTEXT, salt)


def _parts_of(joined: bytes) -> list[bytes]:
    """Read a context back: what can be read back without loss cannot be ambiguous."""
    parts = []
    while joined:
        size = int.from_bytes(joined[:4], "big")
        assert len(joined) >= 4 + size
        parts.append(joined[4 : 4 + size])
        joined = joined[4 + size :]
    return parts


@settings(deadline=None)
@given(st.lists(st.binary(max_size=12), max_size=6), st.lists(st.binary(max_size=12), max_size=6))
def test_two_different_lists_never_give_one_context(left: list[bytes], right: list[bytes]) -> None:
    assert _parts_of(hmac_state.context(*left)) == left
    assert (hmac_state.context(*left) == hmac_state.context(*right)) == (left == right)


@settings(deadline=None)
@given(st.lists(st.text("aé\0漢𝒳", max_size=8), max_size=5), st.integers(0, 2**64 - 1))
def test_texts_and_numbers_in_a_context_read_back(texts: list[str], number: int) -> None:
    parts = _parts_of(hmac_state.context(*texts, number))
    assert [part.decode() for part in parts[:-1]] == texts
    assert parts[-1] == number.to_bytes(8, "big")


def test_moving_a_letter_between_neighbours_changes_the_context() -> None:
    assert hmac_state.context("ab", "c") != hmac_state.context("a", "bc")
    assert hmac_state.context("ab", "") != hmac_state.context("", "ab")
    assert hmac_state.context("ab") != hmac_state.context("ab", "")
