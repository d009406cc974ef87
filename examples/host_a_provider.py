"""Host a memory provider: a runtime of a few lines, whose second conversation knows what was said in the first."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strongroom.host import AgentContext, AgentSession, Host, MemoryProvider


class Diary(MemoryProvider):
    """A provider that keeps what people say, one file for each person. A real one would keep it sealed."""

    name = "diary"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Any]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._file = Path(kwargs["hermes_home"]) / f"diary-{kwargs.get('user_id', 'owner')}.json"

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        words = set(query.lower().split())
        return "\n".join(f"- {said}" for said in self._turns().values() if words & set(said.lower().split()))

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Any] | None = None,
        turn_id: str = "",
    ) -> None:
        # After a crash a turn can come twice, under the same name.
        self._file.write_text(json.dumps(self._turns() | {turn_id: user_content}))

    def _turns(self) -> dict[str, str]:
        return dict(json.loads(self._file.read_text())) if self._file.exists() else {}


def answer(prompt: str) -> str:
    """What a language model would say. This one only tells what it was shown."""
    shown = [line for line in prompt.splitlines() if line.startswith("- ")]
    return f"You told me: {shown[0][2:]}" if shown else "I see."


def talk(host: Host, session: AgentSession, *messages: str) -> None:
    memory = host.manager(session)
    history: list[dict[str, str]] = []
    for message in messages:
        memory.on_turn_start(message)
        reply = answer(f"{memory.prefetch(message)}\n{message}")
        history += ({"role": "user", "content": message}, {"role": "assistant", "content": reply})
        memory.sync_turn(message, reply, messages=history)  # on disk, sealed, when it returns
        print(f"{session.user_id or 'owner':6} {message:34} {reply}")
    memory.end(history)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home, keys = Path(scratch) / "home", Path(scratch) / "keys"
        with Host(home, Diary, keys=keys) as host:
            talk(host, AgentSession("monday", platform="telegram", user_id="alice"), "the trip goes to Chengdu")
            talk(host, AgentSession("tuesday", platform="telegram", user_id="alice"), "where does the trip go?")
            talk(host, AgentSession("tuesday", platform="telegram", user_id="bob"), "where does the trip go?")

            # An agent that only summarises a history has no provider, and nothing that it says is kept.
            conversation = host.manager(AgentSession("wednesday", platform="telegram", user_id="alice"))
            temporary = conversation.temporary(AgentContext.COMPRESS)  # with Alice's notes, and nobody else's
            print("an agent for compression has", "a provider" if temporary.external else "no provider")
            temporary.end()
            conversation.end()


if __name__ == "__main__":
    main()
