"""backup, restore and rotate from a shell: nothing is overwritten or deleted, and what stops working is said."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pyrage  # type: ignore[import-untyped]
import pytest

from strongroom import settings
from strongroom.cli import archive_options
from strongroom.cli.app import VerbCommand, app
from strongroom.keys import FileKeys, default_directory
from strongroom.vault.create_open import identify
from tests import age
from tests.audit.tools import edit
from tests.cli.conftest import Cli, opened

PASSPHRASE = "correct horse battery"

Caps = Callable[..., Path]


@pytest.fixture(autouse=True)
def _passphrase(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A passphrase in a file that the environment names, and age files that cost no second each."""
    path = home / "passphrase"
    path.write_text(PASSPHRASE)
    path.chmod(0o600)
    monkeypatch.setenv(archive_options.VARIABLE, str(path))
    monkeypatch.setattr(pyrage.passphrase, "encrypt", age.encrypt)


def place() -> Path:
    return Path(settings.find().vault)


def key_directory() -> Path:
    return default_directory(identify(str(place())))


def texts(cli: Cli, *more: str) -> set[str]:
    done = cli("get", "line", "-k", "20", "--json", *more)
    assert done.code == 0, done.err
    return {hit["text"] for hit in done.json["hits"]}


# What is refused.


@pytest.mark.requirement("cli-keeping", "backup-never-over")
def test_neither_backup_nor_restore_goes_over_what_is_there(cli: Cli, vault: None) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "b").code == 0
    before = Path("b/vault.db").read_bytes()
    assert cli("backup", "b", "--json").reason == "vault_exists"
    assert Path("b/vault.db").read_bytes() == before
    cli("put", "line two", "-n", "work")
    assert cli("restore", "b", "--json").reason == "vault_exists"
    assert texts(cli) == {"line one", "line two"}
    Path("keys.age").write_bytes(b"mine")
    assert cli("backup", "b2", "--with-keys", "keys.age").code == 2
    assert Path("keys.age").read_bytes() == b"mine"
    assert not Path("b2").exists()


@pytest.mark.requirement("cli-keeping", "backup-verified")
def test_damaged_vault_gets_no_backup_and_a_damaged_backup_is_not_restored(cli: Cli, vault: None) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "b").code == 0
    edit(Path("b"), "UPDATE objects SET body = x'00' WHERE name LIKE '%/lines/%'")
    before = place().stat().st_ino
    done = cli("restore", "b", "--move-away", "--json")
    assert (done.code, done.reason) == (6, "tampered")
    assert place().stat().st_ino == before, "what was moved away is back"
    assert texts(cli) == {"line one"}
    edit(place(), "UPDATE objects SET body = x'00' WHERE name LIKE '%/lines/%'")
    assert cli("backup", "b2").code == 6
    assert not Path("b2").exists()


@pytest.mark.requirement("cli-keeping")
def test_short_passphrase_makes_neither_backup_nor_keys(cli: Cli, vault: None, home: Path) -> None:
    (home / "passphrase").write_text("short")
    assert cli("backup", "b", "--with-keys", "k.age").code == 2
    assert not Path("b").exists()
    assert not Path("k.age").exists()


@pytest.mark.requirement("cli-keeping", "backup-never-over")
def test_restore_over_a_vault_names_both_ways_out(cli: Cli, vault: None) -> None:
    assert cli("backup", "b").code == 0
    done = cli("restore", "b", "--json")
    assert done.reason == "vault_exists"
    assert "--move-away" in done.error["hint"]
    assert "--to" in done.error["hint"]


@pytest.mark.requirement("cli-keeping")
def test_copy_restored_elsewhere_is_named_in_the_next_step_and_called_a_copy(cli: Cli, vault: None) -> None:
    assert cli("backup", "b").code == 0
    cli("put", "line two", "-n", "work")
    assert cli("audit", "verify").code == 0
    done = cli("restore", "b", "--to", "the copy")
    assert "  strongroom audit accept-restore --vault 'the copy'" in done.out.splitlines()
    assert "only one of the two" in done.err
    usual = cli("restore", "b", "--move-away")
    assert "  strongroom audit accept-restore" in usual.out.splitlines()
    assert usual.err == ""


@pytest.mark.requirement("cli-keeping")
def test_directory_without_a_backup_is_not_found(cli: Cli, vault: None) -> None:
    for source in ("nowhere", "."):
        done = cli("restore", source, "--to", "new", "--json")
        assert done.code == 4
        assert "strongroom backup" in done.error["hint"]
        assert "init" not in done.error["hint"]
    assert not Path("new").exists()


@pytest.mark.requirement("cli-keeping", "backup-keys")
def test_keys_of_another_vault_or_behind_another_passphrase_are_not_brought_back(
    cli: Cli, vault: None, home: Path
) -> None:
    assert cli("backup", "b", "--with-keys", "k.age").code == 0
    assert cli("init", "second").code == 0
    assert cli("backup", "b2", "--vault", "second").code == 0
    assert cli("restore", "b2", "--to", "new", "--keys", "k.age").code == 2
    shutil.rmtree(key_directory())
    (home / "passphrase").write_text("another passphrase")
    assert cli("restore", "b", "--to", "new", "--keys", "k.age", "--json").reason == "key_unavailable"
    assert not Path("new").exists()
    assert not key_directory().exists()


# Backup and restore.


@pytest.mark.requirement("cli-keeping", "backup-no-keys")
def test_keys_are_in_their_own_file_and_only_if_asked_for(cli: Cli, vault: None) -> None:
    keys = FileKeys(key_directory())
    done = cli("backup", "b", "--json")
    assert (done.code, done.json["keys"]) == (0, None)
    assert sorted(path.name for path in Path("b").iterdir()) == ["checkpoint", "vault.db"]
    assert cli("backup", "b2", "--with-keys", "k.age", "--json").json["keys"] == "k.age"
    assert sorted(path.name for path in Path("b2").iterdir()) == ["checkpoint", "vault.db"]
    assert Path("k.age").stat().st_mode & 0o777 == 0o600
    for key in [*keys.load().keys.values(), keys.issuer()]:
        assert key not in Path("k.age").read_bytes() + Path("b/vault.db").read_bytes()


@pytest.mark.requirement("cli-keeping", "backup-restore", "audit-restore")
def test_restored_vault_is_rolled_back_until_that_is_accepted(cli: Cli, vault: None) -> None:
    cli("put", "line kept", "-n", "work")
    cli("put", "line forgotten", "-n", "work")
    lines = {line["id"]: line for line in cli("list", "--json").json["lines"]}
    assert cli("backup", "b").code == 0
    assert cli("forget", max(lines)).code == 0
    cli("put", "line lost", "-n", "work")
    assert cli("audit", "verify").code == 0
    done = cli("restore", "b", "--move-away", "--json")
    assert (done.code, done.json["rolled_back"], done.json["verified"]) == (0, True, True)
    assert (Path(done.json["moved_to"]) / "vault.db").exists()
    assert cli("audit", "verify").code == 6
    assert cli("audit", "accept-restore").code == 2, "it is not accepted without a yes"
    assert cli("audit", "verify").code == 6
    assert cli("audit", "accept-restore", "--yes").code == 0
    assert cli("audit", "verify").code == 0
    assert texts(cli) == {"line kept", "line forgotten"}, "what was forgotten since is back, as the help says"


@pytest.mark.requirement("cli-keeping", "backup-keys")
def test_vault_and_its_keys_come_back_on_another_machine(
    cli: Cli, vault: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "b", "--with-keys", "k.age").code == 0
    other = home / "machine"
    other.mkdir()
    monkeypatch.setenv("HOME", str(other))
    without = cli("restore", "b", "--to", str(other / "plain"), "--json")
    assert (without.code, without.json["verified"]) == (0, False)
    assert cli("get", "line", "--vault", str(other / "plain")).code == 7
    done = cli("restore", "b", "--keys", "k.age", "--json")
    assert (done.code, done.json["verified"], done.json["rolled_back"]) == (0, True, False)
    assert texts(cli) == {"line one"}
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-keeping", "audit-unseen")
def test_restore_with_the_checkpoint_of_its_keys_claims_nothing_of_later_and_a_newer_one_tells(
    cli: Cli, vault: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("backup", "b", "--with-keys", "k.age").code == 0
    cli("put", "line of later", "-n", "work")
    assert cli("audit", "verify").code == 0
    newer = (key_directory() / "checkpoint").read_bytes()
    monkeypatch.setenv("HOME", str(home / "machine"))
    done = cli("restore", "b", "--keys", "k.age", "--to", "here")
    assert done.code == 0
    assert "continues the last seen checkpoint" not in done.out
    assert "may not be the newest one" in done.out
    assert "share keys" not in done.err
    (default_directory(identify("here")) / "checkpoint").write_bytes(newer)
    (step,) = re.findall("^  strongroom (.+)$", done.out, re.MULTILINE)
    found = cli(*shlex.split(step), "--json").json["findings"]
    assert [one["flaw"] for one in found] == ["log_rolled_back"]


@pytest.mark.requirement("cli-keeping")
@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("backup", ["forget or erase later is still in this copy", "does not contain the keys"]),
        ("restore", ["forgotten since", "come back", "erased", "revoked", "accept-restore", "rotate root"]),
    ],
)
def test_help_says_what_a_copy_holds_and_brings_back(cli: Cli, verb: str, words: list[str]) -> None:
    text = " ".join(cli(verb, "--help").out.split())
    assert [word for word in words if word not in text] == []


# Rotation.


@pytest.mark.requirement("cli-keeping", "keys-rotate-issuer")
def test_rotating_the_issuer_voids_given_caps_and_asks_first(cli: Cli, caps: Caps) -> None:
    with opened() as library:
        token = library.mint(actor="local/owner", ops=["get"], namespaces=["work"], ttl=3600)
    agent = str(caps("agent.cap", token))
    assert cli("rotate", "issuer").code == 2
    assert cli("get", "x", "--cap-file", agent).code == 0
    assert cli("rotate", "issuer", "--yes").code == 0
    assert cli("get", "x", "--cap-file", agent, "--json").reason == "cap_signature_invalid"
    done = cli("get", "x")
    assert (done.code, "owner cap" in done.err) == (0, False), "the owner's own cap was made anew with the key"


@pytest.mark.requirement("cli-keeping", "keys-rotate-root", "erase-copies")
def test_rotating_the_root_leaves_lines_readable_and_earlier_backups_closed(cli: Cli, vault: None) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "b", "--with-keys", "k.age").code == 0
    old = (key_directory() / "root.keyring").read_bytes()
    assert cli("rotate", "root", "--json").json == {"rotated": "root"}
    assert (key_directory() / "root.keyring").read_bytes() != old
    assert texts(cli) == {"line one"}
    assert cli("restore", "b", "--to", "new", "--json").reason == "key_unavailable"
    assert not Path("new").exists()


def _stop_a_rotation() -> FileKeys:
    """Leave what a rotation leaves that was killed before it had moved anybody."""
    keys = FileKeys(key_directory())
    keys.replace(keys.load().adding(bytes(32)))
    return keys


@pytest.mark.requirement("cli-keeping", "rotate-ends")
@pytest.mark.parametrize("options", [(), ("--continue",)])
def test_stopped_rotation_of_the_root_is_shown_and_finished(cli: Cli, vault: None, options: tuple[str, ...]) -> None:
    cli("put", "line one", "-n", "work")
    keys = _stop_a_rotation()
    before = keys.load()
    (found,) = [check for check in cli("doctor", "--json").json["checks"] if check["name"] == "opening"]
    assert (found["state"], "1 actor" in found["message"], "--continue" in found["hint"]) == ("warn", True, True)
    done = cli("rotate", "root", *options)
    assert (done.code, "was interrupted" in done.err) == (0, True)
    assert len(keys.load().keys) == 1
    assert (keys.load().active == before.active) is bool(options)
    assert texts(cli) == {"line one"}


@pytest.mark.requirement("cli-keeping", "rotate-ends")
def test_rotation_that_was_not_stopped_cannot_be_continued(cli: Cli, vault: None) -> None:
    assert cli("rotate", "root", "--continue", "--json").reason == "invalid_request"


@pytest.mark.requirement("cli-keeping", "keys-rotate-actor")
def test_rotating_an_actor_leaves_its_lines_readable(cli: Cli, vault: None) -> None:
    assert cli("rotate", "actor", "local/owner").code == 2, "nothing was put, so there are no keys"
    cli("put", "line one", "-n", "work")
    assert cli("rotate", "actor", "local/owner").code == 0
    cli("put", "line two", "-n", "work")
    assert texts(cli) == {"line one", "line two"}
    assert cli("rotate", "actor", "Not An Actor").code == 2


# The examples of the help.


@pytest.mark.requirement("cli-keeping", "project-docs")
def test_every_example_of_these_verbs_runs(cli: Cli, vault: None) -> None:
    cli("put", "line one", "-n", "travel")
    cli("init", "team-vault", "--namespaces", "private,projects")
    ran = 0
    for verb in ("export", "import", "backup", "audit", "doctor", "restore", "rotate"):
        found = app.get_command(None, verb)  # type: ignore[arg-type]
        commands = list(getattr(found, "commands", {"": found}).values())
        for one in commands:
            assert isinstance(one, VerbCommand)
            assert one.examples
            for example in one.examples:
                program, *arguments = shlex.split(example)
                assert program == "strongroom"
                if "--url" in arguments:
                    continue  # test_served.py runs it, with a server
                if arguments[:2] == ["audit", "accept-restore"]:
                    cli("put", "line two", "-n", "travel")
                    cli("audit", "checkpoint")
                    assert cli("restore", "vault-backup", "--move-away").code == 0
                done = cli(*arguments)
                assert done.code == 0, (example, done.err)
                ran += 1
    assert ran >= 18
