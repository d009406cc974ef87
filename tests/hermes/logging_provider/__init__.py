"""A memory provider for Hermes that writes down each call: JSON lines in the file that LOGGED_CALLS names."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agent.memory_provider import MemoryProvider  # type: ignore[import-not-found]

_TOOL = {
    "name": "logged_note",
    "description": "Keep a note.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
_lock = threading.Lock()
_order = itertools.count(1)
_instances = itertools.count(1)


def _short(value: Any) -> Any:
    """A value as JSON holds it, with long texts cut."""
    if isinstance(value, str):
        return value if len(value) <= 200 else value[:200] + "..."
    if isinstance(value, Mapping):
        return {str(key): _short(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_short(one) for one in value]
    return "<callable>" if callable(value) else value


def _said(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{one['role']}: {one.get('content') or ''}"[:60] for one in messages]


class LoggingProvider(MemoryProvider):  # type: ignore[misc]
    """Remembers nothing but that it was called."""

    def __init__(self) -> None:
        self._instance = next(_instances)
        self._log("__init__")

    def _log(self, method: str, **arguments: Any) -> None:
        thread = threading.current_thread()
        with _lock, open(os.environ["LOGGED_CALLS"], "a", encoding="utf-8") as file:
            line = {
                "order": next(_order),
                "instance": self._instance,
                "method": method,
                "arguments": _short(arguments),
                "thread": "main" if thread is threading.main_thread() else "other",
                "thread_name": thread.name,
            }
            file.write(json.dumps(line) + "\n")

    @property
    def name(self) -> str:
        return "logging_provider"

    def is_available(self) -> bool:
        self._log("is_available")
        return True

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        self._log("get_tool_schemas")
        return [_TOOL]

    def cache_busting_signature(self) -> dict[str, Any]:
        self._log("cache_busting_signature")
        return {"logging_provider.peer": "someone"}

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._log("initialize", session_id=session_id, **kwargs)

    def system_prompt_block(self) -> str:
        self._log("system_prompt_block")
        return "# Logged memory\nEach call is written down."

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self._log("on_turn_start", turn_number=turn_number, message=message, **kwargs)

    def prefetch(self, query: str, **kwargs: Any) -> str:
        self._log("prefetch", query=query, **kwargs)
        return "The logged recollection."

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        said = None if messages is None else _said(messages)
        self._log("sync_turn", user=user_content, assistant=assistant_content, messages=said, **kwargs)

    def queue_prefetch(self, query: str, **kwargs: Any) -> None:
        self._log("queue_prefetch", query=query, **kwargs)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        self._log("handle_tool_call", tool_name=tool_name, args=args, **kwargs)
        return json.dumps({"kept": True})

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self._log("on_memory_write", action=action, target=target, content=content, metadata=metadata)

    def on_delegation(self, task: str, result: str, **kwargs: Any) -> None:
        self._log("on_delegation", task=task, result=result, **kwargs)

    def on_pre_compress(self, messages: Sequence[Mapping[str, Any]]) -> str:
        self._log("on_pre_compress", messages=_said(messages))
        return "The logged remark."

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self._log("on_session_switch", new_session_id=new_session_id, **kwargs)

    def on_session_end(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._log("on_session_end", messages=_said(messages))

    def shutdown(self) -> None:
        self._log("shutdown")


def register(ctx: Any) -> None:
    ctx.register_memory_provider(LoggingProvider())
