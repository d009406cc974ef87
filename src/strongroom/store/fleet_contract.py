"""A store with several logs, one for each worker that ever wrote: its structs and its additional methods.

A log bundle holds entries of one log. It is written once and signed with its worker's key. The vault certifies that key
in the log's first bundle and in the roster (the list of workers). Each entry is an intent: it is durable before it is
carried out (write-ahead). A later entry states that earlier ones were carried out; if a worker is killed, the statement
for its last entries is missing.
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
    """A worker in the roster: the public key of its log, and the vault's certificate for that key."""

    v: int = 1
    worker: str
    public: bytes
    since: int
    certificate: bytes


class LogBundle(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A log bundle: the log's entries from number `first` on, and the log's state after these entries.

    The first bundle of a log also holds the worker's roster entry.
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
    """A log bundle with its number in the log. `bundle` is None if the bytes do not decode."""

    number: int
    bundle: LogBundle | None


@runtime_checkable
class FleetStore(Protocol):
    """The additional methods of a store with several logs, one for each worker."""

    worker: str
    """The worker whose log this process writes. Empty if this process writes no log."""

    def roster(self) -> Sequence[tuple[str, Member | None]]:
        """Every worker in the roster, with its roster entry. The entry is None if it cannot be decoded."""

    def logs(self) -> Sequence[str]:
        """The workers whose logs have at least one bundle."""

    def bundles(self, worker: str) -> Iterator[Numbered]:
        """The bundles of a worker's log, in the order of their numbers, which begin with 1."""

    taken_logs: int
    """How often another writer's object blocked a log of this process."""

    def get_many(self, names: Sequence[str]) -> Sequence[Object | None]:
        """Objects by their names, read concurrently. None for an object that is missing or not in our format."""

    def scopes(self) -> Iterator[str]:
        """Prefixes that together cover all objects: each actor's, then the vault's own. Each can be read alone."""

    def strays(self) -> Iterator[str]:
        """Objects with names that this kind of store never uses. No reader looks at them."""

    def buried(self) -> Iterator[str]:
        """Deleted objects, among those read lately, whose bytes still exist. No reader uses the bytes."""

    def afresh(self) -> Store:
        """A store on the same place with an empty cache. It need not be closed."""

    def check_log(self) -> None:
        """If the last attempt to write the log failed, try again. Raises AuditUnavailable if that fails, too."""

    def scrub_soon(self) -> bool:
        """Like `scrub`, but throttled: soon after another scrub a timer does the work, and this returns False."""

    def settle(self) -> None:
        """Wait until every commit that any worker began before this call has ended, or can no longer succeed."""


def signed_part(worker: str, bundle: LogBundle) -> bytes:
    """The bytes of a log bundle that a worker signs: the state of the log after this bundle."""
    return context(_SIGNED, worker, bundle.size, bundle.peaks, bundle.time)


def is_signed(worker: str, bundle: LogBundle, public: bytes) -> bool:
    """Whether the signature of a log bundle is right for a worker's public key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bundle.signature, signed_part(worker, bundle))
    except (ValueError, InvalidSignature):
        return False
    return True
