"""Requests that show a cap: their rate limits, the RAM for their bodies, and their operations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, TypeVar

from strongroom import api
from strongroom.errors import InvalidRequest, ServerUnavailable, StrongroomError
from strongroom.memory.local_transport import LocalTransport
from strongroom.memory.operation import SLOW_STEP, Operation
from strongroom.model import Op, Profile
from strongroom.server.executor import Executor
from strongroom.server.http.answers import KEEP_OUT, UNPROVEN, Headers, HttpAnswer, encode, slow_down
from strongroom.server.http.request_parser import Disconnected, HttpRequest, Reader, Receive, Scope, Send, reader_of
from strongroom.server.rate_limits import BodyBudget, Buckets, Holders
from strongroom.server.server_options import Options
from strongroom.strict_json import check_unique_keys
from strongroom.vault.vault import Vault

_SHARE = 0.5
"""Seconds of the server's time that the calls of one cap may take per second. Not used if rates are unlimited."""

_LARGE = 64 * 1024
"""The number of bytes from which on parsing a body counts as slow."""

_MESSAGE_LIMIT = 1024 * 1024
"""The largest MCP message in bytes. A line is much smaller, and reading a larger message would block the event loop."""

_MESSAGE_SECONDS, _MESSAGE_BYTE_SECONDS = 2e-3, 2e-8
"""Seconds that the MCP library takes on the event loop: for each message, and for each byte of message and answer."""

_QUESTIONS = frozenset((Op.GET, Op.LIST, Op.SNAPSHOT))
"""Operations that change no memory. When the caller has gone, they can be dropped."""

T = TypeVar("T")
Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


class CapCalls:
    """Answers calls that show a cap, over HTTP and over MCP, and counts each call against its cap.

    A call counts for the holder of the cap: all caps that were narrowed or renewed from one cap share one rate.
    """

    def __init__(self, vault: Vault, options: Options, addresses: Buckets, executor: Callable[[], Executor]) -> None:
        self._vault = vault
        self._options = options
        self._mcp_options = replace(options, body_limit=min(options.body_limit, _MESSAGE_LIMIT))
        self._addresses = addresses
        self._executor = executor
        self._holders = Holders(options.holder_rate, _SHARE, options.burst_seconds)
        self._room = BodyBudget(options.bodies_limit)

    @property
    def message_limit(self) -> int:
        """The most bytes that an MCP message may have."""
        return self._mcp_options.body_limit

    def handler(self, kind: type[api.Call[Any]]) -> Handler:
        """Return the handler of the route for one kind of call."""
        read = reader_of(kind)
        has_body = kind.method != "GET"

        async def handle(request: HttpRequest) -> HttpAnswer:
            door, holder = self._door(request, "http")

            async def prove(size: int) -> None:
                await self._prove(request, door, holder)
                take(size)

            try:
                if self._addresses.wait(request.neighbourhood, monotonic()) > 0:
                    await self._prove(request, door, holder)
                with self._room.place(holder) as take:
                    body = await request.body(self._options, prove) if has_body else b""
                    if body:
                        request.check_json()
                    performing = _performing(door, kind, read, request, body)
                    answer = await self._carry_out(request, performing, holder, kind.op)
            except StrongroomError as error:
                # A refusal is a log entry and must not be free. But a forged cap must not be charged to its true
                # holder.
                if error.links and api.STATUS[error.reason] != UNPROVEN:
                    self._holders.take(holder, monotonic())
                raise
            self._holders.take(holder, monotonic())
            request.connection.is_proven = True
            return answer

        return handle

    def _door(self, request: HttpRequest, source: str) -> tuple[LocalTransport, int]:
        """The transport for the request's cap, and the holder against whose rate the request counts.

        Raises a refusal if that rate is exceeded.
        """
        token = request.cap()
        door = self._vault.door(token, source=source, request=request.id)
        holder = self._holders.of(token, door.lineage)
        wait = self._holders.wait(holder, monotonic())
        if wait > 0:
            raise slow_down(wait)
        return door, holder

    async def _carry_out(self, request: HttpRequest, doing: Operation[T], holder: Hashable, op: Op | None = None) -> T:
        """Wait for an operation's answer. Raises Disconnected once the caller has gone.

        A change that has begun is completed even after the caller has gone, and still counts against its cap.
        """
        connection = request.connection
        if connection.is_lost:
            doing.close()
            raise Disconnected
        asked = self._executor().carry_out(doing, holder, only_reads=op in _QUESTIONS)

        def leave(asked: asyncio.Future[T] = asked) -> None:
            if not asked.done():
                self._holders.take(holder, monotonic())
                asked.set_exception(Disconnected())

        connection.on_loss = leave
        try:
            return await asked
        finally:
            connection.on_loss = None
            del asked, leave  # a refusal would lead to this frame, and this frame to the refusal; see `_finish`

    async def _prove(self, request: HttpRequest, door: LocalTransport, holder: Hashable) -> None:
        """Raise an error if the cap is not valid."""
        await self._carry_out(request, door.checking(), holder)
        request.connection.is_proven = True

    async def pass_on(self, mcp: Asgi, request: HttpRequest, receive: Receive, send: Send) -> None:
        """Check the cap, and let the MCP application answer."""
        door, holder = self._door(request, "mcp")
        await self._prove(request, door, holder)
        self._holders.take(holder, monotonic())

        async def carry_out(doing: Operation[T], op: Op) -> T:
            try:
                return await self._carry_out(request, doing, holder, op)
            except Disconnected:
                raise ServerUnavailable("the client closed the connection before the answer") from None

        state = request.scope.setdefault("state", {})
        state["strongroom.door"], state["strongroom.carry_out"] = door, carry_out

        async def prove(size: int) -> None:
            take(size)

        with self._room.place(holder) as take:
            body = await request.body(self._mcp_options, prove)
            if len(body) > _LARGE:
                await self._carry_out(request, _checking_keys(body), holder)
            else:
                check_unique_keys(body)
            size = len(body)

            async def counted(message: Any) -> None:
                nonlocal size
                size += len(message.get("body", b""))
                await send(message)

            try:
                await mcp(request.scope, _replayed(body, receive), _stamped(counted, request.id))
            finally:
                self.charge(holder, _MESSAGE_SECONDS + size * _MESSAGE_BYTE_SECONDS)

    def charge(self, holder: Hashable, seconds: float) -> None:
        """Count the server's time that a call took against its cap. One call alone never blocks its cap for long."""
        self._holders.charge(holder, monotonic(), seconds)


def _performing(
    door: LocalTransport, kind: type[api.Call[Any]], read: Reader, request: HttpRequest, body: bytes
) -> Operation[HttpAnswer]:
    """One call as an operation that begins with the request's bytes and ends with the answer."""
    if len(body) > _LARGE:
        yield SLOW_STEP
    try:
        call = read(request, body)
    except InvalidRequest as invalid:
        raise (yield from door.refusing(kind, invalid)) from None  # a bad cap is reported before a bad body
    answer = yield from door.doing(call)
    headers: Headers = ()
    if isinstance(answer, Profile) and answer.version:
        headers = ((b"etag", f'"{answer.version}"'.encode()),)
    return HttpAnswer(200, encode(answer), headers)


def _checking_keys(body: bytes) -> Operation[None]:
    yield SLOW_STEP
    check_unique_keys(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` function that first returns a body that was already read."""
    given = False

    async def again() -> Mapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again  # type: ignore[return-value]


def _stamped(send: Send, request_id: str) -> Send:
    async def stamped(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode()), *KEEP_OUT]
        await send(message)

    return stamped
