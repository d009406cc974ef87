"""Pages: many lines of one shelf in one sealed object, with the engine's readings. A cache, never the truth.

A fresh process reads a few pages instead of opening and reading every line. The lines themselves stay where they are: a
page counts only if each of its lines still exists, and a page that does not open is ignored.

What a page holds is in `cache_page`; where pages are written, and why no forgotten line stays in one, in `page_places`.
In a store without atomic commits there are no pages, and shelves are read line by line.
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
"""Lines in no page that are worth a new one. Fewer are opened one by one."""

_FEW = 16
PAGE_TEXT = 128 * 1024
"""Maximum number of characters of a page, except for a single longer line: the engine reads so many in 60 ms."""
_NEWEST = 32
"""How many of the newest lines are read before all others. They are in no page."""
_STEPS = (16, 64)
"""Lines that are opened at a time: at first, and at most."""
_NAMES = 1000
"""Names that are listed in one portion of a load."""


class CachePageSet:
    """Loads one shelf from its pages and its loose lines, and writes loose lines into pages."""

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
        """Every document and line of the shelf: of the lines, those newer than the newest page, the pages, the rest."""
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
                # At most a page of them: this page is probably the newest, but not certainly.
                newer = list(islice((name for name in loose if name > newest), PAGE_LINES))
                yield from self._loose(newer, loose, unwritten)
            yield page
        yield from self._loose(list(loose), loose, unwritten)
        # The newest lines last, because the page with the highest version is read first.
        for claimed, batch in reversed(unwritten):
            self.places.fill(claimed, batch if batch.readings else Batch(batch.lines, self._readings(batch.lines)))
            yield Batch(())  # other loads get their turn

    def _living(self) -> Generator[Batch, None, dict[LineId, Version]]:
        """The existing lines, newest first."""
        living: list[tuple[LineId, Version]] = []
        for number, thing in enumerate(self._state.records.names(self._lines)):
            name = line_id_of(thing.name)
            if thing.name != self._lines + name:
                raise Tampered(
                    "an object with an invalid name is stored among the lines",
                    hint="vault.audit.verify() names what is wrong",
                )
            if thing.body is not None:
                living.append((name, thing.version))
            if number % _NAMES == _NAMES - 1:
                yield Batch(())
        return dict(reversed(living))

    def _pages(self, places: Iterable[Object], loose: dict[LineId, Version]) -> Iterator[Batch]:
        """The usable pages; an empty batch for each other. Their lines are removed from `loose`."""
        for place in places:
            page = self.places.read(place, loose) or Batch(())
            if _size(page.lines) > 2 * PAGE_TEXT:
                # From a version that wrote pages of any size. Too slow in one portion, so it is written anew.
                self.places.remove(place)
                page = Batch(())
            for line in page.lines:
                del loose[line.id]
            yield page

    def read(self, name: LineId) -> Line | None:
        """One line as it is now; None if it was forgotten or never existed."""
        return open_line(self._state, self._actor, self.namespace, self._state.store.get(self._lines + name))

    def replacement(self, name: LineId) -> LineId | None:
        """The line that replaced this one; None if none did."""
        return read_mark(self._state, self._actor, self.namespace, name)

    def read_document(self, locator: str) -> Line | None:
        """The present version of a document; None if it was deleted."""
        return self._documents.read(locator)

    def _loose(
        self, names: Sequence[LineId], living: dict[LineId, Version], unwritten: list[tuple[Object, Batch]]
    ) -> Iterator[Batch]:
        """Lines that are in no page, newest first, in groups; large groups are written as pages.

        Not the newest few: a caller may be waiting, and claiming a place takes time.
        """
        at = 0
        while left := names[at:]:
            is_first = at == 0 and len(left) > _NEWEST
            claimed = self.places.claim() if len(names) >= LOOSE_LIMIT and not is_first else None
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
        """The first of these lines, as many as fit into a page, oldest first; and how many names were used for them."""
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
        """Make the lines share equal values, as lines from a page do. Without this they take three times the RAM."""
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
        if not self.places.are_kept or self._count_loose(shelf) < LOOSE_LIMIT:
            return
        loose = self._loose_on(shelf)
        while len(loose) >= LOOSE_LIMIT:
            count = _fitting(loose)
            some, loose = loose[:count], loose[count:]
            claimed = self.places.claim()
            self._state.catch_up()
            # An evicted shelf receives no changes any more: its lines may be forgotten.
            if claimed is None or not self._state.shelves.has(self._shelf, shelf):
                return
            with hold_still([shelf]):  # applies what was just followed: a posted deletion must not be missed
                still = [line for line in some if line.id in shelf.lines]
            self.places.fill(claimed, Batch(still, self._readings(still)))

    def _count_loose(self, shelf: CachedNamespace) -> int:
        """The approximate number of lines that are in no page."""
        with hold_still([shelf]):
            return len(shelf.lines) - len(shelf.documents) - self.places.count_lines()

    def _loose_on(self, shelf: CachedNamespace) -> list[Line]:
        """The lines that are in no page, oldest first."""
        paged = self.places.lines_in_pages(shelf.lines)
        with hold_still([shelf]):
            loose = (line for line in shelf.lines.values() if line.id not in paged and line.kind != Kind.DOCUMENT)
            return sorted(loose, key=_id)


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
