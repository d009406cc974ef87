"""The format of a journal: records, and the frames that hold them. See docs/spec/journal.md.

A frame has its length, its number, a checksum of length and number, and the record, sealed for its file and number. The
module is pure, except for a random salt, and opens no files.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, TypeAlias

import msgspec

from strongroom.crypto import chunked_aead
from strongroom.crypto.hmac_state import context
from strongroom.errors import Tampered

_FORMAT = "strongroom/journal/v1"
_PLACE = Struct(">IQ")
_CHECK = Struct(">I")
_HEAD = _PLACE.size + _CHECK.size


class Turn(msgspec.Struct, frozen=True, tag="turn"):
    """One turn, with everything that another process needs to hand it over."""

    provider: str
    session: str
    """The session id that the agent had at its start."""
    told: Mapping[str, Any]
    """The arguments of `initialize` apart from the session id, without callbacks."""
    user: str
    assistant: str
    current: str
    """The session id at the time of this turn."""
    messages: bytes | None = None
    """The messages of this turn, if the runtime gave any. Packed on their own, because they may nest deeply."""


class TakenTurn(msgspec.Struct, frozen=True, tag="taken"):
    """A record that the provider has taken the turn with this number."""

    number: int


Record: TypeAlias = Turn | TakenTurn

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Turn | TakenTurn).decode


def turn_name(run: str, number: int) -> str:
    """The name of a turn. It stays the same if the turn is delivered again."""
    return f"{run}-{number}"


def pack_messages(messages: list[Any] | None, most: int) -> bytes | None:
    """Pack messages as MessagePack. None if they cannot be encoded or are too long: the turn is stored without them."""
    if messages is None:
        return None
    try:
        data = msgspec.msgpack.encode(messages)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return data if len(data) <= most else None


def unpack_messages(data: bytes | None) -> list[Any] | None:
    """The messages that `pack_messages` packed. None if they do not decode."""
    try:
        return None if data is None else list(msgspec.msgpack.decode(data))
    except (TypeError, RecursionError, msgspec.MsgspecError):
        return None


def frame(key: bytes, run: str, number: int, record: Record) -> bytes:
    """Seal a record into a frame of the file named by `run`."""
    sealed = chunked_aead.seal(key, _encode(record), _context(run, number), os.urandom(chunked_aead.SALT_SIZE))
    place = _PLACE.pack(len(sealed), number)
    return place + _CHECK.pack(zlib.crc32(place)) + sealed


def frames(content: bytes, key: bytes, run: str) -> Iterator[tuple[int, Record | Tampered, int]]:
    """The number, record and end of each whole frame. A record that does not open is replaced by the error.

    A frame that is cut short ends the iteration. A damaged head raises Tampered, because the next frame cannot be
    found.
    """
    data = memoryview(content)
    place = last = 0
    while place + _HEAD <= len(data) and any(data[place:]):  # a power failure can leave zeros
        length, number = _PLACE.unpack_from(data, place)
        if (
            number <= last
            or zlib.crc32(data[place : place + _PLACE.size]) != _CHECK.unpack_from(data, place + _PLACE.size)[0]
        ):
            raise Tampered("a frame of the journal is damaged")
        end = place + _HEAD + length
        if end > len(data):
            return
        record = _opened(key, bytes(data[place + _HEAD : end]), _context(run, number))
        yield number, record, end
        place, last = end, number


def _opened(key: bytes, sealed: bytes, context: bytes) -> Record | Tampered:
    try:
        record: Record = _decode(chunked_aead.unseal(key, sealed, context))
        return record
    except Tampered as error:
        return error
    except (msgspec.MsgspecError, RecursionError):
        return Tampered("a record of the journal has an unknown form")


def _context(run: str, number: int) -> bytes:
    return context(_FORMAT, run, number)
