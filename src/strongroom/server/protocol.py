"""Connections, guarded: head and body must come soon, the head small, and there is an end to how many are held.

uvicorn's parser has no limit of its own for any of these. What is refused here has the one error shape, too.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from strongroom import wire
from strongroom.errors import HeadersTooLarge, InvalidRequest, RequestTooSlow, ServerUnavailable, StrongroomError
from strongroom.server.options import Options


class GuardedProtocol(HttpToolsProtocol):
    """One connection. Made by `guarded`, which gives it its options."""

    options: Options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._deadline: TimerHandle | None = None
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.options.connections:
            self._refuse(ServerUnavailable("the server has as many connections as it takes", hint="try again later"))
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            if self._deadline is None:  # the first bytes of a further request on this connection
                self._expect_head()
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_body and self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.options.body_seconds, self._body_too_slow)
        # A head that came whole within these bytes has set it back.
        if self._in_head and self._head_bytes > self.options.header_limit and not self.transport.is_closing():
            limit = self.options.header_limit
            self._refuse(HeadersTooLarge(f"a request's head is at most {limit} bytes"))

    def on_headers_complete(self) -> None:
        self._came()
        self._in_head, self._in_body = False, True
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.options.header_limit:
            self._refuse(HeadersTooLarge(f"a request's head is at most {self.options.header_limit} bytes"))
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._came()
        self._in_head, self._in_body, self._head_bytes = True, False, 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the library's words are not ours
        self._refuse(InvalidRequest("this is no HTTP request that can be read"))

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.options.head_seconds, self._too_slow)

    def _came(self) -> None:
        """What was waited for is here."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()

    def _body_too_slow(self) -> None:
        """Answer that a body took too long, unless an answer is under way already."""
        self._deadline = None
        if self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(RequestTooSlow("the request's body came too slowly", hint="send it again"))

    def _refuse(self, error: StrongroomError) -> None:
        """Answer without an application, and hang up."""
        self._came()
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(wire.Refusal.of(error))
        self.transport.write(
            STATUS_LINE[wire.STATUS[error.reason]]
            + b"content-type: application/json\r\ncache-control: no-store\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n" % len(body)
            + body
        )
        self.transport.close()


def guarded(options: Options) -> type[asyncio.Protocol]:
    """The protocol class of a server with these options."""
    return type("GuardedProtocol", (GuardedProtocol,), {"options": options})
