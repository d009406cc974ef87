"""Real `strongroom serve` processes over one bucket: started, killed by their own pid, and started again.

Each start is a worker of its own, with a log of its own. Knows nothing of what is asked of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.s3.servers import Server

_PATIENCE = 300.0


class Worker:
    """One process that serves the vault on a port of its own."""

    def __init__(self, place: str, environment: Mapping[str, str], said: Path) -> None:
        command = [sys.executable, "-W", "error", "-m", "strongroom", "serve", "--store", place]
        command += ["--listen", "127.0.0.1:0", "--json", "--no-mcp", "--holder-rate", "0", "--address-rate", "0"]
        self._said = said
        with said.open("ab") as errors:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        self.url = ""

    def wait(self) -> None:
        """Wait until it listens; AssertionError with what it said if it ends first, or is mute."""
        assert self._process.stdout is not None
        late = threading.Timer(_PATIENCE, self._process.kill)
        late.start()
        try:
            told = self._process.stdout.readline()
        finally:
            late.cancel()
        assert told, f"a worker did not come up: {self._said.read_text()[-2000:]}"
        self.url = json.loads(told)["url"]

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._reap()

    def _reap(self) -> None:
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def stop(self) -> int:
        """SIGTERM; what it ended with."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()
        return self._process.returncode


class Fleet:
    """Some workers over one vault, spread over the server's gateways. Any of them may be killed at any time."""

    def __init__(self, server: Server, place: str, keys: Path, home: Path, count: int) -> None:
        self._server = server
        self._place = place
        self._keys = keys
        self._home = home
        self._guard = threading.Lock()
        self.started = 0
        """How many workers there ever were."""
        self.workers = [self._start(at) for at in range(count)]
        try:
            for worker in self.workers:
                worker.wait()
        except BaseException:
            self.kill()
            raise

    def _start(self, at: int) -> Worker:
        environment = self._server.environment(at % len(self._server.endpoints)) | {
            "HOME": str(self._home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "STRONGROOM_KEYS": str(self._keys),
        }
        self.started += 1
        return Worker(self._place, environment, self._home / f"worker.{at}.log")

    @property
    def urls(self) -> list[str]:
        """Where they listen, or did until they were killed."""
        with self._guard:
            return [worker.url for worker in self.workers]

    def replace(self, at: int) -> None:
        """Kill a worker, and start another one in its place."""
        self.workers[at].kill()
        new = self._start(at)
        try:
            new.wait()
        except BaseException:
            new.kill()
            raise
        with self._guard:
            self.workers[at] = new

    def stop(self) -> list[int]:
        """Have all of them stop; what they ended with."""
        return [worker.stop() for worker in self.workers]

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()


@contextmanager
def fleet(server: Server, place: str, keys: Path, count: int) -> Iterator[Fleet]:
    """A fleet until the block ends."""
    with tempfile.TemporaryDirectory(prefix="sr-fleet-") as home:
        made = Fleet(server, place, keys, Path(home), count)
        try:
            yield made
        finally:
            made.kill()
