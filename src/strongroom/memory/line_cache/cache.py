"""The line cache: the decrypted lines of every actor's namespace in use, within one limit of bytes (LRU).

The lines of one namespace (a `CachedNamespace`, in the code also a shelf) are loaded once, however many callers wait
for them. They are loaded in parts, and each part counts towards the limit at once (`cache_loader.py`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from heapq import merge
from itertools import islice
from weakref import WeakValueDictionary

from strongroom.engines import Engine, Explaining, Index, Keeping, Ranked, Recognising, Sparing
from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.memory.line_cache.cache_loader import Load, Loader
from strongroom.memory.line_cache.cached_namespace import Batch, CachedNamespace, Source, hold_still
from strongroom.memory.line_cache.filtered_index import Condition
from strongroom.memory.line_cache.line_order import age_of
from strongroom.model import Line, LineId

__all__ = ["Batch", "CachedNamespace", "LineCache", "Load", "Source", "hold_still"]

_UNREAD = 16 * 1024
"""Up to this many characters of new lines are not indexed at a put. The next question adds them to the index."""

_READ_AT_ONCE = 1024
"""If more than `_UNREAD` characters of new lines wait to be indexed, a put indexes about this many of them.

Indexing so many takes about 0.4 ms. If the put indexed all that wait, one put in 70 would be slow.
"""


class ShelfTable:
    """The cached namespaces in RAM and their loads, by the prefix of their objects in the store.

    If they take more than `budget` bytes together, the least recently used ones are evicted. The one in use is kept
    whatever its size. `loading_threads` is the number of threads that load in the background. More than one thread
    helps only if loading mostly waits for a network.
    """

    def __init__(self, engine: Engine, budget: int, loading_threads: int = 1) -> None:
        self._engine = engine
        self._budget = budget
        self._shelves: OrderedDict[str, CachedNamespace] = OrderedDict()
        """The cached namespaces that are kept, least recently used first."""
        self._alive: WeakValueDictionary[str, CachedNamespace] = WeakValueDictionary()
        """All cached namespaces that receive changes: also evicted ones that an operation still uses."""
        self._loads: dict[str, Load] = {}
        self._unheard: dict[str, BaseException] = {}
        """The failures of background loads, by prefix, until a caller asks for the namespace again."""
        self._loader = Loader(loading_threads, self._has_room)
        self._bytes = 0
        self._guard = threading.Lock()
        self.hits = 0
        self.misses = 0

    def find(
        self, prefix: str, birth: bytes, source: Callable[[], Source], *, waits: bool = True
    ) -> CachedNamespace | Load:
        """The cached namespace at `prefix` if it is loaded; otherwise its load, which is begun if there is none.

        `birth` distinguishes its keys from those of a namespace that was erased and used again under the same prefix.
        With `waits`, the caller waits for the load and sees its failure. Otherwise, a failure of the last load in the
        background is raised here.
        """
        with self._guard:
            failure = self._unheard.pop(prefix, None)
            if failure is not None and not waits:
                raise failure  # otherwise the namespace would look empty
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
        """Leave a load to the threads of the loader."""
        self._loader.add(load)

    def check(self, load: Load) -> None:
        """Raise the failure of a load, if there is one. The next caller then does not get the same failure again."""
        if load.failure is not None:
            with self._guard:
                self._unheard.pop(load.shelf.prefix, None)
            load.check()

    def loaded_at(self, prefix: str, birth: bytes) -> CachedNamespace | None:
        """The cached namespace at `prefix`, or None if it is not loaded."""
        with self._guard:
            shelf = self._kept(prefix)
            if shelf is None or shelf.birth != birth or prefix in self._loads:
                return None
            self._shelves.move_to_end(prefix)
            self.hits += 1
            return shelf

    def close(self) -> None:
        """Stop the background loads, and wait until their threads have ended."""
        self._loader.close()

    def _kept(self, prefix: str) -> CachedNamespace | None:
        """The cached namespace at `prefix`, or None.

        If it was evicted but an operation still uses it, it is kept again.
        """
        shelf = self._shelves.get(prefix)
        if shelf is None and (shelf := self._alive.get(prefix)) is not None:
            self._shelves[prefix] = shelf
            self._grown(prefix, shelf)
        return shelf

    def _begin(self, prefix: str, shelf: CachedNamespace) -> CachedNamespace:
        """Register an empty cached namespace, with its load."""
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
                    self._unheard[prefix] = load.failure  # for the next caller, in case no caller waits now

    def _has_room(self) -> bool:
        return self._bytes < self._budget

    def drop(self, prefix: str) -> None:
        """Drop every cached namespace below `prefix`, because its lines were erased or its keys were replaced."""
        with self._guard:
            for name in self._below(prefix):
                if name in self._shelves:
                    self._remove(name)
                self._alive.pop(name, None)

    def has(self, prefix: str, shelf: CachedNamespace) -> bool:
        """Whether this very object is the cached namespace at `prefix` that receives changes."""
        with self._guard:
            return self._alive.get(prefix) is shelf

    def loaded(self) -> list[CachedNamespace]:
        """The cached namespaces that are fully loaded."""
        with self._guard:
            return [shelf for prefix, shelf in self._shelves.items() if prefix not in self._loads]

    def below(self, prefix: str) -> dict[str, bytes]:
        """The prefixes of the cached namespaces below `prefix`, each with the birth of its keys."""
        with self._guard:
            return {name: self._alive[name].birth for name in self._below(prefix)}

    def usage(self) -> tuple[int, int]:
        """The number of cached namespaces, and their approximate size in bytes."""
        with self._guard:
            return len(self._shelves), self._bytes

    def _below(self, prefix: str) -> list[str]:
        return [name for name in list(self._alive) if name.startswith(prefix)]

    def _grown(self, prefix: str, shelf: CachedNamespace) -> None:
        """Update the counted size of a cached namespace, and evict the least recently used ones until all fit."""
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
            load.stop()  # callers that wait for this load ask for the namespace again


class LineCache(ShelfTable):
    """The cached namespaces, with the changes that are posted to them, and the ranking of their lines."""

    def __init__(self, engine: Engine, budget: int, loading_threads: int = 1) -> None:
        super().__init__(engine, budget, loading_threads)
        self._sparing = engine if isinstance(engine, Sparing) else None  # once: isinstance is slow
        self._unsettled: dict[str, CachedNamespace] = {}
        """The cached namespaces with changes that are not applied yet, or lines that are not indexed yet."""
        self._shrunk: set[str] = set()
        """The prefixes of the cached namespaces in `_unsettled` that still hold a forgotten line."""
        self.has_put_off = False
        """Whether `let_go` has any work to do."""

    def _remove(self, name: str) -> None:
        super()._remove(name)
        self._unsettled.pop(name, None)
        self._shrunk.discard(name)

    def changed(
        self, prefix: str, name: LineId, line: Line | None, birth: bytes | None = None, *, deleted: bool
    ) -> None:
        """Post the change of a line to its cached namespace, if that is in RAM. Calls must not overlap.

        If `line` is given, it need not be read from the store. It was sealed with the keys of `birth`, and is used only
        if the cached namespace has these keys: the namespace may have been erased and used again since.
        """
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is None:
                return
            shelf.post(name, line if birth == shelf.birth else None, is_deleted=deleted)
            self._posted(prefix, shelf, has_shrunk=deleted)

    def document_changed(self, prefix: str, locator: str) -> None:
        """Post the change of a document to its cached namespace, if that is in RAM. Calls must not overlap."""
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is not None:
                shelf.post_document(locator)
                self._posted(prefix, shelf, has_shrunk=True)

    def _posted(self, prefix: str, shelf: CachedNamespace, *, has_shrunk: bool) -> None:
        """Count a posted change, and note that it must be applied. The guard is held."""
        if prefix in self._shelves:
            self._grown(prefix, shelf)
            if prefix not in self._loads:
                self._unsettled[prefix] = shelf
                if has_shrunk:
                    self._shrunk.add(prefix)
                self.has_put_off = self.has_put_off or has_shrunk or shelf.unread_size > _UNREAD

    def replaced(self, prefix: str, name: LineId) -> None:
        """Post to a line's cached namespace, if that is in RAM, that the line was replaced. Calls must not overlap."""
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is not None:
                shelf.post_replaced(name)

    def settle(self) -> None:
        """Add the lines put since the last question to the index, so that the next question need not do this."""
        self._settle(lambda _, __: True)

    def let_go(self) -> None:
        """Remove forgotten lines from RAM, and index new lines if there are many. May wait for readers."""
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
        """Apply posted changes, index new lines until `down_to` characters of them remain, and update the sizes.

        The change of a line that cannot be opened stays posted. The next reader gets the error, which is then logged.
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
        """Update the counted sizes of cached namespaces."""
        with self._guard:
            for shelf in shelves:
                if self._shelves.get(shelf.prefix) is shelf:
                    self._grown(shelf.prefix, shelf)

    def readings(self, lines: Sequence[Line]) -> bytes:
        """The engine's index data of these lines, to be stored. Empty if the engine has none to store."""
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
        """Rank the lines of these cached namespaces with the engine, and check that it returns no other lines.

        With a `condition`, the engine gets only the lines that meet the condition. Lines in `without` take part in the
        ranking, so that the other lines keep their scores, but they are left out of the result. So are lines with a
        score of 0, which do not match: engines of before returned the newest lines in this way.
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
                    raise RuntimeError("the engine returned a line that is not among the lines it was given")
                later = hit.superseded_by
                if later is not None and not any(later in lines for lines in given):
                    raise RuntimeError("the engine named a line that is not among the lines it was given")
                if not 0.0 <= hit.confidence <= 1.0:
                    raise RuntimeError("the engine gave a line a confidence that is not between 0 and 1")
        if condition is not None:
            self._count(shelves)
        return [hit for hit in ranked if hit.line.id not in without and (hit.score or hit.standing)][:k]

    def newest(
        self,
        shelves: Sequence[CachedNamespace],
        k: int,
        without: frozenset[LineId] = frozenset(),
        condition: Condition | None = None,
    ) -> list[Line]:
        """The newest `k` lines of these cached namespaces that meet the condition and are not in `without`."""
        with hold_still(shelves):
            for shelf in shelves:
                shelf.make_ready()
            # Ids are unique within a namespace only. The namespace makes the order total.
            every = merge(
                *(shelf.newest(condition) for shelf in shelves),
                key=lambda line: (*age_of(line), line.namespace),
                reverse=True,
            )
            return list(islice((line for line in every if line.id not in without), k))

    def standing(self, shelves: Sequence[CachedNamespace]) -> frozenset[tuple[str, LineId]]:
        """The standing instructions and preferences that the engine recognises, by namespace and id."""
        if any(shelf.unread_size for shelf in shelves):
            self._read(shelves)
        found: set[tuple[str, LineId]] = set()
        with hold_still(shelves):
            for shelf in shelves:
                shelf.make_ready()
                if not isinstance(shelf.index, Recognising):
                    raise InvalidRequest(
                        "the engine of this vault recognises no standing lines", hint="the engine `lexical` does"
                    )
                found.update([(line.namespace, line.id) for line in shelf.index.standing_lines()])
        return frozenset(found)

    def explain(
        self,
        shelves: Sequence[CachedNamespace],
        query: str,
        now: datetime,
        lines: frozenset[LineId],
        condition: Condition | None = None,
    ) -> Mapping[tuple[str, LineId], Mapping[str, float]]:
        """The share of each signal in the scores of these lines. Empty if the engine cannot explain its scores."""
        if not isinstance(self._engine, Explaining):
            return {}
        with hold_still(shelves):
            for shelf in shelves:
                shelf.make_ready()
            return self._engine.explain(query, self._indexes(shelves, condition), now, lines)

    def _indexes(self, shelves: Sequence[CachedNamespace], condition: Condition | None) -> list[Index]:
        """The engine's indexes of these cached namespaces, with only the lines that meet the condition."""
        if condition is None:
            return [shelf.index for shelf in shelves]
        return [shelf.index_of(condition, self._engine.index) for shelf in shelves]

    def _ranked(
        self,
        shelves: Sequence[CachedNamespace],
        query: str,
        k: int,
        now: datetime,
        without: frozenset[LineId],
        condition: Condition | None,
    ) -> Sequence[Ranked]:
        indexes = self._indexes(shelves, condition)
        if self._sparing is not None:
            return self._sparing.rank_without(query, indexes, k, now, without)
        # Only existing lines are added to k: an unknown id must change nothing.
        more = sum([len(shelf.lines.keys() & without) for shelf in shelves])
        return self._engine.rank(query, indexes, k + more, now)
