"""`strongroom unwire hermes`: what it refuses and leaves alone first, then that all of `wire` is taken back."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from strongroom import attenuate
from strongroom.cli.wire_unwire import unwire, wire
from strongroom.errors import CapRevoked
from strongroom.hermes import cap_file, policy
from strongroom.hermes.install import config_yaml, plugin_files
from strongroom.host.memory_file_import import MARKER
from tests.cli.conftest import Cli, opened
from tests.hermes.install.conftest import CONFIG, examples, files
from tests.hermes.install.test_wire import failed, read_policy, states, wired

pytestmark = pytest.mark.usefixtures("no_children")


def unwired(cli: Cli, *arguments: str) -> dict[str, str]:
    done = cli("unwire", "hermes", *arguments, "--json")
    assert done.code == 0, done.out + done.err
    return states(done)


def test_no_home_and_broken_settings_are_refused(cli: Cli, home: Path, hermes: Path) -> None:
    assert failed(cli("unwire", "hermes", "--home", str(home / "none"), "--json")) == "home"
    wired(cli)
    (hermes / "config.yaml").write_text("x: [\n")
    assert failed(cli("unwire", "hermes", "--json")) == "settings"
    assert (hermes / "plugins/strongroom/__init__.py").exists()
    assert read_policy(hermes).cap.exists()


def test_vault_that_does_not_open_keeps_the_cap_to_revoke_it_later(
    cli: Cli, hermes: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(cli)
    monkeypatch.setenv("STRONGROOM_KEYS", str(home / "no-keys"))
    assert failed(cli("unwire", "hermes", "--json")) == "cap"
    assert read_policy(hermes).cap.exists()
    monkeypatch.delenv("STRONGROOM_KEYS")
    assert unwired(cli)["cap"] == "ok"


def test_cap_that_others_could_read_is_revoked_too(cli: Cli, hermes: Path) -> None:
    wired(cli)
    path = read_policy(hermes).cap
    token = cap_file.read(path)
    path.chmod(0o644)
    assert unwired(cli)["cap"] == "ok"
    with opened() as vault, pytest.raises(CapRevoked):
        vault.memory(attenuate(token, actor="hermes/default/owner")).list()


@pytest.mark.requirement("unwire-only-ours")
def test_foreign_files_stay_and_are_named(cli: Cli, hermes: Path) -> None:
    wired(cli)
    (hermes / "plugins/strongroom/notes.txt").write_text("mine\n")
    done = cli("unwire", "hermes", "--json")
    (step,) = [one for one in done.json["steps"] if one["name"] == "plugin"]
    assert "notes.txt" in step["message"]
    assert files(hermes / "plugins") == {"strongroom/notes.txt": b"mine\n"}


@pytest.mark.requirement("unwire-only-ours")
def test_provider_that_was_chosen_since_stays(cli: Cli, hermes: Path) -> None:
    wired(cli)
    text = "memory: {provider: mem0}\n"
    (hermes / "config.yaml").write_text(text)
    assert unwired(cli)["provider"] == "skip"
    assert (hermes / "config.yaml").read_text() == text


@pytest.mark.requirement("unwire-restores")
def test_hermes_gets_its_settings_back_byte_for_byte_and_the_cap_dies(cli: Cli, hermes: Path) -> None:
    wired(cli)
    token = cap_file.read(read_policy(hermes).cap)
    done = dict.fromkeys(("home", "settings", "provider", "plugin", "cap"), "ok")
    assert unwired(cli) == {**done, "policy": "skip", "waiting": "skip"}
    assert (hermes / "config.yaml").read_text() == CONFIG
    assert set(files(hermes)) == {"config.yaml", policy.FILE}
    assert not read_policy(hermes).cap.exists()
    with opened() as vault, pytest.raises(CapRevoked):
        vault.memory(attenuate(token, actor="hermes/default/owner")).list()


@pytest.mark.requirement("unwire-restores")
def test_second_run_finds_nothing_to_do(cli: Cli, hermes: Path) -> None:
    wired(cli)
    unwired(cli)
    before = files(hermes)
    done = cli("unwire", "hermes", "--json")
    assert (done.code, done.json["changed"]) == (0, False)
    assert files(hermes) == before


@pytest.mark.requirement("unwire-restores")
def test_settings_that_changed_since_keep_their_changes(cli: Cli, hermes: Path) -> None:
    wired(cli)
    path = hermes / "config.yaml"
    path.write_text(path.read_text() + "display: {compact: true}\n")
    unwired(cli)
    assert config_yaml.read(path.read_text()) == {**config_yaml.read(CONFIG), "display": {"compact": True}}


@pytest.mark.parametrize(("text", "after"), [("a: 1\n", "a: 1\n"), (None, None), ("memory: {provider: ''}\n",) * 2])
def test_setting_that_was_off_is_off_again(cli: Cli, hermes: Path, text: str | None, after: str | None) -> None:
    path = hermes / "config.yaml"
    path.unlink()
    if text is not None:
        path.write_text(text)
    wired(cli)
    unwired(cli)
    assert (path.read_text() if path.exists() else None) == after


def test_provider_whose_former_setting_is_unknown_is_switched_off(cli: Cli, hermes: Path) -> None:
    (hermes / "config.yaml").write_text("memory:\n  provider: strongroom\n")
    wired(cli)
    unwired(cli)
    assert (hermes / "config.yaml").read_text() == "memory:\n  provider: ''\n"


@pytest.mark.requirement("unwire-keeps-waiting")
def test_waiting_turns_are_kept_and_told_without_purge(cli: Cli, hermes: Path) -> None:
    wired(cli)
    found = read_policy(hermes)
    found.spool.mkdir()
    (found.spool / "01J0000000000000000000-1.turn").write_bytes(b"sealed")
    assert unwired(cli)["waiting"] == "warn"
    assert files(found.spool) == {"01J0000000000000000000-1.turn": b"sealed"}
    assert (hermes / policy.FILE).exists()
    wired(cli)
    assert read_policy(hermes).spool == found.spool
    states = unwired(cli, "--purge")
    assert (states["waiting"], states["policy"]) == ("ok", "ok")
    assert not found.state.parent.exists()
    assert files(hermes) == {"config.yaml": CONFIG.encode()}


def test_purge_leaves_no_policy_of_ours_and_tells_of_hooks_that_stay(cli: Cli, hermes: Path) -> None:
    with_hooks = CONFIG + "hooks:\n  pre_tool_call:\n    - command: strongroom hook check\n"
    (hermes / "config.yaml").write_text(with_hooks)
    wired(cli)
    (hermes / policy.GOOD).write_text("a copy of the last good one")
    (hermes / MARKER).write_text("[]")
    done = cli("unwire", "hermes", "--purge", "--json")
    (step,) = [one for one in done.json["steps"] if one["name"] == "settings"]
    assert (step["state"], "hook check" in step["hint"]) == ("warn", True)
    assert files(hermes) == {"config.yaml": with_hooks.encode()}


@pytest.mark.requirement("unwire-keeps-waiting")
def test_state_directory_that_is_not_ours_is_never_removed(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    mine = home / "precious"
    mine.mkdir()
    (mine / "photo").write_bytes(b"x")
    path = hermes / policy.FILE
    path.write_text(path.read_text().replace(str(read_policy(hermes).state), str(mine)))
    assert unwired(cli, "--purge")["settings"] == "warn"
    assert files(mine) == {"photo": b"x"}


@pytest.mark.requirement("unwire-keeps-waiting")
def test_state_directory_that_is_a_link_is_never_followed(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    mine = home / "precious"
    mine.mkdir()
    (mine / "photo").write_bytes(b"x")
    state = read_policy(hermes).state
    state.rmdir()
    state.symlink_to(mine)
    assert unwired(cli, "--purge")["waiting"] == "warn"
    assert files(mine) == {"photo": b"x"}


def test_vault_that_is_gone_is_told_because_the_cap_was_not_revoked(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    cap = read_policy(hermes).cap
    path = hermes / policy.FILE
    path.write_text(path.read_text().replace('vault = "', 'vault = "/gone'))
    assert unwired(cli)["cap"] == "warn"
    assert not cap.exists()


def test_one_profile_is_unwired_and_the_other_stays(cli: Cli, hermes: Path) -> None:
    coder = hermes / "profiles" / "coder"
    coder.mkdir(parents=True)
    wired(cli, "--profile", "all")
    unwired(cli, "--profile", "coder")
    assert plugin_files.differing_files(hermes) == []
    assert not plugin_files.directory(coder).exists()
    assert read_policy(hermes).cap.exists()
    assert not read_policy(coder).cap.exists()


@pytest.mark.requirement("cli-help")
def test_examples_of_the_help_run_in_order(cli: Cli, hermes: Path) -> None:
    lines = [line for group in (wire, unwire) for line in examples(group) if "--url" not in line]
    codes = [cli(*shlex.split(line)[1:]).code for line in lines]
    assert codes == [1, 0, 0, 0, 0], "the first only looks, before anything is wired"


def test_memory_itself_is_not_touched(cli: Cli, hermes: Path) -> None:
    wired(cli)
    assert cli("put", "Trip to Chengdu").code == 0
    unwired(cli, "--purge")
    assert "Chengdu" in cli("get", "trip").out
