"""A store with several logs: one for each worker that ever wrote. The structs, and what such a store can be asked.

A bundle is written once and signed with its worker's key. The vault certifies that key in the first bundle and in the
roster. Entries are intents: they are durable before anything that they speak of is done. A later entry says of earlier
ones that they were carried out; of the last ones of a worker that was killed nobody says it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from strongroom.cobblestone import context
from strongroom.store import Object, Store

_SIGNED = "strongroom/bundle/v1"


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker in the roster: the key of its log, and the vault's word for it."""

    v: int = 1
    worker: str
    public: bytes
    since: int
    certificate: bytes


class Bundle(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Entries of a log from `first` on, and the log's state after them.

    The first bundle holds the worker's own entry of the roster.
    """

    first: int
    entries: list[bytes]
    time: int
    peaks: bytes
    signature: bytes
    member: Member | None = None

    @property
    def size(self) -> int:
        return self.first + len(self.entries)


class Numbered(NamedTuple):
    """A bundle as it was found: its number, and what it says; None if it does not read."""

    number: int
    bundle: Bundle | None


@runtime_checkable
class Fleet(Protocol):
    """What a store with several logs can do besides."""

    worker: str
    """The log that this process writes; empty if it writes none."""

    def roster(self) -> Sequence[tuple[str, Member | None]]:
        """Every worker in the roster with its entry; None for one that does not read."""

    def logs(self) -> Sequence[str]:
        """The workers of which there are bundles."""

    def bundles(self, worker: str) -> Iterator[Numbered]:
        """The bundles of a log, in the order of their numbers, which begin with 1."""

    taken_logs: int
    """How many logs of this process had something foreign put in their way."""

    def get_many(self, names: Sequence[str]) -> Sequence[Object | None]:
        """Objects by their names, read side by side; None for one that is not there, or is not framed as ours."""

    def scopes(self) -> Iterator[str]:
        """The prefixes of all objects, which can be looked at one by one: each actor's, then the vault's own."""

    def strays(self) -> Iterator[str]:
        """What lies where a store of this kind keeps nothing, so that nobody reads it."""

    def buried(self) -> Iterator[str]:
        """Deleted objects of which bytes lie beside the tombstone, among what was read lately. Nobody reads these."""

    def afresh(self) -> Store:
        """The same place as somebody sees it who has seen nothing of it yet. Needs no close."""

    def check_log(self) -> None:
        """Raise AuditUnavailable if the log could not be written when it was last tried, and still cannot."""

    def scrub_soon(self) -> bool:
        """As `scrub`; but if that was done a moment ago, it is left to a timer, for many at once, and this is False."""

    def settle(self) -> None:
        """Wait until every commit that any worker had begun before the call is over, or fails when it goes on."""


def signed_part(worker: str, bundle: Bundle) -> bytes:
    """What a worker signs of a bundle: the state of its log after it."""
    return context(_SIGNED, worker, bundle.size, bundle.peaks, bundle.time)


def is_signed(worker: str, bundle: Bundle, public: bytes) -> bool:
    """Whether a bundle was signed with a worker's key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bundle.signature, signed_part(worker, bundle))
    except (ValueError, InvalidSignature):
        return False
    return True
