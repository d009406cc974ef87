"""The vault's file in its directory: whether it exists, and how a complete new file gets its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strongroom.errors import StoreUnavailable, Tampered, VaultExists, VaultMissing
from strongroom.private_files import make_directory
from strongroom.store.fair_lock import WRITABLE
from strongroom.store.sqlite_copy import DATABASE

_MISSING = "put it back (is its disk mounted?) or name the right place; `strongroom init` makes a new, empty one"


def size_of(directory: Path) -> int | None:
    """The size of the vault's file; None if there is no file. StoreUnavailable if the directory cannot be read."""
    try:
        found = (directory / DATABASE).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailable(f"cannot read the directory {directory}: {error.strerror}", hint=WRITABLE) from None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def check_there(directory: Path) -> None:
    """Raise an error if the directory has no database that SQLite can safely open."""
    size = size_of(directory)
    if size is None:
        raise VaultMissing(f"there is no vault in {directory}", hint=_MISSING)
    # SQLite would turn an empty file into a database. Its first bytes are left to SQLite to check: opening and closing
    # the file here would drop the locks that this process's other connections hold on it.
    if not size:
        raise Tampered(f"{directory / DATABASE} is empty", hint="restore a backup of the vault")
    # A WAL database never has one. SQLite would roll it back, and older versions delete the file that it names.
    if os.path.lexists(directory / f"{DATABASE}-journal"):
        raise Tampered(
            f"{directory / DATABASE}-journal does not belong to the vault",
            hint="move that file elsewhere, and delete nothing",
        )


def already_there(directory: Path) -> VaultExists:
    return VaultExists(f"{directory} already holds a vault", hint="open that vault, or name another directory")


@contextmanager
def drafted(directory: Path) -> Iterator[str]:
    """The name of an empty draft in a vault's directory. If the block succeeds, the draft becomes the vault's file."""
    draft = f".new-{os.urandom(8).hex()}.db"
    try:
        make_directory(directory)
        _check_no_journal(directory)
        os.close(os.open(directory / draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            yield draft
            _publish(directory, draft)
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                (directory / (draft + suffix)).unlink(missing_ok=True)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        hint = "a vault is a directory: name one" if is_file else "name a place that can be written to"
        raise StoreUnavailable(f"cannot make a vault in {directory}: {error.strerror}", hint=hint) from None


def _check_no_journal(directory: Path) -> None:
    """Refuse to make a vault beside a left-over journal of a vault whose file is gone.

    SQLite would read that journal into the new file.
    """
    for suffix in ("-wal", "-journal"):
        left = directory / (DATABASE + suffix)
        if os.path.lexists(left):
            if size_of(directory) is not None:  # another process has just made it
                raise already_there(directory)
            raise Tampered(
                f"the file {left} belongs to a vault whose {DATABASE} is missing",
                hint=f"put {DATABASE} back into {directory}, or restore a backup elsewhere; nothing was changed",
            )


def _publish(directory: Path, draft: str) -> None:
    """Link a complete draft under its final name. A link, unlike a rename, fails if the name exists."""
    try:
        os.link(directory / draft, directory / DATABASE)
    except FileExistsError:
        raise already_there(directory) from None
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
