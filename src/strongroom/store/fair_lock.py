"""A fair lock between processes: a pair of file locks that form a queue of length one.

Whoever holds the first lock gets the second one next, so a process that has just released the second lock cannot
overtake. SQLite's own busy handler gives no such guarantee: of two writers, one was starved (measured: 14,019 commits
against 568). The kernel releases the locks of a dead process, so no lock stays behind.
"""

from __future__ import annotations

import fcntl
import os
import random
import threading
import time
from pathlib import Path

from strongroom.errors import AuditUnavailable, StoreUnavailable

_POLL_SECONDS = 0.0005
WRITABLE = "is its disk full, or may this user not write there? Every call is written to the vault's log, a get too"
"""The hint for a file of the vault that cannot be written."""


class FairLock:
    """A lock for a `with` block: no other process and no other thread is in such a block at the same time."""

    def __init__(self, directory: Path, patience: float) -> None:
        self._patience = patience
        self._threads = threading.Lock()  # a file lock belongs to the whole process
        self._files: list[int] = []
        try:
            for name in ("vault.turn", "vault.lock"):
                self._files.append(_open(directory / name))
        except StoreUnavailable:
            self.close()
            raise

    def __enter__(self) -> None:
        """Take the lock. Raises AuditUnavailable after waiting for as long as the patience allows."""
        self._threads.acquire()
        try:
            if not self._files:
                raise StoreUnavailable("the vault is closed", hint="open the vault again")
            turn, lock = self._files
            deadline = time.monotonic() + self._patience
            _take(turn, deadline)
            try:
                _take(lock, deadline)
            finally:
                fcntl.flock(turn, fcntl.LOCK_UN)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def close(self) -> None:
        with self._threads:
            files, self._files = self._files, []
            for file in files:
                os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"cannot open the lock file {path}: {error.strerror}", hint=WRITABLE) from None


def _take(lock: int, deadline: float) -> None:
    """Take a file lock by polling.

    A blocking call has no time limit, and one stopped process could then stop all others.
    """
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise AuditUnavailable(
                    "another process has held the vault's lock for too long",
                    hint="find the stopped process that uses this vault, end it, and try again",
                ) from None
            time.sleep(_POLL_SECONDS * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
