"""The interface of a memory provider: what a runtime calls, and what it may expect.

It is Hermes' interface, as far as Hermes 0.19 has it, and two methods that its users asked for. A provider that was
written for Hermes need not derive from this class: the host asks for methods, and what is missing counts as this
class's own. Older signatures keep working, because a method is given only what it accepts
(`strongroom.host.call_adapter`).

Rules that hold for every method below:

- An error is written to the log with the provider's name. It never breaks a turn, nor another provider.
- A method is called from any thread, with the context variables of who caused the call. What a provider is told comes
  one at a time, in the order it happened; what it is asked (`prefetch`, a tool) may come while it is still being told
  of turns. It comes after the memory writes and delegations before it, unless these take longer than a second.
- A method that is late is left behind: the turn goes on without it, and the provider is not asked again until it
  has returned. How long each may take is in `strongroom.host.provider_limits`.
- One object serves one agent. Several of them, for several people, live in one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
"""One message of a conversation as runtimes hold it: `role`, `content`, and what the runtime adds."""
Schema = Mapping[str, Any]
"""A tool in the form that model APIs take: `name`, `description`, `parameters`."""
Signature = Mapping[str, Any]


class MemoryProvider(ABC):
    """What an agent remembers with. Only the abstract methods must be there; the others do nothing by themselves."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name of the provider, the same for every object of it. `builtin` is taken. Read once."""

    # Before a session

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it is set up and could work. No network: files and installed packages only.

        Called by the host before each agent, and by whoever lists providers. False or an error means that the agent
        runs without it.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[Schema]:
        """The tools that the model may call; an empty list for none.

        Called before `initialize`, and possibly again. A tool that is malformed or whose name
        is taken is left out and said so in the log.
        """

    def cache_busting_signature(self) -> Signature | None:
        """What of the provider's settings a cached agent has frozen: `provider.key -> value`, flat, JSON values.

        Called for each message, before anything else, for the active provider only. It must not read more than the
        status of its file unless that changed, must hold no secret, and must not change when a token is refreshed.
        When it differs from that of the agent's start, the agent is ended and built anew. An error counts as no change.
        """
        return None

    def identity_signature(self) -> Signature | None:
        """The later name for `cache_busting_signature`, and the same thing. Override either."""
        return self.cache_busting_signature()

    # A session

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Make ready for one agent. Called once, before all that follow.

        Always given: `hermes_home` and `platform`. Given where known: `agent_context`, `agent_identity`,
        `agent_workspace`, `parent_session_id`, `session_title`, `user_id`, `user_id_alt`, `user_name`, `chat_id`,
        `chat_name`, `chat_type`, `thread_id`, `gateway_session_key`, `warning_callback`, `status_callback`. Accept what
        you do not know. A method that has a parameter `turn_journal` is told there that turns wait in a journal until
        `sync_turn` has returned. `session_id` says nothing about who is speaking. After an error the provider is not
        asked for anything else but `shutdown`.
        """

    def system_prompt_block(self) -> str:
        """Text for the system prompt, the same for the whole session. Called when the prompt is built."""
        return ""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """A turn begins, before `prefetch`. Turns count from 1."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What is remembered about `query`, as plain text; empty for nothing.

        Called once for each turn. The host puts the fence around it: return no marks of your own. What is late is
        dropped, never kept for the next turn.
        """
        return ""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
    ) -> None:
        """Keep a turn that is complete.

        Called after the turn, in the order of turns, off the turn's thread. The turn is in a sealed journal before the
        turn's thread goes on and until this returns, so it may come a second time after a crash: keep it once. After
        an error the turn is left in the journal and comes again when a host next starts. `messages` are the
        conversation's, or after a crash those of the turn; a message's `api_content` holds recalled text and is not for
        keeping. A method that has a parameter `turn_id` gets the name of the turn there, which is the same if it comes
        again: two turns can have the same words.
        """

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """A hint after `sync_turn` what the last question was. `prefetch` is still asked with the current one."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Carry out a tool of `get_tool_schemas` and return JSON. An error becomes JSON with the key `error`."""
        raise NotImplementedError(f"{self.name} has no tool {tool_name}")

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """The built-in memory has committed a change.

        `action` is `add`, `replace` or `remove`, `target` is `memory` or `user`. For `replace` and `remove`,
        `metadata["old_text"]` is the text that is gone; `content` is empty for `remove`.
        """

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """A subagent came back to this agent. The subagent itself has no provider."""

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """What of the messages that are about to be summarised must not be lost; empty for nothing."""
        return ""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """The agent goes on under another session id, or with turns taken back (`rewound`).

        `reset` means a new conversation; `reason` in `kwargs` says which event it was. Comes after the turns before it.
        """

    def on_session_end(self, messages: Sequence[Message]) -> None:
        """The conversation is over, or its messages are dropped by a compression. May come several times, or never."""

    def shutdown(self) -> None:
        """Let go of everything. Nothing is called after it. May never come: a process can be killed."""

    # Outside of sessions

    def get_config_schema(self) -> list[Mapping[str, Any]]:
        """The fields that set-up asks for.

        Keys of each: `key`, `description`, `secret`, `required`, `default`, `choices`, `url`, `env_var`, `when`
        (`{other key: value}`, asked only then) and `default_from` (`{"field": other key, "map": {value: default}}`).
        """
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Write what set-up was told where the provider will look for it. Secrets are not among the values."""

    def backup_paths(self) -> list[str]:
        """Paths outside `hermes_home` that a backup must include. Called without `initialize`."""
        return []
