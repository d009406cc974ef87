"""The tools for a model. By default there are none, and each tool is limited to the speaker's own cap.

With `forget` a person in a chat can ask to forget; `recall` adds a search for more lines; `full` adds remembering on
request. No tool lists all lines, so a model cannot enumerate a memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from strongroom import model
from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.hermes.policy import Tools
from strongroom.hermes.provider import recall, turn_lines, turn_writer, undo
from strongroom.hermes.provider.memory_session import MemorySession
from strongroom.hermes.provider.speaker import ASSISTANT, Nobody
from strongroom.host.provider_interface import Schema
from strongroom.model import Kind

RECALL, FORGET, REMEMBER = "strongroom_recall", "strongroom_forget", "strongroom_remember"
_FORGET_LIMIT = 20

_FORGET: Schema = {
    "name": FORGET,
    "description": (
        "Delete lines from this person's long-term memory for good, when they ask for it. Give the ids that stand in "
        "square brackets behind recalled lines, or last_turn for what was just said. All that was written in the same "
        "turn goes with a line: the reply, notes, facts. Say how many lines went."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "ids": {"type": "array", "items": {"type": "string"}, "maxItems": _FORGET_LIMIT},
            "last_turn": {"type": "boolean", "description": "Forget the turn before this one."},
        },
    },
}
_RECALL: Schema = {
    "name": RECALL,
    "description": "Search this person's long-term memory. Returns earlier lines as quoted data, with their ids.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "lines": {"type": "integer", "minimum": 1, "maximum": 20}},
        "required": ["query"],
    },
}
_REMEMBER: Schema = {
    "name": REMEMBER,
    "description": "Keep one short fact in this person's long-term memory, when they ask for it.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}

_OFFERED: Mapping[Tools, tuple[Schema, ...]] = {
    Tools.NONE: (),
    Tools.FORGET: (_FORGET,),
    Tools.RECALL: (_RECALL, _FORGET),
    Tools.FULL: (_RECALL, _FORGET, _REMEMBER),
}


def tool_schemas(tools: Tools) -> list[Schema]:
    """The schemas of the tools that a setting offers."""
    return [dict(schema) for schema in _OFFERED[tools]]


def call_tool(session: MemorySession, name: str, args: Mapping[str, Any]) -> str:
    """Run a tool. The answer is always JSON. A tool that the policy does not offer now is refused."""
    try:
        if name not in {str(schema["name"]) for schema in _OFFERED[session.home.policy.tools]}:
            raise InvalidRequest(
                "the memory's policy does not allow this tool", hint="the owner can change `tools` in the policy"
            )
        return json.dumps(_CALLS[name](session, args), ensure_ascii=False)
    except StrongroomError as error:
        session.failed(f"the tool {name[:32]}" if name in _CALLS else "a tool", error)
        return json.dumps({"error": error.message, "reason": error.reason})


def _recall(session: MemorySession, args: Mapping[str, Any]) -> dict[str, Any]:
    query, lines = args.get("query"), args.get("lines", session.home.policy.recall.lines)
    if not isinstance(query, str) or not query.strip():
        raise InvalidRequest(
            "the argument query must be a text to search for", hint="use the words of the person's question"
        )
    if type(lines) is not int or not 1 <= lines <= model.K_LIMIT:
        raise InvalidRequest(f"the argument lines must be a number from 1 to {model.K_LIMIT}")
    view = session.view()
    text, hits = recall.ask(view, query, lines, again=True) if not isinstance(view, Nobody) else ("", [])
    return {"recalled": text, "count": len(hits)}


def _forget(session: MemorySession, args: Mapping[str, Any]) -> dict[str, Any]:
    view = session.view()
    if isinstance(view, Nobody):
        raise InvalidRequest(f"there is no memory here: {view.reason}")
    if args.get("last_turn") is True:
        lines = undo.forget_last(view)
        if lines:
            turn_writer.set_apart(session)
        return {"forgotten": "the turn before this one" if lines else "nothing", "lines": lines}
    ids = args.get("ids")
    if not isinstance(ids, list) or not 1 <= len(ids) <= _FORGET_LIMIT or not all(isinstance(one, str) for one in ids):
        raise InvalidRequest(
            f"the argument ids must be a list of 1 to {_FORGET_LIMIT} line ids",
            hint="give line ids, or set last_turn to true",
        )
    wanted = [model.line_id(one.strip("[] ")) for one in ids]
    gone = view.ask(lambda memory: turn_lines.forget(memory, wanted))
    stays = undo.settle(view, gone)
    if gone.ids:
        turn_writer.set_apart(session)
    found = {"forgotten": list(gone.ids), "lines": len(gone.ids), "not_found": list(gone.missing)}
    return found | ({"still_in_the_file": stays} if stays else {})


def _remember(session: MemorySession, args: Mapping[str, Any]) -> dict[str, Any]:
    text = args.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest("the argument text must be the fact to remember")
    view = session.view()
    return {"kept": not isinstance(view, Nobody) and turn_writer.note(view, text, ASSISTANT, Kind.FACT) > 0}


_CALLS = {RECALL: _recall, FORGET: _forget, REMEMBER: _remember}
