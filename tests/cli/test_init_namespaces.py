"""Making a vault from a shell: what is refused, where things land, and the ways in which its keys are kept."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import settings
from strongroom.cli import run_context
from strongroom.keys import default_directory
from strongroom.vault.create_open import identify
from tests.cli.conftest import Cli

DATA = Path(".local") / "share" / "strongroom"


def files_below(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


# Refusals.


@pytest.mark.requirement("cli-init")
def test_init_overwrites_nothing(cli: Cli, vault: None, home: Path) -> None:
    cli("put", "a trip")
    before = files_below(home / DATA / "keys")
    for more in ([], ["--passphrase-file", "-"]):
        done = cli("init", *more, "--json", stdin="a long passphrase")
        assert (done.code, done.reason) == (2, "vault_exists")
    assert files_below(home / DATA / "keys") == before
    assert len(cli("list", "--json").json["lines"]) == 1


@pytest.mark.requirement("cli-init")
@pytest.mark.parametrize("names", ["Not A Name", "work,Work", "-x", "", "work,work"])
def test_init_with_bad_namespaces_leaves_nothing(cli: Cli, home: Path, names: str) -> None:
    done = cli("init", f"--namespaces={names}", "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert not (home / DATA).exists()


@pytest.mark.requirement("cli-init")
def test_keys_inside_the_vault_are_refused(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRONGROOM_KEYS", str(home / "vault" / "keys"))
    assert cli("init", str(home / "vault"), "--json").reason == "invalid_request"
    secret = ["--passphrase-file", "-"]
    assert cli("init", str(home / "vault"), *secret, "--json", stdin="a passphrase").reason == "invalid_request"


@pytest.mark.requirement("keys-sources")
def test_locked_keys_without_a_way_to_ask_are_unavailable(cli: Cli, home: Path) -> None:
    assert cli("init", "--passphrase-file", "-", stdin="a long passphrase\n").code == 0
    done = cli("list", "--json")
    assert (done.code, done.reason) == (7, "key_unavailable")
    assert "--passphrase-file" in done.error["hint"]


@pytest.mark.requirement("keys-sources")
def test_wrong_empty_or_open_passphrase_file_is_unavailable(cli: Cli, home: Path) -> None:
    assert cli("init", "--passphrase-file", "-", stdin="a long passphrase\n").code == 0
    assert cli("list", "--passphrase-file", "-", "--json", stdin="another one").reason == "key_unavailable"
    assert cli("list", "--passphrase-file", "-", "--json", stdin="").reason == "key_unavailable"
    secret = home / "passphrase"
    secret.write_text("a long passphrase\n")
    secret.chmod(0o644)
    done = cli("list", "--passphrase-file", str(secret), "--json")
    assert (done.code, done.reason) == (7, "key_unavailable")
    assert done.error["hint"] == f"chmod 600 {secret}"


@pytest.mark.requirement("keys-sources")
def test_short_passphrase_is_refused_before_anything_is_made(cli: Cli, home: Path) -> None:
    done = cli("init", "--passphrase-file", "-", "--json", stdin="seven77\n")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert files_below(home) == set()


@pytest.mark.requirement("keys-sources")
def test_new_passphrase_is_asked_for_once(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def prompted(_: str, *, twice: bool = False) -> str:
        asked.append(twice)
        return "a long passphrase"

    monkeypatch.setattr(run_context, "_prompted", prompted)
    assert cli("init", "--passphrase").code == 0
    assert asked == [True], "once, and to be repeated"
    assert cli("list").code == 0
    assert asked == [True, False]


@pytest.mark.requirement("keys-never-new")
def test_lost_keys_are_unavailable_and_none_are_made(cli: Cli, vault: None, home: Path) -> None:
    directory = default_directory(identify(settings.find().vault))
    directory.rename(home / "elsewhere")
    done = cli("list", "--json")
    assert (done.code, done.reason) == (7, "key_unavailable")
    assert not directory.exists()


@pytest.mark.requirement("bad-vault")
def test_damaged_vault_is_named(cli: Cli, home: Path) -> None:
    place = home / "vault"
    place.mkdir()
    (place / "vault.db").write_bytes(b"not a database" * 100)
    done = cli("list", "--vault", str(place), "--json")
    assert (done.code, done.reason) == (6, "tampered")
    assert cli("list", "--vault", "", "--json").reason == "invalid_request"


@pytest.mark.requirement("bad-vault")
@pytest.mark.parametrize("name", ["../../../../etc", "", "0" * 15 + "G"])
def test_vault_whose_id_was_rewritten_is_tampered_and_leads_nowhere(
    cli: Cli, vault: None, home: Path, name: str
) -> None:
    database = apsw.Connection(str(home / DATA / "vault" / "vault.db"))
    record = json.dumps({"v": 1, "vault": name, "created": 0}).encode()
    database.execute("UPDATE objects SET body = ? WHERE name = 'vault/format'", (record,))
    assert database.changes() == 1
    database.close()
    for words in (["list"], ["init"], ["cap", "list"]):
        done = cli(*words, "--json")
        assert done.reason == ("vault_exists" if words == ["init"] else "tampered")


# What it does.


@pytest.mark.requirement("cli-init")
def test_init_says_where_everything_is_and_what_to_try(cli: Cli, home: Path) -> None:
    done = cli("init")
    assert done.code == 0
    assert (home / DATA / "vault" / "vault.db").exists()
    [keys] = (home / DATA / "keys").iterdir()
    for place in (home / DATA / "vault", keys, keys / "owner.cap"):
        assert str(place) in done.out
    assert "Back up" in done.out
    assert (keys / "owner.cap").stat().st_mode & 0o777 == 0o600
    assert keys.stat().st_mode & 0o777 == 0o700


@pytest.mark.requirement("cli-init")
@pytest.mark.parametrize("namespaces", ["personal,family,work,travel", "private,projects", "only"])
def test_commands_that_init_suggests_work_as_they_stand(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, namespaces: str
) -> None:
    done = cli("init", "my vault", "--namespaces", namespaces)
    suggested = [shlex.split(line) for line in done.out.partition("Try now:\n")[2].splitlines()]
    assert suggested[0][0] == "export"
    name, _, value = suggested[0][1].partition("=")
    monkeypatch.setenv(name, value)
    assert [words[:2] for words in suggested[1:]] == [["strongroom", "put"], ["strongroom", "get"]]
    for words in suggested[1:]:
        told = cli(*words[1:])
        assert told.code == 0, told.err
    assert "Trip to Chengdu" in told.out


@pytest.mark.requirement("cli-init")
def test_vault_comes_from_option_before_environment_before_default(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {place: cli("init", place, "--json").json["id"] for place in ("a", "b")}
    assert cli("list", "--json").reason == "vault_missing"
    monkeypatch.setenv("STRONGROOM_VAULT", "a")
    assert cli("cap", "show", "--json").json["vault"] == ids["a"]
    assert cli("cap", "show", "--vault", "b", "--json").json["vault"] == ids["b"]
    assert cli("--vault", "b", "cap", "show", "--json").json["vault"] == ids["b"]
    assert cli("--vault", "b", "--json", "cap", "show", "--vault", "a").json["vault"] == ids["a"]


@pytest.mark.requirement("keys-sources")
def test_locked_vault_opens_with_its_passphrase_file(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = home / "passphrase"
    secret.write_text("a long passphrase\n")
    secret.chmod(0o600)
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(secret))
    made = cli("init", "--passphrase", "--json").json
    assert made["passphrase"]
    assert [path.name for path in (home / DATA / "keys").iterdir()] == [made["id"]]
    assert b"argon2id" in (Path(made["keys"]) / "root.keyring").read_bytes()
    assert (Path(made["keys"]) / "checkpoint").exists()
    assert cli("put", "a trip").code == 0
    monkeypatch.delenv("STRONGROOM_PASSPHRASE_FILE")
    assert len(cli("list", "--passphrase-file", "-", "--json", stdin="a long passphrase").json["lines"]) == 1
    assert cli("list", "--passphrase-file", "-", "--json", stdin="a long passphrase ").reason == "key_unavailable"


@pytest.mark.requirement("keys-sources")
def test_keys_from_the_environment_leave_no_key_file(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in strongroom.EnvironmentKeys.generate().items():
        monkeypatch.setenv(name, value)
    made = cli("init", "--json").json
    assert cli("put", "a trip").code == 0
    assert {path.name for path in Path(made["keys"]).iterdir()} == {"checkpoint", "owner.cap"}
    done = cli("init", "other", "--passphrase-file", "-", "--json", stdin="a long passphrase")
    assert done.reason == "invalid_request"
    monkeypatch.delenv("STRONGROOM_ISSUER_KEY")
    assert cli("namespaces", "list").code == 0
    assert (
        cli("cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--json").reason == "key_unavailable"
    )


@pytest.mark.requirement("cli-init")
def test_namespaces_are_listed_and_added_in_order(cli: Cli, vault: None) -> None:
    assert cli("namespaces", "list").out.split() == ["personal", "family", "work", "travel"]
    assert cli("namespaces", "add", "health", "--before", "family").code == 0
    assert cli("namespaces", "add", "pets").code == 0
    names = cli("namespaces", "list", "--json").json["namespaces"]
    assert names == ["personal", "health", "family", "work", "travel", "pets"]
    assert cli("namespaces", "add", "pets", "--json").reason == "invalid_request"
    assert cli("namespaces", "add", "x", "--before", "nowhere", "--json").reason == "unknown_namespace"
    assert cli("namespaces", "add", "No Name", "--json").reason == "invalid_request"


def test_engine_of_the_configuration_is_used(cli: Cli, vault: None, home: Path) -> None:
    config = home / ".config" / "strongroom" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('engine = "recency"\n')
    cli("put", "a trip")
    assert cli("get", "trip").code == 0
    config.write_text('engine = "nonsense"\n')
    assert cli("get", "trip", "--json").reason == "invalid_request"
