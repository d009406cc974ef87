"""A home of the real Hermes, wired and talked to, with turns in its spool; and a host's journal with turns in it.

The turns wait because the home's cap was revoked while they were said. Then the vault of before is put back: it knows
nothing of that, and takes them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from scripts.fixtures_pack import files_below
from scripts.fixtures_vault import START, Clock
from tests.hermes import rig_agent, rigs
from tests.hermes.rig_model import Model
from tests.host.doubles import PATIENCE, Recorder, hosted, session
from tests.upgrades import wired

import strongroom
from strongroom import FileKeys

SAID = {
    "By the way, my hotel in Chengdu is the Blue Crane.": "Have a good stay there.",
    "I am allergic to peanuts.": "I will keep that in mind.",
}
WAITING = {
    "The ferry to Naxos leaves at seven.": "Then be there at six.",
    "The gate's word is magnolia.": "Magnolia it is.",
}
JOURNAL = ["The kingfisher is at the mill.", "The heron is at the weir.", "The bassoon is in tune."]
KEPT = (
    "hermes/config.yaml",
    "hermes/config.yaml.before-strongroom",
    "hermes/strongroom.toml",
    "hermes/.strongroom.last-good.toml",
    "hermes/plugins/strongroom",
    "user/data/strongroom",
)


def make(clock: Clock) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a wired home, and what is in it."""
    with tempfile.TemporaryDirectory() as scratch, Model() as model:
        root = Path(scratch).resolve() / "home"
        rig = rigs.make(root, model, settings=[wired.at(START)])
        _wire(rig)
        _talk(rig, SAID)
        _leave_waiting(rig)
        kept = [name for name in KEPT if (root / name).exists()]
        files = {name: body for name, body in files_below(root, *kept).items() if "__pycache__" not in name}
        files = wired.named(files, root, model.url)
    clock.move(3600)
    return files, {"said": SAID, "waiting": WAITING, "actor": "hermes/default/owner"}


def _wire(rig: rigs.Rig) -> None:
    done = wired.command(rig, "strongroom", "wire", "hermes")
    assert done.returncode == 0, done.stdout + done.stderr


def _talk(rig: rigs.Rig, turns: dict[str, str]) -> None:
    with rig_agent.start(rig) as process:
        me = process.terminal()
        for said, reply in turns.items():
            me.say(said, reply)


def _leave_waiting(rig: rigs.Rig) -> None:
    data = rig.home.root / wired.DATA
    before = rig.home.root / "before"
    for name in ("vault", "keys"):
        shutil.copytree(data / name, before / name)
    (keys,) = (data / "keys").iterdir()
    with strongroom.open(data / "vault", keys=FileKeys(keys), now=Clock(START + 1_800_000)) as vault:
        for record in vault.caps():
            if record.label.startswith("hermes"):
                vault.revoke(record.link)
    later = rigs.Rig(rig.home, rig.model, wired.at(START + 2_400_000).environment)
    _talk(later, WAITING)
    for name in ("vault", "keys"):
        shutil.rmtree(data / name)
        shutil.move(before / name, data / name)
    spool = list(data.glob("hermes/*/state/spool/*.turn"))
    assert len(spool) == len(WAITING), spool


class _Refusing(Recorder):
    """Takes no turn, so that all of them stay in the journal."""

    def sync_turn(self, *args: Any, **keywords: Any) -> None:  # noqa: ARG002 - the interface
        raise RuntimeError("not now")


def leave_journal(root: Path) -> dict[str, Any]:
    """A host that ended while its provider took nothing: `home` and `keys` below `root`."""
    who = session(user_id="7", platform="telegram")
    with hosted(root, lambda: _Refusing(name="recorder")) as host:
        memory = host.manager(who)
        for said in JOURNAL:
            memory.sync_turn(said, f"re: {said}", [{"role": "user", "content": said}])
        assert memory.flush(PATIENCE)
    return {"turns": JOURNAL, "provider": "recorder", "session": who.id}
