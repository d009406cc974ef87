"""A shelf: the decrypted lines of one (actor, namespace) in RAM, with the engine's index over them.

It is filled in portions (`portions`) and kept current by `post`, which is called for every object that any process
wrote or deleted. A posted change is applied when the shelf is next held (`take_in`): posting is done for all actors
under one lock and must not wait for a reader. Applying a change sets the object's present state, so changes may come
twice, or before loading is done. New lines are read into the index at the next question.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

import msgspec

from strongroom.engines import Index, KeptIndex, Measured
from strongroom.memory.line_cache.document_lines import DocumentLines, HasDocuments
from strongroom.memory.line_cache.filtered_index import Condition, FilteredIndexes
from strongroom.memory.line_cache.line_states import LineStates
from strongroom.model import Line, LineId, Millis, Namespace, Provenance


class ShelfPlace(NamedTuple):
    """The place of a shelf, and the birth of its keys."""

    namespace: Namespace
    prefix: str
    birth: bytes


class Batch(NamedTuple):
    """Lines to add to a shelf together, oldest first, and the engine's readings of them if any were stored."""

    lines: Sequence[Line]
    readings: bytes = b""
    replaced: Mapping[LineId, LineId] = {}
    """Replaced lines, each with the one that replaced it."""
    documents: Mapping[str, Line | None] = {}
    """The present versions of documents, by locator; None for a deleted one."""


class Source(Protocol):
    """The source of a shelf's lines."""

    def batches(self) -> Iterator[Batch]:
        """Every line, newest batches first. Each batch takes some milliseconds, and may be empty."""

    def read(self, name: LineId) -> Line | None:
        """One line as it is now; None if it is deleted or gone."""

    def replacement(self, name: LineId) -> LineId | None:
        """The line that replaced this one; None if none did."""


_SHARED = 10_000
_READING = 40
"""The cost of reading a line, in addition to its text, in characters."""
_EMPTY = getsizeof("")
_OVERHEAD = 900
"""Bytes of a line in addition to its text: struct, id, and entries in the indexes (measured, bench/ram.py)."""
_DETAILS, _PER_BYTE = 200, 4
"""Bytes of a line's details: the struct, and for each byte of them as JSON, since small values take much more."""


class PostedChange(NamedTuple):
    """A line that was written, deleted or replaced. `line` is only set if this process wrote it.

    Or a document that was written or deleted; then `name` is its locator.
    """

    name: str
    line: Line | None = None
    is_deleted: bool = False
    is_replaced: bool = False
    is_document: bool = False

    @property
    def bytes(self) -> int:
        return _OVERHEAD if self.line is None else _size(self.line)

    @property
    def reading(self) -> int:
        """The approximate cost of applying it, in characters."""
        return _READING if self.line is None else len(self.line.text) + _READING


class PostedChanges:
    """Changes that are not applied yet, oldest first. No lock: one thread at a time posts, and one applies."""

    def __init__(self) -> None:
        self._posted: deque[PostedChange] = deque()
        self._posted_bytes, self._posted_reading = 0, 0
        """Totals of all posted changes: these two have one writer, the poster; the next two, `take_in`."""
        self._taken_bytes, self._taken_reading = 0, 0

    @property
    def has_posted(self) -> bool:
        return bool(self._posted)

    def post(self, name: LineId, line: Line | None, *, is_deleted: bool) -> None:
        """Record that a line was written or deleted. Never waits; calls for one shelf must not overlap.

        Passing `line` saves reading it.
        """
        self._post(PostedChange(name, line, is_deleted))

    def _post(self, change: PostedChange) -> None:
        self._posted_bytes += change.bytes
        self._posted_reading += change.reading
        self._posted.append(change)

    def post_replaced(self, name: LineId) -> None:
        """Record that a line was replaced, as `post` does."""
        self._post(PostedChange(name, is_replaced=True))

    def post_document(self, locator: str) -> None:
        """Record that a document was written or deleted, as `post` does. It is read when the change is applied."""
        self._post(PostedChange(locator, is_document=True))


class IndexedLines:
    """The lines of a shelf that count, with the engine's index over them. The lock is held during every call."""

    def __init__(self, index: Index) -> None:
        self.lines: dict[LineId, Line] = {}
        self.states = LineStates()
        self.index = index
        self.filtered = FilteredIndexes()
        self._revision = 0
        """Increases whenever a line begins or ceases to count."""
        self._unread: dict[LineId, Line] = {}
        """Lines that the index does not hold yet."""
        self._unread_size = 0
        """The approximate cost of reading them, in characters."""
        self._unreadable: set[LineId] = set()
        """Lines that the engine could not read, and so does not hold."""
        self._unheard: Exception | None = None
        """An error of the engine that has not been raised to a caller yet."""
        self._measured = index if isinstance(index, Measured) else None
        self._index_bytes = 0
        """The size of the index as it was changed last; 0 if it does not say."""
        self._ordered: list[LineId] | None = None
        """All ids in order, built on first use."""

    def from_id(self, start: str) -> Iterator[Line]:
        """The lines from id `start` on, in the order of their ids. The lock is held.

        Sorted once. Later changes keep the order, so that a page of a listing costs only its own lines.
        """
        if self._ordered is None:
            self._ordered = sorted(self.lines)
        for at in range(bisect_left(self._ordered, start), len(self._ordered)):
            yield self.lines[self._ordered[at]]

    def _show(self, line: Line) -> None:
        """Let a line count."""
        self._revision += 1
        self.states.watch(line)
        self.lines[line.id] = line
        if self._ordered is not None:
            insort(self._ordered, line.id)
        self._unread[line.id] = line
        self._unread_size += len(line.text) + _READING

    def _take_out(self, name: LineId) -> Line | None:
        """Take a line that counts out of the lines and the indexes."""
        line = self.lines.pop(name, None)
        if line is None:
            return None
        self._revision += 1
        if self._ordered is not None:
            del self._ordered[bisect_left(self._ordered, name)]
        self.filtered.drop(line)
        if self._unread.pop(name, None) is not None:
            self._unread_size -= len(line.text) + _READING
        elif name in self._unreadable:
            self._unreadable.remove(name)
        else:
            self.index.remove(line)
            self._measure()
        return line

    def read(self, down_to: int = 0) -> bool:
        """Read new lines into the index, oldest first, until at most `down_to` characters are left.

        The lock is held. Returns whether any lines are left. An error of the engine is kept for the next question:
        raised here, it would fail a put that is durable. A line that cannot be read is not tried again, and is in no
        ranked answer until the shelf is loaded anew.
        """
        before = len(self._unread)
        while self._unread and self._unread_size > down_to:
            name = next(iter(self._unread))
            line = self._unread.pop(name)
            self._unread_size -= len(line.text) + _READING
            try:
                self.index.add(line)
            except Exception as error:  # noqa: BLE001 - it is raised where somebody asks
                self._unreadable.add(name)
                self._unheard = self._unheard or error
        if len(self._unread) < before:
            self._measure()
        return bool(self._unread)

    def make_ready(self) -> None:
        """Read all lines into the index, or raise the engine's error, once. The lock is held."""
        if self._unread:
            self.read()
        if self._unheard is not None:
            error, self._unheard = self._unheard, None
            raise error

    def index_of(self, condition: Condition, make: Callable[[], Index]) -> Index:
        """The index over the lines that meet a condition. The lock is held, and `make_ready` was called."""
        return self.filtered.index(condition, self.lines, self._unreadable, make, self._revision)

    def _measure(self) -> None:
        """Ask how large the index is, after it was changed: not at each put, which only posts."""
        if self._measured is not None:
            self._index_bytes = self._measured.size()


class CachedNamespace(IndexedLines, PostedChanges):
    """The lines of one namespace of one actor. `lock` is held while they are read or changed; see `hold_still`."""

    def __init__(self, prefix: str, birth: bytes, source: Source, index: Index) -> None:
        IndexedLines.__init__(self, index)
        PostedChanges.__init__(self)
        self.prefix = prefix
        self.birth = birth
        self.source = source
        self.lock = threading.Lock()
        self._bytes = 0
        self.counted = 0
        """The size that is counted in the cache's budget."""
        self._loaded = False
        self.documents = DocumentLines()
        self._gone: set[LineId] = set()
        """Lines deleted during loading: a batch that was read before may still contain them."""
        self._shared: dict[Any, Any] = {}
        self._origin: Provenance | None = None

    @property
    def bytes(self) -> int:
        """The approximate size in RAM. Texts of few words that are all different take far more than their length."""
        lines = max(self._bytes, self._index_bytes) + self.states.bytes
        return lines + self.filtered.bytes + self._posted_bytes - self._taken_bytes

    @property
    def unread_size(self) -> int:
        """The approximate amount that the next question has to read first, in characters."""
        return self._unread_size + self._posted_reading - self._taken_reading

    def portions(self) -> Iterator[None]:
        """Fill the shelf, a portion with each step.

        Changes that arrive meanwhile are applied at once, because the shelf may be in use already.
        """
        for batch in self.source.batches():
            if batch.lines or batch.replaced or batch.documents:
                with self.lock:
                    self.take_in()
                    for old, new in batch.replaced.items():
                        self._replace(old, new)
                    self._add_batch(self._without_gone(batch))
                    for line in self.documents.load(batch.documents):
                        self._add(line)
            yield
        with self.lock:
            self.take_in()
            self._loaded = True
            self._gone.clear()

    def retire(self, now: Millis) -> None:
        """Hide the lines that have expired by `now`. Posted changes are left to the next reader, and their errors."""
        self.states.now = max(self.states.now, now)
        if (first := self.states.next_expiry) is not None and first <= now:
            with self.lock:
                for name in self.states.expire(now):
                    self._hide(name)

    def stored(self) -> list[Line]:
        """Every stored line, also those that do not count. The lock is held."""
        return [*self.lines.values(), *self.states.hidden.values()]

    def take_in(self) -> None:
        """Apply the posted changes. The lock is held.

        A line that cannot be read now stays posted, and the error is raised.
        """
        while self._posted:
            change = self._posted[0]
            self._apply(change, LineId(change.name))
            self._taken_bytes += change.bytes
            self._taken_reading += change.reading
            self._posted.popleft()

    def _apply(self, change: PostedChange, name: LineId) -> None:
        if change.is_document:
            self._refresh_document(change.name)
        elif change.is_deleted:
            self._drop(name)
        elif change.is_replaced:
            if (new := self.source.replacement(name)) is not None:
                self._replace(name, new)
        elif change.line is not None:
            self._add(change.line)
        elif not self._holds(name):
            self._refresh(name)

    def _refresh(self, name: LineId) -> None:
        line = self.source.read(name)
        if line is None:
            self._drop(name)
        else:
            self._gone.discard(name)
            self._add(line)

    def _refresh_document(self, locator: str) -> None:
        line = self.source.read_document(locator) if isinstance(self.source, HasDocuments) else None
        before = self.documents.replace(locator, line)
        if before is not None:
            self._drop(before)
        if line is not None:
            self._add(line)

    def _without_gone(self, batch: Batch) -> Batch:
        if self._gone.isdisjoint(line.id for line in batch.lines):
            return batch
        return Batch([line for line in batch.lines if line.id not in self._gone])

    def _add_batch(self, batch: Batch) -> None:
        index = self.index
        known = any(self._holds(line.id) for line in batch.lines)
        if known or not batch.readings or not isinstance(index, KeptIndex):
            for line in batch.lines:
                self._add(line)
            self.make_ready()
            return
        try:
            index.add_read(batch.lines, batch.readings)
            self._measure()
        except ValueError:  # another engine's, or made by other rules
            self._add_batch(Batch(batch.lines))
            return
        self.lines.update((line.id, line) for line in batch.lines)
        self._ordered = None
        self._revision += 1
        self._bytes += sum(map(_size, batch.lines))
        for line in batch.lines:
            if line.details is not None:
                self.states.watch(line)
            if not self.states.counts(line):
                self._hide(line.id)

    def _holds(self, name: LineId) -> bool:
        return name in self.lines or name in self.states.hidden

    def _add(self, line: Line) -> None:
        if not self._holds(line.id) and line.id not in self._gone:
            line = self._sharing(line)
            self._bytes += _size(line)
            if self.states.counts(line):
                self._show(line)
            else:
                self.states.hidden[line.id] = line

    def _hide(self, name: LineId) -> None:
        """Let a line count no more."""
        line = self._take_out(name)
        if line is not None:
            self.states.hidden[name] = line

    def _replace(self, old: LineId, new: LineId) -> None:
        """Record a replacement: from now on the new line counts, and the old one does not."""
        self.states.replace(old, new)
        self._hide(old)
        line = self.states.hidden.get(new)
        if line is not None and self.states.counts(line):
            self._show(self.states.hidden.pop(new))

    def _sharing(self, line: Line) -> Line:
        """The same line, made of values that other lines share, because lines have much in common."""
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
            line.details,
        )

    def _drop(self, name: LineId) -> None:
        if not self._loaded:
            self._gone.add(name)
        line = self._take_out(name) or self.states.hidden.pop(name, None)
        if line is not None:
            self._bytes -= _size(line)


def _size(line: Line) -> int:
    """The approximate size of a line in RAM."""
    more = 0 if line.details is None else _DETAILS + _PER_BYTE * len(msgspec.json.encode(line.details))
    return more + getsizeof(line.text) + getsizeof(line.session) + getsizeof(line.author) - 2 * _EMPTY + _OVERHEAD


def _prefix(shelf: CachedNamespace) -> str:
    return shelf.prefix


@contextmanager
def hold_still(shelves: Sequence[CachedNamespace]) -> Iterator[None]:
    """Lock shelves, with all changes applied.

    Locks are taken in one order, so that two readers cannot deadlock.
    """
    held: list[CachedNamespace] = []
    try:
        for shelf in sorted(shelves, key=_prefix) if len(shelves) > 1 else shelves:
            shelf.lock.acquire()
            held.append(shelf)
            if shelf.has_posted:
                shelf.take_in()
        yield
    finally:
        for shelf in held:
            shelf.lock.release()
