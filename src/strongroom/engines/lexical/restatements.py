"""New before old: finds the lines of an answer that state anew what an earlier line states, and puts them first.

Only statements by the same author are compared, and only if they contain the same words of the question. A line
*supersedes* an earlier one if it says so ("actually", "no longer", "we switched to"), or if it repeats most of the
earlier line's words and replaces some. Nothing is deleted, and no line is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from strongroom.engines.lexical.english_forms import STOP
from strongroom.engines.lexical.search import Candidate
from strongroom.engines.lexical.tokenizer import words
from strongroom.model import Line, LineId

WINDOW = 10
"""How many of the best lines are compared.

The number does not depend on how many lines are asked for. So a longer answer begins with the lines of a shorter one.
"""

_HEAD = 6
"""How many letters of a word are compared."""

_LONG = 400
"""A text of more characters says too many things to restate another."""

# How many of their words two lines share, as a part of the words of the shorter line.
_SAME = 0.6
"""From here on, a later line that replaces some words supersedes the earlier line."""
_ALIKE = 0.28
"""From here on, a later line that contains the same words of the question comes first."""
_RELATED = 0.25
"""From here on, a later line that says that something changed supersedes the earlier line."""

_LATER = 3_600_000
"""Milliseconds between two talks. Lines that are closer to each other belong to one talk: neither restates the other,
unless it says that something changed."""

_SUBJECT_BEFORE = "(?:has|have|had|was|were|got|been|is|are|'s|'ve|we|they|i)"
_CHANGED = (
    "changed moved switched rescheduled postponed pushed shifted swapped replaced cancelled canceled renamed upgraded "
    "promoted dropped sold left quit ditched traded"
).replace(" ", "|")
_CORRECTIONS = (
    # The speaker takes something back.
    "actually",
    "instead",
    "correction",
    "correct that",
    "scratch that",
    "never ?mind",
    "wait",
    "(?:was|got (?:it|that|this)|had (?:it|that)) wrong",
    "i misspoke",
    "my mistake",
    "turns out",
    "rather than",
    "not [^.,;]{1,40}(?:,? but|[,;])",
    # Something ended or changed.
    "no longer",
    "not any ?more",
    "any ?more",
    "used to",
    "change of plans?",
    rf"{_SUBJECT_BEFORE} (?:now )?(?:just )?(?:{_CHANGED}|brought forward|gave up|given up)",
    "moved (?:to|it|from)",
    "switched (?:to|from|over)",
    "changed (?:to|from|my|our)",
    "became",
    "become",
    "up to",
    "down to",
    # Something is new, or holds from now on.
    "these days",
    "nowadays",
    "as of",
    "from now on",
    "since (?:then|last|yesterday)",
    "now",
    "new",
    "at last",
    "finally",
    "meanwhile",
    "by now",
    "in the end",
    "after all",
    "update",
    "so it's",
)
_CORRECTS = re.compile(rf"\b(?:{'|'.join(_CORRECTIONS)})\b")
_FORMER = re.compile(
    r"\b(?:before|former(?:ly)?|previous(?:ly)?|original(?:ly)?|used to|first|old|earlier|back then|ex)\b"
)
_KIN = (
    "brother sister mother father mom mum dad son daughter wife husband partner girlfriend boyfriend friend colleague "
    "boss neighbou?r aunt uncle cousin niece nephew grandmother grandfather grandma grandpa roommate flatmate manager "
    "teacher kid child parent in-law"
).replace(" ", "|")
_ABOUT_KIN = re.compile(rf"\W*(?:my|our|his|her|their|the) (?:\w+ )?({_KIN})s?\b")
_NAMED = re.compile(
    r"\W*([A-Z][^\W\d_]+)(?:['’]s \w|(?: and [A-Z]\w+)? (?:is|has|was|had|will|can|[a-z]+s|[a-z]+ed)\b)"
)
_OPENING = 60
_OF_ASKER = re.compile(r"\b(?:i|my|me|mine|our|we)\b")


class LineRelation(Enum):
    """The relation of one line to another that was found before it."""

    SUPERSEDES = auto()
    SUPERSEDED = auto()
    RESTATES = auto()
    OF_SPEAKER = auto()
    """The line is about its speaker, and the other line is about somebody else."""


# Everything but ASCII letters and digits becomes a space.
_TO_WORDS = bytes(ord(chr(at).lower()) if at < 128 and chr(at).isalnum() else 32 for at in range(256))
_STOP = frozenset(word.encode() for word in STOP)


def _spellings(text: str) -> frozenset[object]:
    """The words of a text without stop words, to compare statements.

    Of an ASCII word only the first letters count: nearly as good as its stem, and four times as fast.
    """
    if not text.isascii():
        return frozenset(words(text))
    return frozenset([word[:_HEAD] for word in text.encode().translate(_TO_WORDS).split() if word not in _STOP])


_DIGIT = re.compile(r"\d")


class Statement:
    """The parts of a line that are compared. They are read when they are first needed."""

    __slots__ = ("_corrects", "_subjects", "_words", "held", "line")

    def __init__(self, line: Line, held: int) -> None:
        self.line = line
        self.held = held
        self._corrects: bool | None = None
        self._words: frozenset[object] | None = None
        self._subjects: tuple[str, str] | None = None

    @property
    def words(self) -> frozenset[object]:
        if self._words is None:
            self._words = _spellings(self.line.text)
        return self._words

    @property
    def corrects(self) -> bool:
        """Whether the line says that something changed."""
        if self._corrects is None:
            self._corrects = _CORRECTS.search(self.line.text.lower()) is not None
        return self._corrects

    @property
    def subjects(self) -> tuple[str, str]:
        """The relative and the name with which the line begins, each empty if there is none."""
        if self._subjects is None:
            opening = self.line.text[:_OPENING]
            kin, named = _ABOUT_KIN.match(opening.lower()), _NAMED.match(opening)
            name = named[1] if named is not None and named[1].lower() not in STOP else ""
            self._subjects = kin[1] if kin is not None else "", name
        return self._subjects


def in_order(found: Sequence[Candidate], query: str) -> tuple[list[Candidate], Mapping[tuple[str, LineId], LineId]]:
    """Put each restatement before the lines that it restates.

    Also returns the ids of superseded lines, by (namespace, id), each with the id of the line that supersedes it.
    """
    ordered = list(found)
    superseded: dict[tuple[str, LineId], LineId] = {}
    statements = _statements(found[:WINDOW])
    if statements is None:
        return ordered, superseded
    lowered = query.lower()
    of_former, of_asker = _FORMER.search(lowered) is not None, _OF_ASKER.search(lowered) is not None
    for at, one in enumerate(statements):
        if one is None:
            continue
        first = at
        for before in range(at):
            other = statements[before]
            if other is None or one.line.author != other.line.author or not one.held & other.held:
                continue
            relation = _relation(one, other, query)
            if relation is LineRelation.SUPERSEDES:
                superseded[other.line.namespace, other.line.id] = one.line.id
            elif relation is LineRelation.SUPERSEDED:
                superseded.setdefault((one.line.namespace, one.line.id), other.line.id)
            is_before = relation in (LineRelation.SUPERSEDES, LineRelation.RESTATES) and not of_former
            if is_before or (of_asker and relation is LineRelation.OF_SPEAKER):
                first = min(first, before)
        if first < at:
            ordered.insert(first, ordered.pop(at))
            statements.insert(first, statements.pop(at))
    return ordered, superseded


def _statements(found: Sequence[Candidate]) -> list[Statement | None] | None:
    """The lines that may restate one another, at their places. None if no author has two such lines."""
    statements: list[Statement | None] = []
    authors = Counter[str]()
    for line, _, held, _ in found:
        text, author = line.text, line.author
        if held and len(text) <= _LONG and author.lower() != "assistant" and not text.rstrip().endswith(("?", "？")):
            statements.append(Statement(line, held))
            authors[author] += 1
        else:
            statements.append(None)
    return statements if authors and max(authors.values()) > 1 else None


def _relation(one: Statement, other: Statement, query: str) -> LineRelation | None:
    """The relation of a line to another one by the same author. Both contain a common word of the question."""
    of_one, of_other = _subject(one, other, query), _subject(other, one, query)
    if of_other and not of_one:
        return LineRelation.OF_SPEAKER
    if of_one != of_other:
        return None
    is_later = (one.line.time, one.line.id) > (other.line.time, other.line.id)
    newer, older = (one, other) if is_later else (other, one)
    shared = len(newer.words & older.words) / max(min(len(newer.words), len(older.words)), 1)
    if shared < _RELATED or not _is_of_same(newer, older, query):
        return None
    if _supersedes(newer, older, shared):
        return LineRelation.SUPERSEDES if is_later else LineRelation.SUPERSEDED
    is_restated = (
        is_later
        and shared >= _ALIKE
        and newer.held & (older.held & -older.held) != 0  # the rarest word that the earlier line has of the question
        and 3 * (one.held & other.held).bit_count() >= 2 * older.held.bit_count()
        and newer.line.time - older.line.time >= _LATER
    )
    return LineRelation.RESTATES if is_restated else None


def _subject(one: Statement, other: Statement, query: str) -> str:
    """Another person whom a line is about. Empty if the line is about its speaker, or if this cannot be told."""
    kin, name = one.subjects
    if kin and kin not in query.lower():
        return kin
    return name if name and name not in query and name not in other.line.text else ""


def _is_of_same(newer: Statement, older: Statement, query: str) -> bool:
    """Whether the later line is about the same thing as the earlier line, as far as the question names it by a code.

    A line about another host or another version, of which all else is the same, states nothing anew.
    """
    if not query.isascii():
        return newer.held & (older.held & -older.held) != 0  # the rarest word that the earlier line has
    codes = [code.strip(".,;:?!") for code in query.split() if _DIGIT.search(code)]
    return all(code in newer.line.text for code in codes if code in older.line.text)


def _supersedes(newer: Statement, older: Statement, shared: float) -> bool:
    """Whether a later line corrects a related earlier one, or repeats the earlier line with another value."""
    if newer.corrects:
        return True
    return (
        shared >= _SAME
        and newer.line.time - older.line.time >= _LATER
        and bool(newer.words - older.words)
        and bool(older.words - newer.words)
    )
