"""Turns as lines: when a turn began, the ids of its lines, and how a long text is cut.

A line's id has three parts: ten characters for the time, eight for the turn in which it was written, and eight of a
keyed hash of its actor and content. So a turn that is told twice is stored once, two turns of the same words are two,
everything written in a turn is found by its name, and an id reveals nothing without the key.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec
from ulid import ULID

from strongroom import model
from strongroom.crypto.hmac_state import HmacState
from strongroom.errors import LineTooLarge
from strongroom.hermes.provider import privacy_phrases
from strongroom.hermes.provider.privacy_phrases import Asked
from strongroom.model import Kind, LineId, Millis, Namespace, NewLine
from strongroom.text import strip_stacked_marks

ID_KEY_SIZE = 32
_PART = 5
"""How many bytes of an id name its turn; the same number are its hash."""
_TURN_FROM, _HASH_FROM = 10, 18
"""The offsets in an id of the turn's name and of the hash."""
_REMEMBERED = 16
"""How many turns are always remembered. Older turns are only remembered while they have a draft."""
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PIECE = model.LINE_LIMIT // 4
"""A text of this many characters fits a line in any script."""
PIECES = 16
"""Maximum number of lines for one text. The rest is left out, and a note says so."""


class SaidTurn(msgspec.Struct, frozen=True):
    """One text to store, with its author and namespace."""

    text: str
    author: str
    namespace: Namespace
    kind: Kind = Kind.TURN


class Worded(msgspec.Struct, frozen=True):
    """The lines of a text, and what was left out: how many secrets, and how many texts outside the cap."""

    lines: tuple[NewLine, ...]
    secrets: int = 0
    outside: int = 0


class Heard(msgspec.Struct, frozen=True):
    """A person's message in a turn, and what follows from it."""

    message: str
    session: str
    grounds: tuple[object, ...]
    """Everything else that the computed fields depend on. If it is equal, they can be reused."""
    said: SaidTurn
    asked: Asked
    digest: str
    """The digest by which the message is found in a history."""
    worded: Worded | None = None
    """Its lines, if they were built when the turn began."""


@dataclass(slots=True, eq=False)
class Begun:
    """A turn that began, and what became of it."""

    message: str
    time: Millis
    is_known: bool = True
    """True if the runtime reported when this turn began. If false, `time` is when the turn ended."""
    is_off: bool = False
    """True if the user asked that this turn not be stored."""
    is_taken_back: bool = False
    is_kept: bool = False
    is_given_up: bool = False
    """True if a turn with the same words was reported instead of this one. If this one follows, both are stored."""
    turn_id: str = ""
    tag: bytes = b""
    """The part that the ids of all lines written in this turn have in common; computed on first use."""
    name: str = ""
    """The tag as it is spelled in ids."""
    is_noted: bool = False
    """Whether something of the turn was stored before the turn itself: a note, a fact, another agent's result."""
    waiting: tuple[Path, ...] = ()
    """Spool files with lines of this turn that were stored before the turn itself, such as notes."""
    is_request: bool = False
    """True if the turn asks the memory to forget something. Such a turn is not stored."""
    shown: set[Namespace] = field(default_factory=set)
    """The namespaces from which something was said or shown in this turn, under any id of its conversation."""
    draft: Path | None = None
    left: Path | None = None
    """The turn's draft after it became a waiting entry, because the reported turn could not be stored."""
    heard: Heard | None = None
    """Computed when the turn began, and reused when it is reported."""

    def drop_waiting(self) -> None:
        """Remove its writings that wait in the spool."""
        for waiting in self.waiting:
            with suppress(OSError):
                waiting.unlink(missing_ok=True)
        self.waiting = ()


class Turns:
    """The last turns of one agent. A turn is reported after it ended; the next may have begun by then."""

    def __init__(self) -> None:
        self._begun: list[Begun] = []
        self._guard = threading.Lock()
        self.last: Begun | None = None
        """The turn that began last, of those that are not given up."""
        self.undone: set[tuple[str, float]] = set()
        """The handled rows of the runtime's record of undone turns: digest of the text, and time."""

    @property
    def current(self) -> Begun | None:
        """The turn that a writing belongs to now; None if it was taken back, or none began."""
        last = self.last
        return None if last is None or last.is_taken_back else last

    def waiting(self) -> list[Begun]:
        """The turns that are not reported yet, newest first."""
        with self._guard:
            return self._waiting()[::-1]

    def _waiting(self) -> list[Begun]:
        return [one for one in self._begun if not (one.is_kept or one.is_taken_back or one.is_given_up)]

    def begin(self, message: str, now: Millis) -> Begun:
        """Begin a turn. Its time differs from those of the turn before and of its reply."""
        with self._guard:
            last = self._begun[-1].time if self._begun else 0
            begun = Begun(privacy_phrases.unwrap(message) or message, Millis(max(now, last + 2)))
            old, recent = self._begun[: 1 - _REMEMBERED], self._begun[1 - _REMEMBERED :]
            self._begun = [*(one for one in old if one.draft), *recent, begun]
            self.last = begun
            return begun

    def ended(self, message: str, turn_id: str, clock: Callable[[], Millis]) -> Begun:
        """The turn that this message began: one not stored yet, or else a stored one that is reported again.

        A runtime may tell a turn in other words than it began with; turns are told in order, so it is then the oldest.
        Others of the same words were interrupted and repeated, or will be told too: their text is stored with this one.
        """
        with self._guard:
            waiting = self._waiting()
            same = [one for one in waiting if one.message == message and one.turn_id in ("", turn_id)]
            found = same[0] if same else self._told_otherwise(message, turn_id, waiting)
            if found is None:
                return Begun(message, clock(), is_known=False, turn_id=turn_id)
            for one in waiting:
                one.is_given_up = one in same
            found.turn_id, found.message, found.is_given_up = turn_id, message, False
            self.last = next((one for one in reversed(self._begun) if not one.is_given_up), None)
            return found

    def _told_otherwise(self, message: str, turn_id: str, waiting: list[Begun]) -> Begun | None:
        """The turn of a message that none of the waiting turns began with."""
        same = [one for one in self._begun if one.message == message and one.turn_id in ("", turn_id)]
        left = [one for one in same if (one.is_taken_back or one.is_given_up) and not one.is_kept]
        others = sorted(waiting, key=lambda one: bool(one.message))
        return next(iter((*left, *same[-1:], *others[:1])), None)

    def given_up(self, until: Begun, *, alone: bool = False) -> list[Path]:
        """The drafts of a turn and of those that began before it: they are stored by now, or never will be."""
        with self._guard:
            drafts: list[Path] = []
            for one in (until,) if alone else (*[one for one in self._begun if one.draft], until):
                if one.draft is not None and (one.time <= until.time or one.is_given_up):
                    drafts.append(one.draft)
                    one.draft = None
            if until.left is not None and (until.is_kept or until.is_taken_back):
                drafts.append(until.left)
                until.left = None
            return drafts

    def take_back(self, begun: Begun) -> bool:
        """Mark a turn not to be stored. False if it is stored by now, or was taken back before."""
        with self._guard:
            is_new = not (begun.is_kept or begun.is_taken_back)
            begun.is_taken_back = begun.is_taken_back or is_new
            return is_new

    def kept(self, begun: Begun) -> bool:
        """Mark a turn as stored. False if it was taken back meanwhile."""
        with self._guard:
            begun.is_kept = True
            return not begun.is_taken_back


def line_id(key: bytes, began: Millis, *what: str, tag: bytes = b"") -> LineId:
    """The id of a line. `what` are its actor, session and content; without a tag it has no turn."""
    hashed = _keyed(key).digest("\0".join(what).encode("utf-8", "surrogatepass"))
    # The hash is the second half, as when all ten bytes were one, so that notes stored then are still found by it.
    said = (tag or hashed[:_PART]) + hashed[_PART : 2 * _PART]
    return LineId(str(ULID.from_int(began << 80 | int.from_bytes(said, "big"))))


def turn_tag(key: bytes, *which: str) -> bytes:
    """The common part of the ids of a turn's lines. `which` are its actor, session and beginning."""
    return _keyed(key).digest("\0".join(("turn", *which)).encode("utf-8", "surrogatepass"))[:_PART]


def turn_of(line: str) -> str:
    """The name of the turn in which a line was written: the part of its id that the turn's lines share."""
    return line[_TURN_FROM:_HASH_FROM]


def turn_name(tag: bytes) -> str:
    """The name of the turn with this tag, as it is in ids."""
    return turn_of(str(ULID.from_int(int.from_bytes(tag, "big") << 8 * _PART)))


def time_of(line: str) -> Millis:
    """The time in an id."""
    return Millis(ULID.from_str(line).milliseconds)


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> HmacState:
    return HmacState(key)


def hash_of(line: str) -> str:
    """The part of an id that depends neither on its time nor on its turn."""
    return line[_HASH_FROM:]


def storable(text: str) -> str:
    """The text without what no line may hold: control characters, surrogate halves, stacked marks."""
    plain = _UNSTORABLE.sub(" ", text.replace("\r\n", "\n")).strip()
    return plain if plain.isascii() else strip_stacked_marks(plain)


def pieces(text: str) -> Iterator[str]:
    """A text as one line, or as several if it is too long for one; nothing if it is empty."""
    whole = storable(text)
    if not whole:
        return
    try:
        yield model.clean_text(whole)
    except LineTooLarge:
        parts = [whole[start : start + _PIECE] for start in range(0, len(whole), _PIECE)]
        yield from (model.clean_text(part) for part in parts[:PIECES] if part.strip())
        if len(parts) > PIECES:
            yield f"[{len(whole) - _PIECE * PIECES} more characters were left out]"
