"""Loads the public sets that come in one packed form: 120 questions of LongMemEval, FriendsQA, and BEAM.

In that form sessions name their turns by an index, so that sessions which many pools share are stored once.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from bench.evaldata import Pool, Question, data_file, new_line
from strongroom.model import Line

SUMMARIZATION = "summarization"
"""The kind of BEAM's questions about a whole conversation."""

_ASKED_BY = frozenset({"what", "where", "why", "how", "who", "when"})

_Turn = tuple[str, str, float]
"""The text, its author, and the seconds since the start of the session."""


class _Asked(msgspec.Struct):
    question: str
    now: datetime
    gold: list[tuple[int, int]]
    """The session's place in the pool, and the turn's place in the session."""
    kind: str


class _Actor(msgspec.Struct):
    sessions: list[tuple[str, int, datetime]]
    """A session's name, the index of its turns, and its start."""
    questions: list[_Asked]


class _Packed(msgspec.Struct):
    turns: list[list[_Turn]]
    pools: list[_Actor]


def longmemeval_fit() -> Iterator[Pool]:
    """The 120 questions of LongMemEval that weights may be fitted on."""
    return unpacked("longmemeval_fit.json.xz")


def friendsqa() -> Iterator[Pool]:
    """FriendsQA. Its kinds are the first words of the questions; rare ones become one kind."""
    for pool in unpacked("friendsqa_dev.json.xz"):
        kinds = (question.kind if question.kind in _ASKED_BY else "other" for question in pool.questions)
        yield Pool(
            pool.lines,
            [
                Question(one.text, one.now, one.gold, one.sessions, kind)
                for one, kind in zip(pool.questions, kinds, strict=True)
            ],
        )


def beam() -> Iterator[Pool]:
    """BEAM, the conversations of about 100,000 tokens."""
    return unpacked("beam_100k.json.xz")


def unpacked(name: str) -> Iterator[Pool]:
    """A pool for each actor of a packed file. Questions without gold are left out."""
    with lzma.open(data_file(name)) as file:
        packed = msgspec.json.decode(file.read(), type=_Packed)
    for actor in packed.pools:
        yield _pool(actor, packed.turns)


def _pool(actor: _Actor, turns: list[list[_Turn]]) -> Pool:
    places: dict[tuple[int, int], Line] = {}
    for at, (session, index, start) in enumerate(actor.sessions):
        for number, (text, author, seconds) in enumerate(turns[index]):
            time = start + timedelta(seconds=seconds)
            places[at, number] = new_line(len(places), time, session, author, text)
    questions = []
    for asked in actor.questions:
        gold = [places[place] for place in asked.gold]
        if gold:
            ids, sessions = frozenset(line.id for line in gold), frozenset(line.session for line in gold)
            questions.append(Question(asked.question, asked.now, ids, sessions, asked.kind))
    return Pool(list(places.values()), questions)
