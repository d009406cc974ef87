"""Caps as the vault keeps them: mint, renew, revoke, list.

Whoever signs a cap with another cap (renewing it, or minting with an admin cap) gets at most what that one covers,
and the new cap falls with it: revoking a cap revokes what was renewed or minted from it, however often.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

import msgspec

from strongroom import api, model
from strongroom.caps import chain as cap
from strongroom.caps.chain import Cap, Grantable, Token
from strongroom.errors import (
    CapLimitExceeded,
    CapNamespaceDenied,
    CapRevoked,
    InvalidRequest,
    KeyUnavailable,
    LineNotFound,
    StoreUnavailable,
    UnknownNamespace,
)
from strongroom.gate import AdminGrant, Ask
from strongroom.keys import FileKeys
from strongroom.keys.sources import ISSUER_HINT
from strongroom.memory import Caller, DecisionRecorder
from strongroom.memory.cap_index import CAPS, INDEXED
from strongroom.memory.cap_records import cap_records, cap_records_of, descendants, is_over, pin_standing
from strongroom.memory.operation import SLOW_STEP, Operation
from strongroom.memory.replica import Replica
from strongroom.memory.vault_records import REVOKED
from strongroom.model import Actor, CapRecord, DataClass, LinkId, Op
from strongroom.store import Effect, Expect, Lost, PutNew
from strongroom.store.fleet_contract import FleetStore
from strongroom.vault.cap_void_reason import judge

TTL_LIMIT = 400 * 24 * 3600
_TRIES = 8
_SOON = 5
"""Seconds by which a cap may be dated ahead, so that a revocation of just now does not void it."""
_PORTION = 100
"""Objects in one commit: each is a request, and a commit that takes long is given up."""
_GENERATIONS = 1000
"""How many links a cap may come from: each new one depends on all of them."""

_MEMORY_OPS = frozenset(Op) - {Op.MINT, Op.REVOKE, Op.AUDIT}


def issue(clerk: DecisionRecorder, terms: api.Mint, data_class: str = DataClass.MEMORY) -> Token:
    """Sign a cap with the owner's authority. It is on record before it is returned."""
    for _ in range(_TRIES):
        token, effects = _signed(clerk, terms, data_class)
        with suppress(Lost):
            clerk.admin.record_owner("mint", [*effects, *_pins(clerk.state, _pinned(token))], links=[_link(token)])
            return token
    raise StoreUnavailable("the vault is too busy: other processes kept voiding the caps of this actor")


def mint(clerk: DecisionRecorder, caller: Caller, call: api.Mint) -> Operation[api.Issued]:
    """Sign a cap for memory with an admin cap, which must cover its actors and its namespaces."""
    yield SLOW_STEP
    for _ in range(_TRIES):
        office = yield from clerk.appoint(caller, Ask(Op.MINT, data_class=DataClass.ADMIN))
        issued = yield from clerk.recorded(office, caller, _mint(clerk, office, caller, call))
        if issued is not None:
            return issued
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same caps")


def _mint(clerk: DecisionRecorder, office: AdminGrant, caller: Caller, call: api.Mint) -> Operation[api.Issued | None]:
    terms = _plain(call)
    _check_within(office.cap, terms)
    return (yield from _issue_with(clerk, office, caller, terms))


def renew(clerk: DecisionRecorder, caller: Caller, call: api.Renew) -> Operation[api.Issued]:  # noqa: ARG001 - it has no fields
    """Sign a cap of the same scope and lifetime as the one shown.

    Only one that was not narrowed: what was narrowed to end soon must end, and who narrowed it can do so again.
    """
    yield SLOW_STEP
    for _ in range(_TRIES):
        office = yield from clerk.appoint(caller, Ask(Op.RENEW))
        issued = yield from clerk.recorded(office, caller, _renew(clerk, office, caller))
        if issued is not None:
            return issued
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same caps")


def _renew(clerk: DecisionRecorder, office: AdminGrant, caller: Caller) -> Operation[api.Issued | None]:
    chain = cap.parse(caller.token)
    if len(chain.links) > 1:
        raise InvalidRequest(
            "a narrowed cap cannot be renewed", hint="renew the cap that it was narrowed from, and narrow that"
        )
    # Issued when the first one was: voiding an actor's caps must void their renewals, a scope's too.
    return (yield from _issue_with(clerk, office, caller, _same_again(chain.first), issued=chain.first.iat))


def revoke(clerk: DecisionRecorder, link: LinkId, of: LinkId | None = None) -> None:
    """Revoke a cap and all that came from it, with the owner's authority. Interrupted, run it again.

    `of` is the link on record from which it was narrowed, if that is known.
    """
    for one in _line_of_descent(clerk, link, of or link):
        with suppress(Lost):  # it was revoked before
            clerk.admin.record_owner("revoke", [PutNew(REVOKED + one, b"")], links=[one])


def revoke_with(clerk: DecisionRecorder, caller: Caller, call: api.Revoke) -> Operation[api.Revoked]:
    """Revoke a minted cap of an actor that the admin cap covers, and all that came from it."""
    yield SLOW_STEP
    office = yield from clerk.appoint(caller, Ask(Op.REVOKE, data_class=DataClass.ADMIN))
    return (yield from clerk.recorded(office, caller, _revoke_with(clerk, office, caller, call)))


def _revoke_with(
    clerk: DecisionRecorder, office: AdminGrant, caller: Caller, call: api.Revoke
) -> Operation[api.Revoked]:
    link = model.link_id(call.link)
    record = _on_record(clerk.state, link)
    if record is None or not _may_revoke(office.cap, record):
        raise LineNotFound("there is no such cap among those that this cap covers")
    revoked: list[LinkId] = []
    for one in _line_of_descent(clerk, link, link):
        try:
            yield from clerk.admin.commit(
                office, [PutNew(REVOKED + one, b"")], request=caller.request, detail=f"link {one}"
            )
        except Lost:  # what is answered is on record all the same
            yield from clerk.admin.commit(office, request=caller.request, detail=f"link {one}, revoked before")
        revoked.append(one)
    return api.Revoked(tuple(revoked))


def _may_revoke(held: Cap, record: CapRecord) -> bool:
    """Admin caps are the owner's to revoke: one of them must not be able to shut out the others."""
    return record.data_class != DataClass.ADMIN and _sees(held, record)


def list_with(clerk: DecisionRecorder, caller: Caller, call: api.ListCaps) -> Operation[api.Caps]:  # noqa: ARG001 - no fields
    """The minted caps of the actors that the admin cap covers."""
    yield SLOW_STEP
    office = yield from clerk.appoint(caller, Ask(Op.MINT, data_class=DataClass.ADMIN))
    return (yield from clerk.recorded(office, caller, _list_with(clerk, office, caller)))


def _list_with(clerk: DecisionRecorder, office: AdminGrant, caller: Caller) -> Operation[api.Caps]:
    found = tuple(record for record in records(clerk.state, office.cap.actor) if _sees(office.cap, record))
    yield from clerk.admin.commit(office, request=caller.request, count=len(found), detail="caps listed")
    return api.Caps(found)


def records(state: Replica, actor: str | None = None) -> Iterator[CapRecord]:
    """Every cap that was minted, oldest first, but for those of erased actors; or those of one actor or scope."""
    state.catch_up()
    known = cap_records(state) if actor is None else cap_records_of(state, Actor(actor))
    found = [record for _, record in known if actor in (None, record.actor)]
    for record in sorted(found, key=lambda one: (one.issued, one.link)):
        yield judge(state, record)


def index(clerk: DecisionRecorder) -> None:
    """Make the index of records where an earlier version made the vault. Interrupted, it is made the next time."""
    state = clerk.state
    state.catch_up()
    if not isinstance(state.store, FleetStore) or state.cap_index.is_made():
        return
    missing = state.cap_index.missing(record for _, record in cap_records(state))
    with suppress(Lost):  # another one makes it at this moment
        while some := list(islice(missing, _PORTION)):
            clerk.admin.record_owner("index-caps", some)
        clerk.admin.record_owner("index-caps", [PutNew(INDEXED, b"")])


def on_record(state: Replica, links: Iterable[LinkId]) -> Iterator[CapRecord]:
    """What the registry keeps of these caps, each with what the gate would hold against it."""
    state.catch_up()
    yield from (judge(state, record) for link in links if (record := _on_record(state, link)) is not None)


def _line_of_descent(clerk: DecisionRecorder, link: LinkId, of: LinkId) -> Iterator[LinkId]:
    """A cap, and then all that came from it, which is looked up only when that one has been revoked.

    From then on nothing new can come from it: issuing depends on none of a cap's ancestors being revoked.
    """
    yield link
    state, now = clerk.state, clerk.now()
    state.catch_up()
    found = [record for record in descendants(state, link, of) if not is_over(state, record, now)]
    yield from [record.link for record in sorted(found, key=lambda one: len(one.parents))]


def _issue_with(
    clerk: DecisionRecorder, office: AdminGrant, caller: Caller, terms: api.Mint, issued: int | None = None
) -> Operation[api.Issued | None]:
    """Sign and record; None if one of the links, or the actor's standing, has changed meanwhile."""
    held, state = office.cap, clerk.state
    ancestors = _ancestors(state, held)
    token, own = _signed(clerk, terms, DataClass.MEMORY, parents=ancestors, issued=issued)
    pinned = _pinned(token) | ({} if held.actor is None else {held.actor: held.issued})
    effects: list[Effect] = [*own, *(Expect(REVOKED + link, 0) for link in ancestors)]
    link = _link(token)
    try:
        effects += _pins(state, pinned)
        yield from clerk.admin.commit(office, effects, request=caller.request, count=1, detail=f"link {link}")
    except Lost:
        state.catch_up()
        if not state.standing.revoked.isdisjoint(ancestors):
            raise CapRevoked("a cap that this one came from has been revoked") from None
        return None
    return api.Issued(str.__str__(token), link, cap.parse(token).first.exp)


def _ancestors(state: Replica, held: Cap) -> tuple[LinkId, ...]:
    """Every link that a cap issued with this one comes from, however far back: it falls with each of them.

    All of them, and not the nearest alone: else who renews quickly outruns who revokes one after the other.
    """
    record = _on_record(state, held.links[0])
    if record is None and not state.store.is_whole:
        raise CapRevoked("the cap is no longer on record", hint="ask its owner for a new one")
    before = () if record is None else record.parents
    if len(before) >= _GENERATIONS:
        raise InvalidRequest(f"this cap was renewed {_GENERATIONS} times", hint="ask its owner for a new one")
    return (*before, *held.links)


def _on_record(state: Replica, link: LinkId) -> CapRecord | None:
    """What the registry keeps of one cap; None if nothing."""
    stored = state.store.get(CAPS + link)
    return None if stored is None or stored.body is None else state.records.open(CAPS + link, CapRecord)


def _pinned(token: Token) -> dict[Actor, int]:
    """The actor of a new cap, whose standing must not change before the cap is on record, and when it was issued."""
    first = cap.parse(token).first
    return {} if first.actor is None else {Actor(first.actor): first.iat}


def _pins(state: Replica, pinned: Mapping[Actor, int]) -> list[Effect]:
    return [pin_standing(state, actor, issued) for actor, issued in pinned.items()]


def _signed(
    clerk: DecisionRecorder,
    terms: api.Mint,
    data_class: str,
    parents: tuple[LinkId, ...] = (),
    issued: int | None = None,
) -> tuple[Token, list[Effect]]:
    """A new token, and the effects that put it on record."""
    state = clerk.state
    state.catch_up()
    names = [model.namespace(name) for name in terms.namespaces]
    unknown = sorted(set(names) - set(state.records.namespaces))
    if unknown:
        raise UnknownNamespace(
            f"the vault has no namespace {unknown[0]}", hint=f"it has {', '.join(state.records.namespaces)}"
        )
    if type(terms.ttl) is not int or not 1 <= terms.ttl <= TTL_LIMIT:
        raise InvalidRequest(f"ttl is a whole number of seconds from 1 to {TTL_LIMIT}")
    token = cap.mint(
        issuer_seed=issuer_seed(state),
        audience=state.vault_id,
        jti=os.urandom(16),
        holder_seed=os.urandom(32) if terms.delegable else None,
        now=_issue_time(clerk, terms.actor, by_owner=not parents),
        ttl=terms.ttl,
        ops=terms.ops,
        namespaces=names,
        actor=terms.actor,
        actor_scope=terms.actor_scope,
        data_class=data_class,
        session=terms.session,
        max_k=terms.max_k,
        max_depth=terms.max_depth,
        label=terms.label,
        issued=issued,
    )
    record = _record(cap.parse(token).links[0], parents)
    name = CAPS + record.link
    return token, [PutNew(name, state.records.seal(name, record)), *state.cap_index.markers(record)]


def issuer_seed(state: Replica) -> bytes:
    """The key that signs caps; KeyUnavailable if it is not there, or is another vault's."""
    seed = state.source.issuer()
    if cap.issuer_id(cap.public_key(seed)) not in state.records.secrets.issuers:
        hint = ISSUER_HINT if isinstance(state.source, FileKeys) else "use the issuer key made with this vault"
        raise KeyUnavailable("the issuer key is not the one of this vault", hint=hint)
    return seed


def _issue_time(clerk: DecisionRecorder, actor: str | None, *, by_owner: bool) -> int:
    """Now, but never before what an erasure or a revocation of this actor has voided.

    A revocation voids what is issued until its second is over. An owner's cap for many actors is of the next one then:
    else it would be void for that actor for ever. Made with another cap it is not, or would tell of the revocation.
    """
    now, standing = clerk.now() // 1000, clerk.state.standing
    if actor is not None:
        return max(now, standing.not_before.get(clerk.state.slots.actor(model.actor(actor)), 0))
    return max((one for one in standing.not_before.values() if by_owner and now < one <= now + _SOON), default=now)


def _check_within(held: Cap, terms: api.Mint) -> None:
    """Refuse to mint more than the minting cap covers."""
    for name in terms.namespaces:
        if model.namespace(name) not in held.namespaces:
            raise CapNamespaceDenied("the cap does not cover this namespace")
    for op in terms.ops:
        if op not in _MEMORY_OPS:
            raise InvalidRequest(
                "an admin cap mints caps for memory only", hint=f"ops: {', '.join(sorted(_MEMORY_OPS))}"
            )
    if (terms.actor is None) == (terms.actor_scope is None):
        raise InvalidRequest("a cap names either one actor or one actor scope")
    if not _covers(held, terms.actor or terms.actor_scope or ""):
        raise CapLimitExceeded("the cap does not cover this actor")
    if held.session is not None and terms.session != held.session:
        raise CapLimitExceeded("the cap is bound to another session")
    if held.max_k is not None and (terms.max_k is None or terms.max_k > held.max_k):
        raise CapLimitExceeded(f"the cap allows max_k up to {held.max_k}")


def _plain(terms: api.Mint) -> api.Mint:
    """The terms with every text as it is, whatever a subclass makes of it: rules must see what is signed."""
    fields = msgspec.structs.asdict(terms)
    for name in ("actor", "actor_scope", "session", "label"):
        fields[name] = None if fields[name] is None else model.plain(fields[name])
    for name in ("ops", "namespaces"):
        fields[name] = tuple(map(model.plain, fields[name]))
    return api.Mint(**fields)


def _sees(held: Cap, record: CapRecord) -> bool:
    """Whether a cap on record lies within what an admin cap covers, its actors and its namespaces."""
    return _covers(held, record.actor) and set(record.namespaces) <= held.namespaces


def _covers(held: Cap, actor: str) -> bool:
    """Whether an admin cap covers an actor, or a scope of actors."""
    return actor == held.actor if held.actor is not None else actor.startswith(held.actor_scope or "\0")


def _same_again(first: Grantable) -> api.Mint:
    return api.Mint(
        ops=first.ops,
        namespaces=first.namespaces_allowed,
        actor=first.actor,
        actor_scope=first.actor_scope,
        ttl=first.exp - first.nbf,
        session=first.session,
        max_k=first.max_k,
        max_depth=first.max_depth,
        label=first.label,
        delegable=first.cnf is not None,
    )


def _link(token: Token) -> LinkId:
    return cap.parse(token).links[0].id


def _record(first: cap.Link, parents: tuple[LinkId, ...]) -> CapRecord:
    claims = first.claims
    assert isinstance(claims, Grantable)  # noqa: S101 - link 0 always is
    return CapRecord(
        link=first.id,
        actor=claims.actor or claims.actor_scope or "",
        data_class=claims.data_class,
        ops=claims.ops,
        namespaces=claims.namespaces_allowed,
        issued=claims.iat,
        expires=claims.exp,
        label=claims.label or "",
        parents=parents,
        issuer=claims.iss,
    )
