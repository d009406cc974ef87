"""The text of a memory file as entries, and changes to them. Pure: nothing here reads or writes a file.

Entries are separated by a line that holds only `§`, as in Hermes; white space around an entry is not part of it. The
rules:

- A change touches only the entries that it names. Everything else stays, to the last blank line: people edit these
  files by hand.
- Equal entries count as one. An equal entry is never added, and removing an entry removes its copies too.
- `old_text` names an entry if it equals the entry, or if it is a part of this entry and of no other entry. `old_text`
  may also quote the form shown to a model, in which hidden characters are visible or gone.
- All changes are made or none, and the limit is checked on the result. A file that somebody has filled beyond the limit
  can still be made smaller.
- The program does not guess what a person's layout means. An entry larger than the limit is never changed. A page of
  several lines without any `§` is changed only if `old_text` quotes the whole page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from strongroom.errors import InvalidRequest
from strongroom.fence import neutral

DELIMITER = "\n§\n"

# All three line ends, as Python reads text files; the delimiters stay as they are.
_BREAK = re.compile("((?:\r\n|\r|\n)§(?:\r\n|\r|\n))")


class Action(StrEnum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Change:
    """One change. In a request `old_text` may be a part of the old entry; in a report it is the whole entry."""

    action: Action
    content: str = ""
    old_text: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after its changes. If no changes were made, the text is as before."""

    text: str
    made: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    before: str
    text: str

    @property
    def entry(self) -> str:
        return self.text.strip()


def entries_of(text: str) -> tuple[str, ...]:
    """The entries in the order of the text. Equal entries occur once."""
    return _entries(_pieces(text))


def size_of(entries: Sequence[str]) -> int:
    """The number of characters of the entries with the delimiters between them. The limit of a file applies to this
    number.
    """
    return len(DELIMITER.join(entries))


def prompt_text(entry: str) -> str:
    """An entry as it is shown in a prompt: without hidden characters, and without text that could pass for a fence."""
    return neutral(entry.replace("\r\n", "\n"))


def apply_changes(text: str, changes: Iterable[Change], limit: int) -> Edited:
    """Make all changes. Raises InvalidRequest if a change cannot be made, or if the result is over the limit."""
    pieces, made, whole = _pieces(text), list[Change](), _page(text)
    for number, change in enumerate(changes, 1):
        try:
            done = _make(pieces, _checked(change, limit), limit, whole)
        except InvalidRequest as error:
            raise InvalidRequest(f"operation {number}: {error.message}", hint=error.hint) from None
        made += [done] if done else []
    result = "".join(piece.before + piece.text for piece in pieces)
    if result == text:
        return Edited(text)
    _check_result(text, result, _entries(pieces), limit)
    return Edited(result, tuple(made))


def _pieces(text: str) -> list[_Piece]:
    first, *rest = _BREAK.split(text)
    return [_Piece("", first), *map(_Piece, rest[::2], rest[1::2])]


def _entries(pieces: Sequence[_Piece]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(piece.entry for piece in pieces if piece.entry))


def _page(text: str) -> str:
    """The whole text, if it has several lines and no delimiter. Empty otherwise."""
    entry = text.strip()
    return entry if len(entry.splitlines()) > 1 and not _BREAK.search(text) else ""


def _checked(change: Change, limit: int) -> Change:
    content, old_text = change.content.strip(), change.old_text.strip()
    if (change.action == Action.REMOVE) == bool(content):
        raise InvalidRequest(f"{change.action} {'takes no' if content else 'needs'} content")
    if (change.action == Action.ADD) == bool(old_text):
        raise InvalidRequest(
            f"{change.action} {'takes no' if old_text else 'needs'} old_text",
            hint="old_text must be a part of exactly one entry",
        )
    _check_content(content, limit)
    return replace(change, content=content, old_text=old_text)


def _check_content(content: str, limit: int) -> None:
    if len(content) > limit:
        raise InvalidRequest(f"an entry of {len(content)} characters is over the limit of {limit}", hint="shorten it")
    if any(line.strip() == "§" for line in content.splitlines()):
        raise InvalidRequest(
            "an entry cannot hold a line that is only §: it separates entries", hint="split the text into two entries"
        )
    if any("\ud800" <= one <= "\udfff" for one in content):
        raise InvalidRequest("an entry cannot hold half of a surrogate pair", hint="send text as UTF-8")


def _make(pieces: list[_Piece], change: Change, limit: int, whole: str) -> Change | None:
    """Make one change in the list `pieces`. Returns the change as made, or None if there is nothing to change."""
    if change.action == Action.ADD:
        return _append(pieces, change)
    old = _named(_entries(pieces), change.old_text)
    _check_droppable(old, change.old_text, limit, whole)
    if change.content == old:
        return None
    places = [index for index, piece in enumerate(pieces) if piece.entry == old]
    if change.action == Action.REPLACE and change.content not in _entries(pieces):
        first = places.pop(0)
        pieces[first] = replace(pieces[first], text=change.content)
    for index in reversed(places):
        _drop(pieces, index)
    return replace(change, old_text=old)


def _append(pieces: list[_Piece], change: Change) -> Change | None:
    if change.content in _entries(pieces):
        return None
    last = pieces.pop()
    if last.entry:
        pieces += (replace(last, text=last.text.rstrip()), _Piece(DELIMITER, change.content))
    else:
        pieces.append(replace(last, text=change.content))
    return change


def _drop(pieces: list[_Piece], index: int) -> None:
    del pieces[index]
    if not pieces:
        pieces.append(_Piece("", ""))
    elif index == 0:
        pieces[0] = replace(pieces[0], before="")


def _named(entries: Sequence[str], old_text: str) -> str:
    """The only entry that `old_text` names. Raises InvalidRequest if it names none or several."""
    found = [entry for entry in entries if old_text in (entry, prompt_text(entry))]
    found = found or [entry for entry in entries if old_text in entry or old_text in prompt_text(entry)]
    if len(found) != 1:
        raise InvalidRequest(
            f"old_text is in {len(found)} entries, and must be in exactly one",
            hint="quote more of the entry that is meant" if found else "quote a part of an entry that is there",
        )
    return found[0]


def _check_droppable(entry: str, old_text: str, limit: int, whole: str) -> None:
    if len(entry) > limit:
        raise InvalidRequest(
            f"the entry has {len(entry)} characters, more than the limit of {limit}: the file was edited by hand",
            hint="the entry was not changed; shorten the entry by hand, or split it with lines that hold only §",
        )
    if entry == whole and old_text not in (entry, prompt_text(entry)):
        raise InvalidRequest(
            "the file has no line with only §, so all of its lines are one entry",
            hint="quote the whole entry as old_text, or split the file by hand with lines that hold only §",
        )


def _check_result(before: str, after: str, expected: tuple[str, ...], limit: int) -> None:
    if entries_of(after) != expected:
        raise InvalidRequest(
            "the layout of the file does not allow this change",
            hint="put one line that holds only § between entries, and none at the start or the end",
        )
    used = size_of(expected)
    if used > limit and used >= size_of(entries_of(before)):
        raise InvalidRequest(
            f"together the entries would have {used} characters, over the limit of {limit}",
            hint="remove or shorten entries in the same batch of operations",
        )
