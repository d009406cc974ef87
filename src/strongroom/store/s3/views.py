"""Views: what a process knows of a part of the bucket, and how it hears of what others wrote.

There are two sorts of parts: the vault's own objects, and one actor's. `refresh` looks at the bucket; whatever was
acknowledged to anybody before it was called is then known. A change gets a number of this process's own, which only
grows, so that a follower can ask for what is newer than what it knows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import takewhile
from typing import NamedTuple

from strongroom.errors import StoreUnavailable, Tampered
from strongroom.store import Object, Version
from strongroom.store.s3 import layout, packs
from strongroom.store.s3.bucket import Bucket, Listed
from strongroom.store.s3.layout import ActorHead, Table
from strongroom.store.s3.packs import Pack

_TRIES = 8
_ROOM = 1 << 40
"""Numbers that each view has to itself: those of a later view are all greater."""
_PACKS = "/packs/"
_A_WHILE = 60_000
"""How long, in ms, a process goes by announcements alone: who deletes them holds a revocation back no longer."""


class Known(NamedTuple):
    """One object as it is known. `etag` is that of an object of its own, `pack` the place of a pack that holds it."""

    version: Version
    is_gone: bool = False
    etag: str = ""
    pack: str = ""


class View(ABC):
    """What is common to both. Thread-safe."""

    def __init__(self, bucket: Bucket, which: int) -> None:
        self._bucket = bucket
        self.guard = threading.Condition(threading.RLock())
        self.objects: dict[str, Known] = {}
        self._changed: dict[str, int] = {}
        """When each object last changed, in that order."""
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
            return [self._change(name, number) for name, number in newer[: -limit - 1 : -1]]

    def _change(self, name: str, number: int) -> Object:
        known = self.objects.get(name)
        return Object(name, number, None if known is None or known.is_gone else b"")

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
            return self._note(name)

    def _counts(self, place: str) -> bool:  # noqa: ARG002
        """Whether what lies at a place is a part of this view."""
        return True

    def _note(self, name: str) -> int:
        self._changed.pop(name, None)
        self.latest += 1
        self._changed[name] = self.latest
        return self.latest

    def _take(self, found: Mapping[str, Known], current: int) -> None:
        """Take in what a round found. The guard is held."""
        self._own = {name: began for name, began in self._own.items() if began >= current}
        merged = dict(found)
        merged.update({name: self.objects[name] for name in self._own if name in self.objects})
        for name, known in merged.items():
            before = self.objects.get(name)
            if before is None or (before.version, before.is_gone) != (known.version, known.is_gone):
                self._note(name)
        vanished = self.objects.keys() - merged.keys()
        self.objects = merged
        for name in vanished:
            self._note(name)


class VaultView(View):
    """The vault's own objects, but for the records of caps: those are looked up one by one."""

    def __init__(self, bucket: Bucket, which: int, now: Callable[[], int]) -> None:
        super().__init__(bucket, which)
        self._now = now
        self._heard = 0
        self._loaded = -1
        self._loaded_at = 0
        self._doubts = 0
        """What is known is everything, if it was looked at since the last doubt."""

    def _look(self, current: int) -> None:
        doubts, now = self._doubts, self._now()
        is_recent = 0 <= now - self._loaded_at < _A_WHILE
        if is_recent and self._loaded == doubts and self._bucket.get(self.next_news()) is None:
            return  # announcements have no gaps, and to ask for the next one costs less than a list
        heard = self._newest()
        found = {one.name: by_itself(one) for one in self._bucket.list(layout.VAULT)}
        with self.guard:
            self._take(found, current)
            self._heard = max(heard, self._heard)
            self._loaded = -1 if self._own else doubts  # what came over an own write is not known
            self._loaded_at = now

    def _newest(self) -> int:
        """The last of the announcements that follow one on another; what else lies there was not announced."""
        heard = self._heard
        there = {one.name for one in self._bucket.list(layout.NEWS, layout.news(heard) if heard else "")}
        while layout.news(heard + 1) in there:
            heard += 1
        return heard

    def doubt(self) -> None:
        """Look at everything the next time: somebody may have changed something and died before saying so."""
        with self.guard:
            self._doubts += 1

    def next_news(self) -> str:
        """What the next announcement is called, as far as is known."""
        return layout.news(self._heard + 1)

    def announced(self, name: str) -> None:
        """An announcement that this process made, right behind the last one that it heard of."""
        with self.guard:
            self._heard = max(self._heard, int(name.removeprefix(layout.NEWS)))


class ActorView(View):
    """The objects of one actor: those of the present generation, in packs or by themselves."""

    def __init__(self, bucket: Bucket, which: int, locator: str, threads: Executor) -> None:
        super().__init__(bucket, which)
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
        return f"{layout.ACTORS}{self.locator}/"

    @property
    def table(self) -> Table:
        return self.head.table

    def wrote_head(self, head: ActorHead, etag: str, before: str) -> int:
        """Take in keys that this process has just written over the head `before`; the number of that change.

        After a purge, or if a look or another thread has come further already, look instead.
        """
        with self.guard:
            if head.table == self.head.table and self.head_etag == before:
                self.head, self.head_etag = head, etag
                return self._take_keys()
        return self.refresh()

    def _take_keys(self) -> int:
        """Have the keys as the head has them. The guard is held."""
        name = f"{self.prefix}{layout.KEYS}"
        known = _keys_in(self.head, self.head_etag)
        if known is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = known
        return self._note(name)

    def _counts(self, place: str) -> bool:
        found = layout.below(place, self.table)
        return found is not None and found.is_current

    def wrote(self, name: str, place: str, known: Known, before: Known | None) -> int:
        with self.guard:
            self._last.setdefault(place, "")
            return super().wrote(name, place, known, before)

    def places(self) -> Sequence[str]:
        """Where the last list had anything, and where this process has written since."""
        with self.guard:
            return list(self._last)

    def look_at_head(self) -> None:
        """Make sure that keys and generations are known as they are. For who need not know of lines, that is enough."""
        found = self._bucket.get(self.prefix + layout.AT)
        with self.guard:
            if self.head_etag == ("" if found is None else found.etag):
                return
        self.refresh()

    def _look(self, current: int) -> None:
        for _ in range(_TRIES):
            listed = self._bucket.list(self.prefix)
            if self._see_little(listed, current):
                return
            head, etag = self._head(listed)
            loose, packed = _split(listed, head.table)
            held = self._packs(packed)
            if held is not None:
                keys = _keys_in(head, etag)
                found = loose if keys is None else {**loose, f"{self.prefix}{layout.KEYS}": keys}
                self._see(current, head, etag, found, packed, held, listed)
                return
        raise StoreUnavailable("the bucket kept changing while it was read", hint="try again")

    def _see_little(self, listed: Sequence[Listed], current: int) -> bool:
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
            for one in changed:
                self._take_one(one.name, by_itself(one), current)
            for place in vanished:
                self._take_one(place, None, current)
            self._last = seen
            self._look_at_own_again(current)
            return True

    def _look_at_own_again(self, current: int) -> None:
        """What this round had of own writes was not taken in: it counts as unknown, so that the next one does."""
        own = [name for name, began in self._own.items() if began >= current]
        self._last.update((layout.actor_place(name, self.table), "") for name in own)

    def _take_one(self, place: str, alone: Known | None, current: int) -> None:
        found = layout.below(place, self.table)
        if found is None or self._own.get(found.name, -1) >= current:
            return
        known = _both(alone, self._in_packs.get(found.name))
        before = self.objects.get(found.name)
        if known is None:
            if self.objects.pop(found.name, None) is not None:
                self._note(found.name)
            return
        self.objects[found.name] = known
        if before is None or (before.version, before.is_gone) != (known.version, known.is_gone):
            self._note(found.name)

    def _see(
        self,
        current: int,
        head: ActorHead,
        etag: str,
        loose: Mapping[str, Known],
        packed: Mapping[str, Listed],
        held: dict[str, Pack],
        listed: Sequence[Listed],
    ) -> None:
        with self.guard:
            purged, table = head.table != self.head.table, head.table
            self.head, self.head_etag, self.packs = head, etag, held
            self.claims = {place: one.etag for place, one in packed.items() if packs.is_claim(one.size)}
            self.left_over = [one.name for one in listed if _is_left_over(one.name, table)]
            if purged:
                self._own.clear()
            self._last = {one.name: one.etag for one in listed}
            self._in_packs = in_packs(held)
            self.bytes = sum(one.size for one in packed.values())
            self._take(merged(loose, self._in_packs), current)
            if not self.is_looked_at and head.keys is None:
                self._note(f"{self.prefix}{layout.KEYS}")  # who followed an earlier view may hold what was erased since
            self._look_at_own_again(current)

    def _head(self, listed: Sequence[Listed]) -> tuple[ActorHead, str]:
        at = self.prefix + layout.AT
        seen, size = next(((one.etag, one.size) for one in listed if one.name == at), ("", 0))
        if seen == self.head_etag:
            return self.head, seen
        if size > layout.LARGEST_HEAD:
            raise _too_large(at)
        found = self._bucket.get(at)
        return (ActorHead(), "") if found is None else (ActorHead.decoded(found.body), found.etag)

    def _packs(self, packed: Mapping[str, Listed]) -> dict[str, Pack] | None:
        """Every filled pack; None if one was gone when it was to be read."""
        if large := next((place for place, one in packed.items() if one.size > packs.LARGEST), ""):
            raise _too_large(large)
        wanted = {place: one.etag for place, one in packed.items() if not packs.is_claim(one.size)}
        return read_packs(self._bucket, self._threads, wanted, self.packs)

    def sweep(self) -> int:
        """Delete what lies below generations that were purged, and nobody reads; how many objects."""
        with self.guard:
            left = list(self.left_over)
        if left:
            self._bucket.delete(left)
        return len(left)


def read_packs(
    bucket: Bucket, threads: Executor, wanted: Mapping[str, str], known: Mapping[str, Pack]
) -> dict[str, Pack] | None:
    """Packs by their places and etags, read unless they are known; None if one was gone when it was to be read."""
    held = {place: pack for place, pack in known.items() if wanted.get(place) == pack.etag}
    missing = [place for place in wanted if place not in held]
    for place, found in zip(missing, threads.map(bucket.get, missing), strict=True):
        if found is None or packs.is_claim(len(found.body)):
            return None
        held[place] = packs.decoded(shelf_of(place), found.body, found.etag)
    return held


def _too_large(place: str) -> Tampered:
    return Tampered(f"{place} is larger than anything of ours", hint="vault.audit.verify() names what is wrong")


def _keys_in(head: ActorHead, etag: str) -> Known | None:
    return None if head.keys is None else Known(layout.version_of(etag), head.is_gone, etag)


def by_itself(one: Listed) -> Known:
    """What a list says of an object that is in no pack."""
    return Known(layout.version_of(one.etag), one.size == 0, one.etag)


def _split(listed: Sequence[Listed], table: Table) -> tuple[dict[str, Known], dict[str, Listed]]:
    """The objects of the present generation by their names, and its packs by their places."""
    loose: dict[str, Known] = {}
    packed: dict[str, Listed] = {}
    for one in listed:
        found = layout.below(one.name, table)
        if found is None or not found.is_current:
            continue
        if _PACKS in one.name:
            packed[one.name] = one
        else:
            loose[found.name] = by_itself(one)
    return loose, packed


def shelf_of(place: str) -> str:
    """The logical prefix of what a pack at this place holds."""
    found = layout.below(place, Table())
    return "" if found is None else found.name.partition("packs/")[0]


def _is_left_over(place: str, table: Table) -> bool:
    """Whether a place is of an earlier generation. A list takes time: what is of a later one than the table lives."""
    found = layout.below(place, table)
    return found is not None and place < layout.actor_place(found.name, table)


def _is_by_itself(place: str, table: Table) -> bool:
    """Whether a place is that of an object of the present generation, and neither a pack nor anything else."""
    found = layout.below(place, table)
    return found is not None and found.is_current and _PACKS not in place


def _both(alone: Known | None, packed: Known | None) -> Known | None:
    """An object by itself and in a pack. What the pack holds counts more: the other is about to go. Gone is gone."""
    if alone is None or packed is None:
        return alone or packed
    if alone.is_gone and not packed.is_gone:
        return alone._replace(pack=packed.pack)
    return packed._replace(etag=alone.etag)


def merged(loose: Mapping[str, Known], packed: Mapping[str, Known]) -> dict[str, Known]:
    """Everything there is."""
    both = {name: _both(loose.get(name), packed.get(name)) for name in {*loose, *packed}}
    return {name: known for name, known in both.items() if known is not None}


def in_packs(held: Mapping[str, Pack]) -> dict[str, Known]:
    """What is in packs. What is gone in one of them is gone."""
    found: dict[str, Known] = {}
    for place, pack in held.items():
        for name, record in pack.records.items():
            if name not in found or record.body is None:
                found[name] = Known(record.version, record.body is None, "", place)
    return found
