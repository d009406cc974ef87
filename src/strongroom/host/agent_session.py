"""The facts that a runtime knows when it builds an agent: session, platform, user and chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from strongroom.host.agent_context import AgentContext

Callback = Callable[[str], None]
TERMINAL = "cli"
"""The name of the platform for an owner at a terminal, who is its only user."""


@dataclass(frozen=True, slots=True)
class AgentSession:
    """The facts about a session, for `MemoryProvider.initialize`. An empty field is unknown and is not passed on."""

    id: str
    platform: str = ""
    """The platform of the conversation. By default a conversation is at a terminal: `cli`."""
    context: AgentContext = AgentContext.PRIMARY
    agent_identity: str = ""
    """The name of the agent's profile, for a runtime with several profiles."""
    agent_workspace: str = ""
    parent_session_id: str = ""
    session_title: str = ""
    """A title that the user set. Leave out automatic titles, because they arrive in the middle of a chat."""
    user_id: str = ""
    user_id_alt: str = ""
    user_name: str = ""
    chat_id: str = ""
    chat_name: str = ""
    chat_type: str = ""
    thread_id: str = ""
    gateway_session_key: str = ""
    """A key of the chat that stays the same after `/new` and after a restart."""
    warning_callback: Callback | None = None
    status_callback: Callback | None = None
    """A function that shows a short notice to the user, for instance that memory was updated."""

    def __post_init__(self) -> None:
        if not self.platform and self.context == AgentContext.PRIMARY:
            object.__setattr__(self, "platform", TERMINAL)

    def told(self, home: str) -> dict[str, Any]:
        """The keyword arguments of `initialize` for this session."""
        known = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("id", "context")}
        given = {name: value for name, value in known.items() if value}
        return {"hermes_home": home, "agent_context": str(self.context), **given}
