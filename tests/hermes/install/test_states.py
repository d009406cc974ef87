"""Every state of a home, brought about: the next command that `status` says works as it stands, or names the fault."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from strongroom.errors import StrongroomError
from strongroom.hermes import cap_file, policy
from strongroom.hermes.provider import StrongroomProvider
from strongroom.hermes.provider.hermes_cli import register_cli, strongroom_command
from tests.cli.conftest import Cli, opened
from tests.cli.serving import Server
from tests.hermes.install.test_remedies import minted
from tests.hermes.install.test_wire import read_policy, wired
from tests.hermes.install.test_wire_served import SCOPE, server
from tests.hermes.provider.conftest import close_all

__all__ = ["server"]
pytestmark = [pytest.mark.usefixtures("no_children", "own_ways"), pytest.mark.requirement("hermes-said-plainly")]
OWNER = f"{SCOPE}owner"
Act = Callable[[Cli, Path], object]


@pytest.fixture
def own_ways() -> Iterator[None]:
    close_all()
    yield
    close_all()


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """What `hermes strongroom` says, and what it complains of."""
    close_all()
    parser = argparse.ArgumentParser()
    register_cli(parser)
    capsys.readouterr()
    with suppress(SystemExit):
        strongroom_command(parser.parse_args(words))
    return capsys.readouterr()


def status(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Whether memory answers, and what is to be done."""
    out, err = asked(capsys, "--json", "status")
    if not out:
        return "", err
    found = json.loads(out)
    return found["answers"], " ".join([found.get("next", ""), found.get("policy", "")])


def typed(cli: Cli, told: str, file: Path) -> list[int]:
    """Type every command that is told, as it stands; their exit codes."""
    commands = re.findall(r"`((?:strongroom|mv|chmod|df) [^`]+)`", told)
    assert commands, told
    return [_run(cli, [str(file) if word == "FILE" else word for word in shlex.split(one)]) for one in commands]


def _run(cli: Cli, words: list[str]) -> int:
    if words[0] == "strongroom":
        return cli(*words[1:]).code
    return subprocess.run(words, check=False, capture_output=True).returncode


def edited(hermes: Path, pattern: str, new: str) -> Callable[[], object]:
    """Edit the policy; what puts it back."""
    path = policy.path_of(hermes)
    before = path.read_text()
    after = re.sub(pattern, new, before, flags=re.MULTILINE)
    assert after != before
    path.write_text(after)
    return lambda: path.write_text(before)


# Where the vault is here: one command after the other, and memory answers.


def erase(cli: Cli, hermes: Path) -> None:
    with opened() as vault:
        token = vault.mint(actor=OWNER, ops=["put"], namespaces=["travel"], ttl=60)
        vault.memory(token).put("My trip is in May", namespace="travel")
        vault.erase(OWNER)


def revoke_actor(cli: Cli, hermes: Path) -> None:
    with opened() as vault:
        vault.revoke_actor(OWNER)


def revoke_cap(cli: Cli, hermes: Path) -> None:
    with opened() as vault:
        vault.revoke(cap_file.read(read_policy(hermes).cap))


def move_vault(cli: Cli, hermes: Path) -> None:
    place = Path(read_policy(hermes).vault)
    place.rename(place.with_name("moved"))


def another_vault(cli: Cli, hermes: Path) -> None:
    move_vault(cli, hermes)
    assert cli("init", read_policy(hermes).vault).code == 0


def fill_spool(cli: Cli, hermes: Path) -> None:
    """Until the next turn does not fit, because the cap is gone."""
    path = policy.path_of(hermes)
    path.write_text(re.sub(r"^# spool_bytes = .*", "spool_bytes = 65536", path.read_text(), flags=re.MULTILINE))
    if "\nspool_bytes" not in path.read_text():
        path.write_text(path.read_text().replace("[keep]", "[keep]\nspool_bytes = 65536", 1))
    read_policy(hermes).cap.unlink()
    agent = StrongroomProvider(hermes)
    agent.initialize("s1", platform="cli")
    for said in ("word " * 8000, "other " * 8000):
        agent.on_turn_start(1, said)
        with suppress(StrongroomError):
            agent.sync_turn(said, said, session_id="s1")
    agent.shutdown()


def set_aside(cli: Cli, hermes: Path) -> None:
    spool = read_policy(hermes).spool
    spool.mkdir(parents=True, exist_ok=True)
    (spool / "01JABCDEFGHJKMNPQRSTVWXYZ0-0.refused").write_bytes(b"{}")


MENDED: dict[str, Act] = {
    "the cap is gone": lambda cli, hermes: read_policy(hermes).cap.unlink(),
    "the cap is empty": lambda cli, hermes: read_policy(hermes).cap.write_text(""),
    "the cap is no cap": lambda cli, hermes: read_policy(hermes).cap.write_text("junk"),
    "others can read the cap": lambda cli, hermes: read_policy(hermes).cap.chmod(0o644),
    "the cap is revoked": revoke_cap,
    "the owner's caps are revoked": revoke_actor,
    "the owner is erased": erase,
    "the vault is gone": move_vault,
    "another vault is there": another_vault,
    "unwired": lambda cli, hermes: cli("unwire", "hermes"),
    "unwired and purged": lambda cli, hermes: cli("unwire", "hermes", "--purge"),
    "no policy": lambda cli, hermes: policy.path_of(hermes).unlink(),
    "no inbox key": lambda cli, hermes: edited(hermes, r"^inbox = .*", 'inbox = ""'),
    "the policy is another profile's": lambda cli, hermes: edited(hermes, r"^profile = .*", 'profile = "other"'),
    "the spool is full": fill_spool,
    "turns are set aside": set_aside,
}


@pytest.mark.parametrize("state", MENDED)
def test_next_command_mends_a_home_with_its_vault(
    cli: Cli, hermes: Path, home: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    wired(cli)
    MENDED[state](cli, hermes)
    _, told = status(capsys)
    assert 0 in typed(cli, told, home / "new.cap")
    assert status(capsys)[0] == "yes"
    assert cli("wire", "hermes", "--check-only").code == 0


def test_namespace_that_is_nowhere_is_left_out_by_the_second_command(
    cli: Cli, hermes: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wired(cli)
    edited(hermes, r"^namespaces = .*", 'namespaces = ["personal", "famly", "travel"]')
    answers, told = status(capsys)
    assert answers == "yes"
    assert typed(cli, told, home / "new.cap") == [2, 0]
    assert read_policy(hermes).namespaces == ("personal", "travel")
    assert cli("wire", "hermes", "--check-only").code == 0


def test_namespace_that_only_the_cap_lacks_is_reached_by_the_first(
    cli: Cli, hermes: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wired(cli, "--namespaces", "travel")
    edited(hermes, r"^namespaces = .*", 'namespaces = ["work", "travel"]')
    _, told = status(capsys)
    first = told.split("; ")[0]
    assert typed(cli, first, home / "new.cap") == [0]
    found = json.loads(asked(capsys, "--json", "status")[0])
    assert (found["namespaces"], found.get("next")) == ("work, travel", None)


# What a person has to mend: the command names the fault, and says that it is gone when it is.


def lose_keys(hermes: Path) -> Callable[[], object]:
    keys = Path(read_policy(hermes).vault).with_name("keys")
    away = keys.rename(keys.with_name("away"))
    return lambda: away.rename(keys)


BY_HAND: dict[str, Callable[[Path], Callable[[], object]]] = {
    "the keys are gone": lose_keys,
    "no TOML": lambda hermes: edited(hermes, r"\Z", "\n[recall\n"),
    "no such tools": lambda hermes: edited(hermes, r"^tools = .*", 'tools = "everything"'),
    "no such key": lambda hermes: edited(hermes, r"^tools = ", "tool = "),
    "no inbox key that is one": lambda hermes: edited(hermes, r"^inbox = .*", 'inbox = "x"'),
}


@pytest.mark.parametrize("state", BY_HAND)
@pytest.mark.parametrize("has_good", [False, True])
def test_next_command_names_the_fault_until_it_is_mended(
    cli: Cli, hermes: Path, home: Path, capsys: pytest.CaptureFixture[str], state: str, has_good: bool
) -> None:
    wired(cli)
    if has_good:
        shutil.copy(policy.path_of(hermes), hermes / policy.GOOD)
    mend = BY_HAND[state](hermes)
    answers, told = status(capsys)
    assert set(typed(cli, told, home / "new.cap")) & {1, 7}
    mend()
    assert set(typed(cli, told, home / "new.cap")) == {0}
    assert (status(capsys)[0], answers == "yes") == ("yes", has_good and state != "the keys are gone")


SERVERS: dict[str, str] = {
    "nothing listens there": "http://127.0.0.1:9",
    "no machine has that name": "https://nowhere.invalid",
    "it is no address": "ftp://nowhere",
    "another path": "/elsewhere",
}


@pytest.mark.parametrize("state", SERVERS)
def test_wrong_address_is_named_and_where_to_mend_it(
    cli: Cli, hermes: Path, home: Path, server: Server, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    cap_file.write(home / "given.cap", minted(3600))
    wired(cli, "--url", server.url, "--cap-file", str(home / "given.cap"))
    place = SERVERS[state]
    mend = edited(hermes, r"^url = .*", f'url = "{server.url + place if place.startswith("/") else place}"')
    _, told = status(capsys)
    assert str(policy.path_of(hermes)) in told
    assert set(typed(cli, told, home / "new.cap")) & {1, 7}
    mend()
    assert status(capsys)[0] == "yes"
    assert cli("wire", "hermes", "--check-only").code == 0


SERVED: dict[str, Act] = {
    "the cap is no cap": lambda cli, hermes: read_policy(hermes).cap.write_text("junk"),
    "others can read the cap": lambda cli, hermes: read_policy(hermes).cap.chmod(0o644),
    "the owner's caps are revoked": revoke_actor,
    "the owner is erased": erase,
    "no inbox key": lambda cli, hermes: edited(hermes, r"^inbox = .*", 'inbox = ""'),
    "no such namespace": lambda cli, hermes: edited(hermes, r"^namespaces = .*", 'namespaces = ["famly", "travel"]'),
}


@pytest.mark.parametrize("state", SERVED)
def test_next_commands_mend_a_home_with_a_server(
    cli: Cli, hermes: Path, home: Path, server: Server, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    cap_file.write(home / "given.cap", minted(3600))
    wired(cli, "--url", server.url, "--cap-file", str(home / "given.cap"))
    SERVED[state](cli, hermes)
    _, told = status(capsys)
    assert set(typed(cli, told, home / "new.cap")) == {0}
    assert status(capsys)[0] == "yes"


def test_server_that_is_down_is_named_by_the_command(
    cli: Cli, hermes: Path, home: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    cap_file.write(home / "given.cap", minted(3600))
    wired(cli, "--url", server.url, "--cap-file", str(home / "given.cap"))
    server.process.terminate()
    server.process.wait(60)
    _, told = status(capsys)
    assert typed(cli, told, home / "new.cap") == [7]


# Which home a command is for.


@pytest.mark.parametrize("is_active", [False, True])
def test_command_is_for_this_home_whichever_is_the_usual_one(
    cli: Cli,
    hermes: Path,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_active: bool,
) -> None:
    profile = hermes / "profiles" / "coder"
    profile.mkdir(parents=True)
    (profile / "config.yaml").write_text("model: {}\n")
    wired(cli, "--profile", "all")
    if is_active:
        (hermes / "active_profile").write_text("coder\n")
    for place in (profile, hermes):
        policy.path_of(place).unlink()
        monkeypatch.setenv("HERMES_HOME", str(place))
        _, told = status(capsys)
        monkeypatch.delenv("HERMES_HOME")
        assert typed(cli, told, home / "new.cap") == [0]
        assert policy.path_of(place).exists()
