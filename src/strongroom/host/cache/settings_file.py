"""A settings file that is read again only after a change. A provider can then check its signature cheaply.

Each access to `value` costs one `stat` call. The file is read if its time of change, size, inode or device changed
since the last reading, and parsed if its bytes changed.

Two edits of equal size within one tick of the file system's clock have equal statuses. So a file that changed less than
`TICK` before it was read is read again at the next access. On a file system with a coarser clock, such an edit stays
unseen until the next edit. A file that is renamed into place is never seen half-written; a file that is written in
place may be.

A missing file counts as an empty file. If a file cannot be read or parsed, the last good value stays in use. The error
is logged once and explained in `broken`. If there was no good value yet, `value` raises, because defaults would be a
guess. This module does not know the meaning of the file.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from strongroom.errors import InvalidRequest, StrongroomError

LOGGER = logging.getLogger("strongroom.host")
LIMIT = 1 << 20
"""The size of the largest settings file, in bytes."""
TICK = 50_000_000
"""Nanoseconds for which a new status is not trusted. Clocks of local file systems advance every 10 ms or more often."""

T = TypeVar("T")
_Status = tuple[int, int, int, int, int]
_MISSING: _Status = (0, 0, 0, 0, 0)
_BROKEN = (StrongroomError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors that a parser raises for a bad text. Any other error is a defect of the parser and is passed on."""


class Watched(Generic[T]):
    """A file's parsed content. The file is checked at each access. May be shared between threads."""

    def __init__(self, path: Path, parse: Callable[[str], T], *, now: Callable[[], int] = time.time_ns) -> None:
        """Take the file and its parser. `parse("")` must give the defaults, and must open no file.

        `now` is the clock of file times, in nanoseconds.
        """
        self.path = path
        self.broken = ""
        """Why the current file is not in use. Empty if it is in use."""
        self._parse = parse
        self._now = now
        self._lock = threading.Lock()
        self._status: _Status | None = None
        """The file's status at the last reading. None if the next access must read the file."""
        self._digest = b""
        self._good: tuple[T] | None = None

    @property
    def value(self) -> T:
        """The file's current settings, or the last good settings if the file has an error."""
        with self._lock:
            self._look()
            if self._good is None:
                raise InvalidRequest(f"{self.path.name}: {self.broken}", hint=f"correct or remove the file {self.path}")
            return self._good[0]

    def _look(self) -> None:
        try:
            if _status(os.stat(self.path)) != self._status:
                self._status = self._read()
        except (FileNotFoundError, NotADirectoryError):
            if self._status != _MISSING:
                self._take(b"")
                self._status = _MISSING
        except OSError as error:
            self._status, self._digest = None, b""
            self._set_aside(f"it cannot be read: {error.strerror}")

    def _read(self) -> _Status | None:
        # O_NONBLOCK: a pipe in the file's place must not block the caller.
        handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)  # before reading, so that a change during it shows as a difference
            data = _content(handle) if stat.S_ISREG(found.st_mode) else None
        finally:
            os.close(handle)
        is_settled = abs(self._now() - found.st_ctime_ns) > TICK
        if data is None or len(data) > LIMIT:
            self._digest = b""
            self._set_aside(f"it is not a file of at most {LIMIT} bytes")
        else:
            self._take(data)
        return _status(found) if is_settled else None

    def _take(self, data: bytes) -> None:
        digest = sha256(data).digest()
        if digest == self._digest:
            return
        try:
            self._good = (self._parse(data.decode("utf-8-sig")),)
            self.broken = ""
        except _BROKEN as error:
            self._set_aside(_why(error))
        self._digest = digest

    def _set_aside(self, why: str) -> None:
        if why != self.broken:
            LOGGER.warning("the file %s has an error, so its last valid version is in use: %s", self.path, why)
        self.broken = why


def _content(handle: int) -> bytes:
    with open(handle, "rb", closefd=False) as file:
        return file.read(LIMIT + 1)


def status_of(path: Path) -> tuple[int, ...]:
    """The parts of a file's status that a new text or a new mode changes. Empty if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return *_status(found), found.st_mode


def _status(found: os.stat_result) -> _Status:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def _why(error: Exception) -> str:
    # Our own errors hold no text of a file. Others may quote the line, which may hold a secret.
    return error.message if isinstance(error, StrongroomError) else f"it cannot be parsed ({type(error).__name__})"
