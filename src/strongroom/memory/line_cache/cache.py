"""Shelves: the opened lines of every (actor, namespace) that is in use, in RAM and within one budget of bytes.

The least recently used shelves go first. A shelf is loaded once however many callers wait for it, in portions that
count towards the budget as they come (`cache_loader.py`). What a shelf is: `cached_namespace.py`.
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
from strongroom.model import Line, LineId

__all__ = ["Batch", "CachedNamespace", "LineCache", "Load", "Source", "hold_still"]

_UNREAD = 16 * 1024
"""Characters of new lines that wait to be read into an index, unless the thread that put them must not wait."""

_READ_AT_ONCE = 1024
"""Of these, what one put reads when there are more: some 0.4 ms. All of them at once would make one put in 70 slow."""


class ShelfTable:
    """The shelves in RAM, by the prefix of their objects in the store; loads those that are asked for.

    Together they stay within `budget` bytes, but for the one in use, which is kept whatever its size. So many
    `loading_threads` load in the background: one, unless loading is mostly waiting for a network.
    """

    def __init__(self, engine: Engine, budget: int, loading_threads: int = 1) -> None:
        self._engine = engine
        self._budget = budget
        self._shelves: OrderedDict[str, CachedNamespace] = OrderedDict()
        """The shelves that are kept, least recently used first."""
        self._alive: WeakValueDictionary[str, CachedNamespace] = WeakValueDictionary()
        """Also those that were let go of while an operation still has them: they go on hearing of changes."""
        self._loads: dict[str, Load] = {}
        self._unheard: dict[str, BaseException] = {}
        """What loads in the background failed with, until somebody asks for that shelf again."""
        self._loader = Loader(loading_threads, self._has_room)
        self._bytes = 0
        self._guard = threading.Lock()
        self.hits = 0
        self.misses = 0

    def find(
        self, prefix: str, birth: bytes, source: Callable[[], Source], *, waits: bool = True
    ) -> CachedNamespace | Load:
        """The shelf of `prefix` if it is whole, or else its load, which is begun if there is none.

        `birth` tells its keys apart from those of a namespace that was erased and made anew under the same prefix. A
        caller that `waits` for the load finds out if it fails; another one is told what the last one failed with.
        """
        with self._guard:
            failure = self._unheard.pop(prefix, None)
            if failure is not None and not waits:
                raise failure  # else it would be taken for an empty shelf
            shelf = self._kept(prefix)
            if shelf is None or shelf.birth != birth:
                self.misses += 1
                # Known to `changed` before the first line is read, so that no change can slip between.
                shelf = self._begin(prefix, CachedNamespace(prefix, birth, source(), self._engine.index()))
            self._shelves.move_to_end(prefix)
            load = self._loads.get(prefix)
            self.hits += load is None
            return shelf if load is None else load

    def load_in_background(self, load: Load) -> None:
        """Have a load carried to its end by the loader's threads."""
        self._loader.add(load)

    def check(self, load: Load) -> None:
        """Raise what a load failed with. Then it was heard, and is not told to the next caller."""
        if load.failure is not None:
            with self._guard:
                self._unheard.pop(load.shelf.prefix, None)
            load.check()

    def loaded_at(self, prefix: str, birth: bytes) -> CachedNamespace | None:
        """The shelf of `prefix` if it is in RAM and whole."""
        with self._guard:
            shelf = self._kept(prefix)
            if shelf is None or shelf.birth != birth or prefix in self._loads:
                return None
            self._shelves.move_to_end(prefix)
            self.hits += 1
            return shelf

    def close(self) -> None:
        """Stop what loads in the background, and wait for it."""
        self._loader.close()

    def _kept(self, prefix: str) -> CachedNamespace | None:
        """The shelf of `prefix`, kept again if it was let go of and some operation still has it."""
        shelf = self._shelves.get(prefix)
        if shelf is None and (shelf := self._alive.get(prefix)) is not None:
            self._shelves[prefix] = shelf
            self._grown(prefix, shelf)
        return shelf

    def _begin(self, prefix: str, shelf: CachedNamespace) -> CachedNamespace:
        """Put an empty shelf in its place, with its load."""
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
                    self._unheard[prefix] = load.failure  # perhaps nobody waits for it

    def _has_room(self) -> bool:
        return self._bytes < self._budget

    def drop(self, prefix: str) -> None:
        """Let go of every shelf below `prefix`: erased, or sealed with other keys than before."""
        with self._guard:
            for name in self._below(prefix):
                if name in self._shelves:
                    self._remove(name)
                self._alive.pop(name, None)

    def has(self, prefix: str, shelf: CachedNamespace) -> bool:
        """Whether this very shelf is the one that follows changes."""
        with self._guard:
            return self._alive.get(prefix) is shelf

    def loaded(self) -> list[CachedNamespace]:
        """The shelves that are whole."""
        with self._guard:
            return [shelf for prefix, shelf in self._shelves.items() if prefix not in self._loads]

    def below(self, prefix: str) -> dict[str, bytes]:
        """The shelves in RAM below `prefix`, each with its birth."""
        with self._guard:
            return {name: self._alive[name].birth for name in self._below(prefix)}

    def usage(self) -> tuple[int, int]:
        """How many shelves are held, and about how many bytes they take."""
        with self._guard:
            return len(self._shelves), self._bytes

    def _below(self, prefix: str) -> list[str]:
        return [name for name in list(self._alive) if name.startswith(prefix)]

    def _grown(self, prefix: str, shelf: CachedNamespace) -> None:
        """Count what a shelf takes now, and let go of the least recently used until all fit again."""
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
            load.stop()  # those who wait for it look again


class LineCache(ShelfTable):
    """All shelves in RAM: what others wrote is passed on to them, read into their indexes, and ranked."""

    def __init__(self, engine: Engine, budget: int, loading_threads: int = 1) -> None:
        super().__init__(engine, budget, loading_threads)
        self._sparing = engine if isinstance(engine, Sparing) else None  # asked once: asking takes long
        self._unsettled: dict[str, CachedNamespace] = {}
        """Shelves with changes that nobody has taken in or read yet."""
        self._shrunk: set[str] = set()
        """Which of them still hold something that was forgotten."""
        self.has_put_off = False
        """Whether there is anything for `let_go` to do."""

    def _remove(self, name: str) -> None:
        super()._remove(name)
        self._unsettled.pop(name, None)
        self._shrunk.discard(name)

    def changed(
        self, prefix: str, name: LineId, line: Line | None, birth: bytes | None = None, *, deleted: bool
    ) -> None:
        """Pass a change on to the shelf that the line belongs on, if it is in RAM. Calls must not overlap.

        `line` spares reading it, where the keys of `birth` sealed it and the shelf still has those: its namespace may
        have been erased and made anew since.
        """
        with self._guard:
            shelf = self._alive.get(prefix)
            if shelf is None:
                return
            shelf.post(name, line if birth == shelf.birth else None, is_deleted=deleted)
            if prefix in self._shelves:
                self._grown(prefix, shelf)
                if prefix not in self._loads:
                    self._unsettled[prefix] = shelf
                    if deleted:
                        self._shrunk.add(prefix)
                    self.has_put_off = self.has_put_off or deleted or shelf.unread_size > _UNREAD

    def settle(self) -> None:
        """Read what was put since the last question, which the next one would have to do."""
        self._settle(lambda _, __: True)

    def let_go(self) -> None:
        """Have what was forgotten leave the RAM, and read what has become much. May wait for readers of these
        shelves."""
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
        """Have shelves take in what waits, read it until `down_to` characters are left, and count what they take then.

        A line that cannot be opened stays where it is: whoever asks for it hears of it, on record.
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

    def readings(self, lines: Sequence[Line]) -> bytes:
        """What the engine would have kept of these lines; nothing if it keeps nothing."""
        return self._engine.readings(lines) if isinstance(self._engine, Keeping) else b""

    def rank(
        self,
        shelves: Sequence[CachedNamespace],
        query: str,
        k: int,
        now: datetime,
        without: frozenset[LineId] = frozenset(),
    ) -> Sequence[Ranked]:
        """Let the engine rank these shelves, and make sure that it gave back nothing but their lines.

        The lines named by `without` are ranked like all others, so that no score depends on them, and then left out.
        """
        if any(shelf.unread_size for shelf in shelves):
            self._read(shelves)
        with hold_still(shelves):
            for shelf in shelves:
                shelf.make_ready()
            ranked = self._ranked(shelves, query, k, now, without)
            given = [shelf.lines for shelf in shelves]
            for hit in ranked:
                line = hit.line
                for lines in given:
                    if lines.get(line.id) is line:
                        break
                else:
                    raise RuntimeError("the engine returned a line that it was not given")
            return [hit for hit in ranked if hit.line.id not in without][:k] if without else ranked[:k]

    def _ranked(
        self, shelves: Sequence[CachedNamespace], query: str, k: int, now: datetime, without: frozenset[LineId]
    ) -> Sequence[Ranked]:
        indexes = [shelf.index for shelf in shelves]
        if self._sparing is not None:
            return self._sparing.rank_without(query, indexes, k, now, without)
        # Only those that are here make room for more: an id that names no line changes nothing.
        more = sum([len(shelf.lines.keys() & without) for shelf in shelves])
        return self._engine.rank(query, indexes, k + more, now)
