"""A server process for tests: opens the vault it is told, serves it, and prints where it listens.

What it is told is one JSON object. `fault` names something to break before the server starts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import strongroom
from strongroom import FileKeys
from strongroom.server import logs
from strongroom.server.options import Options
from strongroom.server.serving import Place, serve


def main(told: dict[str, Any]) -> None:
    logs.to_stderr()
    directory = Path(told["directory"])
    place = {name: Path(value) if name.startswith("tls") else value for name, value in told["place"].items()}
    unix = None if told["unix"] is None else Path(told["unix"])
    options = Options(**{name: frozenset(v) if isinstance(v, list) else v for name, v in told["options"].items()})
    with strongroom.open(directory / "vault", keys=FileKeys(directory / "keys")) as vault:
        serve(vault, Place(**{"port": 0, "unix": unix, **place}), options, started=lambda url: print(url, flush=True))  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
