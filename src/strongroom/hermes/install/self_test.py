"""The proof that it works: Hermes' own Python loads the plugin as Hermes does and goes through the gate once.

The session is a background agent's, which recalls and keeps nothing; nobody sees what it was shown. With a look only,
the plugin is loaded and asked whether it could be used, and the gate is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.errors import ProviderUnavailable
from strongroom.hermes.install.hermes_homes import HermesHome
from strongroom.hermes.install.hermes_probe import PATIENCE, SAY, Hermes, ask


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
    arguments = ("look" if look_only else "ask", str(PATIENCE / 2))  # a spool may be long: the rest goes later
    said = ask(hermes.python, _PROGRAM, arguments, {"HERMES_HOME": str(home.path)})
    if said["fault"]:
        raise ProviderUnavailable(str(said["fault"]), hint=str(said["hint"]))
    if said["profile"] != home.profile:
        raise ProviderUnavailable(
            f"Hermes calls this home {said['profile']}, and it was taken for {home.profile}",
            hint="name it as Hermes does: --home ROOT --profile NAME",
        )
    return Verified(str(said["actor"]), str(said["pinned"]), int(said["delivered"]), int(said["waiting"]))


_PROGRAM = (
    SAY
    + """
import os, sys
found = {"fault": "", "hint": "", "actor": "", "profile": "", "pinned": "", "delivered": 0, "waiting": 0}
def check():
    from hermes_cli.profiles import get_active_profile_name
    from plugins.memory import load_memory_provider
    found["profile"] = get_active_profile_name()
    try:
        from hermes_cli.managed_scope import load_managed_config
        found["pinned"] = str(((load_managed_config() or {}).get("memory") or {}).get("provider") or "")
    except Exception:
        pass  # an older or a newer Hermes: nothing is pinned that we know of
    provider = load_memory_provider("strongroom")
    if provider is None:
        found["fault"] = "Hermes does not load the plugin"
    elif not provider.is_available():
        found["fault"] = provider.unavailable_reason() or "the provider says that it cannot be used"
    elif sys.argv[1] == "ask":
        home = os.environ["HERMES_HOME"]
        identity = found["profile"]
        from strongroom.hermes.provider.delivery import begin_anew
        begin_anew(provider._home())
        spool = provider._home().parts.spool
        waited = spool.waiting().turns
        provider.initialize(
            "strongroom-wire", hermes_home=home, platform="cli", agent_context="background", agent_identity=identity
        )
        session = provider._session
        found["actor"] = str(session.speaker.actor)
        session.ask(session.speaker, lambda memory: memory.snapshot())
        session.caught_up.wait(float(sys.argv[2]))
        found["waiting"] = spool.waiting().turns + spool.aside()
        found["delivered"] = max(waited - found["waiting"], 0)
        provider.shutdown()
try:
    check()
except Exception as error:
    found["fault"] = str(getattr(error, "message", "")) or "it failed with " + type(error).__name__
    found["hint"] = str(getattr(error, "hint", ""))
say(**found)
sys.stdout.flush()
os._exit(0)  # what the provider does in the background is not waited for
"""
)
