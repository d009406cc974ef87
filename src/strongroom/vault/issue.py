"""Mint, renew, revoke and list caps.

A cap renewed from another cap, or minted with an admin cap, never covers more than that cap. Revoking a cap also
revokes every cap that was renewed or minted from it, directly or indirectly.
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
"""The most seconds by which a cap is dated ahead, so that a revocation a moment ago does not void it."""
_PORTION = 100
"""The most objects in one commit.

In a bucket each object is a request, and a commit that takes too long is given up.
"""
_GENERATIONS = 1000
"""The most ancestors that a cap may have. A renewal checks all of them, so more ancestors make its commit larger."""

_MEMORY_OPS = frozenset(Op) - {Op.MINT, Op.REVOKE, Op.AUDIT}


def issue(clerk: DecisionRecorder, terms: api.Mint, data_class: str = DataClass.MEMORY) -> Token:
    """Mint a cap as the owner. It is on record before it is returned.

    If a revocation interferes, minting is tried again.
    """
    for _ in range(_TRIES):
        token, effects = _signed(clerk, terms, data_class)
        with suppress(Lost):
            clerk.admin.record_owner("mint", [*effects, *_pins(clerk.state, _pinned(token))], links=[_link(token)])
            return token
    raise StoreUnavailable(
        "the vault is too busy: other processes kept revoking caps of this actor", hint="try again in a moment"
    )


def mint(clerk: DecisionRecorder, caller: Caller, call: api.Mint) -> Operation[api.Issued]:
    """Mint a memory cap with an admin cap. The admin cap must cover the new cap's actors and namespaces."""
    yield SLOW_STEP
    for _ in range(_TRIES):
        office = yield from clerk.appoint(caller, Ask(Op.MINT, data_class=DataClass.ADMIN))
        issued = yield from clerk.recorded(office, caller, _mint(clerk, office, caller, call))
        if issued is not None:
            return issued
    raise StoreUnavailable(
        "the vault is too busy: other processes kept changing the same caps", hint="try again in a moment"
    )


def _mint(clerk: DecisionRecorder, office: AdminGrant, caller: Caller, call: api.Mint) -> Operation[api.Issued | None]:
    terms = _plain(call)
    _check_within(office.cap, terms)
    return (yield from _issue_with(clerk, office, caller, terms))


def renew(clerk: DecisionRecorder, caller: Caller, call: api.Renew) -> Operation[api.Issued]:  # noqa: ARG001 - it has no fields
    """Mint a cap with the same scope and lifetime as the given cap.

    A narrowed cap cannot be renewed, because a cap that was narrowed to end soon must end.
    """
    yield SLOW_STEP
    for _ in range(_TRIES):
        office = yield from clerk.appoint(caller, Ask(Op.RENEW))
        issued = yield from clerk.recorded(office, caller, _renew(clerk, office, caller))
        if issued is not None:
            return issued
    raise StoreUnavailable(
        "the vault is too busy: other processes kept changing the same caps", hint="try again in a moment"
    )


def _renew(clerk: DecisionRecorder, office: AdminGrant, caller: Caller) -> Operation[api.Issued | None]:
    chain = cap.parse(caller.token)
    if len(chain.links) > 1:
        raise InvalidRequest(
            "a narrowed cap cannot be renewed",
            hint="renew the cap from which it was narrowed, then narrow the renewed cap",
        )
    # A renewal keeps the first cap's time of issue, so that revoking an actor's caps revokes their renewals, too.
    return (yield from _issue_with(clerk, office, caller, _same_again(chain.first), issued=chain.first.iat))


def revoke(clerk: DecisionRecorder, link: LinkId, of: LinkId | None = None) -> None:
    """Revoke a cap as the owner, with every cap that came from it. If the call is interrupted, repeat it.

    If `link` belongs to a narrowed cap, `of` is the link of the minted cap that it was narrowed from.
    """
    for one in _line_of_descent(clerk, link, of or link):
        with suppress(Lost):  # it was revoked before
            clerk.admin.record_owner("revoke", [PutNew(REVOKED + one, b"")], links=[one])


def revoke_with(clerk: DecisionRecorder, caller: Caller, call: api.Revoke) -> Operation[api.Revoked]:
    """Revoke a minted cap with an admin cap that covers its actor, and every cap that came from it."""
    yield SLOW_STEP
    office = yield from clerk.appoint(caller, Ask(Op.REVOKE, data_class=DataClass.ADMIN))
    return (yield from clerk.recorded(office, caller, _revoke_with(clerk, office, caller, call)))


def _revoke_with(
    clerk: DecisionRecorder, office: AdminGrant, caller: Caller, call: api.Revoke
) -> Operation[api.Revoked]:
    link = model.link_id(call.link)
    record = _on_record(clerk.state, link)
    if record is None or not _may_revoke(office.cap, record):
        raise LineNotFound("the admin cap covers no cap with this link")
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
    """Whether an admin cap may revoke this cap.

    An admin cap can never revoke another admin cap: only the owner can.
    """
    return record.data_class != DataClass.ADMIN and _sees(held, record)


def list_with(clerk: DecisionRecorder, caller: Caller, call: api.ListCaps) -> Operation[api.Caps]:  # noqa: ARG001 - no fields
    """List the minted caps of the actors that an admin cap covers."""
    yield SLOW_STEP
    office = yield from clerk.appoint(caller, Ask(Op.MINT, data_class=DataClass.ADMIN))
    return (yield from clerk.recorded(office, caller, _list_with(clerk, office, caller)))


def _list_with(clerk: DecisionRecorder, office: AdminGrant, caller: Caller) -> Operation[api.Caps]:
    found = tuple(record for record in records(clerk.state, office.cap.actor) if _sees(office.cap, record))
    yield from clerk.admin.commit(office, request=caller.request, count=len(found), detail="caps listed")
    return api.Caps(found)


def records(state: Replica, actor: str | None = None) -> Iterator[CapRecord]:
    """Every minted cap, oldest first, without those of erased actors.

    With `actor`, only the caps of that actor or scope of actors.
    """
    state.catch_up()
    known = cap_records(state) if actor is None else cap_records_of(state, Actor(actor))
    found = [record for _, record in known if actor in (None, record.actor)]
    for record in sorted(found, key=lambda one: (one.issued, one.link)):
        yield judge(state, record)


def index(clerk: DecisionRecorder) -> None:
    """Make the index of caps for a vault that an earlier version of Strongroom made.

    If this is interrupted, the next call continues.
    """
    state = clerk.state
    state.catch_up()
    if not isinstance(state.store, FleetStore) or state.cap_index.is_made():
        return
    missing = state.cap_index.missing(record for _, record in cap_records(state))
    with suppress(Lost):  # another process is making it
        while some := list(islice(missing, _PORTION)):
            clerk.admin.record_owner("index-caps", some)
        clerk.admin.record_owner("index-caps", [PutNew(INDEXED, b"")])


def on_record(state: Replica, links: Iterable[LinkId]) -> Iterator[CapRecord]:
    """The records of the caps with these links, each with the reason why the gate would refuse the cap, if any."""
    state.catch_up()
    yield from (judge(state, record) for link in links if (record := _on_record(state, link)) is not None)


def _line_of_descent(clerk: DecisionRecorder, link: LinkId, of: LinkId) -> Iterator[LinkId]:
    """Yield a cap's link, and then the links of all caps that came from it.

    The other links are looked up only after the caller has revoked the first link. From then on no new cap can come
    from this cap, since issuing a cap requires that none of its ancestors is revoked.
    """
    yield link
    state, now = clerk.state, clerk.now()
    state.catch_up()
    found = [record for record in descendants(state, link, of) if not is_over(state, record, now)]
    yield from [record.link for record in sorted(found, key=lambda one: len(one.parents))]


def _issue_with(
    clerk: DecisionRecorder, office: AdminGrant, caller: Caller, terms: api.Mint, issued: int | None = None
) -> Operation[api.Issued | None]:
    """Sign and record a cap.

    Returns None if a revocation of the actor's caps interfered. Raises `CapRevoked` if an ancestor was revoked.
    """
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
    """All ancestors of a cap that is issued with `held`.

    The new cap is revoked with any of its ancestors. Recording only the nearest would not do: a holder who renews
    quickly could outrun an owner who revokes one cap after the other.
    """
    record = _on_record(state, held.links[0])
    if record is None and not state.store.is_whole:
        raise CapRevoked("the cap is no longer on record", hint="ask the vault's owner for a new cap")
    before = () if record is None else record.parents
    if len(before) >= _GENERATIONS:
        raise InvalidRequest(
            f"this cap was renewed {_GENERATIONS} times, which is the limit", hint="ask the vault's owner for a new cap"
        )
    return (*before, *held.links)


def _on_record(state: Replica, link: LinkId) -> CapRecord | None:
    """The record of a cap; None if the cap is not on record."""
    stored = state.store.get(CAPS + link)
    return None if stored is None or stored.body is None else state.records.open(CAPS + link, CapRecord)


def _pinned(token: Token) -> dict[Actor, int]:
    """The actor of a new cap, with the cap's time of issue.

    Until the cap is on record, the caps of this actor must not be revoked.
    """
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
    """Sign a token. Returns the token with the effects that put it on record."""
    state = clerk.state
    state.catch_up()
    names = [model.namespace(name) for name in terms.namespaces]
    unknown = sorted(set(names) - set(state.records.namespaces))
    if unknown:
        raise UnknownNamespace(
            f"the vault has no namespace {unknown[0]}",
            hint=f"the vault's namespaces are {', '.join(state.records.namespaces)}",
        )
    if type(terms.ttl) is not int or not 1 <= terms.ttl <= TTL_LIMIT:
        raise InvalidRequest(f"ttl must be a whole number of seconds from 1 to {TTL_LIMIT}")
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
    """Return the key that signs caps. Raises `KeyUnavailable` if it is missing or belongs to another vault."""
    seed = state.source.issuer()
    if cap.issuer_id(cap.public_key(seed)) not in state.records.secrets.issuers:
        hint = ISSUER_HINT if isinstance(state.source, FileKeys) else "use the issuer key that was made with this vault"
        raise KeyUnavailable("the issuer key belongs to another vault", hint=hint)
    return seed


def _issue_time(clerk: DecisionRecorder, actor: str | None, *, by_owner: bool) -> int:
    """The time of issue for a new cap: now, or the next second if a revocation would void the cap.

    A revocation of an actor's caps voids all caps issued until the end of its second. The owner may
    also mint a cap for a scope of actors, of whom one was revoked in this second. That cap is dated after the second
    too, or it would never work for that actor. A cap minted with another cap is not dated ahead, because the date would
    reveal the revocation.
    """
    now, standing = clerk.now() // 1000, clerk.state.standing
    if actor is not None:
        return max(now, standing.not_before.get(clerk.state.slots.actor(model.actor(actor)), 0))
    return max((one for one in standing.not_before.values() if by_owner and now < one <= now + _SOON), default=now)


def _check_within(held: Cap, terms: api.Mint) -> None:
    """Raise an error if a cap to be minted would cover more than the cap that mints it."""
    for name in terms.namespaces:
        if model.namespace(name) not in held.namespaces:
            raise CapNamespaceDenied("the cap does not cover this namespace")
    for op in terms.ops:
        if op not in _MEMORY_OPS:
            raise InvalidRequest(
                f"an admin cap cannot grant {op}", hint=f"an admin cap can grant {', '.join(sorted(_MEMORY_OPS))}"
            )
    if (terms.actor is None) == (terms.actor_scope is None):
        raise InvalidRequest("a cap needs either an actor or an actor scope, not both")
    if not _covers(held, terms.actor or terms.actor_scope or ""):
        raise CapLimitExceeded("the admin cap does not cover this actor")
    if held.session is not None and terms.session != held.session:
        raise CapLimitExceeded("the admin cap is for another session")
    if held.max_k is not None and (terms.max_k is None or terms.max_k > held.max_k):
        raise CapLimitExceeded(f"the admin cap allows max_k only up to {held.max_k}")


def _plain(terms: api.Mint) -> api.Mint:
    """A copy of the terms with plain strings.

    A subclass of `str` could show the rules one text and the signature another.
    """
    fields = msgspec.structs.asdict(terms)
    for name in ("actor", "actor_scope", "session", "label"):
        fields[name] = None if fields[name] is None else model.plain(fields[name])
    for name in ("ops", "namespaces"):
        fields[name] = tuple(map(model.plain, fields[name]))
    return api.Mint(**fields)


def _sees(held: Cap, record: CapRecord) -> bool:
    """Whether an admin cap covers the actor and all namespaces of a recorded cap."""
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
