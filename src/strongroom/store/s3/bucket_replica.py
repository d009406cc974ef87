"""Views: a process's replica of a part of the bucket, and how it learns of others' writes.

A part is the vault's own objects, or one actor's. After `refresh`, a view includes everything that was acknowledged to
anybody before the call. Changes are numbered per process, increasing, so that a follower can ask for newer ones.

A view never goes back. If a list shows an object older than known, or missing without a tombstone, the bucket is read
once more, because a list takes time and is not of one moment. If it is still so, that is Tampered, and the view keeps
what it knew.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import takewhile

from strongroom.errors import StoreUnavailable, Tampered
from strongroom.store import Object, Version, is_derived
from strongroom.store.s3 import object_names, packs
from strongroom.store.s3.bucket import Bucket, BucketListing, as_listed
from strongroom.store.s3.known_objects import Known, by_itself, either, in_packs, merge_known, read_packs
from strongroom.store.s3.object_names import ActorHead, Table
from strongroom.store.s3.packs import Pack
from strongroom.store.s3.rollback_guard import Past, is_as_new, moment

_TRIES = 8
_ROOM = 1 << 40
"""The range of change numbers of each view. A later view's numbers are all greater."""
_PACKS = "/packs/"
_LINES = "/lines/"
_A_WHILE = 60_000
"""How long, in ms, a process relies on announcements alone. Bounds how long deleting them can hide a revocation."""


class View(ABC):
    """The common part of both views. Thread-safe."""

    def __init__(self, bucket: Bucket, which: int, past: Past) -> None:
        self._bucket = bucket
        self._past = past
        self._since = 0
        """The moment at which the present round began."""
        self.guard = threading.Condition(threading.RLock())
        self.objects: dict[str, Known] = {}
        self._changed: dict[str, int] = {}
        """The number of each object's last change, in that order."""
        self._altered: set[int] = set()
        """Changes that replaced the content of a line, which only an attacker or a broken bucket does."""
        self.latest = which * _ROOM
        self._own: dict[str, int] = {}
        """The round in which this process wrote an object. That round's list may lack the write."""
        self._begun = 0
        self._finished = 0
        self._running = False

    def refresh(self) -> int:
        """Read the bucket, and return the number of the latest change.

        Concurrent callers share a round, if it begins after their call (coalescing).
        """
        with self.guard:
            mine = self._begun + 1
            while self._finished < mine:
                if not self._running:
                    self._running = True
                    self._begun += 1
                    self._since = moment()
                    break
                self.guard.wait()
            else:
                return self.latest
            current = self._begun
        has_looked = False
        try:
            self._look(current)
            has_looked = True
        finally:
            with self.guard:
                self._running = False
                if has_looked:  # otherwise each waiting thread starts a round itself
                    self._finished = max(self._finished, current)
                self.guard.notify_all()
        return self.latest

    @property
    def is_looked_at(self) -> bool:
        """Whether the view has been refreshed at least once."""
        return self._finished > 0

    @abstractmethod
    def _look(self, current: int) -> None:
        """Bring the view up to date; `current` is the number of this round."""

    def changes(self, after: int, limit: int) -> Sequence[Object]:
        """The changes after a number, in order, with the number as version."""
        with self.guard:
            newer = list(takewhile(lambda one: one[1] > after, reversed(self._changed.items())))
            return [change for name, number in newer[: -limit - 1 : -1] for change in self._changes_of(name, number)]

    def _changes_of(self, name: str, number: int) -> Iterator[Object]:
        known = self.objects.get(name)
        is_gone = known is None or known.is_gone
        if not is_gone and number in self._altered:
            yield Object(name, number, None)  # a tombstone: a follower must drop what it read before
        yield Object(name, number, None if is_gone else b"")

    def wrote(self, name: str, place: str, known: Known, before: Known | None) -> int:
        """Record what this process has just written to a place over `before`. Returns the number of the change.

        Does nothing if a refresh or another thread has got further, or if the place's generation was purged meanwhile.
        """
        with self.guard:
            if self.objects.get(name) != before or not self._counts(place):
                return self._changed.get(name, 0)
            self.objects[name] = known
            self._own[name] = self._begun
            self._is_over(name, before)
            return self._note(name)

    def _counts(self, place: str) -> bool:  # noqa: ARG002
        """Whether objects at a place belong to this view."""
        return True

    def _note(self, name: str) -> int:
        self._altered.discard(self._changed.pop(name, 0))
        self.latest += 1
        self._changed[name] = self.latest
        return self.latest

    def _is_over(self, name: str, before: Known | None) -> None:
        """Remember a replaced version. Lines are left out: they end with a tombstone, which is known as such."""
        if before is not None and not before.is_gone and _LINES not in name:
            self._past.replaced(name, before.version)

    def is_past(self, name: str, version: Version) -> bool:
        """Whether this version of an object has been replaced."""
        return self._past.has_replaced(name, version, moment())

    def _is_back(self, name: str, known: Known | None, current: int) -> bool:
        """Whether this round found an object older than it is known to be."""
        before = self.objects.get(name)
        if before is None or self._own.get(name, -1) >= current or is_derived(name):
            return False
        if known is None or (before.is_gone and not known.is_gone):
            return True
        return known.version != before.version and self._past.has_replaced(name, known.version, self._since)

    def _took(self, name: str, before: Known | None, known: Known | None) -> None:
        """Record a change that a refresh found, if it is one."""
        if before is None or known is None or before[:2] != known[:2]:
            self._is_over(name, before)
            number = self._note(name)
            if _LINES in name and before is not None and known is not None and not before.is_gone:
                self._altered.add(number)

    def _take(self, found: Mapping[str, Known], current: int) -> None:
        """Replace the view's objects by those that a round found. The guard is held."""
        self._own = {name: began for name, began in self._own.items() if began >= current}
        merged = dict(found)
        merged.update({name: self.objects[name] for name in self._own if name in self.objects})
        for name, known in merged.items():
            self._took(name, self.objects.get(name), known)
        vanished = self.objects.keys() - merged.keys()
        self.objects = merged
        for name in vanished:
            self._note(name)


class VaultView(View):
    """The vault's own objects, except for the records of caps, which are looked up one by one."""

    def __init__(self, bucket: Bucket, which: int, now: Callable[[], int]) -> None:
        super().__init__(bucket, which, Past())
        self._now = now
        self._heard = 0
        self._loaded = -1
        self._loaded_at = 0
        self._is_deaf = False
        """Whether the last known announcement is gone. New ones may then have any number, so every refresh is full."""
        self._doubts = 0
        """Incremented by `doubt`. The view is complete if it was loaded at the present count."""

    def _look(self, current: int) -> None:
        doubts, now = self._doubts, self._now()
        is_recent = not self._is_deaf and 0 <= now - self._loaded_at < _A_WHILE
        if is_recent and self._loaded == doubts and self._bucket.get(self.next_news()) is None:
            return  # announcements have no gaps; asking for the next one is cheaper than a list
        heard = self._newest()
        found = {one.name: by_itself(one) for one in self._bucket.list(object_names.VAULT)}
        with self.guard:
            if back := next((name for name in self.objects if self._is_back(name, found.get(name), current)), ""):
                raise _put_back(f"the vault's own {back}")
            self._take(found, current)
            self._heard = max(heard, self._heard)
            self._loaded = -1 if self._own else doubts  # a change under an own write may be missing
            self._loaded_at = now

    def _newest(self) -> int:
        """The number of the last announcement without a gap before it. Later ones do not count as announced."""
        known = heard = self._heard
        there = {
            one.name for one in self._bucket.list(object_names.NEWS, object_names.news(known - 1) if known > 1 else "")
        }
        self._is_deaf = known > 0 and object_names.news(known) not in there
        while object_names.news(heard + 1) in there:
            heard += 1
        return heard

    def doubt(self) -> None:
        """Make the next refresh a full one: a worker may have died between a change and its announcement."""
        with self.guard:
            self._doubts += 1

    def next_news(self) -> str:
        """The name of the next announcement, as far as known."""
        return object_names.news(self._heard + 1)

    def announced(self, name: str) -> None:
        """Record an announcement that this process made, the next after the last known one."""
        with self.guard:
            self._heard = max(self._heard, int(name.removeprefix(object_names.NEWS)))


class ActorView(View):
    """The objects of one actor: those of the present generation, in packs or outside them."""

    def __init__(self, bucket: Bucket, which: int, locator: str, threads: Executor, past: Past) -> None:
        super().__init__(bucket, which, past)
        self.locator = locator
        self._threads = threads
        self.head = ActorHead()
        self.head_etag = ""
        self.packs: dict[str, Pack] = {}
        self.claims: dict[str, str] = {}
        self.left_over: list[str] = []
        """Objects of purged generations, to be deleted by any process that sees them."""
        self._last: dict[str, str] = {}
        """The last list: etags by places."""
        self._in_packs: dict[str, Known] = {}
        self.bytes = 0
        """The approximate size of the packs in RAM."""

    @property
    def prefix(self) -> str:
        return f"{object_names.ACTORS}{self.locator}/"

    @property
    def table(self) -> Table:
        return self.head.table

    def wrote_head(self, head: ActorHead, etag: str, before: str) -> int:
        """Record keys that this process has just written over the head `before`. Returns the number of the change.

        After a purge, or if a refresh or another thread has got further, it refreshes instead.
        """
        with self.guard:
            if head.table == self.head.table and self.head_etag == before:
                self._have_head(head, etag)
                return self._take_keys()
        return self.refresh()

    def _have_head(self, head: ActorHead, etag: str) -> None:
        """Set a head that is newer than the known one. The guard is held."""
        if etag != self.head_etag:
            self._past.replaced(object_names.AT, object_names.version_of(self.head_etag))
        self._past.reached(head.table)
        self.head, self.head_etag = head, etag

    def _is_head_back(self, head: ActorHead, etag: str) -> bool:
        is_replaced = self._past.has_replaced(object_names.AT, object_names.version_of(etag), self._since)
        return is_replaced or not is_as_new(head.table, self._past.floor(self._since))

    def _take_keys(self) -> int:
        """Set the keys to those of the head. The guard is held."""
        name = f"{self.prefix}{object_names.KEYS}"
        known = _keys_in(self.head, self.head_etag)
        if known is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = known
        return self._note(name)

    def _counts(self, place: str) -> bool:
        found = object_names.below(place, self.table)
        return found is not None and found.is_current

    def wrote(self, name: str, place: str, known: Known, before: Known | None) -> int:
        with self.guard:
            self._last[place] = ""  # an etag that no list has, so that the next list shows a change
            return super().wrote(name, place, known, before)

    def places(self) -> Sequence[str]:
        """The places in the last list, and those written since."""
        with self.guard:
            return list(self._last)

    def look_at_head(self) -> None:
        """Refresh only if the head has changed. Enough for commits that need keys and generations, but no lines."""
        found = self._bucket.get(self.prefix + object_names.AT)
        with self.guard:
            if self.head_etag == ("" if found is None else found.etag):
                return
        self.refresh()

    def _look(self, current: int) -> None:
        doubted = ""
        for _ in range(_TRIES):
            known = self.head_etag
            listed = self._bucket.list(self.prefix)
            if self._see_little(listed, current):
                return None
            if (now := self._head(listed)) is None:
                continue
            head, etag = now
            loose, packed = _split(listed, head.table)
            if (held := self._packs(packed)) is None:
                continue
            keys = _keys_in(head, etag)
            found = loose if keys is None else {**loose, f"{self.prefix}{object_names.KEYS}": keys}
            with self.guard:
                if self.head_etag != known:
                    continue  # this process wrote meanwhile: the list may be older
                back = self._back(head, etag, merge_known(loose, in_packs(held)), current)
                if not back:
                    return self._see(current, head, etag, found, packed, held, listed)
            if doubted:
                raise _put_back(back)
            doubted = back  # or it was purged while the list was made: the next list shows that
        raise StoreUnavailable("the bucket kept changing while it was read", hint="try again")

    def _back(self, head: ActorHead, etag: str, found: Mapping[str, Known], current: int) -> str:
        """The name of an object that is older than known; empty if there is none. The guard is held."""
        if self._is_head_back(head, etag):
            return f"the head of {self.prefix}"
        for name in self.objects:
            is_purged = head.table != self.table and object_names.actor_place(
                name, head.table
            ) != object_names.actor_place(name, self.table)
            if not is_purged and not object_names.is_keys(name) and self._is_back(name, found.get(name), current):
                return name
        return ""

    def _see_little(self, listed: Sequence[BucketListing], current: int) -> bool:
        """Apply a list in which only unpacked objects have changed. Returns False if there is more to it.

        This fast path is almost always taken, and an actor may have very many lines in packs.
        """
        seen = {one.name: one.etag for one in listed}
        with self.guard:
            last = self._last
            changed = [] if seen == last else [one for one in listed if last.get(one.name) != one.etag]
            vanished = last.keys() - seen.keys() if len(last) + len(changed) > len(seen) else ()
            places = [*(one.name for one in changed), *vanished]
            if not last or not all(_is_by_itself(place, self.table) for place in places):
                return False
            alone = [(one.name, by_itself(one)) for one in changed]
            found = [self._as_found(*one) for one in (*alone, *((place, None) for place in vanished))]
            if any(self._is_back(name, known, current) for name, known in found):
                return False
            for name, known in found:
                self._take_one(name, known, current)
            self._last = seen
            self._look_at_own_again(current)
            return True

    def _as_found(self, place: str, alone: Known | None) -> tuple[str, Known | None]:
        """An object of the present generation by its name, merged with what packs hold of it."""
        found = object_names.below(place, self.table)
        name = "" if found is None else found.name
        return name, either(alone, self._in_packs.get(name))

    def _look_at_own_again(self, current: int) -> None:
        """Mark own writes of this round as unknown, so that the next round reads them again: the list may lack them."""
        own = [name for name, began in self._own.items() if began >= current]
        self._last.update((object_names.actor_place(name, self.table), "") for name in own)

    def _take_one(self, name: str, known: Known | None, current: int) -> None:
        if self._own.get(name, -1) >= current:
            return
        before = self.objects.get(name)
        if known is not None:
            self.objects[name] = known
            self._took(name, before, known)
        elif before is not None:
            del self.objects[name]
            self._note(name)

    def _see(
        self,
        current: int,
        head: ActorHead,
        etag: str,
        loose: Mapping[str, Known],
        packed: Mapping[str, BucketListing],
        held: dict[str, Pack],
        listed: Sequence[BucketListing],
    ) -> None:
        with self.guard:
            purged, table = head.table != self.head.table, head.table
            self._have_head(head, etag)
            self.packs = held
            self.claims = {place: one.etag for place, one in packed.items() if packs.is_claim(one.size)}
            self.left_over = [one.name for one in listed if _is_left_over(one.name, table)]
            if purged:
                self._own.clear()
            self._last = {one.name: one.etag for one in listed}
            self._in_packs = in_packs(held)
            self.bytes = sum(one.size for one in packed.values())
            self._take(merge_known(loose, self._in_packs), current)
            if not self.is_looked_at and head.keys is None:
                self._note(
                    f"{self.prefix}{object_names.KEYS}"
                )  # a follower of an earlier view may hold what was erased since
            self._look_at_own_again(current)

    def _head(self, listed: Sequence[BucketListing]) -> tuple[ActorHead, str] | None:
        """The head that was listed, and its etag. None if it changed before it was read."""
        at = self.prefix + object_names.AT
        seen, size = next(((one.etag, one.size) for one in listed if one.name == at), ("", 0))
        if seen == self.head_etag:
            return self.head, seen
        if size > object_names.LARGEST_HEAD:
            raise _too_large(at)
        found = as_listed(self._bucket, BucketListing(at, seen, size, 0))
        if seen != ("" if found is None else found.etag):
            return None
        return (ActorHead(), "") if found is None else (ActorHead.decoded(found.body), seen)

    def _packs(self, packed: Mapping[str, BucketListing]) -> dict[str, Pack] | None:
        """Every filled pack. None if one was gone before it was read."""
        if large := next((place for place, one in packed.items() if one.size > packs.LARGEST), ""):
            raise _too_large(large)
        wanted = {place: one for place, one in packed.items() if not packs.is_claim(one.size)}
        return read_packs(self._bucket, self._threads, wanted, self.packs)

    def sweep(self) -> int:
        """Delete the objects of purged generations. Returns how many."""
        with self.guard:
            left = list(self.left_over)
        if left:
            self._bucket.delete(left)
        return len(left)


def _put_back(what: str) -> Tampered:
    return Tampered(
        f"{what} was put back to an older state, or taken away",
        hint="vault.audit.verify() names what is wrong; a worker that has seen better refuses it until it is put right",
    )


def _too_large(place: str) -> Tampered:
    return Tampered(
        f"{place} is larger than any object that Strongroom writes", hint="vault.audit.verify() names what is wrong"
    )


def _keys_in(head: ActorHead, etag: str) -> Known | None:
    return None if head.keys is None else Known(object_names.version_of(etag), head.is_gone, etag)


def _split(listed: Sequence[BucketListing], table: Table) -> tuple[dict[str, Known], dict[str, BucketListing]]:
    """The objects of the present generation by their names, and its packs by their places."""
    loose: dict[str, Known] = {}
    packed: dict[str, BucketListing] = {}
    for one in listed:
        found = object_names.below(one.name, table)
        if found is None or not found.is_current:
            continue
        if _PACKS in one.name:
            packed[one.name] = one
        else:
            loose[found.name] = by_itself(one)
    return loose, packed


def _is_left_over(place: str, table: Table) -> bool:
    """Whether a place belongs to an earlier generation. One later than the table's is alive: the list was newer."""
    found = object_names.below(place, table)
    return found is not None and place < object_names.actor_place(found.name, table)


def _is_by_itself(place: str, table: Table) -> bool:
    """Whether a place is that of an unpacked object of the present generation."""
    found = object_names.below(place, table)
    return found is not None and found.is_current and _PACKS not in place
