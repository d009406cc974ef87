"""Recognises standing instructions and preferences: lines that are meant to last, such as "call me Sam".

The rules are phrases, for English. A phrase is a regular expression that must begin at the start of a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST = 200
"""A text of more characters tells or asks something. An instruction is short."""


def _any_of(phrases: Sequence[str]) -> str:
    return "|".join(phrases)


_OCCASIONS = "ask say tell write need want request mention look travel cook book order plan give send".replace(" ", "|")

_LASTING = (
    "always",
    "never",
    "ever again",
    "whenever",
    "wherever we",
    "when(?:ever)? (?:i|you|it) ",
    rf"if (?:i|you) (?:\w+ )?(?:{_OCCASIONS})",
    "if you can",
    "from now on",
    "in (?:the )?future",
    "going forward",
    "by default",
    "every time",
    "each time",
    "at all times",
    "throughout",
    "as a rule",
    r"the rule\b",
    r"any ?more\b",
    r"no longer\b",
)
"""Phrases that say that something lasts, or on which occasion it applies."""

_ADVERBS = "in|with|as|out|that|like|way|anyway|first|if"
_ORDERS = (
    "please",
    "call me",
    "address me",
    "refer to me",
    "my pronouns",
    "remember that",
    "keep (?:that |this |it )?in mind",
    "mind that",
    "make sure",
    "stick to",
    r"(?:do not|don't) (?!know\b|think\b|remember\b|mind\b|worry\b)\w+",
    "be (?:brief|blunt|honest|direct|kind|short|strict|patient)",
    "keep (?:it|them|answers|replies|your|things|everything|messages|those)",
    "(?:answer|reply|respond|write|speak|give|tell|show|send|put|cook|leave|convert|explain|warn|ask|remind|read)"
    rf" (?:to |it |them )?(?:me|us|{_ADVERBS})\b",
    "(?:should|must|shall|need to|needs? to|has to|have to) (?:always |never |only |not )?"
    "(?:be|have|use|stay|come|go|start|end|fit)",
)
"""Phrases that tell the assistant what to do."""

_OWN_STATES = (
    "handed blind deaf intolerant allergic diabetic vegan vegetarian pregnant coeliac celiac pescatarian kosher muslim "
    "jewish hindu teetotal sober dyslexic afraid scared sensitive beginner"
).replace(" ", "|")
_DISLIKED = "eat drink want like take use do fly stand work need read watch wear have tolerate".replace(" ", "|")
_WISHES = (
    r"i (?:much |strongly |generally |usually |really |only |mostly )?(?:prefer|avoid|hate)\b",
    r"i (?:usually|only|mostly) \w+",
    r"i want (?:to be|you to|it|them|everything)\b",
    r"i (?:understand|sleep|learn|spend|work|write) .*\b(?:best|worst|badly|tops|better|sometimes)\b",
    "i'd (?:much )?(?:prefer|rather|sooner)",
    "i would (?:prefer|rather)",
    r"i'd like .*\bplease",
    rf"i (?:do not|don't|can't|cannot|won't) (?:{_DISLIKED})\b",
    rf"(?:i'm|i am) (?:an? )?(?:[\w-]+[- ])?(?:{_OWN_STATES})\b",
    "allergic",
    "favou?rite",
    "can't stand",
    "not for me",
    "for me ever",
    "too much for me",
    "hard on my",
    r"because of (?:my|the) \w+",
    "our rule",
)
"""Phrases that say how somebody is, or what somebody likes."""

_LIMITS = (
    "(?:is|are) enough",
    "(?:is|'s) plenty",
    "(?:is|are) good enough",
    "nothing (?:before|after|with|over|above|under|but|from|that|chemical|else)",
    "best with",
    r"no (?!one\b|idea\b|way\b|wonder\b|longer\b|problem\b|thanks\b)\w+(?: \w+)?"
    " (?:before|after|with|for|in|on|over|above|ever|than|please)",
    "only (?:use|answer|suggest|recommend|give|show|in|with|the|after|before|if)",
    "at least",
    "at most",
    r"\d+ \w+ tops",
    "unless",
    "instead of",
    "rather than",
)
"""Phrases that set a limit."""

_STANDING = re.compile(rf"\b(?:{_any_of((*_LASTING, *_ORDERS, *_WISHES, *_LIMITS))})")

_OF_OTHERS = re.compile(
    _any_of(
        (
            # A habit of somebody else: "my sister always ...", "Tom never calls".
            r"^\W*(?:my|our|his|her|the|a|one of|[a-z]+'s) (?:[\w']+ ){1,5}(?:always|never) ",
            r"^\W*[a-z]+ (?:always|never) [a-z]+s\b",
            # A story: "I always end up ...".
            r"\bi (?:always|never) (?:asked|end up|thought|knew)\b",
        )
    )
)
_QUESTION = re.compile(r"[?？]\s*$")


def is_standing(text: str) -> bool:
    """Whether a text is an instruction or a preference that is meant to last. A question is not."""
    if len(text) > _LONGEST:
        return False
    lowered = text.lower().replace("’", "'")
    return (
        _STANDING.search(lowered) is not None and _OF_OTHERS.search(lowered) is None and _QUESTION.search(text) is None
    )
