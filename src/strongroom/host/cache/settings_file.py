"""A settings file that is read again only when it changed: what a provider's cheap signature check is made of.

Each look at `value` asks for the file's status, which costs no reading. The file is read if time of change, size, inode
or device differ from those of the last reading, and parsed if its bytes do. Two edits of equal size in one tick of the
file system's clock have equal statuses; so a file that changed within the last `TICK` before it was read is read again
at the next look. On a file system whose clock is coarser than that, such an edit stays unseen until the next one. A
file that is put in place by renaming another over it is never seen half-written; one that is written in place may be.

A file that is not there counts as an empty one. A file that cannot be read or parsed leaves the last good value in
place: it is said once in the log and stands in `broken`. If there was no good value yet, the look is refused, because
going on with defaults would be guessing. Not responsible for what the file means.
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
"""Bytes that a settings file may have."""
TICK = 50_000_000
"""Nanoseconds. The clocks of local file systems advance every 10 ms or more often."""

T = TypeVar("T")
_Status = tuple[int, int, int, int, int]
_MISSING: _Status = (0, 0, 0, 0, 0)
_BROKEN = (StrongroomError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What a parser raises about a text. Anything else is a defect of the parser and is passed on."""


class Watched(Generic[T]):
    """A file's parsed content, never older than the last look. May be shared between threads."""

    def __init__(self, path: Path, parse: Callable[[str], T], *, now: Callable[[], int] = time.time_ns) -> None:
        """`parse("")` gives the defaults; it touches no file. `now` is the clock that stamps files, in nanoseconds."""
        self.path = path
        self.broken = ""
        """Why the file as it is now is not in use; empty if it is."""
        self._parse = parse
        self._now = now
        self._lock = threading.Lock()
        self._status: _Status | None = None
        """Of the last reading; None if the next look must read."""
        self._digest = b""
        self._good: tuple[T] | None = None

    @property
    def value(self) -> T:
        """What the file says now, or said when it last made sense."""
        with self._lock:
            self._look()
            if self._good is None:
                raise InvalidRequest(f"{self.path.name}: {self.broken}", hint=f"correct or remove {self.path}")
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
        # Without blocking: a pipe in the file's place must not hold the caller up.
        handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)  # before reading: a change during it differs from this
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
            LOGGER.warning("%s is not in use, the settings before it are: %s", self.path, why)
        self.broken = why


def _content(handle: int) -> bytes:
    with open(handle, "rb", closefd=False) as file:
        return file.read(LIMIT + 1)


def _status(found: os.stat_result) -> _Status:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def _why(error: Exception) -> str:
    # Our own errors hold no text of a file; others may quote the line they stumbled over, and it may hold a secret.
    return error.message if isinstance(error, StrongroomError) else f"it cannot be parsed ({type(error).__name__})"
