"""A store with several logs, one for each worker that ever wrote: its structs and its additional methods.

A bundle is written once and signed with its worker's key. The vault certifies that key in the first bundle and in the
roster. Entries are intents: durable before they are carried out (write-ahead). A later entry states that earlier ones
were carried out; for a killed worker's last ones there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from strongroom.crypto.hmac_state import context
from strongroom.store import Object, Store

_SIGNED = "strongroom/bundle/v1"


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker in the roster: the key of its log, and the vault's certificate for it."""

    v: int = 1
    worker: str
    public: bytes
    since: int
    certificate: bytes


class LogBundle(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Entries of a log from `first` on, and the log's state after them.

    The first bundle includes the worker's own roster entry.
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
    """A bundle with its number. `bundle` is None if it does not decode."""

    number: int
    bundle: LogBundle | None


@runtime_checkable
class FleetStore(Protocol):
    """The additional methods of a store with several logs."""

    worker: str
    """The worker whose log this process writes; empty if it writes none."""

    def roster(self) -> Sequence[tuple[str, Member | None]]:
        """Every worker in the roster, with its entry, or None if the entry cannot be decoded."""

    def logs(self) -> Sequence[str]:
        """The workers that have bundles."""

    def bundles(self, worker: str) -> Iterator[Numbered]:
        """The bundles of a log, in the order of their numbers, which begin with 1."""

    taken_logs: int
    """How many logs of this process were blocked by a foreign object."""

    def get_many(self, names: Sequence[str]) -> Sequence[Object | None]:
        """Objects by their names, read concurrently; None for one that is missing, or not framed as ours."""

    def scopes(self) -> Iterator[str]:
        """The prefixes of all objects, which can be read one by one: each actor's, then the vault's own."""

    def strays(self) -> Iterator[str]:
        """Objects at places where a store of this kind keeps nothing, so that nobody reads them."""

    def buried(self) -> Iterator[str]:
        """Deleted objects with bytes beside their tombstone, among those read lately. Nobody reads the bytes."""

    def afresh(self) -> Store:
        """A store on the same place with an empty cache. Needs no close."""

    def check_log(self) -> None:
        """Raise AuditUnavailable if the last attempt to write the log failed, and still fails."""

    def scrub_soon(self) -> bool:
        """As `scrub`, but throttled: if one was done a moment ago, a timer does the next, and this returns False."""

    def settle(self) -> None:
        """Wait until every commit that any worker had begun before the call is over, or will fail."""


def signed_part(worker: str, bundle: LogBundle) -> bytes:
    """The bytes that a worker signs of a bundle: the state of its log after it."""
    return context(_SIGNED, worker, bundle.size, bundle.peaks, bundle.time)


def is_signed(worker: str, bundle: LogBundle, public: bytes) -> bool:
    """Whether a bundle was signed with a worker's key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bundle.signature, signed_part(worker, bundle))
    except (ValueError, InvalidSignature):
        return False
    return True
