"""The memory provider for Hermes: connects Hermes' hooks to the gate.

One object serves one agent. It holds nothing that needs closing, because runtimes drop agents without notice. The state
of the home is shared (`provider_home`). Every hook accepts arguments that later versions may add.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.hermes import hermes_homes
from strongroom.hermes.install import memory_setup
from strongroom.hermes.provider import (
    before_compression,
    delivery,
    line_builder,
    memory_mirror,
    model_tools,
    recall,
    turn_writer,
    undo,
)
from strongroom.hermes.provider.memory_session import MemorySession, look_after, tend
from strongroom.hermes.provider.provider_home import ProviderHome, home_of
from strongroom.hermes.provider.speaker import Nobody
from strongroom.host.plugins.hermes_stubs import get_hermes_home
from strongroom.host.provider_interface import MemoryProvider, Message, Schema, Signature

NAME = "strongroom"


@dataclass(frozen=True, slots=True)
class RecallStatus:
    """The number of recalled lines, in the form that a runtime may show beside a reply."""

    provider_label: str
    count: int
    glyph: str = "\u25a3"


class StrongroomProvider(MemoryProvider):
    """The memory provider of one agent. All its calls to memory pass the gate."""

    def __init__(self, home: str | os.PathLike[str] | None = None) -> None:
        self._place = Path(home) if home is not None else None
        self._session: MemorySession | None = None

    @property
    def name(self) -> str:
        return NAME

    # Before a session.

    def is_available(self) -> bool:
        return not self.unavailable_reason()

    def unavailable_reason(self) -> str:
        """The reason why memory cannot be used; empty if it can. Only files are read; the vault is not called."""
        try:
            policy = self._home().policy
        except StrongroomError as error:
            return error.message
        # A wired home always counts as available: what does not work is reported at each turn, and turns wait in the
        # spool. A runtime silently drops an unavailable provider.
        return (
            "" if policy.is_wired else f"this home is not wired; run `{hermes_homes.wire_command(self._home().path)}`"
        )

    def get_tool_schemas(self) -> list[Schema]:
        try:
            return model_tools.tool_schemas(self._home().policy.tools)
        except StrongroomError:
            return []

    def cache_busting_signature(self) -> Signature:
        """A value that changes with the policy: a hash of its text. It holds no secret, and a renewed cap does not
        change it.
        """
        try:
            policy = self._home().policy
        except StrongroomError as error:
            return {f"{NAME}.policy": error.reason}
        return {f"{NAME}.policy": policy.digest, f"{NAME}.tools": str(policy.tools)}

    # A session.

    def initialize(self, session_id: str, turn_journal: bool = False, **kwargs: Any) -> None:
        """Begin a session. In the background, load the speaker's lines and deliver the turns that an earlier process
        left.
        """
        if self._place is None and kwargs.get("hermes_home"):
            self._place = Path(str(kwargs["hermes_home"]))
        home = self._home()
        if not home.policy.is_wired:
            raise InvalidRequest("this Hermes home is not wired", hint=f"run `{hermes_homes.wire_command(home.path)}`")
        session = self._session = MemorySession(home, str(session_id), kwargs, is_journalled=turn_journal)
        home.keep_good(session.warn)
        session.caught_up.clear()
        home.later(lambda: recall.warm(session))
        home.later(lambda: _catch_up(session))

    def system_prompt_block(self) -> str:
        session = self._session
        if not session:
            return ""
        return _spared(session, "the profile", lambda: recall.prompt(session))

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:  # noqa: ARG002
        session = self._session
        if session and isinstance(message, str):
            turn_writer.begin(session, message, turn_number if isinstance(turn_number, int) else 0)

    def prefetch(self, query: str, *, session_id: str = "", **kwargs: Any) -> str:  # noqa: ARG002 - it isolates nothing
        session = self._session
        if not session or not isinstance(query, str):
            return ""
        return _spared(session, "recall", lambda: recall.recall(session, query))

    def recall_status(self) -> RecallStatus | None:
        """The number of lines that were recalled for the last question."""
        return RecallStatus("Strongroom", self._session.last_shown) if self._session else None

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
        turn_id: str = "",
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        session = self._session
        if session:
            where = _text(session_id) or session.id
            told = messages if isinstance(messages, list | tuple) else None
            turn_writer.turn(session, _text(user_content), _text(assistant_content), where, told, _text(turn_id))
            tend(session.home)

    def queue_prefetch(self, query: str, *, session_id: str = "", **kwargs: Any) -> None:  # noqa: ARG002
        """Prepare the vault for the next question. A runtime calls this between two turns."""
        session = self._session
        if session:
            with suppress(StrongroomError):  # the home may have been unwired
                view = session.view()
                session.home.way.settle()
                delivery.look_for_waiting(session)
                if not isinstance(view, Nobody):
                    view.state(_text(session_id)).settle()

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ARG002
        if not self._session:
            raise InvalidRequest("there is no session")
        return model_tools.call_tool(self._session, tool_name, args if isinstance(args, Mapping) else {})

    def on_memory_write(
        self,
        action: str,
        target: str,
        content: str,
        metadata: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        if self._session:
            old = metadata.get("old_text") if isinstance(metadata, Mapping) else None
            memory_mirror.mirror_write(self._session, _text(action), _text(target), _text(content), _text(old))

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:  # noqa: ARG002
        if self._session:
            turn_writer.keep_delegated(self._session, _text(task), _text(result), _text(child_session_id))

    def on_pre_compress(self, messages: Sequence[Message], **kwargs: Any) -> str:  # noqa: ARG002
        session = self._session
        view = session.view() if session else Nobody("")
        if isinstance(view, Nobody) or not isinstance(messages, list | tuple):
            return ""
        kept = before_compression.worth(messages, phrases=view.look.phrases, is_off=view.state().is_off)
        return line_builder.mask_secrets(view, kept)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",  # noqa: ARG002
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        session = self._session
        if not session:
            return
        if rewound:
            undo.rewind(session)
        _go_on(session, _text(new_session_id) or session.id, reset=reset, reason=str(kwargs.get("reason") or ""))

    def on_session_end(self, messages: Sequence[Message], **kwargs: Any) -> None:  # noqa: ARG002 - turns are kept
        if self._session:
            self._session.home.later(lambda: look_after(self._home()))

    def shutdown(self) -> None:
        session, self._session = self._session, None
        if session:
            with suppress(StrongroomError):  # the home may have been unwired
                view = session.view()
                if not isinstance(view, Nobody):
                    view.state().settle()
                session.home.parts.status.save_counts()

    # Outside of sessions.

    def get_config_schema(self) -> list[Mapping[str, Any]]:
        return memory_setup.config_schema()

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        memory_setup.save_config(values, Path(hermes_home))

    def post_setup(self, hermes_home: str, config: Mapping[str, Any] | None = None) -> None:
        """Run the set-up for `hermes memory setup strongroom`."""
        memory_setup.post_setup(Path(hermes_home), config)

    def backup_paths(self) -> list[str]:
        """Return no paths: a runtime's backup must hold neither the vault nor a cap. `strongroom backup` copies the
        vault.
        """
        return []

    def _home(self) -> ProviderHome:
        return home_of(self._place if self._place is not None else get_hermes_home())


def _text(value: object) -> str:
    """A value from a runtime if it is a text; otherwise an empty text."""
    return value if isinstance(value, str) else ""


def _spared(session: MemorySession, work: str, ask: Callable[[], str]) -> str:
    """Call `ask` and return its result. If `ask` raises, record the error and return an empty text, so the turn goes
    on.
    """
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - the one place where a defect is kept from the runtime
        session.failed(work, error)
        return ""


def _catch_up(session: MemorySession) -> None:
    try:
        delivery.recover(session)
    finally:
        session.caught_up.set()
    look_after(session.home)
    memory_mirror.import_files(session)


def _go_on(session: MemorySession, new: str, *, reset: bool, reason: str) -> None:
    """Continue a conversation under another id, or with a shortened history.

    The new id takes over the conversation's state, except after a reset or a resume.
    """
    view = session.view()
    old, session.id = session.id, new
    if reset or reason == "resume":
        session.start_anew()
    if isinstance(view, Nobody):
        return
    before, after = view.state(old), view.state(new)
    if new != old and not reset and reason != "resume":
        after.take_over(before)
    if reason == "compression":
        after.compressed()
        before.compressed()


def register(context: Any, home: str | os.PathLike[str] | None = None) -> None:
    """Register a new provider with Hermes. Hermes calls this function once for each agent."""
    context.register_memory_provider(StrongroomProvider(home))
