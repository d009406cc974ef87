"""Forgets lines that have ended: expired lines, and replacements that never took effect because their worker died.

The vault does this by itself, and records it as `expire` in the log. A line is deleted only once it has ended by the
clock of every worker, as far as clocks may differ. `forget_ended` checks the namespaces in RAM, `forget_ended_of` all
that is stored of an actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from strongroom.audit.entry import Decision, Entry
from strongroom.errors import StrongroomError, Tampered
from strongroom.memory.decision_recorder import PER_ENTRY, DecisionRecorder
from strongroom.memory.ended_search import UNCONFIRMED, EndedSearch
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.ops.forget import scrub
from strongroom.memory.ops.put import line_name
from strongroom.memory.page_places import PagePlaces
from strongroom.memory.stored_documents import ended_effects
from strongroom.memory.stored_keys import KeyCache
from strongroom.memory.stored_pages import pages_of
from strongroom.model import Kind, Line, LineId, Millis
from strongroom.store import CLOCK_LEEWAY, Delete, Effect, Expect, Lost


class EndedCount(NamedTuple):
    """Lines, and versions of documents, that have ended; `damaged`: namespaces that could not be searched."""

    lines: int = 0
    documents: int = 0
    damaged: int = 0

    @classmethod
    def of(cls, ended: Sequence[Line]) -> EndedCount:
        documents = sum(line.kind == Kind.DOCUMENT for line in ended)
        return cls(len(ended) - documents, documents)

    def plus(self, other: EndedCount) -> EndedCount:
        return EndedCount(self.lines + other.lines, self.documents + other.documents, self.damaged + other.damaged)


def forget_ended(clerk: DecisionRecorder) -> int:
    """Forget the ended lines of all namespaces in RAM. Returns the number of forgotten lines.

    If another process changes the same lines meanwhile, they are left to that process.
    """
    gone = 0
    for shelf in clerk.state.shelves.loaded():
        with suppress(Lost, StrongroomError):
            gone += _forget_cached(clerk, shelf)
    if gone:
        clerk.state.catch_up()
        scrub(clerk.state.store)
    return gone


def forget_ended_of(clerk: DecisionRecorder, locator: str) -> EndedCount:
    """Forget the stored lines and documents of an actor that have ended. Returns how many.

    In portions, each with its own log entry, so that it can be stopped at any moment and begun again.
    """
    return _all_of(clerk, locator, lambda search: _forget_stored(clerk, locator, search))


def count_ended_of(clerk: DecisionRecorder, locator: str) -> EndedCount:
    """Count what `forget_ended_of` would forget, and change nothing."""
    return _all_of(clerk, locator, lambda search: EndedCount.of(search.find()))


def _all_of(clerk: DecisionRecorder, locator: str, use: Callable[[EndedSearch], EndedCount]) -> EndedCount:
    """Search each namespace into which an actor has put anything."""
    state, total = clerk.state, EndedCount()
    for name in state.records.namespaces:
        if not state.store.is_distant:
            state.catch_up()
        try:
            held = state.stored_keys.read(locator)
            place = None if held is None else held.find_place(state.slots, name)
            if held is not None and place is not None:
                now = Millis(max(clerk.now(), state.store.head().time))
                total = total.plus(use(EndedSearch(state, held.keys.actor, place, now)))
        except Tampered:
            total = total.plus(EndedCount(damaged=1))  # other memories are searched all the same
    return total


def _forget_stored(clerk: DecisionRecorder, locator: str, search: EndedSearch) -> EndedCount:
    total = EndedCount()
    ended = search.find()
    places = search.places(ended)
    while ended:
        clerk.state.catch_up(locator)
        portion, ended = ended[:PER_ENTRY], ended[PER_ENTRY:]
        try:
            total = total.plus(_forget(clerk, search.place.prefix, search.place.birth, places, portion))
        except Lost:
            break  # to another process: the next time finds what is left
    if total != EndedCount():
        clerk.state.catch_up(locator)
    return total


def _forget_cached(clerk: DecisionRecorder, shelf: CachedNamespace) -> int:
    if not shelf.states.hidden and shelf.states.next_expiry is None:
        return 0
    if not _ended_lines(clerk, shelf):
        return 0
    state = clerk.state
    state.catch_up(shelf.prefix.split("/")[1])
    # Again: another worker may have confirmed a replacement since this shelf was read last.
    ended = _ended_lines(clerk, shelf)[:PER_ENTRY]
    gone = _forget(clerk, shelf.prefix, shelf.birth, pages_of(shelf).places, ended)
    return gone.lines + gone.documents


def _ended_lines(clerk: DecisionRecorder, shelf: CachedNamespace) -> list[Line]:
    """The lines of a cached namespace that have ended, so that they must be forgotten now."""
    now = max(clerk.now(), Millis(clerk.state.store.head().time))
    shelf.retire(now)
    with hold_still([shelf]):
        return shelf.states.ended(Millis(now - CLOCK_LEEWAY), Millis(now - UNCONFIRMED))


def _forget(
    clerk: DecisionRecorder, prefix: str, birth: bytes, places: PagePlaces, ended: Sequence[Line]
) -> EndedCount:
    """Forget ended lines of one namespace in one commit. Lost if another process changed one of them meanwhile."""
    state = clerk.state
    _, locator, _, namespace, _ = prefix.split("/")
    held = state.held_keys(locator)
    if held is None or held.keys.birth(namespace) != birth:
        return EndedCount()  # the namespace was erased meanwhile: lines with these ids are new ones
    names = [line_name(prefix, line.id) for line in ended if line.kind != Kind.DOCUMENT]
    stored = [one for name in names if (one := state.store.get(name)) is not None and one.body is not None]
    documents = [line for line in ended if line.kind == Kind.DOCUMENT]
    deletions, deleted = ended_effects(state, held.keys.actor, documents)
    if not stored and not deletions:
        return EndedCount()
    # The commit fails if the keys changed: until then, the namespace could be erased and used again.
    effects: list[Effect] = [Expect(held.name, held.version)]
    effects += [*[Delete(one.name, one.version) for one in stored], *deletions]
    ids = [*[LineId(one.name.rsplit("/", 1)[1]) for one in stored], *deleted]
    effects += places.without(set(ids))
    state.log.append([_entry(clerk, held, prefix, ids, effects)], effects)
    return EndedCount(len(stored), len(deleted))


def _entry(clerk: DecisionRecorder, held: KeyCache, prefix: str, ids: list[LineId], effects: list[Effect]) -> Entry:
    actor, namespaces = held.keys.tags([prefix.split("/")[3]])
    return Entry(
        v=1,
        time=clerk.now(),
        op="expire",
        decision=Decision.ALLOW,
        data_class="memory",
        actor=actor,
        namespaces=namespaces,
        count=len(ids),
        lines=tuple(ids),
        objects=clerk.marks(effects, held.keys),
    )
