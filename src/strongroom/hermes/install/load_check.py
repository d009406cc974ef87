"""The program of the self test, run in Hermes' own Python: load the plugin as Hermes does, and call the vault once.

The program is started with `python -m`. The first argument is `look` or `ask`. The second argument is the number of
seconds to wait for the delivery of spooled turns. The last line of the output is the result. Hermes' modules are
imported by name, because only Hermes' Python has them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

import msgspec

from strongroom.errors import ProviderUnavailable
from strongroom.hermes.install.hermes_probe import MARK
from strongroom.hermes.provider.delivery import begin_anew
from strongroom.hermes.provider.hermes_provider import StrongroomProvider
from strongroom.hermes.provider.speaker import Nobody


class Found(msgspec.Struct):
    """The result that `self_test` reads. If there is a `fault`, the other fields may be empty."""

    fault: str = ""
    hint: str = ""
    actor: str = ""
    profile: str = ""
    pinned: str = ""
    delivered: int = 0
    waiting: int = 0


def check(found: Found, *, asks: bool, patience: float) -> None:
    """Load the plugin through Hermes. With `asks`, also call the vault."""
    found.profile = str(import_module("hermes_cli.profiles").get_active_profile_name())
    with suppress(Exception):  # another version of Hermes: no pinned provider is known
        managed = import_module("hermes_cli.managed_scope").load_managed_config() or {}
        found.pinned = str((managed.get("memory") or {}).get("provider") or "")
    provider: StrongroomProvider | None = import_module("plugins.memory").load_memory_provider("strongroom")
    if provider is None:
        found.fault = "Hermes does not load the plugin"
    elif not provider.is_available():
        found.fault = provider.unavailable_reason() or "the provider is not available"
    elif asks:
        _ask(provider, found, patience)


def _ask(provider: StrongroomProvider, found: Found, patience: float) -> None:
    home = provider._home()
    begin_anew(home)
    spool = home.parts.spool
    waited = spool.waiting().turns
    provider.initialize(
        "strongroom-wire",
        hermes_home=os.environ["HERMES_HOME"],
        platform="cli",
        agent_context="background",
        agent_identity=found.profile,
    )
    if session := provider._session:
        view = session.view()
        if isinstance(view, Nobody):
            raise ProviderUnavailable(f"a terminal session gets no memory: {view.reason}")
        found.actor = str(view.speaker.actor)
        view.ask(lambda memory: memory.snapshot())
        session.caught_up.wait(patience)
    found.waiting = spool.waiting().turns + spool.aside()
    found.delivered = max(waited - found.waiting, 0)
    provider.shutdown()


def main() -> None:
    """Print the result and exit without waiting for the provider's background work."""
    found = Found()
    try:
        check(found, asks=sys.argv[1] == "ask", patience=float(sys.argv[2]))
    except Exception as error:  # noqa: BLE001 - the top-level handler
        found.fault = str(getattr(error, "message", "")) or f"it failed with {type(error).__name__}"
        found.hint = str(getattr(error, "hint", ""))
    sys.stdout.write(f"\n{MARK}{msgspec.json.encode(found).decode()}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
