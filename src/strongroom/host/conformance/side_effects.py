"""Observation of a provider's connections, processes and files, by Python's audit events.

Events of other threads are counted on request. Other processes, and libraries that bypass Python, are not observed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NETWORK = frozenset(
    f"socket.{name}" for name in ("connect", "getaddrinfo", "gethostbyname", "gethostbyaddr", "sendto", "sendmsg")
)
PROCESSES = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn"})
FILES = frozenset({"open", "sqlite3.connect"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND
_NO_FILES = tuple(map(Path, ("/dev", "/proc", "/sys")))


class Watch:
    """Records audit events inside `with looking()`, and refuses them on request. Python cannot remove an audit hook."""

    def __init__(self, events: frozenset[str], *, refuse: bool = False, everywhere: bool = False) -> None:
        self.seen: list[str] = []
        self._events, self._refuse, self._everywhere = events, refuse, everywhere
        self._thread = 0
        sys.addaudithook(self._heard)

    @contextmanager
    def looking(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = 0

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in self._events or not self._is_looking() or _is_local(event, args):
            return
        self.seen.append(event)
        if self._refuse:
            raise ConnectionRefusedError("this check refuses network connections")

    def _is_looking(self) -> bool:
        return bool(self._thread) if self._everywhere else threading.get_ident() == self._thread


class Written:
    """Records the files that Python code of this process opens for writing, from now on, in any directory."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        sys.addaudithook(self._heard)

    def paths(self) -> list[Path]:
        """The recorded files that exist now, without devices and files of the system such as `/proc`."""
        found = {Path(name).absolute() for name in self._names}
        return sorted(one for one in found if not any(one.is_relative_to(top) for top in _NO_FILES) and one.is_file())

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" or (event == "open" and _is_for_writing(*args)):
            with suppress(TypeError, ValueError):  # an open file's number, or not a name
                self._names.add(os.fsdecode(args[0]))


def _is_for_writing(name: object, mode: object, flags: object) -> bool:
    by_mode = isinstance(mode, str) and bool(set(mode) & set("wax+"))
    return not isinstance(name, int) and (by_mode or (isinstance(flags, int) and bool(flags & _WRITING)))


def _is_local(event: str, args: tuple[Any, ...]) -> bool:
    """True if the address of a socket is local to this machine, such as a path."""
    return event in ("socket.connect", "socket.sendto", "socket.sendmsg") and not isinstance(args[1], tuple)
