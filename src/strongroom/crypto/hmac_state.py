"""HMAC (RFC 2104) under a key that is used many times: the part that depends on the key alone is hashed once.

The HMAC of a library starts again at each call: it looks up the hash function and prepares two states. This takes
several times as long when the processor's caches are cold (docs/adr/0029-hmac-from-kept-states.md). The states that are
kept here are as secret as the key.

`context` joins several values into one unambiguous byte string, which is hashed or bound to a ciphertext.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Protocol

_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))
_length = Struct(">I").pack


def context(*parts: str | bytes | int) -> bytes:
    """Join parts unambiguously: the length of each part comes first, so no two lists give the same bytes."""
    joined = b""
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part.to_bytes(8, "big") if isinstance(part, int) else part
        joined += _length(len(raw)) + raw
    return joined


class _Hash(Protocol):
    @property
    def block_size(self) -> int: ...
    def copy(self) -> _Hash: ...
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class HmacState:
    """HMAC under one key, by default with SHA-256. Thread-safe: the two prepared states are copied, never changed."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes, hashed: Callable[[bytes], _Hash] = sha256) -> None:
        size = hashed(b"").block_size
        block = (key if len(key) <= size else hashed(key).digest()).ljust(size, b"\0")
        self._inner = hashed(block.translate(_INNER))
        self._outer = hashed(block.translate(_OUTER))

    def __repr__(self) -> str:
        return "<hmac key redacted>"

    def digest(self, data: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(data)
        outer.update(inner.digest())
        return outer.digest()

    def digest_of(self, *parts: str | bytes | int, prefix: bytes = b"") -> bytes:
        """The digest of several parts, joined by `context`. `prefix` has earlier parts that are joined already."""
        return self.digest(prefix + context(*parts))

    def expand(self, info: bytes, size: int) -> bytes:
        """HKDF-Expand (RFC 5869, 2.3): derive `size` bytes from the key, for the purpose that `info` names."""
        block = made = self.digest(info + b"\1")
        number = 1
        while len(made) < size:
            number += 1
            block = self.digest(block + info + number.to_bytes(1, "big"))
            made += block
        return made[:size]
