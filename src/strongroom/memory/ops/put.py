"""The operation `put`: stores one line or a batch. A repeated put with the same ids stores each line once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from strongroom import api, model
from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import DETAILED, LinePlace
from strongroom.errors import (
    BodyTooLarge,
    CapNamespaceDenied,
    FormatTooOld,
    InvalidRequest,
    LineConflict,
    StoreUnavailable,
    StrongroomError,
    TooMany,
)
from strongroom.gate import Ask, Grant
from strongroom.keys import ActorKeys
from strongroom.memory.cap_records import pin_standing
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.operation import Operation, SlowStep
from strongroom.memory.replacement_marks import read_mark
from strongroom.memory.replica import Replica
from strongroom.memory.stored_lines import open_line
from strongroom.memory.vault_records import SECRETS
from strongroom.model import Line, LineDetails, LineId, Millis, Namespace, NewLine, Op, Provenance, Receipt
from strongroom.store import ANY, Effect, Expect, Lost, PutNew, Swap, Version

_TRIES = 64
"""How often a put starts over because another process changed the actor's keys or took an id meanwhile."""


_MANY = 16
"""Sealing more lines than this counts as slow."""


_LARGE = 16 * 1024
"""Indexing more bytes of text than this counts as slow."""


class Draft(msgspec.Struct, frozen=True):
    """A line about to be written, and whether the caller gave its id and its time."""

    line: Line
    name: str
    own_id: bool
    own_time: bool


def put(clerk: DecisionRecorder, caller: Caller, call: api.Put) -> Operation[api.Receipts]:
    """Write all of these lines, or none. A line that exists already is acknowledged as a duplicate."""
    lines: Sequence[NewLine] = call.lines
    named = [model.plain(line.namespace) for line in lines if line.namespace is not None]
    sessions = [model.plain(line.session) for line in lines if line.session is not None]
    ask = Ask(Op.PUT, frozenset(named), unnamed=len(named) < len(lines), sessions=frozenset(sessions))
    size = _raw_size(lines)
    if len(lines) > _MANY or size > _LARGE:
        yield SlowStep((yield from clerk.admit(caller, ask)).actor)
    since = clerk.known(caller, lines=False)
    for tried in range(_TRIES):
        grant, since = yield from clerk.admit_to_seal(caller, ask, since)
        attempt = _attempt(clerk, grant, lines, size, caller, since, looks=tried > 0)
        outcome = yield from clerk.recorded(grant, caller, attempt)
        if isinstance(outcome, api.Receipts):
            return outcome
        lines, since = outcome, ANY
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same keys")


def _attempt(
    clerk: DecisionRecorder,
    grant: Grant,
    lines: Sequence[NewLine],
    size: int,
    caller: Caller,
    since: Mapping[str, Version],
    *,
    looks: bool,
) -> Operation[api.Receipts | list[NewLine]]:
    """Write lines. If another process changed something meanwhile, returns the lines for another try.

    The first try does not check whether the ids are free: usually they are, and otherwise the commit fails. If the
    first try uses cached data, it refuses nothing: the cap may be revoked since, and then this must be the reason.
    """
    try:
        drafts = _drafts(clerk, grant, lines, size, caller.source)
    except StrongroomError:
        if looks or not since:
            raise
        return list(lines)
    try:
        return api.Receipts(tuple((yield from _write(clerk, grant, drafts, caller, since, looks=looks))))
    except Lost:
        return [_with_id(line, draft) for line, draft in zip(lines, drafts, strict=True)]


def _with_id(line: NewLine, draft: Draft) -> NewLine:
    """The line with the id that the first try gave it, so that a second try cannot store another copy."""
    return msgspec.structs.replace(line, id=draft.line.id)


def _drafts(clerk: DecisionRecorder, grant: Grant, lines: Sequence[NewLine], size: int, source: str) -> list[Draft]:
    if not lines:
        raise InvalidRequest("there is no line to put: the list of lines is empty")
    if len(lines) > model.BATCH_LIMIT:
        raise TooMany(f"a batch holds at most {model.BATCH_LIMIT} lines")
    if size > model.BATCH_BYTES:
        raise BodyTooLarge(
            f"the texts of a batch have at most {model.BATCH_BYTES} bytes together", hint="send several smaller batches"
        )
    now = clerk.now()
    provenance = Provenance(grant.links, grant.holder, source, now)
    drafts: dict[tuple[Namespace, LineId], Draft] = {}
    ordered: list[Draft] = []
    for new in lines:
        draft = draft_line(clerk, grant, new, provenance)
        earlier = drafts.setdefault((draft.line.namespace, draft.line.id), draft)
        if earlier is not draft and not _same(earlier.line, draft):
            raise LineConflict("two different lines in the batch have the same id")
        ordered.append(draft)
    return ordered


def _raw_size(lines: Sequence[NewLine]) -> int:
    """The size in bytes of the texts that the caller passed, computed before any other work."""
    texts = [new.text for new in lines if isinstance(new.text, str)]
    return sum([len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts])


def draft_line(clerk: DecisionRecorder, grant: Grant, new: NewLine, provenance: Provenance) -> Draft:
    """Check a line that a caller gave, and add the values that come from the cap and the clock."""
    if new.namespace is None and len(grant.allowed) != 1:
        raise InvalidRequest(
            "the line has no namespace: name one that the cap covers",
            hint=f"the cap covers {', '.join(sorted(grant.allowed)) or 'none'}; strongroom.local() and"
            " `strongroom put` choose a namespace by the owner's rules",
        )
    now = provenance.recorded
    # The gate has checked every granted name. Any other name is refused here.
    namespace = next(iter(grant.allowed)) if new.namespace is None else Namespace(model.plain(new.namespace))
    if namespace not in grant.namespaces:
        raise CapNamespaceDenied("the cap does not cover this namespace")
    shelf = clerk.state.slots.shelf(grant.actor, namespace)
    line_id = clerk.new_id(shelf, now) if new.id is None else model.line_id(new.id)
    time = now if new.time is None else model.millis(new.time)
    kind, session, author, text, details = model.clean_line(new, grant.session or "")
    if not text.strip():
        raise InvalidRequest("the text of the line is empty")
    if details is not None:
        _check_details(clerk.state, details, now)
    line = Line(line_id, time, kind, namespace, session, author, text, provenance, details)
    return Draft(line, line_name(shelf, line_id), own_id=new.id is not None, own_time=new.time is not None)


def only_namespace(grant: Grant) -> Namespace:
    """The namespace of a call that is for one namespace. It may be left out if the cap covers only one."""
    if len(grant.namespaces) != 1:
        covered = sorted(grant.allowed)
        example = f'name it, as in namespace="{covered[0]}"; ' if covered else ""
        raise InvalidRequest(
            "the call must name one namespace", hint=f"{example}the cap covers {', '.join(covered) or 'none'}"
        )
    return next(iter(grant.namespaces))


def _check_details(state: Replica, details: LineDetails, now: Millis) -> None:
    if state.records.format < DETAILED:
        raise FormatTooOld(
            "this vault cannot hold tags, meta, expiry or turns yet: its format is for older programs",
            hint="once all programs that use the vault have this version, its owner runs `strongroom upgrade`",
        )
    if details.expires is not None and details.expires <= now:
        raise InvalidRequest(
            "the line would expire before it is stored", hint="give a later `expires`, or leave it out"
        )


def _write(
    clerk: DecisionRecorder,
    grant: Grant,
    drafts: Sequence[Draft],
    caller: Caller,
    since: Mapping[str, Version],
    *,
    looks: bool,
) -> Operation[list[Receipt]]:
    """Write the lines that are not stored yet.

    With `looks`, the store is checked for lines with the same ids. Otherwise an existing line makes the commit fail.
    """
    state = clerk.state
    receipts: list[Receipt] = []
    new: dict[str, Line] = {}
    made_up = {draft.line.id for draft in drafts if not draft.own_id}
    for draft in drafts:
        name = draft.name
        receipt = _acknowledged(state, grant, draft, name) if looks and draft.own_id else None
        if receipt is None and name in new:
            receipt = Receipt(draft.line.id, draft.line.namespace, duplicate=True)
        if receipt is None:
            new[name] = draft.line
            receipt = Receipt(draft.line.id, draft.line.namespace)
        receipts.append(receipt)
    namespaces = {line.namespace for line in new.values()}
    keys, effects = keys_for(state, grant, namespaces)
    newest = {one: keys.newest(state.slots.namespace(grant.actor, one)) for one in namespaces}
    places = {one: LinePlace(state.vault_id, grant.actor, one) for one in namespaces}
    for name, line in new.items():
        sealed = line_encryption.seal_line(line, places[line.namespace], *newest[line.namespace], state.random(24))
        effects.append(PutNew(name, sealed, line.id in made_up))
    ids = [line.id for line in new.values()]
    yield from clerk.commit(grant, effects, keys=keys, lines=ids, caller=caller, written=new, since=since)
    return receipts


def line_name(shelf: str, line_id: LineId) -> str:
    """The name of a line's object in the store. `shelf` is the prefix of the line's namespace there."""
    return f"{shelf}lines/{line_id}"


def _acknowledged(state: Replica, grant: Grant, draft: Draft, name: str) -> Receipt | None:
    """The receipt for a line that is stored already or was forgotten. None if no line has had its id."""
    stored = state.store.get(name)
    if stored is None:
        return None
    line = open_line(state, grant.actor, draft.line.namespace, stored)
    if line is None:
        return Receipt(draft.line.id, draft.line.namespace, forgotten=True)
    if not _same(line, draft) or not _counted(state, grant, line):
        raise LineConflict("another line has this id", hint="use a new id for a new line")
    return Receipt(line.id, line.namespace, duplicate=True)


def _counted(state: Replica, grant: Grant, line: Line) -> bool:
    """Whether a line is or was recallable. False for a replacement that never took effect."""
    replaces = None if line.details is None else line.details.replaces
    return replaces is None or read_mark(state, grant.actor, line.namespace, replaces) == line.id


def _same(line: Line, draft: Draft) -> bool:
    """Whether a stored line equals the line of a repeated put. Times are compared only if the caller gave one."""
    given = draft.line
    fixed = (line.text, line.kind, line.session, line.author, _as_put(line.details)) == (
        given.text,
        given.kind,
        given.session,
        given.author,
        given.details,
    )
    return fixed and (not draft.own_time or line.time == given.time)


def _as_put(details: LineDetails | None) -> LineDetails | None:
    """The details of a stored line without `replaces`, to compare them with the details of a repeated put."""
    if details is None or details.replaces is None:
        return details
    critical = tuple([name for name in details.critical if name != "replaces"])
    plain = msgspec.structs.replace(details, critical=critical, replaces=None)
    return None if plain == LineDetails() else plain


def keys_for(state: Replica, grant: Grant, namespaces: set[Namespace]) -> tuple[ActorKeys, list[Effect]]:
    """Keys that can seal into `namespaces`, and the effects that create these keys or make the commit depend on them.

    The commit must fail if the keys change, because a line must not be sealed with keys that an erasure destroys.
    """
    held = state.keys_of(grant.actor)
    keys = held.keys if held is not None else ActorKeys.new(state.vault_id, grant.actor, state.random)
    locators = sorted(state.slots.namespace(grant.actor, name) for name in namespaces)
    missing = [locator for locator in locators if locator not in keys.namespaces]
    if held is not None and not missing:
        return keys, [Expect(held.name, held.version)]
    for locator in missing:
        keys = keys.with_namespace(locator, state.random)
    # A concurrent rotation of the root key must not overlook these keys.
    rotation = Expect(SECRETS, state.records.secrets_version)
    sealed = keys.sealed(state.records.ring(), state.random)
    if held is not None:
        return keys, [rotation, Swap(held.name, sealed, held.version)]
    # A cap that an erasure has just made void must not create the actor again.
    return keys, [
        rotation,
        pin_standing(state, grant.actor, grant.issued),
        PutNew(state.slots.keys(grant.actor), sealed),
    ]
