"""The self test of `wire`: Hermes' own Python loads the plugin as Hermes does, and calls the vault once.

The session is that of a background agent, which stores nothing. With `look_only`, the plugin is loaded and asked
whether it is available, and the vault is not called.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.errors import ProviderUnavailable
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install.hermes_probe import PATIENCE, Hermes, ask

_PROGRAM = "strongroom.hermes.install.load_check"
"""A module name, run in Hermes' Python: it imports Hermes' modules, which this Python may not have."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The actor of a terminal session ("" if not called), and the provider pinned by Hermes' managed settings.

    `delivered` and `waiting` count the spooled turns that were stored now and those that still wait.
    """

    actor: str
    pinned: str
    delivered: int = 0
    waiting: int = 0


def verify_home(hermes: Hermes, home: HermesHome, *, look_only: bool) -> Verified:
    """Load the plugin through Hermes. Raises `ProviderUnavailable` with the reason if it does not work."""
    how = "look" if look_only else "ask"
    command = ("-m", _PROGRAM, how, str(PATIENCE / 2))  # a spool may be long: the rest goes later
    said = ask(hermes.python, command, {"HERMES_HOME": str(home.path)})
    if said["fault"]:
        raise ProviderUnavailable(str(said["fault"]), hint=str(said["hint"]))
    if said["profile"] != home.profile:
        raise ProviderUnavailable(
            f"Hermes uses the profile name {said['profile']} for this home, not {home.profile}",
            hint=f"name it as Hermes does: --home ROOT --profile {said['profile']}",
        )
    return Verified(str(said["actor"]), str(said["pinned"]), int(said["delivered"]), int(said["waiting"]))
