"""The numbered places in the store for one namespace's cache pages. A forgotten line must not stay in a page.

A page is a stored copy of many lines (`stored_pages.py`). The places are below `derived/` and are not in the log. Two
rules keep forgotten lines out of pages:

- The writer of a page first claims a place with an empty object. Then it reads which lines exist, and fills the place
  only if the empty object is unchanged (compare-and-swap).
- The commit that forgets lines also removes every page that holds one of them, and every place that may be filled with
  one. The commit fails if another process claims or fills a place meanwhile.

The rules need a store with atomic commits. In another store, no place is ever claimed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import CRITICAL, DETAILED, VERSION, LinePlace
from strongroom.errors import Tampered, Unavailable
from strongroom.memory.cache_page import CachePage, decode_page
from strongroom.memory.line_cache.cache import Batch
from strongroom.memory.replica import Replica
from strongroom.memory.stored_keys import KeyCache
from strongroom.memory.stored_lines import open_object
from strongroom.model import Actor, LineId, Namespace
from strongroom.store import Effect, Expect, Lost, Object, Purge, Version

_EMPTY = b""
_PLACE = re.compile("([0-9]{6})/lines")
_PLACES = 1_000_000
_LAST_PART = "lines"


class PagePlaces:
    """The places in the store for the cache pages of one namespace."""

    def __init__(self, state: Replica, actor: Actor, namespace: Namespace, birth: bytes) -> None:
        self._state = state
        self._actor = actor
        self._namespace = namespace
        self._birth = birth
        self._prefix = f"{state.slots.shelf(actor, namespace)}derived/page-"
        self.are_kept = state.store.is_whole
        self._held: dict[str, tuple[Version, frozenset[LineId]]] = {}
        """The pages that this process has read or written: the version of each page, and the ids of its lines."""

    def known(self) -> list[Object]:
        """The places that were ever claimed, including tombstones. Other objects with this prefix are ignored."""
        if not self.are_kept:
            return []
        return [
            thing
            for thing in self._state.records.names(self._prefix)
            if _PLACE.fullmatch(thing.name, len(self._prefix))
        ]

    def used(self) -> list[Object]:
        """The places that are claimed for a page or filled with a page now."""
        return [place for place in self.known() if place.body is not None]

    def remove(self, place: Object) -> None:
        """Remove a page that this process has read, if no other process changed it meanwhile."""
        del self._held[place.name]
        with suppress(Lost, Unavailable):
            self._state.store.delete(place.name, place.version)

    def read(self, place: Object, living: Collection[LineId]) -> Batch | None:
        """Read the page in a place. Returns None if the page does not open or one of its lines no longer exists."""
        try:
            found = self._state.store.get(place.name)
            if found is None or not found.body:
                return None
            opened = open_object(self._state, self._actor, self._namespace, found, partial(self._opened, place.name))
            if opened is None:
                return None
            page = decode_page(opened)
            if not all(CRITICAL.issuperset(details.critical) for details in page.details.values()):
                return None  # a newer version wrote the page; reading its lines one by one raises the right error
            batch = page.batch(self._namespace)
        except (Tampered, msgspec.DecodeError, IndexError):
            return None
        ids = frozenset(line.id for line in batch.lines)
        if not ids or len(ids) != len(batch.lines) or not all(name in living for name in ids):
            return None
        self._held[place.name] = found.version, ids
        return batch

    def _opened(self, name: str, body: bytes, keys: Mapping[int, bytes]) -> bytes:
        return line_encryption.open_page(
            body, name, LinePlace(self._state.vault_id, self._actor, self._namespace), keys
        )

    def count_lines(self) -> int:
        """The number of lines in the pages that this process has read or written."""
        return sum(len(names) for _, names in self._held.values())

    def lines_in_pages(self, living: Collection[LineId]) -> set[LineId]:
        """The ids of all lines that are in a page now, including pages that other processes wrote."""
        places = self.used()
        current = {place.name: place.version for place in places}
        self._held = {name: held for name, held in self._held.items() if current.get(name) == held[0]}
        for place in places:
            if place.name not in self._held:
                self.read(place, living)
        return {name for _, names in self._held.values() for name in names}

    def claim(self) -> Object | None:
        """Claim the next free place for a page. Returns None if another process was first, or no place is free."""
        held = self._keys() if self.are_kept else None
        places = self.known()
        name = self._next_place(places)
        if held is None or name is None:
            return None
        # The claim fails in two cases. If the keys changed: nothing may be written for an erased namespace. If the last
        # place is gone: a concurrent forget then expects the number of that place to be claimed next, and not this one.
        given = [Expect(held.name, held.version)]
        given += [Expect(place.name, place.version) for place in places[-1:]]
        with suppress(Lost, Unavailable):
            return Object(name, self._state.store.put_if_absent(name, _EMPTY, *given), _EMPTY)
        return None

    def _next_place(self, places: Iterable[Object]) -> str | None:
        """The name of the next place to be claimed, or None if all numbers are used."""
        used = [int(place.name[len(self._prefix) :].partition("/")[0]) for place in places]
        number = max(used, default=-1) + 1
        return f"{self._prefix}{number:06d}/{_LAST_PART}" if number < _PLACES else None

    def _keys(self) -> KeyCache | None:
        """The actor's keys, or None if the namespace was erased since: its lines must not be written to a page."""
        held = self._state.keys_of(self._actor)
        locator = self._state.slots.namespace(self._actor, self._namespace)
        return held if held is not None and held.keys.birth(locator) == self._birth else None

    def fill(self, claimed: Object, batch: Batch) -> None:
        """Write a page to its claimed place, if no line was forgotten meanwhile. A failure is ignored."""
        with suppress(Lost, Unavailable):
            page = CachePage.of(batch)
            sealed = self._sealed(claimed.name, page.encoded(), DETAILED if page.details else VERSION)
            version = self._state.store.compare_and_swap(claimed.name, sealed, claimed.version)
            self._held[claimed.name] = version, frozenset(line.id for line in batch.lines)

    def _sealed(self, name: str, data: bytes, version: int = VERSION) -> bytes:
        held = self._keys()
        if held is None:
            raise Lost(name)
        epoch, key = held.keys.newest(self._state.slots.namespace(self._actor, self._namespace))
        place = LinePlace(self._state.vault_id, self._actor, self._namespace)
        return line_encryption.seal_page(data, name, place, epoch, key, self._state.random(24), version)

    def without(self, forgotten: Collection[LineId]) -> list[Effect]:
        """The effects that a commit needs when it forgets these lines: afterwards no page holds one of them."""
        if not self.are_kept:
            return []
        places = self.known()
        coming = self._next_place(places)
        effects: list[Effect] = [] if coming is None else [Expect(coming, 0)]
        for place in places:
            version, names = self._held.get(place.name, (0, frozenset()))
            effects.append(Expect(place.name, place.version))
            if place.body is not None and (version != place.version or not names.isdisjoint(forgotten)):
                effects.append(Purge(place.name.removesuffix(_LAST_PART)))
        return effects
