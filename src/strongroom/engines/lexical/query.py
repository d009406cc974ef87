"""A parsed question: its words, the days it means, and the kind of answer it asks for."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from strongroom.engines.dates.parser import Span, dates_in_query
from strongroom.engines.lexical.line_features import Days
from strongroom.engines.lexical.question_kinds import GENERAL, kinds_of
from strongroom.engines.lexical.tokenizer import words
from strongroom.model import Millis

_WHEN = re.compile(r"^\W*(?:\w+ ){0,2}when\b|\b(?:what|which) (?:year|date|day|month)|いつ|什么时候|几号|何日")
_HOW_MANY = re.compile(r"how (?:many|long|often|much)|多少|几个|几次|いくつ|いくら|何回|何個")
_NAME = re.compile(r"^\W*(?:where|who|which)\b|\bname|哪里|哪儿|谁|どこ|誰")
_LATEST = re.compile(r"\b(?:last|latest|most recent(?:ly)?)\b|最近一次|上一次|最後に")
_SAID = "said|told|mentioned|suggested|recommended|listed|provided|gave|given|advised|explained|wrote|shared|described"
_SAY = "say|tell|mention|suggest|recommend|list|provide|give|advise|explain|write|share|describe"
_TO_ASSISTANT = re.compile(
    rf"\byou(?:'ve|'d| have| had)? (?:\w+ )?(?:{_SAID})\b|\bdid you (?:\w+ )?(?:{_SAY})\b"
    r"|\byour (?:\w+ )?(?:suggestion|recommendation|advice|answer|reply|list|explanation)s?\b"
    r"|\b(?:previous|last|earlier|our) (?:conversation|chat|discussion)\b|\bremind me\b"
)
_RECALLING = (
    "did",
    "was",
    "were",
    "had",
    "have (?:i|we|you)",
    "has (?:he|she|my|our)",
    "i(?:'ve| have)",
    "ago",
    "yesterday",
    "remind me (?:what|who|when|where|how|of)",
    "told you",
    "(?:i|we) (?:said|mentioned|told|talked|discussed)",
    "earlier",
    "previous",
    "which of",
)
_ASKS_FACT = r"^\W*(?:what|when|where|who|whose|which|how (?:many|much|old|often|long))\b"
_ADVICE = r"\b(?:should|can|could|would|do i|might|goes?|for me)\b"
_PERSON = r"\b(?:i|i'm|my|me|we|our|he|she|his|her|they|their)\b"
_ASKS_BACK = re.compile(rf"\b(?:{'|'.join(_RECALLING)})\b|{_ASKS_FACT}(?!.*{_ADVICE}).*{_PERSON}")
"""A question about the past, or for a fact about a person. It asks for no advice, so no instruction fits it."""

_SEVERAL = (
    "all",
    "every",
    "each",
    "both",
    "list",
    "any other",
    "what else",
    "how many",
    "kinds of",
    "types of",
    "sorts of",
    "ways",
    "things",
    "activities",
    "examples",
)
_NO_PLURALS = r"(?!is\b|was\b|does\b|has\b|this\b|'s\b)"
_MANY = re.compile(
    rf"\b(?:{'|'.join(_SEVERAL)})\b"
    rf"|\b(?:what|which) (?:\w+ )?{_NO_PLURALS}\w{{3,}}s\b|\bwhat (?:have|do) (?:i|we|you)\b"
)
_QUESTION_WORDS = ("what", "when", "who", "which", "where", "is ", "are ", "do ", "does ", "any ", "have ", "has ")
_WORD = re.compile(r"\w+")
_ABOUT_RECALL = frozenset(
    words("say tell mention remind remember recall happen talk discuss last latest recent recently")
)


class Question(msgspec.Struct, frozen=True):
    """A parsed question: its words, the days that it means, and the kind of answer that it asks for."""

    words: tuple[str, ...]
    """Each word of the query once, without the words that name a time."""
    names: frozenset[str]
    """The query's words in lower case, not stemmed, to compare them with speakers' names."""
    windows: tuple[Days, ...]
    offset: int
    """The difference of the asker's time zone from UTC, in milliseconds, positive to the east."""
    now: Millis
    asks_when: bool
    asks_how_many: bool
    asks_name: bool
    asks_latest: bool
    kinds: int
    """The kinds of a request (`question_kinds`), one bit each. 0 for a question about the past or about a person."""
    asks_many: bool
    """Whether the query asks for several things: "which countries", "all"."""
    asks_assistant: bool
    """Whether the query asks for something that the assistant said."""

    @classmethod
    def of(cls, query: str, now: datetime) -> Question:
        lowered = query.lower()
        east = now.utcoffset()
        spans = dates_in_query(query, now.date())
        rest = _without(query, spans) if spans else query
        return cls(
            words=_sought(rest),
            names=frozenset(_WORD.findall(lowered)),
            windows=tuple(dict.fromkeys([Days(span.first, span.last) for span in spans])),
            offset=0 if east is None else int(east.total_seconds() * 1000),
            now=Millis(int(now.timestamp() * 1000)),
            kinds=0
            if _ASKS_BACK.search(lowered) or (spans and _asks_what(lowered))
            else GENERAL | kinds_of(words(rest)),
            asks_when=_asks(lowered, _WHEN, "when", "what", "which"),
            asks_how_many=_asks(lowered, _HOW_MANY, "how "),
            asks_name=_asks(lowered, _NAME, "where", "who", "which", "name"),
            asks_latest=_asks(rest.lower(), _LATEST, "last", "latest", "most recent"),
            asks_many=_MANY.search(lowered) is not None,
            asks_assistant=_asks(lowered, _TO_ASSISTANT, "you", "our ", "remind", "conversation", "chat", "discussion"),
        )


def _asks(text: str, form: re.Pattern[str], *clues: str) -> bool:
    """Whether a text matches a pattern.

    The `clues` are tested first, because this is quicker: an ASCII text that contains none of them cannot match.
    """
    for clue in clues:
        if clue in text:
            return form.search(text) is not None
    return not text.isascii() and form.search(text) is not None


def _asks_what(text: str) -> bool:
    """Whether a question asks what is, was or will be. With days in it, it is no request then."""
    return not text[:1].isascii() or not text[:1].isalpha() or text.startswith(_QUESTION_WORDS)


def _sought(query: str) -> tuple[str, ...]:
    """The words to look for, each once.

    Words about remembering itself, such as "remind", are left out if the query has other words.
    """
    found = dict.fromkeys(words(query))
    return tuple([word for word in found if word not in _ABOUT_RECALL]) or tuple(found)


def _without(text: str, spans: list[Span]) -> str:
    """The text with spaces in place of the time words, because these are matched by days and not as words."""
    for span in spans:
        text = text[: span.start] + " " * (span.end - span.start) + text[span.end :]
    return text
