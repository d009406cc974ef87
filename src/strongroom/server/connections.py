"""How many connections a server holds, and which one goes when another needs its place.

There is no fixed share for an address: on one machine everybody is 127.0.0.1, and a proxy is one address for all whom
it speaks for. A connection may have any place that nobody else needs. When all are taken, those go that wait for their
peer: first those over which no valid cap has come, of these first the ones of whoever has most connections, of these
the ones that have waited longest. A few places on top are for health and metrics alone, so that whoever watches over
the server gets an answer where nothing can go. For use on one thread.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

SPARE = 32
"""Places for health and metrics, when all others are taken by connections that are being worked for."""

_AT_ONCE = 64
"""One in so many connections goes when room is needed: looking through all of them costs too much for one place."""

_CREDENTIALS = struct.Struct("3i")


class Connection(Protocol):
    """A connection as the server holds it. It removes itself when it has ended."""

    peer: str
    """Whose it is: an address, an IPv6 network, or a user of this machine."""
    is_proven: bool
    """A valid cap has come over it."""
    is_spare: bool
    """It has a place for health and metrics alone."""
    since: float
    """When it began to wait for its peer, or a request of it was begun."""

    def is_waiting(self) -> bool:
        """Whether it is the peer's turn: to send a head or a body, to read an answer, or to finish a handshake."""

    def drop(self) -> None:
        """End it now."""


class Asking(Connection, Protocol):
    """A connection over which requests come."""

    is_lost: bool
    """The peer has gone: nobody would read an answer."""
    on_loss: Callable[[], object] | None
    """What to do when it goes, while a call of it is under way."""


class Unheld:
    """Stands for the connection of a request that no server of ours received."""

    peer = ""
    is_proven = is_spare = is_lost = False
    since = 0.0
    on_loss: Callable[[], object] | None = None

    def is_waiting(self) -> bool:
        return False

    def drop(self) -> None:
        """Nothing: it is not ours to end."""


class Place(Protocol):
    """The place of a connection that is still to come."""

    def end(self) -> None:
        """Give it back."""


class Connections:
    """All connections of one server."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Connection, None] = {}
        self._spare: OrderedDict[Connection, None] = OrderedDict()
        self._peers: Counter[str] = Counter()
        self.dropped = 0
        """Connections that were ended to make room."""

    def __len__(self) -> int:
        return len(self._held) + len(self._spare)

    def add(self, new: Connection) -> None:
        """Hold a connection, at the cost of others if there is no room. The newest always has a place."""
        if len(self._held) >= self._most:
            self._make_room()
        if len(self._held) < self._most:
            self._held[new] = None
            self._peers[new.peer] += 1
            return
        new.is_spare = True
        while len(self._spare) >= SPARE:
            self._end(next(iter(self._spare)))
        self._spare[new] = None

    def remove(self, one: Connection) -> None:
        """Forget a connection; one that is not held is none of ours."""
        self._spare.pop(one, None)
        if one in self._held:
            del self._held[one]
            self._peers[one.peer] -= 1
            if not self._peers[one.peer]:
                del self._peers[one.peer]

    def _make_room(self) -> None:
        """End what can go. Without a valid cap a connection can go while it is answered, but last."""
        found = [one for one in self._held if not one.is_proven or one.is_waiting()]
        found.sort(key=self._order)
        for one in found[: max(self._most // _AT_ONCE, 1)]:
            self._end(one)

    def _order(self, one: Connection) -> tuple[bool, bool, int, float]:
        return not one.is_waiting(), one.is_proven, -self._peers[one.peer], one.since

    def _end(self, one: Connection) -> None:
        self.remove(one)
        self.dropped += 1
        one.drop()


def user_of(held: socket.socket | None) -> str:
    """The user of this machine behind a unix socket; empty where the system does not say."""
    if held is None or held.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return ""
    try:
        told = held.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return ""
    return f"uid {_CREDENTIALS.unpack(told)[1]}"
