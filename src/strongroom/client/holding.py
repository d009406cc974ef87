"""The cap that a door shows: whether it can be shown at all, and when to renew it. Pure; the door does the asking."""

from __future__ import annotations

import re

from strongroom import cap
from strongroom.cap import Token
from strongroom.errors import CapMalformed, Denied
from strongroom.model import DataClass, Op

_SENDABLE = re.compile(r"[\x21-\x7e]+")
_LAST = 5
"""A cap is due for renewal in this part of its life: the last fifth."""
_TRIES = 6
"""How often renewing is tried in that time at most."""


class HeldCap:
    """A cap, and the moments between which it should be renewed. Nothing in it shows the cap."""

    __slots__ = ("_ends", "_gap", "_next", "token")

    def __init__(self, token: str) -> None:
        self.token = Token(str.__str__(token)) if isinstance(token, str) else token
        self._next, self._gap, self._ends = _renewal(self.token)

    def __repr__(self) -> str:
        return "<held cap>"

    def shown(self) -> Token:
        """The token for a header; one that no header can carry is refused as a vault refuses it."""
        token = self.token
        if not isinstance(token, str) or len(token) > cap.MAX_BYTES or not _SENDABLE.fullmatch(token):
            cap.parse(token)
            raise CapMalformed("a cap is printable ASCII text")
        return token

    def is_due(self, now: float) -> bool:
        """Whether the cap should be renewed at `now` (seconds). One that has ended cannot be."""
        return self._next <= now < self._ends

    def tried(self, now: float) -> None:
        """Note a try, so that the next one waits; a clock that is wrong must not cause one at every call."""
        self._next = now + self._gap


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
