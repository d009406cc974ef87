"""Real servers for tests: one in a thread of this process, one as a process of its own. Both on real sockets."""

from __future__ import annotations

import json
import os
import select
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from strongroom import Vault
from strongroom.server import listen
from strongroom.server.http.application import Application
from strongroom.server.listen import ListenPlace
from strongroom.server.server_options import Options
from tests.server.talking import Address, Answer, Connection, exchange, request

PATIENCE = 60
"""Seconds after which a test gives up on a process: only a hang takes so long."""


@dataclass(frozen=True)
class Running:
    """A server that answers at `address` until its context ends. `app` and `vault` are there in a thread only."""

    address: Address
    vault: Vault
    server: uvicorn.Server

    @property
    def app(self) -> Application:
        app = self.server.config.app
        assert isinstance(app, Application)
        return app

    def ask(self, method: str, path: str, cap: str | None = None, body: Any = None, **more: Any) -> Answer:
        """One request on a connection of its own."""
        return exchange(self.address, request(method, path, cap, body, **more))

    def connect(self) -> Connection:
        return Connection(self.address)


@contextmanager
def serving_in_thread(
    vault: Vault, options: Options, place: ListenPlace | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Running]:
    """The real application behind the real protocol, in a thread. A tick of the server ends it."""
    chosen = place or ListenPlace(port=0)
    server = listen.server_for(vault, chosen, options)
    bound = listen.listen(chosen)
    address: Address = str(chosen.unix) if chosen.unix is not None else bound.getsockname()[:2]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        with Connection(address, tls=tls) as first:  # it waits in the listener's queue until the server is up
            first.send(request("GET", "/healthz"))
            first.answer()
        yield Running(address, vault, server)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        bound.close()
        assert not thread.is_alive()


@dataclass
class Child:
    """A server process. `url` is where it listens; `stderr` grows while it runs."""

    process: subprocess.Popen[bytes]
    url: str
    address: Address
    log: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def stderr(self) -> str:
        return self.log.read_text()

    def events(self) -> list[dict[str, Any]]:
        """The log's lines; one that is no JSON object fails the test."""
        found = [json.loads(line) for line in self.stderr.splitlines()]
        assert all(isinstance(one, dict) for one in found)
        return found

    def ask(self, method: str, path: str, cap: str | None = None, body: Any = None, **more: Any) -> Answer:
        return exchange(self.address, request(method, path, cap, body, **more))

    def connect(self) -> Connection:
        return Connection(self.address)

    def resident(self) -> int:
        """The bytes of RAM that the process holds."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it and say how it ended."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@contextmanager
def serving_as_process(
    directory: Path, log: Path, *, unix: Path | None = None, place: dict[str, Any] | None = None, **options: Any
) -> Iterator[Child]:
    """A process that serves the vault in `directory`, which holds `vault` and `keys`."""
    settings = {"directory": str(directory), "unix": None if unix is None else str(unix), "place": place or {}}
    command = [sys.executable, "-m", "tests.server.child", json.dumps({**settings, "options": options})]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=Path(__file__).parents[2])
    try:
        url = _first_line(process)
        yield Child(process, url, _address_of(url), log, options)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def _first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if ready else b""
    assert line, "the server did not start"
    return line.decode().strip()


def _address_of(url: str) -> Address:
    scheme, _, rest = url.partition("://")
    if scheme == "unix":
        return rest
    host, _, port = rest.rpartition(":")
    return host.strip("[]"), int(port)
