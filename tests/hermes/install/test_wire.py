"""`strongroom wire hermes` with the vault on this machine: refusals, faults and kills first, then what it sets up."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import pytest

import strongroom
from strongroom import attenuate, settings
from strongroom.errors import CapRevoked, ProviderUnavailable
from strongroom.extras import how_to_install
from strongroom.hermes import cap_file, policy
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import config_yaml, hermes_probe, plugin_files, self_test
from strongroom.hermes.install.self_test import Verified
from strongroom.hermes.state_paths import places_of
from strongroom.keys import default_directory
from tests.cli.conftest import Cli, Done, environment, opened
from tests.hermes.install.conftest import CONFIG, files

NAMES = ["hermes", "home", "settings", "packages", "memory", "cap", "policy", "plugin", "verify", "provider"]
WRITES = ["cap", "policy", "plugin", "provider"]


def states(done: Done) -> dict[str, str]:
    return {step["name"]: step["state"] for step in done.json["steps"]}


def failed(done: Done) -> str:
    """The step that failed, and nothing else."""
    assert done.code != 0, done.out
    (name,) = [name for name, state in states(done).items() if state == "fail"]
    return name


def wired(cli: Cli, *arguments: str) -> Any:
    done = cli("wire", "hermes", *arguments, "--json")
    assert done.code == 0, done.out + done.err
    return done.json


def read_policy(home: Path) -> policy.Policy:
    return policy.read((home / policy.FILE).read_text())


def data() -> Path:
    return Path(platformdirs.user_data_dir("strongroom"))


def kept(hermes: Path) -> dict[str, bytes]:
    """Every file of Hermes and of ours but the vault's own."""
    ours = {f"data/{name}": body for name, body in files(data()).items() if not name.startswith(("vault", "keys"))}
    return {**files(hermes), **ours}


# Refusals. Nothing is written where one is met.


@pytest.mark.requirement("wire-refusals")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2\n", "x: [\n", "- list\n", "hooks:\n  pre_llm_call:\n    - command: strongroom hook memory-inject\n"],
    ids=["twice", "broken", "list", "hook"],
)
def test_settings_that_do_not_fit_are_refused_untouched(cli: Cli, hermes: Path, text: str) -> None:
    (hermes / "config.yaml").write_text(text)
    done = cli("wire", "hermes", "--json")
    assert (failed(done), done.code) == ("settings", 2)
    assert kept(hermes) == {"config.yaml": text.encode()}
    assert states(done)["provider"] == "skip"
    assert not data().exists()


@pytest.mark.requirement("wire-refusals")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("name", ["config.yaml", "strongroom.toml", "plugins"])
def test_link_out_of_the_home_is_refused(cli: Cli, hermes: Path, home: Path, name: str) -> None:
    outside = home / "elsewhere"
    if name == "plugins":
        outside.mkdir()
    else:
        outside.write_text("")
        (hermes / name).unlink(missing_ok=True)
    (hermes / name).symlink_to(outside)
    assert failed(cli("wire", "hermes", "--json")) == "settings"
    assert not data().exists()


@pytest.mark.requirement("wire-refusals", "hermes-cap-outside")
@pytest.mark.usefixtures("no_children")
def test_vault_keys_or_cap_inside_the_home_are_refused(
    cli: Cli, hermes: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coder = hermes / "profiles" / "coder"
    coder.mkdir(parents=True)
    assert failed(cli("wire", "hermes", "--vault", str(hermes / "vault"), "--json")) == "memory"
    assert failed(cli("wire", "hermes", "--profile", "coder", "--vault", str(hermes / "vault"), "--json")) == "memory"
    (home / "link").symlink_to(hermes)
    assert failed(cli("wire", "hermes", "--vault", str(home / "link/vault"), "--json")) == "memory"
    monkeypatch.setenv("STRONGROOM_KEYS", str(hermes / "keys"))
    assert failed(cli("wire", "hermes", "--json")) == "memory"
    monkeypatch.delenv("STRONGROOM_KEYS")
    monkeypatch.setenv("XDG_DATA_HOME", str(hermes / "share"))
    assert failed(cli("wire", "hermes", "--json")) == "settings"
    assert files(hermes) == {"config.yaml": CONFIG.encode()}


@pytest.mark.usefixtures("no_children")
def test_vault_that_is_named_and_not_there_is_not_made(cli: Cli, hermes: Path, home: Path) -> None:
    done = cli("wire", "hermes", "--vault", str(home / "mine"), "--json")
    assert (failed(done), done.code) == ("memory", 4)
    assert not (home / "mine").exists()


@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--namespaces", "travel,secret"],
        ["--cap-file", "x.cap"],
        ["--ca-file", "ca.pem"],
        ["--url", "http://127.0.0.1:9"],
        ["--url", "http://127.0.0.1:9", "--cap-file", "none.cap"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_refused(cli: Cli, hermes: Path, arguments: list[str]) -> None:
    assert failed(cli("wire", "hermes", *arguments, "--json")) == "memory"
    assert files(hermes) == {"config.yaml": CONFIG.encode()}


@pytest.mark.usefixtures("no_children")
def test_account_that_is_none_is_refused_and_the_policy_unwritten(cli: Cli, hermes: Path) -> None:
    assert failed(cli("wire", "hermes", "--me", "just-a-name", "--json")) == "policy"
    assert not (hermes / policy.FILE).exists()


@pytest.mark.usefixtures("no_children")
def test_broken_policy_is_refused_untouched(cli: Cli, hermes: Path) -> None:
    (hermes / policy.FILE).write_text("vault = 1\n")
    assert failed(cli("wire", "hermes", "--json")) == "settings"
    assert (hermes / policy.FILE).read_text() == "vault = 1\n"


@pytest.mark.usefixtures("no_children")
def test_namespace_that_nobody_reaches_is_refused_and_the_file_named(cli: Cli, hermes: Path) -> None:
    wired(cli)
    path = hermes / policy.FILE
    path.write_text(path.read_text().replace('namespace = ""', 'namespace = "wrk"'))
    done = cli("wire", "hermes", "--check-only", "--json")
    assert failed(done) == "settings"
    (step,) = [one for one in done.json["steps"] if one["state"] == "fail"]
    assert step["message"].startswith(str(path))
    assert "personal, family, work, travel" in step["hint"]


@pytest.mark.usefixtures("no_children")
def test_mapping_is_not_left_behind_by_fewer_namespaces(cli: Cli, hermes: Path) -> None:
    wired(cli)
    path = hermes / policy.FILE
    path.write_text(path.read_text().replace("[chats]\n", '[chats]\n"slack:C1" = "work"\n'))
    before = path.read_text()
    assert failed(cli("wire", "hermes", "--namespaces", "travel", "--json")) == "policy"
    assert path.read_text() == before


def test_platform_that_hermes_does_not_know_is_warned_of(
    cli: Cli, hermes: Path, no_children: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(hermes_probe.find(), platforms=frozenset({"telegram"}))
    monkeypatch.setattr(hermes_probe, "find", lambda python=None, path=None: known)
    monkeypatch.setattr(self_test, "verify_home", lambda *_, **__: Verified("hermes/default/owner", ""))
    done = cli("wire", "hermes", "--me", "telegramm:1", "--me", "telegram:2", "--json")
    (step,) = [one for one in done.json["steps"] if one["name"] == "policy"]
    assert (done.code, step["state"]) == (0, "warn")
    assert "telegramm:1" in step["hint"]
    assert states(cli("wire", "hermes", "--me", "telegram:3", "--json"))["policy"] == "ok"


@pytest.mark.requirement("wire-packages")
def test_command_to_get_missing_packages_is_told(
    cli: Cli, hermes: Path, no_children: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = hermes_probe.find()
    pip = how_to_install("hermes", str(whole.python))
    for lacking in (
        replace(whole, lacks=frozenset({"strongroom"}), broken="ModuleNotFoundError strongroom"),
        replace(whole, broken="ImportError"),
        replace(whole, lacks=frozenset({"detect_secrets"})),
    ):
        monkeypatch.setattr(hermes_probe, "find", lambda python=None, path=None, found=lacking: found)
        done = cli("wire", "hermes", "--json")
        assert failed(done) == "packages"
        (step,) = [one for one in done.json["steps"] if one["state"] == "fail"]
        assert step["hint"].startswith(pip)
    monkeypatch.setattr(self_test, "verify_home", lambda *_, **__: Verified("hermes/default/owner", ""))
    assert wired(cli, "--no-masking")["ok"]
    assert not read_policy(hermes).keep.mask_secrets
    assert not wired(cli)["changed"], "the policy says so now"


@pytest.mark.requirement("wire-packages")
def test_older_hermes_and_another_version_of_ours_are_warned_of(
    cli: Cli, hermes: Path, no_children: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(hermes_probe.find(), version="0.18.0", strongroom="0.0.1")
    monkeypatch.setattr(hermes_probe, "find", lambda python=None, path=None: old)
    monkeypatch.setattr(self_test, "verify_home", lambda *_, **__: Verified("hermes/default/owner", ""))
    done = cli("wire", "hermes", "--json")
    assert done.code == 0
    assert (states(done)["hermes"], states(done)["packages"]) == ("warn", "warn")


@pytest.mark.requirement("wire-verified-first")
def test_plugin_that_hermes_does_not_load_is_not_switched_on(
    cli: Cli, hermes: Path, no_children: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> Verified:
        raise ProviderUnavailable("Hermes does not load the plugin")

    monkeypatch.setattr(self_test, "verify_home", refused)
    assert failed(cli("wire", "hermes", "--json")) == "verify"
    assert (hermes / "config.yaml").read_text() == CONFIG
    monkeypatch.setattr(self_test, "verify_home", lambda *_, **__: Verified("hermes/default/owner", "mem0"))
    assert failed(cli("wire", "hermes", "--json")) == "verify"
    assert (hermes / "config.yaml").read_text() == CONFIG


@pytest.mark.usefixtures("no_children")
def test_file_that_is_not_ours_is_not_overwritten(cli: Cli, hermes: Path) -> None:
    mine = hermes / "plugins/strongroom/cli.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("# my own\n")
    assert failed(cli("wire", "hermes", "--json")) == "plugin"
    assert mine.read_text() == "# my own\n"


@pytest.mark.usefixtures("no_children")
def test_cap_that_others_can_read_is_refused(cli: Cli, hermes: Path) -> None:
    wired(cli)
    read_policy(hermes).cap.chmod(0o644)
    assert failed(cli("wire", "hermes", "--json")) == "cap"


@pytest.mark.parametrize("more", [["--allow-cleartext"], ["--vault", "v"], ["--cap-file", "-"]], ids=" ".join)
def test_cap_in_clear_or_from_nowhere_and_two_places_are_refused(cli: Cli, hermes: Path, more: list[str]) -> None:
    done = cli("wire", "hermes", "--url", "http://127.0.0.1:9", "--cap-file", "x", *more, "--json")
    assert done.reason == "usage"
    assert files(hermes) == {"config.yaml": CONFIG.encode()}


# Faults: each write fails in turn, or the process dies before it.


@contextmanager
def failing_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """A disk that is full at one write; tells how many there were."""
    count = 0

    def counted(write: Callable[..., None]) -> Callable[..., None]:
        def act(*arguments: Any, **more: Any) -> None:
            nonlocal count
            # The vault goes on without a checkpoint, and `doctor` tells; a directory may be there already.
            if "checkpoint" in str(arguments[-1]) or Path(arguments[0]).is_dir():
                return write(*arguments, **more)
            count += 1
            if count == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(*arguments, **more)

        return act

    with monkeypatch.context() as patch:
        for name in ("replace", "link", "mkdir"):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield lambda: count


@pytest.mark.requirement("wire-whole-or-not")
def test_full_disk_at_any_write_leaves_nothing_half_written(
    cli: Cli, hermes: Path, home: Path, no_children: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("init").code == 0
    number = 0
    while True:
        number += 1
        with failing_at(number, monkeypatch) as count:
            done = cli("wire", "hermes", "--json")
        if count() < number:
            break
        assert done.code in (2, 7), done.out
        assert states(done)["provider"] in ("skip", "fail")
        assert (hermes / "config.yaml").read_text() == CONFIG
        text = files(hermes).get(policy.FILE)
        assert text is None or policy.read(text.decode()).is_wired
        assert not [name for name in files(home) if Path(name).name.startswith(".") and "hermes/" in name]
        _again(cli, hermes)
    assert done.code == 0
    assert number > 8


def _again(cli: Cli, hermes: Path) -> None:
    """After a fault: the same again succeeds, and all of it can be taken back."""
    assert wired(cli)["ok"]
    assert config_yaml.provider_in(config_yaml.read((hermes / "config.yaml").read_text())) == plugin_files.NAME
    done = cli("unwire", "hermes", "--purge", "--json")
    assert done.code == 0, done.out
    assert files(hermes) == {"config.yaml": CONFIG.encode()}
    shutil.rmtree(hermes / "plugins")


_KILLED = """
import os, signal, sys
from pathlib import Path
from importlib.metadata import version
from strongroom.hermes.install import hermes_probe, self_test
found = hermes_probe.Hermes(Path("/opt/hermes/bin/python"), "0.19.0", version("strongroom"), frozenset(), "")
hermes_probe.find = lambda python=None, path=None: found
self_test.verify_home = lambda *_, **__: self_test.Verified("", "")
def deadly(write):
    def act(*arguments, **more):
        write(*arguments, **more)
        if "checkpoint" not in str(arguments[-1]):
            os.kill(os.getpid(), signal.SIGKILL)
    return act
os.replace = deadly(os.replace)
os.link = deadly(os.link)
from strongroom.cli.app import app
app(["wire", "hermes", "--json"])
"""


@pytest.mark.requirement("wire-killed")
def test_killed_after_each_write_the_next_run_goes_on_and_hermes_is_switched_last(
    cli: Cli, hermes: Path, home: Path, no_children: None
) -> None:
    assert cli("init").code == 0
    command = [sys.executable, "-c", _KILLED]
    kills = 0
    while (hermes / "config.yaml").read_text() == CONFIG and kills < 30:
        kills += 1
        done = subprocess.run(command, cwd=home, env=environment(), capture_output=True, timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert 6 < kills < 30
    assert not wired(cli)["changed"]
    assert cli("unwire", "hermes", "--json").code == 0
    assert (hermes / "config.yaml").read_text() == CONFIG


# What it sets up.


@pytest.mark.requirement("wire-steps", "hermes-cap-outside")
@pytest.mark.usefixtures("no_children")
def test_everything_is_in_its_place(cli: Cli, hermes: Path) -> None:
    said = wired(cli, "--me", "telegram:123", "--tools", "forget")
    assert [step["name"] for step in said["steps"]] == NAMES
    assert [step["number"] for step in said["steps"]] == [*range(1, 11)]
    found = read_policy(hermes)
    assert (found.vault, found.profile, found.tools) == (str(settings.default_vault()), "default", policy.Tools.FORGET)
    assert found.identity.user_peer_aliases == {"telegram:123": policy.OWNER}
    assert found.inbox.startswith("age1")
    assert stat.S_IMODE(found.cap.stat().st_mode) == 0o600
    assert stat.S_IMODE(found.state.stat().st_mode) == 0o700
    assert not found.cap.is_relative_to(hermes)
    assert found.cap.parent.parent == data() / "hermes"
    assert (hermes / "config.yaml").read_text() == CONFIG.replace("'honcho'", "strongroom")
    assert (hermes / "config.yaml.before-strongroom").read_text() == CONFIG
    token = cap_file.read(found.cap)
    with opened() as vault:
        memory = vault.memory(attenuate(token, actor="hermes/default/owner", ttl=300))
        memory.put("Trip to Chengdu, May 25-29", namespace="travel")
        assert [hit.text for hit in memory.get("trip")] == ["Trip to Chengdu, May 25-29"]
        (record,) = [one for one in vault.caps() if one.actor == "hermes/default/"]
        assert set(record.ops) == set(cap_file.OPS)


@pytest.mark.requirement("wire-idempotent")
@pytest.mark.usefixtures("no_children")
def test_second_run_finds_nothing_to_do_and_rewrites_nothing(cli: Cli, hermes: Path, home: Path) -> None:
    assert wired(cli, "--me", "telegram:1")["changed"]
    before = {one: one.stat().st_mtime_ns for one in [*hermes.rglob("*"), *(data() / "hermes").rglob("*")]}
    bodies = kept(hermes)
    again = cli("wire", "hermes", "--me", "telegram:1", "--json")
    assert not again.json["changed"]
    assert {name: states(again)[name] for name in WRITES} == dict.fromkeys(WRITES, "skip")
    assert kept(hermes) == bodies
    assert {one: one.stat().st_mtime_ns for one in before} == before


@pytest.mark.requirement("wire-check-only")
@pytest.mark.usefixtures("no_children")
def test_look_writes_nothing_and_tells_drift(cli: Cli, hermes: Path, home: Path) -> None:
    before = files(home)
    done = cli("wire", "hermes", "--check-only", "--json")
    assert (done.code, done.json["ok"], done.json["drift"]) == (1, False, True)
    assert {name for name, state in states(done).items() if state == "drift"} == {"memory", *WRITES}
    assert files(home) == before
    wired(cli)
    after = kept(hermes)
    done = cli("wire", "hermes", "--check-only", "--json")
    assert (done.code, done.json["ok"], done.json["drift"]) == (0, True, False)
    assert cli("wire", "hermes", "--check-only", "--me", "telegram:1", "--json").code == 1
    assert cli("wire", "hermes", "--check-only", "--tools", "full", "--json").code == 1
    assert kept(hermes) == after
    for damage, name in (
        (hermes / policy.FILE, "policy"),
        (hermes / "plugins/strongroom/cli.py", "plugin"),
        (read_policy(hermes).cap, "cap"),
        (hermes / "config.yaml", "provider"),
    ):
        body = damage.read_bytes()
        damage.unlink()
        done = cli("wire", "hermes", "--check-only", "--json")
        assert done.code == 1
        assert states(done)[name] == "drift"
        assert not damage.exists()
        damage.write_bytes(body)
        damage.chmod(0o600)


@pytest.mark.usefixtures("no_children")
def test_look_at_what_is_refused_has_code_1_too(cli: Cli, hermes: Path) -> None:
    (hermes / "config.yaml").write_text("x: [\n")
    assert cli("wire", "hermes", "--check-only", "--json").code == 1


@pytest.mark.requirement("wire-policy-kept")
@pytest.mark.usefixtures("no_children")
def test_owners_policy_is_kept_but_for_what_wire_knows(cli: Cli, hermes: Path) -> None:
    wired(cli, "--me", "telegram:1")
    path = hermes / policy.FILE
    mine = (
        path.read_text().replace("lines = 5 ", "lines = 9 ").replace('vault = "', 'vault = "/gone/')
        + "# my last word\n"
    )
    path.write_text(mine.replace("[chats]\n", '[chats]\n"slack:C1" = "work"\n'))
    expected = (
        path.read_text().replace('vault = "/gone/', 'vault = "').replace('["telegram:1"]', '["telegram:1", "slack:U2"]')
    )
    wired(cli, "--vault", str(settings.default_vault()), "--me", "slack:U2", "--me", "telegram:1")
    assert path.read_text() == expected


@pytest.mark.requirement("wire-cap-renewed")
@pytest.mark.usefixtures("no_children")
def test_cap_is_minted_anew_only_if_it_has_to_be(cli: Cli, hermes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wired(cli)
    path = read_policy(hermes).cap
    first = cap_file.read(path)
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: now + 20 * 86_400)
        assert not wired(cli)["changed"]
    wired(cli, "--namespaces", "travel")
    second = cap_file.read(path)
    wired(cli, "--namespaces", "personal,travel")
    with opened() as vault:
        standing = [one for one in vault.caps() if one.actor == "hermes/default/" and not one.revoked]
    assert [set(one.namespaces) for one in standing] == [{"personal", "travel"}]
    wired(cli, "--namespaces", "travel")
    second = cap_file.read(path)
    assert second != first
    assert read_policy(hermes).namespaces == ("travel",)
    with opened() as vault:
        with pytest.raises(CapRevoked):
            vault.memory(attenuate(first, actor="hermes/default/owner")).list()
        vault.revoke(second)
    wired(cli)
    third = cap_file.read(path)
    assert third != second
    path.write_text("damaged\n")
    assert failed(cli("wire", "hermes", "--json")) == "cap"
    path.unlink()
    wired(cli)
    assert cap_file.read(path) not in (first, second, third)
    assert read_policy(hermes).namespaces == ("travel",)


@pytest.mark.usefixtures("no_children")
def test_cap_of_a_vault_that_is_left_is_revoked_there(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    first = cap_file.read(read_policy(hermes).cap)
    assert cli("init", str(home / "other")).code == 0
    wired(cli, "--vault", str(home / "other"))
    assert cap_file.read(read_policy(hermes).cap) != first
    with opened() as vault, pytest.raises(CapRevoked):
        vault.memory(attenuate(first, actor="hermes/default/owner")).list()


@pytest.mark.requirement("wire-profiles")
@pytest.mark.usefixtures("no_children")
def test_two_profiles_get_caps_and_policies_of_their_own(cli: Cli, hermes: Path) -> None:
    coder = hermes / "profiles" / "coder"
    coder.mkdir(parents=True)
    said = wired(cli, "--profile", "all")
    assert said["homes"] == [str(hermes), str(coder)]
    assert [step["profile"] for step in said["steps"]] == [""] * 2 + ["default"] * 8 + ["coder"] * 8
    one, other = read_policy(hermes), read_policy(coder)
    assert (one.scope, other.scope) == ("hermes/default/", "hermes/coder/")
    assert one.cap != other.cap
    assert one.state != other.state
    assert config_yaml.provider_in(config_yaml.read((coder / "config.yaml").read_text())) == plugin_files.NAME
    with opened() as vault:
        assert {record.actor for record in vault.caps()} >= {"hermes/default/", "hermes/coder/"}


@pytest.mark.requirement("wire-profiles")
@pytest.mark.usefixtures("no_children")
def test_profile_that_was_copied_with_its_policy_gets_its_own_cap(cli: Cli, hermes: Path) -> None:
    wired(cli)
    coder = hermes / "profiles" / "coder"
    shutil.copytree(hermes, coder, ignore=shutil.ignore_patterns("profiles"))
    look = cli("wire", "hermes", "--profile", "coder", "--check-only", "--json")
    (step,) = [one for one in look.json["steps"] if one["name"] == "settings"]
    assert (look.code, step["state"]) == (1, "warn")
    assert "`strongroom wire hermes --profile coder`" in step["hint"]
    wired(cli, "--profile", "coder")
    assert read_policy(coder).scope == "hermes/coder/"
    assert read_policy(coder).cap != read_policy(hermes).cap


@pytest.mark.usefixtures("no_children")
def test_home_that_was_moved_keeps_its_cap_and_what_waits(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    before = read_policy(hermes)
    token = cap_file.read(before.cap)
    moved = hermes.rename(home / "moved")
    hermes.mkdir()  # as Hermes itself makes one anew
    look = cli("wire", "hermes", "--home", str(moved), "--check-only", "--json")
    assert (look.code, states(look)["cap"], states(look)["policy"]) == (1, "drift", "skip")
    wired(cli, "--home", str(moved))
    assert (read_policy(moved), cap_file.read(before.cap)) == (before, token)
    assert not wired(cli, "--home", str(moved))["changed"]
    wired(cli, "--home", str(hermes))
    assert read_policy(hermes).state != before.state
    assert not wired(cli, "--home", str(hermes))["changed"]
    assert not wired(cli, "--home", str(moved))["changed"]


@pytest.mark.usefixtures("no_children")
def test_home_with_spaces_and_letters_of_any_kind(cli: Cli, hermes: Path, home: Path) -> None:
    place = hermes.rename(home / "mein Zuhause é 家")
    vault = home / 'tresor 家 "x" \\ y'
    assert cli("init", str(vault)).code == 0
    wired(cli, "--home", str(place), "--vault", str(vault))
    assert read_policy(place).vault == str(vault)
    assert not wired(cli, "--home", str(place))["changed"], "the vault of the policy is used again"


@pytest.mark.usefixtures("no_children")
def test_config_is_made_if_there_is_none(cli: Cli, hermes: Path) -> None:
    (hermes / "config.yaml").unlink()
    wired(cli)
    assert (hermes / "config.yaml").read_text() == "memory:\n  provider: strongroom\n"


@pytest.mark.requirement("wire-says-walls")
@pytest.mark.usefixtures("no_children")
def test_wall_and_what_lies_beyond_it_are_told(cli: Cli, hermes: Path) -> None:
    out = cli("wire", "hermes").out
    assert "in its own process" in out
    for word in ("MEMORY.md", "memory.memory_enabled: false", "session_search", "state.db", "agent.log"):
        assert word in out
    for more in ((), ("--check-only",)):
        again = cli("wire", "hermes", *more).out
        assert "in its own process" not in again, "nothing was changed: it was told before"
        assert "new session" not in again
    (hermes / "config.yaml").write_text(
        "memory: {provider: strongroom, memory_enabled: false, user_profile_enabled: false}\n"
        "agent: {disabled_toolsets: [session_search]}\n"
    )
    said = wired(cli)
    assert [one["what"].split(":")[0] for one in said["beyond"]] == ["state.db", "logs"]


@pytest.mark.usefixtures("no_children")
def test_keys_behind_a_passphrase_are_told_of(cli: Cli, hermes: Path, home: Path) -> None:
    secret = home / "secret"
    secret.touch(mode=0o600)
    secret.write_text("several words that nobody guesses\n")
    assert cli("init", "--passphrase-file", str(secret)).code == 0
    done = cli("wire", "hermes", "--passphrase-file", str(secret), "--json")
    (step,) = [one for one in done.json["steps"] if one["name"] == "memory"]
    assert "STRONGROOM_PASSPHRASE_FILE" in step["hint"]


@pytest.mark.requirement("wire-no-secrets")
@pytest.mark.usefixtures("no_children")
def test_no_cap_is_told_or_left_in_the_home(cli: Cli, hermes: Path) -> None:
    told = [cli("wire", "hermes", *more) for more in ((), ("--json",), ("--check-only",))]
    token = cap_file.read(read_policy(hermes).cap)
    for done in told:
        assert token not in done.out + done.err
    assert not [name for name, body in files(hermes).items() if token.encode() in body or b"eyJ" in body]


def test_place_of_a_homes_things_follows_its_real_path(hermes: Path, home: Path) -> None:
    (home / "linked").symlink_to(hermes)
    mine = places_of(HermesHome(hermes, "default", hermes))
    assert places_of(HermesHome(home / "linked", "default", hermes)) == mine
    assert places_of(HermesHome(home, "default", home)) != mine
    assert len(mine.cap.parent.name) == len("default-") + 8


@pytest.mark.usefixtures("no_children")
def test_new_vault_is_as_init_makes_it(cli: Cli, hermes: Path) -> None:
    wired(cli)
    assert cli("get", "anything", "--json").code == 0
    with opened() as vault:
        assert (default_directory(vault.id) / "owner.cap").is_file()
        assert vault.namespaces == strongroom.model.DEFAULT_NAMESPACES
    json.loads((places_of(HermesHome(hermes, "default", hermes)).before).read_text())
