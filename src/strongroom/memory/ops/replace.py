"""The operation `replace`: corrects a line, and keeps its earlier versions.

Lines never change. A correction writes a new line, which names the old line. Then it creates a mark of the old line,
which names the new line (`replacement_marks.py`). From that moment the new line is recalled, and the old line is not.

A store with atomic commits writes both in one commit. In another store, the new line is written first. If the worker
dies before it creates the mark, the old line is still recalled, and the new line is forgotten later.
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
from strongroom.memory.ended_search import UNCONFIRMED
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
    """Replace a line with a new line. The cap must allow `put` and `forget`."""
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
            "this vault cannot replace lines yet: its format is for older programs, which may still use it",
            hint="once all programs that use the vault have this version, its owner runs `strongroom upgrade`",
        )
    old, repeated = _old_line(grant, shelves, call)
    if repeated is not None:
        yield from clerk.commit(grant, lines=[repeated.id], caller=caller, detail=f"replaces {call.id}")
        return repeated
    line = _new_line(clerk, grant, caller, call, old)
    shelf = state.slots.shelf(grant.actor, old.namespace)
    stored = state.store.get(line_name(shelf, old.id))
    if stored is None or stored.body is None:
        raise Lost(line_name(shelf, old.id))  # the old line was forgotten meanwhile
    keys, effects = keys_for(state, grant, {old.namespace})
    epoch, key = keys.newest(state.slots.namespace(grant.actor, old.namespace))
    place = LinePlace(state.vault_id, grant.actor, old.namespace)
    name = line_name(shelf, line.id)
    sealed = line_encryption.seal_line(line, place, epoch, key, state.random(24))
    is_there = call.new_id is not None and _is_there(clerk, grant, name, line)
    if is_there and state.store.is_whole:
        raise Lost(name)  # this call was sent twice, and its other copy has replaced the line meanwhile
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
            raise Lost(stored.name)  # the old line was forgotten while the new line was written
    yield from clerk.commit(
        grant, [*effects, *mark], keys=keys, lines=[line.id], caller=caller, written={name: line}, detail=detail
    )
    return Receipt(line.id, line.namespace)


def _old_line(grant: Grant, shelves: Sequence[CachedNamespace], call: api.Replace) -> tuple[Line, Receipt | None]:
    """The line to be replaced. If this call was sent before and has replaced it already, also its receipt."""
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
        raise InvalidRequest("lines in several namespaces have this id: name the namespace of the line too")
    if replaced:
        ((line, new),) = replaced
        if call.new_id == new:
            return line, Receipt(new, line.namespace, duplicate=True)
        raise LineReplaced(
            "the line was replaced already", hint="replace its newest version, which memory.history(id) shows last"
        )
    if not counting:
        raise LineNotFound("there is no such line")
    if counting[0].kind == Kind.DOCUMENT:
        raise InvalidRequest("this id names a document, not a line", hint="change the document with write_document")
    return counting[0], None


def _replaced(shelf: CachedNamespace, name: LineId, new: LineId, wanted: str | None) -> Line | None:
    """The replaced line `name`, if it is stored. If it was forgotten but this call asked for `new`, the new line."""
    hidden = shelf.states.hidden
    line = hidden.get(name)
    return shelf.lines.get(new) or hidden.get(new) if line is None and new == wanted else line


def _new_line(clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.Replace, old: Line) -> Line:
    """The new line. Fields that the call leaves out are copied from the old line, except for the time and the id."""
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
        raise InvalidRequest(
            "a line cannot replace itself: `new_id` is the id of the old line",
            hint="give another `new_id`, or leave it out",
        )
    details = line.details or LineDetails()
    details = msgspec.structs.replace(details, critical=(*details.critical, "replaces"), replaces=old.id)
    return msgspec.structs.replace(line, details=details)


def _is_there(clerk: DecisionRecorder, grant: Grant, name: str, line: Line) -> bool:
    """Whether an earlier try has written this line. Raises LineConflict if another line has or had its id."""
    stored = clerk.state.store.get(name)
    found = open_line(clerk.state, grant.actor, line.namespace, stored)
    if found is None and stored is not None:
        raise LineConflict("a line that was forgotten had this id", hint="use a new id for a new line")
    if found is not None and (found.text, found.details) != (line.text, line.details):
        raise LineConflict("another line has this id", hint="use a new id for a new line")
    if found is None or clerk.state.store.is_whole:
        return found is not None
    if found.provenance.recorded <= clerk.now() - UNCONFIRMED // 2:
        # The line of the earlier try will soon be forgotten.
        raise LineConflict(
            "an earlier try of this replacement was too long ago", hint="repeat the call with another `new_id`"
        )
    return True
