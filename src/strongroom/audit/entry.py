"""The format of one log entry, as canonical bytes. Pure."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from strongroom.errors import Tampered
from strongroom.model import LineId, LinkId, Millis
from strongroom.store import ANY, Delete, Effect, Pending, PutNew, Runs, Swap, Version

ENTRY_LIMIT = 65_535
"""The size in bytes of the largest entry that an entry bundle can hold."""


_URLSAFE = bytes.maketrans(b"+/", b"-_")


class Decision(StrEnum):
    """The outcome of a request: allowed and done, denied by a rule, or failed."""

    ALLOW = "allow"
    DENY = "deny"
    FAIL = "fail"


class Mark(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The new state of one object.

    `tag` is a keyed hash of the object's name. `digest` is the SHA-256 of its sealed bytes, or "" if it was deleted.
    `shelf` is the tag of its namespace.
    """

    tag: str
    digest: str
    shelf: str = ""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One decision. Fields are in the canonical order; a field with its default value is left out.

    `erased` says whose objects are all gone: the objects of the tagged actor, or those of the tagged namespaces.
    """

    v: int
    time: Millis
    op: str
    decision: Decision
    reason: str = ""
    data_class: str = ""
    request: str = ""
    actor: str = ""
    namespaces: tuple[str, ...] = ()
    links: tuple[LinkId, ...] = ()
    holder: str = ""
    count: int = 0
    lines: tuple[LineId, ...] = ()
    objects: tuple[Mark, ...] = ()
    erased: str = ""
    detail: str = ""

    def encoded(self) -> bytes:
        data = _encode(self)
        if len(data) > ENTRY_LIMIT:
            raise ValueError("the log entry for this request is larger than an entry bundle can hold")
        return data


DONE = "done"
"""The op of an entry in which a worker states which of its own entries it carried out."""
_WRITING = (PutNew, Swap, Delete)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def pending(entries: Sequence[Entry], effects: Sequence[Effect] = (), since: Mapping[str, Version] = ANY) -> Pending:
    """A commit that writes these entries to the log, together with the effects that the entries describe."""
    return Pending([entry.encoded() for entry in entries], effects, entries[0].time, since)


def decode_entry(data: bytes) -> Entry:
    """Decode an entry. Raises Tampered if the bytes are not exactly those that the entry encodes to."""
    try:
        entry = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a log entry cannot be decoded") from None
    if _encode(entry) != data or entry.v != 1:
        raise Tampered("a log entry is not in canonical form")
    return entry


def done_entry(done: Runs, undone: Runs, time: Millis) -> Entry:
    """Make an entry that states which entries of the same log were carried out (`done`) or had no effect (`undone`)."""
    detail = " not ".join(",".join(f"{first}-{behind}" for first, behind in runs) for runs in (done, undone) if runs)
    if not done:
        detail = f"not {detail}"
    return Entry(v=1, time=time, op=DONE, decision=Decision.ALLOW, data_class="audit", detail=detail)


def done_runs(entry: Entry) -> tuple[Runs, Runs]:
    """The ranges of numbers that an entry states as done and as undone.

    Both are empty for an entry with any other op than `done`.
    """
    if entry.op != DONE:
        return (), ()
    done, _, undone = f" {entry.detail}".partition(" not ")
    try:
        return _runs(done), _runs(undone)
    except ValueError:
        raise Tampered("a log entry that states finished operations cannot be decoded") from None


def _runs(text: str) -> Runs:
    found = [one.partition("-") for one in text.split(",") if one.strip()]
    return [(int(first), int(behind)) for first, _, behind in found]


def digest(body: bytes) -> str:
    """The SHA-256 of sealed bytes, encoded as in entries."""
    return encode_hash(hashlib.sha256(body).digest())


def encode_hash(hashed: bytes) -> str:
    """A hash encoded as in entries: base64url without padding."""
    return binascii.b2a_base64(hashed, newline=False).translate(_URLSAFE, b"=").decode()


def marks(effects: Sequence[Effect], tags: Mapping[str, tuple[str, str]]) -> tuple[Mark, ...]:
    """The new state of each object that the effects change.

    `tags` maps an object's name to its own tag and the tag of its namespace.
    """
    found: list[Mark] = []
    for effect in effects:
        if isinstance(effect, _WRITING):
            tag, shelf = tags[effect.name]
            found.append(Mark(tag, "" if isinstance(effect, Delete) else digest(effect.body), shelf))
    return tuple(found)
