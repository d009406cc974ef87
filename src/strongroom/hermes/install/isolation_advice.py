"""In plain words: which wall stands between an agent's tools and the memory, and what lies outside of every wall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EMBEDDED = (
    "No wall stands against programs of the same user: Hermes opens the vault in its own process, so what its tools "
    "run can read the keys as you can. The gate keeps people, chats and namespaces apart. For a wall, run "
    "`strongroom serve` as another user and wire with --url."
)
LOOK = (
    "What Hermes remembers is not under the owner's own cap, so `strongroom get` does not show it: "
    "`hermes strongroom recall QUESTION` does."
)
SERVED = (
    "The keys are with the server. Here is only a cap: whoever reads it can act for the people of this home, in its "
    "namespaces, until it ends or is revoked, and can neither open the vault nor mint."
)


@dataclass(frozen=True, slots=True)
class Beyond:
    """What Hermes keeps itself, where the gate does not reach, and what closes it."""

    what: str
    closed_by: str


def beyond(config: Mapping[str, Any]) -> list[Beyond]:
    """What is out of reach inside Hermes, but for what its settings have closed already."""
    found = []
    memory = config.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    if memory.get("memory_enabled", True) is not False or memory.get("user_profile_enabled", True) is not False:
        what = "MEMORY.md and USER.md: Hermes' own notes go into the prompt of everybody who writes to it"
        found.append(Beyond(what, "memory.memory_enabled: false and memory.user_profile_enabled: false"))
    if "session_search" not in _disabled(config):
        what = "session_search: this tool searches the conversations of everybody"
        found.append(Beyond(what, "agent.disabled_toolsets: [session_search]"))
    what = "state.db: conversations, with what was recalled for them, lie there in clear"
    found.append(Beyond(what, "`strongroom scrub hermes` after a forget; an encrypted disk for the rest"))
    what = "logs: agent.log has the beginning of each message"
    found.append(Beyond(what, "logging.level: WARNING, for new ones"))
    return found


def _disabled(config: Mapping[str, Any]) -> list[str]:
    agent = config.get("agent")
    names = agent.get("disabled_toolsets") if isinstance(agent, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []
