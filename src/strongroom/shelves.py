"""Shelves: the opened lines of one (actor, namespace) in RAM, with the engine's index over them.

Bounded in bytes (the least recently used go first), loaded once however many threads wait, and kept true by
`changed`, which the follower of the store calls for every object that any process wrote or deleted. Applying a
change only ever moves a shelf to the object's present state, so changes may come twice, or before loading is done.

What was put one by one is read into the index with the next question, or by `settle`: who puts need not wait for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

from strongroom.engines import Engine, Index, Keeping, KeptIndex, Measured, Ranked, Sparing
from strongroom.errors import StoreUnavailable
from strongroom.model import Line, LineId, Provenance


class Batch(NamedTuple):
    """Lines to put on a shelf together, oldest first, and the engine's readings of them if any were kept."""

    lines: Sequence[Line]
    readings: bytes = b""


class Source(Protocol):
    """Where a shelf's lines come from."""

    def batches(self) -> Iterator[Batch]:
        """Every line there is, newest batches first."""

    def read(self, name: LineId) -> Line | None:
        """One line as it is now; None if it is deleted or gone."""


_SHARED = 10_000
_EMPTY = getsizeof("")
_UNREAD = 16 * 1024
"""About so many characters wait to be read into the index at most."""
_READING = 40
"""What reading a line costs beside its text, in characters."""
_OVERHEAD = 900
"""Bytes a line costs besides its text: the struct, its id, and its place in the indexes (measured, bench/ram.py)."""


class Shelf:
    """The lines of one namespace of one actor. `lock` is held while they are read or changed."""

    def __init__(self, prefix: str, birth: bytes, source: Source, index: Index) -> None:
        self.prefix = prefix
        self.birth = birth
        self.source = source
        self.lock = threading.Lock()
        self.lines: dict[LineId, Line] = {}
        self._bytes = 0
        self.counted = 0
        """What of it counts towards the budget of all shelves."""
        self.stopped = False
        self.index = index
        self._unread: dict[LineId, Line] = {}
        """Lines that the index does not hold yet."""
        self.unread_size = 0
        """About what reading them costs, in characters."""
        self._unreadable: set[LineId] = set()
        """Lines that the engine could not read, and so does not hold."""
        self._unheard: Exception | None = None
        """What it failed with while nobody asked."""
        self._measured = index if isinstance(index, Measured) else None
        self._loaded = False
        self._gone: set[LineId] = set()
        """Deleted while the shelf is loading: a batch that was read before may still hold them."""
        self._shared: dict[Any, Any] = {}
        self._origin: Provenance | None = None

    @property
    def bytes(self) -> int:
        """About what it takes in RAM. Texts of few words that are all different take far more than their size."""
        return self._bytes if self._measured is None else max(self._bytes, self._measured.size())

    def load(self) -> None:
        """Fill the shelf. Changes that arrive meanwhile are applied at once: it may be in use already."""
        for batch in self.source.batches():
            if self.stopped:
                raise StoreUnavailable("the vault is closed", hint="open the vault again in this process")
            with self.lock:
                self._add_batch(self._without_gone(batch))
        with self.lock:
            self._loaded = True
            self._gone.clear()

    def changed(self, name: LineId, line: Line | None, *, deleted: bool) -> None:
        """Take note that a line was written or deleted. `line` spares reading it, if the caller has it."""
        if deleted:
            self._drop(name)
        elif line is not None:
            with self.lock:
                self._add(line)
                self._read_if_much()
        elif name not in self.lines:
            self._refresh(name)

    def _refresh(self, name: LineId) -> None:
        line = self.source.read(name)
        if line is None:
            self._drop(name)
        else:
            with self.lock:
                self._add(line)
                self._read_if_much()

    def _without_gone(self, batch: Batch) -> Batch:
        if self._gone.isdisjoint(line.id for line in batch.lines):
            return batch
        return Batch([line for line in batch.lines if line.id not in self._gone])

    def _add_batch(self, batch: Batch) -> None:
        index = self.index
        known = any(line.id in self.lines for line in batch.lines)
        if known or not batch.readings or not isinstance(index, KeptIndex):
            for line in batch.lines:
                self._add(line)
            self.make_ready()
            return
        try:
            index.add_read(batch.lines, batch.readings)
        except ValueError:  # another engine's, or made by other rules
            self._add_batch(Batch(batch.lines))
            return
        self.lines.update((line.id, line) for line in batch.lines)
        self._bytes += sum(map(_size, batch.lines))

    def _add(self, line: Line) -> None:
        if line.id not in self.lines and line.id not in self._gone:
            line = self._sharing(line)
            self.lines[line.id] = line
            self._bytes += _size(line)
            self._unread[line.id] = line
            self.unread_size += len(line.text) + _READING

    def _read_if_much(self) -> None:
        if self.unread_size > _UNREAD:
            self.read_all()

    def read_all(self) -> None:
        """Read into the index what is not there yet. The lock is held.

        What the engine fails with is kept for who asks next: here it would fail a put that is durable. A line that it
        cannot read is not tried again, and is in no ranked answer until the shelf is loaded anew.
        """
        for name in list(self._unread):
            line = self._unread.pop(name)
            self.unread_size -= len(line.text) + _READING
            try:
                self.index.add(line)
            except Exception as error:  # noqa: BLE001 - it is raised where somebody asks
                self._unreadable.add(name)
                self._unheard = self._unheard or error

    def make_ready(self) -> None:
        """Make the index hold all lines, or raise what the engine failed with, once. The lock is held."""
        if self._unread:
            self.read_all()
        if self._unheard is not None:
            error, self._unheard = self._unheard, None
            raise error

    def _sharing(self, line: Line) -> Line:
        """The same line, made of values that other lines hold already: most of them have much in common."""
        if len(self._shared) > _SHARED:
            self._shared.clear()
        share = self._shared.setdefault
        origin = line.provenance
        if origin != self._origin:
            links, holder, source = origin.links, origin.holder, origin.source
            self._origin = Provenance(
                share(links, links), share(holder, holder), share(source, source), origin.recorded
            )
        return Line(
            line.id,
            line.time,
            line.kind,
            share(line.namespace, line.namespace),
            share(line.session, line.session),
            share(line.author, line.author),
            line.text,
            self._origin,
        )

    def _drop(self, name: LineId) -> None:
        with self.lock:
            if not self._loaded:
                self._gone.add(name)
            line = self.lines.pop(name, None)
            if line is not None:
                self._bytes -= _size(line)
                if self._unread.pop(name, None) is not None:
                    self.unread_size -= len(line.text) + _READING
                elif name in self._unreadable:
                    self._unreadable.remove(name)
                else:
                    self.index.remove(line)


def _size(line: Line) -> int:
    return getsizeof(line.text) + getsizeof(line.session) + getsizeof(line.author) - 2 * _EMPTY + _OVERHEAD


class Shelves:
    """All shelves in RAM, by the prefix of their objects in the store.

    Together they stay within `budget` bytes, but for the one in use, which is kept whatever its size.
    """

    def __init__(self, engine: Engine, budget: int) -> None:
        self._engine = engine
        self._sparing = engine if isinstance(engine, Sparing) else None  # asked once: asking takes long
        self._budget = budget
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._loading: dict[str, threading.Event] = {}
        self._unheard: dict[str, BaseException] = {}
        self._threads: list[tuple[threading.Thread, Shelf]] = []
        self._bytes = 0
        self._unsettled: dict[str, Shelf] = {}
        self._guard = threading.Lock()
        self.hits = 0
        self.misses = 0

    def readings(self, lines: Sequence[Line]) -> bytes:
        """What the engine would have kept of these lines; nothing if it keeps nothing."""
        return self._engine.readings(lines) if isinstance(self._engine, Keeping) else b""

    def shelf(self, prefix: str, birth: bytes, source: Callable[[], Source], patience: float | None = None) -> Shelf:
        """The shelf of `prefix`, loaded. Of many threads that want it, one loads and the others wait.

        `birth` tells its keys apart from those of a namespace that was erased and made anew under the same prefix.
        With `patience`, a thread of its own loads it, and it is returned after so many seconds as far as it is.
        """
        while True:
            with self._guard:
                failure = self._unheard.pop(prefix, None)
                if failure is not None and patience is not None:
                    raise failure  # who waits would find out; who does not would take it for an empty shelf
                shelf = self._shelves.get(prefix)
                if mine := shelf is None or shelf.birth != birth:
                    self.misses += 1
                    # Known to `changed` before the first line is read, so that no change can slip between.
                    shelf = self._begin(prefix, Shelf(prefix, birth, source(), self._engine.index()))
                self._shelves.move_to_end(prefix)
                turn = self._loading.get(prefix)
                self.hits += turn is None
            if turn is None:
                return shelf
            if mine and patience is None:
                self._load(prefix, shelf, turn)
                return shelf
            if mine:
                self._start(prefix, shelf, turn)
            if not turn.wait(patience):
                return shelf
            # Then look again: it may have failed, or been dropped.

    def loaded_at(self, prefix: str, birth: bytes) -> Shelf | None:
        """The shelf of `prefix` if it is in RAM and whole."""
        with self._guard:
            shelf = self._shelves.get(prefix)
            if shelf is None or shelf.birth != birth or prefix in self._loading:
                return None
            self._shelves.move_to_end(prefix)
            self.hits += 1
            return shelf

    def is_busy(self, prefix: str) -> bool:
        """Whether a change of this shelf would have to wait: it is loading, or somebody reads it just now."""
        shelf = self._shelves.get(prefix)
        return shelf is not None and (prefix in self._loading or shelf.lock.locked())

    def _begin(self, prefix: str, shelf: Shelf) -> Shelf:
        """Put an empty shelf in its place. What was loading there before finishes for those who hold it."""
        if prefix in self._shelves:
            self._remove(prefix)
        self._shelves[prefix] = shelf
        self._loading[prefix] = threading.Event()
        return shelf

    def _start(self, prefix: str, shelf: Shelf, turn: threading.Event) -> None:
        thread = threading.Thread(target=self._load_unheard, args=(prefix, shelf, turn), daemon=True)
        with self._guard:
            self._threads = [(one, held) for one, held in self._threads if one.is_alive()] + [(thread, shelf)]
        thread.start()

    def close(self) -> None:
        """Stop what loads in the background, and wait for it: a thread that outlives its vault may crash at exit."""
        with self._guard:
            threads = list(self._threads)
        for _, shelf in threads:
            shelf.stopped = True
        for thread, _ in threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join()

    def _load_unheard(self, prefix: str, shelf: Shelf, turn: threading.Event) -> None:
        """Load in the background. A failure is kept for the next who does not wait for loading."""
        with suppress(Exception):
            self._load(prefix, shelf, turn, self._unheard)

    def _load(
        self, prefix: str, shelf: Shelf, turn: threading.Event, failures: dict[str, BaseException] | None = None
    ) -> None:
        try:
            shelf.load()
        except BaseException as error:
            with self._guard:
                if self._shelves.get(prefix) is shelf:
                    del self._shelves[prefix]
                    if failures is not None:
                        failures[prefix] = error
            raise
        else:
            with self._guard:
                if self._shelves.get(prefix) is shelf:  # it may have been dropped meanwhile
                    self._grown(prefix, shelf)
        finally:
            with self._guard:
                if self._loading.get(prefix) is turn:
                    del self._loading[prefix]
            turn.set()

    def rank(
        self,
        shelves: Sequence[Shelf],
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
        with reading(shelves):
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
        self, shelves: Sequence[Shelf], query: str, k: int, now: datetime, without: frozenset[LineId]
    ) -> Sequence[Ranked]:
        indexes = [shelf.index for shelf in shelves]
        if self._sparing is not None:
            return self._sparing.rank_without(query, indexes, k, now, without)
        # Only those that are here make room for more: an id that names no line changes nothing.
        more = sum([len(shelf.lines.keys() & without) for shelf in shelves])
        return self._engine.rank(query, indexes, k + more, now)

    def changed(self, prefix: str, name: LineId, line: Line | None, *, deleted: bool) -> None:
        """Pass a change on to the shelf that holds the line, if it is in RAM."""
        with self._guard:
            shelf = self._shelves.get(prefix)
        if shelf is None:
            return
        shelf.changed(name, line, deleted=deleted)
        self._counted(shelf)

    def settle(self) -> None:
        """Read what was put since the last question, which the next one would have to do."""
        with self._guard:
            unsettled, self._unsettled = self._unsettled, {}
        self._read(unsettled.values())

    def _read(self, shelves: Iterable[Shelf]) -> None:
        """Have shelves read what is unread, and count what they take then."""
        for shelf in shelves:
            with shelf.lock:
                shelf.read_all()
            self._counted(shelf)

    def _counted(self, shelf: Shelf) -> None:
        """Count what a shelf takes, if it is one of those that count."""
        prefix = shelf.prefix
        with self._guard:
            if self._shelves.get(prefix) is shelf and prefix not in self._loading:
                self._grown(prefix, shelf)
                if shelf.unread_size:
                    self._unsettled[prefix] = shelf

    def drop(self, prefix: str) -> None:
        """Let go of every shelf below `prefix`: erased, or sealed with other keys than before."""
        with self._guard:
            for name in self._below(prefix):
                self._remove(name)

    def found_at(self, prefix: str) -> Shelf | None:
        """The shelf of `prefix` if it is in RAM, whole or not."""
        return self._shelves.get(prefix)

    def has(self, prefix: str, shelf: Shelf) -> bool:
        """Whether this very shelf is the one that follows changes."""
        with self._guard:
            return self._shelves.get(prefix) is shelf

    def loaded(self) -> list[Shelf]:
        """The shelves that are whole."""
        with self._guard:
            return [shelf for prefix, shelf in self._shelves.items() if prefix not in self._loading]

    def below(self, prefix: str) -> dict[str, bytes]:
        """The shelves in RAM below `prefix`, each with its birth."""
        with self._guard:
            return {name: self._shelves[name].birth for name in self._below(prefix)}

    def usage(self) -> tuple[int, int]:
        """How many shelves are held, and about how many bytes they take."""
        with self._guard:
            return len(self._shelves), self._bytes

    def _below(self, prefix: str) -> list[str]:
        return [name for name in self._shelves if name.startswith(prefix)]

    def _grown(self, prefix: str, shelf: Shelf) -> None:
        """Count what a shelf takes now, and let go of the least recently used until all fit again."""
        size = shelf.bytes
        self._bytes += size - shelf.counted
        shelf.counted = size
        for name in list(self._shelves) if self._bytes > self._budget else ():
            if self._bytes <= self._budget:
                return
            if name != prefix and name not in self._loading:
                self._remove(name)

    def _remove(self, name: str) -> None:
        shelf = self._shelves.pop(name)
        self._unsettled.pop(name, None)
        self._bytes -= shelf.counted  # nothing, while it is loading
        shelf.counted = 0


def reading(shelves: Sequence[Shelf]) -> AbstractContextManager[object]:
    """Hold shelves still. Mostly there is one, and its own lock will do."""
    return shelves[0].lock if len(shelves) == 1 else _reading_several(shelves)


@contextmanager
def _reading_several(shelves: Sequence[Shelf]) -> Iterator[None]:
    """Locks are taken in one order, so that two readers cannot wait for each other."""
    held: list[Shelf] = []
    try:
        for shelf in sorted(shelves, key=id):
            shelf.lock.acquire()
            held.append(shelf)
        yield
    finally:
        for shelf in held:
            shelf.lock.release()
