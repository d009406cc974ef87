"""Committing encryption: C2SP chunked-encryption, instance Cobblestone-256 (docs/spec/line.md).

HKDF-Expand-SHA512 turns (key, salt, context) into a one-time AES-256-GCM key, a base nonce and a 32-byte commitment.
The commitment binds key *and* context, so a ciphertext opens only under its own key and in its own place in the store.
The salt is an argument, and must never repeat for a key: callers draw 24 random bytes.
"""

from __future__ import annotations

import hmac
from functools import cached_property
from hashlib import sha512

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from strongroom.crypto.hmac_state import HmacState
from strongroom.errors import Tampered

KEY_SIZE = 32
SALT_SIZE = 24
CHUNK = 16 * 1024

_COMMITMENT = 32
_HEADER = SALT_SIZE + _COMMITMENT
_NONCE = 12
_EXPANDED = KEY_SIZE + _NONCE + _COMMITMENT
_TAG = 16
_INFO = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0"


class Key(bytes):
    """A key for many objects, with a cached HMAC state: the state depends on the key alone and is computed once."""

    @cached_property
    def keyed(self) -> HmacState:
        return HmacState(self, sha512)


def seal(key: bytes, plaintext: bytes, ctx: bytes, salt: bytes) -> bytes:
    """Encrypt `plaintext` for the place that the context `ctx` names. `salt` must never repeat for a key."""
    aead, base, commitment = _derive(key, salt, ctx)
    if len(plaintext) < CHUNK:
        return salt + commitment + aead.encrypt(base, plaintext, None)
    out = bytearray(salt + commitment)
    # The last chunk is always short, and empty when the length is a multiple of the chunk size.
    for number in range(len(plaintext) // CHUNK + 1):
        chunk = plaintext[number * CHUNK : (number + 1) * CHUNK]
        out += aead.encrypt(_nonce(base, number), chunk, None)
    return bytes(out)


def unseal(key: bytes, sealed: bytes, ctx: bytes) -> bytes:
    """Decrypt a sealed object, or raise Tampered. The error means a wrong key, a wrong place, or altered bytes."""
    body = len(sealed) - _HEADER
    if len(sealed) < _HEADER + _TAG or body % (CHUNK + _TAG) < _TAG:
        raise Tampered("a sealed object is cut short")
    aead, base, commitment = _derive(key, sealed[:SALT_SIZE], ctx)
    # Compared in constant time: the time must not show how much of a guessed commitment is right.
    if not hmac.compare_digest(commitment, sealed[SALT_SIZE:_HEADER]):
        raise Tampered("a sealed object was sealed for another place in the store, or with another key")
    try:
        if body < CHUNK + _TAG:
            return aead.decrypt(base, sealed[_HEADER:], None)
        step = CHUNK + _TAG
        return b"".join(
            aead.decrypt(_nonce(base, number), sealed[_HEADER + number * step : _HEADER + (number + 1) * step], None)
            for number in range(body // step + 1)
        )
    except InvalidTag:
        raise Tampered("a sealed object was altered") from None


def _derive(key: bytes, salt: bytes, ctx: bytes) -> tuple[AESGCM, bytes, bytes]:
    if len(key) != KEY_SIZE or len(salt) != SALT_SIZE:
        raise ValueError("the key must have 32 bytes, and the salt 24 bytes")
    keyed = key.keyed if isinstance(key, Key) else HmacState(key, sha512)
    made = keyed.expand(_INFO + salt + ctx, _EXPANDED)
    return AESGCM(made[:KEY_SIZE]), made[KEY_SIZE:-_COMMITMENT], made[-_COMMITMENT:]


def _nonce(base: bytes, number: int) -> bytes:
    return (int.from_bytes(base, "big") ^ number).to_bytes(_NONCE, "big")
