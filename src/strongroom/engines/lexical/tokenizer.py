"""The tokenizer: splits a text into the words that are matched. The rules are the same for lines and queries.

- Latin words are lowercased and stemmed, and stop words are left out. `languages` says which language's rules apply:
  English by default.
- Scripts without spaces give pairs of characters and single Han characters. So any word of two characters is found
  without a dictionary.
- A mix of letters with digits or punctuation, such as an address or a path, is matched whole and by its parts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import pairwise

import Stemmer

from strongroom.engines.lexical.english_forms import BASE, HAN_STOP, STOP, SYNONYM
from strongroom.engines.lexical.languages import language_of, of_script, stems
from strongroom.text import UNSPACED

VERSION = f"3/{version('PyStemmer')}"
"""The version of these rules and of the stemmer. Stored words of another version are not used."""

WHOLE_LIMIT = 80
"""Maximum length of a word that is matched as a whole. A longer one, such as a data URL, is matched by its parts."""

_UNSPACED = f"{UNSPACED}\U00020000-\U0003134f"
_RUNS = re.compile(f"[{_UNSPACED}]+|[^\\s{_UNSPACED}]+")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")
_KANA = re.compile("[\u3040-\u30ff]")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_SHORTENED = frozenset({"s", "ll", "re", "ve", "d", "m"})
_LETTERS = re.compile(r"[^\W\d_]+")
_CONTRACTED = re.compile(r"([a-z]+)'([a-z]+)")
_EDGES = ".,;:!?\"'`()[]{}<>…“”‘’«»*~|、。，！？；：（）「」『』《》【】・¿¡؟،؛·"
# Without the stemmer's own cache. Safe to share between threads, because it holds the GIL while it works.
_stem = Stemmer.Stemmer("english", 0).stemWord

_FEW = 6
"""A text may be in another language if fewer than one in six of its words are function words of English.

In English sentences it is about one in three. The test keeps English texts fast: their language is not looked for.
"""

Known = dict[str, tuple[str, ...]]
"""A cache of the words of each run of characters, used while many lines are tokenized at once.

The cache is dropped afterwards, because the words of a forgotten line must not stay in RAM.
"""


def words(text: str, known: Known | None = None) -> list[str]:
    """The words of a text, in order and with repetitions, without stop words.

    If the text has no other words, its stop words are returned.
    """
    plain = text.isascii()
    runs = text.split() if plain else [run[0] for run in _RUNS.finditer(_folded(text))]
    found: list[str] = []
    english = 0
    for run in runs:
        if run in STOP:  # a quick test: a third of all runs
            english += 1
            continue
        found += _words_of(run) if known is None else _known_words(run, known)
    if english * _FEW < len(runs) and (not plain or len(runs) > 1):
        found = _foreign(text, runs, known) or found
    return found or _LETTERS.findall(text.lower())


def _foreign(text: str, runs: list[str], known: Known | None) -> list[str]:
    """The words of a text that has few of English's function words, if its language or its script is known."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")  # "n" and a tilde are one letter, as in "ñ"
    language = language_of(text, [run.strip(_EDGES).lower() for run in runs])
    if language is None and (text.isascii() or of_script(text) is None):
        return []
    found: list[str] = []
    for run in _RUNS.finditer(text):
        parts = run[0].strip(_EDGES).split("'")
        if all(part.isalpha() for part in parts) and not _UNSPACED_RUN.match(parts[0]):
            for part in parts:
                found += stems(part, language) if len(part) > 1 else ()
        else:
            folded = _folded(run[0])
            found += _words_of(folded) if known is None else _known_words(folded, known)
    return found


def _known_words(run: str, known: Known) -> tuple[str, ...]:
    held = known.get(run)
    if held is None:
        held = known[run] = tuple(_words_of(run))
    return held


def _words_of(run: str) -> Iterable[str]:
    """The words of a run of characters: the text between two spaces, or in one script that has no spaces."""
    word = run if run.isalpha() else run.strip(_EDGES)
    if word.isascii():
        if word.isalpha() and (word.islower() or _plain(word)):
            lowered = word.lower()
            return () if lowered in STOP else (_base(lowered),)
        return _compound(word) if word else ()
    if _UNSPACED_RUN.match(run):
        return _pairs(run)
    return (word.lower(),) if word.isalpha() else _compound(word)


def _folded(text: str) -> str:
    """The text without accents (so that "cafe" finds "café") and with full-width characters replaced by normal ones."""
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", bare).replace("’", "'")


def _plain(word: str) -> bool:
    """Whether a word is written like an ordinary word, and not like a name in code such as camelCase."""
    return word.islower() or word.istitle() or word.isupper()


def _base(word: str) -> str:
    """The base form of a word: its stem, after irregular forms and synonyms were replaced."""
    base = BASE.get(word, word)
    return _stem(SYNONYM.get(base, base))  # type: ignore[no-any-return]


def _pairs(run: str) -> Iterator[str]:
    """Every pair of neighbouring characters, and every single one except kana and mostly grammatical characters."""
    if len(run) == 1:
        yield run
        return
    for first, second in pairwise(run):
        yield first + second
    for character in run:
        if character not in HAN_STOP and not _KANA.match(character):
            yield character


def _compound(word: str) -> Iterator[str]:
    """The words of a contraction such as "don't", or of an identifier: the whole and its parts."""
    lowered = word.lower()
    contracted = _CONTRACTED.fullmatch(lowered)
    if contracted:
        # A shortened verb after the apostrophe is left out: "I'll" is not "ill". "Don't" and "o'clock" stay one word.
        plain = contracted[1] if contracted[2] in _SHORTENED else contracted[1] + contracted[2]
        if plain not in STOP:
            yield _base(plain)
        return
    parts = [part.lower() for part in _PARTS.findall(word)]
    if len(parts) <= 1 and word.isalnum():
        yield lowered
        return
    if len(word) <= WHOLE_LIMIT:
        yield lowered
    for part in parts:
        if part not in STOP:
            yield _base(part) if part.isascii() and part.isalpha() else part
