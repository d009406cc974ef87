"""Cache pages: a page is a sealed object with copies of many lines of one namespace, and the engine's index data.

A new process reads a few pages instead of opening and indexing every line. Pages are only a cache. The lines themselves
stay in their own objects, a page is used only if each of its lines still exists, and a page that does not open is
ignored.

`cache_page` encodes a page. `page_places` says where pages are written, and ensures that no forgotten line stays in
one. In a store without atomic commits there are no pages, and namespaces are read line by line.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from strongroom.errors import Tampered
from strongroom.memory.cache_page import CachePage
from strongroom.memory.line_cache.cache import Batch, CachedNamespace, Load, hold_still
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.memory.operation import Loading, Operation
from strongroom.memory.page_places import PagePlaces
from strongroom.memory.replacement_marks import read_mark, read_marks
from strongroom.memory.replica import Replica
from strongroom.memory.stored_documents import DocumentSource
from strongroom.memory.stored_lines import line_id_of, open_line
from strongroom.model import Actor, Kind, Line, LineId, Namespace
from strongroom.store import Object, Version

PAGE_LINES = 1024
LOOSE_LIMIT = 256
"""A new page is written if at least this many lines are in no page. Fewer lines are opened one by one."""

_FEW = 16
PAGE_TEXT = 128 * 1024
"""Maximum number of characters of a page, which the engine indexes in 60 ms. A single longer line is allowed."""
_NEWEST = 32
"""How many of the newest lines without a page are read before all others."""
_STEPS = (16, 64)
"""How many lines are opened at a time: in the first step of a group, and in a later step at most."""
_NAMES = 1000
"""How many names one step of a load lists."""


class CachePageSet:
    """Loads the lines of one namespace, and writes its pages.

    Lines that are in no page are called loose. They are opened one by one, and written into new pages.
    """

    def __init__(self, state: Replica, actor: Actor, namespace: Namespace, birth: bytes) -> None:
        self._state = state
        self._actor = actor
        self.namespace = namespace
        self._shelf = state.slots.shelf(actor, namespace)
        self._lines = f"{self._shelf}lines/"
        self.places = PagePlaces(state, actor, namespace, birth)
        self._documents = DocumentSource(state, actor, namespace)

    # Loading.

    def batches(self) -> Iterator[Batch]:
        """All documents and lines of the namespace: first the documents, then the lines, the newest first.

        The lines come in this order: lines newer than the newest page, the lines of pages, other lines without a page.
        """
        if replaced := read_marks(self._state, self._actor, self.namespace):
            yield Batch((), replaced=replaced)
        yield from self._documents.batches()
        places = sorted(self.places.used(), key=lambda place: -place.version)
        loose = yield from self._living()
        unwritten: list[tuple[Object, Batch]] = []
        is_first = True
        for page in self._pages(places, loose):
            if is_first and page.lines:
                is_first = False
                newest = max(line.id for line in page.lines)
                # No more lines than fit into a page: this page is probably the newest one, but not certainly.
                newer = list(islice((name for name in loose if name > newest), PAGE_LINES))
                yield from self._loose(newer, loose, unwritten)
            yield page
        yield from self._loose(list(loose), loose, unwritten)
        # The newest lines are written last, because a load reads the page with the highest version first.
        for claimed, batch in reversed(unwritten):
            self.places.fill(claimed, batch if batch.readings else Batch(batch.lines, self._readings(batch.lines)))
            yield Batch(())  # an empty step, so that other loads can continue

    def _living(self) -> Generator[Batch, None, dict[LineId, Version]]:
        """The ids of all existing lines with their versions, newest first."""
        living: list[tuple[LineId, Version]] = []
        for number, thing in enumerate(self._state.records.names(self._lines)):
            name = line_id_of(thing.name)
            if thing.name != self._lines + name:
                raise Tampered(
                    "an object with an invalid name is stored among the lines",
                    hint="run vault.audit.verify(), which names the damaged objects",
                )
            if thing.body is not None:
                living.append((name, thing.version))
            if number % _NAMES == _NAMES - 1:
                yield Batch(())
        return dict(reversed(living))

    def _pages(self, places: Iterable[Object], loose: dict[LineId, Version]) -> Iterator[Batch]:
        """The lines of each usable page, and an empty batch for each other page.

        The lines of usable pages are removed from `loose`, which then has the lines that are in no page.
        """
        for place in places:
            page = self.places.read(place, loose) or Batch(())
            if _size(page.lines) > 2 * PAGE_TEXT:
                # An earlier version wrote this page, which is too large to load in one step. It is written again.
                self.places.remove(place)
                page = Batch(())
            for line in page.lines:
                del loose[line.id]
            yield page

    def read(self, name: LineId) -> Line | None:
        """The present state of one line, or None if the line was forgotten or never existed."""
        return open_line(self._state, self._actor, self.namespace, self._state.store.get(self._lines + name))

    def replacement(self, name: LineId) -> LineId | None:
        """The id of the line that replaced the line `name`, or None if that line was not replaced."""
        return read_mark(self._state, self._actor, self.namespace, name)

    def read_document(self, locator: str) -> Line | None:
        """The present version of a document as a line, or None if the document was deleted."""
        return self._documents.read(locator)

    def _loose(
        self, names: Sequence[LineId], living: dict[LineId, Version], unwritten: list[tuple[Object, Batch]]
    ) -> Iterator[Batch]:
        """The lines `names`, which are in no page, in groups, newest first. For large groups, a page is prepared.

        The newest few lines get no page: a caller may be waiting for them, and claiming a place takes time.
        """
        at = 0
        while left := names[at:]:
            is_first = at == 0 and len(left) > _NEWEST
            claimed = self.places.claim() if len(names) >= LOOSE_LIMIT and not is_first else None
            # The lines are read only after the place was claimed: a forget of one of them then removes the claim.
            lines, taken = yield from self._group(left[: _NEWEST if is_first else PAGE_LINES])
            batch = self._shared(lines)
            yield batch
            if claimed:
                unwritten.append((claimed, batch))
            for name in left[:taken]:
                del living[name]
            at += taken

    def _group(self, names: Sequence[LineId]) -> Generator[Batch, None, tuple[list[Line], int]]:
        """As many of the first of these lines as fit into a page, oldest first, and how many names were used."""
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
        """The lines as a batch in which equal values are shared. Without this, they take three times the RAM."""
        if len(lines) <= _FEW:
            return Batch(lines)
        return CachePage.of(Batch(lines, self._readings(lines))).batch(self.namespace)

    def _readings(self, lines: Sequence[Line]) -> bytes:
        return self._state.shelves.readings(lines)

    def _opened_lines(self, names: Sequence[LineId]) -> list[Line]:
        """Open those of the lines `names` that still exist. Returns them oldest first."""
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
        """Write the lines of a loaded namespace that are in no page into new pages, if there are enough of them."""
        if not self.places.are_kept or self._count_loose(shelf) < LOOSE_LIMIT:
            return
        loose = self._loose_on(shelf)
        while len(loose) >= LOOSE_LIMIT:
            count = _fitting(loose)
            some, loose = loose[:count], loose[count:]
            claimed = self.places.claim()
            self._state.catch_up()
            # A cached namespace that was evicted receives no changes any more, so its lines may be forgotten.
            if claimed is None or not self._state.shelves.has(self._shelf, shelf):
                return
            with hold_still([shelf]):  # applies the posted changes, so that no deletion is missed
                still = [line for line in some if line.id in shelf.lines]
            self.places.fill(claimed, Batch(still, self._readings(still)))

    def _count_loose(self, shelf: CachedNamespace) -> int:
        """The approximate number of lines that are in no page."""
        with hold_still([shelf]):
            return len(shelf.lines) - len(shelf.documents) - self.places.count_lines()

    def _loose_on(self, shelf: CachedNamespace) -> list[Line]:
        """The lines of a cached namespace that are in no page, oldest first."""
        paged = self.places.lines_in_pages(shelf.lines)
        with hold_still([shelf]):
            loose = (line for line in shelf.lines.values() if line.id not in paged and line.kind != Kind.DOCUMENT)
            return sorted(loose, key=_id)


def shelf_at(state: Replica, actor: Actor, place: ShelfPlace, *, waits: bool = True) -> CachedNamespace | Load:
    """The cached namespace at a place in the store if it is loaded, or its load (`LineCache.find`)."""
    source = partial(CachePageSet, state, actor, place.namespace, place.birth)
    return state.shelves.find(place.prefix, place.birth, source, waits=waits)


def load_shelves(
    state: Replica, actor: Actor, places: Iterable[ShelfPlace], patience: float | None
) -> Operation[list[CachedNamespace]]:
    """Wait until an actor's namespaces are loaded, or until `patience` seconds are over.

    If a load failed, its error is raised.
    """
    found = [shelf_at(state, actor, place, waits=patience is None) for place in places]
    loads = [one for one in found if isinstance(one, Load)]
    if loads:
        yield Loading(state.shelves, loads, patience)
    for load in loads:
        state.shelves.check(load)
    return [one.shelf if isinstance(one, Load) else one for one in found]


def shelves_so_far(state: Replica, actor: Actor, places: Iterable[ShelfPlace]) -> list[CachedNamespace]:
    """An actor's cached namespaces with the lines that are loaded so far. Loads continue in the background."""
    found = [shelf_at(state, actor, place) for place in places]
    for one in found:
        if isinstance(one, Load):
            state.shelves.load_in_background(one)
    return [one.shelf if isinstance(one, Load) else one for one in found]


def keep_pages(state: Replica) -> None:
    """Write the lines that are in no page into new pages, for all namespaces in RAM. The next process reads these."""
    for shelf in state.shelves.loaded():
        if isinstance(shelf.source, CachePageSet):
            shelf.source.keep(shelf)


def pages_of(shelf: CachedNamespace) -> CachePageSet:
    """The page set of a cached namespace that `shelf_at` returned."""
    if not isinstance(shelf.source, CachePageSet):
        raise TypeError("this cached namespace was not loaded by shelf_at, so it has no pages")
    return shelf.source


def _fitting(lines: Iterable[Line]) -> int:
    """How many of the first of these lines fit into one page."""
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
    """A name that sorts directly before `name`, so that a listing of the names after it begins with `name`."""
    return f"{name[:-1]}{chr(ord(name[-1]) - 1)}~"
