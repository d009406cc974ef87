"""Splits and compares texts of any script: the table of scripts, the replacement of characters, the search of phrases.

Other modules decide on the meaning of a phrase: `routing` chooses a namespace by phrases, and `privacy_phrases` decides
which texts are kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Generic, TypeVar

T = TypeVar("T")

UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""The scripts without spaces between words, or with particles joined to words, as ranges for a regular expression."""
JOINED = f"{UNSPACED}\u1100-\u11ff\u3130-\u318f"
"""The ranges of `UNSPACED`, and the single letters into which folding splits Korean syllables."""
JOINED_TEXT = re.compile(f"[{JOINED}]")
BEFORE, AFTER = rf"(?<![^\W{JOINED}])", rf"(?![^\W{JOINED}])"
"""Regular expressions for the positions before and after a whole word."""
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
"""Matches a word, or one character of a script without spaces."""
ANYWHERE = " "
"""The start of a phrase that is searched everywhere in a text, and not only at the beginning of a word."""

_START = re.compile(rf"[^\W{JOINED}]+")
_ASCII_START = re.compile(r"\w+", re.ASCII)
_MARKS = 30  # on one character, as in Unicode's Stream-Safe Text Format
_HELD = 8192


class CharacterMap(dict[int, T], Generic[T]):
    """A table for `str.translate`, which a rule fills: the replacement of each character is computed once and cached.

    The characters are replaced one by one, because normalising a whole text with many combining marks takes quadratic
    time.
    """

    def __init__(self, rule: Callable[[str], T]) -> None:
        self._rule = rule

    def __missing__(self, code: int) -> T:
        found = self._rule(chr(code))
        if len(self) < _HELD:
            self[code] = found
        return found


def strip_stacked_marks(text: str) -> str:
    """A text with at most 30 combining marks on one character. Normalising takes time quadratic in their number."""
    kept: list[str] = []
    run = 0
    for character in text:
        # Decomposed first, because a character that is no combining mark can decompose into one (U+0F73, U+FF9E).
        run = run + 1 if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) else 0
        if run <= _MARKS:
            kept.append(character)
    return "".join(kept)


# Phrases. Texts and phrases must be folded by the same rule before.


def start_of(phrase: str) -> str:
    """The first word of a phrase, by which the phrase is looked up: a text with the phrase contains this word."""
    if JOINED_TEXT.search(phrase):
        return ANYWHERE
    found = _START.match(phrase)
    return found[0] if found else ""


def starts_in(folded: str) -> set[str]:
    """The words of a folded text, which are compared with the first word of each phrase (`start_of`)."""
    if folded.isascii():
        return {"", *_ASCII_START.findall(folded)}
    return {ANYWHERE, "", *_START.findall(folded)}


def by_start(phrases: Iterable[str], length: int | None = None) -> dict[str, tuple[str, ...]]:
    """Folded phrases, grouped by their first word. With `length`, by the first `length` characters of that word."""
    found: dict[str, tuple[str, ...]] = {}
    for phrase in phrases:
        start = start_of(phrase)[:length]
        found[start] = (*found.get(start, ()), phrase)
    return found


def phrases_in(folded: str, phrases: Mapping[str, tuple[str, ...]], starts: Set[str]) -> Iterator[str]:
    """The phrases that a text contains, even inside a word. A cheap filter before the regular expression is tried."""
    return (phrase for start in phrases.keys() & starts for phrase in phrases[start] if phrase in folded)
