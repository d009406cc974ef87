"""A home of the real Hermes that an earlier version wired: looked at, wired anew, talked to, and taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hermes import rig_agent
from tests.hermes.rig_model import Model
from tests.upgrades import wired
from tests.upgrades.frozen import Frozen

pytestmark = pytest.mark.requirement("upgrade-hermes")
MAY_DRIFT = {"plugin"}
"""What another version may have to write anew: the plugin's files, which name the version that wrote them."""


def test_wired_home_goes_on_recalls_and_delivers_what_waited_and_can_be_unwired(frozen: Frozen, tmp_path: Path) -> None:
    said = frozen.manifest["hermes"]
    with Model() as model:
        rig = wired.placed(frozen.files("hermes"), tmp_path / "home", model, wired.at(frozen.manifest["now"]))
        spool = rig.home.root / wired.DATA / "hermes"
        assert len(list(spool.rglob("*.turn"))) == len(said["waiting"])

        looked = wired.command(rig, "strongroom", "wire", "hermes", "--check-only", "--json")
        steps = {step["name"]: step["state"] for step in json.loads(looked.stdout)["steps"]}
        assert "fail" not in steps.values(), looked.stdout
        assert {name for name, state in steps.items() if state == "drift"} <= MAY_DRIFT, looked.stdout

        with rig_agent.start(rig) as process:
            me = process.terminal()
            for question in ("Which hotel do I have in Chengdu?", "Am I allergic to peanuts?"):
                me.say(question)
        for question, line in zip(("Which hotel", "Am I allergic"), said["said"], strict=True):
            assert line in model.seen(question).recalled

        done = wired.command(rig, "strongroom", "wire", "hermes", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert not list(spool.rglob("*.turn")), "what waited is delivered"
        with rig_agent.start(rig) as process:
            me = process.terminal()
            for question in ("When does the ferry to Naxos leave?", "What is the gate's word, magnolia?"):
                me.say(question)
        for question, line in zip(("When does the ferry", "What is the gate's word"), said["waiting"], strict=True):
            assert line in model.seen(question).recalled

        assert wired.command(rig, "strongroom", "wire", "hermes", "--check-only").returncode == 0
        done = wired.command(rig, "strongroom", "unwire", "hermes", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (rig.home.hermes / "plugins" / "strongroom").exists()
        assert not list(spool.rglob("runtime.cap"))
        assert json.loads((rig.home.hermes / "config.yaml").read_text())["memory"]["provider"] == ""
