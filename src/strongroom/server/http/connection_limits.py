"""The connection table of a server, and which connection is ended when another needs its place.

Addresses have no fixed share of the places: on one machine every client is 127.0.0.1, and a proxy is one address for
all of its clients. So any connection may take any free place. When all places are taken, connections that wait for
their peer are ended. Those that have not shown a valid cap go first. Among these, connections of the peer with
the most connections go first, and among these, the ones that have waited longest. A few extra places are for health and
metrics alone, so that monitoring works when no connection can be ended. For use on one thread.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

SPARE = 32
"""The number of extra places for health and metrics requests.

They are used when all other places are taken by connections that are being answered.
"""

_AT_ONCE = 64
"""When there is no free place, one connection in this many is ended.

Searching the table is expensive, so several places are freed at once.
"""

_CREDENTIALS = struct.Struct("3i")


class Connection(Protocol):
    """A connection in the table. When it ends, it removes itself from the table."""

    peer: str
    """The other end of the connection: an address, an IPv6 network, or a user of this machine."""
    is_proven: bool
    """True once a request on this connection has shown a valid cap."""
    is_spare: bool
    """True if this connection has a place that is reserved for health and metrics requests."""
    since: float
    """The time at which the connection began to wait for its peer, or to answer a request."""

    def is_waiting(self) -> bool:
        """Whether the connection waits for its peer: to send a request, to read an answer, or to finish a handshake."""

    def drop(self) -> None:
        """End the connection now."""


class Asking(Connection, Protocol):
    """A connection whose requests are answered."""

    is_lost: bool
    """Whether the peer has gone, so that nobody would read an answer."""
    on_loss: Callable[[], object] | None
    """A function to call if the connection is lost while one of its requests is being answered."""


class Unheld:
    """Stands in for a connection when a request was received by a server that is not ours."""

    peer = ""
    is_proven = is_spare = is_lost = False
    since = 0.0
    on_loss: Callable[[], object] | None = None

    def is_waiting(self) -> bool:
        return False

    def drop(self) -> None:
        """Does nothing: our server does not own that connection and may not end it."""


class ConnectionSlot(Protocol):
    """The place in the table of a connection whose TLS handshake is not finished."""

    def end(self) -> None:
        """Give the place back."""


class Connections:
    """The table of all connections of one server."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Connection, None] = {}
        self._spare: OrderedDict[Connection, None] = OrderedDict()
        self._peers: Counter[str] = Counter()
        self.dropped = 0
        """The number of connections that were ended to make room."""

    def __len__(self) -> int:
        return len(self._held) + len(self._spare)

    def add(self, new: Connection) -> None:
        """Add a connection. If there is no room, others are ended. The newest connection always gets a place."""
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
        """Remove a connection, if it is in the table."""
        self._spare.pop(one, None)
        if one in self._held:
            del self._held[one]
            self._peers[one.peer] -= 1
            if not self._peers[one.peer]:
                del self._peers[one.peer]

    def _make_room(self) -> None:
        """End connections to free places: first idle ones, then those without a valid cap, even if in use."""
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
    """The user of this machine at the other end of a unix socket; empty if the system does not tell."""
    if held is None or held.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return ""
    try:
        told = held.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return ""
    return f"uid {_CREDENTIALS.unpack(told)[1]}"
