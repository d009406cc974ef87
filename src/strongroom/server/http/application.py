"""The application: one route for each call, answered through the vault's own transport.

Routing is plain ASGI and a dictionary. A routing framework was measured to cost twice as much as all other HTTP work
for a request (ADR 0017). A request is checked in a fixed order: head, route, cap, body, gate. All refusals have the
same shape.

A request counts against the rate of its cap if the cap is valid, and otherwise against the rate of its address. So a
flood of requests without a valid cap uses up nobody else's rate (ADR 0033). An address that has used up its rate gets
status 429 instead of any other refusal, before a body is read. Requests with a valid cap are still answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any, NamedTuple

from strongroom import api
from strongroom.errors import (
    MethodRefused,
    ServerDefect,
    ServerUnavailable,
    StrongroomError,
    Unavailable,
    UnknownRoute,
)
from strongroom.server import json_log
from strongroom.server.executor import Executor
from strongroom.server.http.answers import KEEP_OUT, UNPROVEN, HttpAnswer, refusal, slow_down, stopping
from strongroom.server.http.cap_calls import Asgi, CapCalls, Handler
from strongroom.server.http.connection_limits import Connections
from strongroom.server.http.monitor_routes import MonitorRoutes
from strongroom.server.http.request_parser import Disconnected, HttpRequest, Receive, Scope, Send
from strongroom.server.metrics import Metrics
from strongroom.server.periodic_tasks import PeriodicTasks
from strongroom.server.rate_limits import Buckets
from strongroom.server.server_options import DEFAULT, Options
from strongroom.vault.vault import Vault

MCP = "/mcp"
_FAILED_COST = 10
"""The number of requests that one request with a refused cap counts as, in the limit of its address."""

_WATCHING = ("healthz", "readyz", "metrics")
"""Routes for monitoring. Floods of other requests must not block these."""

_SLOW, _SLOW_DISTANT = 2, 8
"""The number of threads for slow work: first for local files, then for a bucket.

With local files, threads compete for the interpreter, so they are few. With a bucket, they wait for a network.
"""


class HttpRoute(NamedTuple):
    """The handler of a route, and the route's name in metrics.

    If the handler is None, the request is passed on to MCP.
    """

    name: str
    handler: Handler | None


_MCP_ROUTE = HttpRoute("mcp", None)


class Application:
    """The ASGI application of one open vault. The caller owns the vault: the application does not close it."""

    def __init__(self, vault: Vault, options: Options = DEFAULT, places: Connections | None = None) -> None:
        self.options = options
        self._vault = vault
        self._lines = json_log.Sample()
        places = Connections(options.connections) if places is None else places
        self._metrics = Metrics(vault, places, self._lines)
        self._addresses = Buckets(options.address_rate, options.burst_seconds)
        self._calls = CapCalls(vault, options, self._addresses, self._open_executor)
        self._executor: Executor | None = None
        self._stack = AsyncExitStack()
        self._mcp: Asgi | None = None
        self._mcp_app = _mcp_app() if options.mcp else None
        monitor = MonitorRoutes(vault, self._metrics, self._addresses, self._open_executor)
        self.routes: dict[str, dict[str, HttpRoute]] = _routes(self._calls, monitor)

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
        """Start to answer requests. Must be called on the event loop that serves."""
        store = self._vault.store
        slow = self.options.slow or (_SLOW_DISTANT if store.is_distant else _SLOW)
        self._executor = Executor(store, self._vault.together, slow, self.options.waiting, self._calls.charge)
        if self._mcp_app is not None:
            self._mcp, lifespan = self._mcp_app(body_limit=self._calls.message_limit)
            await self._stack.enter_async_context(lifespan)
        for task in PeriodicTasks(self._vault, self.options, self._lines, self._executor).start():
            self._stack.callback(task.cancel)

    async def stop(self) -> None:
        """Stop answering requests, after those that have begun are finished."""
        executor, self._executor = self._executor, None
        await self._stack.aclose()
        if executor is not None:
            await executor.close()
        self._lines.tell()

    # One request.

    async def _serve(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        began = monotonic()
        name, outcome = "unknown", "ok"
        try:
            route = self._find(request)
            name = route.name
            if name not in _WATCHING and request.connection.is_spare:
                raise ServerUnavailable("the server has no free connections", hint="try again in a moment")
            if request.method == "GET":
                request.check_bodiless()
            if route.handler is None:
                assert self._mcp is not None  # noqa: S101 - `_find` gives this route only with it
                await self._calls.pass_on(self._mcp, request, receive, send)
                self._metrics.count(name, outcome, monotonic() - began)
                return
            answer = await route.handler(request)
        except Disconnected:
            return
        except StrongroomError as error:
            error = self._charged(error, request, began)
            outcome = error.reason
            answer = refusal(error)
            if isinstance(error, MethodRefused):
                answer = answer._replace(headers=((b"allow", _allowed(self.routes[request.path]).encode()),))
        except asyncio.CancelledError:  # a stopping server waited long enough
            outcome = ServerUnavailable.reason
            answer = refusal(stopping())
        except Exception as error:  # noqa: BLE001 - the top-level handler
            outcome = ServerDefect.reason
            if self._lines.takes("defect", began):
                json_log.defect(error, request=request.id, op=name)
            answer = refusal(
                ServerDefect(
                    "an internal error in the server", hint="the server's log has the details under this request's id"
                )
            )
        if request.connection.is_spare:
            answer = answer._replace(headers=(*answer.headers, (b"connection", b"close")))
        seconds = monotonic() - began
        self._metrics.count(name, outcome, seconds)
        self._log(request, name, answer.status, outcome, seconds)
        try:
            await _send(send, answer, request.id)
        except (OSError, RuntimeError):  # the peer has gone; uvicorn raises either
            await _wait_until_gone(receive)

    def _charged(self, error: StrongroomError, request: HttpRequest, now: float) -> StrongroomError:
        """Count a refusal against the address if the request showed no valid cap. Returns the error to answer with."""
        is_unproven = api.STATUS[error.reason] == UNPROVEN
        if isinstance(error, Unavailable) or (error.links and not is_unproven):
            return error
        wait = self._addresses.wait(request.neighbourhood, now)
        if wait > 0:
            return slow_down(wait)
        self._addresses.take(request.neighbourhood, now, _FAILED_COST if is_unproven else 1)
        return error

    def _find(self, request: HttpRequest) -> HttpRoute:
        request.check_head(self.options)
        if request.path == MCP and self._mcp is not None:
            return _MCP_ROUTE
        methods = self.routes.get(request.path)
        if methods is None:
            raise UnknownRoute("there is no such path on this server", hint="GET /openapi.json lists the paths")
        route = methods.get(request.method)
        if route is None:
            raise MethodRefused(f"this path does not take {request.method}", hint=f"use {_allowed(methods)}")
        return route

    def _log(self, request: HttpRequest, name: str, status: int, outcome: str, seconds: float) -> None:
        """Log a refused request. With `log_requests`, successful requests are logged, too.

        Lines about refusals and about requests without a cap are limited to a few a second.
        """
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

    def _open_executor(self) -> Executor:
        if self._executor is None:
            raise stopping()
        return self._executor


def _routes(calls: CapCalls, monitor: MonitorRoutes) -> dict[str, dict[str, HttpRoute]]:
    """Build the table of routes, by path and method."""
    routes: dict[str, dict[str, HttpRoute]] = {
        "/healthz": {"GET": HttpRoute("healthz", monitor.healthz)},
        "/readyz": {"GET": HttpRoute("readyz", monitor.readyz)},
        "/metrics": {"GET": HttpRoute("metrics", monitor.metrics)},
        "/openapi.json": {"GET": HttpRoute("openapi", monitor.openapi)},
    }
    for kind in api.CALLS:
        name = kind.path.removeprefix("/v1/").replace("/", ".")
        routes.setdefault(kind.path, {})[kind.method] = HttpRoute(name, calls.handler(kind))
    return routes


def _allowed(methods: Iterable[str]) -> str:
    return ", ".join(sorted(methods))


async def _send(send: Send, answer: HttpAnswer, request_id: str) -> None:
    """Send a complete answer."""
    headers = (
        answer.kind,
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", request_id.encode()),
        *KEEP_OUT,
        *answer.headers,
    )
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _wait_until_gone(receive: Receive) -> None:
    """Wait until uvicorn has noticed the disconnect.

    Without this wait, uvicorn would report that the answer is missing.
    """
    while (await receive())["type"] != "http.disconnect":
        pass


def _mcp_app() -> Callable[..., Any]:
    """Import the MCP application.

    MCP is an optional extra and takes long to import, so this is done before the server listens.
    """
    from strongroom.server.mcp import mcp_app

    return mcp_app


def application(vault: Vault, options: Options = DEFAULT, places: Connections | None = None) -> Application:
    """The ASGI application of a vault. `places` is the table of the connections over which requests come."""
    return Application(vault, options, places)
