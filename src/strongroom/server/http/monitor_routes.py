"""The routes that need no cap: health, readiness, metrics, and the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from strongroom.errors import UnknownRoute
from strongroom.server.executor import Executor
from strongroom.server.http import openapi
from strongroom.server.http.answers import HttpAnswer, slow_down
from strongroom.server.http.request_parser import HttpRequest
from strongroom.server.metrics import CONTENT_TYPE, Metrics
from strongroom.server.rate_limits import Buckets
from strongroom.vault.vault import Vault

_READY_SECONDS = 1.0


class MonitorRoutes:
    """Handlers that anyone may call. Callers that ask at the same time share one computation."""

    def __init__(self, vault: Vault, metrics: Metrics, addresses: Buckets, executor: Callable[[], Executor]) -> None:
        self._vault = vault
        self._metrics = metrics
        self._addresses = addresses
        self._executor = executor
        self._ready: asyncio.Future[None] | None = None
        self._ready_until = 0.0
        self._scrape: asyncio.Future[bytes] | None = None

    async def healthz(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002 - a handler
        return HttpAnswer(200, b'{"status":"ok"}')

    async def readyz(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002 - a handler
        if self._ready is None or (self._ready.done() and monotonic() >= self._ready_until):
            # Open to anybody, so all callers share one check, made at most once per `_READY_SECONDS`.
            self._ready = self._executor().run(self._vault.check_ready)
            self._ready.add_done_callback(self._looked)
        await asyncio.wait([self._ready])
        self._ready.result()
        return HttpAnswer(200, b'{"status":"ready"}')

    def _looked(self, look: asyncio.Future[None]) -> None:
        self._ready_until = monotonic() + _READY_SECONDS
        if not look.cancelled():
            look.exception()  # already raised to the callers

    async def metrics(self, request: HttpRequest) -> HttpAnswer:
        if not request.is_local:
            raise UnknownRoute(
                "/metrics answers only requests from the server's own machine",
                hint="send the request on that machine, to 127.0.0.1 and this port, or through a proxy there",
            )
        if self._scrape is None or self._scrape.done():
            self._scrape = self._executor().run(self._metrics.text)  # concurrent callers share one scrape
        await asyncio.wait([self._scrape])
        return HttpAnswer(200, self._scrape.result(), kind=(b"content-type", CONTENT_TYPE))

    async def openapi(self, request: HttpRequest) -> HttpAnswer:
        now = monotonic()
        if (wait := self._addresses.wait(request.neighbourhood, now)) > 0:
            raise slow_down(wait)
        self._addresses.take(request.neighbourhood, now)
        return HttpAnswer(200, openapi.encode_document())
