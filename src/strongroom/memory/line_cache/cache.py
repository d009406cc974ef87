"""The line cache: the decrypted lines of every (actor, namespace) in use, within one budget of bytes (LRU).

A shelf is loaded once however many callers wait for it, in portions that count towards the budget as they come
(`cache_loader.py`). A shelf is defined in `cached_namespace.py`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from weakref import WeakValueDictionary

from strongroom.engines import Engine, Keeping, Ranked, Sparing
from strongroom.errors import StrongroomError
from strongroom.memory.line_cache.cache_loader import Load, Loader
from strongroom.memory.line_cache.cached_namespace import Batch, CachedNamespace, Source, hold_still
from strongroom.memory.line_cache.filtered_index import Condition
from strongroom.model import Line, LineId

__all__ = ["Batch", "CachedNamespace", "LineCache", "Load", "Source", "hold_still"]

_UNREAD = 16 * 1024
"""A put leaves up to this many characters of new lines unread. The next question reads them."""

_READ_AT_ONCE = 1024
"""How many of these one put reads when there are more: some 0.4 ms. Reading all would make one put in 70 slow."""


class ShelfTable:
    """The shelves in RAM, by the prefix of their objects in the store, with an LRU budget and their loads.

    Their sizes stay within `budget` bytes, except that the shelf in use is kept whatever its size. `loading_threads` is
    how many load in the background: one, unless loading mostly waits for a network.
    """

    def __init__(self, engine: Engine, budget: int, loading_threads: int = 1) -> None:
        self._engine = engine
        self._budget = budget
        self._shelves: OrderedDict[str, CachedNamespace] = OrderedDict()
        """The shelves that are kept, least recently used first."""
        self._alive: WeakValueDictionary[str, CachedNamespace] = WeakValueDictionary()
        """Evicted shelves too, while an operation still uses them: they go on receiving changes."""
        self._loads: dict[str, Load] = {}
        self._unheard: dict[str, BaseException] = {}
        """Failures of background loads, until a caller asks for that shelf again."""
        self._loader = Loader(loading_threads, self._has_room)
        self._bytes = 0
        self._guard = threading.Lock()
        self.hits = 0
        self.misses = 0

    def find(
        self, prefix: str, birth: bytes, source: Callable[[], Source], *, waits: bool = True
    ) -> CachedNamespace | Load:
        """The shelf of `prefix` if it is loaded, else its load, which is begun if there is none.

        `birth` tells its keys from those of a namespace that was erased and created again under the same prefix. With
        `waits`, the caller sees a failure by waiting for the load; otherwise the failure of the last load is raised
        here.
        """
        with self._guard:
            failure = self._unheard.pop(prefix, None)
            if failure is not None and not waits:
                raise failure  # an empty shelf would hide it
            shelf = self._kept(prefix)
            if shelf is None or shelf.birth != birth:
                self.misses += 1
                # Registered with `changed` before the first line is read, so that no change can be missed.
                shelf = self._begin(prefix, CachedNamespace(prefix, birth, source(), self._engine.index()))
            self._shelves.move_to_end(prefix)
            load = self._loads.get(prefix)
            self.hits += load is None
            return shelf if load is None else load

    def load_in_background(self, load: Load) -> None:
        """Leave a load to the loader's threads."""
        self._loader.add(load)

    def check(self, load: Load) -> None:
        """Raise a load's failure, so that it is not raised for the next caller."""
        if load.failure is not None:
            with self._guard:
                self._unheard.pop(load.shelf.prefix, None)
            load.check()

    def loaded_at(self, prefix: str, birth: bytes) -> CachedNamespace | None:
        """The shelf of `prefix` if it is loaded."""
        with self._guard:
            shelf = self._kept(prefix)
            if shelf is None or shelf.birth != birth or prefix in self._loads:
                return None
            self._shelves.move_to_end(prefix)
            self.hits += 1
            return shelf

    def close(self) -> None:
        """Stop the background loads, and wait for that."""
        self._loader.close()

    def _kept(self, prefix: str) -> CachedNamespace | None:
        """The shelf of `prefix`. An evicted one that an operation still uses is kept again."""
        shelf = self._shelves.get(prefix)
        if shelf is None and (shelf := self._alive.get(prefix)) is not None:
            self._shelves[prefix] = shelf
            self._grown(prefix, shelf)
        return shelf

    def _begin(self, prefix: str, shelf: CachedNamespace) -> CachedNamespace:
        """Register an empty shelf, with its load."""
        if prefix in self._shelves:
            self._remove(prefix)
        self._shelves[prefix] = self._alive[prefix] = shelf
        self._loads[prefix] = Load(shelf, self._portion_loaded, self._load_ended)
        return shelf

    def _portion_loaded(self, load: Load) -> None:
        with self._guard:
            if self._loads.get(load.shelf.prefix) is load:  # it may have been dropped meanwhile
                self._grown(load.shelf.prefix, load.shelf)

    def _load_ended(self, load: Load) -> None:
        prefix = load.shelf.prefix
        with self._guard:
            if self._loads.get(prefix) is not load:
                return
            del self._loads[prefix]
            if load.is_whole:
                self._grown(prefix, load.shelf)
            else:
                self._remove(prefix)
                self._alive.pop(prefix, None)
                if load.failure is not None and load.is_in_background:
                    self._unheard[prefix] = load.failure  # for the next caller: nobody may be waiting

    def _has_room(self) -> bool:
        return self._bytes < self._budget

    def drop(self, prefix: str) -> None:
        """Drop every shelf below `prefix`: erased, or sealed with other keys than before."""
        with self._guard:
            for name in self._below(prefix):
                if name in self._shelves:
                    self._remove(name)
                self._alive.pop(name, None)

    def has(self, prefix: str, shelf: CachedNamespace) -> bool:
        """Whether this shelf is the one that receives changes."""
        with self._guard:
            return self._alive.get(prefix) is shelf

    def loaded(self) -> list[CachedNamespace]:
        """The shelves that are loaded."""
        with self._guard:
            return [shelf for prefix, shelf in self._shelves.items() if prefix not in self._loads]

    def below(self, prefix: str) -> dict[str, bytes]:
        """The shelves in RAM below `prefix`, each with its birth."""
        with self._guard:
            return {name: self._alive[name].birth for name in self._below(prefix)}

    def usage(self) -> tuple[int, int]:
        """The number of shelves, and their approximate size in bytes."""
        with self._guard:
            return len(self._shelves), self._bytes

    def _below(self, prefix: str) -> list[str]:
        return [name for name in list(self._alive) if name.startswith(prefix)]

    def _grown(self, prefix: str, shelf: CachedNamespace) -> None:
        """Update a shelf's counted size, and evict the least recently used shelves until all fit again."""
        size = shelf.bytes
        self._bytes += size - shelf.counted
        shelf.counted = size
        for name in list(self._shelves) if self._bytes > self._budget else ():
            if self._bytes <= self._budget:
                return
            if name != prefix and name not in self._loads:
                self._remove(name)

    def _remove(self, name: str) -> None:
        shelf = self._shelves.pop(name)
        self._bytes -= shelf.counted
        shelf.counted = 0
        if (load := self._loads.pop(name, None)) is not None:
            load.stop()  # callers that wait for it ask for the shelf again


class LineCache(ShelfTable):
    """The shelves with their changes: posted to them, read into their indexes, and then ranked."""

    def __init__(self, engine: Engine, budget: int, loading_threads: int = 1) -> None:
        super().__init__(engine, budget, loading_threads)
        self._sparing = engine if isinstance(engine, Sparing) else None  # once: isinstance is slow
        self._unsettled: dict[str, CachedNamespace] = {}
        """Shelves with changes that have not been applied or read yet."""
        self._shrunk: set[str] = set()
        """Those of them that still hold a forgotten line."""
        self.has_put_off = False
        """Whether there is anything for `let_go` to do."""

    def _remove(self, name: str) -> None:
        super()._remove(name)
        self._unsettled.pop(name, None)
        self._shrunk.discard(name)

    def changed(
        self, prefix: str, name: LineId, line: Line | None, birth: bytes | None = None, *, deleted: bool
    ) -> None:
        """Post a change to the shelf of its line, if that is in RAM. Calls must not overlap.

        `line`, sealed with the keys of `birth`, saves reading it. It is used only if the shelf has these keys: its
        namespace may have been erased and created again since.
        """
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is None:
                return
            shelf.post(name, line if birth == shelf.birth else None, is_deleted=deleted)
            self._posted(prefix, shelf, has_shrunk=deleted)

    def document_changed(self, prefix: str, locator: str) -> None:
        """Post a change of a document to its shelf, if that is in RAM; see `changed`."""
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is not None:
                shelf.post_document(locator)
                self._posted(prefix, shelf, has_shrunk=True)

    def _posted(self, prefix: str, shelf: CachedNamespace, *, has_shrunk: bool) -> None:
        """Count a shelf's new change, and remember to apply it. The guard is held."""
        if prefix in self._shelves:
            self._grown(prefix, shelf)
            if prefix not in self._loads:
                self._unsettled[prefix] = shelf
                if has_shrunk:
                    self._shrunk.add(prefix)
                self.has_put_off = self.has_put_off or has_shrunk or shelf.unread_size > _UNREAD

    def replaced(self, prefix: str, name: LineId) -> None:
        """Post to the shelf of a line that it was replaced, if that is in RAM. Calls must not overlap."""
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is not None:
                shelf.post_replaced(name)

    def settle(self) -> None:
        """Read the lines put since the last question, so that the next one need not."""
        self._settle(lambda _, __: True)

    def let_go(self) -> None:
        """Remove forgotten lines from RAM, and read new lines if there are many. May wait for readers."""
        if self._unsettled:
            self.has_put_off = False
            self._settle(
                lambda prefix, shelf: prefix in self._shrunk or shelf.unread_size > _UNREAD, _UNREAD - _READ_AT_ONCE
            )

    def _settle(self, is_meant: Callable[[str, CachedNamespace], bool], down_to: int = 0) -> None:
        with self._guard:
            meant = {prefix: shelf for prefix, shelf in self._unsettled.items() if is_meant(prefix, shelf)}
            for prefix in meant:
                del self._unsettled[prefix]
                self._shrunk.discard(prefix)
        self._read(meant.values(), down_to)

    def _read(self, shelves: Iterable[CachedNamespace], down_to: int = 0) -> None:
        """Apply changes to shelves, read lines until `down_to` characters are left, and update the counted sizes.

        A line that cannot be opened stays posted: the next reader gets the error, and it is logged.
        """
        for shelf in shelves:
            has_more = False
            with suppress(StrongroomError), hold_still([shelf]):
                has_more = shelf.read(down_to)
            with self._guard:
                if self._shelves.get(shelf.prefix) is shelf:
                    if has_more:
                        self._unsettled[shelf.prefix] = shelf
                    self._grown(shelf.prefix, shelf)

    def _count(self, shelves: Iterable[CachedNamespace]) -> None:
        """Update the counted sizes of shelves."""
        with self._guard:
            for shelf in shelves:
                if self._shelves.get(shelf.prefix) is shelf:
                    self._grown(shelf.prefix, shelf)

    def readings(self, lines: Sequence[Line]) -> bytes:
        """The engine's readings of these lines; empty if it keeps none."""
        return self._engine.readings(lines) if isinstance(self._engine, Keeping) else b""

    def rank(
        self,
        shelves: Sequence[CachedNamespace],
        query: str,
        k: int,
        now: datetime,
        without: frozenset[LineId] = frozenset(),
        condition: Condition | None = None,
    ) -> Sequence[Ranked]:
        """Rank these shelves with the engine, and check that it returns only their lines.

        With a `condition`, only the lines that meet it exist for the engine. Lines in `without` are ranked like all
        others, so that no score depends on them, and then left out.
        """
        if any(shelf.unread_size for shelf in shelves):
            self._read(shelves)
        with hold_still(shelves):
            for shelf in shelves:
                shelf.make_ready()
            ranked = self._ranked(shelves, query, k, now, without, condition)
            given = [shelf.lines for shelf in shelves]
            for hit in ranked:
                line = hit.line
                for lines in given:
                    if lines.get(line.id) is line:
                        break
                else:
                    raise RuntimeError("the engine returned a line that it was not given")
        if condition is not None:
            self._count(shelves)
        return [hit for hit in ranked if hit.line.id not in without][:k] if without else ranked[:k]

    def _ranked(
        self,
        shelves: Sequence[CachedNamespace],
        query: str,
        k: int,
        now: datetime,
        without: frozenset[LineId],
        condition: Condition | None,
    ) -> Sequence[Ranked]:
        if condition is None:
            indexes = [shelf.index for shelf in shelves]
        else:
            indexes = [shelf.index_of(condition, self._engine.index) for shelf in shelves]
        if self._sparing is not None:
            return self._sparing.rank_without(query, indexes, k, now, without)
        # Only existing lines are added to k: an unknown id must change nothing.
        more = sum([len(shelf.lines.keys() & without) for shelf in shelves])
        return self._engine.rank(query, indexes, k + more, now)
