"""The gate: the one place that decides whether a cap admits a request. It uses fixed rules and no language model.

The rules are checked in a fixed order: validity of the cap (form, signature, holder, audience, time, revocation),
operation, data class, namespaces, limits. A request that passes all rules gets a Grant, and only the gate makes Grants.
Any other request raises the error of the first rule that it breaks. Once the signature of the first link was found
valid, the error carries the fields of the cap that the log needs.

The gate does no input or output, and gets the time as an argument.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping

import msgspec

from strongroom import model
from strongroom.caps import chain
from strongroom.caps.chain import Cap
from strongroom.errors import (
    CapDataClassMismatch,
    CapLimitExceeded,
    CapMalformed,
    CapNamespaceDenied,
    CapOpMismatch,
    CapRevoked,
    InvalidRequest,
    StrongroomError,
    TooMany,
)
from strongroom.model import Actor, DataClass, LinkId, Millis, Namespace, Op

NEVER = 2**53
"""A value of `not_before` that is later than the time of issue of any cap, so that every cap is void."""
_CACHED = 4096


class Ask(msgspec.Struct, frozen=True):
    """The facts of a request on which the gate decides. No actor is among them: the cap alone names the actor.

    `unnamed` is True if some part of the request names no namespace, and so means all namespaces of the cap.
    """

    op: Op
    namespaces: frozenset[str] = frozenset()
    unnamed: bool = True
    sessions: frozenset[str] = frozenset()
    k: int | None = None
    data_class: DataClass = DataClass.MEMORY

    @classmethod
    def of(cls, op: Op, namespaces: Collection[str] | None, *, session: str | None = None, k: int | None = None) -> Ask:
        """The Ask of a request that names these namespaces. `namespaces` is None if the request names none."""
        named = [namespaces] if isinstance(namespaces, str) else namespaces or ()
        sessions = frozenset() if session is None else frozenset([model.plain(session)])
        return cls(op, frozenset(map(model.plain, named)), namespaces is None, sessions, k)


class Grant(msgspec.Struct, frozen=True):
    """An admitted request: the operation, the actor, and the namespaces that it may use. No later step widens it."""

    op: Op
    actor: Actor
    namespaces: frozenset[Namespace]
    allowed: frozenset[Namespace]
    session: str | None
    k: int
    links: tuple[LinkId, ...]
    holder: str
    issued: int
    most: int
    max_k: int | None = None
    """The maximum number of lines in one call, if the cap sets such a limit."""


class AdminGrant(msgspec.Struct, frozen=True):
    """An admitted request to the vault itself: to mint or revoke caps, or to read the log. It opens no memory."""

    op: Op
    data_class: DataClass
    cap: Cap


class Revocations:
    """The revocations: the revoked links, and for each actor the time such that caps issued before it are void."""

    def __init__(self, locate: Callable[[Actor], str]) -> None:
        self.revoked: set[LinkId] = set()
        self.not_before: dict[str, int] = {}
        self._locate = locate

    def check(self, held: Cap) -> None:
        if not self.revoked.isdisjoint(held.links):
            raise CapRevoked(
                "the cap, or one it was narrowed from, has been revoked", hint="ask the vault's owner for a new cap"
            )
        not_before = self.not_before.get(self._locate(held.actor), 0) if self.not_before and held.actor else 0
        if held.issued < not_before:
            raise CapRevoked(_voided(held, not_before), hint="ask the vault's owner for a new cap")


class _Verified(msgspec.Struct):
    """A verified cap, and a number (`lineage`) that it shares with all caps narrowed or renewed from the same cap.

    The number is computed only when a server asks for it: computing it takes a fifth of the time of verifying.
    """

    cap: Cap
    lineage: int | None = None


class Gate:
    """Decides on tokens for one vault. Thread-safe."""

    def __init__(self, audience: str, issuers: Mapping[str, bytes], standing: Revocations) -> None:
        self._audience = audience
        self._issuers = issuers
        self._standing = standing
        self._verified: dict[bytes, _Verified] = {}
        self._guard = threading.Lock()

    def admit(self, token: str, ask: Ask, now: int) -> Grant:
        """Decide on one request at `now` (in seconds). Raises Denied, or Invalid if no cap could allow the request."""
        held = self.check(token, now)
        try:
            if held.actor is None:
                raise CapMalformed(
                    "the cap covers a scope of actors and names none",
                    hint="narrow the cap to one actor before use; an admin cap gives no access to memory",
                )
            _check_op(held, ask)
            _check_class(held, ask)
            namespaces = _namespaces(held, ask)
            session, k = _session(held, ask), _k(held, ask)
        except StrongroomError as error:
            raise _attributed(error, held) from None
        return Grant(
            ask.op,
            held.actor,
            namespaces,
            held.namespaces,
            session,
            k,
            held.links,
            held.holder,
            held.issued,
            _most(held),
            held.max_k,
        )

    def appoint(self, token: str, ask: Ask, now: int) -> AdminGrant:
        """Decide on a request to the vault itself. The cap may be for many actors, because no memory is opened."""
        held = self.check(token, now)
        try:
            _check_op(held, ask)
            _check_class(held, ask)
        except StrongroomError as error:
            raise _attributed(error, held) from None
        return AdminGrant(ask.op, ask.data_class, held)

    def check(self, token: str, now: int) -> Cap:
        """Check that a cap is valid now, and return it. This decides about no operation yet."""
        held = self._verify(token, now).cap
        try:
            if not max(held.nbf, held.issued) <= now < held.exp:
                held.check_time(now)  # allows for clocks that differ, or raises the right error
            self._standing.check(held)
        except StrongroomError as error:
            raise _attributed(error, held) from None
        return held

    def known(self, token: str) -> Cap | None:
        """A cap whose signature was verified before, or None. The cap may be expired or revoked since."""
        found = self._verified.get(_key(token)) if isinstance(token, str) else None
        return None if found is None else found.cap

    def lineage(self, token: str, now: int) -> int | None:
        """A number that a cap shares with all caps narrowed or renewed from it. None if this vault never signed it.

        The cap may be revoked or expired.
        """
        try:
            held = self._verify(token, now)
        except StrongroomError:
            return None
        if held.lineage is None:
            held.lineage = _lineage(token)
        return held.lineage

    def _verify(self, token: str, now: int) -> _Verified:
        if not isinstance(token, str) or len(token := str.__str__(token)) > chain.MAX_BYTES:
            chain.parse(token)  # refuses it
        key = _key(token)
        held = self._verified.get(key)
        if held is None:
            held = _Verified(chain.verify(token, self._issuers, self._audience, now))
            # Only verified caps are cached. Time and revocation are checked on each use.
            with self._guard:
                while len(self._verified) >= _CACHED:
                    self._verified.pop(next(iter(self._verified)))
                self._verified[key] = held
        return held


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _lineage(token: str) -> int:
    """A hash of the claims that a renewal does not change: all of the first link, except its id, key, start and end."""
    first = chain.parse(token).first
    whose = first.actor, first.actor_scope, first.iat, first.label, first.session
    return hash((*whose, first.data_class, first.ops, first.namespaces_allowed, first.max_k, first.max_depth))


def _attributed(error: StrongroomError, held: Cap) -> StrongroomError:
    error.links, error.actor, error.holder = held.links, held.actor, held.holder
    return error


def _voided(held: Cap, not_before: int) -> str:
    """The message for a cap that is void because all earlier caps of its actor were revoked.

    The message names the time only if the cap was made for this actor alone. The holder of a cap for a scope can narrow
    it to any actor in the scope, and must not learn when caps of these actors were revoked.
    """
    if held.actor_scope is not None or not_before == NEVER:
        return "earlier caps for this actor were revoked"
    moment = model.moment(Millis(not_before * 1000))
    return f"caps for this actor issued before {moment:%Y-%m-%d %H:%M:%S} UTC were revoked"


def _check_op(held: Cap, ask: Ask) -> None:
    if ask.op not in held.ops:
        raise CapOpMismatch(f"the cap does not allow {ask.op}")


def _check_class(held: Cap, ask: Ask) -> None:
    if ask.data_class != held.data_class:
        raise CapDataClassMismatch(f"the cap is for {held.data_class}, not for {ask.data_class}")


def _namespaces(held: Cap, ask: Ask) -> frozenset[Namespace]:
    """The named namespaces, or all namespaces of the cap if none is named.

    A refusal does not depend on which namespaces exist.
    """
    # The result is made of the cap's own names, which were checked with the cap, and not of the request's texts.
    granted = frozenset([name for name in held.namespaces if name in ask.namespaces])
    if not held.namespaces or len(granted) < len(ask.namespaces):
        for name in ask.namespaces:
            model.namespace(name)  # a text that cannot be a namespace raises InvalidRequest
        raise CapNamespaceDenied("the cap does not cover this namespace")
    return held.namespaces if ask.unnamed else granted


def _session(held: Cap, ask: Ask) -> str | None:
    if held.session is not None and not {model.plain(session) for session in ask.sessions} <= {held.session}:
        raise CapLimitExceeded("the cap is bound to another session")
    return held.session


def _most(held: Cap) -> int:
    return held.max_k if held.max_k is not None else model.K_LIMIT


def _k(held: Cap, ask: Ask) -> int:
    most = _most(held)
    if ask.k is None:
        return min(model.K_DEFAULT, most)
    if type(ask.k) is not int or ask.k < 1:
        raise InvalidRequest("`k` must be a whole number of at least 1")
    if ask.k > model.K_LIMIT:
        raise TooMany(f"`k` may be at most {model.K_LIMIT}")
    if ask.k > most:
        raise CapLimitExceeded(f"the cap allows `k` up to {most}")
    return ask.k
