"""Server processes for tests: started in a scratch directory, killed by their own pid, gone when their owner is.

A guard holds the list of pids and the directory. It ends them when its pipe closes, so that a test run that was killed
leaves nothing behind either. Knows nothing of S3.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 90.0
_POLL = 0.1
_BELOW_OUTGOING = (10_000, 32_000)
"""The system gives ports above these to connections, and might give away one that a server is about to take."""
_GUARD = 'while read -r line; do pids=$line; done; kill -9 $pids 2>/dev/null; rm -rf "$1" || { sleep 1; rm -rf "$1"; }'


class NotStarted(Exception):
    """A server did not come up. Holds the end of what it said."""


@dataclass(slots=True)
class _Daemon:
    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None


class Daemons:
    """Named processes with one scratch directory. Each can be killed, and started again as it was."""

    def __init__(self, short: str) -> None:
        self.place = Path(tempfile.mkdtemp(prefix=f"sr-{short}-", dir="/tmp"))
        self.litter: list[Path] = []
        """Files that a process makes elsewhere, to be removed with the directory."""
        self._daemons: dict[str, _Daemon] = {}
        guard = ["sh", "-c", _GUARD, "guard", str(self.place)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a process; what it says goes to `name.out`."""
        self._daemons[name] = _Daemon(command, {**os.environ, **(environment or {})})
        self.restart(name)

    def restart(self, name: str) -> None:
        """Start a process that was killed, with the same command."""
        daemon = self._daemons[name]
        assert daemon.process is None, f"{name} runs"
        with (self.place / f"{name}.out").open("ab") as out:
            daemon.process = subprocess.Popen(
                daemon.command,
                env=daemon.environment,
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tell_guard()

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._daemons[name].process
        if process is not None:
            process.kill()
            process.wait()
            self._daemons[name].process = None
            self._tell_guard()

    def wait(self, name: str, is_up: Callable[[], bool]) -> None:
        """Wait until a process is up. Raises NotStarted if it ends first, or takes too long."""
        until = time.monotonic() + _PATIENCE
        while not is_up():
            process = self._daemons[name].process
            if process is None or process.poll() is not None or time.monotonic() > until:
                raise NotStarted(f"{name} did not come up; it said:\n{self.said(name)}")
            time.sleep(_POLL)

    def said(self, name: str) -> str:
        """The end of what a process said."""
        with suppress(FileNotFoundError):
            return (self.place / f"{name}.out").read_text(errors="replace")[-3000:]
        return ""

    def stop(self) -> None:
        """End everything, the last started first, and remove the directory."""
        for name in reversed(self._daemons):
            self.kill(name)
        shutil.rmtree(self.place, ignore_errors=True)
        for path in self.litter:
            path.unlink(missing_ok=True)
        self._guard.communicate()

    def _tell_guard(self) -> None:
        pids = [str(one.process.pid) for one in self._daemons.values() if one.process is not None]
        assert self._guard.stdin is not None
        self._guard.stdin.write(" ".join(pids).encode() + b"\n")
        self._guard.stdin.flush()


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on just now. Someone else may be quicker: be ready to ask again."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(*_BELOW_OUTGOING)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found
