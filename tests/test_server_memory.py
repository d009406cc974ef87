"""A server keeps nothing of the requests that it has answered, by the allocator's count; the bench sees the process."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from itertools import count, islice, pairwise
from typing import Any

import msgspec
import pytest

from strongroom import Token, Vault, api
from strongroom.server import json_log
from strongroom.server.http.application import Application
from strongroom.server.server_options import Options

OPTIONS = Options(holder_rate=0, address_rate=0, checkpoint_seconds=0, mcp=False)
REQUESTS = 400
PER_REQUEST = 40
"""Bytes that may stay for each request: a short text in a list takes more. Seen are about 12."""


class Peer:
    """Speaks to an application as the HTTP library does, without a connection."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._numbers = count()

    async def ask(self, token: str, body: bytes) -> int:
        """The status of one answer. Every request has an id of its own."""
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await self._app(self._scope(token), receive, send)
        return statuses[0]

    def _scope(self, token: str) -> dict[str, Any]:
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"authorization", b"Bearer " + token.encode()),
            (b"x-request-id", b"request-%d" % next(self._numbers)),
        ]
        return {
            "type": "http",
            "method": "POST",
            "path": api.Get.path,
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }


def _mixed(cap: Token) -> Iterator[tuple[str, bytes, int]]:
    """Requests without end and the status that each must get: no two garbage tokens and no two questions are alike."""
    denied = msgspec.json.encode(api.Get(query="anything", namespaces=("personal",)))
    for number in count():
        yield cap, msgspec.json.encode(api.Get(query=f"question {number}")), 200
        yield cap, denied, 403
        yield f"garbage-{number}", b"{}", 401
        yield cap, b'{"query": %d' % number, 400


async def _growth(app: Application, cap: Token, requests: int) -> float:
    """Bytes that so many requests leave behind, each: the least of several times, for a table grows once."""
    peer, mixed = Peer(app), _mixed(cap)
    await app.start()
    try:
        sizes = []
        for _ in range(5):
            # One after the other: threads that are at work together open connections to the store when they must.
            for token, body, status in islice(mixed, requests):
                assert await peer.ask(token, body) == status
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        await app.stop()
    return min(after - before for before, after in pairwise(sizes)) / requests


@pytest.mark.requirement("server-flat")
def test_answered_requests_leave_nothing_behind(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        json_log.LOGGER, "disabled", True
    )  # what a handler of the test runner keeps is not the server's
    cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=3600)
    vault.memory(cap).put("a trip to Chengdu", namespace="travel")
    tracemalloc.start()
    try:
        left = asyncio.run(_growth(Application(vault, OPTIONS), cap, REQUESTS))
    finally:
        tracemalloc.stop()
    assert left < PER_REQUEST
