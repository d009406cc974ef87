"""The cap that a door shows: whether it can be shown at all, when to renew it, and what a renewal of it may be.

Pure; the door does the asking.
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
"""A cap is due for renewal in this part of its life: the last fifth."""
_TRIES = 6
"""How often renewing is tried in that time at most."""
_SAME = (
    *("aud", "iat", "actor", "actor_scope", "data_class", "ops", "namespaces_allowed"),
    *("session", "max_k", "max_depth", "label"),
)
"""Claims that a renewal leaves as they are. The issuer may change: a vault may sign with a newer key."""


class CapHolder:
    """A cap, and the moments between which it should be renewed. Nothing in it shows the cap."""

    __slots__ = ("_ends", "_gap", "_next", "token")

    def __init__(self, token: str) -> None:
        # What is read from a file ends with a newline, and no cap does.
        self.token = Token(str.__str__(token).strip(_BLANK)) if isinstance(token, str) else token
        self._next, self._gap, self._ends = _renewal(self.token)

    def __repr__(self) -> str:
        return "<held cap>"

    def shown(self) -> Token:
        """The token for a header; one that no header can carry is refused as a vault refuses it."""
        token = self.token
        if not isinstance(token, str) or len(token) > cap.MAX_BYTES or not _SENDABLE.fullmatch(token):
            cap.parse(token)
            raise CapMalformed("a cap is printable ASCII text")
        if token.endswith(".cap") or "." not in token or "/" in token:
            raise CapMalformed("this is no cap", hint="pass the cap itself, not its file's name")
        return token

    def is_due(self, now: float) -> bool:
        """Whether the cap should be renewed at `now` (seconds). One that has ended cannot be."""
        return self._next <= now < self._ends

    def tried(self, now: float) -> None:
        """Note a try, so that the next one waits; a clock that is wrong must not cause one at every call."""
        self._next = now + self._gap


def is_renewal(token: str, new: Any) -> bool:
    """Whether a server's new cap says what a renewal of this one must say.

    No signature is checked, for want of the vault's keys. But a cap of anyone else, for another actor, place or vault,
    would lead what is put with it to strangers.
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
        and old.nbf <= first.nbf <= old.exp <= first.exp
        and first.exp - first.nbf <= old.exp - old.nbf
    )


def _renewal(token: str) -> tuple[float, float, float]:
    """When to renew first, how long to wait between tries, and when the cap ends; never, for one that cannot be."""
    try:
        chain = cap.parse(token)
    except Denied:
        return 0.0, 0.0, 0.0
    first = chain.first
    if len(chain.links) > 1 or Op.RENEW not in first.ops or first.data_class != DataClass.MEMORY:
        return 0.0, 0.0, 0.0
    last = (first.exp - first.nbf) / _LAST
    return first.exp - last, last / _TRIES, first.exp
