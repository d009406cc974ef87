"""A process that goes on beside the story: it says one JSON document per line, and may be asked with lines.

The open reader, clients that stay connected, and servers are partners. They are waited for by what they say, never by
a clock, and are ended by the process that was started and no other.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strongroom.cli.demo_stage import PATIENCE, Unexpected


class Partner:
    """One such process. What it says on stderr is kept in `log`."""

    def __init__(self, command: Sequence[str], surroundings: Mapping[str, Any], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs
                command, text=True, encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                **surroundings,
            )  # fmt: skip

    def hear(self) -> Any:
        """The next document that it says."""
        if self.process.stdout is None:
            raise Unexpected("a process that can be heard", "none")
        watch = threading.Timer(PATIENCE, self.process.kill)
        watch.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watch.cancel()
        try:
            return json.loads(line)
        except ValueError:
            said = self._log.read_text(errors="replace").strip()
            raise Unexpected("a JSON document", line or said[-200:] or "it went away") from None

    def ask(self, line: str) -> Any:
        """Tell it a line, and return what it says to that."""
        if self.process.stdin is None:
            raise Unexpected("a process that can be asked", "none")
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Unexpected("a process that can be asked", "it went away") from None
        return self.hear()

    def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        """End it, if it has not ended yet, and say with which code it ended."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        except (BrokenPipeError, ValueError):  # its end of the pipe is gone, or ours was closed before
            self.process.wait(PATIENCE)
        return self.process.returncode
