"""What is known of one conversation: what was shown in it, how sensitive it has become, what it kept.

Agents come and go within a conversation, one for each speaker of a shared thread, so this belongs to the conversation
and not to the agent. How sensitive it is, and that it is off the record, outlast the process too: a runtime replays
its history after a restart, with everything that was once shown. On disk that is three facts and no text, in a file
named by a hash. A file that cannot be read counts as the most sensitive there is.

So do the ids of the lines that were shown or said in it, sealed in a file beside that one, or they would be shown a
second time. It is written between two turns and not synced; where it is lost or damaged, lines are shown again.
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
from strongroom.model import Actor, LineId, Namespace
from strongroom.private_files import make_directory, read_file, status_of, write_file

SEEN_LIMIT = 1000
"""Ids that a recall leaves out: those last shown or said."""
TURNS_LIMIT = 256
HELD = 4096
"""Conversations that a process remembers."""
TakenBack = Callable[[], Collection[str] | None]
"""What a runtime's own record says was taken back, as digests of what was said; None if it keeps none."""
OnDisk = tuple[frozenset[Namespace], bool, bool]
"""What a conversation's file says: what it carries, whether it is off the record, whether its beginning is known."""
FILES_LIMIT = 5000
_LIMIT = 64 * 1024
"""Bytes of a conversation's file."""


class KeptTurn(msgspec.Struct, frozen=True):
    """A turn that was told: what the person said, the lines it became, and how long the history was then."""

    said: str
    ids: tuple[LineId, ...]
    length: int = 0
    spooled: tuple[Path, ...] = ()
    name: str = ""
    """What the ids of its lines share; only where there are any."""


@dataclass(eq=False)
class ConversationState:
    """One conversation's state. Shared by its agents; take `guard` to change it."""

    path: Path
    worst: Namespace
    carried: set[Namespace] = field(default_factory=set)
    """Every namespace that was shown or said in it: what a reply may repeat."""
    is_off: bool = False
    seen: OrderedDict[LineId, None] = field(default_factory=OrderedDict)
    turns: list[KeptTurn] = field(default_factory=list)
    undoing: list[LineId] = field(default_factory=list)
    """Lines that were taken back and not forgotten yet."""
    undone: list[str] = field(default_factory=list)
    """The names of turns that were."""
    summary: str = ""
    """What the history's summaries were, as a hash."""
    is_known: bool = False
    """Whether it is known what was said before: to this process, or to an earlier one that wrote it down."""
    shown: ShownFile | None = None
    guard: threading.RLock = field(default_factory=threading.RLock)
    _on_disk: OnDisk = (frozenset(), False, False)
    _status: tuple[int, ...] = ()

    def carry(self, names: Iterable[Namespace], ids: Iterable[LineId] = ()) -> None:
        """Note namespaces that stand before the model from now on, on disk before this returns; and such lines."""
        with self.guard:
            self.carried.update(names)
            if (frozenset(self.carried), self.is_off) != self._on_disk[:2]:
                self._write()
            self.see(ids)

    def begun(self, with_history: bool) -> None:
        """A turn has a history, or none. One of which nothing is known may hold anything."""
        with self.guard:
            if not self.is_known:
                self.is_known = True
                self.carry({self.worst} if with_history else ())

    def settle(self) -> None:
        """Write down what may be lost until then: that the conversation's beginning is known. Unknown is safer."""
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
        """Note lines that stand before the model, so that they are not shown again."""
        with self.guard:
            for one in ids:
                self.seen[one] = None
            while len(self.seen) > SEEN_LIMIT:
                self.seen.popitem(last=False)

    def take_over(self, other: ConversationState) -> None:
        """Go on from another conversation: everything that was said or shown there stands here too."""
        with other.guard:  # never both at once: two conversations may take each other over
            seen, turns, carried = list(other.seen), list(other.turns), set(other.carried)
            summary, is_off = other.summary, other.is_off
        with self.guard:
            self.see(seen)
            self.turns = [*turns, *self.turns][-TURNS_LIMIT:]
            self.summary, self.is_off, self.is_known = summary, self.is_off or is_off, True
            self.carry(carried)

    def keep(self, turn: KeptTurn) -> None:
        """Note a turn that was told. Its lines stand before the model from now on."""
        with self.guard:
            self.turns = [*self.turns, turn][-TURNS_LIMIT:]
            self.see(turn.ids)

    def compressed(self) -> None:
        """Messages were summarised away: what was shown in them may be shown again. What was said still counts."""
        with self.guard:
            self._unsee()
            self.turns = [KeptTurn(turn.said, turn.ids, name=turn.name) for turn in self.turns]

    def goes_on(self, before: History) -> bool:
        """Whether the history before a turn is what is known of it, or more: then nothing was undone."""
        with self.guard:
            is_longer = bool(self.turns) and before.length >= self.turns[-1].length
            return is_longer and before.summary == self.summary

    def follow(self, before: History, compared: Callable[[str], str], taken_back: TakenBack) -> None:
        """Compare the history before this turn with what is known of it, and take back what was undone.

        `compared` gives what a turn is known by.

        An undo cuts the newest turns off, and leaves the history exactly as it was after an earlier one, or empty. A
        compression changes its summary, and a runtime that could not read its history has none. So each turn is taken
        back only if the runtime itself says that it was, where it keeps a record of that; where it keeps none, an
        empty history takes back one turn at most. Where nothing is certain, nothing is: it would be a loss.
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
        """How many of the turns are still in the history; all, if that cannot be told."""
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
        """Take back the last turn; False if none is known."""
        with self.guard:
            known = bool(self.turns)
            self._take_back(max(len(self.turns) - 1, 0))
            return known

    def take_back(self, ids: Iterable[LineId], names: Iterable[str] = ()) -> None:
        """Note lines that are to be forgotten with their turns, and turns by their names."""
        with self.guard:
            self.undoing += ids
            self.undone += names

    def taken_back(self) -> tuple[list[LineId], list[str]]:
        """Take what is to be forgotten: lines and names of turns. None of them stands before the model any more."""
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
        """Take in what another process noted."""
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
            # That its beginning is known may be lost with the machine, too; but what is off is written again with it.
            write_file(self.path, data, new=False, durable=self.is_off or wanted[:2] != self._on_disk[:2])
        except OSError as error:
            raise StoreUnavailable(f"cannot write the state of a conversation: {error.strerror}") from None
        self._on_disk, self._status = wanted, status_of(self.path)


class Sessions:
    """The conversations of one home, as far as this process knows them."""

    def __init__(self, directory: Path, key: Callable[[], bytes] | None = None) -> None:
        self._directory = directory
        self._key = key
        self._states: OrderedDict[tuple[Actor, str, str], ConversationState] = OrderedDict()
        self._guard = threading.Lock()

    def of(self, actor: Actor, session: str, chat: str, worst: Namespace) -> ConversationState:
        """The state of a conversation, as any process knows it; `worst` is what a damaged file counts as.

        What was shown and said in it belongs to an actor. How sensitive it is, and that it is off the record, belong
        to the conversation, whoever the owner says is speaking in it.
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
        """Drop the oldest files where there are too many of a sort."""
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
