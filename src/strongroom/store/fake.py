"""A store in memory for tests: as strict as the contract allows, and able to fail on request.

The store raises for every misuse, even if another store would accept it: a wrong type, a malformed name, a write
outside the log, a commit that depends on the order of its effects, and use before `authenticate` or after `close`.
`Faults` makes the n-th call of a method fail before it does anything, or after its work is durable.

Committed data is in a `FakeDisk`, which outlives the store, so that a test can close it and open it again.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile

from strongroom.crypto import merkle_log
from strongroom.errors import (
    AuditUnavailable,
    ClockBehind,
    StoreUnavailable,
    StrongroomError,
    VaultExists,
    VaultMissing,
)
from strongroom.store import (
    ANY,
    CLOCK_LEEWAY,
    Commit,
    Delete,
    Effect,
    Expect,
    Head,
    HeadMac,
    Lost,
    Object,
    Purge,
    PutNew,
    Stale,
    Swap,
    Version,
    check_derived,
    check_effects,
)

_NAME = re.compile(r"[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*")
_WRITES = {"create", "copy", "commit", "put_if_absent", "compare_and_swap", "delete", "archive"}


@dataclass
class FakeDisk:
    """The durable part of a fake store: objects, log and head. If `busy` is set, `scrub` reports that it must wait."""

    objects: dict[str, tuple[Version, bytes | None]] = field(default_factory=dict)
    entries: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    head: Head = field(default_factory=lambda: Head(0, b"", 0, b""))
    version: Version = 0
    busy: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    _names: list[str] = field(default_factory=list, init=False, compare=False)
    _changes: tuple[Version, list[tuple[Version, str]]] = field(default=(-1, []), init=False, compare=False)

    def names(self) -> list[str]:
        """All names in order. Cached, since reading page by page would otherwise sort all names for each page."""
        if len(self._names) != len(self.objects):
            self._names = sorted(self.objects)
        return self._names

    def changes(self) -> list[tuple[Version, str]]:
        """The latest change of each object, in commit order. Cached until the next write."""
        version, found = self._changes
        if version != self.version or len(found) != len(self.objects):
            self._changes = self.version, sorted((version, name) for name, (version, _) in self.objects.items())
        return self._changes[1]

    def set(self, name: str, body: bytes | None) -> None:
        self.version += 1
        if name not in self.objects:
            insort(self._names, name)
        self.objects[name] = (self.version, body)

    def purge(self, prefix: str) -> None:
        names = self.names()
        first = bisect_left(names, prefix)
        gone = list(takewhile(lambda name: name.startswith(prefix), islice(names, first, None)))
        for name in gone:
            del self.objects[name]
        del names[first : first + len(gone)]

    def copied(self) -> FakeDisk:
        """A copy of this disk with the same content, as of one moment."""
        with self.lock:
            return FakeDisk(dict(self.objects), list(self.entries), self.head, self.version)


@dataclass
class _Fault:
    method: str
    nth: int
    after: bool
    error: type[StrongroomError]


class Faults:
    """The calls that are to fail. Several stores may share one; calls of one method are then counted together."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._planned: list[_Fault] = []
        self._down: dict[str, type[StrongroomError]] = {}
        self._guard = threading.Lock()

    def before(self, method: str, nth: int = 1, error: type[StrongroomError] | None = None) -> None:
        """Make the n-th call from now on fail before it does anything."""
        self._plan(method, nth, error, after=False)

    def after(self, method: str, nth: int = 1, error: type[StrongroomError] | None = None) -> None:
        """Make the n-th call from now on do its work durably and then fail. The caller does not get the result."""
        self._plan(method, nth, error, after=True)

    def down(self, method: str, error: type[StrongroomError] | None = None) -> None:
        """Make every call fail before it does anything, until `clear`."""
        self._down[_known(method)] = error or _usual(method)

    def clear(self) -> None:
        """Cancel all planned failures."""
        with self._guard:
            self._planned.clear()
            self._down.clear()

    def _plan(self, method: str, nth: int, error: type[StrongroomError] | None, *, after: bool) -> None:
        with self._guard:
            place = self.calls[_known(method)] + nth
            self._planned.append(_Fault(method, place, after, error or _usual(method)))

    @contextmanager
    def around(self, method: str) -> Iterator[None]:
        """Count a call of a method. If a failure is planned for it, fail before or after the work."""
        with self._guard:
            self.calls[method] += 1
            number = self.calls[method]
            due = [fault for fault in self._planned if (fault.method, fault.nth) == (method, number)]
            down = self._down.get(method)
        if down is not None:
            raise down("the store was told to be down")
        for fault in due:
            if not fault.after:
                raise fault.error("the store was told to fail before this call")
        try:
            yield
        finally:
            for fault in due:
                if fault.after:
                    raise fault.error("the store was told to fail after this call")


def _known(method: str) -> str:
    if method not in _WRITES and not callable(getattr(FakeStore, method, None)):
        raise ValueError(f"a store has no method {method}")
    return method


def _usual(method: str) -> type[StrongroomError]:
    return AuditUnavailable if method in _WRITES else StoreUnavailable


class FakeStores:
    """A backend whose locations are names of disks in memory."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.disks: dict[str, FakeDisk] = {}
        self._guard = threading.Lock()

    @classmethod
    def of(cls, disks: dict[str, FakeDisk]) -> FakeStores:
        """A backend on the same disks without planned failures, as another process would see them."""
        stores = cls()
        stores.disks = disks
        return stores

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> FakeStore:
        _check(location, str, "a location")
        with self.faults.around("create"):
            disk = FakeDisk()
            disk.head = Head(0, b"", 0, mac.sign(0, b"", 0))
            draft = FakeStore(disk, Faults())
            draft.authenticate(mac)
            draft.commit(entries, effects, time)
            with self._guard:
                if self.disks.setdefault(location, disk) is not disk:
                    raise VaultExists(f"{location} already holds a vault")
        store = self.open(location)
        store.authenticate(mac)
        return store

    def open(self, location: str) -> FakeStore:
        _check(location, str, "a location")
        with self.faults.around("open"):
            if location not in self.disks:
                raise VaultMissing(f"there is no vault in {location}")
            return FakeStore(self.disks[location], self.faults)

    def copy(self, location: str, target: str, progress: Callable[[int, int], None] | None = None) -> None:
        _check(location, str, "a location")
        _check(target, str, "a location")
        with self.faults.around("copy"):
            if location not in self.disks:
                raise VaultMissing(f"there is no vault in {location}")
            disk = self.disks[location].copied()
            with self._guard:
                if self.disks.setdefault(target, disk) is not disk:
                    raise VaultExists(f"{target} already holds a vault")
            if progress is not None:
                progress(1, 1)


class FakeStore:
    """A `Store` whose data is in a `FakeDisk`."""

    is_whole = True
    is_distant = False

    def __init__(self, disk: FakeDisk, faults: Faults) -> None:
        self.disk = disk
        self.faults = faults
        self._mac: HeadMac | None = None
        self._closed = False

    @contextmanager
    def _call(self, method: str) -> Iterator[FakeDisk]:
        if self._closed:
            raise StoreUnavailable("the store is closed", hint="open the store again")
        with self.disk.lock, self.faults.around(method):
            yield self.disk

    # Objects.

    def get(self, name: str) -> Object | None:
        _check_name(name)
        with self._call("get") as disk:
            found = disk.objects.get(name)
            return None if found is None else Object(name, *found)

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        _check(prefix, str, "a prefix")
        _check(after, str, "a name")
        _check_count(limit)
        with self._call("list") as disk:
            names = disk.names()
            first = bisect_right(names, after) if after >= prefix else bisect_left(names, prefix)
            page = takewhile(lambda name: name.startswith(prefix), names[first : first + limit])
            return [Object(name, *disk.objects[name]) for name in page]

    def names(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return [_without_body(found) for found in self.list(prefix, after, limit)]

    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        return self._derived("put_if_absent", PutNew(name, body), *given)

    def compare_and_swap(self, name: str, body: bytes, version: Version) -> Version:
        return self._derived("compare_and_swap", Swap(name, body, version))

    def delete(self, name: str, version: Version) -> Version:
        return self._derived("delete", Delete(name, version))

    def scope(self, name: str) -> str:
        _check(name, str, "a name")
        return ""

    def version(self, scope: str = "") -> Version:
        _check(scope, str, "a scope")
        with self._call("version") as disk:
            return disk.version

    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return [self.version(scope) for scope in scopes]

    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        _check(scope, str, "a scope")
        _check(after, int, "a version")
        _check_count(limit)
        with self._call("changes") as disk:
            changes = disk.changes()
            first = bisect_right(changes, after, key=lambda change: change[0])
            return [_without_body(Object(name, *disk.objects[name])) for _, name in changes[first : first + limit]]

    # The ledger.

    def authenticate(self, mac: HeadMac) -> None:
        with self._call("authenticate") as disk:
            mac.check(disk.head)
            self._mac = mac

    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        _check(time, int, "a time")
        for entry in entries:
            _check(entry, bytes, "an entry")
        _check_commit(entries, effects)
        with self._call("commit") as disk:
            mac = self._writable()
            mac.check(disk.head)
            if time < disk.head.time - CLOCK_LEEWAY and not accept_clock:
                raise ClockBehind("this machine's clock is far behind the log's latest entry")
            if any(version != disk.version for version in since.values()):
                raise Stale({"": disk.version})
            _check_conditions(disk, effects)
            first = disk.head.size
            _apply(disk, effects)
            _append(disk, mac, entries, time if accept_clock else max(disk.head.time, time))
            return Commit(first, disk.version)

    def head(self) -> Head:
        with self._call("head") as disk:
            return disk.head

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        _check(start, int, "an index")
        _check(stop, int, "an index")
        with self._call("entries") as disk:
            numbers = range(max(start, 0), min(stop, len(disk.entries)))
            return iter([(number, *disk.entries[number]) for number in numbers])

    def archive(self, stop: int) -> None:
        _check(stop, int, "an index")
        with self._call("archive") as disk:
            self._writable()
            disk.entries[:stop] = [(leaf, None) for leaf, _ in disk.entries[:stop]]

    def scrub(self) -> bool:
        with self._call("scrub") as disk:
            return not disk.busy

    def close(self) -> None:
        self._closed = True

    def _writable(self) -> HeadMac:
        if self._mac is None:
            raise AuditUnavailable("the vault's keys are not open, so nothing can be logged")
        return self._mac

    def _derived(self, method: str, effect: PutNew | Swap | Delete, *given: Expect) -> Version:
        _check_effect(effect)
        check_derived(effect.name)
        with self._call(method) as disk:
            self._writable().check(disk.head)
            _check_conditions(disk, [*given, effect])
            _apply(disk, [effect])
            return disk.version


# Checks of arguments.


def _check(value: object, kind: type, what: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{what} must be {kind.__name__}, not {type(value).__name__}")


def _check_name(name: str) -> None:
    _check(name, str, "a name")
    if not _NAME.fullmatch(name):
        raise ValueError("an object's name must be segments of A-Z a-z 0-9 . _ @ + - joined by /")


def _check_count(limit: int) -> None:
    _check(limit, int, "a limit")
    if limit < 1:
        raise ValueError("the limit must be at least 1")


def _check_commit(entries: Sequence[bytes], effects: Sequence[Effect]) -> None:
    for effect in effects:
        _check_effect(effect)
    check_effects(effects)
    changed = [effect.name for effect in effects if isinstance(effect, PutNew | Swap | Delete)]
    purged = tuple(effect.prefix for effect in effects if isinstance(effect, Purge))
    if any(name.startswith(purged) for name in changed):
        raise ValueError("a commit may not both purge and change the same object")
    if purged and not changed:
        raise ValueError(
            "a commit with a purge must also change an object outside it, or no follower would see the purge"
        )
    if not entries:
        for name in [*changed, *purged]:
            check_derived(name)


def _check_effect(effect: Effect) -> None:
    if isinstance(effect, Purge):
        _check(effect.prefix, str, "a prefix")
        if not effect.prefix.endswith("/"):
            raise ValueError("the prefix of a purge must end with /")
        return
    _check_name(effect.name)
    if isinstance(effect, PutNew | Swap):
        _check(effect.body, bytes, "a body")
    if isinstance(effect, Swap | Delete | Expect):
        _check(effect.version, int, "a version")


# Effects, after all checks.


def _check_conditions(disk: FakeDisk, effects: Sequence[Effect]) -> None:
    for effect in effects:
        if isinstance(effect, Purge):
            continue
        version, body = disk.objects.get(effect.name, (0, None))
        wanted = 0 if isinstance(effect, PutNew) else effect.version
        if version != wanted or (isinstance(effect, Swap | Delete) and body is None):
            raise Lost(effect.name)


def _without_body(found: Object) -> Object:
    return found if found.body is None else Object(found.name, found.version, b"")


def _apply(disk: FakeDisk, effects: Sequence[Effect]) -> None:
    for effect in effects:
        if isinstance(effect, Purge):
            disk.purge(effect.prefix)
        elif not isinstance(effect, Expect):
            disk.set(effect.name, None if isinstance(effect, Delete) else effect.body)


def _append(disk: FakeDisk, mac: HeadMac, entries: Sequence[bytes], time: int) -> None:
    edge = merkle_log.Range.of(disk.head.size, disk.head.peaks)
    for entry in entries:
        leaf = merkle_log.leaf_hash(entry)
        disk.entries.append((leaf, entry))
        edge.append(leaf)
    disk.head = Head(edge.size, edge.packed(), time, mac.sign(edge.size, edge.packed(), time))
