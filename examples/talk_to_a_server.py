"""The same steps against a vault in this process and against a server: only the line that gets the memory differs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import strongroom


def steps(memory: strongroom.Memory) -> None:
    """What an agent does, wherever the vault is."""
    memory.put("Trip to Chengdu, May 25-29, 2026", namespace="travel")
    print("recalled:", memory.get("when is the trip?")[0].text)
    try:
        memory.get("allergies", namespaces=["personal"])
    except strongroom.errors.CapNamespaceDenied as denial:
        print("denied:", denial.reason)


@contextmanager
def serving(vault: Path) -> Iterator[str]:
    """`strongroom serve`, which a service manager would start, and its address."""
    command = [sys.executable, "-m", "strongroom", "serve", "--vault", str(vault), "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()


async def at_once(memory: strongroom.Memory) -> None:
    """The same methods for asynchronous code, awaited side by side."""
    waiting = strongroom.AsyncMemory(memory)
    found = await asyncio.gather(*(waiting.get(query) for query in ("trip", "Chengdu", "May 25")))
    print("answers at once:", len(found))


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "vault"
        os.environ["STRONGROOM_KEYS"] = str(Path(scratch) / "keys")  # here and in the server
        with strongroom.create(place) as vault:
            cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=3600)
            steps(vault.memory(cap))
            with serving(place) as url, strongroom.connect(url, cap) as memory:
                steps(memory)
                # Narrowing needs no server and no keys: a helper gets less of what this process may.
                helper = strongroom.attenuate(cap, ops=["get"], ttl=60)
                with strongroom.connect(url, helper) as reader:
                    asyncio.run(at_once(reader))


if __name__ == "__main__":
    main()
