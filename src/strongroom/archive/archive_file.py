"""Archive files: by default encrypted with a passphrase. A file is written completely or not at all.

By default no existing file is overwritten. An unencrypted archive is protected only by its mode, 0600.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from strongroom.archive.archive_format import ARCHIVE_LIMIT, Archive, pack, unpack
from strongroom.crypto.passphrase_file import is_locked, lock, unlock
from strongroom.errors import BodyTooLarge, InvalidRequest, LineNotFound, StoreUnavailable
from strongroom.private_files import write_file

_AGE_LIMIT = 2 * ARCHIVE_LIMIT  # an armored age file is a third longer than what is in it
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def write_archive(path: Path, archive: Archive, passphrase: str | None, *, force: bool = False) -> int:
    """Write an archive and return the file's size. If `passphrase` is None, the file is not encrypted."""
    if not force and path.exists():  # checked first, since deriving a key from the passphrase takes a second
        raise _there(path)
    data = pack(archive)
    data = data if passphrase is None else lock(data, passphrase)
    write_whole(path, data, force=force)
    return len(data)


def write_whole(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write a file of mode 0600 completely or not at all. The file is durable on return."""
    try:
        _write(path, data, force=force)
    except FileExistsError:
        raise _there(path) from None
    except OSError as error:
        raise StoreUnavailable(f"cannot write the file {path}: {error.strerror}") from None


def _write(path: Path, data: bytes, *, force: bool) -> None:
    try:
        write_file(path, data, new=not force)
    except OSError as error:
        if force or error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: reserve the name, then rename the complete file over it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        write_file(path, data, new=False)


def _there(path: Path) -> InvalidRequest:
    return InvalidRequest(f"the file {path} already exists", hint="name another file, or move that file away first")


def read_archive(path: Path, passphrase: Callable[[], str]) -> Archive:
    """Read a whole archive and check it. `passphrase` is called only if the file is encrypted."""
    data = read_bounded(path, _AGE_LIMIT)
    return unpack(unlock(data, passphrase()) if is_locked(data) else data)


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file. Raises `BodyTooLarge` if the file has more than `limit` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise LineNotFound(f"there is no file {path}") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot read the file {path}: {error.strerror}") from None
    if len(data) > limit:
        raise BodyTooLarge(f"{path} has more than {limit} bytes, the most that is read")
    return data
