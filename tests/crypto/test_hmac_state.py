"""HMAC from kept states: the same as the standard library's, for every key, text and hash; and its keys stay hidden."""

from __future__ import annotations

import hashlib
import hmac
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.crypto.chunked_aead import Key, seal, unseal
from strongroom.crypto.hmac_state import HmacState

SALT = bytes(range(24))


@given(key=st.binary(max_size=300), texts=st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_hmac_state_is_hmac_for_keys_and_texts_of_any_length(key: bytes, texts: list[bytes]) -> None:
    for hashed in (hashlib.sha256, hashlib.sha512):
        keyed = HmacState(key, hashed)
        found = [keyed.digest(text) for text in (*texts, texts[0])]
        assert found == [hmac.digest(key, text, hashed) for text in (*texts, texts[0])]


def test_rfc_4231_has_the_same_digests() -> None:
    told = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert HmacState(b"Jefe").digest(b"what do ya want for nothing?").hex() == told
    long_key = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    text = b"Test Using Larger Than Block-Size Key - Hash Key First"
    assert HmacState(b"\xaa" * 131).digest(text).hex() == long_key


def test_threads_may_share_it() -> None:
    keyed, wanted = HmacState(b"key"), hmac.digest(b"key", b"text", "sha256")
    wrong: list[bytes] = []

    def work() -> None:
        wrong.extend(found for _ in range(2_000) if (found := keyed.digest(b"text")) != wanted)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@given(raw=st.binary(min_size=32, max_size=32), text=st.binary(max_size=100))
def test_kept_key_seals_and_opens_as_its_bytes_do(raw: bytes, text: bytes) -> None:
    key = Key(raw)
    assert key == raw
    sealed = [seal(key, text, b"a place", SALT), seal(key, text, b"a place", SALT), seal(raw, text, b"a place", SALT)]
    assert sealed[0] == sealed[1] == sealed[2]
    assert unseal(raw, sealed[0], b"a place") == unseal(key, sealed[0], b"a place") == text


@pytest.mark.requirement("secrets-hidden")
def test_nothing_of_a_key_shows() -> None:
    assert "secret" not in repr(HmacState(b"secret"))
