"""The files of journals: created and opened under a lock, written whole. This module does not know their content."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from strongroom.errors import JournalUnavailable
from strongroom.private_files import make_directory, sync_directory

log = logging.getLogger("strongroom.host")

SUFFIX = ".journal"
DRAFT = ".draft"


def create_locked(path: Path) -> int:
    """Create a file and lock it before it gets its name. An unlocked file would be taken for left behind."""
    try:
        make_directory(path.parent)
    except OSError as error:
        raise JournalUnavailable(f"cannot make the directory {path.parent}: {error.strerror}") from None
    file = create_locked_draft(path)
    draft = path.with_suffix(DRAFT)
    try:
        path.hardlink_to(draft)  # unlike a rename, it fails if the name is taken
        draft.unlink()
        sync_directory(path.parent)
    except OSError as error:
        os.close(file)
        raise JournalUnavailable(f"cannot make the journal {path}: {error.strerror}") from None
    return file


def create_locked_draft(path: Path) -> int:
    """Create a locked draft of a journal, to be renamed to `path` later."""
    draft = path.with_suffix(DRAFT)
    try:
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except OSError as error:
        raise JournalUnavailable(f"cannot make the journal {path}: {error.strerror}") from None


def open_locked(path: Path) -> int | None:
    """Open and lock a file. None if another process holds it, or if the name belongs to another file by now."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.error("the journal %s cannot be read: %s", path.name, error.strerror)
        return None
    with suppress(OSError):  # the flock fails if a host holds it, the stat if it was removed
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and os.stat(path).st_ino == found.st_ino:
            return file
    os.close(file)
    return None


def read_whole(file: int) -> bytes:
    """The whole content of an open file."""
    with os.fdopen(os.dup(file), "rb") as copy:
        copy.seek(0)
        return copy.read()


def write_whole(file: int, data: bytes) -> None:
    """Write all of the data, with as many write calls as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
