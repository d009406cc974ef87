"""A diary, as a memory provider for Hermes. It writes down what people say, and reads out what fits a question.

Each person has a file of their own in `<home>/diary`, with one JSON object for each turn or note. What can be set is in
`<home>/diary.json`:

    {"user_peer_aliases": {"8": "7"}, "most": 5}

Here user 8 is the same person as user 7, and no more than five lines are read out. Whose diary it is stays as it was
when the agent began, so an agent that is kept must be built anew when the first of the two changes.

It imports what Hermes has and knows of no other runtime.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider  # type: ignore[import-not-found]
from hermes_constants import get_hermes_home  # type: ignore[import-not-found]

_MOST = 5
_SHOWN = 500
_SHORT = re.compile(r"[a-z]{1,3}")
"""Words that stand in every other sentence."""


class Diary(MemoryProvider):  # type: ignore[misc]
    """The provider. One object is for one agent, and so for one person."""

    def __init__(self) -> None:
        self._settings = Settings(Path(get_hermes_home()) / "diary.json")
        self._book: Book | None = None

    @property
    def name(self) -> str:
        return "diary"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:  # noqa: ARG002 - it does not say who is speaking
        home = Path(kwargs["hermes_home"])
        self._settings = Settings(home / "diary.json")
        self._book = Book(home / "diary", self._whose(kwargs))

    def prefetch(self, query: str, *, session_id: str = "") -> str:  # noqa: ARG002 - a person has one diary
        fitting = self._book.fitting(query) if self._book else []
        most = self._settings.read().get("most", _MOST)
        return "\n".join(f"- {' '.join(said.split())[:_SHOWN]}" for said in fitting[:most])

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "") -> None:
        if self._book:
            self._book.add({"session": session_id, "user": user_content, "assistant": assistant_content})

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: dict[str, Any] | None = None
    ) -> None:  # the built-in memory of Hermes has changed
        gone = (metadata or {}).get("old_text", "")
        if self._book and action in ("replace", "remove") and gone:
            self._book.strike({"noted": target, "user": gone})
        if self._book and content:
            self._book.add({"noted": target, "user": content})

    def cache_busting_signature(self) -> dict[str, Any]:
        return {"diary.user_peer_aliases": sorted(self._aliases().items())}

    def _aliases(self) -> dict[str, str]:
        return dict(self._settings.read().get("user_peer_aliases", {}))

    def _whose(self, about: dict[str, Any]) -> str:
        """The user, else the chat by its exact key, else whoever owns this home."""
        user = about.get("user_id")
        if user:
            return f"user {about.get('platform', '')} {self._aliases().get(user, user)}"
        return f"chat {about.get('gateway_session_key', '')}"


class Settings:
    """A file that is read again only when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._status: tuple[int, int, int] | None = None
        self._value: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._status, self._value = None, {}
            return {}
        status = found.st_mtime_ns, found.st_size, found.st_ino
        if status != self._status:
            self._value = json.loads(self._path.read_text())
            self._status = status
        return self._value


class Book:
    """One person's entries in a file. Several threads and processes may write to it."""

    def __init__(self, directory: Path, whose: str) -> None:
        self._lock = directory / "lock"
        self._path = directory / f"{hashlib.sha256(whose.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.jsonl"

    def add(self, entry: dict[str, str]) -> None:
        """Write something down, once. It is on disk when this returns."""
        line = json.dumps(entry)
        with self._alone():
            lines = self._lines()
            if line not in lines:
                self._write([*lines, line])

    def strike(self, entry: dict[str, str]) -> None:
        """Take something out again."""
        line = json.dumps(entry)
        with self._alone():
            self._write([one for one in self._lines() if one != line])

    def fitting(self, question: str) -> list[str]:
        """What was said with at least half of the question's words in it: most words first, then the newest."""
        words = {word for word in re.findall(r"\w+", question.casefold()) if not _SHORT.fullmatch(word)}
        said = reversed([json.loads(line)["user"] for line in self._lines()])
        scored = [(sum(word in text.casefold() for word in words), text) for text in said]
        good = [one for one in scored if one[0] and 2 * one[0] >= len(words)]
        return [text for _, text in sorted(good, key=lambda one: -one[0])]

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def _write(self, lines: list[str]) -> None:
        """Another file takes the place of this one, whole: who reads meanwhile needs no lock."""
        draft = self._path.with_suffix(".new")
        with draft.open("w") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._lock.parent.mkdir(exist_ok=True)
        with self._lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def register(ctx: Any) -> None:
    ctx.register_memory_provider(Diary())
