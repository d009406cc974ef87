"""The SDK's own client, connected in every way there is: in memory, to a process, over HTTP; in both protocol eras."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from strongroom import Vault
from strongroom.server.mcp import on_threads, server_for

ROOT = Path(__file__).parents[3]
ERAS = {"legacy": "legacy", "modern": "auto"}
WAYS = [f"{carrier}-{era}" for carrier in ("memory", "http") for era in ERAS]
SLOW_WAYS = [f"stdio-{era}" for era in ERAS]
"""Each starts a process."""

Work = Callable[[Client], Awaitable[None]]


def stdio_command(directory: Path, cap: str, **environment: str) -> StdioServerParameters:
    """How to start the server of `child.py`."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.server.mcp.child", str(directory)],
        env={"STRONGROOM_CAP": cap, "PYTHONPATH": str(ROOT), **environment},
        cwd=str(ROOT),
    )


@dataclass(frozen=True)
class Connector:
    """Connects clients to one vault in one way."""

    way: str
    vault: Vault
    directory: Path
    url: str

    def run(self, cap: str, work: Work) -> None:
        """Do `work` with a client that shows `cap`."""

        async def main() -> None:
            async with self.connected(cap) as client:
                await work(client)

        anyio.run(main)

    @asynccontextmanager
    async def connected(self, cap: str) -> AsyncIterator[Client]:
        carrier, _, era = self.way.partition("-")
        mode = ERAS[era]
        if carrier == "memory":
            async with Client(server_for(on_threads(self.vault.door(cap, source="mcp"))), mode=mode) as client:
                yield client
        elif carrier == "stdio":
            with (self.directory / "stderr").open("a") as errors:
                async with Client(stdio_client(stdio_command(self.directory, cap), errors), mode=mode) as client:
                    yield client
        else:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {cap}"}, timeout=30) as http,
                Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
            ):
                yield client


def reason(result: Any) -> str:
    """The reason of a refusal, which must have the one shape; "" for a success."""
    if not result.is_error:
        return ""
    assert set(result.structured_content) <= {"error", "reason", "message", "hint"}
    assert result.structured_content["message"]
    found = result.structured_content["reason"]
    assert isinstance(found, str)
    assert result.content[0].text.startswith(found + ": ")
    assert "Traceback" not in result.content[0].text
    return found


def text(result: Any) -> str:
    """The text of a tool's result, or of a resource."""
    (block,) = result.contents if hasattr(result, "contents") else result.content
    assert isinstance(block.text, str)
    return block.text
