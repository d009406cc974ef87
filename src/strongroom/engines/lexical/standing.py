"""Standing instructions and preferences: how a line is recognised as one, and which kinds of questions it fits.

"Always answer in metric units" shares no word with "how far is Graz from Vienna?". What they share is a kind: both are
about measures. A kind is a list of everyday words; a line and a question are of every kind of which they hold a word.
Some instructions fit every question, such as how to address somebody; their kind is GENERAL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from strongroom.engines.lexical.question_kinds import KINDS
from strongroom.engines.lexical.tokenizer import words

BUDGET = 2
"""How many standing lines an answer may have beside the lines that match the words of the question."""

PLACES = (2, 4)
"""Where they stand in an answer, counted from 0: behind the best matches, and the same for every number of lines."""

_LONGEST = 200
"""A text of more characters tells or asks something; an instruction is short."""

_ASKED = "ask|say|tell|write|need|want|request|mention|look|travel|cook|book|order|plan|give|send"
_STANDING = re.compile(
    # It says that it lasts, or when it applies.
    rf"\b(?:always|never|ever again|whenever|wherever we|when(?:ever)? (?:i|you|it) |if (?:i|you) (?:\w+ )?(?:{_ASKED})|if you can"
    r"|from now on|in (?:the )?future|going forward|by default|every time|each time|at all times|throughout|as a rule|the rule\b"
    r"|any ?more\b|no longer\b"
    # It tells the assistant what to do.
    r"|please|call me|address me|refer to me|my pronouns|remember that|keep (?:that |this |it )?in mind|mind that|make sure|stick to"
    r"|(?:do not|don't) (?!know\b|think\b|remember\b|mind\b|worry\b)\w+|be (?:brief|blunt|honest|direct|kind|short|strict|patient)"
    r"|keep (?:it|them|answers|replies|your|things|everything|messages|those)|(?:answer|reply|respond|write|speak|give|tell|show|send"
    r"|put|cook|leave|convert|explain|warn|ask|remind|read) (?:to |it |them )?(?:me|us|in|with|as|out|that|like|way|anyway|first|if)\b"
    r"|(?:should|must|shall|need to|needs? to|has to|have to) (?:always |never |only |not )?(?:be|have|use|stay|come|go|start|end|fit)"
    # It says how somebody is, or what somebody wants.
    r"|i (?:much |strongly |generally |usually |really |only |mostly )?(?:prefer|avoid|hate)\b|i (?:usually|only|mostly) \w+"
    r"|i want (?:to be|you to|it|them|everything)\b|i (?:understand|sleep|learn|spend|work|write) .*\b(?:best|worst|badly|tops|better|sometimes)\b"
    r"|i'd (?:much )?(?:prefer|rather|sooner)|i would (?:prefer|rather)|i'd like .*\bplease"
    r"|i (?:do not|don't|can't|cannot|won't) (?:eat|drink|want|like|take|use|do|fly|stand|work|need|read|watch|wear|have|tolerate)\b"
    r"|\b(?:i'm|i am) (?:an? )?(?:[\w-]+[- ])?(?:handed|blind|deaf|intolerant|allergic|diabetic|vegan|vegetarian|pregnant|coeliac|celiac"
    r"|pescatarian|kosher|muslim|jewish|hindu|teetotal|sober|dyslexic|afraid|scared|sensitive|beginner)\b"
    r"|allergic|favou?rite|can't stand|not for me|for me ever|too much for me|hard on my|because of (?:my|the) \w+|our rule|(?:is|are) enough"
    r"|(?:is|'s) plenty|(?:is|are) good enough|nothing (?:before|after|with|over|above|under|but|from|that|chemical|else)|best with"
    r"|no (?!one\b|idea\b|way\b|wonder\b|longer\b|problem\b|thanks\b)\w+(?: \w+)? (?:before|after|with|for|in|on|over|above|ever|than|please)"
    r"|only (?:use|answer|suggest|recommend|give|show|in|with|the|after|before|if)|at least|at most|\d+ \w+ tops|unless|instead of"
    r"|rather than|without \w+)"
)
_OF_OTHERS = re.compile(
    r"^\W*(?:my|our|his|her|the|a|one of|[a-z]+'s) (?:[\w']+ ){1,5}(?:always|never) |^\W*[a-z]+ (?:always|never) [a-z]+s\b"
    r"|\bi (?:always|never) (?:asked|end up|thought|knew)\b"
)
_QUESTION = re.compile(r"[?？]\s*$")

GENERAL = 1


def _kinds() -> dict[str, int]:
    found: dict[str, int] = {}
    for bit, listed in enumerate(KINDS.values()):
        for word in words(listed):
            found[word] = found.get(word, 0) | 1 << bit
    return found


_KINDS_OF_WORD = _kinds()


def is_standing(text: str) -> bool:
    """Whether a text is an instruction or a preference that is meant to last. A question is not."""
    if len(text) > _LONGEST:
        return False
    lowered = text.lower().replace("’", "'")
    return (
        _STANDING.search(lowered) is not None and _OF_OTHERS.search(lowered) is None and _QUESTION.search(text) is None
    )


def fit_of(text: str) -> tuple[int, frozenset[str]]:
    """The kinds of which a text holds a word, one bit each, and its words."""
    found = frozenset(words(text))
    return kinds_of(found), found


def kinds_of(found: Iterable[str]) -> int:
    """The kinds that these words belong to, one bit each."""
    kinds = 0
    for word in found:
        kinds |= _KINDS_OF_WORD.get(word, 0)
    return kinds


def bits_of(kinds: int) -> list[int]:
    return [bit for bit in range(kinds.bit_length()) if kinds >> bit & 1]


def names_of(kinds: int) -> Sequence[str]:
    """The names of some kinds, for people who look."""
    return [name for bit, name in enumerate(KINDS) if kinds >> bit & 1]
