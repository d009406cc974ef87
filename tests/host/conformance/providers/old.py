"""A provider with the signatures of the first interface, and nothing that was added since. It derives from nothing."""

from __future__ import annotations

from typing import Any

from tests.host.conformance.providers.good import Good


class Old:
    """Hands everything to a good one, by the older signatures."""

    name = "old"

    def __init__(self) -> None:
        self._good = Good()

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._good.initialize(session_id, **kwargs)

    def get_tool_schemas(self) -> list[Any]:
        return []

    def prefetch(self, query: str) -> str:
        return self._good.prefetch(query)

    def sync_turn(self, user_content: str, assistant_content: str) -> None:
        self._good.sync_turn(user_content, assistant_content)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        if action == "add":
            self._good.on_memory_write(action, target, content)

    def on_session_end(self, messages: list[Any]) -> None:
        pass

    def shutdown(self) -> None:
        pass
