"""Providers that do everything right in another way than `Good`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.host.conformance.providers.good import Good


class GroupsApart(Good):
    """A group has a memory of its own, which all in it share, and nobody's private one is opened there."""

    def scope_of(self, told: Mapping[str, Any]) -> str:
        return f"group {told['chat_id']}" if told.get("chat_type") == "group" else super().scope_of(told)


class ShowsOnce(Good):
    """Recalls nothing that stands in the conversation already: what was said in it, or shown in it before."""

    shown: ClassVar[dict[tuple[str, str], set[str]]] = defaultdict(set)

    def sync_turn(self, user_content: str, assistant_content: str, *, turn_id: str = "", **kwargs: Any) -> None:
        super().sync_turn(user_content, assistant_content, turn_id=turn_id, **kwargs)
        self.shown[self.scope, self.session_id].add(user_content)

    def found(self, query: str) -> list[dict[str, Any]]:
        before = self.shown[self.scope, self.session_id]
        new = [line for line in super().found(query) if line["said"] not in before]
        before.update(line["said"] for line in new)
        return new


class RepeatsTheQuery(Good):
    """A search tool whose answer says what was looked for, as a whole and word by word, and says so again in words."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        answer = json.loads(super().handle_tool_call(tool_name, args, **kwargs))
        query = str(args.get("query", ""))
        found = answer.get("found", [])
        note = f"{len(found)} results for {query!r}"
        return json.dumps({"query": query, "terms": query.casefold().split(), "note": note, **answer})
