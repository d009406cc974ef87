"""TLS handshakes that count as connections from the moment they are accepted.

The event loop reports a connection only after its TLS handshake. Uncounted connections could use up this process's open
files and stop all service. So this module accepts connections itself, and each gets a place in the connection table
before its handshake.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from strongroom.server.http.connection import GuardedProtocol
from strongroom.server.http.connection_limits import Connections
from strongroom.server.http.request_parser import neighbourhood

_ACCEPTED_AT_ONCE = 128
_PAUSE_SECONDS = 1.0
"""Seconds to wait before accepting again, after this process has run out of open files."""

Made = Callable[[], GuardedProtocol]


class SecureListener:
    """Accepts connections on a socket and runs their TLS handshakes.

    After its handshake, a connection is handed to the protocol that `made` makes.
    """

    def __init__(
        self, bound: socket.socket, context: ssl.SSLContext, seconds: float, places: Connections, made: Made
    ) -> None:
        self._bound = bound
        self._context = context
        self._seconds = seconds
        self._places = places
        self._made = made
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        bound.setblocking(False)
        self._listen()

    def close(self) -> None:
        self._is_closed = True
        self._loop.remove_reader(self._bound.fileno())

    async def wait_closed(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._bound.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._bound.fileno())
                self._loop.call_later(_PAUSE_SECONDS, self._listen)
                return
            accepted.setblocking(False)
            place = Handshake(self._places, accepted, address)
            self._places.add(place)
            task = self._loop.create_task(self._agree(accepted, place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _agree(self, accepted: socket.socket, place: Handshake) -> None:
        def made() -> GuardedProtocol:
            protocol = self._made()
            protocol.handshake = place
            return protocol

        try:
            with suppress(OSError, TimeoutError):  # a peer that leaves, does not speak TLS, or takes too long
                await self._loop.connect_accepted_socket(
                    made, accepted, ssl=self._context, ssl_handshake_timeout=self._seconds
                )
        except asyncio.CancelledError:
            accepted.close()
            raise
        finally:
            place.end()


class Handshake:
    """The place of a connection in the connection table during its TLS handshake."""

    is_proven = is_spare = False

    def __init__(self, places: Connections, accepted: socket.socket, address: object) -> None:
        self._places = places
        self._socket = accepted
        self._has_ended = False
        self.peer = neighbourhood(str(address[0])) if isinstance(address, tuple) else ""
        self.since = asyncio.get_running_loop().time()

    def is_waiting(self) -> bool:
        return True

    def drop(self) -> None:
        if not self._has_ended:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # makes the handshake fail, which closes it

    def end(self) -> None:
        """Give the place back."""
        self._has_ended = True
        self._places.remove(self)
