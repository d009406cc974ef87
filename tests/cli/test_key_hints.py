"""What a hint says about a key file that is missing, damaged, open to others or foreign is true: done, it mends it."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyrage  # type: ignore[import-untyped]
import pytest

from strongroom import EnvironmentKeys, PassphraseKeys, settings
from strongroom.cli import archive_options
from strongroom.keys import default_directory, sources
from strongroom.vault.create_open import identify
from tests import age
from tests.cli.conftest import Cli

pytestmark = pytest.mark.requirement("keys-hints")

MINT = ["cap", "mint", "--for", "local/a", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--json"]
PASSPHRASE = "correct horse battery"
Damage = Callable[[Path], object]

DAMAGES: dict[str, Damage] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "rubbish": lambda path: path.write_bytes(b"rubbish\xff"),
    "foreign": lambda path: path.write_bytes((path.parents[1] / _other() / path.name).read_bytes()),
}


def _other() -> str:
    return identify("other")


def keys() -> Path:
    return default_directory(identify(settings.find().vault))


def follow(cli: Cli, hint: str) -> list[str]:
    """Run every command that a hint names."""
    named = [shlex.split(one) for one in re.findall("`strongroom ([^`]+)`", hint)]
    for words in named:
        done = cli(*words, *(["--yes"] if words[:2] == ["rotate", "issuer"] else []))
        assert done.code == 0, done.err
    return [" ".join(words) for words in named]


@pytest.fixture(params=["plain", "locked"])
def two(request: pytest.FixtureRequest, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A vault and another one beside it, their keys behind a passphrase or not."""
    monkeypatch.setattr(PassphraseKeys, "MEMORY_KIB", 64)
    monkeypatch.setattr(pyrage.passphrase, "encrypt", age.encrypt)
    secret = home / "passphrase"
    secret.write_text(PASSPHRASE)
    secret.chmod(0o600)
    monkeypatch.setenv(archive_options.VARIABLE, str(secret))
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(secret))
    locked = ["--passphrase"] if request.param == "locked" else []
    for place in ([], ["other"]):
        assert cli("init", *place, *locked).code == 0
    return str(request.param)


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_issuer_key_is_mended_by_the_hinted_rotation(cli: Cli, two: str, damage: str) -> None:
    cli("put", "line one", "-n", "work")
    DAMAGES[damage](keys() / "issuer.key")
    done = cli(*MINT)
    assert done.reason == "key_unavailable"
    assert follow(cli, done.error["hint"]) == ["rotate issuer"]
    assert cli(*MINT).code == 0
    assert cli("get", "line one", "--json").json["hits"][0]["text"] == "line one"


@pytest.mark.parametrize("name", ["issuer.key", "root.keyring"])
@pytest.mark.parametrize("state", ["missing", "open"])
def test_doctor_gives_each_key_file_its_own_hint(cli: Cli, vault: None, name: str, state: str) -> None:
    path = keys() / name
    kept = path.read_bytes()
    path.unlink() if state == "missing" else path.chmod(0o644)
    (found,) = [one for one in cli("doctor", "--json").json["checks"] if one["name"] == "key files"]
    assert found["state"] == "fail"
    if state == "open":
        subprocess.run(shlex.split(found["hint"]), check=True)
    elif name == "issuer.key":
        assert follow(cli, found["hint"]) == ["rotate issuer"]
    else:
        assert "cannot open the vault" in found["hint"]
        assert "rotate" not in found["hint"]
        path.write_bytes(kept)
        path.chmod(0o600)
    assert cli("doctor", "--json").json["ok"]
    assert cli(*MINT).code == 0


@pytest.mark.parametrize("name", ["issuer.key", "root.keyring"])
def test_key_file_that_others_can_read_is_mended_by_the_hinted_chmod(cli: Cli, two: str, name: str) -> None:
    (keys() / name).chmod(0o640)
    done = cli(*MINT)
    assert done.reason == "key_unavailable"
    subprocess.run(shlex.split(done.error["hint"]), check=True)
    assert cli(*MINT).code == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_root_keyring_is_mended_by_a_copy_alone_and_no_hint_says_otherwise(cli: Cli, two: str, damage: str) -> None:
    path = keys() / "root.keyring"
    kept = path.read_bytes()
    DAMAGES[damage](path)
    done = cli(*MINT)
    assert done.reason == "key_unavailable"
    assert "root" in done.error["hint"]
    assert "rotate issuer" not in done.error["hint"]
    assert cli("rotate", "root", "--json").reason == "key_unavailable"
    path.write_bytes(kept)
    path.chmod(0o600)
    assert cli(*MINT).code == 0


@pytest.mark.parametrize("name", ["issuer.key", "root.keyring"])
def test_one_lost_key_file_comes_back_from_the_file_of_keys(cli: Cli, two: str, name: str) -> None:
    assert cli("backup", "copy", "--with-keys", "keys.age").code == 0
    kept = {path.name: path.read_bytes() for path in keys().iterdir()}
    (keys() / name).unlink()
    if two == "locked" and name == "root.keyring":
        (keys() / "issuer.key").unlink()  # without the keyring nothing says that there was a passphrase
    assert cli("restore", "copy", "--keys", "keys.age", "--to", "elsewhere").code == 0
    left = {"root.keyring", "issuer.key"} - {name}
    if not (two == "locked" and name == "root.keyring"):
        assert all((keys() / other).read_bytes() == kept[other] for other in left), "what is there stays as it is"
    assert cli(*MINT).code == 0


def test_another_passphrase_says_which_file_it_does_not_open(
    cli: Cli, vault: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PassphraseKeys, "MEMORY_KIB", 64)
    secret = home / "passphrase"
    secret.write_text(PASSPHRASE)
    secret.chmod(0o600)
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(secret))
    assert cli("init", "locked", "--passphrase").code == 0
    secret.write_text("another one entirely")
    done = cli("namespaces", "list", "--vault", "locked", "--json")
    assert (done.reason, "root.keyring" in done.error["message"]) == ("key_unavailable", True)
    assert "try another" in done.error["hint"]
    secret.write_text(PASSPHRASE)
    assert cli("namespaces", "list", "--vault", "locked").code == 0


@pytest.mark.parametrize("name", [EnvironmentKeys.ROOT, EnvironmentKeys.ISSUER])
@pytest.mark.parametrize("value", [None, "rubbish", "foreign"])
def test_bad_key_in_the_environment_is_never_to_be_made_anew_for_a_vault_that_is_there(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    made = EnvironmentKeys.generate()
    for one, text in made.items():
        monkeypatch.setenv(one, text)
    assert cli("init").code == 0
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, EnvironmentKeys.generate()[name] if value == "foreign" else value)
    done = cli(*MINT)
    assert done.reason == "key_unavailable"
    assert "generate()" not in done.error["hint"]
    assert "rotate" not in done.error["hint"]
    assert done.error["hint"]
    assert cli("rotate", "issuer", "--yes", "--json").reason == "key_unavailable"
    monkeypatch.setenv(name, made[name])
    assert cli(*MINT).code == 0


def test_keys_of_another_user_are_refused_with_what_to_do(cli: Cli, vault: None) -> None:
    path = keys() / "issuer.key"
    try:
        shutil.chown(path, 65534)
    except PermissionError:
        pytest.skip("only root gives files away")
    done = cli(*MINT)
    assert done.reason == "key_unavailable"
    (command,) = re.findall("`(chown [^`]+)`", done.error["hint"])
    subprocess.run(shlex.split(command), check=True)
    assert cli(*MINT).code == 0


@pytest.mark.parametrize("damage", [one for one in DAMAGES if one != "missing"])
def test_doctor_finds_an_issuer_key_that_signs_nothing_and_its_hint_mends_it(cli: Cli, two: str, damage: str) -> None:
    DAMAGES[damage](keys() / "issuer.key")
    done = cli("doctor", "--json")
    (found,) = [one for one in done.json["checks"] if one["state"] == "fail"]
    assert (done.code, found["name"], found["reason"]) == (7, "opening", "key_unavailable")
    assert follow(cli, found["hint"]) == ["rotate issuer"]
    assert cli("doctor").code == 0


@pytest.mark.parametrize("name", ["issuer.key", "root.keyring"])
def test_doctor_says_so_if_a_key_file_is_a_directory(cli: Cli, vault: None, name: str) -> None:
    (keys() / name).unlink()
    (keys() / name).mkdir(mode=0o700)
    found = [one for one in cli("doctor", "--json").json["checks"] if one["state"] == "fail"]
    assert all("chmod" not in one["hint"] and one["hint"] for one in found)
    assert found[0]["name"] == "key files"


def test_hinted_rotation_rotates_the_vault_that_was_meant_and_no_other(cli: Cli, vault: None) -> None:
    assert cli("init", "another vault").code == 0
    path = default_directory(identify("another vault")) / "issuer.key"
    path.unlink()
    kept = (keys() / "issuer.key").read_bytes()
    for words in (MINT, ["doctor", "--json"]):
        done = cli(*words, "--vault", "another vault")
        assert done.code == 7
    said = [one["hint"] for one in done.json["checks"] if one["state"] == "fail"]
    said.append(cli(*MINT, "--vault", "another vault").error["hint"])
    for hint in said:
        (named,) = re.findall("`strongroom ([^`]+)`", hint)
        assert shlex.split(named) == ["rotate", "issuer", "--vault", "another vault"]
    assert cli(*shlex.split(named), "--yes").code == 0
    assert (keys() / "issuer.key").read_bytes() == kept
    assert cli(*MINT, "--vault", "another vault").code == 0


def test_key_file_that_is_a_pipe_is_not_waited_for(cli: Cli, vault: None) -> None:
    (keys() / "issuer.key").unlink()
    os.mkfifo(keys() / "issuer.key", 0o600)
    done = cli(*MINT)
    assert done.reason == "key_unavailable"
    assert follow(cli, done.error["hint"]) == ["rotate issuer"]
    assert cli(*MINT).code == 0


def test_key_that_cannot_be_written_says_why_and_leaves_the_one_that_is_there(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sources, "write_file", full)
        for words in (["rotate", "root"], ["rotate", "issuer", "--yes"]):
            done = cli(*words, "--json")
            assert (done.reason, "free space" in done.error["hint"]) == ("key_unavailable", True)
    assert cli("doctor").code == 0
    assert cli(*MINT).code == 0
