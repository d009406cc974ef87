"""Loads what recall is measured on: LoCoMo, LongMemEval, and those of our own sets that share one form.

Public sets stay outside the repository. They are read from `EVAL_DIR`, or from the folder beside the repository where
they usually lie. Our own sets are in bench/sets. Everything becomes pools: lines, and questions about them.
`packed_sets` and `formed_sets` load the other public sets and the own sets with a form of their own.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from ulid import ULID

from strongroom.model import Kind, Line, LineId, Millis, Namespace, Provenance, millis

SETS = Path(__file__).parent / "sets"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
"""What LoCoMo's category numbers mean."""

_USUAL = Path(__file__).parents[1].parent / "shared" / "eval"
_LOCOMO, _LONGMEMEVAL = "locomo_dev.json", "longmemeval_dev.json.gz"
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_ABSTENTION = "_abs"
_ORIGIN = Provenance((), "", "bench", Millis(0))


@dataclass(frozen=True, slots=True)
class Question:
    """One question: the lines that answer it, the sessions they are in, and what sort of question it is.

    `unwanted` are lines that should not be above its gold, or not be shown at all if it has none.
    """

    text: str
    now: datetime
    gold: frozenset[LineId]
    sessions: frozenset[str] = frozenset()
    kind: str = ""
    unwanted: frozenset[LineId] = frozenset()


@dataclass(frozen=True, slots=True)
class Pool:
    """One actor's lines, oldest first, and what is asked about them."""

    lines: list[Line]
    questions: list[Question]


class NoData(Exception):
    """The evaluation data is not here."""


def new_line(number: int, time: datetime, session: str, author: str, text: str, name: str | None = None) -> Line:
    """A line whose id sorts by time and number, unless it has a name of its own."""
    stamp = millis(time)
    line = LineId(name or str(ULID.from_int(stamp << 80 | number)))
    return Line(line, stamp, Kind.TURN, Namespace("personal"), session, author, text, _ORIGIN)


def data_directory() -> Path:
    """Where the public sets are."""
    return Path(os.environ.get("EVAL_DIR") or _USUAL)


def data_file(name: str) -> Path:
    """The file of a public set, or NoData."""
    file = data_directory() / name
    if not file.is_file():
        raise NoData(f"{name} is not in {file.parent}; set EVAL_DIR to the folder that holds it")
    return file


class _Turn(msgspec.Struct):
    speaker: str
    dia_id: str
    text: str


class _Asked(msgspec.Struct):
    question: str
    evidence: list[str]
    category: int


class _Conversation(msgspec.Struct):
    conversation: dict[str, msgspec.Raw]
    qa: list[_Asked]


def locomo() -> Iterator[Pool]:
    """A pool for each conversation. Evidence that names no turn is left out, and so is a question left with none."""
    for one in msgspec.json.decode(data_file(_LOCOMO).read_bytes(), type=list[_Conversation]):
        places: dict[str, LineId] = {}
        lines: list[Line] = []
        for number, start, turns in _sessions(one.conversation):
            for at, turn in enumerate(turns):
                time = start + timedelta(seconds=at)
                lines.append(new_line(len(lines), time, str(number), turn.speaker, turn.text))
                places[turn.dia_id] = lines[-1].id
        # A day after the last session, as somebody would ask who comes back to it.
        now = start + timedelta(days=1)
        asked = (
            Question(ask.question, now, _evidence(ask.evidence, places), kind=CATEGORIES[ask.category])
            for ask in one.qa
        )
        yield Pool(lines, [question for question in asked if question.gold])


def _sessions(conversation: dict[str, msgspec.Raw]) -> Iterator[tuple[int, datetime, list[_Turn]]]:
    named = (re.fullmatch(r"session_(\d+)", name) for name in conversation)
    for number in sorted(int(name[1]) for name in named if name):
        written = msgspec.json.decode(conversation[f"session_{number}_date_time"], type=str)
        start = datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        yield number, start, msgspec.json.decode(conversation[f"session_{number}"], type=list[_Turn])


def _evidence(named: Iterable[str], places: dict[str, LineId]) -> frozenset[LineId]:
    turns = (f"D{session}:{turn}" for name in named for session, turn in _EVIDENCE.findall(name))
    return frozenset(places[turn] for turn in turns if turn in places)


class _Said(msgspec.Struct):
    role: str
    content: str
    has_answer: bool | None = None


class _Haystack(msgspec.Struct):
    question_id: str
    question_type: str
    question: str
    question_date: str
    answer_session_ids: list[str]
    haystack_dates: list[str]
    haystack_session_ids: list[str]
    haystack_sessions: list[list[_Said]]


def longmemeval() -> Iterator[Pool]:
    """A pool for each question but those that have no answer."""
    with gzip.open(data_file(_LONGMEMEVAL)) as file:
        asked = msgspec.json.decode(file.read(), type=list[_Haystack])
    for one in asked:
        if not one.question_id.endswith(_ABSTENTION):
            yield _haystack(one)


def _haystack(one: _Haystack) -> Pool:
    lines: list[Line] = []
    gold: set[LineId] = set()
    for date, session, turns in zip(one.haystack_dates, one.haystack_session_ids, one.haystack_sessions, strict=True):
        start = _dated(date)
        for at, turn in enumerate(turns):
            if turn.content.strip():
                time = start + timedelta(seconds=at)
                lines.append(new_line(len(lines), time, session, turn.role, turn.content))
                if turn.has_answer:
                    gold.add(lines[-1].id)
    sessions = frozenset(one.answer_session_ids)
    question = Question(one.question, _dated(one.question_date), frozenset(gold), sessions, one.question_type)
    return Pool(lines, [question])


def _dated(text: str) -> datetime:
    return datetime.strptime(text, "%Y/%m/%d (%a) %H:%M").replace(tzinfo=UTC)


class _OwnLine(msgspec.Struct):
    id: str
    time: datetime
    session: str
    author: str
    text: str


class _OwnQuestion(msgspec.Struct):
    id: str
    question: str
    now: datetime
    gold: list[str]


class _OwnSet(msgspec.Struct):
    lines: list[_OwnLine]
    questions: list[_OwnQuestion]


def own_set(file: Path) -> Pool:
    """One of our own sets, without filler. A gold id that names no line is a mistake in the set."""
    read = msgspec.json.decode(file.read_bytes(), type=_OwnSet)
    lines = [new_line(0, line.time, line.session, line.author, line.text, line.id) for line in read.lines]
    known = {line.id for line in lines}
    asked = [Question(ask.question, ask.now, frozenset(map(LineId, ask.gold))) for ask in read.questions]
    for question in asked:
        if not question.gold or not question.gold <= known:
            raise ValueError(f"{file.name}: the gold of {question.text!r} must name lines of the set")
    return Pool(lines, asked)
