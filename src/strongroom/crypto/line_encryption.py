"""Seals and opens lines, profiles and the vault's own records (docs/spec/line.md), without input or output.

A sealed object is `version (1 byte) | epoch (4 bytes) | Cobblestone-256`. The context names vault, actor, namespace,
object and epoch, so that an object that was copied to another place does not open. The plaintext is padded to one of
few sizes, so that a stored length reveals little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from strongroom.crypto import chunked_aead
from strongroom.crypto.hmac_state import context
from strongroom.errors import FormatTooNew, Tampered
from strongroom.model import Actor, Kind, Line, LineId, Namespace

PADDED = (
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    3072,
    4096,
    6144,
    8192,
    12288,
    16384,
    24576,
    32768,
    49152,
    65536,
    98304,
)
"""The sizes in bytes to which a plaintext is padded. A larger plaintext is padded to a multiple of the last size."""

VERSION = 1
DETAILED = 2
"""The version of a line with details, and of a page with such lines. Older programs refuse these."""

CRITICAL = frozenset({"expires", "replaces"})
"""The members of a line's details that change the meaning of the line, as far as this version understands them."""

_HEADER = 5
_LENGTH = 4
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(Line).decode


class LinePlace(msgspec.Struct, frozen=True):
    """One namespace of one actor in one vault: the place to which a sealed object is bound."""

    vault_id: str
    actor: Actor
    namespace: Namespace

    def context(self, what: str, name: str, epoch: int, version: int = VERSION) -> bytes:
        place = _prefix(what, version, self.vault_id, self.actor, self.namespace)
        return place + context(name) + _epoch(epoch)


@lru_cache(256)
def _prefix(what: str, version: int, vault_id: str, actor: Actor, namespace: Namespace) -> bytes:
    """The part of the context that all objects of one place share."""
    return context(what, version, vault_id, actor, namespace)


@lru_cache(256)
def _epoch(epoch: int) -> bytes:
    return context(epoch)


def seal_line(line: Line, place: LinePlace, epoch: int, key: bytes, salt: bytes) -> bytes:
    """Seal one line for its place. A line without details gets version 1, which every version of strongroom reads."""
    version = VERSION if line.details is None else DETAILED
    ctx = place.context("strongroom/line", line.id, epoch, version)
    return seal_padded(_encode(line), ctx, epoch, key, salt, version)


def open_line(sealed: bytes, line_id: LineId, place: LinePlace, keys: Mapping[int, bytes]) -> Line:
    """Open the line stored under `line_id`, or raise Tampered. A line of a newer version raises FormatTooNew."""
    epoch, version = sealed_epoch(sealed, DETAILED), sealed[0]
    plain = open_padded(sealed, place.context("strongroom/line", line_id, epoch, version), keys.get(epoch))
    try:
        line = _decode_line(plain)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a decrypted line cannot be decoded") from None
    # The context binds both values already. But a writer with the key could still put another id into the line.
    if line.id != line_id or line.namespace != place.namespace:
        raise Tampered("a line contains another id or namespace than those under which it is stored")
    if (line.details is None) != (version == VERSION):
        raise Tampered("a stored line has details, but the version of a line without details, or the reverse")
    if line.kind == Kind.DOCUMENT or (line.details is not None and line.details.document):
        raise Tampered("a stored line claims to be a document")
    if line.details is not None and not CRITICAL.issuperset(line.details.critical):
        raise FormatTooNew(
            "a newer version of strongroom wrote a line that this version would misread",
            hint="install the newer version",
        )
    return line


def seal_text(text: str, name: str, place: LinePlace, epoch: int, key: bytes, salt: bytes) -> bytes:
    """Seal a text that is not a line, such as a profile. Its context differs, so it cannot be opened as a line."""
    return seal_padded(_encode(text), place.context("strongroom/text", name, epoch), epoch, key, salt)


def open_text(sealed: bytes, name: str, place: LinePlace, keys: Mapping[int, bytes]) -> str:
    epoch = sealed_epoch(sealed)
    plain = open_padded(sealed, place.context("strongroom/text", name, epoch), keys.get(epoch))
    try:
        return msgspec.json.decode(plain, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a decrypted text cannot be decoded") from None


def seal_page(
    data: bytes, name: str, place: LinePlace, epoch: int, key: bytes, salt: bytes, version: int = VERSION
) -> bytes:
    """Seal a cache page of lines. A page is not JSON, so its length comes first: it shows where the padding begins."""
    plain = len(data).to_bytes(_LENGTH, "big") + data
    return seal_padded(plain, place.context("strongroom/page", name, epoch, version), epoch, key, salt, version)


def open_page(sealed: bytes, name: str, place: LinePlace, keys: Mapping[int, bytes]) -> bytes:
    epoch, version = sealed_epoch(sealed, DETAILED), sealed[0]
    plain = open_padded(sealed, place.context("strongroom/page", name, epoch, version), keys.get(epoch))
    return plain[_LENGTH : _LENGTH + int.from_bytes(plain[:_LENGTH], "big")]


def seal_record(record: msgspec.Struct, name: str, vault_id: str, key: bytes, salt: bytes) -> bytes:
    """Seal one of the vault's own records (namespaces, caps, revocations). It opens only in the object `name`."""
    return seal_padded(_encode(record), _record_context(name, vault_id), 0, key, salt)


def open_record(sealed: bytes, name: str, vault_id: str, key: bytes, kind: type[T]) -> T:
    if sealed_epoch(sealed) != 0:
        raise Tampered("a sealed record names the number of a key, which records do not have")
    plain = open_padded(sealed, _record_context(name, vault_id), key)
    try:
        return msgspec.json.decode(plain, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a decrypted record cannot be decoded") from None


def sealed_epoch(sealed: bytes, newest: int = VERSION) -> int:
    """The number of the key (its epoch) in a sealed object's header. Opening the object verifies the number."""
    if len(sealed) < _HEADER or not VERSION <= sealed[0] <= newest:
        raise Tampered("a sealed object has an unknown version")
    return int.from_bytes(sealed[1:_HEADER], "big")


def padded_size(size: int) -> int:
    """The size to which a plaintext of `size` bytes is padded."""
    if size <= PADDED[-1]:
        return PADDED[bisect_left(PADDED, size)]
    return -(-size // PADDED[-1]) * PADDED[-1]


def _record_context(name: str, vault_id: str) -> bytes:
    return context("strongroom/record", VERSION, vault_id, name)


def seal_padded(plain: bytes, ctx: bytes, epoch: int, key: bytes, salt: bytes, version: int = VERSION) -> bytes:
    """Pad a plaintext, seal it under a context, and put the header in front."""
    # The padding is spaces at the end, which JSON ignores. So only a page needs a length.
    padded = plain.ljust(padded_size(len(plain)))
    return version.to_bytes(1, "big") + epoch.to_bytes(4, "big") + chunked_aead.seal(key, padded, ctx, salt)


def open_padded(sealed: bytes, ctx: bytes, key: bytes | None) -> bytes:
    """Open a sealed object, and return its padded plaintext. Raises Tampered if it does not open."""
    if key is None:
        raise Tampered("a sealed object names a key that its namespace does not have")
    return chunked_aead.unseal(key, sealed[_HEADER:], ctx)
