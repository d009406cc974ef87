"""audit from a shell where no checkpoint was kept: never ok, a code of its own, and the next step works."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from strongroom import settings
from strongroom.cli.error_output import UNSEEN
from strongroom.keys import default_directory
from strongroom.vault.create_open import identify
from tests.cli.conftest import Cli

pytestmark = pytest.mark.requirement("audit-unseen", "cli-audit")

SENTENCE = "continue what was last seen"


def place() -> Path:
    return Path(settings.find().vault)


def witness() -> Path:
    return default_directory(identify(str(place()))) / "checkpoint"


def _go_back(home: Path, cli: Cli) -> None:
    """Put an older copy of the vault back, as somebody would who can write its files."""
    shutil.copytree(place(), home / "older")
    cli("put", "line one", "-n", "work")
    assert cli("audit", "verify").code == 0
    shutil.rmtree(place())
    shutil.copytree(home / "older", place())


def test_roll_back_behind_a_deleted_witness_is_never_ok(cli: Cli, vault: None, home: Path) -> None:
    _go_back(home, cli)
    witness().unlink()
    for _ in range(2):
        done = cli("audit", "verify", "--json")
        assert done.code == UNSEEN == 8
        said = done.json
        assert (said["ok"], said["is_sound"], said["seen"], said["seen_before"]) == (False, True, False, None)
        shown = cli("audit", "verify")
        assert shown.code == UNSEEN
        assert SENTENCE not in shown.out
        assert "a roll-back cannot be ruled out" in shown.out
        assert str(witness()) in shown.out
    assert not witness().exists()


def test_roll_back_is_named_once_a_copy_of_the_witness_is_put_back(cli: Cli, vault: None, home: Path) -> None:
    _go_back(home, cli)
    kept = witness().read_bytes()
    witness().unlink()
    assert cli("audit", "verify").code == UNSEEN
    witness().write_bytes(kept)
    done = cli("audit", "verify", "--json")
    assert (done.code, [one["flaw"] for one in done.json["findings"]]) == (6, ["log_rolled_back"])
    assert done.json["seen_before"] > done.json["size"]


@pytest.mark.parametrize("where", [[], ["--vault", "other vault"]])
def test_hinted_command_accepts_the_log_as_it_stands_and_says_so(cli: Cli, vault: None, where: list[str]) -> None:
    cli("init", "other vault")
    (default_directory(identify(where[-1] if where else str(place()))) / "checkpoint").unlink()
    (hinted,) = re.findall("`strongroom ([^`]+)`", cli("audit", "verify", "--json", *where).json["hint"])
    assert cli("audit", "checkpoint", *where).code == 2, "it is not accepted without a yes"
    assert cli("audit", "verify", *where).code == UNSEEN
    done = cli(*shlex.split(hinted))
    assert done.code == 0
    assert "this is the first checkpoint" in done.err
    assert SENTENCE in cli("audit", "verify", *where).out
    assert cli("audit", "checkpoint", "--json", *where).json["first"] is False


def test_neither_accepting_a_restore_nor_a_backup_begins_a_witness(cli: Cli, vault: None) -> None:
    witness().unlink()
    done = cli("audit", "accept-restore", "--yes", "--json")
    assert (done.code, "audit checkpoint" in done.error["hint"]) == (2, True)
    assert cli("backup", "copy").code == 0
    assert cli("audit", "verify").code == UNSEEN
    assert not witness().exists()


def test_restore_where_nothing_was_seen_claims_nothing_and_names_the_next_step(cli: Cli, vault: None) -> None:
    assert cli("backup", "copy").code == 0
    witness().unlink()
    done = cli("restore", "copy", "--move-away")
    assert done.code == 0
    assert "no earlier checkpoint" in done.out
    (step,) = re.findall("^  strongroom (.+)$", done.out, re.MULTILINE)
    assert cli("audit", "verify").code == UNSEEN
    assert cli(*shlex.split(step)).code == 0
    assert cli("audit", "verify").code == 0


def test_damaged_witness_is_mended_by_what_its_hint_says(cli: Cli, vault: None) -> None:
    assert cli("backup", "copy").code == 0
    witness().write_text("rubbish")
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["findings"][0]["flaw"]) == (6, "witness_invalid")
    refused = cli("restore", "copy", "--move-away", "--json")
    assert (refused.code, str(witness()) in refused.error["message"]) == (6, True)
    (hinted,) = re.findall("`strongroom ([^`]+)`", done.json["findings"][0]["hint"])
    witness().rename("moved-away")
    assert cli("audit", "verify").code == UNSEEN
    assert cli(*hinted.split()).code == 0
    assert cli("audit", "verify").code == 0
