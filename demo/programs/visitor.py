"""Programs that meet a server and never a vault's keys. Each runs as a process of its own.

`ask` is the client in Python, `mcp_http` and `mcp_stdio` are the MCP SDK's own client. They take one JSON array per
line of stdin, a call and its arguments, and say what came of each. `knock` shows caps, `named` sends requests
with ids of its own, `call` makes any call of the wire, `mint` asks for another cap, and `forge` signs one with a key
that nobody gave it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

import strongroom
from strongroom import cap, wire
from strongroom.errors import StrongroomError
from strongroom.files import write_file
from strongroom.memory import Memory

_SEED = 32


# The client in Python.


def ask(url: str, cap_file: str) -> None:
    """Make calls on one connected memory, until stdin ends."""
    with _connected(url, cap_file) as memory:
        for line in sys.stdin:
            name, arguments = json.loads(line)
            _say(_tried(memory, name, arguments))


def knock(url: str, *cap_files: str) -> None:
    """Say, for each cap, why it is refused; `""` if it is not."""
    reasons = []
    for cap_file in cap_files:
        with _connected(url, cap_file) as memory:
            reasons.append(_tried(memory, "get", {"query": "where is the trip?"})["reason"])
    _say(reasons)


def _connected(url: str, cap_file: str) -> Memory:
    return strongroom.connect(url, _cap(cap_file), renew=False)


def _tried(memory: Memory, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if "now" in arguments:
        arguments["now"] = datetime.fromisoformat(arguments["now"])
    try:
        return {"reason": "", "answer": msgspec.to_builtins(getattr(memory, name)(**arguments))}
    except StrongroomError as error:
        return {"reason": error.reason, "answer": None}


def named(url: str, cap_file: str, *pairs: str) -> None:
    """Send gets by hand, each with an id of its own, and say what came back: status, reason, id."""
    import httpx

    came = []
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {_cap(cap_file)}"}, trust_env=False) as client:
        for request, namespace in zip(pairs[::2], pairs[1::2], strict=True):
            body = {"query": "where is the trip?", "namespaces": [namespace]}
            answer = client.post("/v1/memory/get", json=body, headers={"X-Request-Id": request})
            came.append([answer.status_code, answer.json().get("reason", ""), answer.headers.get("X-Request-Id", "")])
    _say(came)


def call(url: str, cap_file: str, name: str, arguments: str) -> None:
    """Make one call, as the wire has it, and say what was answered."""
    with _connected(url, cap_file) as memory:
        _say(msgspec.to_builtins(memory.door.call(msgspec.json.decode(arguments, type=getattr(wire, name)))))


def mint(url: str, cap_file: str) -> None:
    """Ask the server for a cap, and say why it is refused."""
    with _connected(url, cap_file) as memory:
        try:
            memory.door.call(wire.Mint(ops=("get",), namespaces=("personal",), actor="local/owner"))
        except StrongroomError as error:
            _say(error.reason)
        else:
            _say("")


def forge(target: str, cap_file: str) -> None:
    """Sign a cap for the same vault with a new key: the issuer's own is out of reach."""
    token = cap.mint(
        issuer_seed=os.urandom(_SEED),
        audience=cap.parse(_cap(cap_file)).first.aud,
        jti=os.urandom(16),
        holder_seed=None,
        now=int(time.time()),
        ttl=600,
        actor="local/owner",
        ops=["get"],
        namespaces=["personal"],
    )
    write_file(Path(target), token.encode(), new=True)


# The MCP client.


def mcp_http(url: str, cap_file: str) -> None:
    """Call tools over streamable HTTP."""
    import anyio
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    refusals: list[str] = []

    async def look(response: httpx2.Response) -> None:
        if response.is_error:
            refusals.append(json.loads(await response.aread())["reason"])

    async def main() -> None:
        headers = {"Authorization": f"Bearer {_cap(cap_file)}"}
        hooks = {"response": [look]}
        async with httpx2.AsyncClient(headers=headers, event_hooks=hooks, timeout=30, trust_env=False) as http:
            await _converse(streamable_http_client(url, http_client=http), refusals)

    anyio.run(main)


def mcp_stdio(cap_file: str, *more: str) -> None:
    """Call tools of `strongroom mcp`, started as MCP clients start it."""
    import anyio
    from mcp import StdioServerParameters, stdio_client

    command = ["-m", "strongroom", "mcp", "--cap-file", cap_file, *more]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    with Path(os.devnull).open("w") as nowhere:
        anyio.run(_converse, stdio_client(server, nowhere))


async def _converse(transport: AbstractAsyncContextManager[Any], refusals: Sequence[str] = ()) -> None:
    """Say which tools there are, then call those that stdin names."""
    import anyio.to_thread
    from mcp import Client
    from mcp.shared.exceptions import MCPError

    async with Client(transport) as client:
        _say(sorted(tool.name for tool in (await client.list_tools()).tools))
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            name, arguments = json.loads(line)
            try:
                _say(_shown(await client.call_tool(name, arguments)))
            except MCPError:  # refused before the protocol; it keeps the reason to itself
                _say({"error": True, "text": "", "data": {"reason": "".join(refusals[-1:])}})


def _shown(result: Any) -> dict[str, Any]:
    text = "\n".join(block.text for block in result.content if block.type == "text")
    return {"error": result.is_error, "text": text, "data": result.structured_content}


def _cap(cap_file: str) -> str:
    return Path(cap_file).read_text().strip()


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb for verb in (ask, knock, named, call, mint, forge, mcp_http, mcp_stdio)
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
