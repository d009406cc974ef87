"""Loads those of our own sets that have a form of their own: what changed, standing instructions, languages, silence.

bench/sets/README.md describes the forms, and tests/test_bench_sets.py checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from bench.evaldata import SETS, Pool, Question, new_line
from strongroom.model import Line, LineId

COUNTER = "counter"
"""The kind of questions for which no standing instruction matters."""
GENERAL = "general"
"""The kind of questions for which an instruction matters that always does."""


class _Told(msgspec.Struct):
    time: datetime
    session: str
    author: str
    text: str
    id: str | None = None


class _Asked(msgspec.Struct):
    question: str
    now: datetime
    gold: list[str] = []


class _Change(msgspec.Struct):
    kind: str
    question: str
    now: datetime
    old: list[int]
    new: int
    lines: list[_Told]


class _Changes(msgspec.Struct):
    cases: list[_Change]


class _History(msgspec.Struct):
    id: str
    standing: list[str]
    general: list[str]
    lines: list[_Told]


class _StandingCase(_Asked, kw_only=True):
    history: str
    general: bool = False


class _Standing(msgspec.Struct):
    histories: list[_History]
    cases: list[_StandingCase]
    counter: list[_StandingCase]


class _Pool(msgspec.Struct):
    lines: list[_Told]
    questions: list[_Asked]
    language: str = ""


class _Pools(msgspec.Struct):
    pools: list[_Pool]


def changed(name: str) -> Iterator[Pool]:
    """A pool for each case. The gold is the line that holds now, and outdated lines are unwanted above it."""
    for case in _read(name, _Changes).cases:
        lines = _lines(case.lines)
        gold, outdated = frozenset({lines[case.new].id}), frozenset(lines[at].id for at in case.old)
        yield Pool(lines, [Question(case.question, case.now, gold, kind=case.kind, unwanted=outdated)])


def standing(name: str) -> Iterator[Pool]:
    """A pool for each history. Questions of the kind `COUNTER` want none of the instructions, but general ones."""
    read = _read(name, _Standing)
    for history in read.histories:
        special = _ids(set(history.standing) - set(history.general))
        asked = [
            Question(case.question, case.now, _ids(case.gold), kind=GENERAL if case.general else "by kind of question")
            for case in read.cases
            if case.history == history.id
        ]
        asked += [
            Question(case.question, case.now, frozenset(), kind=COUNTER, unwanted=special)
            for case in read.counter
            if case.history == history.id
        ]
        yield Pool(_lines(history.lines), asked)


def languages() -> Iterator[Pool]:
    """A pool for each language; the language is the kind of its questions."""
    for pool in _read("languages", _Pools).pools:
        yield Pool(_lines(pool.lines), [_question(asked, pool.language) for asked in pool.questions])


def silence() -> Iterator[Pool]:
    """Five pools. Half of the questions have no gold: nothing answers them."""
    for pool in _read("silence", _Pools).pools:
        yield Pool(_lines(pool.lines), [_question(asked) for asked in pool.questions])


_Form = TypeVar("_Form")


def _read(name: str, form: type[_Form]) -> _Form:
    return msgspec.json.decode((SETS / f"{name}.json").read_bytes(), type=form)


def _lines(told: Sequence[_Told]) -> list[Line]:
    return [new_line(number, one.time, one.session, one.author, one.text, one.id) for number, one in enumerate(told)]


def _question(asked: _Asked, kind: str = "") -> Question:
    return Question(asked.question, asked.now, _ids(asked.gold), kind=kind)


def _ids(names: Sequence[str] | set[str]) -> frozenset[LineId]:
    return frozenset(map(LineId, names))
