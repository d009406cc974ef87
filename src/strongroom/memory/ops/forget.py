"""The operations `forget` and `erase`.

`forget` deletes chosen lines. It leaves tombstones (empty objects), so that no retry or import brings the lines back. A
chosen document is deleted with all of its versions. `erase` destroys the keys of namespaces, or of the whole actor, and
everything that these keys sealed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from strongroom import api, model
from strongroom.audit.entry import pending
from strongroom.errors import CapLimitExceeded, CapNamespaceDenied, InvalidRequest, StoreUnavailable, StrongroomError
from strongroom.gate import Ask, Grant
from strongroom.keys import ActorKeys
from strongroom.memory.cap_records import cap_records_of, is_over, standing_effects
from strongroom.memory.decision_recorder import PER_ENTRY, Caller, DecisionRecorder
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.operation import AT_ONCE, Operation, SlowStep
from strongroom.memory.ops.put import line_name
from strongroom.memory.replica import Replica
from strongroom.memory.selector import Selector, place_of
from strongroom.memory.stored_documents import delete_effects
from strongroom.memory.stored_keys import KeyCache
from strongroom.memory.stored_pages import pages_of
from strongroom.memory.vault_records import ACTORS, SECRETS
from strongroom.model import CapRecord, Erased, Forgotten, Kind, Line, LineId, Namespace, Op
from strongroom.store import Delete, Effect, Expect, Lost, Object, Purge, Store, Swap, is_derived
from strongroom.store.fleet_contract import FleetStore

_TRIES = 64
_PORTION, _PORTION_TEXT = 64, 64 * 1024
"""Maximum number of lines, and roughly of characters, that one commit forgets: a commit blocks all other commits."""
_RECORDS = 128
"""Maximum number of cap records that one commit removes."""
Records = Sequence[tuple[Object, CapRecord]]


def forget(clerk: DecisionRecorder, caller: Caller, call: api.Forget) -> Operation[Forgotten]:
    """Forget the lines that meet every condition given. At least one condition is required.

    The lines are forgotten in several commits, each with its own log entry, so that a large call does not block other
    writers. If the call is interrupted, the lines forgotten so far stay forgotten, and a second call forgets the rest.
    """
    ask = Ask.of(Op.FORGET, call.namespaces, session=call.session)
    gone: list[LineId] = []
    try:
        left: deque[Line] | None = None
        while left is None or left:
            grant, shelves = yield from clerk.readable(caller, ask, is_long=True)
            if left is None:
                left = deque((yield from clerk.recorded(grant, caller, _chosen(grant, shelves, call))))
            gone += yield from _forget(clerk, grant, shelves, caller, _portion(left, shelves))
    except StrongroomError:
        if gone:
            scrub(clerk.state.store)
        raise
    clerk.state.catch_up()
    missing = sorted(set(map(model.line_id, call.ids or ())) - set(gone))
    return Forgotten(tuple(gone), tuple(missing), scrub(clerk.state.store))


def scrub(store: Store) -> bool:
    """Remove the remains of deleted lines from the store's files, or schedule the removal. Returns True once done."""
    return store.scrub_soon() if isinstance(store, FleetStore) else store.scrub()


def _chosen(grant: Grant, shelves: Sequence[CachedNamespace], call: api.Forget) -> Operation[list[Line]]:
    """The lines that meet the conditions, in the order of a listing."""
    if call == api.Forget():
        raise InvalidRequest(
            "forget needs a condition, such as ids or session", hint="to destroy everything, use erase instead"
        )
    session = grant.session if call.session is None else call.session
    choice = Selector.of(call, ids=call.ids, session=session, link=call.link)
    chosen = choice.among(shelves)
    # Forgetting by link undoes the work of one cap: lines of other caps that were replaced stay in the history.
    return sorted(chosen if call.link is not None else _with_earlier(chosen, shelves), key=place_of)
    yield  # unreachable; makes this a generator, so that its failure is logged


def _with_earlier(chosen: Sequence[Line], shelves: Sequence[CachedNamespace]) -> list[Line]:
    """The chosen lines, and their earlier versions, which could not be seen any more but would still be stored."""
    found = {place_of(line): line for line in chosen}
    with hold_still(shelves):
        for line in chosen:
            for shelf in shelves if line.details is not None and line.details.replaces is not None else ():
                for one in shelf.states.earlier(line):
                    if one.namespace != line.namespace or place_of(one) in found:
                        break  # its earlier versions were found with it, so a long history is walked only once
                    found[place_of(one)] = one
    return list(found.values())


def _portion(left: deque[Line], shelves: Sequence[CachedNamespace]) -> list[Line]:
    """Take the next lines to forget in one commit. Lines that another call has forgotten meanwhile are skipped."""
    taken: list[Line] = []
    size = 0
    while left and len(taken) < _PORTION and size < _PORTION_TEXT:
        line = left.popleft()
        if any(line.id in shelf.lines or line.id in shelf.states.hidden for shelf in shelves):
            taken.append(line)
            size += len(line.text)
    return taken


def _forget(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, portion: Sequence[Line]
) -> Operation[list[LineId]]:
    """Forget these lines in one commit. If another process changes a line or a page meanwhile, try again."""
    for _ in range(_TRIES):
        try:
            return (yield from clerk.recorded(grant, caller, _delete(clerk, grant, shelves, caller, portion)))
        except Lost:
            clerk.state.catch_up(clerk.state.slots.actor(grant.actor))
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same lines")


def _delete(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, portion: Sequence[Line]
) -> Operation[list[LineId]]:
    state = clerk.state
    lines = [line for line in portion if line.kind != Kind.DOCUMENT]
    names = [line_name(state.slots.shelf(grant.actor, line.namespace), line.id) for line in lines]
    named = [(line, state.store.get(name)) for line, name in zip(lines, names, strict=True)]
    # Lines that were forgotten or erased since they were chosen are left out.
    found = [(line, stored) for line, stored in named if stored is not None and stored.body is not None]
    effects: list[Effect] = [Delete(stored.name, stored.version) for _, stored in found]
    for pages in map(pages_of, shelves):
        if ids := {line.id for line, _ in found if line.namespace == pages.namespace}:
            effects += pages.places.without(ids)
    ids_gone = [line.id for line, _ in found]
    if len(lines) < len(portion):
        deletions, deleted = delete_effects(state, grant.actor, [one for one in portion if one.kind == Kind.DOCUMENT])
        effects += deletions
        ids_gone += deleted
    yield from clerk.commit(grant, effects, lines=ids_gone, caller=caller)
    return ids_gone


def erase(clerk: DecisionRecorder, caller: Caller, call: api.Erase) -> Operation[Erased]:
    """Destroy the keys of the named namespaces (by default all that the cap covers), or of the whole actor.

    To erase the whole actor, the cap must cover every namespace of the vault, also those without lines of the actor.
    """
    ask = Ask.of(Op.ERASE, call.namespaces)
    grant = yield from clerk.admit(caller, ask)
    if (yield SlowStep(grant.actor)) is not AT_ONCE:
        grant = yield from clerk.admit(caller, ask)
    total = 0
    for _ in range(_TRIES):
        count = yield from clerk.recorded(grant, caller, _erase(clerk, grant, caller, call))
        total += count or 0
        if count is None or (call.everything and _is_back(clerk, grant)):
            if clerk.state.store.is_whole or not call.everything:
                grant = yield from clerk.admit(caller, ask)
            else:  # the commit may have voided its own cap, so the admission stands
                clerk.state.catch_up(clerk.state.slots.actor(grant.actor))
            continue
        clerk.state.catch_up()
        return Erased(total, pending=not clerk.state.store.scrub())
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same keys")


def _is_back(clerk: DecisionRecorder, grant: Grant) -> bool:
    """Whether an erased actor has keys again, made under a cap that was valid until the erasure.

    A writer first stores new keys, and then reads the vault before it seals anything. So either the read here finds the
    new keys, or the writer's read finds the erasure.
    """
    state = clerk.state
    locator = state.slots.actor(grant.actor)
    state.catch_up(locator)
    return not state.store.is_whole and state.held_keys(locator) is not None


def _erase(clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.Erase) -> Operation[int | None]:
    if call.everything and call.namespaces is not None:
        raise InvalidRequest("erase takes either `everything` or `namespaces`, not both")
    if grant.session is not None:
        raise CapLimitExceeded("the cap is bound to a session, but erase destroys whole namespaces")
    if call.everything and not set(clerk.state.records.namespaces) <= grant.allowed:
        raise CapNamespaceDenied("to erase everything, the cap must cover every namespace of this vault")
    erasing = _erase_actor if call.everything else _erase_namespaces
    try:
        return (yield from erasing(clerk, grant, caller))
    except Lost:
        return None


def _erase_actor(clerk: DecisionRecorder, grant: Grant, caller: Caller) -> Operation[int]:
    state = clerk.state
    locator = state.slots.actor(grant.actor)
    held = state.held_keys(locator)
    records = list(cap_records_of(state, grant.actor))
    removed = _own_records(state, grant, records)
    # Logged without the actor's tag: pseudonyms that anyone can compute from a name must not stand beside it.
    vault_wide: list[Effect] = [*standing_effects(state, grant.actor, clerk.now(), records), *removed]
    prefix = f"{ACTORS}{locator}/"
    # If the actor has no keys, the commit fails when keys were written meanwhile, with a first line.
    own: list[Effect] = [Expect(prefix + "keys", 0)]
    count = 0
    if held is not None:
        count = _count(state, prefix)
        own = [Expect(prefix + "keys", held.version), Purge(prefix)]
    yield from _commit_erasure(clerk, grant, own, vault_wide, None if held is None else held.keys, count, caller)
    state.catch_up()
    yield from _sweep_records(clerk, grant, caller, records, {one.name for one in removed})
    return count


def _commit_erasure(
    clerk: DecisionRecorder,
    grant: Grant,
    own: Sequence[Effect],
    vault_wide: Sequence[Effect],
    keys: ActorKeys | None,
    count: int,
    caller: Caller,
) -> Operation[None]:
    """Record the erasure of an actor: an entry with the actor's tag, and one without it for the vault's objects."""
    erased = clerk.entries(grant, own, keys, (), count, "actor" if keys is not None else "", caller.request)
    voided = msgspec.structs.replace(erased[0], actor="", namespaces=(), erased="", count=0)
    tagged = clerk.marks(vault_wide, None)
    entries = erased + [
        msgspec.structs.replace(voided, objects=tagged[at : at + PER_ENTRY]) for at in range(0, len(tagged), PER_ENTRY)
    ]
    yield pending(entries, [*own, *vault_wide])


def _count(state: Replica, prefix: str) -> int:
    """The number of objects below `prefix`, not counting derived ones such as cache pages."""
    return sum(not is_derived(thing.name) for thing in state.records.names(prefix))


def _own_records(state: Replica, grant: Grant, records: Records) -> list[Delete]:
    """The effects that remove the actor's cap records, with which a link in the log could be traced to the actor.

    In a bucket, only some records are removed at once: each takes a request or more, and a slow commit is given up.
    """
    own = [(thing, record) for thing, record in records if record.actor == grant.actor]
    return _removal(state, own if state.store.is_whole else own[:_RECORDS])


def _removal(state: Replica, records: Records) -> list[Delete]:
    return [effect for thing, record in records for effect in state.cap_index.removal(thing, record)]


def _sweep_records(
    clerk: DecisionRecorder, grant: Grant, caller: Caller, records: Records, removed: Collection[str]
) -> Operation[None]:
    """Remove the actor's remaining cap records, and the records of caps issued during the erasure.

    These caps are void already. In a bucket, some records of caps that ended long ago are removed too, whichever actor
    they have.
    """
    state, now = clerk.state, clerk.now()
    voided = state.standing.not_before.get(state.slots.actor(grant.actor), 0)
    own = [(thing, record) for thing, record in records if record.actor == grant.actor and thing.name not in removed]
    own += [
        (thing, record)
        for thing, record in cap_records_of(state, grant.actor, {thing.name for thing, _ in records})
        if record.actor == grant.actor and record.issued < voided
    ]
    others = {thing.name: (thing, record) for thing, record in [*records, *state.cap_index.sample()]}.values()
    over = [(thing, record) for thing, record in others if record.actor != grant.actor and is_over(state, record, now)]
    batches = [own[at : at + _RECORDS] for at in range(0, len(own), _RECORDS)]
    for batch in [*batches, over[:_RECORDS]] if over else batches:
        with suppress(Lost):  # another erasure was first
            yield from _commit_erasure(clerk, grant, (), _removal(state, batch), None, 0, caller)


def _erase_namespaces(clerk: DecisionRecorder, grant: Grant, caller: Caller) -> Operation[int]:
    state = clerk.state
    held = state.keys_of(grant.actor)
    if held is None:
        yield from clerk.commit(grant, [Expect(state.slots.keys(grant.actor), 0)], caller=caller)
        return 0
    used = [
        name for name in sorted(grant.namespaces) if state.slots.namespace(grant.actor, name) in held.keys.namespaces
    ]
    count = sum(_count(state, state.slots.shelf(grant.actor, name)) for name in used)
    effects = _without(state, grant, held, used)
    yield from clerk.commit(grant, effects, keys=held.keys, count=count, erased="namespace", caller=caller)
    return count


def _without(state: Replica, grant: Grant, held: KeyCache, used: list[Namespace]) -> list[Effect]:
    keys: ActorKeys = held.keys
    for name in used:
        keys = keys.without_namespace(state.slots.namespace(grant.actor, name))
    sealed = keys.sealed(state.records.ring(), state.random)
    purges = [Purge(state.slots.shelf(grant.actor, name)) for name in used]
    pinned = Expect(SECRETS, state.records.secrets_version)
    return [pinned, Swap(held.name, sealed, held.version), *purges]
