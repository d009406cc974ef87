"""The store: keeps sealed objects by name, and commits a decision and its effects together, durably.

It sees ciphertext and opaque names only. Two interfaces, one object:

* objects: `get`, `list`, `put_if_absent`, `compare_and_swap`, `delete`, `changes`;
* the ledger: `commit(entries, effects)` appends log entries and applies effects in one step.

Rules for every backend, checked by `strongroom.store.conformance`:

* What a call has written is durable when it returns. After Unavailable the write may or may not have happened; repeat
  the call to find out. If `is_whole` is true, a commit is written as a whole or not at all. In other stores, a commit
  that failed may have written some of its objects.
* Deleting an object removes its body and leaves a tombstone: the name stays taken for ever. Only `Purge` removes names,
  and another effect of the same commit must announce the purge.
* Each change gives an object a new version. `changes` lists the changes in one part of the store (a scope), in the
  order of increasing numbers.
* A missing object is None. A broken store raises Unavailable (try again) or Tampered (stop).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install

GROUP = "strongroom.stores"
"""The entry point group in which all stores register, including the built-in ones."""

Version = int

Runs = Sequence[tuple[int, int]]
"""Ranges of numbers. Each is a pair: the first number, and the number after the last."""

ANY: Mapping[str, Version] = {}
"""The default for `since` in `commit`: no check of what has changed."""

CLOCK_LEEWAY = 30_000
"""The most, in ms, by which a commit's time may be earlier than the time of the log's latest entry."""


class Object(msgspec.Struct, frozen=True, gc=False):
    """One stored object. A `body` of None is a tombstone."""

    name: str
    version: Version
    body: bytes | None


class PutNew(msgspec.Struct, frozen=True, gc=False):
    """Create an object; its name must never have been used.

    `is_new`: the caller has just made the name at random, so the store may skip the check of earlier use.
    """

    name: str
    body: bytes
    is_new: bool = False


class Swap(msgspec.Struct, frozen=True, gc=False):
    """Replace an object. The object must still be at `version`."""

    name: str
    body: bytes
    version: Version


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Turn an object into a tombstone. The object must still be at `version`."""

    name: str
    version: Version


class Purge(msgspec.Struct, frozen=True, gc=False):
    """Remove every object whose name starts with `prefix`, including tombstones."""

    prefix: str


class Expect(msgspec.Struct, frozen=True, gc=False):
    """A condition without a change: fail unless the object is still at `version` (0: the object does not exist)."""

    name: str
    version: Version


Effect = PutNew | Swap | Delete | Purge | Expect


class Lost(Exception):
    """The condition of an effect does not hold, because another commit was first.

    If the store's `is_whole` is true, nothing was written. Not part of the public error tree: each caller of `commit`
    handles it.
    """

    def __init__(self, name: str) -> None:
        super().__init__("an object has changed")
        self.name = name


class Stale(Lost):
    """A scope has changed since the version that the commit was decided on (optimistic concurrency).

    `latest` holds the version of each scope, read just now. It is empty if the store found the conflict without
    reading.
    """

    def __init__(self, latest: Mapping[str, Version]) -> None:
        super().__init__("")
        self.latest = latest


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The result of a commit: the index of its first log entry, and the store's version after its last effect."""

    first: int
    version: Version


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A commit still to be made: the arguments of `Store.commit`."""

    entries: Sequence[bytes]
    effects: Sequence[Effect]
    time: int
    since: Mapping[str, Version] = {}


class Head(msgspec.Struct, frozen=True, gc=False):
    """The log's state: its size, the right edge of its Merkle tree, its latest entry's time, and a MAC over these."""

    size: int
    peaks: bytes
    time: int
    mac: bytes


class HeadMac(Protocol):
    """Makes and checks the MAC over the log's head. The store keeps the MAC, but only the vault's keys can make one."""

    def sign(self, size: int, peaks: bytes, time: int) -> bytes:
        """Return the MAC of a head."""

    def check(self, head: Head) -> None:
        """Raise Tampered if the head's MAC is wrong."""

    def certify(self, worker: str, public: bytes) -> bytes:
        """Return the vault's signature on the key with which a worker (one of several servers) signs its log."""

    def done(self, done: Runs, undone: Runs, time: int) -> bytes:
        """Return a log entry that states which earlier entries were carried out and which had no effect."""


class Backend(Protocol):
    """A backend: the object registered under the backend's name in the entry point group `strongroom.stores`."""

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> Store:
        """Create a store with its first commit, whole or not at all. Raises VaultExists if `location` is taken."""

    def open(self, location: str) -> Store:
        """Open the store at `location`. VaultMissing if there is no store."""

    def copy(self, location: str, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the store at `location`, as of one moment, to a `target` that does not exist yet.

        Needs no keys. Other processes may go on writing: the copy holds every commit made before the call, and each
        commit whole or not at all. On return the copy is durable; if the call fails, there is no copy. Raises
        VaultMissing, VaultExists for the target, or Tampered if the bytes are not a store. `progress` is called with
        the amount done and the total.
        """


def backend(location: str) -> tuple[Backend, str]:
    """Return the backend for a location, and the place as that backend calls it.

    A location is `name://place`, or a plain path for SQLite.
    """
    name, separator, place = location.partition("://")
    if not separator:
        name, place = "sqlite", location
    if location.lower().startswith("s3:") and not is_bucket(location):
        raise InvalidRequest(
            "the vault's location begins like a bucket's, but is not one", hint="write s3://bucket/prefix"
        )
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise InvalidRequest(
            f"no store backend called {name} is installed",
            hint="install its package, or give a plain path for a SQLite vault",
        )
    try:
        registered: Backend = found[0].load()
    except ModuleNotFoundError as error:
        install = how_to_install("s3") if name == "s3" else "install what the package of this store requires"
        raise InvalidRequest(
            f"the store backend {name} needs the Python module {error.name}, which is not installed", hint=install
        ) from None
    return registered, place


def is_bucket(location: str) -> bool:
    """Whether a location names a bucket, so that the vault has no files of its own."""
    return location.startswith("s3://")


def check_effects(effects: Sequence[Effect]) -> None:
    """Refuse a commit that depends on the order of its effects, or that followers of `changes` would not see."""
    names = [effect.name for effect in effects if not isinstance(effect, Purge)]
    if len(set(names)) < len(names):
        raise ValueError("a commit may touch each object once")
    if len(names) < len(effects):
        _check_purges(effects)


def _check_purges(effects: Sequence[Effect]) -> None:
    purged = tuple(effect.prefix for effect in effects if isinstance(effect, Purge))
    changed = [effect.name for effect in effects if not isinstance(effect, Purge | Expect)]
    if not changed:
        raise ValueError(
            "a commit with a purge must also change an object outside it, or no follower would see the purge"
        )
    if any(name.startswith(purged) for name in changed):
        raise ValueError("a commit may not both purge and change the same object")


def is_derived(name: str) -> bool:
    """Whether an object is derived data: it can be made again from other objects at any time."""
    return "/derived/" in name


def check_derived(name: str) -> None:
    """Raise an error if the object is not derived data. Any other write needs a log entry."""
    if not is_derived(name):
        raise ValueError("only derived data may be written without a log entry")


class Store(Protocol):
    """The contract of a backend. Every method may be called from any thread."""

    is_whole: bool
    """Whether a commit is atomic: all of its effects or none, and all of its conditions hold at one moment."""
    is_distant: bool
    """Whether reads are network requests. Then event loops must not wait for reads, and derived data is not stored."""

    def get(self, name: str) -> Object | None:
        """The object or its tombstone. None if the name was never used or was purged."""

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        """Objects and tombstones whose names start with `prefix` and come after `after`, in name order."""

    def names(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        """Like `list`, but without reading bodies: `body` is b"" for an object and None for a tombstone."""

    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        """Create an object outside the log (derived data only).

        Raises Lost if the object exists, or if a condition in `given` does not hold.
        """

    def compare_and_swap(self, name: str, body: bytes, version: Version) -> Version:
        """Replace an object outside the log (derived data only). Raises Lost if the object's version is another."""

    def delete(self, name: str, version: Version) -> Version:
        """Turn an object into a tombstone outside the log (derived data only).

        Raises Lost if the object's version is another.
        """

    def scope(self, name: str) -> str:
        """The scope of `name`: the part of the store whose changes are followed together.

        Empty if the whole store is one scope.
        """

    def version(self, scope: str = "") -> Version:
        """The number of the latest change in a scope, including every commit made before the call.

        Reads after this call see at least that change.
        """

    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        """Like `version`, for several scopes at once."""

    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        """Objects and tombstones whose latest change is newer than `after`, in commit order, without bodies.

        An object that changed twice appears once, and an object that is gone appears as a tombstone. `body` is b"" for
        an object and None for a tombstone. The version is the number of the change.
        """

    def authenticate(self, mac: HeadMac) -> None:
        """Set the key that signs and checks the log's head. Raises Tampered if the current head fails the check.

        Before this call everything can be read, but nothing can be written.
        """

    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        """Append `entries` to the log and apply `effects`, all or nothing, durable on return.

        All conditions are checked before any effect is applied, and a commit touches each name once. Raises Lost if a
        condition does not hold, and AuditUnavailable if nothing could be written. Raises ClockBehind if `time` (ms) is
        more than `CLOCK_LEEWAY` before the log's latest entry; with `accept_clock`, `time` becomes the log's latest
        time instead.

        `since` maps scopes to the versions on which the caller decided without a fresh read (optimistic concurrency).
        Raises Stale if a scope has changed. A store in a bucket checks the scopes while it writes the log, so the entry
        of a commit that failed may stay in the log. Concurrent commits may share one transaction (group commit); each
        succeeds or fails by itself.
        """

    def head(self) -> Head:
        """Return the state of the log, with its MAC."""

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """The log from `start` up to `stop`, in order: index, leaf hash and entry. An archived entry is None."""

    def archive(self, stop: int) -> None:
        """Drop the entries below `stop`. Their leaf hashes and the Merkle tree stay."""

    def scrub(self) -> bool:
        """Remove deleted bytes that are still in journals. False if another process uses a journal: try again."""

    def close(self) -> None:
        """Close files and connections. Calling `close` twice is harmless."""


@runtime_checkable
class OnDisk(Protocol):
    """Additional methods of a backend that keeps its objects in files of this machine. Optional."""

    def directory(self) -> Path:
        """The directory of the store's files."""

    def scrub_is_due(self) -> bool:
        """Whether a scrub (removal of deleted bytes) was begun and not finished, by any process, running or not."""


@runtime_checkable
class Grouping(Protocol):
    """Additional methods of a backend that gathers commits (group commit). Optional."""

    def commit_all(self, pending: Sequence[Pending]) -> Sequence[Commit | Exception]:
        """Make several commits, in one transaction if possible. Each commit succeeds or fails by itself."""

    def group_sizes(self) -> tuple[Mapping[int, int], int]:
        """Counts since start: groups by size (rounded up to a power of two), and requests in all groups together."""
