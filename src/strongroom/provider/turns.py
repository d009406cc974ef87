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

from ulid import ULID

from strongroom import model
from strongroom.errors import InvalidRequest, LineTooLarge
from strongroom.model import LineId, Millis

ID_KEY_SIZE = 32
_HASH_BYTES = 10
_HASH_FROM = 10
"""The first character of an id that belongs to its hash."""
_REMEMBERED = 16
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PIECE = model.LINE_LIMIT // 4
"""Characters of a text that surely fit a line."""
_PIECES = 16
"""Lines that one text becomes at most; the rest of it is left out and said so."""


@dataclass(slots=True)
class Begun:
    """A turn that began."""

    message: str
    time: Millis
    is_kept: bool = False


class Turns:
    """When the last turns of one agent began. A turn is told after it ended, and the next may have begun by then."""

    def __init__(self) -> None:
        self._begun: deque[Begun] = deque(maxlen=_REMEMBERED)
        self._guard = threading.Lock()

    def begin(self, message: str, now: Millis) -> Begun:
        """A turn begins. Never at the moment of the one before, nor at that of its reply."""
        with self._guard:
            last = self._begun[-1].time if self._begun else 0
            begun = Begun(message, Millis(max(now, last + 2)))
            self._begun.append(begun)
            return begun

    def began(self, message: str, now: Millis) -> tuple[Millis, bool]:
        """When the newest turn with this message began, and whether that is known."""
        with self._guard:
            found = next((one for one in reversed(self._begun) if one.message == message), None)
            return (now, False) if found is None else (found.time, True)

    def ended(self, message: str, now: Millis) -> tuple[Millis, bool]:
        """When the turn that begins with this message began, and whether that is known."""
        with self._guard:
            same = [one for one in self._begun if one.message == message]
            found = next((one for one in same if not one.is_kept), same[-1] if same else None)
            if found is None:
                waiting = [one for one in self._begun if not one.is_kept]
                found = waiting[-1] if waiting else None
            if found is None:
                return now, False
            found.is_kept = True
            return found.time, True


def line_id(key: bytes, began: Millis, *what: str) -> LineId:
    """The id of a line of a turn. `what` is whose it is, in which session, and what was said."""
    digest = hmac.digest(key, "\0".join(what).encode("utf-8", "surrogatepass"), "sha256")[:_HASH_BYTES]
    return LineId(str(ULID.from_int(began << 80 | int.from_bytes(digest, "big"))))


def hash_of(line: str) -> str:
    """The part of an id that does not depend on when its turn began."""
    return line[_HASH_FROM:]


def storable(text: str) -> str:
    """The text without what no line may hold: control characters and halves of surrogate pairs."""
    return _UNSTORABLE.sub(" ", text.replace("\r\n", "\n")).strip()


def pieces(text: str) -> Iterator[str]:
    """A text as one line, or as several if it is too long for one; nothing for an empty one."""
    whole = storable(text)
    if not whole:
        return
    try:
        yield model.clean_text(whole)
    except LineTooLarge:
        parts = [whole[start : start + _PIECE] for start in range(0, len(whole), _PIECE)]
        yield from (part for part in parts[:_PIECES] if part.strip())
        if len(parts) > _PIECES:
            yield f"[{len(whole) - _PIECE * _PIECES} more characters were left out]"
    except InvalidRequest:  # a run of combining marks that no line may hold
        yield from pieces(whole.encode("ascii", "ignore").decode())
