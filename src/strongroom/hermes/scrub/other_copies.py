"""Other places in and around a Hermes home that may hold recalled text. They are listed here, and never changed.

An earlier copy (a backup, a snapshot, an export) has the recalled text that the database had at that time. Logs, dumps
of requests and saved outputs have text that Hermes wrote there. Hermes' own memory files have the agent's notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_IN_HOME = (
    ("backups", "backups/*.zip"),
    ("snapshots of the database", "state-snapshots/*"),
    ("other copies of the database", "state.db.*"),
    ("answers that the API server keeps", "response_store.db"),
    ("exports of sessions", "session-exports/*"),
    ("saved sessions", "sessions/saved/*"),
    ("transcripts and dumps of requests", "sessions/*.json*"),
    ("spilled outputs of hooks", "hook_outputs/*"),
    ("logs", "logs/*.log*"),
    ("the agent's own notes", "memories/*.md"),
    ("the agent's own notes", "*MEMORY.md"),
)
_IN_USERS_HOME = (("backups", "hermes-backup-*.zip"),)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A place that was found, with its description."""

    what: str
    path: Path


def leftovers(home: Path, users_home: Path) -> list[Leftover]:
    """List the places that exist, beginning with those that probably hold the most recalled text."""
    found = [Leftover(what, path) for what, pattern in _IN_HOME for path in sorted(home.glob(pattern))]
    return found + [
        Leftover(what, path) for what, pattern in _IN_USERS_HOME for path in sorted(users_home.glob(pattern))
    ]
