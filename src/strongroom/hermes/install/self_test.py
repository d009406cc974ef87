"""The proof that it works: Hermes' own Python loads the plugin as Hermes does and goes through the gate once.

The session is a background agent's, which recalls and keeps nothing; nobody sees what it was shown. With a look only,
the plugin is loaded and asked whether it could be used, and the gate is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.errors import ProviderUnavailable
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install.hermes_probe import PATIENCE, Hermes, ask

_PROGRAM = "strongroom.hermes.install.load_check"
"""Run by name: it needs Hermes' own modules, which this Python may not have."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What Hermes itself says: whose memory a terminal session opens ("" if not asked), and its pinned provider.

    Of the turns that waited for this home to be wired: how many were delivered, and how many still wait.
    """

    actor: str
    pinned: str
    delivered: int = 0
    waiting: int = 0


def verify_home(hermes: Hermes, home: HermesHome, *, look_only: bool) -> Verified:
    """Load the plugin through Hermes; what it cannot do is ProviderUnavailable, with the reason in words."""
    how = "look" if look_only else "ask"
    command = ("-m", _PROGRAM, how, str(PATIENCE / 2))  # a spool may be long: the rest goes later
    said = ask(hermes.python, command, {"HERMES_HOME": str(home.path)})
    if said["fault"]:
        raise ProviderUnavailable(str(said["fault"]), hint=str(said["hint"]))
    if said["profile"] != home.profile:
        raise ProviderUnavailable(
            f"Hermes calls this home {said['profile']}, and it was taken for {home.profile}",
            hint="name it as Hermes does: --home ROOT --profile NAME",
        )
    return Verified(str(said["actor"]), str(said["pinned"]), int(said["delivered"]), int(said["waiting"]))
