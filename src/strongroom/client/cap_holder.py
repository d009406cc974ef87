"""The cap that a transport shows: checks its form, decides when to renew it, and checks the renewed cap.

This module sends nothing. The transport sends the request for a renewal.
"""

from __future__ import annotations

import re
from typing import Any

from strongroom.caps import chain as cap
from strongroom.caps.chain import Token
from strongroom.errors import CapMalformed, Denied
from strongroom.model import DataClass, Op

_SENDABLE = re.compile(r"[\x21-\x7e]+")
_BLANK = " \t\r\n"
_LAST = 5
"""Renewal begins when 1/`_LAST` of the cap's life is left: the last fifth."""
_TRIES = 6
"""How often a renewal is tried at most, in the last part of the cap's life."""
_SAME = (
    *("aud", "iat", "actor", "actor_scope", "data_class", "ops", "namespaces_allowed"),
    *("session", "max_k", "max_depth", "label"),
)
"""The claims of a cap that a renewal must not change. The issuer may change: the vault may sign with a newer key."""


class CapHolder:
    """A cap, and the period in which it should be renewed. The repr does not show the cap."""

    __slots__ = ("_ends", "_gap", "_next", "token")

    def __init__(self, token: str) -> None:
        # A cap that was read from a file ends with a newline, which is removed.
        self.token = Token(str.__str__(token).strip(_BLANK)) if isinstance(token, str) else token
        self._next, self._gap, self._ends = _renewal(self.token)

    def __repr__(self) -> str:
        return "<held cap>"

    def shown(self) -> Token:
        """The token for the Authorization header. An invalid token raises the error that a vault would raise."""
        token = self.token
        if not isinstance(token, str) or len(token) > cap.MAX_BYTES or not _SENDABLE.fullmatch(token):
            cap.parse(token)
            raise CapMalformed("this is not a cap: a cap is printable ASCII text")
        if token.endswith(".cap") or "." not in token or "/" in token:
            raise CapMalformed("this is not a cap", hint="pass the cap itself, not the name of its file")
        return token

    def is_due(self, now: float) -> bool:
        """Whether to try a renewal at `now` (in seconds): in the last part of the cap's life, before the cap ends."""
        return self._next <= now < self._ends

    def tried(self, now: float) -> None:
        """Record an attempt to renew, so that the next attempt waits. Without this, every call could try to renew."""
        self._next = now + self._gap


def is_renewal(token: str, new: Any) -> bool:
    """Whether the cap `new` has the claims that a renewal of `token` must have.

    The signature is not checked, because a client has no key of the vault. The claims must be checked, because later
    puts would reach strangers if the new cap were for another actor, namespace or vault.
    """
    try:
        old, chain = cap.parse(token).first, cap.parse(new)
    except Denied:
        return False
    first = chain.first
    return (
        len(chain.links) == 1
        and all(getattr(first, name) == getattr(old, name) for name in _SAME)
        and (first.cnf is None) == (old.cnf is None)
        # The new cap begins within the old cap's life, does not end earlier, and has no longer life.
        and old.nbf <= first.nbf <= old.exp <= first.exp
        and first.exp - first.nbf <= old.exp - old.nbf
    )


def _renewal(token: str) -> tuple[float, float, float]:
    """The time of the first attempt to renew, the pause between attempts, and the cap's end, in seconds.

    All three are 0 if the cap cannot be renewed.
    """
    try:
        chain = cap.parse(token)
    except Denied:
        return 0.0, 0.0, 0.0
    first = chain.first
    if len(chain.links) > 1 or Op.RENEW not in first.ops or first.data_class != DataClass.MEMORY:
        return 0.0, 0.0, 0.0
    last = (first.exp - first.nbf) / _LAST
    return first.exp - last, last / _TRIES, first.exp
