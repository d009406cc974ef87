"""`hermes memory setup`: answers that are refused first, then that they land in the policy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.hermes import policy
from strongroom.hermes.install import memory_setup, own_vaults
from strongroom.hermes.install.wire import WireReport
from strongroom.hermes.install.wire_request import WireRequest
from tests.cli.conftest import Cli
from tests.hermes.install.conftest import files
from tests.hermes.install.test_wire import read_policy, wired

pytestmark = pytest.mark.usefixtures("no_children")


@pytest.mark.parametrize(
    "values",
    [
        {"nonsense": "1"},
        {"tools": "all"},
        {"me": "just-a-name"},
        {"mask_secrets": "perhaps"},
        {"tools": "full", "x": ""},
    ],
    ids=str,
)
def test_wrong_answer_changes_nothing(cli: Cli, hermes: Path, values: dict[str, str]) -> None:
    wired(cli)
    before = files(hermes)
    with pytest.raises(InvalidRequest):
        memory_setup.save_config(values, hermes)
    assert files(hermes) == before


def test_home_that_is_not_wired_has_nowhere_to_save(hermes: Path) -> None:
    with pytest.raises(InvalidRequest):
        memory_setup.save_config({"tools": "full"}, hermes)


def test_nobody_is_asked_for_a_passphrase(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    with pytest.raises(KeyUnavailable):
        own_vaults.unasked()
    (home / "secret").write_text("several words\n")
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(home / "secret"))
    assert own_vaults.unasked() == "several words"


@pytest.mark.requirement("wire-memory-setup")
def test_answers_land_in_the_policy(cli: Cli, hermes: Path) -> None:
    wired(cli)
    memory_setup.save_config({"tools": "forget", "me": "telegram:1, slack:U2", "mask_secrets": "no"}, hermes)
    found = read_policy(hermes)
    assert found.tools is policy.Tools.FORGET
    assert set(found.identity.user_peer_aliases) == {"telegram:1", "slack:U2"}
    assert not found.keep.mask_secrets


def test_schema_names_no_secret_and_its_defaults_are_the_policys() -> None:
    schema = {one["key"]: one for one in memory_setup.config_schema()}
    assert not any(one.get("secret") or one.get("env_var") for one in schema.values())
    plain = policy.read("")
    assert schema["tools"]["default"] == plain.tools
    assert (schema["mask_secrets"]["default"] == "yes") is plain.keep.mask_secrets


@pytest.mark.requirement("wire-memory-setup")
def test_set_up_from_within_hermes_wires_this_home_with_this_python(
    hermes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from strongroom.hermes.install import wire

    asked = []
    whole = wire.wire

    def watched(request: WireRequest, *rest: object) -> WireReport:
        asked.append(request)
        return whole(request, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(wire, "wire", watched)
    memory_setup.post_setup(hermes, {"memory": {}})
    assert [(one.home, one.python) for one in asked] == [(str(hermes), sys.executable)]
    assert read_policy(hermes).is_wired
    assert "in its own process" in capsys.readouterr().out


def test_set_up_that_fails_says_so_and_changes_no_switch(hermes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hermes / "config.yaml").write_text("x: [\n")
    memory_setup.post_setup(hermes)
    assert "fail" in capsys.readouterr().out
    assert (hermes / "config.yaml").read_text() == "x: [\n"
