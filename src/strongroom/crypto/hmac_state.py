"""HMAC (RFC 2104) under a key that is used many times: the part that depends on the key alone is hashed once. Pure.

A library's HMAC starts anew at each call: it looks up the hash and prepares two states, which takes several times as
long when the processor's caches are cold (docs/adr/0029-hmac-from-kept-states.md). The states kept here are as secret
as the key.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class _Hash(Protocol):
    @property
    def block_size(self) -> int: ...
    def copy(self) -> _Hash: ...
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class HmacState:
    """HMAC under one key, by default with SHA-256. Thread-safe: its states are copied, never changed."""

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
