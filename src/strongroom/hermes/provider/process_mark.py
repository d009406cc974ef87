"""Shows that a process is alive, in a directory that several processes share. The process holds a lock on a file.

The system frees the lock on this `.alive` file when the process dies. An unfinished file has the process's run in its
name. So another process can tell whether somebody will still finish that file.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path

from strongroom.private_files import make_directory, sync_directory

ALIVE = ".alive"


class ProcessMark:
    """The `.alive` file of this process, and a check of other processes. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.run = os.urandom(8).hex()
        """A random name for this run of the process."""
        self.handle = -1
        """The handle of the open `.alive` file; -1 if it is not open."""
        self._process = os.getpid()
        self._guard = threading.Lock()

    def show(self) -> None:
        """Take and hold the lock that shows that this process is alive. Raises OSError."""
        with self._guard:
            if self._process != os.getpid():  # after a fork the lock is the parent's
                self.run, self.handle, self._process = os.urandom(8).hex(), -1, os.getpid()
            if self.handle < 0:
                make_directory(self._directory)
                self.handle = self._held_file()
                sync_directory(self._directory)

    def _held_file(self) -> int:
        path = self._directory / f"{self.run}{ALIVE}"
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if lock(handle) and os.fstat(handle).st_nlink:
                return handle
            os.close(handle)  # another process removed it as a dead one's, between the two calls

    def is_dead(self, run: str, *, remove: bool = False) -> bool:
        """Whether the process with this run name is known to be dead. `remove` also removes a dead process's `.alive`
        file.
        """
        path = self._directory / f"{run}{ALIVE}"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            is_dead = lock(handle)
            if is_dead and remove:
                with suppress(OSError):
                    path.unlink()
            return is_dead
        finally:
            os.close(handle)


def lock(handle: int) -> bool:
    """Try to lock an open file. Returns False if another process has the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
