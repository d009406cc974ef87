"""Hermes' own command, from nothing to the first recall: each call is a process of its own, so these take long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hermes import rig_cli, rigs
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import Owner, Wired, wired

pytestmark = pytest.mark.long

SAID = "By the way, my hotel is the Blue Crane in Chengdu."
QUESTION = "Which hotel do I have in Chengdu?"


def _ours(home: Wired, *words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(rig_cli.hermes(home.rig, "strongroom", "--json", *words))
    return told


@pytest.mark.requirement("hermes-no-manual-add", "hermes-cli")
def test_command_learns_in_one_process_recalls_in_the_next_and_forgets_on_request(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        rig_cli.once(home.rig, SAID)
        rig_cli.chat(home.rig, QUESTION)
        assert SAID in home.told(QUESTION)
        assert "strongroom" in rig_cli.hermes(home.rig, "memory", "status")

        status = _ours(home, "status")
        assert (status["answers"], status["profile"], status["tools"]) == ("yes", "default", "none")
        assert status["spool"].startswith("0 turns")
        recalled = [one["id"] for one in _ours(home, "recall", "which", "hotel?")["recalled"]]
        line = next(str(one.hit.id) for one in home.owner.lines() if one.text == SAID)
        assert line in recalled
        why = _ours(home, "why", line)
        assert (why["namespace"], why["kind"]) == ("travel", "turn")
        assert "hotel" in str(why["rules"])
        assert _ours(home, "forget", line)["forgotten"] == [line]
        assert SAID not in str(_ours(home, "recall", "which", "hotel?")["recalled"])
        refused = home.rig.command("hermes", "strongroom", "why", line, check=False)
        assert refused.returncode == 1
        assert SAID not in home.owner.texts()

        rig_cli.once(home.rig, "Do I have the Blue Crane?")
        assert SAID not in home.told("Do I have the Blue Crane?")


@pytest.mark.requirement("hermes-setup")
def test_hermes_own_set_up_wires_a_home_that_has_the_plugin(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        home.rig.command("strongroom", "unwire", "hermes")
        rig_cli.once(home.rig, "Nobody is to remember the foxglove.")
        assert "foxglove" not in " ".join(home.owner.texts())

        home.wire()
        set_up = rig_cli.hermes(home.rig, "memory", "setup", "strongroom")
        assert "fail" not in set_up
        rig_cli.once(home.rig, SAID)
        rig_cli.once(home.rig, QUESTION)
        assert SAID in home.told(QUESTION)


@pytest.mark.requirement("hermes-no-manual-add")
def test_home_that_was_never_wired_remembers_nothing_and_needs_one_command(tmp_path: Path) -> None:
    with Model() as model:
        rig = rigs.make(tmp_path / "home", model)
        rig_cli.once(rig, SAID)
        rig_cli.once(rig, QUESTION)
        assert "Blue Crane" not in model.seen(QUESTION).everything
        rig.command("strongroom", "wire", "hermes")
        home = Wired(rig, Owner(rig.home.root / "user" / "data"))
        assert home.rig.command("strongroom", "wire", "hermes", "--check-only").returncode == 0
        rig_cli.once(rig, SAID)
        rig_cli.once(rig, "And which hotel do I have in Chengdu?")
        assert SAID in home.told("And which hotel do I have")
