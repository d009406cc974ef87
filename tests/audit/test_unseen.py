"""Without a checkpoint that was kept, an older copy is as sound as the newest: nothing says ok, and none is made."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.audit import Flaw
from tests.audit.tools import copy, flaws, reason, restore
from tests.conftest import ALL_OPS, NAMESPACES, Clock

pytestmark = pytest.mark.requirement("audit-unseen")


@pytest.fixture
def rolled_back(vault: Vault, keys: FileKeys, tmp_path: Path, clock: Clock) -> Path:
    """A vault of which an older copy was put back, and the checkpoint beside its keys deleted."""
    place = tmp_path / "vault"
    vault.close()
    copy(place, tmp_path / "older")
    with strongroom.open(place, keys=keys, now=clock) as later:
        later.memory(later.mint(actor="local/a", ops=ALL_OPS, namespaces=NAMESPACES)).put("lost", namespace="work")
        assert later.audit.verify().ok
    restore(tmp_path / "older", place)
    (keys.directory / "checkpoint").rename(tmp_path / "kept-elsewhere")
    return place


def test_roll_back_without_a_witness_is_not_ok_however_often_it_is_looked_at(
    rolled_back: Path, keys: FileKeys, clock: Clock
) -> None:
    assert not strongroom.verify(rolled_back, keys=keys).ok
    for _ in range(2):
        with strongroom.open(rolled_back, keys=keys, now=clock) as vault:
            report = vault.audit.verify()
            assert (report.ok, report.is_sound, report.seen_before) == (False, True, None)
    assert not (keys.directory / "checkpoint").exists()


def test_copy_of_the_checkpoint_kept_elsewhere_names_the_roll_back(
    rolled_back: Path, keys: FileKeys, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "kept-elsewhere").rename(keys.directory / "checkpoint")
    with strongroom.open(rolled_back, keys=keys, now=clock) as vault:
        report = vault.audit.verify()
        assert flaws(report) == {Flaw.LOG_ROLLED_BACK}
        assert report.seen_before is not None


@pytest.mark.parametrize("act", ["checkpoint", "backup", "reopen"])
def test_no_daily_work_begins_a_witness(
    rolled_back: Path, keys: FileKeys, clock: Clock, tmp_path: Path, act: str
) -> None:
    if act == "backup":
        strongroom.backup(rolled_back, tmp_path / "backup", keys=keys, now=clock)
    with strongroom.open(rolled_back, keys=keys, now=clock) as vault:
        if act == "checkpoint":  # as a server does once an hour
            assert vault.audit.checkpoint()
        vault.mint(actor="local/a", ops=ALL_OPS, namespaces=NAMESPACES)
        assert not vault.audit.verify().ok
    assert not (keys.directory / "checkpoint").exists()


def test_acceptance_without_a_checkpoint_is_refused(rolled_back: Path, keys: FileKeys, clock: Clock) -> None:
    with strongroom.open(rolled_back, keys=keys, now=clock) as vault:
        assert reason(vault.audit.accept_restore) == "invalid_request"
        vault.audit.checkpoint(first=True)
        assert vault.audit.verify().ok


def test_new_vault_is_seen_from_its_first_entry_on(vault: Vault) -> None:
    report = vault.audit.verify()
    assert (report.ok, report.seen_before) == (True, 1)
