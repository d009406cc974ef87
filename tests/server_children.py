"""A real server process for tests: it serves a vault on a unix socket until it is killed, or kills itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import apsw

from strongroom.server import listen
from strongroom.server.server_options import Options
from strongroom.store.sqlite import SqliteStore
from tests.store.children import Place, Process

Moment = Literal["never", "before", "after"]
"""When a server kills itself: never, or before or after its first commit is in the file."""

OPTIONS = Options(holder_rate=0, address_rate=0, checkpoint_seconds=0, mcp=False)


def serve_vault(pipe: Connection, place: Place, socket: Path, fatal: Moment) -> None:
    """Serve until killed. Says the URL once it listens."""
    with place.open() as vault:
        if fatal != "never":
            SqliteStore._transaction = _deadly(fatal)  # type: ignore[method-assign, assignment]
        listen.serve(vault, listen.ListenPlace(unix=socket), OPTIONS, started=pipe.send)


def _deadly(moment: Moment) -> object:
    """A transaction that is the last thing its process does: everything is written, then committed or not."""
    real = SqliteStore._transaction

    def transaction(store: SqliteStore, work: Callable[[apsw.Connection], object]) -> None:
        def deadly(connection: apsw.Connection) -> None:
            work(connection)
            if moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)

        real(store, deadly)
        os.kill(os.getpid(), signal.SIGKILL)

    return transaction


class Service:
    """A server that can be killed and started again on the same vault and the same socket."""

    def __init__(self, place: Place, socket: Path) -> None:
        self._place = place
        self._socket = socket
        self._process: Process | None = None

    def start(self, *, fatal: Moment = "never") -> str:
        """Start it; the URL at which it listens by now."""
        self._process = Process(serve_vault, self._place, self._socket, fatal)
        url = self._process.pipe.recv()
        assert isinstance(url, str)
        return url

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def wait_until_dead(self) -> None:
        """Wait for a server that kills itself: its end of the pipe closes with it."""
        assert self._process is not None
        with suppress(EOFError, ConnectionResetError):
            self._process.pipe.recv()
            raise AssertionError("it said something more")
        self.kill()
