"""The features of one line: its words, the days it mentions, and flags such as "is a question".

The features depend on the line alone, so they can be extracted once and stored, sealed, for a later process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from strongroom.engines.dates.day_arithmetic import day_of
from strongroom.engines.dates.parser import dates_in_line
from strongroom.engines.lexical.standing_instructions import is_standing
from strongroom.engines.lexical.tokenizer import VERSION, Known, words
from strongroom.model import Line

ASKS, DATED, COUNTS, STANDING, ASSISTANT, ONE_NAME, MORE_NAMES = (1 << bit for bit in range(7))
"""The flags of a line, one bit each, which are called its marks.

ONE_NAME and MORE_NAMES say that the line has one or several names: capitalised words inside a sentence. STANDING says
that it is a standing instruction or preference, such as "always answer in metric units".
"""

SORTS = 1 << 7
"""The number of possible combinations of marks (the flags above)."""

ROLES = frozenset({"user", "assistant"})
"""Authors that name a role in a conversation, not a person."""

RULES = f"2/{VERSION}"
"""The version of these rules. Stored features of another version are not used.

Raise the number with every change that gives a line other features.
"""

TF_LIMIT = 255
LENGTH_LIMIT = 65_535
_HEAD = 600
_OPENING = 300
_QUESTION_LIMIT = 200


def _as_bytes(words: str) -> frozenset[bytes]:
    return frozenset(words.encode().split())


# Everything but letters and digits ends a word. On bytes, which takes a third of the time.
_TO_WORDS = bytes(ord(chr(at).lower()) if at < 128 and chr(at).isalnum() else 32 for at in range(256))
_TIME_WORDS = _as_bytes(
    "yesterday today tonight tomorrow last next ago week weekend month year day morning monday tuesday wednesday"
    " thursday friday saturday sunday january february march april june july august september october november december"
    " recently since soon"
)
_TIME_FORM = re.compile(r"\b(?:\d{4}|\d+(?:st|nd|rd|th))\b|\d[年月日号]|[今昨明前后後][天日年]|[上下来先今][周週月]")
_NUMBER_WORDS = _as_bytes("one two three four five six seven eight nine ten dozen couple few several once twice")
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][a-z]+")


class Days(NamedTuple):
    """A range of days, first and last included, as numbers of `date.toordinal()`."""

    first: int
    last: int


class LineFeatures(NamedTuple):
    """The features of one line: its word counts, its length in words, its flags, and the days it mentions."""

    counts: dict[str, int]
    length: int
    marks: int
    days: tuple[Days, ...]


def extract(line: Line, known: Known | None = None) -> LineFeatures:
    """Extract the features of a line.

    The words of its author's name are added to its own words, so that "what did Ana say" finds Ana's lines.
    """
    found = words(line.text, known)
    if line.author and line.author.lower() not in ROLES:
        found += words(line.author)
    counts: dict[str, int] = Counter(found)
    if len(found) > TF_LIMIT:
        counts = {word: min(count, TF_LIMIT) for word, count in counts.items()}
    spans = dates_in_line(line.text, date.fromordinal(day_of(line.time)))
    days = tuple(dict.fromkeys(Days(span.first, span.last) for span in spans))
    return LineFeatures(counts, min(len(found), LENGTH_LIMIT), _marks(line, dated=bool(days)), days)


def speaker_words(author: str) -> Sequence[str]:
    """The words of a speaker's name. Empty if the author is a role, such as `user`."""
    author = author.lower()
    return () if author in ROLES else author.split()


def _marks(line: Line, *, dated: bool) -> int:
    text = line.text
    head, opening = text[:_HEAD], text[:_OPENING]
    spoken = frozenset(head.encode("ascii", "replace").translate(_TO_WORDS).split())
    foreign = not head.isascii()
    digits = _DIGIT.search(head) is not None
    names = len(_NAME.findall(opening))
    assisted = line.author.lower() == "assistant"
    timed = dated or not spoken.isdisjoint(_TIME_WORDS)
    return (
        ASKS * (len(text) < _QUESTION_LIMIT and text.rstrip().endswith(("?", "？")))
        | DATED * (timed or ((digits or foreign) and _TIME_FORM.search(head) is not None))
        | COUNTS * (digits or not spoken.isdisjoint(_NUMBER_WORDS))
        | STANDING * (not assisted and is_standing(opening))
        | ASSISTANT * assisted
        | ONE_NAME * (names == 1)
        | MORE_NAMES * (names > 1)
    )
