"""A stdio MCP server for tests: the vault in a directory, the cap from the environment, as the CLI would run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import strongroom
from strongroom import FileKeys
from strongroom.server.mcp import run_stdio


def main(directory: Path) -> None:
    with strongroom.open(directory / "vault", keys=FileKeys(directory / "keys")) as vault:
        if "PRINT_SOMETHING" in os.environ:
            door = _Printing(vault.door(os.environ["STRONGROOM_CAP"], source="mcp"))
            run_stdio(door)
        else:
            run_stdio(vault.door(os.environ["STRONGROOM_CAP"], source="mcp"))
    sys.stderr.write("the vault is closed\n")


class _Printing:
    """A door that does what a careless library does."""

    def __init__(self, door: strongroom.memory.local_transport.LocalTransport) -> None:
        self._door = door

    def call(self, call: strongroom.api.Call[strongroom.api.A]) -> strongroom.api.A:
        print("this must not reach the protocol", flush=True)  # noqa: T201
        os.write(1, b"nor this\n")
        return self._door.call(call)

    def with_cap(self, token: str) -> strongroom.api.Transport:
        return _Printing(self._door.with_cap(token))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
