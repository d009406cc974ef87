"""How texts of any script are taken apart and compared: the one table of scripts, folding by character, phrases. Pure.

Not responsible for what a phrase means: `routing` chooses a namespace by it, `privacy_phrases` what is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Generic, TypeVar

T = TypeVar("T")

UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts written without spaces between words, or with particles joined to them, as ranges for a pattern."""
JOINED = f"{UNSPACED}\u1100-\u11ff\u3130-\u318f"
"""The same for folded texts: also the letters into which Korean syllables are taken apart."""
JOINED_TEXT = re.compile(f"[{JOINED}]")
BEFORE, AFTER = rf"(?<![^\W{JOINED}])", rf"(?![^\W{JOINED}])"
"""Patterns for the positions before and after a whole word."""
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
"""A word, or one character of a script without spaces."""
ANYWHERE = " "
"""As the first character of a phrase: match the phrase within words too."""

_START = re.compile(rf"[^\W{JOINED}]+")
_ASCII_START = re.compile(r"\w+", re.ASCII)
_MARKS = 30  # on one character, as in Unicode's Stream-Safe Text Format
_HELD = 8192


class CharacterMap(dict[int, T], Generic[T]):
    """What each character becomes by a rule, for `str.translate`; worked out once for each, and bounded.

    Characters are mapped singly, because normalising whole texts takes quadratic time on stacked marks.
    """

    def __init__(self, rule: Callable[[str], T]) -> None:
        self._rule = rule

    def __missing__(self, code: int) -> T:
        found = self._rule(chr(code))
        if len(self) < _HELD:
            self[code] = found
        return found


def strip_stacked_marks(text: str) -> str:
    """A text without the marks above the 30th on one character: normalising takes time quadratic in their number."""
    kept: list[str] = []
    run = 0
    for character in text:
        # Decomposed first: a character that is no mark can decompose into one (U+0F73, U+FF9E).
        run = run + 1 if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) else 0
        if run <= _MARKS:
            kept.append(character)
    return "".join(kept)


# Phrases. Texts and phrases are folded alike before.


def start_of(phrase: str) -> str:
    """The token by which to look a phrase up: a folded text that holds the phrase holds this token as a word."""
    if JOINED_TEXT.search(phrase):
        return ANYWHERE
    found = _START.match(phrase)
    return found[0] if found else ""


def starts_in(folded: str) -> set[str]:
    """The tokens of a folded text, to compare with `start_of` of each phrase."""
    if folded.isascii():
        return {"", *_ASCII_START.findall(folded)}
    return {ANYWHERE, "", *_START.findall(folded)}


def by_start(phrases: Iterable[str], length: int | None = None) -> dict[str, tuple[str, ...]]:
    """Folded phrases by what they begin with, or by its first characters."""
    found: dict[str, tuple[str, ...]] = {}
    for phrase in phrases:
        start = start_of(phrase)[:length]
        found[start] = (*found.get(start, ()), phrase)
    return found


def phrases_in(folded: str, phrases: Mapping[str, tuple[str, ...]], starts: Set[str]) -> Iterator[str]:
    """The phrases that a text contains, if only within a word. A cheap filter before the pattern for all."""
    return (phrase for start in phrases.keys() & starts for phrase in phrases[start] if phrase in folded)
