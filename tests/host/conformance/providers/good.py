"""A provider that does everything right, as small as that can be: one JSONL file for each person, read as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strongroom.host.provider_interface import MemoryProvider, Message, Schema, Signature

_guard = threading.RLock()
SEARCH: dict[str, Any] = {
    "name": "good_search",
    "description": "Find what was said.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}


class Good(MemoryProvider):
    """Keeps turns and mirrors the built-in memory, for each person apart."""

    def __init__(self) -> None:
        self.home = Path(os.environ.get("HERMES_HOME", "."))
        self.session_id = ""
        self.scope = ""
        self._settings: tuple[int, dict[str, Any]] = (-1, {})

    @property
    def name(self) -> str:
        return "good"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self.home = Path(kwargs["hermes_home"])
        (self.home / "good").mkdir(parents=True, exist_ok=True)
        self.session_id = session_id
        self.scope = self.scope_of(kwargs)

    def scope_of(self, told: Mapping[str, Any]) -> str:
        """Whose memory: the user, else the chat by its exact key, else the owner."""
        return f"user {told['user_id']}" if told.get("user_id") else f"chat {told.get('gateway_session_key', '')}"

    # Settings

    def cache_busting_signature(self) -> Signature | None:
        path = self.home / "good.json"
        changed = path.stat().st_mtime_ns if path.exists() else 0
        if changed != self._settings[0]:
            self._settings = (changed, json.loads(path.read_text()) if changed else {})
        return {"good.colour": self._settings[1].get("colour", "blue"), "good.languages": ["en", "zh"]}

    def get_config_schema(self) -> list[Mapping[str, Any]]:
        return [{"key": "token", "description": "A token", "secret": True, "env_var": "GOOD_TOKEN"}]

    # Keeping

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
        turn_id: str = "",
    ) -> None:
        self.append({"session": session_id, "said": user_content, "reply": assistant_content}, turn_id)

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        old = (metadata or {}).get("old_text")
        if old:
            self.rewrite(lambda line: line["said"] != old)
        if content:
            self.append({"target": target, "said": content})

    def append(self, line: dict[str, Any], name: str = "") -> None:
        """Keep a line on disk before this returns, once."""
        line = {"id": name or hashlib.sha256(json.dumps(line).encode()).hexdigest(), **line}
        with _guard:
            if any(one["id"] == line["id"] for one in self.lines()):
                return
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def rewrite(self, stays: Callable[[dict[str, Any]], bool]) -> None:
        with _guard:
            kept = [json.dumps(line) + "\n" for line in self.lines() if stays(line)]
            self.path.with_suffix(".new").write_text("".join(kept))
            self.path.with_suffix(".new").replace(self.path)

    # Recalling

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return "\n".join(f"- {line['said'][:500]}" for line in self.found(query))

    def found(self, query: str) -> list[dict[str, Any]]:
        words = [word.casefold() for word in re.findall(r"\w+", query)]
        with _guard:
            return [line for line in self.lines() if words and self.fits(words, line["said"].casefold())][-5:]

    def fits(self, words: list[str], text: str) -> bool:
        return all(word in text for word in words[:20])

    def get_tool_schemas(self) -> list[Schema]:
        return [SEARCH]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        if tool_name != "good_search" or not isinstance(args.get("query"), str):
            return json.dumps({"error": "say what to look for: query"})
        return json.dumps({"found": [line["said"] for line in self.found(args["query"])]}, ensure_ascii=False)

    # Files

    @property
    def path(self) -> Path:
        return self.home / "good" / f"{hashlib.sha256(self.scope.encode()).hexdigest()[:24]}.jsonl"

    def lines(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                yield json.loads(line)
