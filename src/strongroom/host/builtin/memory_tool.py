"""The tool `memory`: its schema for models, and the parsing of its arguments. Pure.

The arguments have the form that models know from Hermes: one change in `action`, `content` and `old_text`, or several
in `operations`. An empty or null argument counts as absent, because some runtimes fill in every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from strongroom.errors import InvalidRequest
from strongroom.host.builtin.memory_entries import Action, Change
from strongroom.host.provider_interface import Schema

TOOL = "memory"
MOST_OPERATIONS = 100


class Target(StrEnum):
    MEMORY = "memory"
    """The file with the agent's own notes."""
    USER = "user"
    """The file with the agent's knowledge about the user."""


class _Operation(msgspec.Struct):
    action: str | None = None
    content: str | None = None
    old_text: str | None = None


class _Call(_Operation):
    target: str | None = None
    operations: list[_Operation | None] | None = None


def target_of(name: str) -> Target:
    """The target of the given name. Raises InvalidRequest if there is none."""
    try:
        return Target(name)
    except ValueError:
        raise InvalidRequest("the target is unknown", hint=f"use one of: {', '.join(Target)}") from None


def parse_call(args: object) -> tuple[Target, tuple[Change, ...]]:
    """Parse a call into its target and its changes. Raises InvalidRequest for arguments that do not fit the schema."""
    try:
        call = msgspec.convert(args, _Call)
    except msgspec.ValidationError as error:  # names the argument and the types, never the value
        raise InvalidRequest(f"the arguments do not fit the tool: {error}", hint="see the tool's parameters") from None
    operations = call.operations or []
    if operations and (call.action or call.content or call.old_text):
        raise InvalidRequest(
            "operations cannot be combined with action, content and old_text",
            hint="use operations alone, or not at all",
        )
    if len(operations) > MOST_OPERATIONS:
        raise InvalidRequest(
            f"there are more than {MOST_OPERATIONS} operations", hint="make several calls with fewer operations"
        )
    return target_of(call.target or Target.MEMORY), tuple(map(_change, operations or [call]))


def _change(operation: _Operation | None) -> Change:
    if operation is None or operation.action not in list(Action):
        raise InvalidRequest("the action is missing or unknown", hint=f"use one of: {', '.join(Action)}")
    return Change(Action(operation.action), operation.content or "", operation.old_text or "")


def schema(limits: Mapping[Target, int]) -> Schema:
    """The tool's schema in the form that model APIs expect."""
    change = _change_parameters()
    return {
        "name": TOOL,
        "description": (
            "Keep short facts for later conversations. Target `user` is about the person: name, role, preferences, "
            "corrections. Target `memory` is for your own notes: surroundings, conventions, lessons. Both stand in the "
            f"system prompt of every conversation, so they are small: {limits[Target.USER]} and "
            f"{limits[Target.MEMORY]} characters. A change shows in the prompt from the next conversation on. "
            "To make room, put removals, replacements and additions into one call as `operations`: all are made or "
            "none, and only the result must fit. Do not keep secrets, raw data, or how far a task has come."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "target": {"type": "string", "enum": list(map(str, Target)), "description": "Which of the two."},
                **change,
                "operations": {
                    "type": "array",
                    "description": "Several changes to one target, made in order, instead of the three above.",
                    "items": {"type": "object", "properties": change, "required": ["action"]},
                },
            },
            "required": ["target"],
        },
    }


def _change_parameters() -> dict[str, Any]:
    return {
        "action": {"type": "string", "enum": list(map(str, Action)), "description": "What to do with one entry."},
        "content": {"type": "string", "description": "The new entry, for add and replace."},
        "old_text": {
            "type": "string",
            "description": "For replace and remove: a part of the entry that is meant and of no other entry.",
        },
    }
