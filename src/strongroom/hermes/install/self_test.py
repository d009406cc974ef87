"""The self test of `wire`: Hermes' own Python loads the plugin as Hermes does, and calls the vault once.

The test runs as a background agent, so nothing is stored. With `look_only`, the plugin is loaded and only asked whether
it is available; the vault is not called.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.errors import ProviderUnavailable
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install.hermes_probe import PATIENCE, Hermes, ask

_PROGRAM = "strongroom.hermes.install.load_check"
"""The module to run in Hermes' Python. The module is not imported here, because this Python may lack Hermes'
modules.
"""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of the self test.

    - `actor`: the actor of a terminal session, or "" if the vault was not called.
    - `pinned`: the provider that Hermes' managed settings force.
    - `delivered`: the number of spooled turns that were stored now.
    - `waiting`: the number of spooled turns that still wait.
    """

    actor: str
    pinned: str
    delivered: int = 0
    waiting: int = 0


def verify_home(hermes: Hermes, home: HermesHome, *, look_only: bool) -> Verified:
    """Load the plugin through Hermes in a child process. Raises `ProviderUnavailable` with the reason if that fails."""
    how = "look" if look_only else "ask"
    command = ("-m", _PROGRAM, how, str(PATIENCE / 2))  # a spool may be long: the rest goes later
    said = ask(hermes.python, command, {"HERMES_HOME": str(home.path)})
    if said["fault"]:
        raise ProviderUnavailable(str(said["fault"]), hint=str(said["hint"]))
    if said["profile"] != home.profile:
        raise ProviderUnavailable(
            f"Hermes uses the profile name {said['profile']} for this home, not {home.profile}",
            hint=f"run the command again with --home ROOT --profile {said['profile']}",
        )
    return Verified(str(said["actor"]), str(said["pinned"]), int(said["delivered"]), int(said["waiting"]))
