"""Seeing what a provider does below its own code: connections and opened files, by Python's audit events.

Events of other threads are counted where that is asked for; those of other processes, and of libraries that go past
Python, are not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NETWORK = frozenset(
    f"socket.{name}" for name in ("connect", "getaddrinfo", "gethostbyname", "gethostbyaddr", "sendto", "sendmsg")
)
FILES = frozenset({"open", "sqlite3.connect"})


class Watch:
    """Counts events while it looks, and refuses them if told to. Lasts as long as the process."""

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
            raise ConnectionRefusedError("no network here")

    def _is_looking(self) -> bool:
        return bool(self._thread) if self._everywhere else threading.get_ident() == self._thread


def _is_local(event: str, args: tuple[Any, ...]) -> bool:
    """Whether a socket's address is a path of this machine."""
    return event in ("socket.connect", "socket.sendto", "socket.sendmsg") and not isinstance(args[1], tuple)
