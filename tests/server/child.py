"""A server process for tests: opens the vault it is told, serves it, and prints where it listens.

What it is told is one JSON object. It ends well at SIGTERM and SIGINT as the command line does: the HTTP library raises
them again once it has stopped.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import strongroom
from strongroom import FileKeys
from strongroom.server import json_log
from strongroom.server.listen import ListenPlace, serve
from strongroom.server.server_options import Options


def main(told: dict[str, Any]) -> None:
    json_log.to_stderr()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    directory = Path(told["directory"])
    place: dict[str, Any] = {"port": 0, "unix": None if told["unix"] is None else Path(told["unix"])}
    place |= {name: Path(value) if name.startswith("tls") else value for name, value in told["place"].items()}
    options = Options(**told["options"])
    with strongroom.open(directory / "vault", keys=FileKeys(directory / "keys")) as vault:
        serve(vault, ListenPlace(**place), options, started=lambda url: print(url, flush=True))  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
