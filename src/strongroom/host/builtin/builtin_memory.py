"""The built-in memory: MEMORY.md and USER.md in a directory, the files that Hermes uses, in every session's prompt.

It is a memory provider like any other, but always present, and it needs no set-up. It promises:

- A change is on disk before anybody is notified. Then the user and the listener `on_write` are notified. There is no
  notice of a change that was not made, and a listener that fails undoes nothing.
- The prompt holds the files as they were when the session began, so that a prompt cache stays valid. Texts are stored
  unchanged. Fence marks in them are neutralised where a model reads them.
- No method that a runtime calls raises because of a file's state: a file that cannot be read is left out of the prompt
  and the user is told. `add`, `replace`, `remove` and `change` raise errors that name the file.

Not responsible for the form of an entry (`memory_entries`), for replacing a file (`text_file`) or for the tool's
arguments (`memory_tool`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.host.builtin import memory_tool
from strongroom.host.builtin.memory_entries import (
    DELIMITER,
    Action,
    Change,
    Edited,
    apply_changes,
    entries_of,
    prompt_text,
    size_of,
)
from strongroom.host.builtin.memory_tool import TOOL, Target
from strongroom.host.builtin.text_file import TextFile
from strongroom.host.provider_interface import MemoryProvider, Schema

FILES = {Target.MEMORY: "MEMORY.md", Target.USER: "USER.md"}
MEMORY_LIMIT = 2200
USER_LIMIT = 1375
SHOWN_LIMITS = 4
"""How much of an overfull file is shown, as a multiple of its limit. The model must see entries to shorten them."""

_HEADINGS = {Target.USER: "About the user", Target.MEMORY: "Your notes"}
_log = logging.getLogger("strongroom.host")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Write:
    """A change that is on disk. `old_text` is the whole entry that was removed or replaced; `content` is empty for
    `remove`.
    """

    action: str
    target: str
    content: str
    old_text: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The content of a file after a call, and the changes that the call made. No changes if there was nothing to
    change.
    """

    target: str
    entries: tuple[str, ...]
    limit: int
    writes: tuple[Write, ...] = ()

    @property
    def used(self) -> int:
        """The number of characters in use, delimiters included."""
        return size_of(self.entries)

    @property
    def usage(self) -> str:
        return f"{self.used * 100 // self.limit}% of the limit of {self.limit} characters"


class BuiltinMemory(MemoryProvider):
    """Memory in two small files. Safe between threads and processes: each change is applied to the current content."""

    def __init__(
        self,
        directory: Path,
        *,
        memory_limit: int = MEMORY_LIMIT,
        user_limit: int = USER_LIMIT,
        status: Callable[[str], None] | None = None,
        on_write: Callable[[Write], None] | None = None,
        writable: bool = True,
        patience: float = 5.0,
    ) -> None:
        """Set the limits, in characters. Without `status`, notices go to the session's `status_callback`.

        The directory is made at the first change. `patience` is how many seconds a change waits for other writers.
        """
        if min(memory_limit, user_limit) < 1:
            raise InvalidRequest("a limit must be at least 1 character")
        self._limits = {Target.MEMORY: memory_limit, Target.USER: user_limit}
        self._files = {target: TextFile(directory / name, patience=patience) for target, name in FILES.items()}
        self._status = status
        self._on_write = on_write
        self._writable = writable
        self._block = ""

    # Called by a runtime

    @property
    def name(self) -> str:
        return "builtin"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Schema]:
        return [memory_tool.schema(self._limits)] if self._writable else []

    def initialize(self, session_id: str, **kwargs: Any) -> None:  # noqa: ARG002 - both files serve every session
        """Take the snapshot of the files for the prompt. It stays the same until the session changes."""
        callback = kwargs.get("status_callback")
        self._status = self._status or (callback if callable(callback) else None)
        self._take_snapshot()

    def system_prompt_block(self) -> str:
        return self._block

    def on_session_switch(self, new_session_id: str, *, rewound: bool = False, **kwargs: Any) -> None:  # noqa: ARG002
        """Take a new snapshot for the new session. When turns are taken back, the files and the snapshot stay as they
        are.
        """
        if not rewound:
            self._take_snapshot()

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ARG002
        """Run the tool. The answer is always JSON with `success`.

        A refusal includes the current entries, so that the model can retry.
        """
        target = None
        try:
            if tool_name != TOOL:
                raise InvalidRequest("there is no tool of this name", hint=f"the only tool is {TOOL}")
            target, changes = memory_tool.parse_call(args)
            answer = _answer(self.change(target, changes))
        except StrongroomError as error:
            answer = {"success": False, "error": error.message, "hint": error.hint, "reason": error.reason}
            answer |= self._inventory(target) if target else {}
        return json.dumps(answer, ensure_ascii=False)

    # Called by a runtime's own code

    def read(self, target: str) -> StoredFile:
        """The present entries of `memory` or `user`."""
        known = memory_tool.target_of(target)
        return self._kept(known, self._files[known].read())

    def add(self, target: str, content: str) -> StoredFile:
        """Add an entry, if no equal entry exists."""
        return self.change(target, [Change(Action.ADD, content)])

    def replace(self, target: str, old_text: str, content: str) -> StoredFile:
        """Replace the only entry that contains `old_text`."""
        return self.change(target, [Change(Action.REPLACE, content, old_text)])

    def remove(self, target: str, old_text: str) -> StoredFile:
        """Remove the only entry that contains `old_text`."""
        return self.change(target, [Change(Action.REMOVE, old_text=old_text)])

    def change(self, target: str, changes: Iterable[Change]) -> StoredFile:
        """Make all of the changes, or raise and make none. On return, the changes are on disk and the listeners were
        called.

        Raises InvalidRequest for a change that cannot be made. Raises StoreUnavailable if the file cannot be read or
        written. Raises VersionConflict if somebody saved the file by hand at the same moment.
        """
        known, asked = memory_tool.target_of(target), tuple(changes)
        if not self._writable:
            raise InvalidRequest(
                "this agent may only read the memory", hint="let the conversation's own agent change the memory"
            )
        done = Edited("")

        def edit(text: str) -> str:
            nonlocal done
            done = apply_changes(text, asked, self._limits[known])
            return done.text

        self._files[known].change(edit)
        kept = self._kept(known, done.text, done.made)
        self._tell(known, kept.writes)
        return kept

    def _kept(self, target: Target, text: str, made: Iterable[Change] = ()) -> StoredFile:
        writes = tuple(Write(str(one.action), str(target), one.content, one.old_text) for one in made)
        return StoredFile(str(target), entries_of(text), self._limits[target], writes)

    def _tell(self, target: Target, writes: Sequence[Write]) -> None:
        for write in writes:
            _call(self._on_write, write)
        if writes:
            _call(self._status, f"memory updated: {FILES[target]}")

    def _inventory(self, target: Target) -> dict[str, Any]:
        try:
            kept = self.read(target)
        except StrongroomError:
            return {"target": str(target)}
        entries, left_out = _within(kept)
        more = {"left_out": left_out} if left_out else {}
        return {"target": str(target), "entries": entries, "usage": kept.usage, **more}

    def _take_snapshot(self) -> None:
        self._block = "\n\n".join(filter(None, map(self._section, _HEADINGS)))

    def _section(self, target: Target) -> str:
        try:
            kept = self.read(target)
        except StrongroomError as error:
            _log.warning("built-in memory: the file %s is left out: %s", FILES[target], error.message)
            _call(self._status, f"memory not read: {error.message}")
            return ""
        return _section(_HEADINGS[target], FILES[target], kept) if kept.entries else ""


def _section(heading: str, file: str, kept: StoredFile) -> str:
    entries, left_out = _within(kept)
    rest = [f"[{left_out} more in the file, too large to be shown]"] if left_out else []
    return f"## {heading} ({file}) [{kept.usage}]\n\n" + DELIMITER.join((*entries, *rest))


def _within(kept: StoredFile) -> tuple[list[str], int]:
    """The entries that fit into a prompt, and the number of entries that are left out."""
    texts, room = list[str](), SHOWN_LIMITS * kept.limit
    for entry in kept.entries:
        room -= len(entry) + len(DELIMITER)
        if room < 0:
            break
        texts.append(prompt_text(entry))
    return texts, len(kept.entries) - len(texts)


def _answer(kept: StoredFile) -> dict[str, Any]:
    gone = [prompt_text(write.old_text) for write in kept.writes if write.old_text]
    message = f"{FILES[Target(kept.target)]} updated" if kept.writes else "nothing to change: it is so already"
    answer = {"success": True, "message": message, "target": kept.target, "entries": len(kept.entries)}
    return {**answer, "usage": kept.usage, **({"gone": gone} if gone else {})}


def _call(listener: Callable[[_T], None] | None, word: _T) -> None:
    """Call a listener. An error in it is only logged, because the change is already made."""
    if listener is None:
        return
    try:
        listener(word)
    except Exception as error:  # noqa: BLE001 - a listener can be anybody's code
        _log.warning("built-in memory: a listener to changes failed with %s", type(error).__name__)
