"""The vault is asked for its inbox key and whether a cap is good: what the policy and the cap say is not enough."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from strongroom import attenuate
from strongroom.crypto import inbox
from strongroom.errors import CapRevoked, CapSignatureInvalid
from strongroom.hermes import cap_file, policy, runtime_cap
from tests.cli.conftest import Cli, Done, opened
from tests.cli.serving import serve
from tests.hermes.install.test_state_paths import named
from tests.hermes.install.test_wire import read_policy, states, wired
from tests.hermes.install.test_wire_served import given

pytestmark = pytest.mark.usefixtures("no_children")
OWNER = "hermes/default/owner"


def other_key() -> str:
    return inbox.recipient_of(inbox.new_identity())


def step(done: Done, name: str) -> Any:
    (found,) = [one for one in done.json["steps"] if one["name"] == name]
    return found


def is_mended(cli: Cli, hermes: Path, mine: str) -> None:
    """A look calls a foreign key drift and leaves it; a run puts the vault's in its place."""
    text = (hermes / policy.FILE).read_text()
    look = cli("wire", "hermes", "--check-only", "--json")
    assert (look.code, step(look, "policy")["state"]) == (1, "drift")
    assert step(look, "policy")["hint"]
    assert (hermes / policy.FILE).read_text() == text
    done = cli("wire", "hermes", "--json")
    assert (done.code, step(done, "policy")["changed"], step(done, "cap")["changed"]) == (0, True, False)
    assert step(done, "policy")["hint"]
    assert read_policy(hermes).inbox == mine
    assert cli("wire", "hermes", "--check-only", "--json").code == 0


@pytest.mark.requirement("wire-inbox-asked")
@pytest.mark.parametrize("key", ["another", ""], ids=["another", "none"])
def test_inbox_key_that_is_not_the_vaults_is_drift_and_mended(cli: Cli, hermes: Path, key: str) -> None:
    wired(cli)
    mine = read_policy(hermes).inbox
    named(hermes, inbox=key and other_key())
    if key:
        is_mended(cli, hermes, mine)
    else:
        assert cli("wire", "hermes", "--check-only", "--json").code == 1
        wired(cli)
        assert read_policy(hermes).inbox == mine


@pytest.mark.requirement("wire-inbox-asked")
def test_inbox_key_that_is_not_the_servers_is_drift_and_mended(cli: Cli, hermes: Path, home: Path) -> None:
    assert cli("init").code == 0
    with serve(home) as server:
        wired(cli, "--url", server.url, "--cap-file", str(given(home)))
        mine = read_policy(hermes).inbox
        named(hermes, inbox=other_key())
        is_mended(cli, hermes, mine)


@pytest.mark.requirement("wire-cap-judged")
def test_new_cap_is_minted_after_the_issuer_key_was_replaced(cli: Cli, hermes: Path) -> None:
    wired(cli)
    path = read_policy(hermes).cap
    old = cap_file.read(path)
    with opened() as vault:
        vault.rotate_issuer()
        with pytest.raises(CapSignatureInvalid):
            vault.memory(attenuate(old, actor=OWNER)).list()
    look = cli("wire", "hermes", "--check-only", "--json")
    assert (look.code, states(look)["cap"]) == (1, "drift")
    assert cap_file.read(path) == old
    assert wired(cli)["changed"]
    with opened() as vault:
        assert vault.memory(attenuate(cap_file.read(path), actor=OWNER)).list().lines == ()
        assert [one.revoked for one in vault.caps() if one.actor == "hermes/default/"].count(False) == 1
    assert not wired(cli)["changed"]


@pytest.mark.requirement("wire-cap-judged")
def test_cap_of_a_clock_that_went_ahead_is_replaced(cli: Cli, hermes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns() + 40 * 86_400 * 10**9
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time_ns", lambda: now)
        ahead.setattr(time, "time", lambda: now / 10**9)
        wired(cli)
    old = cap_file.read(read_policy(hermes).cap)
    with opened() as vault:
        vault.accept_clock()
    wired(cli)
    with opened() as vault:
        assert vault.memory(attenuate(cap_file.read(read_policy(hermes).cap), actor=OWNER)).list().lines == ()
        assert not runtime_cap.is_standing(vault, old), "it would be good one day"


@pytest.mark.requirement("wire-cap-judged")
def test_owner_whose_caps_were_all_revoked_begins_anew_with_another(
    cli: Cli, hermes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(cli)
    path = read_policy(hermes).cap
    old = cap_file.read(path)
    with opened() as vault:
        vault.revoke_actor(OWNER)
    now = time.time_ns() + 2 * 10**9  # caps are issued at whole seconds
    monkeypatch.setattr(time, "time_ns", lambda: now)
    wired(cli)
    with opened() as vault:
        assert vault.memory(attenuate(cap_file.read(path), actor=OWNER)).list().lines == ()
        assert not runtime_cap.is_standing(vault, old)


@pytest.mark.requirement("wire-cap-judged")
def test_cap_that_is_void_for_one_actor_of_its_scope_is_replaced(
    cli: Cli, hermes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(cli)
    path, guest = read_policy(hermes).cap, "hermes/default/telegram/bob"
    old = cap_file.read(path)
    with opened() as vault:
        vault.memory(attenuate(old, actor=guest)).put("a line", namespace="personal")
        vault.revoke_actor(guest)
        vault.memory(attenuate(old, actor=OWNER)).list()
        with pytest.raises(CapRevoked):
            vault.memory(attenuate(old, actor=guest)).list()
    now = time.time_ns() + 2 * 10**9  # caps are issued at whole seconds
    monkeypatch.setattr(time, "time_ns", lambda: now)
    look = cli("wire", "hermes", "--check-only", "--json")
    assert (look.code, states(look)["cap"]) == (1, "drift")
    assert cap_file.read(path) == old
    assert wired(cli)["changed"]
    with opened() as vault:
        assert len(vault.memory(attenuate(cap_file.read(path), actor=guest)).list().lines) == 1
        assert not runtime_cap.is_standing(vault, old)
    assert not wired(cli)["changed"]


@pytest.mark.requirement("wire-cap-judged")
def test_actor_outside_the_scope_whose_caps_were_revoked_changes_nothing(cli: Cli, hermes: Path) -> None:
    wired(cli)
    with opened() as vault:
        for actor in ("hermes/other/bob", "hermes/default2/bob"):
            cap = vault.mint(actor=actor, ops=["put"], namespaces=["personal"], ttl=600)
            vault.memory(cap).put("a line", namespace="personal")
            vault.revoke_actor(actor)
    assert not wired(cli)["changed"]
