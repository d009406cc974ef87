"""A Hermes home in a scratch home of the user, and a stand-in for Hermes' Python where that is not the point."""

from __future__ import annotations

from pathlib import Path

import pytest

from strongroom.cli.app import Group, VerbCommand
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import hermes_probe, self_test
from strongroom.hermes.install.hermes_probe import Hermes
from strongroom.hermes.install.self_test import Verified
from tests.cli.conftest import cli, home, process

__all__ = ["cli", "home", "process"]

CONFIG = """\
# My Hermes.
model:
  default: "gpt-x"   # the cheap one

memory:
    provider: 'honcho'  # for now
    memory_enabled: true
"""


@pytest.fixture
def hermes(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Hermes with settings in it, where Hermes looks for it."""
    monkeypatch.delenv("HERMES_HOME", raising=False)
    place = home / ".hermes"
    place.mkdir()
    (place / "config.yaml").write_text(CONFIG)
    return place


@pytest.fixture
def no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hermes that has everything and loads every plugin, without a process."""
    from importlib.metadata import version

    found = Hermes(Path("/opt/hermes/bin/python"), "0.19.0", version("strongroom"), frozenset(), "")

    def loaded(hermes: Hermes, home: HermesHome, *, look_only: bool) -> Verified:
        assert hermes is found
        return Verified("" if look_only else f"hermes/{home.profile}/owner", "")

    monkeypatch.setattr(hermes_probe, "find", lambda python=None, path=None: found)
    monkeypatch.setattr(self_test, "verify_home", loaded)


def examples(group: Group) -> tuple[str, ...]:
    """The examples in the help of a verb's `hermes`."""
    command = group.commands["hermes"]
    assert isinstance(command, VerbCommand)
    return command.examples


def files(place: Path) -> dict[str, bytes]:
    """Every file below a place, by name."""
    return {str(one.relative_to(place)): one.read_bytes() for one in sorted(place.rglob("*")) if one.is_file()}
