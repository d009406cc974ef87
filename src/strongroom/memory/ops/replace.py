"""Replace: correct a line without losing its past.

Lines stay immutable. The new line names the old one, and counts only once the old one has a mark that names it;
creating that mark is the one deciding write. In a store that is whole both are one commit. In another, the new line
comes first: if the worker dies in between, the old line still counts, and the new one is swept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from strongroom import api
from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import DETAILED, LinePlace
from strongroom.errors import FormatTooOld, InvalidRequest, LineConflict, LineNotFound, LineReplaced, StoreUnavailable
from strongroom.gate import Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.ended_lines import UNCONFIRMED
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.operation import Operation
from strongroom.memory.ops.forget import forget
from strongroom.memory.ops.put import draft_line, keys_for, line_name
from strongroom.memory.replacement_marks import new_mark
from strongroom.memory.stored_lines import open_line
from strongroom.model import Kind, Line, LineDetails, LineId, NewLine, Op, Provenance, Receipt, line_id, moment
from strongroom.store import Effect, Expect, Lost, PutNew

_TRIES = 64


def replace(clerk: DecisionRecorder, caller: Caller, call: api.Replace) -> Operation[Receipt]:
    """Put a line in the place of another one. The cap must allow `put` and `forget`."""
    named = None if call.namespace is None else [call.namespace]
    ask = Ask.of(Op.PUT, named, session=call.session)
    yield from clerk.admit(caller, ask)
    yield from clerk.admit(caller, Ask.of(Op.FORGET, named, session=call.session))
    for _ in range(_TRIES):
        grant, shelves = yield from clerk.readable(caller, ask)
        try:
            receipt = yield from clerk.recorded(grant, caller, _replace(clerk, grant, shelves, caller, call))
        except Lost:
            clerk.state.catch_up(clerk.state.slots.actor(grant.actor))
            continue
        if call.forget:
            past = api.Forget(ids=(call.id,), namespaces=(receipt.namespace,))
            yield from forget(clerk, caller, past)
        return receipt
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same line")


def _replace(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, call: api.Replace
) -> Operation[Receipt]:
    state = clerk.state
    if state.records.format < DETAILED:
        raise FormatTooOld(
            "lines of this vault cannot be replaced yet: older programs may still use it",
            hint="once all programs that use it are of this version, its owner runs `strongroom upgrade`",
        )
    old, repeated = _old_line(grant, shelves, call)
    if repeated is not None:
        yield from clerk.commit(grant, lines=[repeated.id], caller=caller, detail=f"replaces {call.id}")
        return repeated
    line = _new_line(clerk, grant, caller, call, old)
    shelf = state.slots.shelf(grant.actor, old.namespace)
    stored = state.store.get(line_name(shelf, old.id))
    if stored is None or stored.body is None:
        raise Lost(line_name(shelf, old.id))  # forgotten meanwhile
    keys, effects = keys_for(state, grant, {old.namespace})
    epoch, key = keys.newest(state.slots.namespace(grant.actor, old.namespace))
    place = LinePlace(state.vault_id, grant.actor, old.namespace)
    name = line_name(shelf, line.id)
    sealed = line_encryption.seal_line(line, place, epoch, key, state.random(24))
    is_there = call.new_id is not None and _is_there(clerk, grant, name, line)
    if is_there and state.store.is_whole:
        raise Lost(name)  # this very call, sent twice, has replaced it since
    put: list[Effect] = [PutNew(name, sealed, call.new_id is None)]
    mark: list[Effect] = [
        Expect(stored.name, stored.version),
        new_mark(shelf, old.id, line.id, place, epoch, key, state.random(24)),
    ]
    detail = f"replaces {old.id}"
    if state.store.is_whole:
        put, mark = [], [*put, *mark]
    elif is_there:
        put = []
    if put:
        yield from clerk.commit(
            grant, [*effects, *put], keys=keys, lines=[line.id], caller=caller, written={name: line}, detail=detail
        )
        state.catch_up(state.slots.actor(grant.actor))
        if (again := state.store.get(stored.name)) is None or again.body is None:
            raise Lost(stored.name)  # forgotten while the new line was written
    yield from clerk.commit(
        grant, [*effects, *mark], keys=keys, lines=[line.id], caller=caller, written={name: line}, detail=detail
    )
    return Receipt(line.id, line.namespace)


def _old_line(grant: Grant, shelves: Sequence[CachedNamespace], call: api.Replace) -> tuple[Line, Receipt | None]:
    """The line to be replaced; with a receipt if this very call has replaced it before."""
    name = line_id(call.id)
    with hold_still(shelves):
        counting = [line for shelf in shelves if (line := shelf.lines.get(name)) is not None]
        replaced = [
            (line, new)
            for shelf in shelves
            if (new := shelf.states.replacement(name)) is not None
            and (line := _replaced(shelf, name, new, call.new_id)) is not None
        ]
    if grant.session is not None:
        counting = [line for line in counting if line.session == grant.session]
        replaced = [(line, new) for line, new in replaced if line.session == grant.session]
    if len(counting) + len(replaced) > 1:
        raise InvalidRequest("lines of several namespaces have this id: name the namespace")
    if replaced:
        ((line, new),) = replaced
        if call.new_id == new:
            return line, Receipt(new, line.namespace, duplicate=True)
        raise LineReplaced("the line was replaced already", hint="replace the newest one: memory.history(id) shows it")
    if not counting:
        raise LineNotFound("there is no such line")
    if counting[0].kind == Kind.DOCUMENT:
        raise InvalidRequest("this is a document, and not a line", hint="change it with write_document")
    return counting[0], None


def _replaced(shelf: CachedNamespace, name: LineId, new: LineId, wanted: str | None) -> Line | None:
    """A replaced line that is stored. If this call asked for `new`, and has forgotten the old line, the new one."""
    hidden = shelf.states.hidden
    line = hidden.get(name)
    return shelf.lines.get(new) or hidden.get(new) if line is None and new == wanted else line


def _new_line(clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.Replace, old: Line) -> Line:
    """The new line. What the call leaves out is as in the old one, but for the time and the id."""
    before = old.details or LineDetails()
    expires = None if before.expires is None else moment(before.expires)
    new = NewLine(
        text=call.text,
        namespace=old.namespace,
        session=old.session if call.session is None else call.session,
        author=old.author if call.author is None else call.author,
        kind=old.kind if call.kind is None else call.kind,
        id=call.new_id,
        time=call.time,
        tags=before.tags if call.tags is None else call.tags,
        meta=before.meta if call.meta is None else call.meta,
        expires=expires if call.expires is None else call.expires,
        turn=before.turn if call.turn is None else call.turn,
    )
    line = draft_line(clerk, grant, new, Provenance(grant.links, grant.holder, caller.source, clerk.now())).line
    if line.id == old.id:
        raise InvalidRequest("a line cannot replace itself", hint="give the new line another id, or none")
    details = line.details or LineDetails()
    details = msgspec.structs.replace(details, critical=(*details.critical, "replaces"), replaces=old.id)
    return msgspec.structs.replace(line, details=details)


def _is_there(clerk: DecisionRecorder, grant: Grant, name: str, line: Line) -> bool:
    """Whether an earlier try has written this line. LineConflict if another line has its id, or had it."""
    stored = clerk.state.store.get(name)
    found = open_line(clerk.state, grant.actor, line.namespace, stored)
    if found is None and stored is not None:
        raise LineConflict("a line that was forgotten had this id", hint="use a new id for a new line")
    if found is not None and (found.text, found.details) != (line.text, line.details):
        raise LineConflict("another line has this id", hint="use a new id for a new line")
    if found is None or clerk.state.store.is_whole:
        return found is not None
    if found.provenance.recorded <= clerk.now() - UNCONFIRMED // 2:
        raise LineConflict("an earlier try of this replacement was given up", hint="use a new id")  # soon forgotten
    return True
