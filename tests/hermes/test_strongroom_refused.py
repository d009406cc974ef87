"""When memory refuses or is out of reach, Hermes goes on, says so once, and nothing that was said is lost or shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hermes import rig_agent
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import OWNER, Wired, eventually, in_clear, served, wired

SECRET = "The safe is behind the honeysuckle."
QUESTION = "Where is the safe?"


def _status(home: Wired) -> dict[str, str]:
    told: dict[str, str] = json.loads(home.rig.command("hermes", "strongroom", "--json", "status", check=False).stdout)
    return told


def _order(home: Wired, words: tuple[str, ...]) -> list[str]:
    """In which order these words were recorded by the vault."""
    lines = sorted(home.owner.lines(OWNER), key=lambda line: (line.hit.provenance.recorded, line.hit.id))
    return [word for line in lines for word in words if line.text == f"The word is {word}."]


@pytest.mark.long  # provider/test_caps.py shows it without Hermes
@pytest.mark.requirement("hermes-cap-revoked")
def test_revoked_cap_recalls_nothing_warns_once_and_what_was_said_waits_until_it_is_wired_again(
    tmp_path: Path,
) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        home.owner.put([SECRET])
        words = ("hyssop", "jasmine", "larkspur")
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(QUESTION)
            home.owner.revoke_runtime()
            me.command("/new")
            for word in words:
                me.say(f"The word is {word}.")
            me.say("And where is the safe, behind the honeysuckle?")
            assert SECRET in home.told(QUESTION)
            assert home.told("And where is the safe") == ""
            assert len(home.waiting()) == 4
            assert _order(home, words) == []
            assert process.printed().count("memory: recall does not work") == 1
            assert process.printed().count("memory: keeping does not work") == 1
            status = _status(home)
            assert "cap_revoked" in status["answers"]
            assert status["spool"].startswith("4 turns")
            assert any(name.startswith("problem") and "cap_revoked" in said for name, said in status.items())
            assert in_clear((*words, "honeysuckle"), home.owner.data, home.policy.state) == []

            home.wire()
            me.say("Are you back?")
            assert home.waiting() == []
            assert _order(home, words) == list(words)
            me.command("/new")
            me.say("Are you well?")
            assert not [name for name in _status(home) if name.startswith("problem")]
            me.command("/new")
            me.say("Do you know the word jasmine, and where the safe is?")
        recalled = home.told("Do you know the word jasmine")
        assert ("The word is jasmine." in recalled, SECRET in recalled) == (True, True)


@pytest.mark.requirement("hermes-server-down")
def test_turns_wait_sealed_while_the_server_is_down_and_the_next_process_delivers_them_in_order(tmp_path: Path) -> None:
    with Model() as model, served(tmp_path / "home", model) as home:
        assert home.server is not None
        words = ("magnolia", "nasturtium", "oxlip")
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("Good morning.")
            home.server.stop()
            for word in words:
                me.say(f"The word is {word}.")
            assert len(home.waiting()) == 3
            assert process.printed().count("memory: keeping does not work") == 1
            assert in_clear(words, home.policy.state) == []
        home.server.start()
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("Good evening.")
            eventually(lambda: home.waiting() == [], "the spool is delivered")
            assert _order(home, words) == list(words)
            me.command("/new")
            me.say("Which word was it: magnolia?")
        assert "The word is magnolia." in home.told("Which word was it")


@pytest.mark.requirement("hermes-broken-policy")
def test_policy_with_a_fault_leaves_the_last_good_one_in_use_and_says_so(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        policy = home.rig.home.hermes / "strongroom.toml"
        good = policy.read_text()
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("Good morning.")
            home.owner.put([SECRET])
            policy.write_text(good + "\n[recall\n")
            me.say(QUESTION)
            assert SECRET in home.told(QUESTION)
        policy.write_text(good + "\n[recall\n")
        done = home.rig.command("hermes", "strongroom", "status", check=False)
        assert done.returncode == 0
        assert "policy" in done.stdout, "the one before it is in use, also in a new process"
        policy.write_text(good)
        assert "policy" not in _status(home)
