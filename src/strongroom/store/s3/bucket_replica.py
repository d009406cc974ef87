"""Views: what a process knows of a part of the bucket, and how it hears of what others wrote.

There are two sorts of parts: the vault's own objects, and one actor's. `refresh` looks at the bucket; whatever was
acknowledged to anybody before it was called is then known. A change gets a number of this process's own, which only
grows, so that a follower can ask for what is newer than what it knows.

A view never goes back. What a look finds older than what is known, or missing without a tombstone, is looked at once
more, since a list takes time and is not of one moment; if it is so again it is tampering, and what is known stays.
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
"""Numbers that each view has to itself: those of a later view are all greater."""
_PACKS = "/packs/"
_LINES = "/lines/"
_A_WHILE = 60_000
"""How long, in ms, a process goes by announcements alone: who deletes them holds a revocation back no longer."""


class View(ABC):
    """What is common to both. Thread-safe."""

    def __init__(self, bucket: Bucket, which: int, past: Past) -> None:
        self._bucket = bucket
        self._past = past
        self._since = 0
        """The moment at which the present round began."""
        self.guard = threading.Condition(threading.RLock())
        self.objects: dict[str, Known] = {}
        self._changed: dict[str, int] = {}
        """When each object last changed, in that order."""
        self._altered: set[int] = set()
        """Those changes that put something else in the place of a line, which only an attacker or a broken bucket does.
        """
        self.latest = which * _ROOM
        self._own: dict[str, int] = {}
        """In which round this process itself wrote an object: a round that began before cannot know of it."""
        self._begun = 0
        self._finished = 0
        self._running = False

    def refresh(self) -> int:
        """Look at the bucket, and return the number of the latest change.

        A look that another thread begins after this call serves as well as one of its own.
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
                if has_looked:  # else who waited for it looks for itself
                    self._finished = max(self._finished, current)
                self.guard.notify_all()
        return self.latest

    @property
    def is_looked_at(self) -> bool:
        """Whether anything is known at all."""
        return self._finished > 0

    @abstractmethod
    def _look(self, current: int) -> None:
        """Bring the view up to date; `current` is the number of this round."""

    def changes(self, after: int, limit: int) -> Sequence[Object]:
        """What changed after a number, in that order, with the number for a version."""
        with self.guard:
            newer = list(takewhile(lambda one: one[1] > after, reversed(self._changed.items())))
            return [change for name, number in newer[: -limit - 1 : -1] for change in self._changes_of(name, number)]

    def _changes_of(self, name: str, number: int) -> Iterator[Object]:
        known = self.objects.get(name)
        is_gone = known is None or known.is_gone
        if not is_gone and number in self._altered:
            yield Object(name, number, None)  # nobody may go on with what they read of it before
        yield Object(name, number, None if is_gone else b"")

    def wrote(self, name: str, place: str, known: Known, before: Known | None) -> int:
        """Take in what this process has just written to a place over `before`; the number of that change.

        If what was there before is not what is known any more, a look or another thread has come further already. What
        was written to a generation that was purged meanwhile is not there.
        """
        with self.guard:
            if self.objects.get(name) != before or not self._counts(place):
                return self._changed.get(name, 0)
            self.objects[name] = known
            self._own[name] = self._begun
            self._is_over(name, before)
            return self._note(name)

    def _counts(self, place: str) -> bool:  # noqa: ARG002
        """Whether what lies at a place is a part of this view."""
        return True

    def _note(self, name: str) -> int:
        self._altered.discard(self._changed.pop(name, 0))
        self.latest += 1
        self._changed[name] = self.latest
        return self.latest

    def _is_over(self, name: str, before: Known | None) -> None:
        """Remember a state that came to an end. That of a line ends with a tombstone alone, which is known as such."""
        if before is not None and not before.is_gone and _LINES not in name:
            self._past.replaced(name, before.version)

    def is_past(self, name: str, version: Version) -> bool:
        """Whether an object of this version has been replaced."""
        return self._past.has_replaced(name, version, moment())

    def _is_back(self, name: str, known: Known | None, current: int) -> bool:
        """Whether an object that a look of this round has found is older than what is known of it."""
        before = self.objects.get(name)
        if before is None or self._own.get(name, -1) >= current or is_derived(name):
            return False
        if known is None or (before.is_gone and not known.is_gone):
            return True
        return known.version != before.version and self._past.has_replaced(name, known.version, self._since)

    def _took(self, name: str, before: Known | None, known: Known | None) -> None:
        """Note a change that a look has found, if it is one."""
        if before is None or known is None or before[:2] != known[:2]:
            self._is_over(name, before)
            number = self._note(name)
            if _LINES in name and before is not None and known is not None and not before.is_gone:
                self._altered.add(number)

    def _take(self, found: Mapping[str, Known], current: int) -> None:
        """Take in what a round found. The guard is held."""
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
    """The vault's own objects, but for the records of caps: those are looked up one by one."""

    def __init__(self, bucket: Bucket, which: int, now: Callable[[], int]) -> None:
        super().__init__(bucket, which, Past())
        self._now = now
        self._heard = 0
        self._loaded = -1
        self._loaded_at = 0
        self._is_deaf = False
        """Whether the last announcement that was heard of is gone. Others may count anew: each look is whole."""
        self._doubts = 0
        """What is known is everything, if it was looked at since the last doubt."""

    def _look(self, current: int) -> None:
        doubts, now = self._doubts, self._now()
        is_recent = not self._is_deaf and 0 <= now - self._loaded_at < _A_WHILE
        if is_recent and self._loaded == doubts and self._bucket.get(self.next_news()) is None:
            return  # announcements have no gaps, and to ask for the next one costs less than a list
        heard = self._newest()
        found = {one.name: by_itself(one) for one in self._bucket.list(object_names.VAULT)}
        with self.guard:
            if back := next((name for name in self.objects if self._is_back(name, found.get(name), current)), ""):
                raise _put_back(f"the vault's own {back}")
            self._take(found, current)
            self._heard = max(heard, self._heard)
            self._loaded = -1 if self._own else doubts  # what came over an own write is not known
            self._loaded_at = now

    def _newest(self) -> int:
        """The last of the announcements that follow one on another; what else lies there was not announced."""
        known = heard = self._heard
        there = {
            one.name for one in self._bucket.list(object_names.NEWS, object_names.news(known - 1) if known > 1 else "")
        }
        self._is_deaf = known > 0 and object_names.news(known) not in there
        while object_names.news(heard + 1) in there:
            heard += 1
        return heard

    def doubt(self) -> None:
        """Look at everything the next time: somebody may have changed something and died before saying so."""
        with self.guard:
            self._doubts += 1

    def next_news(self) -> str:
        """What the next announcement is called, as far as is known."""
        return object_names.news(self._heard + 1)

    def announced(self, name: str) -> None:
        """An announcement that this process made, right behind the last one that it heard of."""
        with self.guard:
            self._heard = max(self._heard, int(name.removeprefix(object_names.NEWS)))


class ActorView(View):
    """The objects of one actor: those of the present generation, in packs or by themselves."""

    def __init__(self, bucket: Bucket, which: int, locator: str, threads: Executor, past: Past) -> None:
        super().__init__(bucket, which, past)
        self.locator = locator
        self._threads = threads
        self.head = ActorHead()
        self.head_etag = ""
        self.packs: dict[str, Pack] = {}
        self.claims: dict[str, str] = {}
        self.left_over: list[str] = []
        """Objects of generations that were purged: to be deleted by whoever sees them."""
        self._last: dict[str, str] = {}
        """What the last list had: etags by places."""
        self._in_packs: dict[str, Known] = {}
        self.bytes = 0
        """About what the packs take in RAM."""

    @property
    def prefix(self) -> str:
        return f"{object_names.ACTORS}{self.locator}/"

    @property
    def table(self) -> Table:
        return self.head.table

    def wrote_head(self, head: ActorHead, etag: str, before: str) -> int:
        """Take in keys that this process has just written over the head `before`; the number of that change.

        After a purge, or if a look or another thread has come further already, look instead.
        """
        with self.guard:
            if head.table == self.head.table and self.head_etag == before:
                self._have_head(head, etag)
                return self._take_keys()
        return self.refresh()

    def _have_head(self, head: ActorHead, etag: str) -> None:
        """Take in a head that is newer than the one that is known. The guard is held."""
        if etag != self.head_etag:
            self._past.replaced(object_names.AT, object_names.version_of(self.head_etag))
        self._past.reached(head.table)
        self.head, self.head_etag = head, etag

    def _is_head_back(self, head: ActorHead, etag: str) -> bool:
        is_replaced = self._past.has_replaced(object_names.AT, object_names.version_of(etag), self._since)
        return is_replaced or not is_as_new(head.table, self._past.floor(self._since))

    def _take_keys(self) -> int:
        """Have the keys as the head has them. The guard is held."""
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
            self._last[place] = ""  # a list that has what was there before must not look like no change
            return super().wrote(name, place, known, before)

    def places(self) -> Sequence[str]:
        """Where the last list had anything, and where this process has written since."""
        with self.guard:
            return list(self._last)

    def look_at_head(self) -> None:
        """Make sure that keys and generations are known as they are. For who need not know of lines, that is enough."""
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
                    continue  # written meanwhile by this process itself: what was found may be older
                back = self._back(head, etag, merge_known(loose, in_packs(held)), current)
                if not back:
                    return self._see(current, head, etag, found, packed, held, listed)
            if doubted:
                raise _put_back(back)
            doubted = back  # or it was purged while the list was made: the next one tells
        raise StoreUnavailable("the bucket kept changing while it was read", hint="try again")

    def _back(self, head: ActorHead, etag: str, found: Mapping[str, Known], current: int) -> str:
        """Something that is older than it is known to be; empty if nothing is. The guard is held."""
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
        """Take in a list in which no more than objects by themselves have changed; False if it is not so.

        It is nearly always so, and an actor may have very many lines in packs.
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
        """An object of the present generation by its name, with what packs hold of it."""
        found = object_names.below(place, self.table)
        name = "" if found is None else found.name
        return name, either(alone, self._in_packs.get(name))

    def _look_at_own_again(self, current: int) -> None:
        """What this round had of own writes was not taken in: it counts as unknown, so that the next one does."""
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
                )  # who followed an earlier view may hold what was erased since
            self._look_at_own_again(current)

    def _head(self, listed: Sequence[BucketListing]) -> tuple[ActorHead, str] | None:
        """The head as a list had it, and its etag; None if it was another one when it was to be read."""
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
        """Every filled pack; None if one was gone when it was to be read."""
        if large := next((place for place, one in packed.items() if one.size > packs.LARGEST), ""):
            raise _too_large(large)
        wanted = {place: one for place, one in packed.items() if not packs.is_claim(one.size)}
        return read_packs(self._bucket, self._threads, wanted, self.packs)

    def sweep(self) -> int:
        """Delete what lies below generations that were purged, and nobody reads; how many objects."""
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
    return Tampered(f"{place} is larger than anything of ours", hint="vault.audit.verify() names what is wrong")


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
    """Whether a place is of an earlier generation. A list takes time: what is of a later one than the table lives."""
    found = object_names.below(place, table)
    return found is not None and place < object_names.actor_place(found.name, table)


def _is_by_itself(place: str, table: Table) -> bool:
    """Whether a place is that of an object of the present generation, and neither a pack nor anything else."""
    found = object_names.below(place, table)
    return found is not None and found.is_current and _PACKS not in place
