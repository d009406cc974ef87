"""The interface of a memory provider: what a runtime calls, and what it may expect.

It is Hermes' interface as of Hermes 0.19, and two methods that its users asked for. A provider written for Hermes need
not derive from this class: the host looks methods up by name, and a missing one counts as this class's own. Older
signatures keep working, because a method is given only what it accepts (`strongroom.host.call_adapter`).

Rules for every method below:

- An error is written to the log with the provider's name. It never breaks a turn, nor another provider.
- A method is called from any thread, with the context variables of the caller. Hooks that only tell come one at a time,
  in the order in which things happened. Hooks with an answer (`prefetch`, a tool) may come while turns are still being
  told, but after the memory writes and delegations before them, unless these take longer than a second.
- A method that is late is abandoned: the turn goes on without it, and the provider is not called again until it has
  returned. The time limits are in `strongroom.host.provider_limits`.
- One object serves one agent. Several objects, for several people, live in one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
"""One message of a conversation in the runtime's form: `role`, `content`, and the runtime's own keys."""
Schema = Mapping[str, Any]
"""A tool in the form that model APIs take: `name`, `description`, `parameters`."""
Signature = Mapping[str, Any]


class MemoryProvider(ABC):
    """The memory of an agent. Only the abstract methods are required; the others do nothing by default."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name of the provider, the same for every object of it. `builtin` is taken. Read once."""

    # Before a session

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it is set up and could work. No network: files and installed packages only.

        Called by the host before each agent, and by programs that list providers. False or an error means that the
        agent runs without it.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[Schema]:
        """The tools that the model may call; an empty list for none.

        Called before `initialize`, and possibly again. A malformed tool, or one whose name is taken, is left out and
        logged.
        """

    def cache_busting_signature(self) -> Signature | None:
        """The settings that a cached agent depends on: `provider.key -> value`, flat, JSON values.

        Called for each message, before anything else, for the active provider only. It may read its file's status, and
        the file only if that changed. It must hold no secret, and must not change when a token is refreshed. When it
        differs from the value at the agent's start, the agent is ended and built anew. An error counts as no change.
        """
        return None

    def identity_signature(self) -> Signature | None:
        """The newer name of `cache_busting_signature`. Override either."""
        return self.cache_busting_signature()

    # A session

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Make ready for one agent. Called once, before all that follow.

        Always given: `hermes_home` and `platform`. Given where known: `agent_context`, `agent_identity`,
        `agent_workspace`, `parent_session_id`, `session_title`, `user_id`, `user_id_alt`, `user_name`, `chat_id`,
        `chat_name`, `chat_type`, `thread_id`, `gateway_session_key`, `warning_callback`, `status_callback`. Accept
        unknown ones. If the method has a parameter `turn_journal`, it is True when turns wait in a journal until
        `sync_turn` has returned. `session_id` does not identify the speaker. After an error, only `shutdown` is called.
        """

    def system_prompt_block(self) -> str:
        """Text for the system prompt, the same for the whole session. Called when the prompt is built."""
        return ""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """Called when a turn begins, before `prefetch`. Turns count from 1."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Recall for `query`, as plain text; empty for nothing.

        Called once for each turn. The host puts the fence around it: return no marks of your own. A late answer is
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
        """Store a complete turn.

        Called after the turn, in the order of turns, off the turn's thread. The turn is in a sealed journal before the
        turn's thread goes on and until this returns, so it may come a second time after a crash: store it once. After
        an error the turn stays in the journal and comes again when a host next starts. `messages` are the
        conversation's, or after a crash those of the turn; a message's `api_content` holds recalled text and must not
        be stored. If the method has a parameter `turn_id`, it is the name of the turn, the same if it comes again: two
        turns can have the same words.
        """

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """A hint after `sync_turn`: the last question. `prefetch` is still called with the current one."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run a tool of `get_tool_schemas` and return JSON. An error becomes JSON with the key `error`."""
        raise NotImplementedError(f"{self.name} has no tool {tool_name}")

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Called when the built-in memory has committed a change.

        `action` is `add`, `replace` or `remove`, `target` is `memory` or `user`. For `replace` and `remove`,
        `metadata["old_text"]` is the text that is gone; `content` is empty for `remove`.
        """

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """Called when a subagent came back to this agent. The subagent itself has no provider."""

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """The text to keep of messages that are about to be summarised; empty for nothing."""
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
        """Called when the agent goes on under another session id, or with turns taken back (`rewound`).

        `reset` means a new conversation; `reason` in `kwargs` names the event. Comes after the turns before it.
        """

    def on_session_end(self, messages: Sequence[Message]) -> None:
        """Called when the conversation is over, or a compression drops its messages. Maybe several times, or never."""

    def shutdown(self) -> None:
        """Release everything. Nothing is called after it. May never come: a process can be killed."""

    # Outside of sessions

    def get_config_schema(self) -> list[Mapping[str, Any]]:
        """The fields that set-up asks for.

        Keys of each: `key`, `description`, `secret`, `required`, `default`, `choices`, `url`, `env_var`, `when`
        (`{other key: value}`, asked only then) and `default_from` (`{"field": other key, "map": {value: default}}`).
        """
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Write the answers of set-up where the provider will look for them. Secrets are not among the values."""

    def backup_paths(self) -> list[str]:
        """Paths outside `hermes_home` that a backup must include. Called without `initialize`."""
        return []
