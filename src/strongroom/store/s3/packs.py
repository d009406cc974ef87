"""Packs: many stored bodies of one namespace in one object. Pure; `compaction` decides when to write them.

A pack begins as a claim of a few bytes. Its records keep the versions that the objects had, so that followers do not
notice the move. A record without a body is a tombstone, and never gets a body again: every writer of a pack carries
over all tombstones that it knows of. A burial is a pack of nothing but tombstones, written by a forget.
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
"""Maximum number of bodies in one pack."""
MOST_GONE = 64 * MOST
"""Maximum number of tombstones in one pack, of some 40 bytes each."""
LARGEST = 1 << 25
"""Largest pack that we write, in bytes. A larger one is not even read."""
CLAIM_SIZE = 21
_CLAIM = b"claim"
_PACK = b"strongroom pack of lines 1\n"
"""Longer than a claim, so that no pack is taken for one."""
_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{12}")


class Record(NamedTuple):
    """One packed object: its version and its body, None for a tombstone."""

    version: Version
    body: bytes | None


class Pack(NamedTuple):
    """A pack's records by logical name; `etag` is that of the object it was read from."""

    etag: str
    records: Mapping[str, Record]


def number_of(place: str) -> int:
    """The number in a pack's id; 0 if it has none."""
    found = _ID.fullmatch(place.rpartition("/")[2])
    return 0 if found is None else int(found[1], 16)


def next_number(places: Iterable[str]) -> int:
    """A number greater than those of all these packs and claims."""
    return max(map(number_of, places), default=0) + 1


def pack_id(number: int, random: bytes) -> str:
    """An id of fixed length, in the order of numbers. 6 random bytes make it unique."""
    return f"{number:012x}{random[:6].hex()}"


def claim(random: bytes) -> bytes:
    """The bytes of a claim. 16 random ones make it unique."""
    return _CLAIM + random[:16]


def is_claim(size: int) -> bool:
    return size <= CLAIM_SIZE


def is_whole_claim(body: bytes) -> bool:
    """Whether these are exactly the bytes of a claim: neither empty, nor the beginning of a pack."""
    return len(body) == CLAIM_SIZE and body.startswith(_CLAIM)


def encode_pack(shelf: str, records: Mapping[str, Record]) -> bytes:
    """Encode a pack of objects below `shelf`."""
    rows = [(name.removeprefix(shelf), one.version, one.body) for name, one in sorted(records.items())]
    return _PACK + msgspec.msgpack.encode(rows)


_rows = msgspec.msgpack.Decoder(list[tuple[str, int, bytes | None]]).decode


def decode_pack(shelf: str, body: bytes, etag: str) -> Pack:
    try:
        if not body.startswith(_PACK):
            raise Tampered(
                f"an object stored as a pack of {shelf} is not a pack", hint="vault.audit.verify() names what is wrong"
            )
        return Pack(etag, {shelf + name: Record(version, held) for name, version, held in _rows(body[len(_PACK) :])})
    except UNREADABLE:
        raise Tampered(
            f"a pack of {shelf} cannot be decoded", hint="vault.audit.verify() names what is wrong"
        ) from None
