"""What is known of one conversation: what was shown in it, how sensitive it has become, what it kept.

Agents come and go within a conversation, one for each speaker of a shared thread, so this belongs to the conversation
and not to the agent. How sensitive it is, and that it is off the record, outlast the process too: a runtime replays
its history after a restart, with everything that was once shown. On disk that is two facts and no text, in a file named
by a hash. A file that cannot be read counts as the most sensitive there is.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from strongroom.errors import StoreUnavailable
from strongroom.files import make_directory, write_file
from strongroom.model import Actor, LineId, Namespace

SEEN_LIMIT = 1000
"""Ids that a recall leaves out: those last shown or said."""
TURNS_LIMIT = 256
HELD = 4096
"""Conversations that a process remembers."""
FILES_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class Kept:
    """A turn that was kept: what the person said, and the lines it became."""

    said: str
    ids: tuple[LineId, ...]


@dataclass(eq=False)
class State:
    """One conversation's state. Shared by its agents; take `guard` to change it."""

    path: Path
    carried: set[Namespace] = field(default_factory=set)
    """Every namespace that was shown or said in it: what a reply may repeat."""
    is_off: bool = False
    seen: OrderedDict[LineId, None] = field(default_factory=OrderedDict)
    turns: list[Kept] = field(default_factory=list)
    undoing: list[LineId] = field(default_factory=list)
    """Lines that were taken back and not forgotten yet."""
    length: int = 0
    """How many messages its history had."""
    guard: threading.RLock = field(default_factory=threading.RLock)

    def carry(self, names: Iterable[Namespace]) -> None:
        """Note namespaces that stand before the model from now on. On disk before this returns."""
        with self.guard:
            new = set(names) - self.carried
            if new:
                self.carried |= new
                self._write()

    def turn_off(self, is_off: bool) -> None:
        with self.guard:
            if self.is_off != is_off:
                self.is_off = is_off
                self._write()

    def see(self, ids: Iterable[LineId]) -> None:
        """Note lines that stand before the model, so that they are not shown again."""
        with self.guard:
            for one in ids:
                self.seen[one] = None
            while len(self.seen) > SEEN_LIMIT:
                self.seen.popitem(last=False)

    def keep(self, said: str, ids: tuple[LineId, ...]) -> None:
        with self.guard:
            if not any(turn.ids == ids for turn in self.turns):
                self.turns = [*self.turns, Kept(sha256(said.encode("utf-8", "replace")).hexdigest(), ids)][
                    -TURNS_LIMIT:
                ]

    def lengthened(self, length: int) -> None:
        """Note how many messages the history has. Fewer than before: some were dropped, and what was shown in them."""
        with self.guard:
            if length < self.length:
                self.seen.clear()
            self.length = length

    def compressed(self) -> None:
        """Messages were summarised away: what was shown in them may be shown again. What was said still counts."""
        with self.guard:
            self.seen.clear()

    def undone(self, history: Iterable[str]) -> list[LineId]:
        """Take back the turns that are in the history no more, and give their lines.

        `history` is what the person said in the turns before this one, in order. An undo drops the newest turns and a
        compression the oldest: so a turn counts as undone only if one before it is still there, and where the same
        words leave it open, nothing does.
        """
        with self.guard:
            kept = [turn.said for turn in self.turns]
            there = [said for said in map(_digest, history) if said in set(kept)]
            ends = [place for place, said in enumerate(kept) if there and said == there[-1]]
            if not ends:
                return []
            last = max(ends, key=lambda place: (_common_end(kept[: place + 1], there), place))
            gone, self.turns = self.turns[last + 1 :], self.turns[: last + 1]
            return [one for turn in gone for one in turn.ids]

    def rewind(self) -> list[LineId]:
        """Take back the last turn, and give its lines."""
        with self.guard:
            return list(self.turns.pop().ids) if self.turns else []

    def _write(self) -> None:
        data = json.dumps({"carried": sorted(self.carried), "off": self.is_off}).encode()
        try:
            make_directory(self.path.parent)
            write_file(self.path, data, new=False)
        except OSError as error:
            raise StoreUnavailable(f"cannot write the state of a conversation: {error.strerror}") from None


class Sessions:
    """The conversations of one home, as far as this process knows them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._states: OrderedDict[Path, State] = OrderedDict()
        self._guard = threading.Lock()

    def of(self, actor: Actor, session: str, worst: Namespace) -> State:
        """The state of a conversation, read from disk if this process does not know it; `worst` if it is damaged."""
        name = sha256(f"{actor}\0{session}".encode("utf-8", "replace")).hexdigest()[:32]
        path = self._directory / f"{name}.json"
        with self._guard:
            state = self._states.get(path) or _read(path, worst)
            self._states[path] = state
            self._states.move_to_end(path)
            while len(self._states) > HELD:
                self._states.popitem(last=False)
            return state

    def tidy(self) -> None:
        """Drop the oldest files where there are too many."""
        try:
            files = sorted(self._directory.glob("*.json"), key=os.path.getmtime)
            for old in files[:-FILES_LIMIT]:
                old.unlink(missing_ok=True)
        except OSError:
            return


def _read(path: Path, worst: Namespace) -> State:
    try:
        found = json.loads(path.read_bytes())
        return State(path, {Namespace(str(name)) for name in found["carried"]}, bool(found["off"]))
    except FileNotFoundError:
        return State(path)
    except (OSError, ValueError, LookupError, TypeError):
        return State(path, {worst})


def _digest(said: str) -> str:
    return sha256(said.encode("utf-8", "replace")).hexdigest()


def _common_end(one: list[str], other: list[str]) -> int:
    """How many elements at the end two lists have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(reversed(one), reversed(other), strict=False)))
