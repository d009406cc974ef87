"""Languages other than English: how a text's language is recognised, its stop words and its stems.

A language in Latin letters is recognised by its function words, of which nearly every sentence has some. Others are
recognised by their script. The stems are Snowball's. A text whose language is not recognised is read as English.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import Stemmer

from strongroom.engines.lexical.english_forms import STOP
from strongroom.engines.lexical.function_words import OF_LATIN_LETTERS, OF_OTHER_SCRIPTS

_OWN_LETTERS = {
    "turkish": "ığş",
    "german": "ß",
    "spanish": "ñ¿",
    "portuguese": "ãõ",
    "polish": "łąężś",
    "czech": "řěů",
    "hungarian": "őű",
    "romanian": "șț",
}
"""Letters that hardly any other language has."""
_OF_SCRIPT = (("russian", "\u0400-\u04ff"), ("greek", "\u0370-\u03ff\u1f00-\u1fff"), ("arabic", "\u0600-\u06ff"))
_SCRIPTS = re.compile("|".join(f"(?P<{name}>[{ranges}])" for name, ranges in _OF_SCRIPT))
_MARKS = re.compile("[\u0300-\u036f\u064b-\u0652\u0670]")
_SHORT = 4
"""A text of so few words is recognised by one function word; a longer one needs two."""


class Language(NamedTuple):
    """A language's stop words, without accents, and its stemmer."""

    stop: frozenset[str]
    stem: Callable[[str], str]


def unaccented(word: str) -> str:
    """A word in lower case and without accents."""
    return unicodedata.normalize("NFKC", _MARKS.sub("", unicodedata.normalize("NFKD", word.lower())))


def _language(name: str, stop: str) -> Language:
    # Without the stemmer's own cache. Safe to share between threads, because it holds the GIL while it works.
    return Language(frozenset(map(unaccented, stop.split())), Stemmer.Stemmer(name, 0).stemWord)


_LATIN = {name: _language(name, listed) for name, listed in OF_LATIN_LETTERS.items()}
_BY_SCRIPT = {name: _language(name, listed) for name, listed in OF_OTHER_SCRIPTS.items()}


def _telling() -> Mapping[str, tuple[str, ...]]:
    """The languages of each function word. Words that are function words of English too are left out."""
    found: dict[str, tuple[str, ...]] = {}
    for name, language in _LATIN.items():
        for word in language.stop - STOP:
            found[word] = (*found.get(word, ()), name)
    return found


_LANGUAGES_OF = _telling()
_LETTERS = {letter: name for name, letters in _OWN_LETTERS.items() for letter in letters}


def language_of(text: str, runs: Sequence[str]) -> Language | None:
    """The language of a text in Latin letters, by its function words, or else by a letter that no other language has.

    `runs` are the words of the text in lower case, without accents and punctuation. Returns None if the text may be
    English.
    """
    return _by_words(runs) or (None if text.isascii() else _by_letters(text))


def _by_letters(text: str) -> Language | None:
    for letter in text.lower():
        if letter in _LETTERS:
            return _LATIN[_LETTERS[letter]]
    return None


def _by_words(runs: Sequence[str]) -> Language | None:
    """The language of most function words in a text. None if the text has as many function words of English."""
    counts: dict[str, int] = {}
    for run in runs:
        for name in _LANGUAGES_OF.get(run, ()):
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        return None
    best = max(counts.values())
    if best < (1 if len(runs) <= _SHORT else 2) or best <= sum([run in STOP for run in runs]):
        return None
    return _LATIN[min(name for name, count in counts.items() if count == best)]


def of_script(word: str) -> Language | None:
    """The language that stands for the script of a word; None for Latin letters and for scripts without a stemmer."""
    found = _SCRIPTS.search(word)
    return _BY_SCRIPT[str(found.lastgroup)] if found is not None else None


def stems(word: str, language: Language | None) -> Iterator[str]:
    """The stem of a word of letters, without accents; nothing for a stop word."""
    own = of_script(word) or language
    bare = unaccented(word)
    if own is None:
        yield bare
    elif bare not in own.stop:
        yield unaccented(own.stem(unicodedata.normalize("NFC", word.lower())))
