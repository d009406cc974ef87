"""The command line in a process of its own, with the login of a server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Done
from tests.s3.proxy import proxied
from tests.s3.servers import Server

PATIENCE = 300


class Shell:
    """A home with the login of a server in its environment, and no secret anywhere else."""

    def __init__(self, server: Server, home: Path) -> None:
        self.server = server
        self.home = home
        self.env = server.environment() | {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm"}

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-m", "strongroom", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.home, env=self.env | more, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *words: str, **more: str) -> Done:
        with self.start(*words, **more) as child:
            out, err = child.communicate(timeout=PATIENCE)
        for secret in (self.server.login.secret, more.get("AWS_SECRET_ACCESS_KEY", self.server.login.secret)):
            assert secret not in out + err
        return Done(child.returncode, out, err)

    def killed_at(self, words: list[str], holds: Callable[[bytes], bool]) -> None:
        """Kill a command at its first request for which `holds` is true, and at none before, however fast it is."""
        with proxied(self.server.endpoints[0]) as way:
            way.holds = holds
            with self.start(*words, AWS_ENDPOINT_URL=way.endpoint) as child:
                is_held = way.holding.wait(PATIENCE)
                child.send_signal(signal.SIGKILL)
                out, err = child.communicate(timeout=PATIENCE)
        assert is_held, out + err

    def killed(self, words: list[str], when: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Start a command, and kill it as soon as something is so."""
        with self.start(*words) as child:
            end = time.monotonic() + patience
            while not when() and child.poll() is None and time.monotonic() < end:
                pass
            child.send_signal(signal.SIGKILL)
            out, err = child.communicate(timeout=patience)
            assert child.returncode == -signal.SIGKILL, out + err
