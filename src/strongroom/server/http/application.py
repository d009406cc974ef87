"""The application: one route for each call, answered through the vault's own transport.

Plain ASGI and a dictionary: measured, a routing framework costs twice as much as the rest of a request's HTTP (ADR
0017). The order is fixed: head, route, cap, body, gate. Every refusal has the one error shape.

A request is charged to its cap if that verifies, and to its address only if not: so nobody pays for a stranger's flood
(ADR 0033). An address that has used up its rate gets 429 instead of any refusal, before a body is read; requests with a
valid cap are still answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import msgspec

from strongroom import api
from strongroom.errors import (
    InvalidRequest,
    MethodRefused,
    RateLimited,
    ServerDefect,
    ServerUnavailable,
    StrongroomError,
    Unavailable,
    UnknownRoute,
)
from strongroom.memory.local_transport import LocalTransport
from strongroom.memory.operation import SLOW_STEP, Operation
from strongroom.model import Op, Profile
from strongroom.server import json_log
from strongroom.server.executor import Executor
from strongroom.server.http import openapi
from strongroom.server.http.connection_limits import Connections
from strongroom.server.http.request_parser import Disconnected, HttpRequest, Reader, Receive, Scope, Send, reader_of
from strongroom.server.metrics import CONTENT_TYPE, Metrics
from strongroom.server.rate_limits import BodyBudget, Buckets, Holders
from strongroom.server.server_options import DEFAULT, Options
from strongroom.strict_json import check_unique_keys
from strongroom.vault.vault import Vault

MCP = "/mcp"
_JSON = (b"content-type", b"application/json")
_KEEP_OUT = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_FAILED_COST = 10
"""How many requests of its address one with a refused cap counts as."""

_SHARE = 0.5
"""Seconds of the server's time that the calls of one cap may take per second, where rates are limited at all."""

_READY_SECONDS = 1.0
_LARGE = 64 * 1024
"""The size of a body that is slow to parse."""

_WATCHING = ("healthz", "readyz", "metrics")
"""Routes for monitoring, which floods of other requests must not block."""

_RECORD_SECONDS = 10
"""How often both logs get the counts of events that were not written one by one."""

_SLOW, _SLOW_DISTANT = 2, 8
"""Threads for slow work: few where they would only compete for the interpreter, more where they wait for a network."""

_MESSAGE_LIMIT = 1024 * 1024
"""Largest MCP message: a line fits many times over, and a larger one would block the event loop while it is read."""

_MESSAGE_SECONDS, _MESSAGE_BYTE_SECONDS = 2e-3, 2e-8
"""The time that the MCP library takes on the event loop for a message, and for each byte of it and of its answer."""

_QUESTIONS = frozenset((Op.GET, Op.LIST, Op.SNAPSHOT))
"""Operations whose only effect is their answer: without a caller they can be dropped."""

T = TypeVar("T")
_UNPROVEN = 401
_encode = msgspec.json.Encoder().encode
Headers = tuple[tuple[bytes, bytes], ...]


class HttpAnswer(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes
    headers: Headers = ()
    kind: tuple[bytes, bytes] = _JSON


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class HttpRoute(NamedTuple):
    """A route's handler, and its name for metrics. Without a handler the request is passed on to MCP."""

    name: str
    handler: Handler | None


_MCP_ROUTE = HttpRoute("mcp", None)


class Application:
    """The ASGI application of one open vault. The caller owns the vault: it is not closed here."""

    def __init__(self, vault: Vault, options: Options = DEFAULT, places: Connections | None = None) -> None:
        self.options = options
        self._vault = vault
        self._lines = json_log.Sample()
        places = Connections(options.connections) if places is None else places
        self._metrics = Metrics(vault, places, self._lines)
        self._holders = Holders(self.options.holder_rate, _SHARE, self.options.burst_seconds)
        self._addresses = Buckets(self.options.address_rate, self.options.burst_seconds)
        self._mcp_options = replace(options, body_limit=min(options.body_limit, _MESSAGE_LIMIT))
        self._lanes: Executor | None = None
        self._stack = AsyncExitStack()
        self._mcp: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None
        self._mcp_app = _mcp_app() if options.mcp else None
        self._room = BodyBudget(options.bodies_limit)
        self._ready: asyncio.Future[None] | None = None
        self._ready_until = 0.0
        self._scrape: asyncio.Future[bytes] | None = None
        self.routes: dict[str, dict[str, HttpRoute]] = self._table()

    def _table(self) -> dict[str, dict[str, HttpRoute]]:
        """Every route, by path and method."""
        routes: dict[str, dict[str, HttpRoute]] = {
            "/healthz": {"GET": HttpRoute("healthz", self._healthz)},
            "/readyz": {"GET": HttpRoute("readyz", self._readyz)},
            "/metrics": {"GET": HttpRoute("metrics", self._show_metrics)},
            "/openapi.json": {"GET": HttpRoute("openapi", self._openapi)},
        }
        for kind in api.CALLS:
            name = kind.path.removeprefix("/v1/").replace("/", ".")
            routes.setdefault(kind.path, {})[kind.method] = HttpRoute(name, self._calling(kind))
        return routes

    # The ASGI interface.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(HttpRequest(scope, receive), receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:  # a websocket: not supported
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start(self) -> None:
        """Begin to answer. To be called on the event loop that serves."""
        store = self._vault.store
        slow = self.options.slow or (_SLOW_DISTANT if store.is_distant else _SLOW)
        self._lanes = Executor(store, self._vault.together, slow, self.options.waiting, self.charge)
        if self._mcp_app is not None:
            self._mcp, lifespan = self._mcp_app(body_limit=self._mcp_options.body_limit)
            await self._stack.enter_async_context(lifespan)
        tasks = [asyncio.create_task(self._keep_counts())]
        if self.options.checkpoint_seconds:
            tasks.append(asyncio.create_task(self._keep_checkpoints()))
        if self.options.maintenance_seconds:
            tasks.append(asyncio.create_task(self._finish_scrubs()))
        for task in tasks:
            self._stack.callback(task.cancel)

    async def stop(self) -> None:
        """Stop answering, after finishing what was begun."""
        lanes, self._lanes = self._lanes, None
        await self._stack.aclose()
        if lanes is not None:
            await lanes.close()
        self._lines.tell()

    async def _keep_counts(self) -> None:
        """Periodically write the counts of events that were not written one by one to both logs."""
        while True:
            await asyncio.sleep(_RECORD_SECONDS)
            self._lines.tell()
            try:
                await self._open_lanes().run(self._vault.sum_up_refusals)
            except StrongroomError as error:  # the counts are kept for the next time
                json_log.event("refusals not recorded", level=logging.ERROR, reason=error.reason)

    async def _keep_checkpoints(self) -> None:
        while True:
            await asyncio.sleep(self.options.checkpoint_seconds)
            try:
                await self._open_lanes().run(self._vault.audit.checkpoint)
            except StrongroomError as error:
                json_log.event("checkpoint failed", level=logging.ERROR, reason=error.reason)

    async def _finish_scrubs(self) -> None:
        """Retry scrubs that a forget could not finish because another process was reading."""
        while True:
            if self._vault.scrub_is_due():
                with suppress(StrongroomError):
                    done = await self._open_lanes().run(self._vault.scrub)
                    json_log.event("scrub", done=done)
            await asyncio.sleep(self.options.maintenance_seconds)

    # One request.

    async def _serve(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        began = monotonic()
        name, outcome = "unknown", "ok"
        try:
            route = self._find(request)
            name = route.name
            if name not in _WATCHING and request.connection.is_spare:
                raise ServerUnavailable("the server has as many connections as it takes", hint="try again later")
            if request.method == "GET":
                request.check_bodiless()
            if route.handler is None:
                await self._pass_on(request, receive, send)
                self._metrics.count(name, outcome, monotonic() - began)
                return
            answer = await route.handler(request)
        except Disconnected:
            return
        except StrongroomError as error:
            error = self._charged(error, request, began)
            outcome = error.reason
            answer = _refusal(error)
            if isinstance(error, MethodRefused):
                answer = answer._replace(headers=((b"allow", _allowed(self.routes[request.path]).encode()),))
        except asyncio.CancelledError:  # a stopping server waited long enough
            outcome = ServerUnavailable.reason
            answer = _refusal(_stopping())
        except Exception as error:  # noqa: BLE001 - the top-level handler
            outcome = ServerDefect.reason
            if self._lines.takes("defect", began):
                json_log.defect(error, request=request.id, op=name)
            answer = _refusal(ServerDefect("the server met a defect", hint="its log names it under this request's id"))
        if request.connection.is_spare:
            answer = answer._replace(headers=(*answer.headers, (b"connection", b"close")))
        seconds = monotonic() - began
        self._metrics.count(name, outcome, seconds)
        self._log(request, name, answer.status, outcome, seconds)
        try:
            await _send(send, answer, request.id)
        except (OSError, RuntimeError):  # the peer has gone; uvicorn raises either
            await _gone(receive)

    def _charged(self, error: StrongroomError, request: HttpRequest, now: float) -> StrongroomError:
        """Charge a refusal to its address, if no valid cap was shown. Returns the error to answer with."""
        is_unproven = api.STATUS[error.reason] == _UNPROVEN
        if isinstance(error, Unavailable) or (error.links and not is_unproven):
            return error
        wait = self._addresses.wait(request.neighbourhood, now)
        if wait > 0:
            return _slow_down(wait)
        self._addresses.take(request.neighbourhood, now, _FAILED_COST if is_unproven else 1)
        return error

    def _find(self, request: HttpRequest) -> HttpRoute:
        request.check_head(self.options)
        if request.path == MCP and self._mcp is not None:
            return _MCP_ROUTE
        methods = self.routes.get(request.path)
        if methods is None:
            raise UnknownRoute("there is no such route", hint="/openapi.json lists them")
        route = methods.get(request.method)
        if route is None:
            raise MethodRefused(f"this route takes {_allowed(methods)}")
        return route

    def _log(self, request: HttpRequest, name: str, status: int, outcome: str, seconds: float) -> None:
        """Log a refusal; with `log_requests` also successes, sampled unless a cap was shown."""
        is_fine = outcome == "ok"
        if is_fine and not self.options.log_requests:
            return
        if not (is_fine and request.path.startswith("/v1/")) and not self._lines.takes(outcome, monotonic()):
            return
        json_log.event(
            "request",
            level=logging.INFO if status < 500 else logging.ERROR,
            request=request.id,
            op=name,
            status=status,
            outcome=outcome,
            ms=round(seconds * 1000, 1),
            client=request.address,
        )

    def _open_lanes(self) -> Executor:
        if self._lanes is None:
            raise _stopping()
        return self._lanes

    # Calls.

    def _calling(self, kind: type[api.Call[Any]]) -> Handler:
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
                    body = await request.body(self.options, prove) if has_body else b""
                    if body:
                        request.check_json()
                    performing = _performing(door, kind, read, request, body)
                    answer = await self._carry_out(request, performing, holder, kind.op)
            except StrongroomError as error:
                # A refusal is a log entry and must not be free. But a forged cap must not be charged to its true
                # holder.
                if error.links and api.STATUS[error.reason] != _UNPROVEN:
                    self._holders.take(holder, monotonic())
                raise
            self._holders.take(holder, monotonic())
            request.connection.is_proven = True
            return answer

        return handle

    def _door(self, request: HttpRequest, source: str) -> tuple[LocalTransport, int]:
        """The vault's door for the cap that is shown, and who shows it."""
        token = request.cap()
        door = self._vault.door(token, source=source, request=request.id)
        holder = self._holders.of(token, door.lineage)
        wait = self._holders.wait(holder, monotonic())
        if wait > 0:
            raise _slow_down(wait)
        return door, holder

    async def _carry_out(self, request: HttpRequest, doing: Operation[T], holder: Hashable, op: Op | None = None) -> T:
        """Wait for an operation's answer. Raises Disconnected once the caller has gone; a change is made all the same.

        The request is then charged as well.
        """
        connection = request.connection
        if connection.is_lost:
            doing.close()
            raise Disconnected
        asked = self._open_lanes().carry_out(doing, holder, only_reads=op in _QUESTIONS)

        def leave() -> None:
            if not asked.done():
                self._holders.take(holder, monotonic())
                asked.set_exception(Disconnected())

        connection.on_loss = leave
        try:
            return await asked
        finally:
            connection.on_loss = None

    async def _prove(self, request: HttpRequest, door: LocalTransport, holder: Hashable) -> None:
        """Raise if the cap is not valid."""
        await self._carry_out(request, door.checking(), holder)
        request.connection.is_proven = True

    async def _pass_on(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        """Let the MCP application answer, after the cap was verified."""
        door, holder = self._door(request, "mcp")
        await self._prove(request, door, holder)
        self._holders.take(holder, monotonic())

        async def carry_out(doing: Operation[T], op: Op) -> T:
            try:
                return await self._carry_out(request, doing, holder, op)
            except Disconnected:
                raise ServerUnavailable("nobody waits for the answer any more") from None

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
            assert self._mcp is not None  # noqa: S101 - the route is there only with it
            size = len(body)

            async def counted(message: Any) -> None:
                nonlocal size
                size += len(message.get("body", b""))
                await send(message)

            try:
                await self._mcp(request.scope, _replayed(body, receive), _stamped(counted, request.id))
            finally:
                self.charge(holder, _MESSAGE_SECONDS + size * _MESSAGE_BYTE_SECONDS)

    def charge(self, holder: Hashable, seconds: float) -> None:
        """Charge a cap for the server's time that a call took. One call never blocks its cap for long."""
        self._holders.charge(holder, monotonic(), seconds)

    # Routes without a cap.

    async def _healthz(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002 - a handler
        return HttpAnswer(200, b'{"status":"ok"}')

    async def _readyz(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002 - a handler
        if self._ready is None or (self._ready.done() and monotonic() >= self._ready_until):
            # Open to anybody, so all callers share one check, made at most once per `_READY_SECONDS`.
            self._ready = self._open_lanes().run(self._vault.check_ready)
            self._ready.add_done_callback(self._looked)
        await asyncio.wait([self._ready])
        self._ready.result()
        return HttpAnswer(200, b'{"status":"ready"}')

    def _looked(self, look: asyncio.Future[None]) -> None:
        self._ready_until = monotonic() + _READY_SECONDS
        if not look.cancelled():
            look.exception()  # already raised to the callers

    async def _show_metrics(self, request: HttpRequest) -> HttpAnswer:
        if not request.is_local:
            raise UnknownRoute(
                "the figures are shown to callers on the server's own machine only",
                hint="scrape them there, at 127.0.0.1 and this port, or have a proxy on that machine pass them on",
            )
        if self._scrape is None or self._scrape.done():
            self._scrape = self._open_lanes().run(self._metrics.text)  # concurrent callers share one scrape
        await asyncio.wait([self._scrape])
        return HttpAnswer(200, self._scrape.result(), kind=(b"content-type", CONTENT_TYPE))

    async def _openapi(self, request: HttpRequest) -> HttpAnswer:
        now = monotonic()
        if (wait := self._addresses.wait(request.neighbourhood, now)) > 0:
            raise _slow_down(wait)
        self._addresses.take(request.neighbourhood, now)
        return HttpAnswer(200, openapi.encode_document())


def _performing(
    door: LocalTransport, kind: type[api.Call[Any]], read: Reader, request: HttpRequest, body: bytes
) -> Operation[HttpAnswer]:
    """One call, from its bytes to its answer, in steps."""
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
    return HttpAnswer(200, _encode(answer), headers)


def _checking_keys(body: bytes) -> Operation[None]:
    yield SLOW_STEP
    check_unique_keys(body)


def _allowed(methods: Iterable[str]) -> str:
    return ", ".join(sorted(methods))


def _refusal(error: StrongroomError) -> HttpAnswer:
    status = api.STATUS[error.reason]
    headers: list[tuple[bytes, bytes]] = []
    if status == _UNPROVEN:
        headers.append((b"www-authenticate", b"Bearer"))
    elif status in (408, 413, 431):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    elif status in (429, 503):
        wait = error.wait if isinstance(error, RateLimited) else 1
        headers.append((b"retry-after", str(wait).encode()))
    return HttpAnswer(status, _encode(api.Refusal.of(error)), tuple(headers))


def _stopping() -> ServerUnavailable:
    return ServerUnavailable("the server is stopping", hint="try again in a moment")


def _slow_down(wait: float) -> RateLimited:
    error = RateLimited("too many requests", hint="wait, then try again")
    error.wait = max(1, round(wait + 0.5))
    return error


async def _send(send: Send, answer: HttpAnswer, request_id: str) -> None:
    headers = (
        answer.kind,
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", request_id.encode()),
        *_KEEP_OUT,
        *answer.headers,
    )
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _gone(receive: Receive) -> None:
    """Wait until uvicorn has noticed the disconnect; otherwise it reports a missing answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that replays a body that was read already."""
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
            message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode()), *_KEEP_OUT]
        await send(message)

    return stamped


def _mcp_app() -> Callable[..., Any]:
    """Import MCP, which needs an extra and takes long: done before the server listens."""
    from strongroom.server.mcp import mcp_app

    return mcp_app


def application(vault: Vault, options: Options = DEFAULT, places: Connections | None = None) -> Application:
    """The ASGI application of a vault. `places` counts the connections that lead to it."""
    return Application(vault, options, places)
