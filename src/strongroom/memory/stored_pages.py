"""Pages: many lines of one shelf in one sealed object, with the engine's readings. A cache, never the truth.

A fresh process reads a few pages instead of opening and reading every line. The lines themselves stay where they are: a
page counts only if each of its lines still exists, and a page that does not open is ignored.

Pages have numbered places below `derived/`, outside the log. A forgotten line must not live on in one:

* A writer of a page first claims a place, then reads which lines exist, and fills the place only if it is unchanged
  (compare-and-swap).
* A forget removes, in the same commit, every page that holds one of its lines and every place that might come to hold
  one, and the commit fails if any other place was claimed or filled meanwhile.

This needs a store with atomic commits. In another, shelves are read line by line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec

from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import Tampered, Unavailable
from strongroom.memory.line_cache.cache import Batch, CachedNamespace, Load, hold_still
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.memory.operation import Loading, Operation
from strongroom.memory.replica import Replica
from strongroom.memory.stored_keys import KeyCache
from strongroom.memory.stored_lines import line_id_of, open_line, open_object
from strongroom.model import Actor, Kind, Line, LineId, Millis, Namespace, Provenance
from strongroom.store import Effect, Expect, Lost, Object, Purge, Version

PAGE_LINES = 1024
LOOSE_LIMIT = 256
"""Lines in no page that are worth a new one. Fewer are opened one by one."""

_EMPTY = b""
_FEW = 16
PAGE_TEXT = 128 * 1024
"""Most characters of a page, except for a single longer line: the engine reads so many in 60 ms."""
_NEWEST = 32
"""How many of the newest lines are read before all others. They are in no page."""
_STEPS = (16, 64)
"""Lines that are opened at a time: at first, and at most."""
_NAMES = 1000
"""Names that are listed in one portion of a load."""
_PLACE = re.compile("([0-9]{6})/lines")
_PLACES = 1_000_000
_LAST_PART = "lines"


class _Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A line whose shared values are replaced by numbers."""

    id: LineId
    time: Millis
    kind: Kind
    session: int
    author: int
    origin: int
    text: str


class CachePage(msgspec.Struct, array_like=True, frozen=True):
    """The content of a page. Names and origins that lines share are in it once."""

    names: list[str]
    origins: list[Provenance]
    records: list[_Record]
    readings: bytes

    @classmethod
    def of(cls, batch: Batch) -> CachePage:
        names: dict[str, int] = {}
        origins: dict[Provenance, int] = {}
        records = [
            _Record(
                line.id,
                line.time,
                line.kind,
                names.setdefault(line.session, len(names)),
                names.setdefault(line.author, len(names)),
                origins.setdefault(line.provenance, len(origins)),
                line.text,
            )
            for line in batch.lines
        ]
        return cls(list(names), list(origins), records, batch.readings)

    def batch(self, namespace: Namespace) -> Batch:
        names, origins = self.names, self.origins
        lines = [
            Line(
                one.id,
                one.time,
                one.kind,
                namespace,
                names[one.session],
                names[one.author],
                one.text,
                origins[one.origin],
            )
            for one in self.records
        ]
        return Batch(lines, self.readings)


_decode = msgspec.msgpack.Decoder(CachePage).decode


class CachePageSet:
    """The pages of one shelf."""

    def __init__(self, state: Replica, actor: Actor, namespace: Namespace, birth: bytes) -> None:
        self._state = state
        self._actor = actor
        self.namespace = namespace
        self._birth = birth
        self._shelf = state.slots.shelf(actor, namespace)
        self._lines = f"{self._shelf}lines/"
        self._places = f"{self._shelf}derived/page-"
        self._are_kept = state.store.is_whole
        self._held: dict[str, tuple[Version, frozenset[LineId]]] = {}
        """The pages that this process has read or written: their version, and the lines in them."""

    # Loading.

    def batches(self) -> Iterator[Batch]:
        """Every line of the shelf: first those newer than the newest page, then the pages, then the rest."""
        places = sorted(self._places_used(), key=lambda place: -place.version)
        loose = yield from self._living()
        unwritten: list[tuple[Object, Batch]] = []
        is_first = True
        for page in self._pages(places, loose):
            if is_first and page.lines:
                is_first = False
                newest = max(line.id for line in page.lines)
                # At most a page of them: this page is probably the newest, but not certainly.
                newer = list(islice((name for name in loose if name > newest), PAGE_LINES))
                yield from self._loose(newer, loose, unwritten)
            yield page
        yield from self._loose(list(loose), loose, unwritten)
        # The newest lines last, because the page with the highest version is read first.
        for claimed, batch in reversed(unwritten):
            self._fill(claimed, batch if batch.readings else Batch(batch.lines, self._readings(batch.lines)))
            yield Batch(())  # other loads get their turn

    def _living(self) -> Generator[Batch, None, dict[LineId, Version]]:
        """The existing lines, newest first."""
        living: list[tuple[LineId, Version]] = []
        for number, thing in enumerate(self._state.records.names(self._lines)):
            name = line_id_of(thing.name)
            if thing.name != self._lines + name:
                raise Tampered(
                    "an object stands among the lines that is none", hint="vault.audit.verify() names what is wrong"
                )
            if thing.body is not None:
                living.append((name, thing.version))
            if number % _NAMES == _NAMES - 1:
                yield Batch(())
        return dict(reversed(living))

    def _places_known(self) -> list[Object]:
        """The places that were ever claimed. Other names there are not ours."""
        if not self._are_kept:
            return []
        return [
            thing
            for thing in self._state.records.names(self._places)
            if _PLACE.fullmatch(thing.name, len(self._places))
        ]

    def _places_used(self) -> list[Object]:
        return [place for place in self._places_known() if place.body is not None]

    def _pages(self, places: Iterable[Object], loose: dict[LineId, Version]) -> Iterator[Batch]:
        """The usable pages; an empty batch for each other. Their lines are removed from `loose`."""
        for place in places:
            page = self._page(place, loose) or Batch(())
            if _size(page.lines) > 2 * PAGE_TEXT:
                # From a version that wrote pages of any size. Too slow in one portion, so it is written anew.
                self._remove(place)
                page = Batch(())
            for line in page.lines:
                del loose[line.id]
            yield page

    def _remove(self, place: Object) -> None:
        del self._held[place.name]
        with suppress(Lost, Unavailable):
            self._state.store.delete(place.name, place.version)

    def _page(self, place: Object, living: Collection[LineId]) -> Batch | None:
        """A page, if it opens and all its lines still exist; otherwise None."""
        try:
            found = self._state.store.get(place.name)
            if found is None or not found.body:
                return None
            opened = open_object(self._state, self._actor, self.namespace, found, partial(self._opened, place.name))
            if opened is None:
                return None
            batch = _decode(opened).batch(self.namespace)
        except (Tampered, msgspec.DecodeError, IndexError):
            return None
        ids = frozenset(line.id for line in batch.lines)
        if not ids or len(ids) != len(batch.lines) or not all(name in living for name in ids):
            return None
        self._held[place.name] = found.version, ids
        return batch

    def _opened(self, name: str, body: bytes, keys: Mapping[int, bytes]) -> bytes:
        return line_encryption.open_page(body, name, LinePlace(self._state.vault_id, self._actor, self.namespace), keys)

    def read(self, name: LineId) -> Line | None:
        """One line as it is now; None if it was forgotten or never existed."""
        return open_line(self._state, self._actor, self.namespace, self._state.store.get(self._lines + name))

    def _loose(
        self, names: Sequence[LineId], living: dict[LineId, Version], unwritten: list[tuple[Object, Batch]]
    ) -> Iterator[Batch]:
        """Lines that are in no page, newest first, in groups; large groups are written as pages.

        Not the newest few: a caller may be waiting, and claiming a place takes time.
        """
        at = 0
        while left := names[at:]:
            is_first = at == 0 and len(left) > _NEWEST
            claimed = self._claim() if len(names) >= LOOSE_LIMIT and not is_first else None
            # Read only after the place was claimed: a line forgotten from here on empties it.
            lines, taken = yield from self._group(left[: _NEWEST if is_first else PAGE_LINES])
            batch = self._shared(lines)
            yield batch
            if claimed:
                unwritten.append((claimed, batch))
            for name in left[:taken]:
                del living[name]
            at += taken

    def _group(self, names: Sequence[LineId]) -> Generator[Batch, None, tuple[list[Line], int]]:
        """As many of these lines as a page holds, oldest first, and how many of the names that covers."""
        lines: list[Line] = []
        at, step = 0, _STEPS[0]
        while at < len(names) and _size(lines) < PAGE_TEXT:
            lines[:0] = self._opened_lines(names[at : at + step])
            at, step = min(at + step, len(names)), min(2 * step, _STEPS[1])
            yield Batch(())
        fitting = _fitting(reversed(lines))
        if fitting == len(lines):
            return lines, at
        lines = lines[-fitting:]
        return lines, sum(name >= lines[0].id for name in names[:at])

    def _shared(self, lines: Sequence[Line]) -> Batch:
        """The lines as a page returns them: lines opened one by one share no values, and take three times the room."""
        if len(lines) <= _FEW:
            return Batch(lines)
        return CachePage.of(Batch(lines, self._readings(lines))).batch(self.namespace)

    def _readings(self, lines: Sequence[Line]) -> bytes:
        return self._state.shelves.readings(lines)

    def _opened_lines(self, names: Sequence[LineId]) -> list[Line]:
        """The lines of these names that still exist, oldest first."""
        if len(names) <= _FEW:
            lines = [self.read(name) for name in sorted(names)]
        else:
            wanted = {self._lines + name for name in names}
            listed = self._state.records.objects(self._lines, _right_before(min(wanted)), max(wanted), len(wanted))
            found = (thing for thing in listed if thing.name in wanted)
            lines = [open_line(self._state, self._actor, self.namespace, thing) for thing in found]
        return [line for line in lines if line is not None]

    # Writing.

    def keep(self, shelf: CachedNamespace) -> None:
        """Write the loose lines of a loaded shelf into pages, if there are enough of them."""
        if not self._are_kept or self._count_loose(shelf) < LOOSE_LIMIT:
            return
        loose = self._loose_on(shelf)
        while len(loose) >= LOOSE_LIMIT:
            count = _fitting(loose)
            some, loose = loose[:count], loose[count:]
            claimed = self._claim()
            self._state.catch_up()
            # An evicted shelf receives no changes any more: its lines may be forgotten.
            if claimed is None or not self._state.shelves.has(self._shelf, shelf):
                return
            with hold_still([shelf]):  # applies what was just followed: a posted deletion must not be missed
                still = [line for line in some if line.id in shelf.lines]
            self._fill(claimed, Batch(still, self._readings(still)))

    def _count_loose(self, shelf: CachedNamespace) -> int:
        """The approximate number of lines that are in no page."""
        with hold_still([shelf]):
            return len(shelf.lines) - sum(len(names) for _, names in self._held.values())

    def _paged(self, shelf: CachedNamespace) -> set[LineId]:
        """The lines that are in a page by now, including pages of other processes."""
        places = self._places_used()
        current = {place.name: place.version for place in places}
        self._held = {name: held for name, held in self._held.items() if current.get(name) == held[0]}
        for place in places:
            if place.name not in self._held:
                self._page(place, shelf.lines)
        return {name for _, names in self._held.values() for name in names}

    def _loose_on(self, shelf: CachedNamespace) -> list[Line]:
        """The lines that are in no page, oldest first."""
        paged = self._paged(shelf)
        with hold_still([shelf]):
            return sorted((line for line in shelf.lines.values() if line.id not in paged), key=_id)

    def _claim(self) -> Object | None:
        """Claim a place to write a page to. None if another process was first."""
        held = self._keys() if self._are_kept else None
        places = self._places_known()
        name = self._next_place(places)
        if held is None or name is None:
            return None
        # The claim fails if the keys changed: nothing may be written for an erased namespace. And if the last place is
        # gone: a concurrent forget would then wait for its number to be claimed, and not for this one.
        given = [Expect(held.name, held.version)]
        given += [Expect(place.name, place.version) for place in places[-1:]]
        with suppress(Lost, Unavailable):
            return Object(name, self._state.store.put_if_absent(name, _EMPTY, *given), _EMPTY)
        return None

    def _next_place(self, places: Iterable[Object]) -> str | None:
        """The next place to be claimed; None if all numbers are used."""
        used = [int(place.name[len(self._places) :].partition("/")[0]) for place in places]
        number = max(used, default=-1) + 1
        return f"{self._places}{number:06d}/{_LAST_PART}" if number < _PLACES else None

    def _keys(self) -> KeyCache | None:
        """The actor's keys, if the namespace's are still this shelf's: lines of an erased one must not be written."""
        held = self._state.keys_of(self._actor)
        locator = self._state.slots.namespace(self._actor, self.namespace)
        return held if held is not None and held.keys.birth(locator) == self._birth else None

    def _fill(self, claimed: Object, batch: Batch) -> None:
        """Write a page to its place, if no line was forgotten meanwhile. A failure is harmless."""
        with suppress(Lost, Unavailable):
            sealed = self._sealed(claimed.name, msgspec.msgpack.encode(CachePage.of(batch)))
            version = self._state.store.compare_and_swap(claimed.name, sealed, claimed.version)
            self._held[claimed.name] = version, frozenset(line.id for line in batch.lines)

    def _sealed(self, name: str, data: bytes) -> bytes:
        held = self._keys()
        if held is None:
            raise Lost(name)
        epoch, key = held.keys.newest(self._state.slots.namespace(self._actor, self.namespace))
        place = LinePlace(self._state.vault_id, self._actor, self.namespace)
        return line_encryption.seal_page(data, name, place, epoch, key, self._state.random(24))

    # Forgetting.

    def without(self, forgotten: Collection[LineId]) -> list[Effect]:
        """The effects by which a commit that forgets these lines ensures that no page holds one, now or later."""
        if not self._are_kept:
            return []
        places = self._places_known()
        coming = self._next_place(places)
        effects: list[Effect] = [] if coming is None else [Expect(coming, 0)]
        for place in places:
            version, names = self._held.get(place.name, (0, frozenset()))
            effects.append(Expect(place.name, place.version))
            if place.body is not None and (version != place.version or not names.isdisjoint(forgotten)):
                effects.append(Purge(place.name.removesuffix(_LAST_PART)))
        return effects


def shelf_at(state: Replica, actor: Actor, place: ShelfPlace, *, waits: bool = True) -> CachedNamespace | Load:
    """The shelf in a place, or its load; see `LineCache.find`."""
    source = partial(CachePageSet, state, actor, place.namespace, place.birth)
    return state.shelves.find(place.prefix, place.birth, source, waits=waits)


def load_shelves(
    state: Replica, actor: Actor, places: Iterable[ShelfPlace], patience: float | None
) -> Operation[list[CachedNamespace]]:
    """Wait until an actor's shelves are loaded, or patience is over. Raises the error of a load that failed."""
    found = [shelf_at(state, actor, place, waits=patience is None) for place in places]
    loads = [one for one in found if isinstance(one, Load)]
    if loads:
        yield Loading(state.shelves, loads, patience)
    for load in loads:
        state.shelves.check(load)
    return [one.shelf if isinstance(one, Load) else one for one in found]


def shelves_so_far(state: Replica, actor: Actor, places: Iterable[ShelfPlace]) -> list[CachedNamespace]:
    """An actor's shelves as far as they are loaded."""
    found = [shelf_at(state, actor, place) for place in places]
    for one in found:
        if isinstance(one, Load):
            state.shelves.load_in_background(one)
    return [one.shelf if isinstance(one, Load) else one for one in found]


def keep_pages(state: Replica) -> None:
    """Write the loose lines of the shelves in RAM into pages, for the next process."""
    for shelf in state.shelves.loaded():
        if isinstance(shelf.source, CachePageSet):
            shelf.source.keep(shelf)


def pages_of(shelf: CachedNamespace) -> CachePageSet:
    """The pages behind a shelf that `shelf_at` returned."""
    if not isinstance(shelf.source, CachePageSet):
        raise TypeError("this shelf was loaded from elsewhere")
    return shelf.source


def _fitting(lines: Iterable[Line]) -> int:
    """How many of these lines, from the first on, one page holds."""
    count = size = 0
    for line in lines:
        size += len(line.text)
        if count and (size > PAGE_TEXT or count == PAGE_LINES):
            return count
        count += 1
    return count


def _size(lines: Sequence[Line]) -> int:
    return sum([len(line.text) for line in lines])


def _id(line: Line) -> LineId:
    return line.id


def _right_before(name: str) -> str:
    """A name before this one and after all earlier names, so that a list after it begins with this one."""
    return f"{name[:-1]}{chr(ord(name[-1]) - 1)}~"
