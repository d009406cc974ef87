"""A way to a server that can lose its answers: a request is delivered and obeyed, and the client never hears of it."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_CHUNK = 1 << 16


class Proxy(socketserver.ThreadingTCPServer):
    """Passes bytes both ways between loopback and one server."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        assert parts.port is not None
        self.target = (parts.hostname, parts.port)
        self.writes = 0
        """How many PUTs were delivered."""
        self.lost = 0
        """How many answers were lost."""
        self._lose = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def lose(self, answers: int) -> None:
        """Lose the answers to the next PUTs."""
        with self._lock:
            self._lose = answers

    def is_lost(self) -> bool:
        """Whether the answer to this PUT, the next one, is lost."""
        with self._lock:
            self.writes += 1
            lost = self._lose > 0
            self._lose -= lost
            self.lost += lost
            return lost

    @contextmanager
    def held(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def cut(self) -> None:
        """Close every connection."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Connection(socketserver.BaseRequestHandler):
    server: Proxy
    request: socket.socket

    def handle(self) -> None:
        with (
            suppress(OSError),
            self.server.held(self.request),
            socket.create_connection(self.server.target) as upstream,
        ):
            for one in (self.request, upstream):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pass(upstream)

    def _pass(self, upstream: socket.socket) -> None:
        is_lost = False
        while True:
            for source in select.select([self.request, upstream], [], [])[0]:
                data = source.recv(_CHUNK)
                if source is self.request and data.startswith(b"PUT "):
                    is_lost = self.server.is_lost()
                if not data or (source is upstream and is_lost):
                    return
                (upstream if source is self.request else self.request).sendall(data)


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """A proxy to a server, until the block ends."""
    with Proxy(endpoint) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            proxy.cut()
            thread.join()
