"""HTTP connections with one deadline for a whole request and its answer.

httpx has a time limit for each single read, so a server that sends one byte now and then would never time out. Here
every connect, handshake, read and write gets the time that is left until the deadline. Name resolution is done by the
system, without a time limit. The content of requests and retries are the work of other modules.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

_ERRORS: dict[type[Exception], type[httpx.TransportError]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
}


class Deadline(float):
    """The end of the time that a request may take. The time begins when this object is made.

    The value as a float is the whole time in seconds; `left` is the time that remains.
    """

    __slots__ = ("_clock", "_ends")

    _clock: Callable[[], float]
    _ends: float

    def __new__(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        made = super().__new__(cls, seconds)
        made._clock, made._ends = clock, clock() + seconds
        return made

    def left(self) -> float:
        return self._ends - self._clock()

    def extension(self) -> dict[str, Any]:
        """The deadline in the form of httpx's `timeout` extension: the same Deadline for every step of a request."""
        return {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), self)}


class DeadlineTransport(httpx.BaseTransport):
    """A connection pool that ends each request at its Deadline, if the request has one."""

    def __init__(self, tls: ssl.SSLContext, limits: httpx.Limits, uds: str | None) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            uds=uds,
            network_backend=_PacedBackend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            found = self._pool.handle_request(asked)
        return httpx.Response(found.status, headers=found.headers, stream=_Body(found), extensions=found.extensions)

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _PacedBackend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that accepts a connection. All attempts share one deadline."""
        failure: Exception | None = None
        for address in _addresses(host, port):
            left = _left(timeout, failure or httpcore.ConnectTimeout("timed out"))
            try:
                return _PacedStream(super().connect_tcp(address, port, left, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = failure or error
        raise failure or httpcore.ConnectError("the host name has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout("timed out"))
        return _PacedStream(super().connect_unix_socket(path, left, socket_options))


class _PacedStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout("timed out")))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send the buffer in pieces. Each piece gets the time until the deadline, and not a new time limit."""
        rest, sock = memoryview(buffer), self.get_extra_info("socket")
        while rest:
            left = _left(timeout, httpcore.WriteTimeout("timed out"))
            try:
                sock.settimeout(left)
                rest = rest[sock.send(rest) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(error) from error
            except OSError as error:
                raise httpcore.WriteError(error) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            left = _left(timeout, httpcore.ConnectTimeout("timed out"))
        except httpcore.ConnectTimeout:
            self.close()
            raise
        return _PacedStream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _addresses(host: str, port: int) -> list[str]:
    """The numeric addresses of a host name. An IPv6 address includes its zone, if it has one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [socket.getnameinfo(one[4], socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0] for one in found]
    except OSError as error:
        raise httpcore.ConnectError(error) from error


def _left(timeout: float | None, late: Exception) -> float | None:
    """The seconds that are left for the next step. Raises the error `late` if no time is left."""
    left = timeout.left() if isinstance(timeout, Deadline) else timeout
    if left is not None and left <= 0:
        raise late
    return left


@contextmanager
def _translated() -> Iterator[None]:
    """A context manager that translates errors of httpcore into errors of httpx, which the client handles."""
    try:
        yield
    except tuple(_ERRORS) as error:
        raise _ERRORS[type(error)](str(error)) from error
