"""Removes recalled lines that tell the person nothing new: earlier copies of the question, and empty replies. Pure.

People ask the same question again. Their earlier questions are the best matches and answer nothing. A few such lines
would take the place of the line that answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from strongroom.model import Hit, Kind
from strongroom.text import UNSPACED, WORD

_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_PLAIN_WORD = re.compile("[a-z0-9]+")
"""Matches a word in ASCII text, in a third of the time of the pattern for all scripts."""
_ASKS = re.compile(r"[?\uff1f\u061f\u037e][\"')\]\s]{0,4}$|(?:\u5417|\u5462|\u55ce|\u304b)[\u3002.!\s]{0,4}$")
_MARKED = 5
"""Number of characters at the end of a text that are searched for a question mark."""
_NEW_WORDS = 3
"""A reply is worth showing if it has this many words that are not in the question."""
_LOOKED_AT = 2000


_SMALL_TALK = frozenset(
    (
        *("hi", "hello", "hey", "there", "thanks", "thank", "you", "thx", "ok", "okay", "yes", "no", "yep", "nope"),
        *("sure", "fine", "good", "great", "cool", "nice", "bye", "goodbye", "please", "go", "on", "continue", "again"),
        *("oh", "ohh", "yeah", "right", "wow", "uh", "alright", "sorry"),
        *("morning", "evening", "night", "hallo", "hola", "bonjour", "ciao", "danke", "merci", "gracias", "ja", "nein"),
        *"\u597d\u7684\u4f60\u8c22\u662f\u5bf9\u4e0d\u55ef\u306f\u3044\ub124",
    )
)


def is_small_talk(text: str) -> bool:
    """Whether a message is only small talk, so that no recall is needed."""
    return words(text) <= _SMALL_TALK


def without_echoes(hits: Iterable[Hit], question: str, assistant: str) -> list[Hit]:
    """The recalled lines that tell something new. Lines with equal texts count once."""
    kept: dict[str, Hit] = {}
    asked = _in_order(question)
    for hit in hits:
        if hit.kind != Kind.TURN or not _is_echo(hit, question, asked, assistant):
            kept.setdefault(" ".join(hit.text.casefold().split()), hit)
    return list(kept.values())


def _is_echo(hit: Hit, question: str, asked: Sequence[str], assistant: str) -> bool:
    """Whether a line of a conversation adds nothing to the question."""
    said = _in_order(hit.text)
    if hit.author == assistant:
        is_short = len(set(said).difference(asked)) < _NEW_WORDS
        return is_short and not any(map(_counts, set(said).intersection(asked)))
    if set(said).issubset(asked) and _asks(hit.text):
        return True
    return said == asked and not _asks(question)


def _asks(text: str) -> bool:
    return _ASKS.search(text[-_LOOKED_AT:].rstrip()[-_MARKED:]) is not None


def _counts(word: str) -> bool:
    """Whether a word in two texts suggests that both are about the same subject."""
    return len(word) > 2 or _UNSPACED_CHARACTER.match(word) is not None


def _in_order(text: str) -> list[str]:
    seen = text[:_LOOKED_AT].casefold()
    return (_PLAIN_WORD if seen.isascii() else WORD).findall(seen)


def words(text: str) -> frozenset[str]:
    """The set of words in a text. In scripts without spaces each character counts as a word."""
    return frozenset(_in_order(text))
