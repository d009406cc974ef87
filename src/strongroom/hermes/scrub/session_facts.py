"""The facts about a session in Hermes' database. They tell which actor's memory the session recalled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

COLUMNS = {
    "platform": "source",
    "user_id": "user_id",
    "chat_id": "chat_id",
    "chat_type": "chat_type",
    "thread_id": "thread_id",
    "key": "session_key",
    "identity": "profile_name",
    "origin": "origin_json",
}
"""Maps our name of each fact to Hermes' column. If a version of Hermes lacks a column, the fact is empty."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The speaker and the place of a session. A fact that Hermes did not record is empty."""

    platform: str = ""
    user_id: str = ""
    user_id_alt: str = ""
    chat_id: str = ""
    chat_type: str = ""
    thread_id: str = ""
    key: str = ""
    identity: str = ""

    @classmethod
    def told(cls, row: Mapping[str, object]) -> Facts:
        """Build the facts from a database row, whose keys are our names of the facts."""
        found = {name: _text(row.get(name)) for name in COLUMNS if name != "origin"}
        return cls(**found, user_id_alt=_other_id(_text(row.get("origin"))))


def _other_id(origin: str) -> str:
    try:
        said = json.loads(origin) if origin else {}
    except (ValueError, RecursionError):
        return ""
    return _text(said.get("user_id_alt")) if isinstance(said, dict) else ""


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
