"""Advice for the owner: how an agent's tools are kept from the memory, and which of Hermes' data the gate cannot
protect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EMBEDDED = (
    "Hermes opens the vault in its own process, so programs that its tools run as your user can read the keys, as you "
    "can. The gate keeps people, chats and namespaces apart, but not such programs: for that, run "
    "`strongroom serve` as another user and wire with --url."
)
LOOK = (
    "Your own cap does not cover what Hermes remembers, so `strongroom get` does not show it: use "
    "`hermes strongroom recall QUESTION`."
)
SERVED = (
    "The keys are on the server; this machine has only a cap. A program that reads the cap can act for the people of "
    "this home, in its namespaces, until the cap ends or is revoked, but can neither open the vault nor mint caps."
)


@dataclass(frozen=True, slots=True)
class Beyond:
    """Something that Hermes stores outside the gate (`what`), and the setting or command against it (`closed_by`)."""

    what: str
    closed_by: str


def beyond(config: Mapping[str, Any]) -> list[Beyond]:
    """List the data that Hermes stores outside the gate. Data that Hermes' settings already prevent is left out."""
    found = []
    memory = config.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    if memory.get("memory_enabled", True) is not False or memory.get("user_profile_enabled", True) is not False:
        what = "MEMORY.md and USER.md: Hermes puts its own notes into the prompt for everybody who writes to it"
        found.append(Beyond(what, "memory.memory_enabled: false and memory.user_profile_enabled: false"))
    if "session_search" not in _disabled(config):
        what = "session_search: this tool searches the conversations of everybody"
        found.append(Beyond(what, "agent.disabled_toolsets: [session_search]"))
    what = "state.db: Hermes stores conversations, with recalled lines, unencrypted"
    found.append(Beyond(what, "`strongroom scrub hermes` after you forget lines; an encrypted disk for the rest"))
    what = "logs: agent.log has the beginning of each message"
    found.append(Beyond(what, "logging.level: WARNING, for new messages"))
    return found


def _disabled(config: Mapping[str, Any]) -> list[str]:
    agent = config.get("agent")
    names = agent.get("disabled_toolsets") if isinstance(agent, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []
