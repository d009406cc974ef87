"""Every state in which memory does not work is said with the command that helps, and it works in that state."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from strongroom.caps.chain import Token
from strongroom.errors import BY_REASON
from strongroom.hermes import cap_file
from strongroom.hermes.provider.hermes_cli import register_cli, strongroom_command
from strongroom.hermes.provider.remedies import (
    ADDRESS,
    ASIDE,
    CAP_EXPOSED,
    FAULT,
    FULL,
    NO_INBOX,
    NOT_COVERED,
    OF_ALL,
    REMEDIES,
)
from strongroom.model import Millis
from tests.cli.conftest import Cli, opened
from tests.cli.serving import Server
from tests.docs.pages import DOCS, blocks
from tests.hermes.install.test_wire import read_policy, wired
from tests.hermes.install.test_wire_served import SCOPE, server
from tests.hermes.provider.conftest import close_all

__all__ = ["server"]
pytestmark = [pytest.mark.usefixtures("no_children", "own_ways"), pytest.mark.requirement("hermes-said-plainly")]


@pytest.fixture
def own_ways() -> Iterator[None]:
    close_all()
    yield
    close_all()


def status(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    close_all()
    parser = argparse.ArgumentParser()
    register_cli(parser)
    capsys.readouterr()
    with suppress(SystemExit):
        strongroom_command(parser.parse_args(["--json", "status"]))
    found: dict[str, str] = json.loads(capsys.readouterr().out)
    return found


def follow(cli: Cli, told: str, file: Path) -> None:
    """Do what is told: every command in it, as it stands."""
    commands = re.findall(r"`(strongroom [^`]+)`", told)
    assert commands, told
    for command in commands:
        words = [str(file) if word == "FILE" else word for word in shlex.split(command)[1:]]
        done = cli(*words)
        assert done.code == 0, (command, done.out, done.err)


def minted(ttl: int) -> Token:
    """A cap of ten seconds ago."""
    with opened() as vault:
        clerk, real = vault._clerk, vault._clerk.now
        clerk.now = lambda: Millis(real() - 10_000)
        token = vault.mint(actor_scope=SCOPE, ops=cap_file.OPS, namespaces=vault.namespaces, ttl=ttl)
        clerk.now = real
    return token


def ended(hermes: Path) -> None:
    cap_file.write(read_policy(hermes).cap, minted(5))


def revoked(hermes: Path) -> None:
    with opened() as vault:
        vault.revoke(cap_file.read(read_policy(hermes).cap))


def gone(hermes: Path) -> None:
    read_policy(hermes).cap.unlink()


def of_no_vault(hermes: Path) -> None:
    """As after an older copy of the vault was put back."""
    with opened() as vault:
        vault.rotate_issuer()


STATES: dict[str, tuple[Callable[[Path], None], str]] = {
    "ended": (ended, "cap_expired"),
    "revoked": (revoked, "cap_revoked"),
    "gone": (gone, "cap_missing"),
    "issuer rotated": (of_no_vault, "cap_signature_invalid"),
}


@pytest.mark.parametrize("state", STATES)
def test_wire_with_the_vault_here_makes_another_cap(
    cli: Cli, hermes: Path, home: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    wired(cli)
    make, reason = STATES[state]
    make(hermes)
    found = status(capsys)
    if state == "ended":  # an embedded home makes another one by itself
        assert found["answers"] == "yes"
        return
    assert f"[{reason}]" in found["answers"]
    follow(cli, found["next"], home / "new.cap")
    assert status(capsys)["answers"] == "yes"


@pytest.mark.parametrize("state", STATES)
def test_owner_of_a_server_mints_and_wire_takes_the_file(
    cli: Cli, hermes: Path, home: Path, server: Server, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    cap_file.write(home / "given.cap", minted(3600))
    wired(cli, "--url", server.url, "--cap-file", str(home / "given.cap"))
    make, reason = STATES[state]
    make(hermes)
    found = status(capsys)
    assert f"[{reason}]" in found["answers"]
    follow(cli, found["next"], home / "new.cap")
    assert status(capsys)["answers"] == "yes"


def test_every_reason_for_which_memory_may_not_answer_has_a_remedy() -> None:
    """But for those that speak of one request, of a host, or of a defect."""
    families = ("denied", "unavailable", "tampered")
    of_hosts = {"provider_unavailable", "journal_unavailable"}
    expected = {reason for reason, error in BY_REASON.items() if error.family in families} - of_hosts
    states = {CAP_EXPOSED, ADDRESS, NO_INBOX, FAULT, NOT_COVERED, ASIDE, FULL}  # test_states.py has them
    assert set(REMEDIES) == expected | {"vault_missing"} | states
    assert expected | {"vault_missing"} > OF_ALL


@pytest.mark.requirement("docs-hermes")
def test_earlier_lines_come_along_as_the_page_says(
    cli: Cli, hermes: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(cli, "--me", "telegram:123456789")
    with opened() as vault:
        token = vault.mint(actor=f"{SCOPE}telegram/123456789", ops=["put"], namespaces=["travel"], ttl=60)
        vault.memory(token).put("My trip to Chengdu is on May 25", namespace="travel", author="Ann")
    (home / "secret").touch(mode=0o600)
    (home / "secret").write_text("a long passphrase of some words")
    monkeypatch.setenv("STRONGROOM_EXPORT_PASSPHRASE_FILE", str(home / "secret"))
    (block,) = [one for one in blocks(DOCS / "hermes.md", "sh") if "strongroom import" in one.text]
    for line in block.text.splitlines():
        done = cli(*shlex.split(line)[1:])
        assert done.code == 0, (line, done.out, done.err)
    with opened() as vault:
        found = {}
        for name in ("owner", "telegram/123456789"):
            token = vault.mint(actor=SCOPE + name, ops=["get"], namespaces=["travel"], ttl=60)
            found[name] = [(hit.text, hit.author) for hit in vault.memory(token).get("trip to Chengdu")]
    assert found == {"owner": [("My trip to Chengdu is on May 25", "Ann")], "telegram/123456789": []}


def test_wire_tells_all_of_what_lies_beyond_once(cli: Cli, hermes: Path) -> None:
    first = cli("wire", "hermes").out
    again = cli("wire", "hermes", "--me", "telegram:1").out
    assert "session_search" in first
    assert "session_search" not in again
    assert len(again.splitlines()) <= len(first.splitlines()) - 8
