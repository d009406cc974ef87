"""The state of one conversation: the lines shown in it, how sensitive it has become, and the turns it has stored.

Agents come and go within a conversation, one for each speaker of a shared thread. The state therefore belongs to the
conversation and not to an agent. The namespaces, and whether the conversation is off the record, outlast the process
too: after a restart, a runtime replays a history with everything that was once shown.

On disk the state is one file without texts, named by a hash. A file that cannot be read counts as the most sensitive
namespace. A sealed file beside it has the ids of lines that were shown or said, so that they are not shown again. The
sealed file is written between two turns and not synced. If it is lost or damaged, lines are shown once more.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from strongroom.errors import StoreUnavailable
from strongroom.hermes.provider.chat_history import History, digest
from strongroom.hermes.provider.shown_lines import SHOWN, ShownFile
from strongroom.hermes.provider.turn_ids import turn_of
from strongroom.host.cache.settings_file import status_of
from strongroom.model import Actor, LineId, Namespace
from strongroom.private_files import make_directory, read_file, write_file

SEEN_LIMIT = 1000
"""Maximum number of ids that a recall leaves out: the ids of the lines that were shown or said last."""
TURNS_LIMIT = 256
HELD = 4096
"""Maximum number of conversations in memory (RAM)."""
TakenBack = Callable[[], Collection[str] | None]
"""Returns the undone turns in a runtime's own record, as digests of the person's texts. None if there is no record."""
OnDisk = tuple[frozenset[Namespace], bool, bool]
"""The content of a conversation's file: the namespaces, and two flags: off the record, and beginning known."""
FILES_LIMIT = 5000
_LIMIT = 64 * 1024
"""Maximum size of a conversation's file, in bytes."""


class KeptTurn(msgspec.Struct, frozen=True):
    """A reported turn: a digest of the person's text, the ids of the turn's lines, and the history's length at that
    time.
    """

    said: str
    ids: tuple[LineId, ...]
    length: int = 0
    spooled: tuple[Path, ...] = ()
    name: str = ""
    """The part of the ids that all lines of the turn share. Empty if the turn has no lines."""


@dataclass(eq=False)
class ConversationState:
    """The state of one conversation, shared by its agents. A thread holds `guard` to change it."""

    path: Path
    worst: Namespace
    carried: set[Namespace] = field(default_factory=set)
    """Every namespace from which something was shown or said in this conversation. A reply may repeat these lines."""
    is_off: bool = False
    seen: OrderedDict[LineId, None] = field(default_factory=OrderedDict)
    turns: list[KeptTurn] = field(default_factory=list)
    undoing: list[LineId] = field(default_factory=list)
    """Ids of lines of undone turns that still have to be forgotten."""
    undone: list[str] = field(default_factory=list)
    """Names of undone turns that still have to be forgotten."""
    summary: str = ""
    """The digest of the summaries in the conversation's history."""
    is_known: bool = False
    """Whether the conversation is known from its beginning. An earlier process may have recorded this."""
    shown: ShownFile | None = None
    guard: threading.RLock = field(default_factory=threading.RLock)
    _on_disk: OnDisk = (frozenset(), False, False)
    _status: tuple[int, ...] = ()

    def carry(self, names: Iterable[Namespace], ids: Iterable[LineId] = ()) -> None:
        """Add namespaces and lines that the model sees from now on. The namespaces are on disk when this call
        returns.
        """
        with self.guard:
            self.carried.update(names)
            if (frozenset(self.carried), self.is_off) != self._on_disk[:2]:
                self._write()
            self.see(ids)

    def begun(self, with_history: bool) -> None:
        """Record whether the first known turn has a history.

        If so, the conversation counts as most sensitive, because the history may contain anything.
        """
        with self.guard:
            if not self.is_known:
                self.is_known = True
                self.carry({self.worst} if with_history else ())

    def settle(self) -> None:
        """Write the facts that are not written at once: that the beginning is known, and which lines were shown.

        After a crash before this call the beginning counts as unknown, which is the safe state.
        """
        with self.guard:
            if self.is_known != self._on_disk[2]:
                self._write()
            if self.shown is not None:
                self.seen = self.shown.save(self.seen)

    def turn_off(self, is_off: bool) -> None:
        with self.guard:
            self.is_off = is_off
            self._write()

    def see(self, ids: Iterable[LineId]) -> None:
        """Add lines that the model has seen, so that they are not shown again."""
        with self.guard:
            for one in ids:
                self.seen[one] = None
            while len(self.seen) > SEEN_LIMIT:
                self.seen.popitem(last=False)

    def take_over(self, other: ConversationState) -> None:
        """Continue another conversation. Everything that was said or shown in the other conversation counts here
        too.
        """
        with other.guard:  # never both locks at once: two conversations may take over each other
            seen, turns, carried = list(other.seen), list(other.turns), set(other.carried)
            summary, is_off = other.summary, other.is_off
        with self.guard:
            self.see(seen)
            self.turns = [*turns, *self.turns][-TURNS_LIMIT:]
            self.summary, self.is_off, self.is_known = summary, self.is_off or is_off, True
            self.carry(carried)

    def keep(self, turn: KeptTurn) -> None:
        """Record a reported turn. The model has seen the turn's lines."""
        with self.guard:
            self.turns = [*self.turns, turn][-TURNS_LIMIT:]
            self.see(turn.ids)

    def compressed(self) -> None:
        """Record a compression of the history. Lines that were shown before may be shown again; their namespaces still
        count.
        """
        with self.guard:
            self._unsee()
            self.turns = [KeptTurn(turn.said, turn.ids, name=turn.name) for turn in self.turns]

    def goes_on(self, before: History) -> bool:
        """Whether the history before a turn continues the known history. If so, no turn was undone."""
        with self.guard:
            is_longer = bool(self.turns) and before.length >= self.turns[-1].length
            return is_longer and before.summary == self.summary

    def follow(self, before: History, compared: Callable[[str], str], taken_back: TakenBack) -> None:
        """Compare the history before this turn with the known history, and take back the turns that were undone.

        `compared` maps a text to the form in which known turns are compared. A turn that is taken back will be
        forgotten.

        An undo removes the newest turns, so the history is again as it was after an earlier turn, or empty. But a
        history can be short for other reasons: a compression replaces messages by a summary, and a runtime that could
        not read its history passes an empty one. Therefore:

        - If the runtime has its own record of undone turns, a turn is taken back only if the record has it.
        - Without a record, an empty history takes back one turn at most.
        - In doubt nothing is taken back, because the turn would be lost.
        """
        with self.guard:
            if before.summary != self.summary:
                self.summary = before.summary
                self.compressed()
            elif self.turns and before.length < self.turns[-1].length:
                self._unsee()
                self._cut(self._place(before, compared), taken_back)

    def _unsee(self) -> None:
        self.seen.clear()
        if self.shown is not None:
            self.shown.clear()

    def _place(self, before: History, compared: Callable[[str], str]) -> int:
        """The number of known turns that are still in the history. All turns count if the number cannot be found
        out.
        """
        if not before.length:
            return 0
        said = before.last_said()
        last = "" if said is None else compared(said)
        ends = (turn.length == before.length and turn.said == last for turn in self.turns)
        return next((place + 1 for place, is_end in enumerate(ends) if is_end), len(self.turns))

    def _cut(self, start: int, taken_back: TakenBack) -> None:
        if start >= len(self.turns):
            return
        said = taken_back()
        if said is None:
            self._take_back(max(start, len(self.turns) - 1) if start == 0 else start)
        elif all(turn.said in said for turn in self.turns[start:]):
            self._take_back(start)

    def rewind(self) -> bool:
        """Take back the last turn, so that it will be forgotten. Returns False if no turn is known."""
        with self.guard:
            known = bool(self.turns)
            self._take_back(max(len(self.turns) - 1, 0))
            return known

    def take_back(self, ids: Iterable[LineId], names: Iterable[str] = ()) -> None:
        """Mark lines and named turns to be forgotten. A line is forgotten together with its turn."""
        with self.guard:
            self.undoing += ids
            self.undone += names

    def taken_back(self) -> tuple[list[LineId], list[str]]:
        """Return the lines and the turn names to be forgotten, and clear both lists. The lines no longer count as
        seen.
        """
        with self.guard:
            ids, names = list(dict.fromkeys(self.undoing)), list(dict.fromkeys(self.undone))
            self.undoing, self.undone = [], []
            gone = {turn_of(one) for one in ids}.union(names)
            for one in [one for one in self.seen if turn_of(one) in gone]:
                del self.seen[one]
            return ids, names

    def _take_back(self, start: int) -> None:
        gone, self.turns = self.turns[start:], self.turns[:start]
        for turn in gone:
            self.undoing += turn.ids
            self.undone += [turn.name] if turn.name else []
            for waiting in turn.spooled:
                with suppress(OSError):
                    waiting.unlink(missing_ok=True)

    def refresh(self) -> None:
        """Read the changes that another process stored."""
        with self.guard:
            status = status_of(self.path)
            if status != self._status:
                self._status = status
                found = _read(self.path, self.worst)
                if found is not None:
                    is_ours = self.is_off != self._on_disk[1]
                    self._on_disk = found
                    self.carried |= found[0]
                    self.is_off = self.is_off if is_ours else found[1]
                    self.is_known = self.is_known or found[2]

    def _write(self) -> None:
        self.refresh()
        wanted = (frozenset(self.carried), self.is_off, self.is_known)
        if wanted == self._on_disk:
            return
        data = json.dumps({"carried": sorted(self.carried), "off": self.is_off, "known": self.is_known}).encode()
        try:
            make_directory(self.path.parent)
            # That the beginning is known may be lost in a power failure. `off` is rewritten with it, so that must be
            # durable.
            write_file(self.path, data, new=False, durable=self.is_off or wanted[:2] != self._on_disk[:2])
        except OSError as error:
            raise StoreUnavailable(f"cannot write the state of a conversation: {error.strerror}") from None
        self._on_disk, self._status = wanted, status_of(self.path)


class Sessions:
    """The states of one home's conversations, as this process knows them."""

    def __init__(self, directory: Path, key: Callable[[], bytes] | None = None) -> None:
        self._directory = directory
        self._key = key
        self._states: OrderedDict[tuple[Actor, str, str], ConversationState] = OrderedDict()
        self._guard = threading.Lock()

    def of(self, actor: Actor, session: str, chat: str, worst: Namespace) -> ConversationState:
        """The state of a conversation, with the changes of all processes. A damaged file counts as the namespace
        `worst`.

        The lines that were shown and said belong to an actor. The namespaces and the off-the-record flag belong to the
        conversation, whoever speaks in it.
        """
        key = (actor, session, chat)
        with self._guard:
            state = self._states.get(key)
            if state is None:
                state = self._states[key] = self._opened(key, worst)
                while len(self._states) > HELD:
                    self._states.popitem(last=False)
            self._states.move_to_end(key)
            state.worst = worst
        state.refresh()
        return state

    def _opened(self, key: tuple[Actor, str, str], worst: Namespace) -> ConversationState:
        actor, session, chat = key
        state = ConversationState(self._path(session, chat), worst)
        if self._key is not None:
            name = digest("\0".join((actor, session, chat)))[:32]
            state.shown = ShownFile(self._directory / f"{name}{SHOWN}", self._key)
            state.see(state.shown.load())
        return state

    def _path(self, session: str, chat: str) -> Path:
        return self._directory / f"{digest(f'{session}{chr(0)}{chat}')[:32]}.json"

    def tidy(self) -> None:
        """Remove the oldest files of each kind if there are too many."""
        for suffix in (".json", SHOWN):
            with suppress(OSError):
                files = sorted(self._directory.glob(f"*{suffix}"), key=os.path.getmtime)
                for old in files[:-FILES_LIMIT]:
                    old.unlink(missing_ok=True)


def _read(path: Path, worst: Namespace) -> OnDisk | None:
    try:
        found = json.loads(read_file(path, _LIMIT))
        return frozenset(Namespace(str(name)) for name in found["carried"]), bool(found["off"]), found["known"] is True
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset((worst,)), False, True
