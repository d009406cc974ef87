"""A consistent copy of a SQLite database that others are writing to.

A read transaction keeps one moment of the source visible while SQLite's online backup copies the pages. In WAL mode
that blocks no writer. Until the transaction ends, the source's journal cannot be truncated, so a scrub has to wait.
Free pages are copied too. They hold only zeros, since the vault deletes with `secure_delete`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from strongroom.errors import Tampered

DATABASE = "vault.db"
_BUSY_MS = 10_000
_PAGES = 512  # 2 MiB between two calls of `progress`


def fetch(source: Path, private: Path) -> None:
    """Copy the files of a foreign database by their bytes, so that SQLite opens no file in its directory.

    A file beside a database can make SQLite follow links, and write or delete elsewhere. Raises OSError.
    """
    for name, needed in ((DATABASE, True), (f"{DATABASE}-wal", False)):
        try:
            handle = os.open(source / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            if needed:
                raise
            continue
        with os.fdopen(handle, "rb") as old:
            found = os.fstat(old.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > shutil.disk_usage(private).free:
                raise OSError(errno.EFBIG, f"{name} is no file that fits here")
            with (private / name).open("xb") as new:
                shutil.copyfileobj(old, new, 1 << 20)


def copy_database(source: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Copy `source` over the empty file `target`. Raises apsw.Error, or Tampered if the copy is not sound."""
    with closing(_connect(source)) as old, closing(_connect(target)) as new:
        old.execute("BEGIN")
        old.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the first read fixes the moment
        with new.backup("main", old, "main") as work:
            while not work.done:
                work.step(_PAGES)
                if progress is not None:
                    progress(work.page_count - work.remaining, work.page_count)
        old.execute("ROLLBACK")
        if new.execute("PRAGMA integrity_check(1)").get != "ok":
            raise Tampered("the vault's database is damaged", hint="keep the files as they are, and restore a backup")


def _connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_MS)
    # Nothing that somebody wrote into the file may run.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection
