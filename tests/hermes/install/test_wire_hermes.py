"""`wire` with the real Hermes: it refuses what Hermes does not load, and what it sets up is what Hermes then uses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from ulid import ULID

from strongroom import NewLine
from strongroom.crypto import inbox
from strongroom.errors import CapRevoked
from strongroom.hermes import policy
from strongroom.hermes.install import hermes_probe, plugin_files
from strongroom.hermes.provider.offline_spool import Spool
from strongroom.hermes.provider.problem_log import ProblemLog
from strongroom.hermes.provider.provider_home import millis
from strongroom.host.plugins import hermes_stubs
from strongroom.model import Actor
from tests.cli.conftest import Cli, environment
from tests.hermes.homes import PYTHON
from tests.hermes.install.conftest import CONFIG, files
from tests.hermes.install.test_wire import failed, read_policy, states, wired

PATIENCE = 120
BIN = str(PYTHON.parent)


@pytest.fixture(autouse=True)
def _hermes_on_the_path(monkeypatch: pytest.MonkeyPatch, hermes: Path) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    assert hermes.exists()


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of Hermes' environment, in a home."""
    env = environment({"HERMES_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"})
    return subprocess.run(
        [f"{BIN}/{arguments[0]}", *arguments[1:]],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.requirement("wire-verified-first", "wire-real-hermes")
def test_plugin_that_hermes_cannot_load_is_not_switched_on(
    cli: Cli, hermes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = plugin_files.contents()
    broken = {**contents, "__init__.py": contents["__init__.py"] + "\nraise RuntimeError\n"}
    monkeypatch.setattr(plugin_files, "contents", lambda: broken)
    done = cli("wire", "hermes", "--json")
    assert (failed(done), done.code) == ("verify", 7)
    assert (hermes / "config.yaml").read_text() == CONFIG


@pytest.mark.requirement("wire-verified-first", "wire-real-hermes")
def test_cap_that_the_vault_refuses_is_found_by_verifying(
    cli: Cli, hermes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wired(cli)
    found = read_policy(hermes)
    assert cli("cap", "revoke", "--cap-file", str(found.cap)).code == 0
    monkeypatch.setattr("strongroom.hermes.runtime_cap.is_standing", lambda *_: True)
    monkeypatch.setattr("strongroom.hermes.runtime_cap.inbox_of", lambda *_: found.inbox)
    assert failed(cli("wire", "hermes", "--json")) == "verify"


@pytest.mark.requirement("wire-real-hermes", "hermes-spool")
def test_turns_that_waited_for_another_cap_are_delivered_by_wiring(cli: Cli, hermes: Path) -> None:
    wired(cli)
    found = read_policy(hermes)
    actor, spool = Actor(f"{found.scope}owner"), Spool(found.spool, 1 << 20)
    for text, suffix in (("the boat is blue", ".turn"), ("the oar is red", ".refused")):
        line = NewLine(text=text, namespace="travel", id=str(ULID()))
        sealed = inbox.seal(found.inbox, inbox.Bundle(actor, (line,)))
        path = spool.add(actor, sealed, millis())
        path.rename(path.with_suffix(suffix))
    assert cli("cap", "revoke", "--cap-file", str(found.cap)).code == 0
    ProblemLog(found.state, millis).failed("keeping", CapRevoked("the cap was revoked"))
    (step,) = [one for one in wired(cli)["steps"] if one["name"] == "verify"]
    assert (step["state"], "2 waiting turns stored" in step["message"]) == ("ok", True)
    assert not [*found.spool.glob("*.turn"), *found.spool.glob("*.refused")]
    status = run(hermes, "hermes", "strongroom", "status")
    assert "problem" not in status.stdout
    recalled = run(hermes, "hermes", "strongroom", "recall", "what colours are boat and oar")
    assert "the boat is blue" in recalled.stdout
    assert "the oar is red" in recalled.stdout
    spool.add(actor, b"sealed for another vault", millis())
    (step,) = [one for one in wired(cli)["steps"] if one["name"] == "verify"]
    assert (step["state"], "1 turn not stored yet" in step["hint"]) == ("warn", True)


@pytest.mark.requirement("wire-real-hermes", "wire-steps", "wire-check-only")
def test_hermes_loads_what_wire_set_up_and_a_look_writes_nothing(cli: Cli, hermes: Path, home: Path) -> None:
    place = hermes.rename(home / "mein Zuhause é 家")
    done = cli("wire", "hermes", "--home", str(place), "--json")
    assert done.code == 0, done.out + done.err
    (step,) = [one for one in done.json["steps"] if one["name"] == "verify"]
    assert "hermes/default/owner" in step["message"]
    before = files(home)
    look = cli("wire", "hermes", "--home", str(place), "--check-only", "--json")
    assert (look.code, states(look)["verify"]) == (0, "ok")
    assert {name: body for name, body in files(home).items() if "/keys/" not in name and "/vault/" not in name} == {
        name: body for name, body in before.items() if "/keys/" not in name and "/vault/" not in name
    }
    status = run(place, "hermes", "memory", "status")
    assert "strongroom" in status.stdout
    assert "not available" not in status.stdout
    schema = run(
        place,
        "python",
        "-c",
        "from plugins.memory.config_schema import get_provider_config_schema as of; s = of('strongroom')\n"
        "print(s.name, s.storage, len(s.fields))",
    )
    assert schema.stdout.split() == ["strongroom", "flat_json", "0"], schema.stderr


@pytest.mark.requirement("wire-real-hermes")
def test_hermes_own_command_and_set_up_work(cli: Cli, hermes: Path) -> None:
    wired(cli)
    status = run(hermes, "hermes", "strongroom", "--json", "status")
    assert status.returncode == 0, status.stderr
    assert json.loads(status.stdout)["profile"] == "default"
    (hermes / "config.yaml").write_text(CONFIG)
    (hermes / policy.FILE).unlink()
    done = run(hermes, "hermes", "memory", "setup", "strongroom")
    assert done.returncode == 0, done.stderr
    assert (hermes / "config.yaml").read_text() == CONFIG.replace("'honcho'", "strongroom")
    assert read_policy(hermes).is_wired


@pytest.mark.requirement("wire-profiles", "wire-real-hermes")
def test_each_profile_is_its_own_owner_in_one_process(cli: Cli, hermes: Path) -> None:
    coder = hermes / "profiles" / "coder"
    coder.mkdir(parents=True)
    wired(cli, "--profile", "all")
    program = (
        "import json, sys\n"
        "from hermes_constants import set_hermes_home_override\n"
        "from plugins.memory import load_memory_provider\n"
        "found = []\n"
        "for home in sys.argv[1:]:\n"
        "    set_hermes_home_override(home)\n"
        "    provider = load_memory_provider('strongroom')\n"
        "    provider.initialize('s', platform='cli', hermes_home=home, agent_context='background')\n"
        "    found.append(str(provider._session.view().speaker.actor))\n"
        "print(json.dumps(found))\n"
    )
    done = run(hermes, "python", "-c", program, str(hermes), str(coder))
    assert json.loads(done.stdout.splitlines()[-1]) == ["hermes/default/owner", "hermes/coder/owner"], done.stderr


def test_process_that_hosts_providers_is_not_taken_for_hermes_own(hermes: Path) -> None:
    hermes_stubs.supply()
    try:
        assert hermes_probe.find().python.parent == Path(BIN), "modules of its names are there, and no Hermes"
    finally:
        hermes_stubs.withdraw()
    assert hermes.exists()
