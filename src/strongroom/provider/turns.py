"""Turns as lines: when a turn began, what its lines are called, and how a long text is cut. Pure.

A line's id is the moment at which its turn began and a keyed hash of whose it is and what was said. So a turn that is
told twice is kept once, two turns of the same words are two, and an id says nothing to who lacks the key.
"""

from __future__ import annotations

import hmac
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ulid import ULID

from strongroom import model, routing
from strongroom.errors import LineTooLarge
from strongroom.model import Kind, LineId, Millis, Namespace, NewLine
from strongroom.provider.manners import Asked

ID_KEY_SIZE = 32
_HASH_BYTES = 10
_HASH_FROM = 10
"""The first character of an id that belongs to its hash."""
_REMEMBERED = 16
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PIECE = model.LINE_LIMIT // 4
"""Characters of a text that surely fit a line."""
PIECES = 16
"""Lines that one text becomes at most; the rest of it is left out and said so."""


@dataclass(frozen=True, slots=True)
class Said:
    """One text to keep: what it says, who said it, and where it goes."""

    text: str
    author: str
    namespace: Namespace
    kind: Kind = Kind.TURN


@dataclass(frozen=True, slots=True)
class Worded:
    """The lines of a text, and what was left out of them: how many secrets, how many texts outside the cap."""

    lines: tuple[NewLine, ...]
    secrets: int = 0
    outside: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """What a person said in a turn, and what follows from it."""

    message: str
    session: str
    grounds: tuple[object, ...]
    """What else decides that, all of it comparable."""
    said: Said
    asked: Asked
    worded: Worded | None = None
    """Its lines, if they were needed when the turn began."""


@dataclass(slots=True, eq=False)
class Begun:
    """A turn that began, and what became of it."""

    message: str
    time: Millis
    is_known: bool = True
    """Whether it was told when it began; else `time` is when it ended."""
    is_off: bool = False
    """Whether it asked not to be kept."""
    is_taken_back: bool = False
    is_kept: bool = False
    turn_id: str = ""
    draft: Path | None = None
    heard: Heard | None = None
    """Worked out when it began, so that nothing of it need be when it is told."""


class Turns:
    """The last turns of one agent. A turn is told after it ended, and the next may have begun by then."""

    def __init__(self) -> None:
        self._begun: deque[Begun] = deque(maxlen=_REMEMBERED)
        self._guard = threading.Lock()

    @property
    def last(self) -> Begun | None:
        """The turn that began last."""
        with self._guard:
            return self._begun[-1] if self._begun else None

    def begin(self, message: str, now: Millis) -> Begun:
        """A turn begins. Never at the moment of the one before, nor at that of its reply."""
        with self._guard:
            last = self._begun[-1].time if self._begun else 0
            begun = Begun(message, Millis(max(now, last + 2)))
            self._begun.append(begun)
            return begun

    def ended(self, message: str, turn_id: str, now: Millis) -> Begun:
        """The turn that this message began: one that is not kept yet, else one that was and is told again.

        A runtime may tell of a turn in other words than it began with. Turns are told in order, so it is the oldest.
        """
        with self._guard:
            same = [one for one in self._begun if one.message == message and one.turn_id in ("", turn_id)]
            waiting = [one for one in self._begun if not (one.is_kept or one.is_taken_back)]
            others = sorted(waiting, key=lambda one: bool(one.message))
            for found in (
                *(one for one in same if one in waiting),
                *(one for one in same if one.is_taken_back and not one.is_kept),
                *same[-1:],
                *others[:1],
            ):
                found.turn_id, found.message = turn_id, message
                return found
            return Begun(message, now, is_known=False, turn_id=turn_id)

    def given_up(self, until: Begun, *, alone: bool = False) -> list[Path]:
        """The drafts of a turn and of those that began before it: they are kept by now, or never will be."""
        with self._guard:
            before = [until] if alone else [one for one in self._begun if one.time <= until.time]
            done = [one for one in before if one.draft is not None]
            drafts = [one.draft for one in done if one.draft is not None]
            for one in done:
                one.draft = None
            return drafts


def line_id(key: bytes, began: Millis, *what: str) -> LineId:
    """The id of a line of a turn. `what` is whose it is, in which session, and what was said."""
    hashed = _keyed(key).copy()
    hashed.update("\0".join(what).encode("utf-8", "surrogatepass"))
    return LineId(str(ULID.from_int(began << 80 | int.from_bytes(hashed.digest()[:_HASH_BYTES], "big"))))


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")


def hash_of(line: str) -> str:
    """The part of an id that does not depend on when its turn began."""
    return line[_HASH_FROM:]


def storable(text: str) -> str:
    """The text without what no line may hold: control characters, halves of surrogate pairs, towers of marks."""
    plain = _UNSTORABLE.sub(" ", text.replace("\r\n", "\n")).strip()
    return plain if plain.isascii() else routing.unstacked(plain)


def pieces(text: str) -> Iterator[str]:
    """A text as one line, or as several if it is too long for one; nothing for an empty one."""
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
