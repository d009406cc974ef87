"""strongroom upgrade: it asks, raises the format once, says what that means, and doctor shows when it is due."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.keys import default_directory
from strongroom.vault.create_open import identify, read_format
from tests.cli.conftest import Cli, Done, opened
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.memory.test_details import set_format

PLACE = "s3://bucket/room"


def format_check(done: Done) -> dict[str, str]:
    (found,) = [check for check in done.json["checks"] if check["name"] == "format"]
    return dict(found)


def upgrades(vault: Vault) -> list[str]:
    return [entry.detail for _, entry in vault.audit.entries() if entry and entry.op == "upgrade"]


@pytest.fixture
def older(vault: None) -> None:
    """The test's vault in format 1."""
    with opened() as one:
        set_format(one, 1)


@pytest.mark.requirement("cli-upgrade")
def test_upgrade_without_a_confirmation_says_what_it_means_and_changes_nothing(cli: Cli, older: None) -> None:
    done = cli("upgrade")
    assert done.code == 2
    for word in ("from 1 to 2", "earlier version", "cannot be undone", "--yes"):
        assert word in done.err
    assert cli("put", "x", "-n", "travel", "--tag", "trip", "--json").reason == "format_too_old"


@pytest.mark.requirement("cli-upgrade")
def test_upgrade_raises_the_format_once_and_is_on_record(cli: Cli, older: None) -> None:
    done = cli("upgrade", "--yes", "--json")
    with opened() as vault:
        assert done.json == {"vault": vault.id, "before": 1, "format": 2}
        once = upgrades(vault)
    assert once[-1] == "format 2"
    assert cli("put", "x", "-n", "travel", "--tag", "trip").code == 0
    again = cli("upgrade", "--json")
    assert (again.code, again.json["before"], again.json["format"]) == (0, 2, 2)
    assert "already" in cli("upgrade").out
    with opened() as vault:
        assert upgrades(vault) == once
        assert vault.audit.verify().ok


@pytest.mark.requirement("cli-upgrade")
def test_upgrade_of_a_vault_of_a_newer_format_is_refused(cli: Cli, vault: None) -> None:
    with opened() as one:
        set_format(one, 3)
    assert cli("upgrade", "--yes", "--json").reason == "vault_format"


@pytest.mark.requirement("cli-upgrade", "cli-doctor")
def test_doctor_shows_an_older_format_with_the_command_and_is_well(cli: Cli, older: None, home: Path) -> None:
    done = cli("doctor", "--json")
    found = format_check(done)
    assert (done.code, found["state"]) == (0, "ok")
    assert "format 1" in found["message"]
    assert "`strongroom upgrade`" in found["message"]
    cli("upgrade", "--yes")
    assert "upgrade" not in format_check(cli("doctor", "--json"))["message"]
    (home / "room").mkdir()
    assert cli("init", "room/vault").code == 0
    with strongroom.open("room/vault", keys=FileKeys(default_directory(identify("room/vault")))) as other:
        set_format(other, 1)
    assert "upgrade --vault " in format_check(cli("doctor", "--vault", "room/vault", "--json"))["message"]


@pytest.mark.requirement("cli-upgrade", "fleet-cli")
def test_vault_in_a_bucket_is_upgraded(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used_by_vaults(MemoryBucket(), monkeypatch)
    with strongroom.create(PLACE) as vault:
        set_format(vault, 1)
    done = cli("upgrade", "--store", PLACE, "--yes", "--json")
    assert (done.code, done.json) == (0, {"vault": vault.id, "before": 1, "format": 2})
    assert read_format(PLACE).v == 2
    assert cli("upgrade", "--vault", PLACE, "--json").json["before"] == 2
