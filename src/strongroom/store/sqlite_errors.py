"""Translates SQLite's errors, and rows that no vault writes, into errors of Strongroom."""

from __future__ import annotations

from pathlib import Path

import apsw

from strongroom.errors import AuditUnavailable, StoreUnavailable, StrongroomError, Tampered
from strongroom.store.fair_lock import WRITABLE


def damaged() -> Tampered:
    return Tampered("the vault's database is damaged", hint="keep the files as they are, and restore a backup")


def headless() -> Tampered:
    return Tampered(
        "the vault's database has no valid record of the log's head",
        hint="keep the files as they are, and restore a backup",
    )


def broken(error: apsw.Error) -> StrongroomError:
    # A constraint can only fail if rows, index and head disagree.
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError | apsw.ConstraintError):
        return damaged()
    return StoreUnavailable(f"the vault's database cannot be read: {type(error).__name__}", hint=WRITABLE)


def uncopied(error: apsw.Error, target: Path) -> StrongroomError:
    found = broken(error)
    if isinstance(found, Tampered):
        return found
    why = "the disk is full" if isinstance(error, apsw.FullError) else type(error).__name__
    return StoreUnavailable(
        f"the vault could not be copied to {target}: {why}",
        hint="free disk space, or name a place that you can write to",
    )


def refused(error: apsw.Error) -> StrongroomError:
    found = broken(error)
    if isinstance(found, Tampered):
        return found
    why = {
        apsw.FullError: "the disk is full",
        apsw.ReadOnlyError: "it is read-only",
        apsw.BusyError: "it is locked",
    }
    detail = why.get(type(error), type(error).__name__)
    return AuditUnavailable(f"nothing could be written to the vault's database: {detail}", hint=WRITABLE)
