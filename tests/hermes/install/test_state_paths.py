"""Places that a policy names: what is not ours is neither written nor removed, whoever wrote the policy."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from strongroom import attenuate
from strongroom.errors import CapRevoked, InvalidRequest
from strongroom.hermes import cap_file, policy, runtime_cap
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import toml_edit
from strongroom.hermes.policy import Policy
from strongroom.hermes.state_paths import claim, places_named_by, places_of
from tests.cli.conftest import Cli, opened
from tests.hermes.install.conftest import files
from tests.hermes.install.test_wire import data, failed, read_policy, states, wired

BODY = b"somebody's own\n"
VERBS = ("wire", "unwire")


def named(hermes: Path, **keys: str) -> None:
    """Write keys into the policy, as an agent's file tool can."""
    path = hermes / policy.FILE
    text = path.read_text()
    for key, value in keys.items():
        text = toml_edit.set_key(text, "", key, value)
    path.write_text(text)
    policy.read(text)


def somebodys(path: Path, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(BODY)
    path.chmod(mode)
    return path


def seen(path: Path) -> tuple[bytes, int, int]:
    status = path.stat()
    return path.read_bytes(), status.st_mode, status.st_ino


# A file of the owner that the policy calls the cap.


@pytest.mark.requirement("wire-only-own-places")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("mode", [0o600, 0o644], ids=oct)
@pytest.mark.parametrize("where", ["id_rsa", "elsewhere/runtime.cap", "default-00000000/runtime.cap"])
@pytest.mark.parametrize("verb", VERBS)
def test_file_that_the_policy_calls_the_cap_is_left_alone(
    cli: Cli, hermes: Path, home: Path, verb: str, where: str, mode: int
) -> None:
    wired(cli)
    mine = read_policy(hermes)
    token = cap_file.read(mine.cap)
    victim = somebodys(home / where, mode)
    before = seen(victim)
    named(hermes, cap=str(victim), state=str(victim.parent / "state"))
    done = cli(verb, "hermes", "--json")
    assert (done.code, states(done)["settings"]) == (0, "warn")
    assert seen(victim) == before
    assert not (victim.parent / "state").exists()
    if verb == "wire":
        assert (read_policy(hermes).cap, read_policy(hermes).state) == (mine.cap, mine.state)
        assert cap_file.read(mine.cap) == token
    else:
        assert not mine.cap.exists()
        with opened() as vault, pytest.raises(CapRevoked):
            vault.memory(attenuate(token, actor="hermes/default/owner")).list()


@pytest.mark.requirement("wire-only-own-places")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("verb", VERBS)
def test_cap_that_others_use_is_not_replaced_or_removed(cli: Cli, hermes: Path, home: Path, verb: str) -> None:
    """Also a real cap, of another home or of a program, is not this home's because its policy says so."""
    coder = hermes / "profiles" / "coder"
    coder.mkdir(parents=True)
    wired(cli, "--profile", "all")
    other = read_policy(coder)
    elsewhere = home / "program.cap"
    cap_file.write(elsewhere, cap_file.read(other.cap))
    for cap, state in ((other.cap, other.state), (elsewhere, read_policy(hermes).state)):
        before = seen(cap)
        named(hermes, cap=str(cap), state=str(state))
        assert cli(verb, "hermes", "--json").code == 0
        assert seen(cap) == before
    with opened() as vault:
        vault.memory(attenuate(cap_file.read(other.cap), actor="hermes/coder/owner")).list()


@pytest.mark.requirement("wire-only-own-places")
@pytest.mark.usefixtures("no_children")
def test_look_tells_of_places_that_are_not_ours(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    named(hermes, cap=str(somebodys(home / "id_rsa")))
    done = cli("wire", "hermes", "--check-only", "--json")
    assert (done.code, states(done)["settings"], states(done)["policy"]) == (1, "warn", "drift")
    wired(cli)
    done = cli("wire", "hermes", "--check-only", "--json")
    assert (done.code, states(done)["settings"]) == (0, "ok")


@pytest.mark.requirement("wire-only-own-places")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("key", ["cap", "state"])
def test_name_that_no_file_can_have_is_no_place(cli: Cli, hermes: Path, key: str) -> None:
    wired(cli)
    named(hermes, **{key: "/tmp/a\0b"})
    assert states(cli("unwire", "hermes", "--json"))["settings"] == "warn"


@pytest.mark.requirement("wire-only-own-places")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("verb", [("wire",), ("unwire",), ("unwire", "--purge")], ids=" ".join)
def test_places_of_another_home_of_the_same_profile_are_left_alone(
    cli: Cli, hermes: Path, home: Path, verb: tuple[str, ...]
) -> None:
    other = home / "other"
    other.mkdir()
    (other / "config.yaml").write_text("x: 1\n")
    wired(cli)
    wired(cli, "--home", str(other))
    theirs, mine = read_policy(other), read_policy(hermes)
    token = cap_file.read(theirs.cap)
    before = files(theirs.cap.parent)
    named(hermes, cap=str(theirs.cap), state=str(theirs.state))
    done = cli(verb[0], "hermes", "--home", str(hermes), *verb[1:], "--json")
    assert (done.code, states(done)["settings"]) == (0, "warn")
    assert files(theirs.cap.parent) == before
    assert theirs.state.is_dir()
    assert mine.cap.exists() == (verb == ("wire",))
    with opened() as vault:
        vault.memory(attenuate(token, actor="hermes/default/owner")).list()


# What lies at our own place and is no cap.


@pytest.mark.requirement("wire-only-own-places")
@pytest.mark.usefixtures("no_children")
@pytest.mark.parametrize("kind", ["file", "readable", "link", "pipe", "directory"])
@pytest.mark.parametrize("verb", [("wire",), ("wire", "--check-only"), ("unwire",)], ids=" ".join)
def test_non_cap_is_refused_also_in_our_own_place(
    cli: Cli, hermes: Path, home: Path, verb: tuple[str, ...], kind: str
) -> None:
    wired(cli)
    cap = read_policy(hermes).cap
    cap.unlink()
    victim = somebodys(home / "id_rsa" if kind == "link" else cap, 0o644 if kind == "readable" else 0o600)
    if kind == "link":
        cap.symlink_to(victim)
    elif kind in ("pipe", "directory"):
        cap.unlink()
        os.mkfifo(cap, 0o600) if kind == "pipe" else cap.mkdir()
    before = cap.lstat()
    assert failed(cli(verb[0], "hermes", *verb[1:], "--json")) == "cap"
    assert (cap.lstat().st_ino, cap.lstat().st_mode) == (before.st_ino, before.st_mode)
    if victim.is_file():
        assert victim.read_bytes() == BODY
    with opened() as vault:
        assert len([one for one in vault.caps() if one.actor == "hermes/default/"]) == 1, "none was minted for nothing"


@pytest.mark.requirement("wire-only-own-places")
def test_only_what_reads_as_a_cap_counts_as_one(tmp_path: Path) -> None:
    path = tmp_path / "runtime.cap"
    assert runtime_cap.own_in(path) is None
    path.touch()
    assert runtime_cap.own_in(path) is None
    for body in (b"x", b"eyJhbGciOiJFZERTQSJ9.e30.x", b"\xff\xfe\n", b"a" * (1 << 20)):
        path.write_bytes(body)
        with pytest.raises(InvalidRequest):
            runtime_cap.own_in(path)


@pytest.mark.usefixtures("no_children")
def test_empty_file_in_our_own_place_is_no_hindrance(cli: Cli, hermes: Path) -> None:
    wired(cli)
    cap = read_policy(hermes).cap
    cap.write_bytes(b"")
    wired(cli)
    assert cap_file.read(cap)
    cap.write_bytes(b"")
    assert states(cli("unwire", "hermes", "--json"))["cap"] == "ok"
    assert not cap.exists()


# Which places are ours.


@pytest.fixture
def kept(hermes: Path) -> Policy:
    """A policy that names places of ours, of a home that was elsewhere once."""
    there = places_of(HermesHome(hermes / "once", "default", hermes))
    claim(there, HermesHome(hermes / "once", "default", hermes))
    return replace(policy.read(""), vault="/v", cap=there.cap, state=there.state)


@pytest.mark.requirement("wire-only-own-places")
def test_places_of_another_kind_are_not_taken(kept: Policy, hermes: Path, home: Path) -> None:
    here, base = HermesHome(hermes, "default", hermes), data() / "hermes"
    (base / "default-11111111").mkdir(parents=True)
    out = home / "out" / "default-22222222"
    out.mkdir(parents=True)
    (base / "default-22222222").symlink_to(out)
    (base / "default-11111111" / "state").symlink_to(home / "out")
    for one in (base / "default-11111111", out):
        (one / "home").write_text("/gone")
    for directory in (
        base / "coder-11111111",
        base / "default-1111",
        base / "default-1111111g",
        base / "default-coder-11111111",
        base / "default-22222222",
        base / "default-11111111",
        base / "default-33333333",
        base / "x" / "default-33333333",
        base / ".." / "default-33333333",
        Path("default-33333333"),
    ):
        assert places_named_by(replace(kept, cap=directory / "runtime.cap", state=directory / "state"), here) is None
    for odd in (
        {"cap": kept.cap.with_name("other.cap")},
        {"state": kept.state.with_name("spool")},
        {"state": base / "default-33333333" / "state"},
        {"profile": "coder"},
    ):
        assert places_named_by(replace(kept, **odd), here) is None
    assert places_named_by(kept, HermesHome(hermes, "coder", hermes)) is None
    kept.cap.with_name("home").unlink()
    assert places_named_by(kept, here) is None, "it does not say whose it is"


def test_places_of_ours_are_found_again_however_they_are_spelled(kept: Policy, hermes: Path, home: Path) -> None:
    here = HermesHome(hermes, "default", hermes)
    found = places_named_by(kept, here)
    assert found is not None
    assert (found.cap, found.state, found.before) == (kept.cap, kept.state, kept.cap.with_name("before.json"))
    (home / "link").symlink_to(data())
    linked = home / "link" / "hermes" / kept.cap.parent.name
    assert places_named_by(replace(kept, cap=linked / "runtime.cap", state=linked / "state"), here) == found
    around = data() / "x" / ".." / "hermes" / kept.cap.parent.name
    assert places_named_by(replace(kept, cap=around / "runtime.cap", state=around / "state"), here) == found


@pytest.mark.requirement("unwire-keeps-waiting")
@pytest.mark.usefixtures("no_children")
def test_waiting_turns_are_found_again_after_an_unwire_and_a_move(cli: Cli, hermes: Path, home: Path) -> None:
    wired(cli)
    before = read_policy(hermes)
    before.spool.mkdir()
    (before.spool / "01J.turn").write_bytes(b"sealed")
    assert cli("unwire", "hermes", "--json").code == 0
    moved = hermes.rename(home / "moved")
    wired(cli, "--home", str(moved))
    assert read_policy(moved).spool == before.spool
