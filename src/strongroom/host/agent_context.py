"""The purpose of an agent, and the parts of memory that it may use.

Runtimes build agents for conversations. They also build short-lived agents: to compress a history, to review a
conversation in the background, or to run a scheduled task. A short-lived agent must not open a session with a provider:
nobody would write to that session or end it, and the agent's words are no person's memory. Yet lines that are saved
before a compression must reach the built-in memory. So one off switch is not enough: `Reach` says which parts of memory
an agent has.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from strongroom.errors import InvalidRequest


class AgentContext(StrEnum):
    """The purpose that an agent was built for."""

    PRIMARY = "primary"
    """An agent that talks with a person."""
    SUBAGENT = "subagent"
    """An agent with a task from another agent. The provider of that other agent gets the result."""
    CRON = "cron"
    """An agent for a scheduled task."""
    FLUSH = "flush"
    """An agent that saves important facts before messages are dropped."""
    BACKGROUND = "background"
    """An agent that reviews a conversation, or does a task beside it."""
    COMPRESS = "compress"
    """An agent that summarises a history, on demand or when the history has become long."""


class Reach(Enum):
    """The parts of memory that an agent may use."""

    FULL = "full"
    """Built-in memory, and the external provider with a session of its own."""
    RECALL = "recall"
    """Built-in memory, and the external provider for recall only: the provider is passed nothing to store."""
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
"""The reach of each context by default. A runtime may ask for less, or for RECALL where that is safe."""


def context_of(name: str) -> AgentContext:
    """The context of the given name. Raises InvalidRequest if there is none."""
    try:
        return AgentContext(name)
    except ValueError:
        raise InvalidRequest(
            f"there is no agent context {name}", hint=f"use one of {', '.join(AgentContext)}"
        ) from None
