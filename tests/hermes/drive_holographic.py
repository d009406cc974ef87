"""One session of a conversation with the provider that Hermes bundles, loaded by our host. Each session is a process.

Prints what a test outside cannot see, as JSON on the last line.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from strongroom.host.agent_session import AgentSession
from strongroom.host.host import Host
from tests.hermes.runtime import Runtime
from tests.hermes.watch import Watch, scratch


class _Complaints(logging.Handler):
    """Collects what the host logs as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def main(model_url: str, home: str, session_id: str, *messages: str) -> None:
    watch, complaints = Watch(), _Complaints()
    logging.getLogger("strongroom.host").addHandler(complaints)
    host = Host(Path(home), "holographic", keys=Path(scratch(), "keys"))
    talk = Runtime(host.manager(AgentSession(id=session_id)), model_url)
    provider: Any = talk.memory.external
    replies = [talk.turn(message) for message in messages]
    open_before = provider._store is not None
    talk.end()
    said = {
        "replies": replies,
        "released": open_before and provider._store is None,
        "as_installed": _as_installed(sys.modules[type(provider).__module__].__file__ or ""),
        "complaints": complaints.said,
    }
    host.close()
    said |= {"outside": watch.outside(scratch()), "connected": sorted(watch.connected)}
    sys.stdout.write("\n" + json.dumps(said) + "\n")


def _as_installed(source: str) -> str:
    """The version of Hermes whose record of files has this very file, or nothing."""
    hermes = distribution("hermes-agent")
    digest = base64.urlsafe_b64encode(hashlib.sha256(Path(source).read_bytes()).digest()).rstrip(b"=").decode()
    recorded = {str(file.locate()): file.hash.value for file in hermes.files or () if file.hash}
    return hermes.version if recorded.get(source) == digest else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
