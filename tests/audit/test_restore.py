"""A restored backup looks like a rollback. The owner can say that it is one, and the log remembers it."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.audit import Flaw
from tests.audit.tools import copy, edit, flaws, reason, restore, stored_entries, stored_objects
from tests.conftest import ALL_OPS, NAMESPACES, Clock


@pytest.fixture
def restored(vault: Vault, keys: FileKeys, tmp_path: Path, clock: Clock) -> Path:
    """A vault of which an older copy was put back: the line "lost" and five entries are gone."""
    place = tmp_path / "vault"
    token = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(token).put("kept", namespace="work")
    vault.close()
    copy(place, tmp_path / "backup")
    with strongroom.open(place, keys=keys, now=clock) as later:
        later.memory(token).put("lost", namespace="work")
        for _ in range(4):
            later.memory(token).list()
        assert later.audit.verify().ok
    restore(tmp_path / "backup", place)
    return place


def _witness(keys: FileKeys) -> bytes:
    return (keys.directory / "checkpoint").read_bytes()


@pytest.mark.requirement("audit-restore")
def test_rollback_is_accepted_once_recorded_and_not_found_again(restored: Path, keys: FileKeys, clock: Clock) -> None:
    seen = _witness(keys).decode().split("\n")
    with strongroom.open(restored, keys=keys, now=clock) as vault:
        assert flaws(vault.audit.verify()) == {Flaw.LOG_ROLLED_BACK}
        size = vault.audit.size()
        report = vault.audit.accept_restore()
        assert flaws(report) == {Flaw.LOG_ROLLED_BACK}
        ((number, entry),) = vault.audit.entries(size)
        assert number == size
        assert entry is not None
        assert entry.op == "accept-restore"
        # What was lost can be told from the log: the size and root that had been seen.
        assert seen[1] in entry.detail.split()
        assert seen[2] in entry.detail.split()
        assert vault.audit.verify().ok
        vault.audit.checkpoint()
    with strongroom.open(restored, keys=keys, now=clock) as again:
        assert again.audit.verify().ok


@pytest.mark.requirement("audit-restore")
def test_restored_vault_that_was_used_before_it_was_accepted_is_accepted_too(
    restored: Path, keys: FileKeys, clock: Clock
) -> None:
    with strongroom.open(restored, keys=keys, now=clock) as vault:
        for number in range(7):
            vault.mint(actor=f"local/new{number}", ops=["get"], namespaces=["work"])
        assert flaws(vault.audit.verify()) == {Flaw.LOG_FORKED}
        assert flaws(vault.audit.accept_restore()) == {Flaw.LOG_FORKED}
        assert vault.audit.verify().ok


@pytest.mark.requirement("audit-restore")
@pytest.mark.parametrize("damage", ["object", "entry", "extra"])
def test_rollback_with_any_other_flaw_is_not_accepted(
    restored: Path, keys: FileKeys, clock: Clock, damage: str
) -> None:
    line = next(name for name in stored_objects(restored) if "/lines/" in name)
    if damage == "object":
        edit(restored, "DELETE FROM objects WHERE name = ?", line)
    elif damage == "entry":
        edit(restored, "UPDATE entries SET entry = x'00' WHERE number = 1")
    else:
        edit(restored, "INSERT INTO objects VALUES (-1, 'vault/stray', x'00')")
    before, seen = stored_entries(restored), _witness(keys)
    with strongroom.open(restored, keys=keys, now=clock) as vault:
        assert reason(vault.audit.accept_restore) == "tampered"
    assert stored_entries(restored) == before
    assert _witness(keys) == seen


@pytest.mark.requirement("audit-restore")
def test_unusable_witness_is_not_accepted_away(restored: Path, keys: FileKeys, clock: Clock) -> None:
    (keys.directory / "checkpoint").write_bytes(b"garbage")
    before = stored_entries(restored)
    with strongroom.open(restored, keys=keys, now=clock) as vault:
        assert reason(vault.audit.accept_restore) == "tampered"
    assert stored_entries(restored) == before
    assert _witness(keys) == b"garbage"


@pytest.mark.requirement("audit-restore")
def test_accepting_a_restore_without_a_rollback_is_refused(vault: Vault) -> None:
    size = vault.audit.size()
    assert reason(vault.audit.accept_restore) == "invalid_request"
    assert vault.audit.size() == size


@pytest.mark.requirement("audit-restore")
def test_second_restore_is_found_again(restored: Path, keys: FileKeys, tmp_path: Path, clock: Clock) -> None:
    with strongroom.open(restored, keys=keys, now=clock) as vault:
        vault.audit.accept_restore()
    restore(tmp_path / "backup", restored)
    with strongroom.open(restored, keys=keys, now=clock) as vault:
        assert flaws(vault.audit.verify()) == {Flaw.LOG_ROLLED_BACK}
