"""A cached namespace: the decrypted lines of one actor's namespace in RAM, with the engine's index over them.

In the code it is called a shelf. `portions` loads the stored lines, a part with each step. `post` records a change by
any process: it runs under one lock for all actors, so it must not wait for readers, and applies nothing. `take_in`
applies the posted changes at the next read. Applying a change sets the object's present state, so changes may come
twice, or before loading has ended. New lines are added to the engine's index at the next question.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

import msgspec

from strongroom.engines import Index, KeptIndex, Measured
from strongroom.memory.line_cache.document_lines import DocumentLines, HasDocuments
from strongroom.memory.line_cache.filtered_index import Condition, FilteredIndexes
from strongroom.memory.line_cache.line_order import LineOrder, age_of, id_of
from strongroom.memory.line_cache.line_states import LineStates
from strongroom.model import Line, LineId, Millis, Namespace, Provenance


class ShelfPlace(NamedTuple):
    """The prefix of a namespace's objects in the store, and the `birth` of its keys, which is new after an erasure."""

    namespace: Namespace
    prefix: str
    birth: bytes


class Batch(NamedTuple):
    """Lines to add to a cached namespace together, oldest first, with the engine's stored index data (`readings`)."""

    lines: Sequence[Line]
    readings: bytes = b""
    replaced: Mapping[LineId, LineId] = {}
    """Replaced lines, each with the line that replaced it."""
    documents: Mapping[str, Line | None] = {}
    """The present versions of documents, by their locators. A deleted document has None."""


class Source(Protocol):
    """The source from which the lines of a namespace are loaded."""

    def batches(self) -> Iterator[Batch]:
        """All lines in batches, newest batch first. Reading a batch takes some milliseconds. A batch may be empty."""

    def read(self, name: LineId) -> Line | None:
        """The present state of one line, or None if the line was deleted or never existed."""

    def replacement(self, name: LineId) -> LineId | None:
        """The id of the line that replaced the line `name`, or None if it was not replaced."""


_SHARED = 10_000
_READING = 40
"""The fixed cost of adding a line to the index, as a number of characters. The length of its text comes on top."""
_EMPTY = getsizeof("")
_OVERHEAD = 900
"""The RAM of a line beside its text, in bytes: struct, id and entries in the indexes (measured with bench/ram.py)."""
_DETAILS, _PER_BYTE = 200, 4
"""The RAM of a line's details, in bytes: a fixed part, and a factor for the size of the details as JSON."""


class PostedChange(NamedTuple):
    """A change in the store: a line that was written, deleted or replaced, or a document that changed.

    `name` is the id of the line, or the locator of the document. `line` is set only if this process wrote the line.
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
        """The approximate cost of applying the change, as a number of characters."""
        return _READING if self.line is None else len(self.line.text) + _READING


class PostedChanges:
    """Changes that are not applied yet, oldest first. No lock: only one thread posts and one applies at a time."""

    def __init__(self) -> None:
        self._posted: deque[PostedChange] = deque()
        self._posted_bytes, self._posted_reading = 0, 0
        """The totals of all posted changes. Only the thread that posts writes these; `take_in` writes the next two."""
        self._taken_bytes, self._taken_reading = 0, 0

    @property
    def has_posted(self) -> bool:
        return bool(self._posted)

    def post(self, name: LineId, line: Line | None, *, is_deleted: bool) -> None:
        """Record that a line was written or deleted. This never waits. Calls for one namespace must not overlap.

        If `line` is given, the line need not be read from the store later.
        """
        self._post(PostedChange(name, line, is_deleted))

    def _post(self, change: PostedChange) -> None:
        self._posted_bytes += change.bytes
        self._posted_reading += change.reading
        self._posted.append(change)

    def post_replaced(self, name: LineId) -> None:
        """Record that a line was replaced. The change is applied later, as with `post`."""
        self._post(PostedChange(name, is_replaced=True))

    def post_document(self, locator: str) -> None:
        """Record that a document was written or deleted. The document is read later, when the change is applied."""
        self._post(PostedChange(locator, is_document=True))


class IndexedLines:
    """The lines of a namespace that can be recalled, with the engine's index. The lock is held during every call."""

    def __init__(self, index: Index) -> None:
        self.lines: dict[LineId, Line] = {}
        self.states = LineStates()
        self.index = index
        self.filtered = FilteredIndexes()
        self._revision = 0
        """A number that increases whenever a line becomes recallable or stops being recallable."""
        self._unread: dict[LineId, Line] = {}
        """The lines that are not in the index yet."""
        self._unread_size = 0
        """The approximate cost of adding the `_unread` lines to the index, as a number of characters."""
        self._unreadable: set[LineId] = set()
        """The lines that are not in the index, because the engine raised an error for them."""
        self._unheard: Exception | None = None
        """An error of the engine that has not been raised to a caller yet."""
        self._measured = index if isinstance(index, Measured) else None
        self._index_bytes = 0
        """The size of the index after its last change, or 0 if the index does not report its size."""
        self._by_id, self._by_age = LineOrder(id_of), LineOrder(age_of)
        """The recallable lines, in the order of their ids and in that of their times."""

    def from_id(self, start: str) -> Iterator[Line]:
        """The lines from id `start` on, in the order of their ids. The lock is held."""
        ordered = self._by_id.of(self.lines.values())
        for at in range(bisect_left(ordered, start, key=id_of), len(ordered)):
            yield ordered[at]

    def newest(self, condition: Condition | None = None) -> Iterator[Line]:
        """The lines in the index that meet the condition, newest first. The lock is held, after `make_ready`."""
        for line in reversed(self._by_age.of(self.lines.values())):
            if line.id not in self._unreadable and (condition is None or condition.means(line)):
                yield line

    def _show(self, line: Line) -> None:
        """Make a line recallable: add it to the lines, and to those that the index still has to read."""
        self._revision += 1
        self.states.watch(line)
        self.lines[line.id] = line
        self._by_id.add(line)
        self._by_age.add(line)
        self._unread[line.id] = line
        self._unread_size += len(line.text) + _READING

    def _take_out(self, name: LineId) -> Line | None:
        """Remove a recallable line from the lines and from the indexes. Returns the line, or None if there is none."""
        line = self.lines.pop(name, None)
        if line is None:
            return None
        self._revision += 1
        self._by_id.remove(line)
        self._by_age.remove(line)
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
        """Add new lines to the index, oldest first, until at most `down_to` characters of new lines remain.

        The lock is held. Returns whether new lines remain. An error of the engine is kept and raised at the next
        question, because a put that is already durable must not fail. A line for which the engine raised an error is
        not tried again. It is in no ranked answer until the namespace is loaded again.
        """
        before = len(self._unread)
        while self._unread and self._unread_size > down_to:
            name = next(iter(self._unread))
            line = self._unread.pop(name)
            self._unread_size -= len(line.text) + _READING
            try:
                self.index.add(line)
            except Exception as error:  # noqa: BLE001 - raised at the next question
                self._unreadable.add(name)
                self._unheard = self._unheard or error
        if len(self._unread) < before:
            self._measure()
        return bool(self._unread)

    def make_ready(self) -> None:
        """Add all new lines to the index. If the engine raised an error, raise it here, once. The lock is held."""
        if self._unread:
            self.read()
        if self._unheard is not None:
            error, self._unheard = self._unheard, None
            raise error

    def index_of(self, condition: Condition, make: Callable[[], Index]) -> Index:
        """The engine's index of only those lines that meet a condition. The lock is held, after `make_ready`."""
        return self.filtered.index(condition, self.lines, self._unreadable, make, self._revision)

    def _measure(self) -> None:
        """Ask the index for its size. Called after each change of the index.

        A put alone does not change the index: new lines are added to it later.
        """
        if self._measured is not None:
            self._index_bytes = self._measured.size()


class CachedNamespace(IndexedLines, PostedChanges):
    """The lines of one namespace of one actor. `lock` is held while the lines are read or changed (`hold_still`)."""

    def __init__(self, prefix: str, birth: bytes, source: Source, index: Index) -> None:
        IndexedLines.__init__(self, index)
        PostedChanges.__init__(self)
        self.prefix = prefix
        self.birth = birth
        self.source = source
        self.lock = threading.Lock()
        self._bytes = 0
        self.counted = 0
        """The size in bytes with which the cache counts this namespace."""
        self._loaded = False
        self.documents = DocumentLines()
        self._gone: set[LineId] = set()
        """The lines that were deleted during loading. A batch that was read earlier may still contain such a line."""
        self._shared: dict[Any, Any] = {}
        self._origin: Provenance | None = None

    @property
    def bytes(self) -> int:
        """The approximate size in RAM, in bytes. Words that occur once make the index larger than the lines."""
        lines = max(self._bytes, self._index_bytes) + self.states.bytes
        return lines + self.filtered.bytes + self._posted_bytes - self._taken_bytes

    @property
    def unread_size(self) -> int:
        """The approximate number of characters that must be added to the index before the next question is answered."""
        return self._unread_size + self._posted_reading - self._taken_reading

    def portions(self) -> Iterator[None]:
        """Load the lines, a part with each step, and apply posted changes: the lines may be in use before the end."""
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
        """Hide the lines that have expired by `now`. Posted changes, and their errors, are left to the next reader."""
        self.states.now = max(self.states.now, now)
        if (first := self.states.next_expiry) is not None and first <= now:
            with self.lock:
                for name in self.states.expire(now):
                    self._hide(name)

    def stored(self) -> list[Line]:
        """Every stored line, also the hidden ones, which cannot be recalled. The lock is held."""
        return [*self.lines.values(), *self.states.hidden.values()]

    def take_in(self) -> None:
        """Apply the posted changes. The lock is held.

        If a changed line cannot be read now, its change stays posted, and the error is raised.
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
        except ValueError:  # the readings are another engine's, or were made by other rules
            self._add_batch(Batch(batch.lines))
            return
        self.lines.update((line.id, line) for line in batch.lines)
        self._by_id.forget()
        self._by_age.forget()
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
        """Hide a line: it stays stored, but is not recalled any more."""
        line = self._take_out(name)
        if line is not None:
            self.states.hidden[name] = line

    def _replace(self, old: LineId, new: LineId) -> None:
        """Record a replacement: from now on the new line is recalled, and the old line is hidden."""
        self.states.replace(old, new)
        self._hide(old)
        line = self.states.hidden.get(new)
        if line is not None and self.states.counts(line):
            self._show(self.states.hidden.pop(new))

    def _sharing(self, line: Line) -> Line:
        """An equal line whose values are shared with other lines, to save RAM: many lines have equal values."""
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
    """The approximate size of a line in RAM, in bytes."""
    more = 0 if line.details is None else _DETAILS + _PER_BYTE * len(msgspec.json.encode(line.details))
    return more + getsizeof(line.text) + getsizeof(line.session) + getsizeof(line.author) - 2 * _EMPTY + _OVERHEAD


def _prefix(shelf: CachedNamespace) -> str:
    return shelf.prefix


@contextmanager
def hold_still(shelves: Sequence[CachedNamespace]) -> Iterator[None]:
    """Lock cached namespaces, and apply their posted changes.

    The locks are always taken in the order of prefixes, so that two readers cannot deadlock.
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
