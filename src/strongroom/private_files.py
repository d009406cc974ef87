"""Makes directories and files that only their owner may read, and writes files durably, whatever they contain."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO


def make_directory(directory: Path) -> None:
    """Make a directory and its missing parents, all with mode 0700. Existing directories are not changed.

    `Path.mkdir` applies its mode only to the last directory: with umask 000, all users could use the parents.
    """
    missing = list(takewhile(lambda above: not above.exists(), directory.parents))
    for one in (*reversed(missing), directory):
        one.mkdir(mode=0o700, exist_ok=True)


def write_file(path: Path, data: bytes, *, new: bool, durable: bool = True) -> None:
    """Write a file of mode 0600 atomically: into a temporary file, which is then renamed.

    With `new`, an existing file is never replaced. A file that is not written `durable` may be lost by a power failure,
    after which the old file is there again.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=draft(path.name))
    try:
        with os.fdopen(handle, "wb") as file:  # mkstemp makes it 0600
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())  # before the name, which must never stand for half a file
        if new:
            os.link(temporary, path)  # unlike a rename, it fails if the name exists
        else:
            os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    if durable:
        sync_directory(path.parent)


def open_file(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading. For a pipe, a device or a directory, raises OSError and never blocks."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return open(handle, "rb")


def read_file(path: Path, limit: int) -> bytes:
    """Read a file. A file of more than `limit` bytes raises OSError."""
    with open_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes")
    return data


def sync_data(file: int) -> None:
    """Flush a file's data and length to disk. Its times are not flushed, if the system can leave them out."""
    getattr(os, "fdatasync", os.fsync)(file)  # macOS has none


def sync_directory(directory: Path) -> None:
    """Flush the names in a directory to disk. Only after this, a new or renamed file is durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def draft(name: str) -> str:
    """The prefix of the names of temporary files, which are renamed to `name` when they are complete."""
    return f".{name}-"
