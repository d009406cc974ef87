"""The store: keeps sealed objects by name, and commits a decision and its effects together, durably.

It sees ciphertext and opaque names only. Two interfaces, one object:

* objects: `get`, `list`, `put_if_absent`, `compare_and_swap`, `delete`, `changes`;
* the ledger: `commit(entries, effects)` appends log entries and applies effects in one step.

Rules for every backend, checked by `strongroom.store.conformance`:

* A call that returned is durable. After Unavailable the write is there or absent, and repeating the call finds out. A
  store that `is_whole` has all of a commit or nothing of it; another may have some of its objects.
* Deleting leaves a tombstone under the same name for ever: the body is gone, the name stays taken.
  Only `Purge` removes names, and it must be announced by another effect of the same commit.
* An object's version changes with it. `changes` follows a part of the store, its scope, by increasing numbers.
* A missing object is None. A broken store raises: Unavailable to try again, Tampered to stop.
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
"""The entry point group in which stores register, the built-in ones too."""

Version = int

Runs = Sequence[tuple[int, int]]
"""Runs of numbers, each as its first and the one after its last."""

ANY: Mapping[str, Version] = {}
"""No condition on what has changed since."""

CLOCK_LEEWAY = 30_000
"""How far, in ms, a commit's time may lie before the log's latest entry."""


class Object(msgspec.Struct, frozen=True, gc=False):
    """One stored object. A `body` of None is a tombstone."""

    name: str
    version: Version
    body: bytes | None


class PutNew(msgspec.Struct, frozen=True, gc=False):
    """Create an object; its name must never have been used.

    `is_new` says that the name was just made at random, so that a check of earlier use can be skipped.
    """

    name: str
    body: bytes
    is_new: bool = False


class Swap(msgspec.Struct, frozen=True, gc=False):
    """Replace an object that is still at `version`."""

    name: str
    body: bytes
    version: Version


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Turn an object that is still at `version` into a tombstone."""

    name: str
    version: Version


class Purge(msgspec.Struct, frozen=True, gc=False):
    """Remove every object whose name starts with `prefix`, tombstones too."""

    prefix: str


class Expect(msgspec.Struct, frozen=True, gc=False):
    """Change nothing, but fail unless the object is still at `version` (0: it does not exist)."""

    name: str
    version: Version


Effect = PutNew | Swap | Delete | Purge | Expect


class Lost(Exception):
    """An effect's condition did not hold: another commit was first. A store that `is_whole` has written nothing.

    Not part of the public error tree: each caller of `commit` handles it.
    """

    def __init__(self, name: str) -> None:
        super().__init__("an object has changed")
        self.name = name


class Stale(Lost):
    """A scope has changed since the version that the commit was decided on (optimistic concurrency).

    `latest` is the version of each scope just read; empty if the conflict was found without reading.
    """

    def __init__(self, latest: Mapping[str, Version]) -> None:
        super().__init__("")
        self.latest = latest


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The result of a commit: the index of its first log entry, and the version after its last effect."""

    first: int
    version: Version


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A commit still to be made: the arguments of `Store.commit`."""

    entries: Sequence[bytes]
    effects: Sequence[Effect]
    time: int
    since: Mapping[str, Version] = {}


class Head(msgspec.Struct, frozen=True, gc=False):
    """The log's state: size, the tree's right edge, the time of its latest entry, and a MAC over them."""

    size: int
    peaks: bytes
    time: int
    mac: bytes


class HeadMac(Protocol):
    """Authenticates the log's head. The store keeps the MAC; making one takes the vault's keys."""

    def sign(self, size: int, peaks: bytes, time: int) -> bytes:
        """The MAC of a head."""

    def check(self, head: Head) -> None:
        """Raise Tampered unless the head's MAC is right."""

    def certify(self, worker: str, public: bytes) -> bytes:
        """The vault's signature on the log key of one of several workers."""

    def done(self, done: Runs, undone: Runs, time: int) -> bytes:
        """An entry stating which entries of a log were carried out, and which had no effect."""


class Backend(Protocol):
    """The object that a backend registers under its name in the entry point group `strongroom.stores`."""

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> Store:
        """Create a store at `location` with a first commit in it, whole or not at all. VaultExists if there is one."""

    def open(self, location: str) -> Store:
        """Open the store at `location`. VaultMissing if there is none."""

    def copy(self, location: str, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the store at `location`, as of one moment, to a `target` that does not exist yet.

        Needs no keys. Others may write meanwhile and are not refused: commits made before the call are in the copy, and
        none is there in part. The copy is durable on return, whole or not there at all. Raises VaultMissing,
        VaultExists for the target, or Tampered if the bytes are not a store. `progress` is called with the amount done
        and the total.
        """


def backend(location: str) -> tuple[Backend, str]:
    """The backend for a location, and its own name for the place: `name://place`, or a path for SQLite."""
    name, separator, place = location.partition("://")
    if not separator:
        name, place = "sqlite", location
    if location.lower().startswith("s3:") and not is_bucket(location):
        raise InvalidRequest("this is written almost as a bucket is", hint="write s3://bucket/prefix")
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise InvalidRequest(f"no store called {name} is installed", hint="a plain path is a SQLite vault")
    try:
        registered: Backend = found[0].load()
    except ModuleNotFoundError as error:
        install = how_to_install("s3") if name == "s3" else "install what the package of this store requires"
        raise InvalidRequest(f"the store {name} needs {error.name}, which is not installed", hint=install) from None
    return registered, place


def is_bucket(location: str) -> bool:
    """Whether a vault is in a bucket, without files of its own."""
    return location.startswith("s3://")


def check_effects(effects: Sequence[Effect]) -> None:
    """Refuse a commit whose outcome would depend on the order of its effects, or that followers would not see."""
    names = [effect.name for effect in effects if not isinstance(effect, Purge)]
    if len(set(names)) < len(names):
        raise ValueError("a commit may touch each object once")
    if len(names) < len(effects):
        _check_purges(effects)


def _check_purges(effects: Sequence[Effect]) -> None:
    purged = tuple(effect.prefix for effect in effects if isinstance(effect, Purge))
    changed = [effect.name for effect in effects if not isinstance(effect, Purge | Expect)]
    if not changed:
        raise ValueError("a purge must be announced by a change, or no follower would see it")
    if any(name.startswith(purged) for name in changed):
        raise ValueError("a purge and a change of the same object depend on their order")


def is_derived(name: str) -> bool:
    """Whether an object can be made again from others at any time."""
    return "/derived/" in name


def check_derived(name: str) -> None:
    """Refuse to write anything but derived data outside the log, since it would not be recorded."""
    if not is_derived(name):
        raise ValueError("only derived data may be written without a log entry")


class Store(Protocol):
    """The contract of a backend. Every method may be called from any thread."""

    is_whole: bool
    """Whether commits are atomic, with all of a commit's conditions holding at one moment."""
    is_distant: bool
    """Whether reads are network requests: event loops must not wait for them, and derived data is not stored."""

    def get(self, name: str) -> Object | None:
        """The object, a tombstone, or None if the name was never used (or purged)."""

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        """Objects and tombstones whose name starts with `prefix` and is greater than `after`, in name order."""

    def names(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        """As `list`, without reading bodies: `body` is b"" for an object and None for a tombstone."""

    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        """Create an object outside the log (derived data only). Lost if it exists, or if a `given` does not hold."""

    def compare_and_swap(self, name: str, body: bytes, version: Version) -> Version:
        """Replace an object outside the log (derived data only), or raise Lost."""

    def delete(self, name: str, version: Version) -> Version:
        """Turn an object into a tombstone outside the log (derived data only), or raise Lost."""

    def scope(self, name: str) -> str:
        """The part of the store that is followed together with `name`; empty if the store is one part."""

    def version(self, scope: str = "") -> Version:
        """The number of the latest change in a scope, including everything committed before the call.

        Later reads are at least as new as the last such call for their scope.
        """

    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        """As `version`, for several scopes at once."""

    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        """Objects and tombstones whose latest change is newer than `after`, in commit order, without bodies.

        An object that changed twice appears once. One that is gone, or never was, appears as a tombstone. `body` is b""
        for an object and None for a tombstone; the version is the change's number.
        """

    def authenticate(self, mac: HeadMac) -> None:
        """Set the key that signs and checks the head. Tampered if the current head is not authentic.

        Before this call everything can be read and nothing written.
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
        condition does not hold; ClockBehind if `time` (ms) lies more than the leeway before the log's latest entry,
        except with `accept_clock`, which makes it the latest; AuditUnavailable if nothing could be written.

        `since` are scopes and the versions on which the caller decided without a fresh read (optimistic concurrency):
        Stale if one of them has changed. A distant store reads them while it writes its log, where an unused intent may
        then remain. Concurrent commits may share one transaction (group commit); each succeeds or fails by itself.
        """

    def head(self) -> Head:
        """The log's authenticated state."""

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Index, leaf hash and entry (None once archived) of the log from `start` up to `stop`, in order."""

    def archive(self, stop: int) -> None:
        """Drop the entries below `stop`. Their leaf hashes stay, and so does the tree."""

    def scrub(self) -> bool:
        """Remove what deleted bytes left in journals. False if another process kept them busy; try again."""

    def close(self) -> None:
        """Close files and connections. Idempotent."""


@runtime_checkable
class OnDisk(Protocol):
    """Additional methods of a backend that keeps its objects in files of this machine. Optional."""

    def directory(self) -> Path:
        """The directory of its files."""

    def scrub_is_due(self) -> bool:
        """Whether a scrub was begun and not finished, in this or another process, even one that has ended since."""


@runtime_checkable
class Grouping(Protocol):
    """Additional methods of a backend that gathers commits (group commit). Optional."""

    def commit_all(self, pending: Sequence[Pending]) -> Sequence[Commit | Exception]:
        """Make several commits, in one transaction if possible. Each succeeds or fails by itself, as in `commit`."""

    def group_sizes(self) -> tuple[Mapping[int, int], int]:
        """The number of groups by size (rounded up to a power of two), and of the requests in all of them."""
