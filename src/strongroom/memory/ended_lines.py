"""Forgets lines that have ended: expired lines, and replacements that never took effect because their worker died.

The vault does this by itself, and records it as `expire` in the log. Only lines of namespaces in RAM are checked. A
line is deleted only once it has ended by the clock of every worker, as far as clocks may differ.
"""

from __future__ import annotations

from contextlib import suppress

from strongroom.audit.entry import Decision, Entry
from strongroom.errors import StrongroomError
from strongroom.memory.decision_recorder import PER_ENTRY, DecisionRecorder
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.ops.put import line_name
from strongroom.memory.stored_documents import delete_effects
from strongroom.memory.stored_keys import KeyCache
from strongroom.memory.stored_pages import pages_of
from strongroom.model import Kind, Line, LineId, Millis
from strongroom.store import CLOCK_LEEWAY, Delete, Effect, Expect, Lost

UNCONFIRMED = 3_600_000
"""A replacement that has not taken effect is given up after this many milliseconds (one hour).

No commit takes nearly as long.
"""


def forget_ended(clerk: DecisionRecorder) -> int:
    """Forget the ended lines of all namespaces in RAM. Returns the number of forgotten lines.

    If another process changes the same lines meanwhile, they are left to that process.
    """
    gone = 0
    for shelf in clerk.state.shelves.loaded():
        with suppress(Lost, StrongroomError):
            gone += _forget_ended(clerk, shelf)
    if gone:
        clerk.state.catch_up()
    return gone


def ended_lines(clerk: DecisionRecorder, shelf: CachedNamespace) -> list[Line]:
    """The lines of a cached namespace that have ended, so that they must be forgotten now."""
    now = max(clerk.now(), Millis(clerk.state.store.head().time))
    shelf.retire(now)
    with hold_still([shelf]):
        return shelf.states.ended(Millis(now - CLOCK_LEEWAY), Millis(now - UNCONFIRMED))


def _forget_ended(clerk: DecisionRecorder, shelf: CachedNamespace) -> int:
    if not shelf.states.hidden and shelf.states.next_expiry is None:
        return 0
    state = clerk.state
    ended = ended_lines(clerk, shelf)[:PER_ENTRY]
    _, locator, _, namespace, _ = shelf.prefix.split("/")
    held = None
    if ended:
        state.catch_up(locator)
        held = state.held_keys(locator)
    if held is None or held.keys.birth(namespace) != shelf.birth:
        return 0  # the namespace was erased meanwhile: lines with these ids are new ones
    names = [line_name(shelf.prefix, line.id) for line in ended if line.kind != Kind.DOCUMENT]
    stored = [one for name in names if (one := state.store.get(name)) is not None and one.body is not None]
    documents = [line for line in ended if line.kind == Kind.DOCUMENT]
    deletions, deleted = delete_effects(state, held.keys.actor, documents)
    if not stored and not deletions:
        return 0
    # The commit fails if the keys changed: until then, the namespace could be erased and used again.
    effects: list[Effect] = [Expect(held.name, held.version)]
    effects += [*[Delete(one.name, one.version) for one in stored], *deletions]
    ids = [*[LineId(one.name.rsplit("/", 1)[1]) for one in stored], *deleted]
    effects += pages_of(shelf).places.without(set(ids))
    state.log.append([_entry(clerk, held, shelf, ids, effects)], effects)
    return len(ids)


def _entry(
    clerk: DecisionRecorder, held: KeyCache, shelf: CachedNamespace, ids: list[LineId], effects: list[Effect]
) -> Entry:
    actor, namespaces = held.keys.tags([shelf.prefix.split("/")[3]])
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
