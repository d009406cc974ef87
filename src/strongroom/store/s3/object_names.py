"""The names of a store's objects in a bucket, and the framing of their bytes. Pure.

    vault/<...>                                       the vault's own objects
    caps/<link>                                       records of caps, kept apart: nobody follows their changes
    news/<number>                                     announces that something below vault/ has changed
    actors/<locator>/at                               the actor's keys, and the generations of the names below
    actors/<locator>/g<n>/memory/<namespace>/g<n>/lines/<id>
    actors/<locator>/g<n>/memory/<namespace>/g<n>/packs/<pack>
    logs/<worker>/<number>, roster/<worker>

A purge increments a generation number. With that single write all objects below the old number are gone, even those
still being written, and they are deleted afterwards. An actor's keys and generations are one object, because they
change together: nobody can seal with old keys into a new generation, or with new keys into an old one. The first byte
of each body only shows that the object is no tombstone: a tombstone is an object of no bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from strongroom.errors import Tampered
from strongroom.store import Version

ACTORS = "actors/"
VAULT = "vault/"
CAPS = "vault/caps/"
NEWS = "news/"
LOGS = "logs/"
MOVING = "m"
"""The first letter of a worker that moves a vault into a bucket.

The move begins with that worker's log and ends with the format record.
"""

ROSTER = "roster/"
AT = "at"
LARGEST_HEAD = 1 << 20
"""The largest head (keys and generations of an actor) that we write, in bytes. A larger one is not even read."""
KEYS = "keys"
Places = Mapping[str, str]
"""For each object name, its place in the bucket."""
_CAPS_PLACE = "caps/"
_FRAME = b"\x01"
_ACTOR = re.compile(r"actors/([0-9a-f]{32})/")
_BELOW = re.compile(r"g([0-9]{6})/(?:memory/([0-9a-f]{32})/g([0-9]{6})/)?(.+)")
_SHELF = re.compile(r"memory/([0-9a-f]{32})/(.*)", re.DOTALL)
_LOG = re.compile(r"logs/[^/]+/")
_GENERATIONS = 1_000_000
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that decoding can raise for bytes that we did not write."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The generations of one actor: its own, and those of each namespace that was ever purged.

    A purge increments a generation.
    """

    actor: int = 0
    shelves: Mapping[str, int] = {}

    def purged(self, shelf: str | None) -> Table:
        """The generations after a purge of a namespace, or of the whole actor for None."""
        if shelf is None:
            return Table(_next(self.actor))
        return Table(self.actor, {**self.shelves, shelf: _next(self.shelves.get(shelf, 0))})


class ActorHead(msgspec.Struct, frozen=True, array_like=True):
    """The content of an actor's head, the object `at`: the current generations, and the body of `keys`.

    The body is None if the actor has no keys.
    """

    table: Table = Table()
    keys: bytes | None = None
    is_gone: bool = False
    """Whether the keys are a tombstone."""

    def encoded(self, salt: bytes) -> bytes:
        """Encode the head with a salt. By its salt a writer recognises its own write."""
        return salt[:8] + msgspec.msgpack.encode(self)

    @classmethod
    def decoded(cls, body: bytes) -> ActorHead:
        try:
            return _decoded(body[8:])
        except UNREADABLE:
            raise Tampered(
                "the record of an actor's keys and purges cannot be read",
                hint="run vault.audit.verify(), which lists every fault",
            ) from None


# Built at import: msgspec can crash when two threads inspect a type for the first time.
_decoded = msgspec.msgpack.Decoder(ActorHead).decode


def _next(generation: int) -> int:
    if generation + 1 >= _GENERATIONS:
        raise Tampered("an actor's record in the bucket has more purges than are possible")
    return generation + 1


class Below(NamedTuple):
    """A place in the bucket, parsed: the object's logical name, and whether its generation is the current one."""

    name: str
    is_current: bool


def frame_body(body: bytes) -> bytes:
    return _FRAME + body


def unframe_body(raw: bytes, name: str = "an object") -> bytes | None:
    """The body of a stored object: its bytes without the first, which only shows that it is no tombstone.

    Returns None for a tombstone.
    """
    if not raw:
        return None
    if not raw.startswith(_FRAME):
        raise Tampered(f"the bytes of {name} in the bucket do not begin like an object of Strongroom")
    return raw[1:]


def version_of(etag: str) -> Version:
    """Convert an etag to a number that is never 0."""
    return int.from_bytes(hashlib.blake2b(etag.encode(), digest_size=6).digest()) + 1


def news(number: int) -> str:
    """The name of the announcement with this number. Numbers begin with 1."""
    return f"{NEWS}{number:012d}"


def locator_of(name: str) -> str | None:
    """The actor that a name or prefix belongs to.

    None if it belongs to no actor, or if a prefix can cover several actors.
    """
    found = _ACTOR.match(name)
    return None if found is None else found[1]


def plain_place(name: str) -> str:
    """The place of an object that belongs to no actor."""
    return _CAPS_PLACE + name.removeprefix(CAPS) if name.startswith(CAPS) else name


def actor_place(name: str, table: Table) -> str:
    """The place of an actor's object, or the beginning of the places for a prefix."""
    head, rest = name[: len(ACTORS) + 33], name[len(ACTORS) + 33 :]
    if rest == KEYS:
        return head + AT
    place = f"{head}g{table.actor:06d}/"
    shelf = _SHELF.fullmatch(rest)
    if shelf is None:
        return place + rest
    return f"{place}memory/{shelf[1]}/g{table.shelves.get(shelf[1], 0):06d}/{shelf[2]}"


def below(place: str, table: Table) -> Below | None:
    """Parse a place below an actor. None if the place is not one that we use."""
    start = len(ACTORS) + 33
    found = _BELOW.fullmatch(place, start)
    if found is None:
        return None
    actor, shelf, generation, rest = found.groups()
    current = int(actor) == table.actor and (shelf is None or int(generation) == table.shelves.get(shelf, 0))
    middle = "" if shelf is None else f"memory/{shelf}/"
    return Below(f"{place[:start]}{middle}{rest}", current)


def is_stray(place: str) -> bool:
    """Whether a place below `actors/` or `logs/` is one that we never use. Names within a log are not checked."""
    if place.startswith(LOGS):
        return _LOG.match(place) is None
    if locator_of(place) is None:
        return True
    found = below(place, Table())
    return is_keys(found.name) if found is not None else place[len(ACTORS) + 33 :] != AT


def is_keys(name: str) -> bool:
    """Whether a name is the name of an actor's keys."""
    return name[len(ACTORS) + 33 :] == KEYS and locator_of(name) is not None


def purged_shelf(prefix: str) -> tuple[str, str | None] | None:
    """The actor, and the namespace if there is one, that a purge of `prefix` covers. None for any other prefix."""
    locator = locator_of(prefix)
    if locator is None:
        return None
    rest = prefix[len(ACTORS) + 33 :]
    if not rest:
        return locator, None
    shelf = _SHELF.fullmatch(rest)
    return (locator, shelf[1]) if shelf is not None and not shelf[2] else None
