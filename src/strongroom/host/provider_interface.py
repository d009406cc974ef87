"""The interface of a memory provider: the methods that a runtime calls, and what the runtime may expect of them.

It is Hermes' interface as of Hermes 0.19, with two more methods that users of Hermes asked for. A provider written for
Hermes need not derive from this class: the host looks methods up by name, and uses this class's method if a method is
missing. Older signatures keep working, because a method is given only the arguments that it accepts
(`strongroom.host.call_adapter`).

Rules for every method below:

- An error is written to the log with the provider's name. It breaks neither a turn nor another provider.
- A method is called from any thread, with the context variables of the caller. Hooks without an answer come one at a
  time, in the order of the events. Hooks with an answer (`prefetch`, a tool) may come while earlier turns are still
  being stored. Hooks with an answer come after earlier memory writes and delegations, if these take no longer than a
  second.
- A method that exceeds its time limit is abandoned: the turn goes on without it. The provider is not called again until
  the method has returned. The time limits are in `strongroom.host.provider_limits`.
- One object serves one agent. Several objects, for several people, live in one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
"""One message of a conversation in the runtime's form: `role`, `content`, and the runtime's own keys."""
Schema = Mapping[str, Any]
"""A tool's schema in the form that model APIs expect: `name`, `description`, `parameters`."""
Signature = Mapping[str, Any]


class MemoryProvider(ABC):
    """The memory of an agent. Only the abstract methods are required; the other methods do nothing by default."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name of the provider, the same for every object of it. It is read once. The name `builtin` is
        reserved.
        """

    # Before a session

    @abstractmethod
    def is_available(self) -> bool:
        """True if the provider is set up and could work. It may look at files and installed packages, but not at the
        network.

        Called by the host before each agent, and by programs that list providers. False or an error means that the
        agent runs without the provider.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[Schema]:
        """The tools that the model may call. An empty list means none.

        Called before `initialize`, and possibly again. A tool is left out and logged if it is malformed or its name is
        taken.
        """

    def cache_busting_signature(self) -> Signature | None:
        """The settings that a cached agent depends on: `provider.key -> value`, flat, with JSON values.

        Called for each message, before any other hook, for the active provider only. The method may read the status of
        its settings file, and the file itself only after a change. The settings must hold no secret, and must not
        change when a token is refreshed. When they differ from the settings at the agent's start, the agent is ended
        and built anew. An error counts as no change.
        """
        return None

    def identity_signature(self) -> Signature | None:
        """The newer name of `cache_busting_signature`. Override one of the two."""
        return self.cache_busting_signature()

    # A session

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Make the provider ready for one agent. Called once, before all methods that follow.

        Always given: `hermes_home` and `platform`. Given if they are known: `agent_context`, `agent_identity`,
        `agent_workspace`, `parent_session_id`, `session_title`, `user_id`, `user_id_alt`, `user_name`, `chat_id`,
        `chat_name`, `chat_type`, `thread_id`, `gateway_session_key`, `warning_callback`, `status_callback`. Accept
        unknown arguments.

        If the method has a parameter `turn_journal`, it is True when turns wait in a journal until `sync_turn` has
        returned. `session_id` does not identify the speaker. After an error, only `shutdown` is called.
        """

    def system_prompt_block(self) -> str:
        """Text for the system prompt, the same for the whole session. Called when the prompt is built."""
        return ""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """Called when a turn begins, before `prefetch`. Turns count from 1."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Recall lines for `query`, as plain text. Return an empty text if nothing is recalled.

        Called once for each turn. The host puts the fence around the text: add no marks of your own. A late answer is
        dropped, and never kept for the next turn.
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

        Called after the turn, in the order of turns, off the turn's thread. Until this method returns, the turn is in a
        sealed journal. So a turn may come again after a crash: store it once. After an error, the turn stays in the
        journal and comes again when a host next starts.

        `messages` are the messages of the whole conversation, or after a crash only the messages of the turn. A
        message's `api_content` holds recalled text and must not be stored. If the method has a parameter `turn_id`, it
        is the name of the turn. A turn that comes again has its earlier name, while two turns with equal words have two
        names.
        """

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Called after `sync_turn` with the last question, so that a recall can be prepared.

        The call is only a hint: `prefetch` is still called with the current question.
        """

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of the tools in `get_tool_schemas`, and return JSON. An error becomes JSON with the key `error`."""
        raise NotImplementedError(f"the provider {self.name} has no tool {tool_name}")

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Called when the built-in memory has committed a change.

        `action` is `add`, `replace` or `remove`; `target` is `memory` or `user`. For `replace` and `remove`,
        `metadata["old_text"]` is the text that was removed. `content` is empty for `remove`.
        """

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """Called when a subagent came back to this agent. The subagent itself has no provider."""

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Return text to keep from messages that are about to be summarised. Empty if there is none."""
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

        `reset` means a new conversation; `reason` in `kwargs` names the event. The calls for earlier turns come first.
        """

    def on_session_end(self, messages: Sequence[Message]) -> None:
        """Called when the conversation is over, or a compression drops its messages. It may come several times, or
        never.
        """

    def shutdown(self) -> None:
        """Release everything. No method is called afterwards. The call may never come, as a process can be killed."""

    # Outside of sessions

    def get_config_schema(self) -> list[Mapping[str, Any]]:
        """The fields that set-up asks for.

        Each field has some of these keys: `key`, `description`, `secret`, `required`, `default`, `choices`, `url`,
        `env_var`, `when` (`{other key: value}`: asked only after this answer) and `default_from` (`{"field": other key,
        "map": {value: default}}`).
        """
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Write the answers of set-up where the provider will look for them. The values hold no secrets."""

    def backup_paths(self) -> list[str]:
        """Paths outside `hermes_home` that a backup must include. Called without `initialize`."""
        return []
