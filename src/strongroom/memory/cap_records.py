"""The registry's records of caps, and the voiding of all caps of an actor."""

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
"""Seconds after its end for which a cap's record still counts, because clocks differ."""


def cap_records(state: Replica, beside: Collection[str] = ()) -> Iterator[tuple[Object, CapRecord]]:
    """The records of all minted caps, without those named in `beside`.

    In a bucket, a record that does not open is skipped: it is not a record, or was destroyed, and must not stop every
    revocation. Verification reports it.
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
    """The records of an actor's caps and of scopes' caps. Without an index, those of all caps."""
    return state.cap_index.of(actor, beside) if state.cap_index.is_made() else cap_records(state, beside)


def descendants(state: Replica, link: LinkId, of: LinkId) -> list[CapRecord]:
    """The records of caps that came from `link`. `of` is the recorded link that it was made from."""
    family = state.cap_index.family(of) if state.cap_index.is_made() else None
    return [one for _, one in (cap_records(state) if family is None else family) if link in one.parents]


def _registered(state: Replica, beside: Collection[str]) -> Iterator[Object]:
    """The records as stored, tombstones too."""
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
    """Whether a cap ended so long ago that no worker accepts it. A vault in a file keeps all records."""
    return not state.store.is_whole and record.expires + _KEPT < now // 1000


def standing_effects(
    state: Replica, actor: Actor, now: Millis, records: Iterable[tuple[Object, CapRecord]] | None = None
) -> list[Effect]:
    """The effects that void every cap of an actor issued up to now. `records` are those of caps, if read already.

    A cap with a later time of issue, from a worker whose clock is ahead, is revoked by its link instead, even if it
    covers more actors. It is not valid anywhere else yet, and voiding all caps up to then would lock the actor out.
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
    """The effect that voids every cap of the actor at `locator` issued up to now, or at one of the times `issued`."""
    name = STANDING + locator
    stored = state.store.get(name)
    before = 0 if stored is None else state.records.open(name, NotBefore).not_before
    # Later than every existing cap: mint issues none before `not_before`, and this clock may be behind the log, or
    # behind another worker's clock and log.
    latest = max(now, state.store.head().time) // 1000
    sealed = state.records.seal(name, NotBefore(max(latest, before, *issued) + 1))
    return PutNew(name, sealed) if stored is None else Swap(name, sealed, stored.version)


def pin_standing(state: Replica, actor: Actor, issued: int) -> Expect:
    """Make a commit depend on an actor's standing. Lost if it voids a cap issued then: ask the gate again."""
    name = STANDING + state.slots.actor(actor)
    stored = state.store.get(name)
    if stored is None:
        return Expect(name, 0)
    if issued < state.records.open(name, NotBefore).not_before:
        raise Lost(name)
    return Expect(name, stored.version)


def _concerns(record: CapRecord, actor: Actor) -> bool:
    """Whether voiding an actor's caps voids this one: the actor's own, or one that can be narrowed to it."""
    is_scope = record.actor.endswith("/") and record.data_class != DataClass.ADMIN
    return record.actor == actor or (is_scope and actor.startswith(record.actor))
