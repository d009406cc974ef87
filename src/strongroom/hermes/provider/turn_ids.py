"""Keeps an agent's last turns, makes the ids of their lines, and cuts long texts.

A line's id has three parts: ten characters for the time, eight for the turn in which the line was written, and eight of
a keyed hash of the line's actor and content. From this it follows:

- A turn that is reported twice is stored once, and two turns with equal words are two.
- Everything that was written in a turn is found by the turn's name.
- Without the key, an id reveals nothing but its time.
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
"""Number of bytes of an id that name the turn. The hash has as many bytes."""
_TURN_FROM, _HASH_FROM = 10, 18
"""The positions in an id at which the turn's name and the hash begin."""
_REMEMBERED = 16
"""Number of turns that are always remembered. Older turns are remembered only while they have a draft."""
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PIECE = model.LINE_LIMIT // 4
"""Number of characters that fit into a line in any script."""
PIECES = 16
"""Maximum number of lines for one text. The rest of the text is left out, and a note says so."""


class SaidTurn(msgspec.Struct, frozen=True):
    """One text to store, with its author and namespace."""

    text: str
    author: str
    namespace: Namespace
    kind: Kind = Kind.TURN


class Worded(msgspec.Struct, frozen=True):
    """The lines of a text, the number of masked secrets, and the number of texts that the cap does not cover."""

    lines: tuple[NewLine, ...]
    secrets: int = 0
    outside: int = 0


class Heard(msgspec.Struct, frozen=True):
    """A person's message in a turn, with the values computed from it."""

    message: str
    session: str
    grounds: tuple[object, ...]
    """Everything else that the computed values depend on. With equal grounds the values can be reused."""
    said: SaidTurn
    asked: Asked
    digest: str
    """The digest by which the message is found in a history."""
    worded: Worded | None = None
    """The message's lines, if they were made when the turn began."""


@dataclass(slots=True, eq=False)
class Begun:
    """A turn that has begun, and its state since then."""

    message: str
    time: Millis
    is_known: bool = True
    """True if the runtime reported when this turn began. If false, `time` is when the turn ended."""
    is_off: bool = False
    """True if the user asked that this turn not be stored."""
    is_taken_back: bool = False
    is_kept: bool = False
    is_given_up: bool = False
    """True if a turn with equal words was reported instead of this turn. If this turn is reported too, both are
    stored.
    """
    turn_id: str = ""
    tag: bytes = b""
    """The part that the ids of all lines written in this turn have in common; computed on first use."""
    name: str = ""
    """The turn's name, which is the tag as it is spelled in ids."""
    is_noted: bool = False
    """Whether a text of the turn was stored before the turn itself: a note, a fact, another agent's result."""
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
    """The values computed from the message when the turn began. They are reused when the turn is reported."""

    def drop_waiting(self) -> None:
        """Remove the turn's notes that wait in the spool."""
        for waiting in self.waiting:
            with suppress(OSError):
                waiting.unlink(missing_ok=True)
        self.waiting = ()


class Turns:
    """The last turns of one agent. A turn is reported after its end, and the next turn may have begun by then."""

    def __init__(self) -> None:
        self._begun: list[Begun] = []
        self._guard = threading.Lock()
        self.last: Begun | None = None
        """The turn that began last. Turns that are given up do not count."""
        self.undone: set[tuple[str, float]] = set()
        """The undone turns that were handled already, each as a digest of its text and its time."""

    @property
    def current(self) -> Begun | None:
        """The turn to which a note belongs now. None if the last turn was taken back, or no turn has begun."""
        last = self.last
        return None if last is None or last.is_taken_back else last

    def waiting(self) -> list[Begun]:
        """The turns that are not reported yet, newest first."""
        with self._guard:
            return self._waiting()[::-1]

    def _waiting(self) -> list[Begun]:
        return [one for one in self._begun if not (one.is_kept or one.is_taken_back or one.is_given_up)]

    def begin(self, message: str, now: Millis) -> Begun:
        """Begin a turn. Its time differs from the times of the turn before and of that turn's reply."""
        with self._guard:
            last = self._begun[-1].time if self._begun else 0
            begun = Begun(privacy_phrases.unwrap(message) or message, Millis(max(now, last + 2)))
            old, recent = self._begun[: 1 - _REMEMBERED], self._begun[1 - _REMEMBERED :]
            self._begun = [*(one for one in old if one.draft), *recent, begun]
            self.last = begun
            return begun

    def ended(self, message: str, turn_id: str, clock: Callable[[], Millis]) -> Begun:
        """Find the turn that this message began: a turn that is not stored yet, or a stored turn that is reported
        again.

        A runtime may report a turn with other words than it began with. Turns are reported in order, so the oldest
        waiting turn is then meant. Other waiting turns with equal words were interrupted and repeated, or will be
        reported later; they are given up for now.
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
        """The turn of a message with which no waiting turn began."""
        same = [one for one in self._begun if one.message == message and one.turn_id in ("", turn_id)]
        left = [one for one in same if (one.is_taken_back or one.is_given_up) and not one.is_kept]
        others = sorted(waiting, key=lambda one: bool(one.message))
        return next(iter((*left, *same[-1:], *others[:1])), None)

    def given_up(self, until: Begun, *, alone: bool = False) -> list[Path]:
        """The drafts of a turn and of the turns before it. These turns are stored by now, or never will be."""
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
        """Mark a turn as taken back, so that it is not stored. Returns False if it is stored or taken back already."""
        with self._guard:
            is_new = not (begun.is_kept or begun.is_taken_back)
            begun.is_taken_back = begun.is_taken_back or is_new
            return is_new

    def kept(self, begun: Begun) -> bool:
        """Mark a turn as stored. Returns False if the turn was taken back meanwhile."""
        with self._guard:
            begun.is_kept = True
            return not begun.is_taken_back


def line_id(key: bytes, began: Millis, *what: str, tag: bytes = b"") -> LineId:
    """Make the id of a line. `what` are the line's actor, session and content. Without a tag, the id names no turn."""
    hashed = _keyed(key).digest("\0".join(what).encode("utf-8", "surrogatepass"))
    # The hash is the second half, as when all ten bytes were one, so that notes stored then are still found by it.
    said = (tag or hashed[:_PART]) + hashed[_PART : 2 * _PART]
    return LineId(str(ULID.from_int(began << 80 | int.from_bytes(said, "big"))))


def turn_tag(key: bytes, *which: str) -> bytes:
    """Make the part that the ids of a turn's lines share. `which` are the turn's actor, session and beginning."""
    return _keyed(key).digest("\0".join(("turn", *which)).encode("utf-8", "surrogatepass"))[:_PART]


def turn_of(line: str) -> str:
    """The name of the turn in which a line was written: the part of its id that the turn's lines share."""
    return line[_TURN_FROM:_HASH_FROM]


def turn_name(tag: bytes) -> str:
    """The name of the turn with this tag, in the spelling of ids."""
    return turn_of(str(ULID.from_int(int.from_bytes(tag, "big") << 8 * _PART)))


def time_of(line: str) -> Millis:
    """The time that an id contains."""
    return Millis(ULID.from_str(line).milliseconds)


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> HmacState:
    return HmacState(key)


def hash_of(line: str) -> str:
    """The part of an id that depends neither on the time nor on the turn."""
    return line[_HASH_FROM:]


def storable(text: str) -> str:
    """A text without characters that no line may hold: control characters, surrogate halves, stacked marks."""
    plain = _UNSTORABLE.sub(" ", text.replace("\r\n", "\n")).strip()
    return plain if plain.isascii() else strip_stacked_marks(plain)


def pieces(text: str) -> Iterator[str]:
    """Cut a text into lines. A short text gives one line, and an empty text none."""
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
