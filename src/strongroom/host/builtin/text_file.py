"""A small text file that processes, threads and people edit. It is read and replaced as a whole.

A change takes four steps. It takes a lock file beside the text, with the name that Hermes uses, so that Hermes waits
too. It reads the current text, writes a draft of mode 0600, and renames the draft over the text. Draft and directory
are flushed to disk before the change counts, so a killed process leaves either the old text or the new text.

People take no lock when they edit: a text that somebody saved in the meantime is not overwritten. A symbolic link stays
a link. This module knows nothing of the text's meaning.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from strongroom.errors import InvalidRequest, StoreUnavailable, VersionConflict
from strongroom.private_files import make_directory

MOST_BYTES = 1 << 20
_POLL_SECONDS = 0.002
_UNTOUCHED = "nothing was changed"

Stamp = tuple[int, int, int] | None
"""The version of a file that was read. None if there was no file."""


class TextFile:
    """One text file. All threads and processes change it one at a time."""

    def __init__(self, path: Path, *, patience: float = 5.0) -> None:
        """Set the path of the file. `patience` is how many seconds a change waits for other writers."""
        self.path = path
        self._patience = patience

    def read(self) -> str:
        """The text of the file. Empty if there is no file."""
        return self._read(self._target())[0]

    def change(self, edit: Callable[[str], str]) -> None:
        """Replace the text by the result of `edit`. An error, even in `edit`, leaves the file as it was.

        Returns when the new text is on disk. An unchanged text is not written.
        """
        try:
            make_directory(self.path.parent)
        except OSError as error:
            raise _unavailable("make", self.path.parent, error) from None
        target = self._target()
        with self._locked(target):
            before, seen = self._read(target)
            after = edit(before)
            if after != before:
                self._replace(target, after.encode(), seen)

    def _target(self) -> Path:
        try:
            return self.path.resolve()
        except (OSError, RuntimeError):  # Python before 3.13 raises RuntimeError for a loop of links
            raise StoreUnavailable(f"the link {self.path} leads to itself", hint="remove the link") from None

    def _read(self, target: Path) -> tuple[str, Stamp]:
        try:
            # O_NONBLOCK: opening a pipe of that name would wait for ever.
            with open(target, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
                status = os.fstat(file.fileno())
                _check_kind(target, status)
                return file.read(MOST_BYTES).decode(), _stamp(status)
        except FileNotFoundError:
            return "", None
        except OSError as error:
            raise _unavailable("read", target, error) from None
        except UnicodeDecodeError:
            raise StoreUnavailable(
                f"the file {target} is not UTF-8 text", hint="save the file as UTF-8; it was not changed"
            ) from None

    @contextmanager
    def _locked(self, target: Path) -> Iterator[None]:
        path = target.with_name(target.name + ".lock")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unavailable("open", path, error) from None
        try:
            self._take(lock, path)
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # unlocked explicitly: a child forked meanwhile shares the lock
            os.close(lock)

    def _take(self, lock: int, path: Path) -> None:
        """Take the lock file by polling, because a blocking lock has no time limit."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"another process has kept the lock file {path} for too long",
                        hint="find the process that holds the lock, and end it",
                    ) from None
                time.sleep(_POLL_SECONDS)

    def _replace(self, target: Path, data: bytes, seen: Stamp) -> None:
        draft = target.with_name(f".{target.name}.draft")
        try:
            _write_draft(draft, data)
            if _stamp_now(target) != seen:
                raise VersionConflict(
                    f"the file {target} was saved by somebody else just now", hint="read the file again"
                )
            os.replace(draft, target)
        except OSError as error:
            raise _unavailable("write", target, error, _UNTOUCHED) from None
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        _settle(target)


def _check_kind(target: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StoreUnavailable(f"the path {target} is not a regular file", hint=f"move {target} out of the way")
    if status.st_size > MOST_BYTES:
        raise InvalidRequest(
            f"the file {target} is larger than {MOST_BYTES} bytes", hint="shorten the file; it was not changed"
        )


def _write_draft(draft: Path, data: bytes) -> None:
    draft.unlink(missing_ok=True)  # left by a killed process: we hold the lock
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _settle(target: Path) -> None:
    """Flush the directory to disk, so that the rename is durable."""
    try:
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system cannot flush directories
            hint = "the change is in the file, and may be gone after a crash"
            raise _unavailable("write", target.parent, error, hint) from None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _stamp_now(target: Path) -> Stamp:
    try:
        return _stamp(target.stat())
    except FileNotFoundError:
        return None


def _unavailable(verb: str, path: Path, error: OSError, hint: str = "") -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot {verb} {path}: {error.strerror or type(error).__name__}",
        hint=hint or "look at permissions and free space",
    )
