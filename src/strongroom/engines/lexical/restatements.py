"""New before old: which of the lines found say anew what an earlier one of them says, and so come first.

Only lines by the same author are compared, only statements, and only if they match the same words of the question. A
line *supersedes* an earlier one if it says so ("actually", "no longer", "we switched to"), or if it repeats most of the
words of the other and differs in the rest. Nothing is deleted, and no line is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from strongroom.engines.lexical.english_forms import STOP
from strongroom.engines.lexical.search import Candidate
from strongroom.engines.lexical.tokenizer import words
from strongroom.model import Line, LineId

WINDOW = 10
"""How many of the best lines are compared. It does not depend on how many are asked for, so their order does not."""

_LONG = 400
"""A text of more characters says too many things to restate another."""
_MOST_SHARED = 0.6
_SOME_SHARED = 0.25
_MORE_SHARED = 0.28
_LATER = 3_600_000
"""Milliseconds after which a statement with nearly the same words is a new one and not the same talk."""

_CORRECTS = re.compile(
    r"\b(?:actually|no longer|not any ?more|any ?more|instead|correction|correct that|scratch that|never ?mind|wait"
    r"|(?:was|got (?:it|that|this)|had (?:it|that)) wrong|i misspoke|my mistake|change of plans?|(?:has|have|had|was|were|got|been|is|are|'s|'ve|we|they|i) "
    r"(?:now )?(?:just )?(?:changed|moved|switched|rescheduled|postponed|pushed|brought forward|shifted|swapped|replaced"
    r"|cancelled|canceled|renamed|upgraded|promoted|dropped|sold|left|quit|gave up|given up|ditched|traded)"
    r"|moved (?:to|it|from)|switched (?:to|from|over)|changed (?:to|from|my|our)|these days|nowadays|as of|from now on"
    r"|since (?:then|last|yesterday)|now|new|at last|finally|meanwhile|by now|in the end|after all|turns out"
    r"|not [^.,;]{1,40}(?:,? but|[,;])|used to|update|became|become|rather than|so it's|up to|down to)\b"
)
_FORMER = re.compile(
    r"\b(?:before|former(?:ly)?|previous(?:ly)?|original(?:ly)?|used to|first|old|earlier|back then|ex)\b"
)
_KIN = (
    "brother|sister|mother|father|mom|mum|dad|son|daughter|wife|husband|partner|girlfriend|boyfriend|friend|colleague"
    "|boss|neighbou?r|aunt|uncle|cousin|niece|nephew|grandmother|grandfather|grandma|grandpa|roommate|flatmate|manager"
    "|teacher|kid|child|parent|in-law"
)
_ABOUT_KIN = re.compile(rf"\W*(?:my|our|his|her|their|the) (?:\w+ )?({_KIN})s?\b")
_NAMED = re.compile(
    r"\W*([A-Z][^\W\d_]+)(?:['’]s \w|(?: and [A-Z]\w+)? (?:is|has|was|had|will|can|[a-z]+s|[a-z]+ed)\b)"
)
_OF_ASKER = re.compile(r"\b(?:i|my|me|mine|our|we)\b")


class Relation(Enum):
    """What one line is to another that was found before it."""

    SUPERSEDES = auto()
    SUPERSEDED = auto()
    RESTATES = auto()
    OF_SPEAKER = auto()
    """It is about the speaker, and the other line is about somebody else."""


class Statement(NamedTuple):
    """What of a line is compared."""

    line: Line
    held: int
    words: frozenset[str]


def in_order(found: Sequence[Candidate], query: str) -> tuple[list[Candidate], Mapping[tuple[str, LineId], LineId]]:
    """The lines with each restatement before what it restates, and the ids of superseded lines with what supersedes."""
    ordered = list(found)
    superseded: dict[tuple[str, LineId], LineId] = {}
    lowered = query.lower()
    of_former, of_asker = _FORMER.search(lowered) is not None, _OF_ASKER.search(lowered) is not None
    statements = _statements(found[:WINDOW])
    for at in range(1, min(len(ordered), WINDOW)):
        one = statements.get(at)
        first = at
        for before in range(at):
            other = statements.get(before)
            if one is None or other is None or one.line.author != other.line.author:
                continue
            relation = _relation(one, other, query)
            if relation is Relation.SUPERSEDES:
                superseded[other.line.namespace, other.line.id] = one.line.id
            elif relation is Relation.SUPERSEDED:
                superseded.setdefault((one.line.namespace, one.line.id), other.line.id)
            is_before = relation in (Relation.SUPERSEDES, Relation.RESTATES) and not of_former
            if is_before or (of_asker and relation is Relation.OF_SPEAKER):
                first = min(first, before)
        if first < at:
            _move(ordered, statements, at, first)
    return ordered, superseded


def _move(ordered: list[Candidate], statements: dict[int, Statement], at: int, first: int) -> None:
    ordered.insert(first, ordered.pop(at))
    shifted = {
        place + 1 if first <= place < at else first if place == at else place: one for place, one in statements.items()
    }
    statements.clear()
    statements.update(shifted)


def _statements(found: Sequence[Candidate]) -> dict[int, Statement]:
    """The lines that may restate one another, by their place: not the only one with its author and its words."""
    authors: dict[str, int] = {}
    for one in found:
        authors[one.line.author] = authors.get(one.line.author, 0) + 1
    return {
        at: Statement(one.line, one.held, frozenset(words(one.line.text)))
        for at, one in enumerate(found)
        if one.held
        and authors[one.line.author] > 1
        and len(one.line.text) <= _LONG
        and one.line.author.lower() != "assistant"
        and not one.line.text.rstrip().endswith(("?", "？"))
    }


def _relation(one: Statement, other: Statement, query: str) -> Relation | None:
    """What one line is to another by the same author, if both match the question."""
    common = (one.held & other.held).bit_count()
    if not common:
        return None
    of_one, of_other = _subject(one, other, query), _subject(other, one, query)
    if of_one is None and of_other is not None:
        return Relation.OF_SPEAKER
    if of_one != of_other:
        return None
    is_later = (one.line.time, one.line.id) > (other.line.time, other.line.id)
    newer, older = (one, other) if is_later else (other, one)
    likeness = len(newer.words & older.words) / max(min(len(newer.words), len(older.words)), 1)
    if likeness < _SOME_SHARED:
        return None
    if _supersedes(newer, older, likeness):
        return Relation.SUPERSEDES if is_later else Relation.SUPERSEDED
    is_restated = (
        is_later
        and likeness >= _MORE_SHARED
        and 3 * common >= 2 * older.held.bit_count()
        and newer.line.time - older.line.time >= _LATER
    )
    return Relation.RESTATES if is_restated else None


def _subject(one: Statement, other: Statement, query: str) -> str | None:
    """Another person whom a line is about, or None if it is about its speaker or cannot be told."""
    opening = one.line.text[:60]
    kin = _ABOUT_KIN.match(opening.lower())
    if kin is not None and kin[1] not in query.lower():
        return kin[1]
    named = _NAMED.match(opening)
    if named is not None and named[1].lower() not in STOP and named[1] not in query and named[1] not in other.line.text:
        return named[1]
    return None


def _supersedes(newer: Statement, older: Statement, likeness: float) -> bool:
    """Whether a later line corrects an earlier one that it is like, or repeats it with another value."""
    if _CORRECTS.search(newer.line.text.lower()) is not None:
        return True
    return (
        likeness >= _MOST_SHARED
        and newer.line.time - older.line.time >= _LATER
        and bool(newer.words - older.words)
        and bool(older.words - newer.words)
    )
