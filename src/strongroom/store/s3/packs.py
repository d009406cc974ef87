"""Packs: many stored bodies of one namespace in one object. Pure; `compaction` decides when to write them.

A pack begins as a claim: a few bytes that reserve its place. The records of a pack keep the versions that the objects
had, so that followers do not notice the move. A record without a body is a tombstone. A tombstone never becomes a body
again, since every writer of a pack copies all tombstones that it knows. A burial is a pack that holds only tombstones,
written by a forget.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from strongroom.errors import Tampered
from strongroom.store import Version
from strongroom.store.s3.object_names import UNREADABLE

MOST = 1024
"""The most bodies in one pack."""
MOST_GONE = 64 * MOST
"""The most tombstones in one pack. A tombstone takes some 40 bytes."""
LARGEST = 1 << 25
"""The largest pack that we write, in bytes. A larger one is not even read."""
CLAIM_SIZE = 21
_CLAIM = b"claim"
_PACK = b"strongroom pack of lines 1\n"
"""The first bytes of a pack. They are longer than a claim, so that no pack is taken for a claim."""
_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{12}")


class Record(NamedTuple):
    """One packed object: its version and its body. The body of a tombstone is None."""

    version: Version
    body: bytes | None


class Pack(NamedTuple):
    """The records of a pack by logical name. `etag` belongs to the object in the bucket that was read."""

    etag: str
    records: Mapping[str, Record]


def number_of(place: str) -> int:
    """The number in a pack's id, or 0 if the id has no number."""
    found = _ID.fullmatch(place.rpartition("/")[2])
    return 0 if found is None else int(found[1], 16)


def next_number(places: Iterable[str]) -> int:
    """A number greater than the numbers of all these packs and claims (reserved places of packs)."""
    return max(map(number_of, places), default=0) + 1


def pack_id(number: int, random: bytes) -> str:
    """Return an id of fixed length. Ids sort by their numbers, and 6 random bytes make each unique."""
    return f"{number:012x}{random[:6].hex()}"


def claim(random: bytes) -> bytes:
    """The bytes of a claim, which reserves a place for a pack. 16 random bytes make each claim unique."""
    return _CLAIM + random[:16]


def is_claim(size: int) -> bool:
    return size <= CLAIM_SIZE


def is_whole_claim(body: bytes) -> bool:
    """Whether these bytes are exactly those of a claim: neither empty, nor the beginning of a pack."""
    return len(body) == CLAIM_SIZE and body.startswith(_CLAIM)


def encode_pack(shelf: str, records: Mapping[str, Record]) -> bytes:
    """Encode a pack of objects whose names begin with `shelf`."""
    rows = [(name.removeprefix(shelf), one.version, one.body) for name, one in sorted(records.items())]
    return _PACK + msgspec.msgpack.encode(rows)


_rows = msgspec.msgpack.Decoder(list[tuple[str, int, bytes | None]]).decode


def decode_pack(shelf: str, body: bytes, etag: str) -> Pack:
    try:
        if not body.startswith(_PACK):
            raise Tampered(
                f"an object in the place of a pack of {shelf} is not a pack",
                hint="run vault.audit.verify(), which lists every fault",
            )
        return Pack(etag, {shelf + name: Record(version, held) for name, version, held in _rows(body[len(_PACK) :])})
    except UNREADABLE:
        raise Tampered(
            f"a pack of {shelf} cannot be decoded", hint="run vault.audit.verify(), which lists every fault"
        ) from None
