"""An agent's purpose, and how much of memory it may use.

Runtimes build agents for conversations, and short-lived ones too: to compress a history, to review one in the
background, to run a scheduled task. A short-lived agent must not open a session with a provider, because nobody would
write to it or end it, and its words are no one's memory. Yet what is flushed before a compression must reach the
built-in memory. So there is no single off switch: `Reach` says which parts of memory an agent has.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from strongroom.errors import InvalidRequest


class AgentContext(StrEnum):
    """The purpose that an agent was built for."""

    PRIMARY = "primary"
    """A conversation with a person."""
    SUBAGENT = "subagent"
    """A task from another agent, whose provider gets the result."""
    CRON = "cron"
    """A scheduled task."""
    FLUSH = "flush"
    """Saving what matters before messages are dropped."""
    BACKGROUND = "background"
    """A review of a conversation, or a task beside it."""
    COMPRESS = "compress"
    """Summarising a history, on demand or for hygiene."""


class Reach(Enum):
    """The parts of memory that an agent may use."""

    FULL = "full"
    """Built-in memory, and the external provider with a session of its own."""
    RECALL = "recall"
    """As FULL, but nothing is stored: the provider recalls, and is passed nothing to store."""
    BUILTIN = "builtin"
    """The built-in memory alone, for reading and writing."""
    NONE = "none"
    """No memory at all."""


DEFAULT_REACH = {
    AgentContext.PRIMARY: Reach.FULL,
    AgentContext.SUBAGENT: Reach.NONE,
    AgentContext.CRON: Reach.NONE,
    AgentContext.FLUSH: Reach.BUILTIN,
    AgentContext.BACKGROUND: Reach.BUILTIN,
    AgentContext.COMPRESS: Reach.BUILTIN,
}
"""The default reach of each context. A runtime may ask for less, or for RECALL where that is safe."""


def context_of(name: str) -> AgentContext:
    """The context of that name, or InvalidRequest."""
    try:
        return AgentContext(name)
    except ValueError:
        raise InvalidRequest(f"there is no agent context {name}", hint=f"one of {', '.join(AgentContext)}") from None
