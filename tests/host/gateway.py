"""A small gateway, as runtimes have them: chats by key, agents in a cache, commands, temporary agents, a restart.

`Ledger` is a provider that opens a session in a file the moment it is made ready, which is what makes orphans visible.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strongroom.host import (
    AgentCache,
    AgentContext,
    AgentSession,
    Host,
    Identity,
    MemoryManager,
    MemoryProvider,
    SessionSettings,
    User,
    Watched,
    resolve_session,
)

_WRITING = threading.Lock()


class Ledger(MemoryProvider):
    """Keeps turns by session name in one file, and freezes who is who when it begins."""

    name = "ledger"

    def __init__(self) -> None:
        self._settings: Watched[Identity] | None = None

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Mapping[str, Any]]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        home = Path(kwargs["hermes_home"])
        self._file = home / "ledger.json"
        self._settings = Watched(home / "identity.json", lambda text: Identity.parse(json.loads(text or "{}")))
        frozen = self._settings.value
        self.peer = frozen.peer(kwargs.get("user_id", ""), kwargs.get("user_id_alt", ""))
        self.session = resolve_session(
            SessionSettings(),
            session_id=session_id,
            title=kwargs.get("session_title", ""),
            gateway_key=kwargs.get("gateway_session_key", ""),
        )
        self._note(())

    def cache_busting_signature(self) -> Mapping[str, Any] | None:
        return None if self._settings is None else self._settings.value.signature(self.name)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return "\n".join(f"{peer}: {said}" for peer, said in sessions(self._file.parent).get(self.session, []))

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self._note(((self.peer, user_content),))

    def _note(self, lines: Sequence[tuple[str, str]]) -> None:
        with _WRITING:
            kept = sessions(self._file.parent)
            kept.setdefault(self.session, []).extend(line for line in lines if line not in kept.get(self.session, []))
            self._file.write_text(json.dumps(kept))


def sessions(home: Path) -> dict[str, list[tuple[str, str]]]:
    """What the ledger of a home holds: turns by session."""
    file = home / "ledger.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    return {name: [(peer, said) for peer, said in lines] for name, lines in kept.items()}


class ChatAgent:
    """An agent of one chat."""

    def __init__(self, memory: MemoryManager) -> None:
        self.memory = memory
        self.messages: list[dict[str, str]] = []
        self.ended = 0

    def end(self) -> None:
        self.ended += 1
        self.memory.end(self.messages)

    def reply(self, message: str) -> str:
        self.memory.on_turn_start(message)
        shown = self.memory.prefetch(message)
        self.messages += ({"role": "user", "content": message}, {"role": "assistant", "content": "ok"})
        self.memory.sync_turn(message, "ok", messages=self.messages)
        self.memory.flush(10)
        return shown


class Gateway:
    """Chats of one process on one home."""

    def __init__(self, home: Path, provider: Any = Ledger) -> None:
        self.home = home
        self.host = Host(home, provider, keys=home.parent / "keys")
        self.notices: list[str] = []
        self.runtime: dict[str, Any] = {"model": "m-1"}
        self.built: list[ChatAgent] = []
        self._numbers: dict[str, int] = {}
        self.cache: AgentCache[ChatAgent] = AgentCache(self._build)

    def say(self, chat: str, message: str, user: str = "alice") -> str:
        """One message of a person in a chat; what was recalled for it."""
        with self.cache.agent(chat, runtime=self.runtime, user=User(user)) as agent:
            return agent.reply(message)

    def new(self, chat: str) -> None:
        """`/new`: the agent is ended, the next message starts another session of the runtime."""
        self.cache.discard(chat)
        self._numbers[chat] = self._numbers.get(chat, 0) + 1

    def temporary(self, chat: str, context: AgentContext, user: str = "alice") -> MemoryManager:
        """An agent for a moment beside a person's chat: its memory is ended by the caller."""
        with self.cache.agent(chat, runtime=self.runtime, user=User(user)) as agent:
            return agent.memory.temporary(context)

    def close(self) -> None:
        self.cache.close()
        self.host.close()

    def _build(self, key: str, runtime: Mapping[str, Any], user: User) -> ChatAgent:
        session = AgentSession(
            f"{key.rpartition(':')[2]}-{self._numbers.get(key, 0)}",
            platform="telegram",
            user_id=user.id,
            chat_type="dm",
            gateway_session_key=key,
            status_callback=self.notices.append,
        )
        agent = ChatAgent(self.host.manager(session))
        self.built.append(agent)
        return agent


@contextmanager
def gateway(home: Path, provider: Any = Ledger) -> Iterator[Gateway]:
    running = Gateway(home, provider)
    try:
        yield running
    finally:
        running.close()
