"""MCP over stdin and stdout, for clients that start their servers themselves.

stdout belongs to the protocol, so everything else that the process prints goes to stderr. The server ends when stdin is
closed, or with SIGTERM or SIGINT. It finishes a call that has begun before it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Semaphore
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from strongroom import api
from strongroom.errors import InvalidRequest
from strongroom.server.mcp.mcp_server import on_threads, server_for
from strongroom.server.server_options import DEFAULT
from strongroom.strict_json import check_unique_keys

_AHEAD = 16
"""The most lines that are read before the line being answered is done."""

_CHUNK = 64 * 1024
MESSAGE_LIMIT = DEFAULT.body_limit
"""The length of the longest line in bytes. A longer line is not a message, and ends the reading."""


def run_stdio(door: api.Transport) -> None:
    """Serve one client until it closes stdin, or until SIGTERM. The caller closes the transport."""
    with _stdin_apart() as fd:
        anyio.run(_serve, door, fd)


async def _serve(door: api.Transport, fd: int) -> None:
    server = server_for(on_threads(door))
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_at_signal, group.cancel_scope)
        # The SDK only iterates over its stdin, and its own reader cannot be interrupted.
        lines = _Lines(fd)
        async with stdio_server(stdin=cast(Any, lines)) as (incoming, outgoing):
            lines.refuse = outgoing.send
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _cancel_at_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


@contextmanager
def _stdin_apart() -> Iterator[int]:
    """A separate descriptor of stdin for the protocol. A library that reads stdin meanwhile finds it empty."""
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield own
    finally:
        os.dup2(own, 0)  # `own` stays open: a thread may still read it, and its number must not be reused


class _Lines:
    """The lines that a descriptor delivers.

    They are read by a daemon thread, which need not end before the process exits.
    """

    refuse: Callable[[SessionMessage], Awaitable[None]]
    """A function that sends the answer to a message refused before the SDK reads it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def __aiter__(self) -> AsyncIterator[str]:
        put, lines = anyio.create_memory_object_stream[str | SessionMessage](_AHEAD + 1)
        room = threading.Semaphore(_AHEAD)
        reader = threading.Thread(target=self._read, args=(asyncio.get_running_loop(), put, room), daemon=True)
        reader.start()
        with lines:
            async for line in lines:
                if isinstance(line, str):
                    yield line
                else:
                    await self.refuse(line)
                room.release()

    def _read(
        self, loop: asyncio.AbstractEventLoop, put: MemoryObjectSendStream[str | SessionMessage], room: Semaphore
    ) -> None:
        def give(line: str | SessionMessage) -> None:
            with suppress(anyio.BrokenResourceError):  # nobody reads any more
                put.send_nowait(line)

        with suppress(OSError, RuntimeError):  # the loop has ended
            for line in self._lines():
                room.acquire()
                loop.call_soon_threadsafe(give, _refusal(line) or line.decode("utf-8", "replace"))
            loop.call_soon_threadsafe(put.close)

    def _lines(self) -> Iterator[bytes]:
        begun = bytearray()
        while chunk := os.read(self._fd, _CHUNK):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield bytes(begun) + line
                begun.clear()
            begun += rest
            if len(begun) > MESSAGE_LIMIT:
                return
        if begun:
            yield bytes(begun)


def _refusal(line: bytes) -> SessionMessage | None:
    """The answer to a message with a duplicate key. None for any other message, which goes to the SDK."""
    try:
        check_unique_keys(line)
    except InvalidRequest as error:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # a number of thousands of digits, or nested too deep
            found = None
        name = found.get("id") if isinstance(found, dict) else None
        said = types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        known = name if isinstance(name, int | str) else None
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=known, error=said))
    return None
