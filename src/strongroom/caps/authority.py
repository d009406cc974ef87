"""The authority of a chain of links, computed from all links: sets intersect, limits take the minimum. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from strongroom.caps.claims import MAX_LINKS, Link, Narrowing, UnverifiedCap
from strongroom.errors import CapExpired, CapMalformed, CapNotYetValid
from strongroom.model import Actor, ActorScope, DataClass, LinkId, Namespace, Op

TTL_DEFAULT = 30 * 86_400
"""Seconds that a cap lasts if no lifetime is given. The same in Python, on the command line and over HTTP."""
LEEWAY = 30
"""The most seconds by which a cap's start may be ahead of the verifier's clock. A cap's end has no such leeway."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A verified chain of links and its effective authority. Only `verify` makes one."""

    links: tuple[LinkId, ...]
    actor: Actor | None
    actor_scope: ActorScope | None
    data_class: DataClass
    ops: frozenset[Op]
    namespaces: frozenset[Namespace]
    session: str | None
    max_k: int | None
    depth_left: int
    issued: int
    nbf: int
    exp: int
    holder: str
    label: str

    def check_time(self, now: int) -> None:
        """Raise an error if the cap is not valid at `now` (seconds).

        Called on every use, also for a cap that was verified before and cached.
        """
        if self.exp <= now:
            raise CapExpired("the cap has expired", hint="ask the cap's issuer for a new cap")
        if max(self.nbf, self.issued) > now + LEEWAY:
            raise CapNotYetValid("the cap is not valid yet", hint="check this machine's clock")


def effective(chain: UnverifiedCap, holder: str) -> Cap:
    """The effective authority of a chain.

    Sets intersect, limits take the minimum, and the times take the narrowest span.
    """
    first = chain.first
    cap = Cap(
        links=tuple(link.id for link in chain.links),
        actor=None if first.actor is None else Actor(first.actor),
        actor_scope=None if first.actor_scope is None else ActorScope(first.actor_scope),
        data_class=DataClass(first.data_class),
        ops=frozenset(map(Op, first.ops)),
        namespaces=frozenset(map(Namespace, first.namespaces_allowed)),
        session=first.session,
        max_k=first.max_k,
        depth_left=depth_left_in(chain.links),
        issued=first.iat,
        nbf=first.nbf,
        exp=first.exp,
        holder=holder,
        label=first.label or "",
    )
    for link in chain.links[1:]:
        assert isinstance(link.claims, Narrowing)  # noqa: S101 - tells the type checker what the decoder made
        cap = _narrow(cap, link.claims)
    if cap.depth_left < 0:
        raise CapMalformed("the cap has more links than it allows")
    return cap


def _narrow(cap: Cap, claims: Narrowing) -> Cap:
    return replace(
        cap,
        actor=_narrow_actor(cap, claims),
        actor_scope=_narrow_scope(cap, claims),
        ops=cap.ops if claims.ops is None else cap.ops & frozenset(map(Op, claims.ops)),
        namespaces=(
            cap.namespaces
            if claims.namespaces_allowed is None
            else cap.namespaces & frozenset(map(Namespace, claims.namespaces_allowed))
        ),
        session=_narrow_session(cap, claims),
        max_k=_least(cap.max_k, claims.max_k),
        nbf=max(cap.nbf, claims.nbf or 0),
        exp=cap.exp if claims.exp is None else min(cap.exp, claims.exp),
        label=claims.label or cap.label,
    )


def _narrow_actor(cap: Cap, claims: Narrowing) -> Actor | None:
    if claims.actor is None:
        return cap.actor
    inside = claims.actor == cap.actor if cap.actor is not None else claims.actor.startswith(cap.actor_scope or "\0")
    if not inside:
        raise CapMalformed("a link names an actor that the cap does not cover")
    return Actor(claims.actor)


def _narrow_scope(cap: Cap, claims: Narrowing) -> ActorScope | None:
    if claims.actor_scope is None:
        return cap.actor_scope
    if cap.actor is not None or not claims.actor_scope.startswith(cap.actor_scope or "\0"):
        raise CapMalformed("a link names an actor scope that the cap does not cover")
    return ActorScope(claims.actor_scope)


def _narrow_session(cap: Cap, claims: Narrowing) -> str | None:
    if claims.session is None or cap.session in (None, claims.session):
        return claims.session or cap.session
    raise CapMalformed("a link names a session that the cap does not cover")


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def depth_left_in(links: Collection[Link]) -> int:
    """How many links may still be added.

    Negative if the chain is already too long for the limit in one of its links.
    """
    left = MAX_LINKS - len(links)
    for place, link in enumerate(links, 1):
        if link.claims.max_depth is not None:
            left = min(left, link.claims.max_depth - (len(links) - place))
    return left
