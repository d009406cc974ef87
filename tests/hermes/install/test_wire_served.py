"""`strongroom wire hermes --url`: caps and servers that are refused first, then that only a cap is left here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strongroom import attenuate
from strongroom.cli.wire_unwire import wire
from strongroom.errors import CapRevoked
from strongroom.hermes import cap_file, policy
from tests.cli.conftest import Cli, opened
from tests.cli.serving import Server, serve
from tests.hermes.install.conftest import CONFIG, examples, files
from tests.hermes.install.test_wire import failed, read_policy, states, wired

pytestmark = pytest.mark.usefixtures("no_children")
SCOPE = "hermes/default/"


@pytest.fixture
def server(cli: Cli, home: Path) -> Iterator[Server]:
    assert cli("init").code == 0
    with serve(home) as running:
        yield running


def given(home: Path, **other: Any) -> Path:
    """A cap as the owner of the server gives it."""
    usual = {"actor_scope": SCOPE, "ops": cap_file.OPS, "namespaces": ["personal", "travel"], "ttl": 30 * 86_400}
    with opened() as vault:
        token = vault.mint(**{**usual, **other})
    path = home / "given.cap"
    path.touch(mode=0o600)
    path.write_text(token + "\n")
    return path


@pytest.mark.requirement("wire-cap-refused")
def test_cap_that_will_not_do_is_refused_before_it_is_shown(
    cli: Cli, hermes: Path, home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (
        {"actor_scope": "hermes/coder/"},
        {"actor_scope": None, "actor": "hermes/default/owner"},
        {"data_class": "admin", "ops": ["mint", "audit"]},
        {"ops": ["get", "renew"]},
        {"delegable": False},
    ):
        done = cli("wire", "hermes", "--url", server.url, "--cap-file", str(given(home, **other)), "--json")
        assert (failed(done), done.code) == ("memory", 2)
    path = given(home, ttl=60)
    now = time.time()
    monkeypatch.setattr("strongroom.cli.wire_unwire._now", lambda: now + 61)
    assert failed(cli("wire", "hermes", "--url", server.url, "--cap-file", str(path), "--json")) == "memory"
    assert files(hermes) == {"config.yaml": CONFIG.encode()}
    assert not [event for event in server.events() if event.get("path", "").endswith("/inbox")]


@pytest.mark.requirement("wire-cap-refused")
def test_cap_that_was_revoked_and_a_server_out_of_reach_are_refused(
    cli: Cli, hermes: Path, home: Path, server: Server
) -> None:
    path = given(home)
    done = cli("wire", "hermes", "--url", "http://127.0.0.1:9", "--cap-file", str(path), "--json")
    assert (failed(done), done.code) == ("memory", 7)
    with opened() as vault:
        vault.revoke(path.read_text().strip())
    done = cli("wire", "hermes", "--url", server.url, "--cap-file", str(path), "--json")
    assert (failed(done), done.code) == ("memory", 3)
    done = cli("wire", "hermes", "--url", "http://192.0.2.1", "--cap-file", str(path), "--json")
    assert failed(done) == "memory"
    assert files(hermes) == {"config.yaml": CONFIG.encode()}


def test_cap_file_that_others_can_read_is_refused(cli: Cli, hermes: Path, home: Path, server: Server) -> None:
    path = given(home)
    path.chmod(0o644)
    assert failed(cli("wire", "hermes", "--url", server.url, "--cap-file", str(path), "--json")) == "memory"


@pytest.mark.requirement("wire-cap-refused")
def test_cap_of_the_own_vault_is_shown_to_no_server(cli: Cli, hermes: Path, home: Path, server: Server) -> None:
    wired(cli)
    assert failed(cli("wire", "hermes", "--url", server.url, "--json")) == "memory"
    with serve(home) as other:
        wired(cli, "--url", server.url, "--cap-file", str(given(home)))
        before = files(hermes)
        assert failed(cli("wire", "hermes", "--url", other.url, "--json")) == "memory"
        assert not [event for event in other.events() if event.get("path", "").endswith("/inbox")]
    assert files(hermes) == before


@pytest.mark.requirement("wire-cap-refused")
def test_server_that_the_policy_names_is_told_with_the_ways_on(
    cli: Cli, hermes: Path, home: Path, server: Server
) -> None:
    wired(cli, "--url", server.url, "--cap-file", str(given(home)))
    unwired = cli("unwire", "hermes", "--json")
    (step,) = [one for one in unwired.json["steps"] if one["name"] == "cap"]
    link = step["hint"].rstrip("`").rpartition(" ")[2]
    done = cli("wire", "hermes", "--json")
    assert failed(done) == "memory"
    (step,) = [one for one in done.json["steps"] if one["state"] == "fail"]
    assert server.url in step["message"]
    assert "--vault PATH" in step["hint"]
    command = step["hint"].partition("strongroom cap mint ")[2].partition(" --out")[0]
    assert cli("cap", "mint", *shlex.split(command), "--out", str(home / "new.cap")).code == 0
    assert cli("cap", "revoke", link).code == 0
    wired(cli, "--cap-file", str(home / "new.cap"), "--url", server.url)


@pytest.mark.requirement("wire-served", "wire-idempotent")
def test_only_a_cap_is_here_and_a_second_run_keeps_it(
    cli: Cli, hermes: Path, home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = given(home)
    said = wired(cli, "--url", server.url, "--cap-file", str(path))
    assert "The keys are on the server" in said["wall"]
    found = read_policy(hermes)
    assert (found.vault, found.url, found.namespaces) == ("", server.url, ("personal", "travel"))
    assert found.inbox.startswith("age1")
    assert found.cap.read_text() == path.read_text()
    assert found.cap.stat().st_mode & 0o777 == 0o600
    before = files(hermes)
    for arguments in ((), ("--url", server.url, "--cap-file", str(path))):
        again = wired(cli, *arguments)
        assert not again["changed"]
    monkeypatch.setenv("STRONGROOM_URL", server.url)
    monkeypatch.setenv("STRONGROOM_CAP_FILE", str(path))
    assert not wired(cli)["changed"], "as the environment says, as for every verb"
    assert files(hermes) == before
    assert cli("wire", "hermes", "--check-only", "--json").code == 0


@pytest.mark.requirement("wire-served")
def test_renewed_cap_stays_and_a_narrower_one_takes_its_place(
    cli: Cli, hermes: Path, home: Path, server: Server
) -> None:
    path = given(home, ttl=86_400 * 9)
    wired(cli, "--url", server.url, "--cap-file", str(path))
    mine = read_policy(hermes).cap
    with opened() as vault:
        renewed = vault.memory(cap_file.read(mine)).renew()
    cap_file.write(mine, renewed)
    assert not wired(cli, "--url", server.url, "--cap-file", str(path))["changed"]
    assert cap_file.read(mine) == renewed
    narrower = given(home, namespaces=["travel"])
    assert failed(cli("wire", "hermes", "--url", server.url, "--cap-file", str(narrower), "--json")) == "memory"
    wired(cli, "--url", server.url, "--cap-file", str(narrower), "--namespaces", "travel")
    assert mine.read_text() == narrower.read_text()
    assert read_policy(hermes).namespaces == ("travel",)


@pytest.mark.requirement("cli-help")
def test_examples_of_the_help_that_ask_a_server_run(cli: Cli, hermes: Path, home: Path, server: Server) -> None:
    given(home).rename(home / "hermes.cap")
    for line in examples(wire):
        if "--url" in line:
            words = [server.url if word.startswith("https://") else word for word in shlex.split(line)[1:]]
            assert cli(*words).code == 0
            break
    else:
        pytest.fail("no example asks a server")


def test_cap_that_cannot_be_renewed_is_warned_of(cli: Cli, hermes: Path, home: Path, server: Server) -> None:
    path = given(home, ops=[op for op in cap_file.OPS if op != "renew"])
    done = cli("wire", "hermes", "--url", server.url, "--cap-file", str(path), "--json")
    assert done.code == 0
    assert states(done)["memory"] == "warn"


@pytest.mark.requirement("wire-served")
def test_home_moves_from_embedded_to_served_and_away(cli: Cli, hermes: Path, home: Path, server: Server) -> None:
    wired(cli)
    minted = cap_file.read(read_policy(hermes).cap)
    wired(cli, "--url", server.url, "--cap-file", str(given(home)))
    found = read_policy(hermes)
    assert (found.vault, found.url) == ("", server.url)
    assert cap_file.read(found.cap) != minted
    with opened() as vault, pytest.raises(CapRevoked):
        vault.memory(attenuate(minted, actor=f"{SCOPE}owner")).list()
    done = cli("unwire", "hermes", "--json")
    assert done.code == 0
    assert not found.cap.exists()
    assert (hermes / "config.yaml").read_text() == CONFIG
    assert (hermes / policy.FILE).exists()
    with opened() as vault:  # whoever has the keys revokes it
        vault.memory(attenuate((home / "given.cap").read_text().strip(), actor=f"{SCOPE}owner")).list()
