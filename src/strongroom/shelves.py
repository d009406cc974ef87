"""Shelves: the opened lines of one (actor, namespace) in RAM, with the engine's index over them.

Bounded in bytes (the least recently used go first), loaded once however many threads wait, and kept true by
`changed`, which the follower of the store calls for every object that any process wrote or deleted. Applying a
change only ever moves a shelf to the object's present state, so changes may come twice, or before loading is done.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

from strongroom.engines import Engine, Index, Keeping, Ranked
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
_OVERHEAD = 900
"""Bytes a line costs besides its text: the struct, its id, and its place in the indexes (measured, bench/ram.py)."""


class Shelf:
    """The lines of one namespace of one actor. `lock` is held while they are read or changed."""

    def __init__(self, birth: bytes, source: Source, index: Index) -> None:
        self.birth = birth
        self.source = source
        self.lock = threading.Lock()
        self.lines: dict[LineId, Line] = {}
        self.bytes = 0
        self.index = index
        self.error: BaseException | None = None
        self._loaded = False
        self._pending: set[LineId] = set()
        self._shared: dict[Any, Any] = {}
        self._origin: Provenance | None = None

    def load(self) -> None:
        """Fill the shelf. Changes that arrive meanwhile wait and are applied at the end."""
        for batch in self.source.batches():
            with self.lock:
                self._add_batch(batch)
        while True:
            with self.lock:
                if not self._pending:
                    self._loaded = True
                    return
                waiting, self._pending = self._pending, set()
            for name in waiting:
                self._refresh(name)

    def changed(self, name: LineId, line: Line | None, *, deleted: bool) -> None:
        """Take note that a line was written or deleted. `line` spares reading it, if the caller has it."""
        with self.lock:
            if not self._loaded:
                self._pending.add(name)
                return
        if deleted:
            self._drop(name)
        elif line is not None:
            with self.lock:
                self._add(line)
        elif name not in self.lines:
            self._refresh(name)

    def _refresh(self, name: LineId) -> None:
        line = self.source.read(name)
        if line is None:
            self._drop(name)
        else:
            with self.lock:
                self._add(line)

    def _add_batch(self, batch: Batch) -> None:
        if not batch.readings or any(line.id in self.lines for line in batch.lines):
            for line in batch.lines:
                self._add(line)
            return
        index: Any = self.index  # only a KeptIndex is ever given readings
        try:
            index.add_read(batch.lines, batch.readings)
        except ValueError:
            self._add_batch(Batch(batch.lines))
            return
        self.lines.update((line.id, line) for line in batch.lines)
        self.bytes += sum(map(_size, batch.lines))

    def _add(self, line: Line) -> None:
        if line.id not in self.lines:
            line = self._sharing(line)
            self.lines[line.id] = line
            self.bytes += _size(line)
            self.index.add(line)

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
            line = self.lines.pop(name, None)
            if line is not None:
                self.bytes -= _size(line)
                self.index.remove(line)


def _size(line: Line) -> int:
    return getsizeof(line.text) + getsizeof(line.session) + getsizeof(line.author) - 2 * _EMPTY + _OVERHEAD


class Shelves:
    """All shelves in RAM, by the prefix of their objects in the store.

    Together they stay within `budget` bytes, but for the one in use, which is kept whatever its size.
    """

    def __init__(self, engine: Engine, budget: int) -> None:
        self._engine = engine
        self._budget = budget
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._loading: dict[str, threading.Event] = {}
        self._bytes = 0
        self._guard = threading.Lock()

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
                shelf = self._ready(prefix, birth)
                if shelf is not None:
                    self._shelves.move_to_end(prefix)
                    return shelf
                turn = self._loading.get(prefix)
                mine = turn is None
                if turn is None:
                    turn = self._loading[prefix] = threading.Event()
                    # Known to `changed` before the first line is read, so that no change can slip between.
                    self._shelves[prefix] = Shelf(birth, source(), self._engine.index())
                shelf = self._shelves.get(prefix)
            if mine and shelf is not None:
                if patience is None:
                    self._load(prefix, shelf, turn)
                    return shelf
                threading.Thread(target=self._load_quietly, args=(prefix, shelf, turn), daemon=True).start()
            if not turn.wait(patience) and shelf is not None and shelf.birth == birth:
                return shelf
            if mine and shelf is not None:
                if shelf.error is not None:
                    raise shelf.error
                return shelf
            # Then look again: it may have failed, or been dropped.

    def _load_quietly(self, prefix: str, shelf: Shelf, turn: threading.Event) -> None:
        """Load in the background. Who waits hears of a failure; who did not wait asks again and hears of the next."""
        try:
            self._load(prefix, shelf, turn)
        except BaseException as error:  # noqa: BLE001 - nobody is above this thread to hear of it
            shelf.error = error

    def _load(self, prefix: str, shelf: Shelf, turn: threading.Event) -> None:
        try:
            shelf.load()
        except BaseException as error:
            shelf.error = error
            with self._guard:
                if self._shelves.get(prefix) is shelf:
                    del self._shelves[prefix]
            raise
        else:
            with self._guard:
                if self._shelves.get(prefix) is shelf:  # it may have been dropped meanwhile
                    self._grown(prefix, shelf.bytes)
        finally:
            with self._guard:
                del self._loading[prefix]
            turn.set()

    def _ready(self, prefix: str, birth: bytes) -> Shelf | None:
        shelf = None if prefix in self._loading else self._shelves.get(prefix)
        if shelf is not None and shelf.birth != birth:
            self._remove(prefix)
            return None
        return shelf

    def rank(self, shelves: Sequence[Shelf], query: str, k: int, now: datetime) -> Sequence[Ranked]:
        """Let the engine rank these shelves, and make sure that it gave back nothing but their lines."""
        with reading(shelves):
            ranked = self._engine.rank(query, [shelf.index for shelf in shelves], k, now)
            for hit in ranked:
                if not any(shelf.lines.get(hit.line.id) is hit.line for shelf in shelves):
                    raise RuntimeError("the engine returned a line that it was not given")
            return ranked[:k]

    def changed(self, prefix: str, name: LineId, line: Line | None, *, deleted: bool) -> None:
        """Pass a change on to the shelf that holds the line, if it is in RAM."""
        with self._guard:
            shelf = self._shelves.get(prefix)
        if shelf is None:
            return
        before = shelf.bytes
        shelf.changed(name, line, deleted=deleted)
        with self._guard:
            if self._shelves.get(prefix) is shelf and prefix not in self._loading:
                self._grown(prefix, shelf.bytes - before)

    def holds(self, prefix: str) -> bool:
        return prefix in self._shelves

    def drop(self, prefix: str) -> None:
        """Let go of every shelf below `prefix`: erased, or sealed with other keys than before."""
        with self._guard:
            for name in self._below(prefix):
                self._remove(name)

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

    def _grown(self, prefix: str, size: int) -> None:
        """Count what a shelf has grown by, and let go of the least recently used until all fit again."""
        self._bytes += size
        for name in list(self._shelves) if self._bytes > self._budget else ():
            if self._bytes <= self._budget:
                return
            if name != prefix and name not in self._loading:
                self._remove(name)

    def _remove(self, name: str) -> None:
        shelf = self._shelves.pop(name)
        if name not in self._loading:  # what is loading has not been counted yet
            self._bytes -= shelf.bytes


@contextmanager
def reading(shelves: Sequence[Shelf]) -> Iterator[None]:
    """Hold several shelves still. Locks are taken in one order, so that two readers cannot wait for each other."""
    with ExitStack() as stack:
        for shelf in sorted(shelves, key=id):
            stack.enter_context(shelf.lock)
        yield
