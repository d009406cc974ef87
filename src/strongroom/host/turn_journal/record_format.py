"""The format of a journal: records, and the frames that hold them. See docs/spec/journal.md.

A frame has its length, its number, a checksum of the two, and the record sealed for its file and number. Pure, save for
the salt. Not responsible for files.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, TypeAlias

import msgspec

from strongroom.crypto import chunked_aead
from strongroom.errors import Tampered

_FORMAT = "strongroom/journal/v1"
_PLACE = Struct(">IQ")
_CHECK = Struct(">I")
_HEAD = _PLACE.size + _CHECK.size


class Turn(msgspec.Struct, frozen=True, tag="turn"):
    """One turn, with all that is needed to hand it over in another process."""

    provider: str
    session: str
    """The session id that the agent began with."""
    told: Mapping[str, Any]
    """What else `initialize` was told, without callbacks."""
    user: str
    assistant: str
    current: str
    """The session id of the turn."""
    messages: bytes | None = None
    """The messages of this turn, where the runtime gave any: MessagePack by itself, since it may nest deeply."""


class TakenTurn(msgspec.Struct, frozen=True, tag="taken"):
    """The turn with this number is the provider's now."""

    number: int


Record: TypeAlias = Turn | TakenTurn

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Turn | TakenTurn).decode


def turn_name(run: str, number: int) -> str:
    """What a turn is called: the same however often it is handed over."""
    return f"{run}-{number}"


def pack_messages(messages: list[Any] | None, most: int) -> bytes | None:
    """Messages as they can be written down; None if that cannot be done, or they are too long: a turn goes without."""
    if messages is None:
        return None
    try:
        data = msgspec.msgpack.encode(messages)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return data if len(data) <= most else None


def unpack_messages(data: bytes | None) -> list[Any] | None:
    """The messages again."""
    try:
        return None if data is None else list(msgspec.msgpack.decode(data))
    except (TypeError, RecursionError, msgspec.MsgspecError):
        return None


def frame(key: bytes, run: str, number: int, record: Record) -> bytes:
    """A record as it stands in the file of a run."""
    sealed = chunked_aead.seal(key, _encode(record), _context(run, number), os.urandom(chunked_aead.SALT_SIZE))
    place = _PLACE.pack(len(sealed), number)
    return place + _CHECK.pack(zlib.crc32(place)) + sealed


def frames(content: bytes, key: bytes, run: str) -> Iterator[tuple[int, Record | Tampered, int]]:
    """Number, record and end of each whole frame; where the record does not open, the error stands in its place.

    Bytes that a crash cut short end it. A head that is damaged raises Tampered: nobody knows where the next one is.
    """
    data = memoryview(content)
    place = last = 0
    while place + _HEAD <= len(data) and any(data[place:]):  # a crash of the machine can leave zeros
        length, number = _PLACE.unpack_from(data, place)
        if (
            number <= last
            or zlib.crc32(data[place : place + _PLACE.size]) != _CHECK.unpack_from(data, place + _PLACE.size)[0]
        ):
            raise Tampered("a frame is damaged")
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
        return Tampered("a record has another form")


def _context(run: str, number: int) -> bytes:
    return chunked_aead.context(_FORMAT, run, number)
