"""MCP over streamable HTTP, mounted in the server, whose own checks come first.

The HTTP server has already checked Host, Origin, size and cap; every call checks the cap again. Calls run in the same
executor as calls over HTTP. There are no sessions, so the server can be restarted while clients keep using it.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import mcp_types as types
import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strongroom import api
from strongroom.errors import CapMissing, MethodRefused
from strongroom.server.mcp.mcp_server import Context, McpCall, server_for

R = TypeVar("R")
DOOR = "strongroom.door"
CARRY_OUT = "strongroom.carry_out"
_BAD_REQUEST = 400
_ABOUT_THE_BODY = (types.PARSE_ERROR, types.INVALID_REQUEST, types.INVALID_PARAMS)


def mcp_app(*, body_limit: int) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
    """The ASGI app for MCP, and a context manager that must be entered once while the app serves.

    The state of a request holds two values: under DOOR the transport of its cap, and under CARRY_OUT a function that
    runs an operation, given the operation and its op.
    """

    async def ask(context: Context, question: McpCall[R]) -> R:
        state = context.request.scope.get("state", {}) if context.request is not None else {}
        if DOOR not in state:
            raise CapMissing("the request has no cap", hint="send a cap as `Authorization: Bearer <cap>`")
        answer: R = await state[CARRY_OUT](question.asking(state[DOOR]), question.kind.op)
        return answer

    manager = StreamableHTTPSessionManager(
        server_for(ask),
        json_response=True,
        stateless=True,
        # The server checks Host and Origin before, with its operator's own lists.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=body_limit,
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # a GET would wait for messages of a session, and there is none
            await _only_post()(scope, receive, send)
        else:
            await manager.handle_request(scope, receive, _unrepeating(send))

    return app, manager.run()


def _only_post() -> Response:
    error = MethodRefused("this path takes only POST", hint="use POST")
    body = msgspec.json.encode(api.Refusal.of(error))
    return Response(body, api.STATUS[error.reason], {"Allow": "POST"}, "application/json")


def _unrepeating(send: Send) -> Send:
    """Wrap `send`: pass answers on, except those of the SDK about a malformed body, which would repeat the body."""
    held: Message | None = None
    body = bytearray()

    async def passed(message: Message) -> None:
        nonlocal held
        if message["type"] == "http.response.start" and message["status"] == _BAD_REQUEST:
            held = message
        elif held is None:
            await send(message)
        else:
            body.extend(message.get("body", b""))
            if not message.get("more_body"):
                await _replaced(bytes(body), held, send)

    return passed


async def _replaced(body: bytes, start: Message, send: Send) -> None:
    error = msgspec.json.decode(body) if body else {}
    if error.get("id") is None and error.get("error", {}).get("code") in _ABOUT_THE_BODY:
        error["error"] = {"code": error["error"]["code"], "message": "the body is not an MCP message"}
        body = msgspec.json.encode(error)
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
