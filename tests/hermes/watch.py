"""Notes which files a process opens for writing and which addresses it connects to, from Python's audit events.

What native code does by itself raises no such event; the directories are compared as well for that.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CHANGES = {"os.mkdir": 1, "os.remove": 1, "os.rmdir": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.chmod": 1}


class Watch:
    def __init__(self) -> None:
        self.written: set[str] = set()
        self.connected: set[str] = set()
        sys.addaudithook(self._heard)

    def outside(self, root: str) -> list[str]:
        """What was written that is not below `root`."""
        below = os.path.realpath(root) + os.sep
        real = {os.path.realpath(path) for path in self.written}
        return sorted(path for path in real if not path.startswith(below) and path != os.devnull)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING:
                self._note(path)
        elif event in _CHANGES:
            for path in arguments[: _CHANGES[event]]:
                self._note(path)
        elif event == "sqlite3.connect":
            self._note(arguments[0])
        elif event == "socket.connect":
            self.connected.add(str(arguments[1][0] if isinstance(arguments[1], tuple) else arguments[1]))

    def _note(self, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            self.written.add(os.path.abspath(os.fsdecode(path)))


def scratch() -> str:
    """The directory below which everything of this process belongs: the parent of its temporary directory."""
    return os.path.dirname(tempfile.gettempdir())
