"""The base class of a memory: it holds the transport of the memory's calls, and closes it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from strongroom.api import Transport

H = TypeVar("H", bound="MemoryHandle")


class MemoryHandle:
    """Holds the transport for one cap, and is a context manager that closes it. Thread-safe."""

    def __init__(self, door: Transport, *, close: Callable[[], None] | None = None) -> None:
        self._door = door
        self._close = close

    def __repr__(self) -> str:
        return "<memory behind a cap>"

    @property
    def door(self) -> Transport:
        """The transport that carries the calls, for direct use."""
        return self._door

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to a server. A vault in this process stays open: the code that opened it closes it."""
        if self._close is not None:
            self._close()
