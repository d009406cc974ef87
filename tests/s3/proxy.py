"""A way to a server on which answers get lost, or come from the way itself.

An answer that is lost was given: the request was delivered and obeyed, and the client never hears of it. An answer of
the way itself is an error such as large stores give under load; that request is not delivered.
"""

from __future__ import annotations

import re
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_CHUNK = 1 << 16
_BEGINS = re.compile(rb"(?:GET|HEAD|PUT|POST|DELETE) /")


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
        self.refused = 0
        """How many requests were answered by the way itself."""
        self.cut_short = 0
        """How many answers came with less than they should."""
        self.holds: Callable[[bytes], bool] = lambda _: False
        """Whether a request gets no further, and no answer, until its client gives up."""
        self.holding = threading.Event()
        """Set by the first request that is held."""
        self._lose = 0
        self._cut: list[tuple[bytes, str]] = []
        self._refuse = 0
        self._answer = b""
        self._only = b""
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

    def refuse(self, requests: int, status: int, code: str, *, only: str = "") -> None:
        """Answer the next requests, or only those of one method, with this error, and deliver none of them."""
        body = f"<Error><Code>{code}</Code></Error>"
        head = f"HTTP/1.1 {status} {code}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with self._lock:
            self._refuse, self._answer, self._only = requests, (head + body).encode(), only.encode()

    def tear(self, answers: int, how: str, *, only: str = "GET") -> None:
        """Cut the next answers to one method: `empty` has no body and says so, `short` breaks off in the midst."""
        with self._lock:
            self._cut = [(only.encode(), how)] * answers

    def torn(self, request: bytes) -> str:
        """How the answer to this request is cut; empty if it is not."""
        with self._lock:
            if not self._cut or not request.startswith(self._cut[0][0]):
                return ""
            self.cut_short += 1
            return self._cut.pop()[1]

    def refusal(self, request: bytes) -> bytes:
        """The error that answers a request, if one does."""
        with self._lock:
            if self._refuse == 0 or not request.startswith(self._only):
                return b""
            self._refuse -= 1
            self.refused += 1
            return self._answer

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
        is_lost, torn = False, ""
        # Not select(): a crowd of clients has more than 1,024 connections in this process.
        sides, waiting = {one.fileno(): one for one in (self.request, upstream)}, select.poll()
        for one in sides:
            waiting.register(one, select.POLLIN)
        while True:
            for source in [sides[ready] for ready, _ in waiting.poll()]:
                data = source.recv(_CHUNK)
                if source is self.request and _BEGINS.match(data):
                    if self.server.holds(data):
                        return self._hold()
                    if refusal := self.server.refusal(data):
                        return self._refuse(refusal)
                    is_lost = data.startswith(b"PUT ") and self.server.is_lost()
                    torn = self.server.torn(data)
                if not data or (source is upstream and is_lost):
                    return None
                if source is upstream and torn:
                    return self.request.sendall(_cut(data, torn))
                (upstream if source is self.request else self.request).sendall(data)

    def _refuse(self, refusal: bytes) -> None:
        """Answer, then wait for the client to close: what it still sends must not reset the connection."""
        self.request.sendall(refusal)
        self.request.shutdown(socket.SHUT_WR)
        self._drain()

    def _hold(self) -> None:
        self.server.holding.set()
        self._drain()

    def _drain(self) -> None:
        while self.request.recv(_CHUNK):
            pass


def _cut(answer: bytes, how: str) -> bytes:
    """An answer without its body, or with a part of it. The connection ends behind it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if how == "short":
        return head + b"\r\n\r\n" + body[: len(body) // 2]
    return re.sub(rb"(?i)(content-length: )[0-9]+", rb"\g<1>0", head) + b"\r\nConnection: close\r\n\r\n"


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
