"""Looking once: what a hook asks of files, it asks once, however many functions need it.

Outside of `Steady` every look is a new one. Errors are not remembered. A hook that comes a moment after another, in the
same turn, may go on with what that one found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
_Known = dict[Hashable, Any]

MOMENT = 0.05
"""Seconds for which what one hook found may serve the next, from when that one began."""


class _Thread(threading.local):
    known: _Known | None = None
    since = 0.0
    """When the first look was made, at the earliest."""


_thread = _Thread()


class Handover:
    """What one hook found, for the one that follows it."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: tuple[_Known, float] | None = None

    def leave(self) -> None:
        """Leave what was found so far on this thread."""
        if _thread.known is not None:
            self._found = (_thread.known, _thread.since)

    def take(self) -> _Known | None:
        """Take what was left a moment ago, once."""
        found, self._found = self._found, None
        return found[0] if found is not None and time.monotonic() - found[1] < MOMENT else None


class Steady:
    """For all that is done within it on this thread, what was found once stays found."""

    __slots__ = ("_before", "_is_inner")

    def __init__(self, before: Handover | None = None) -> None:
        self._before = before

    def __enter__(self) -> None:
        self._is_inner = _thread.known is not None
        if not self._is_inner:
            _thread.since = time.monotonic()
            _thread.known = (self._before.take() if self._before is not None else None) or {}

    def __exit__(self, *_: object) -> None:
        if not self._is_inner:
            _thread.known = None


def once(key: Hashable, find: Callable[[], T]) -> T:
    """What `find` gives, or gave before on this thread. The key is whatever is looked at, and quick to hash."""
    known = _thread.known
    if known is None:
        return find()
    if key not in known:
        known[key] = find()
    found: T = known[key]
    return found


def again() -> None:
    """Forget what was found: something was changed here."""
    if _thread.known is not None:
        _thread.known = {}
