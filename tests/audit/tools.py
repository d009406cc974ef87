"""What the audit tests share: reading and editing a vault's database behind its back, and naming what verify finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom import Vault
from strongroom.audit import Decision, Entry, Flaw, VerificationReport
from strongroom.errors import StrongroomError
from strongroom.model import Millis


def query(place: Path, text: str, *values: Any) -> list[Any]:
    """Run a statement on the vault's file, as somebody would who has the file and not the keys."""
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        connection.set_busy_timeout(5000)
        return list(connection.execute(text, values).fetchall())
    finally:
        connection.close()


def edit(place: Path, text: str, *values: Any) -> None:
    """Change exactly one row."""
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        connection.set_busy_timeout(5000)
        connection.execute(text, values)
        assert connection.changes() == 1
    finally:
        connection.close()


def stored_entries(place: Path) -> list[bytes]:
    return [row[0] for row in query(place, "SELECT entry FROM entries ORDER BY number")]


def stored_objects(place: Path) -> dict[str, bytes | None]:
    return dict(query(place, "SELECT name, body FROM objects"))


def copy(place: Path, target: Path) -> None:
    """Copy the database file of a closed vault."""
    target.mkdir(exist_ok=True)
    shutil.copy(place / "vault.db", target / "vault.db")


def restore(source: Path, place: Path) -> None:
    """Put an older database file back, as from a backup."""
    for name in ("vault.db-wal", "vault.db-shm"):
        (place / name).unlink(missing_ok=True)
    shutil.copy(source / "vault.db", place / "vault.db")


def flaws(report: VerificationReport) -> set[Flaw]:
    assert report.ok == (not report.findings)
    return {finding.flaw for finding in report.findings}


def entry_numbers(vault: Vault, op: str) -> list[int]:
    """The indexes of the entries of an operation."""
    return [number for number, entry in vault.audit.entries() if entry is not None and entry.op == op]


def fill(vault: Vault, count: int, detail: str = "filler") -> None:
    """Append entries that say nothing, in few commits."""
    now = Millis(vault._clerk.now())
    entries = [Entry(v=1, time=now, op="note", decision=Decision.ALLOW, detail=detail) for _ in range(count)]
    for start in range(0, count, 5000):
        vault._state.log.append(entries[start : start + 5000])


def reason(attempt: Callable[[], object]) -> str:
    with pytest.raises(StrongroomError) as raised:
        attempt()
    return raised.value.reason


def named(report: VerificationReport, flaw: Flaw) -> Sequence[str | None]:
    """The objects in which a flaw shows."""
    return sorted(finding.object or "" for finding in report.findings if finding.flaw == flaw)
