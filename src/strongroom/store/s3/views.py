"""Views: what a process knows of a part of the bucket, and how it hears of what others wrote.

There are two sorts of parts: the vault's own objects, and one actor's. `refresh` looks at the bucket; whatever was
acknowledged to anybody before it was called is then known. A change gets a number of this process's own, which only
grows, so that a follower can ask for what is newer than what it knows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from strongroom.errors import StoreUnavailable
from strongroom.store import Object, Version
from strongroom.store.s3 import layout, packs
from strongroom.store.s3.bucket import Bucket, Listed
from strongroom.store.s3.layout import Table
from strongroom.store.s3.packs import Pack

_TRIES = 8
_ROOM = 1 << 40
"""Numbers that each view has to itself: those of a later view are all greater."""
_PACKS = "/packs/"


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
        try:
            self._look(current)
        finally:
            with self.guard:
                self._running = False
                self._finished = max(self._finished, current)
                self.guard.notify_all()
        return self.latest

    @abstractmethod
    def _look(self, current: int) -> None:
        """Bring the view up to date; `current` is the number of this round."""

    def changes(self, after: int, limit: int) -> Sequence[Object]:
        """What changed after a number, in that order, with the number for a version."""
        with self.guard:
            newer = [(number, name) for name, number in self._changed.items() if number > after]
            newer.sort()
            return [self._change(name, number) for number, name in newer[:limit]]

    def _change(self, name: str, number: int) -> Object:
        known = self.objects.get(name)
        return Object(name, number, None if known is None or known.is_gone else b"")

    def wrote(self, name: str, known: Known) -> int:
        """Take in what this process has just written; the number of that change."""
        with self.guard:
            self.objects[name] = known
            self._own[name] = self._begun
            return self._note(name)

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
        self.objects = merged
        self._changed = {name: number for name, number in self._changed.items() if name in merged}


class VaultView(View):
    """The vault's own objects, but for the records of caps: those are looked up one by one."""

    def __init__(self, bucket: Bucket, which: int) -> None:
        super().__init__(bucket, which)
        self._heard = ""
        self._is_loaded = False

    def _look(self, current: int) -> None:
        news = self._bucket.list(layout.NEWS, self._heard)
        if not news and self._is_loaded:
            return
        found = {one.name: _loose(one) for one in self._bucket.list(layout.VAULT)}
        with self.guard:
            self._take(found, current)
            self._heard = news[-1].name if news else self._heard
            self._is_loaded = True

    def next_news(self) -> str:
        """What the next announcement is called, as far as is known."""
        with self.guard:
            number = int(self._heard.removeprefix(layout.NEWS) or 0) + 1
            return f"{layout.NEWS}{number:012d}"

    def announced(self, name: str) -> None:
        """An announcement that this process made, right behind the last one that it heard of."""
        with self.guard:
            self._heard = max(self._heard, name)


class ActorView(View):
    """The objects of one actor: those of the present generation, in packs or by themselves."""

    def __init__(self, bucket: Bucket, which: int, locator: str, threads: Executor) -> None:
        super().__init__(bucket, which)
        self.locator = locator
        self._threads = threads
        self.table = Table()
        self.table_etag = ""
        self.packs: dict[str, Pack] = {}
        self.claims: dict[str, str] = {}
        self.left_over: list[str] = []
        """Objects of generations that were purged: to be deleted by whoever sees them."""
        self._last: dict[str, str] = {}
        """What the last list had: etags by places."""
        self._in_packs: dict[str, Known] = {}

    @property
    def prefix(self) -> str:
        return f"{layout.ACTORS}{self.locator}/"

    def _look(self, current: int) -> None:
        for _ in range(_TRIES):
            listed = self._bucket.list(self.prefix)
            if self._see_little(listed, current):
                return
            table, etag = self._table(listed)
            loose, packed = _split(listed, table)
            held = self._packs(packed)
            if held is not None:
                self._see(current, table, etag, loose, packed, held, listed)
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
                self._take_one(one.name, _loose(one), current)
            for place in vanished:
                self._take_one(place, None, current)
            self._last = seen
            return True

    def _take_one(self, place: str, alone: Known | None, current: int) -> None:
        found = layout.below(place, self.table)
        if found is None or self._own.get(found.name, -1) >= current:
            return
        known = _both(alone, self._in_packs.get(found.name))
        before = self.objects.get(found.name)
        if known is None:
            self.objects.pop(found.name, None)
            self._changed.pop(found.name, None)
            return
        self.objects[found.name] = known
        if before is None or (before.version, before.is_gone) != (known.version, known.is_gone):
            self._note(found.name)

    def _see(
        self,
        current: int,
        table: Table,
        etag: str,
        loose: Mapping[str, Known],
        packed: Mapping[str, Listed],
        held: dict[str, Pack],
        listed: Sequence[Listed],
    ) -> None:
        with self.guard:
            purged = etag != self.table_etag
            self.table, self.table_etag, self.packs = table, etag, held
            self.claims = {place: one.etag for place, one in packed.items() if packs.is_claim(one.size)}
            self.left_over = [one.name for one in listed if _is_left_over(one.name, table)]
            if purged:
                self._own.clear()
            self._last = {one.name: one.etag for one in listed}
            self._in_packs = _packed(held)
            merged = {name: _both(loose.get(name), self._in_packs.get(name)) for name in {*loose, *self._in_packs}}
            self._take({name: known for name, known in merged.items() if known is not None}, current)
            if purged:  # whatever was below is gone, and nothing else says so
                self._note(f"{self.prefix}keys")

    def _table(self, listed: Sequence[Listed]) -> tuple[Table, str]:
        at = self.prefix + layout.AT
        seen = next((one.etag for one in listed if one.name == at), "")
        if seen == self.table_etag:
            return self.table, seen
        found = self._bucket.get(at)
        return (Table(), "") if found is None else (Table.decoded(found.body), found.etag)

    def _packs(self, packed: Mapping[str, Listed]) -> dict[str, Pack] | None:
        """Every filled pack; None if one was gone when it was to be read."""
        wanted = {place: one.etag for place, one in packed.items() if not packs.is_claim(one.size)}
        held = {place: pack for place, pack in self.packs.items() if wanted.get(place) == pack.etag}
        missing = [place for place in wanted if place not in held]
        for place, found in zip(missing, self._threads.map(self._bucket.get, missing), strict=True):
            if found is None or packs.is_claim(len(found.body)):
                return None
            held[place] = packs.decoded(shelf_of(place), found.body, found.etag)
        return held


def _loose(one: Listed) -> Known:
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
            loose[found.name] = _loose(one)
    return loose, packed


def shelf_of(place: str) -> str:
    """The logical prefix of what a pack at this place holds."""
    found = layout.below(place, Table())
    return "" if found is None else found.name.partition("packs/")[0]


def _is_left_over(place: str, table: Table) -> bool:
    found = layout.below(place, table)
    return found is not None and not found.is_current


def _is_by_itself(place: str, table: Table) -> bool:
    """Whether a place is that of an object of the present generation, and neither a pack nor anything else."""
    found = layout.below(place, table)
    return found is not None and found.is_current and _PACKS not in place


def _both(alone: Known | None, packed: Known | None) -> Known | None:
    """An object by itself and in a pack. What the pack holds counts more: the other is about to go. Gone is gone."""
    if alone is None or packed is None:
        return alone or packed
    if alone.is_gone:
        return alone._replace(pack=packed.pack)
    return packed._replace(etag=alone.etag)


def _packed(held: Mapping[str, Pack]) -> dict[str, Known]:
    """What is in packs. What is gone in one of them is gone."""
    found: dict[str, Known] = {}
    for place, pack in held.items():
        for name, record in pack.records.items():
            if name not in found or record.body is None:
                found[name] = Known(record.version, record.body is None, "", place)
    return found
