"""Reads a hook's input from a pipe, within limits of time and size, and checks the input.

At the deadline the input ends, even if the pipe stays open. An incomplete document is refused. A terminal is never
read. The document has Hermes' form (`agent/shell_hooks.py`): event, tool, arguments, session, working directory, and
extra fields of the event.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from strongroom.errors import BodyTooLarge, InvalidRequest
from strongroom.strict_json import check_unique_keys

LIMIT = 16 << 20
"""Maximum size of the document, in bytes. The document may contain a whole conversation."""
_CHUNK = 1 << 16
_HELP = "see `strongroom hook --help`"


@dataclass(frozen=True, slots=True)
class Payload:
    """One event of a runtime. `arguments` is None if the runtime named no arguments."""

    event: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    session: str = ""
    cwd: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def said(self, name: str) -> str:
        """The text in an extra field of the event. Empty if the field is missing or is not a text."""
        found = self.extra.get(name)
        return found if isinstance(found, str) else ""


class _Document(msgspec.Struct):
    """The document that Hermes sends. Unknown fields are allowed, because a later version may add fields."""

    hook_event_name: str | None = None
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None
    session_id: str | None = None
    cwd: str | None = None
    extra: dict[str, Any] | None = None


def parse(data: bytes) -> Payload:
    """Parse a document. Raises InvalidRequest for any error in the document."""
    try:
        found = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise InvalidRequest("the input from the runtime is not the JSON of a hook", hint=_HELP) from None
    check_unique_keys(data)
    return Payload(
        event=found.hook_event_name or "",
        tool=found.tool_name or "",
        arguments=found.tool_input,
        session=found.session_id or "",
        cwd=found.cwd or "",
        extra=found.extra or {},
    )


def read(descriptor: int, until: float) -> bytes:
    """Read a pipe or a file to its end, or until the time `until` of the monotonic clock."""
    if os.isatty(descriptor):
        raise InvalidRequest("stdin is empty: a runtime calls this hook with JSON on stdin", hint=_HELP)
    data = bytearray()
    while (left := until - time.monotonic()) > 0 and select.select([descriptor], [], [], left)[0]:
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        data += chunk
        if len(data) > LIMIT:
            raise BodyTooLarge("the input from the runtime is too large to be checked")
    return bytes(data)
