"""Reads the stored records of minted caps, and makes all caps of an actor void."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from strongroom.errors import Tampered
from strongroom.memory.cap_index import CAPS, is_record
from strongroom.memory.replica import NotBefore, Replica
from strongroom.memory.vault_records import REVOKED, STANDING
from strongroom.model import Actor, CapRecord, DataClass, LinkId, Millis
from strongroom.store import CLOCK_LEEWAY, Effect, Expect, Lost, Object, PutNew, Swap
from strongroom.store.fleet_contract import FleetStore

_PAGE = 1000
_KEPT = 24 * 3600
"""How many seconds after the end of a cap its record is still needed, because the clocks of workers differ."""


def cap_records(state: Replica, beside: Collection[str] = ()) -> Iterator[tuple[Object, CapRecord]]:
    """The records of all minted caps, without the records named in `beside`.

    In a bucket, an object that does not open is skipped: it is no record, or was damaged, and must not stop every
    revocation. `audit verify` reports it.
    """
    for thing in _registered(state, beside):
        if thing.body is None:
            continue
        try:
            record = state.records.cap_record(thing)
        except Tampered:
            if state.store.is_whole:
                raise
            continue
        yield thing, record


def cap_records_of(state: Replica, actor: Actor, beside: Collection[str] = ()) -> Iterator[tuple[Object, CapRecord]]:
    """The records of an actor's caps and of the caps for scopes. Without an index, the records of all caps."""
    return state.cap_index.of(actor, beside) if state.cap_index.is_made() else cap_records(state, beside)


def descendants(state: Replica, link: LinkId, of: LinkId) -> list[CapRecord]:
    """The records of all caps that were narrowed, renewed or minted from the cap `link`.

    `of` is `link` itself or an earlier link of its chain. The index starts from the record of `of`; if there is no such
    record, the records of all caps are read.
    """
    family = state.cap_index.family(of) if state.cap_index.is_made() else None
    return [one for _, one in (cap_records(state) if family is None else family) if link in one.parents]


def _registered(state: Replica, beside: Collection[str]) -> Iterator[Object]:
    """The stored objects of all records, including tombstones."""
    if state.store.is_whole:
        yield from (one for one in state.records.objects(CAPS) if one.name not in beside and is_record(one.name))
        return
    after = ""
    if not isinstance(state.store, FleetStore):
        return
    while page := state.store.names(CAPS, after, _PAGE):
        names = [thing.name for thing in page if thing.body is not None and is_record(thing.name)]
        found = state.store.get_many([name for name in names if name not in beside])
        yield from (thing for thing in found if thing is not None)
        after = page[-1].name


def is_over(state: Replica, record: CapRecord, now: Millis) -> bool:
    """Whether a cap ended so long ago that no worker accepts it, so its record may be removed.

    Always False for a vault in a file, which keeps all records.
    """
    return not state.store.is_whole and record.expires + _KEPT < now // 1000


def standing_effects(
    state: Replica, actor: Actor, now: Millis, records: Iterable[tuple[Object, CapRecord]] | None = None
) -> list[Effect]:
    """The effects that make void every cap of an actor that was issued up to now.

    `records` are the records of caps, if the caller has read them already. A cap whose time of issue is in the future
    comes from a worker with a fast clock. Such a cap is revoked by its link, even if it covers more actors, because
    making all caps up to that time void would lock the actor out. The cap is not valid at other workers yet.
    """
    locator = state.slots.actor(actor)
    if state.store.is_whole:
        return [_standing_effect(state, locator, now)]
    soon = (now + CLOCK_LEEWAY) // 1000
    known = cap_records_of(state, actor) if records is None else records
    own = [one for _, one in known if _concerns(one, actor)]
    ahead = {one.link for one in own if one.issued > soon} - state.standing.revoked
    issued = [one.issued for one in own if one.issued <= soon]
    return [_standing_effect(state, locator, now, issued), *(PutNew(REVOKED + link, b"") for link in sorted(ahead))]


def _standing_effect(state: Replica, locator: str, now: Millis, issued: Sequence[int] = ()) -> Effect:
    """The effect that makes void every cap of an actor that was issued up to now, or up to the latest of `issued`.

    `locator` is the pseudonym of the actor in the store.
    """
    name = STANDING + locator
    stored = state.store.get(name)
    before = 0 if stored is None else state.records.open(name, NotBefore).not_before
    # The new `not_before` is later than every existing cap. No cap is minted before `not_before`, and this clock may
    # be behind the log, or behind the clock and log of another worker.
    latest = max(now, state.store.head().time) // 1000
    sealed = state.records.seal(name, NotBefore(max(latest, before, *issued) + 1))
    return PutNew(name, sealed) if stored is None else Swap(name, sealed, stored.version)


def pin_standing(state: Replica, actor: Actor, issued: int) -> Expect:
    """The condition under which a commit fails if an actor's caps were made void meanwhile.

    Raises Lost if a cap issued at `issued` is void already: the caller must ask the gate again.
    """
    name = STANDING + state.slots.actor(actor)
    stored = state.store.get(name)
    if stored is None:
        return Expect(name, 0)
    if issued < state.records.open(name, NotBefore).not_before:
        raise Lost(name)
    return Expect(name, stored.version)


def _concerns(record: CapRecord, actor: Actor) -> bool:
    """Whether a cap covers this actor: it is a cap of the actor, or a cap for a scope that includes the actor."""
    is_scope = record.actor.endswith("/") and record.data_class != DataClass.ADMIN
    return record.actor == actor or (is_scope and actor.startswith(record.actor))
