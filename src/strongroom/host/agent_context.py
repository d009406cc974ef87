"""Which agent is asking, and how far it reaches into memory.

An agent is more than a chat: runtimes also build agents for a moment, to compress a history, to review one in the
background, to do what a clock says. Those must not open a session with a provider, because nobody would ever write to
it or end it, and what they say is no one's memory. Yet what is flushed before a compression must reach the built-in
memory. So there is no single switch that turns memory off: `Reach` says which part is there.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from strongroom.errors import InvalidRequest


class AgentContext(StrEnum):
    """What an agent was built for."""

    PRIMARY = "primary"
    """A conversation with a person."""
    SUBAGENT = "subagent"
    """A task that another agent gave; that agent's provider hears of the result."""
    CRON = "cron"
    """A task that a clock started."""
    FLUSH = "flush"
    """Saving what matters before messages are dropped."""
    BACKGROUND = "background"
    """A review of a conversation, or a task beside it."""
    COMPRESS = "compress"
    """Summarising a history, on demand or for hygiene."""


class Reach(Enum):
    """How much memory an agent has."""

    FULL = "full"
    """Built-in memory, and the external provider with a session of its own."""
    RECALL = "recall"
    """As FULL, but nothing that is said is kept: the provider is asked, never told."""
    BUILTIN = "builtin"
    """No external provider: the built-in memory alone, for reading and writing."""
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
"""What each context gets unless the runtime asks for less, or for RECALL where it knows what it does."""


def context_of(name: str) -> AgentContext:
    """The context of that name."""
    try:
        return AgentContext(name)
    except ValueError:
        raise InvalidRequest(f"there is no agent context {name}", hint=f"one of {', '.join(AgentContext)}") from None
