"""What a question asks for: its words, the days it means, and what sort of answer would do."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from strongroom.engines.dates import dates_in_query
from strongroom.engines.lexical.reading import Days, moment_of, offset_of
from strongroom.engines.lexical.words import words
from strongroom.model import Millis

_WHEN = re.compile(r"^\W*(?:\w+ ){0,2}when\b|\b(?:what|which) (?:year|date|day|month)|いつ|什么时候|几号|何日")
_HOW_MANY = re.compile(r"how (?:many|long|often|much)|多少|几个|几次|いくつ|いくら|何回|何個")
_NAME = re.compile(r"^\W*(?:where|who|which)\b|\bname|哪里|哪儿|谁|どこ|誰")
_LATEST = re.compile(r"\b(?:last|latest|most recent(?:ly)?)\b|最近一次|上一次|最後に")
_ABOUT_RECALL = frozenset(
    words("say tell mention remind remember recall happen talk discuss last latest recent recently")
)


class Question(msgspec.Struct, frozen=True):
    """A query, read."""

    words: tuple[str, ...]
    """Each word once, without those that only said when."""
    names: frozenset[str]
    """The query's plain words, to find the speaker it names."""
    windows: tuple[Days, ...]
    offset: int
    now: Millis
    asks_when: bool
    asks_how_many: bool
    asks_name: bool
    asks_latest: bool

    @classmethod
    def of(cls, query: str, now: datetime) -> Question:
        lowered = query.lower()
        spans = dates_in_query(query, now.date())
        rest = _without(query, [(span.start, span.end) for span in spans])
        return cls(
            words=_sought(rest),
            names=frozenset(re.findall(r"\w+", lowered)),
            windows=tuple(dict.fromkeys(Days(span.first, span.last) for span in spans)),
            offset=offset_of(now),
            now=moment_of(now),
            asks_when=_WHEN.search(lowered) is not None,
            asks_how_many=_HOW_MANY.search(lowered) is not None,
            asks_name=_NAME.search(lowered) is not None,
            asks_latest=_LATEST.search(rest.lower()) is not None,
        )


def _sought(query: str) -> tuple[str, ...]:
    """The words to look for, each once. Words about remembering itself are left out if others remain."""
    found = dict.fromkeys(words(query))
    return tuple(word for word in found if word not in _ABOUT_RECALL) or tuple(found)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with the time words blanked out: they are answered by days, not by lines that use the same words."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text
