"""Guarded connections: limits on the time of head and body, the size of the head, and the number of connections.

uvicorn's parser limits none of these. Refusals by this module have the shape of all other errors.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import TimerHandle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from strongroom import api
from strongroom.errors import HeadersTooLarge, InvalidRequest, RequestTooSlow, StrongroomError
from strongroom.server.http.connection_limits import Connections, ConnectionSlot, user_of
from strongroom.server.http.request_parser import CONNECTION, neighbourhood
from strongroom.server.server_options import Options

_PACKED = len("transfer-encoding")
_AT_ONCE = struct.pack("ii", 1, 0)


class GuardedProtocol(HttpToolsProtocol):
    """One connection. `protocol_class` makes a subclass that holds the options and the connection table."""

    options: Options
    places: Connections
    handshake: ConnectionSlot | None = None
    """The place in the connection table that the connection held during its TLS handshake."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._deadline: TimerHandle | None = None
        self._in_body = False
        self._unread = 0
        """The number of bytes since the last part of a body: trailers, or bytes between chunks."""
        self._writing: TimerHandle | None = None
        self._packed: list[bytes] = []
        """The values of the Transfer-Encoding headers in the present request."""
        self._answering: RequestResponseCycle | None = None
        self.peer = ""
        self.is_proven = self.is_spare = self.is_lost = False
        self.since = 0.0
        self.on_loss: Callable[[], object] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        client = self.client
        self.peer = user_of(transport.get_extra_info("socket")) if client is None else neighbourhood(client[0])
        if self.handshake is not None:
            self.handshake.end()
        self.places.add(self)
        self._deadline = self.loop.call_later(self.options.head_seconds, self._too_slow)

    def is_waiting(self) -> bool:
        """Whether the connection waits for its peer to send or to read something."""
        answering = self._answering
        return answering is None or answering.response_complete or answering.more_body or self._writing is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self.places.remove(self)
        self.is_lost = True
        if self.on_loss is not None:
            self.on_loss()
        self._came()
        self._written()
        # uvicorn notifies only the latest of several pipelined requests.
        for cycle in [self._answering, *(queued for queued, _ in self.pipeline)]:
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering, self.since = cycle, self.loop.time()
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][CONNECTION] = self

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        self._unread += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes and self._deadline is None:
            self._deadline = self.loop.call_later(
                self.options.head_seconds, self._too_slow
            )  # most heads come in one piece and need no timer
        if self._in_body and self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.options.body_seconds, self._body_too_slow)
        # Heads and bodies that were completed by these bytes have reset the counters.
        if (
            max(self._head_bytes if self._in_head else 0, self._unread if self._in_body else 0)
            > self.options.header_limit
        ):
            self._refuse(_too_large(self.options))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer, which would bypass the checks of the head
        super().on_header(name, value)
        if len(name) == _PACKED and name.lower() == b"transfer-encoding":
            self._packed.append(value.lower())

    def on_headers_complete(self) -> None:
        self._came()
        self._in_head, self._in_body, self._unread = False, True, 0
        packed, self._packed = self._packed, []
        if (
            self._head_bytes > self.options.header_limit
            and _head_size(self.url, self.headers) > self.options.header_limit
        ):
            self._refuse(_too_large(self.options))
        elif not _is_plain(self.parser, self.url, packed):
            self.send_400_response("")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._came()
        self._in_head, self._in_body, self._head_bytes = True, False, 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the library's words are not ours
        self._refuse(InvalidRequest("the request is not valid HTTP/1.1 or HTTP/1.0"))

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.options.body_seconds, self.drop)

    def resume_writing(self) -> None:
        self._written()
        super().resume_writing()

    def drop(self) -> None:
        """End the connection now.

        If the peer does not read, bytes that wait in the kernel's send buffer are discarded.
        """
        held = self.transport.get_extra_info("socket")
        if self._writing is not None and held is not None:
            with suppress(OSError):
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._written()
        self.transport.abort()

    def _written(self) -> None:
        """Stop the write timer, since the peer has read the bytes that were sent."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _came(self) -> None:
        """Stop the read timer, since the awaited bytes have come."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()

    def _body_too_slow(self) -> None:
        """Refuse a body that takes too long. If an answer has already begun, only close the connection."""
        self._deadline = None
        if self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(
                RequestTooSlow(
                    f"the request's body did not arrive within {self.options.body_seconds:g} seconds",
                    hint="send the request again, or split it into smaller batches",
                )
            )

    def _refuse(self, error: StrongroomError) -> None:
        """Send a refusal without calling the application, and close the connection."""
        self._came()
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(api.Refusal.of(error))
        self.transport.write(
            STATUS_LINE[api.STATUS[error.reason]]
            + b"content-type: application/json\r\ncache-control: no-store\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n" % len(body)
            + body
        )
        self.transport.close()


def _is_plain(parser: Any, url: bytes, packed: list[bytes]) -> bool:
    """Whether the head of a request can be read in one way only.

    It must have a known HTTP version and a path, and no transfer encoding other than chunked.
    """
    version = parser.get_http_version()
    return (
        (version == "1.1" or version == "1.0")
        and (url.startswith(b"/") or url == b"*")
        and (not packed or (packed == [b"chunked"] and version == "1.1"))
        # For an upgrade the parser would stop at the head and drop the body. None is supported.
        and not parser.should_upgrade()
    )


def _head_size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """The size of the head alone. Bytes that arrived together with the head may belong to the body."""
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def _too_large(options: Options) -> HeadersTooLarge:
    return HeadersTooLarge(
        f"the request's headers are larger than {options.header_limit} bytes", hint="send fewer or shorter headers"
    )


def protocol_class(options: Options, places: Connections) -> type[asyncio.Protocol]:
    """Make the protocol class of a server with these options and this connection table."""
    return type("GuardedProtocol", (GuardedProtocol,), {"options": options, "places": places})
