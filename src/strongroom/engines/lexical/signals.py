"""The signals: the reasons for and against a line, each a number with a weight. A line's score is their weighted sum.

The weights are in `weights`, fitted by `make fit`. They differ between talk among people and talk with an assistant:
people answer each other, so neighbours and sessions tell much; to an assistant, each message stands more for itself.
`weights_for` mixes the two by the share of lines that an assistant wrote.

The signals do not depend on the number of lines, so a score means the same in a namespace of any size. They are grouped
by the data that they need, so that each signal is computed as rarely as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from strongroom.engines.lexical import line_features
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.weights import AMONG_PEOPLE, WITH_ASSISTANT, Weights
from strongroom.model import Line

# Signals of a line's marks (the flags in `line_features`). All lines with the same marks get the same value.


def asks(marks: int, question: Question) -> float:  # noqa: ARG001
    """The line is a question. This counts against the line, because a question is not an answer."""
    return float(marks & line_features.ASKS != 0)


def assistant(marks: int, question: Question) -> float:  # noqa: ARG001
    """An assistant wrote the line. This counts against the line: people mostly want to recall their own words."""
    return float(marks & line_features.ASSISTANT != 0)


def asked_assistant(marks: int, question: Question) -> float:
    """An assistant wrote the line, and the query asks for something that the assistant said."""
    return float(question.asks_assistant and marks & line_features.ASSISTANT != 0)


def says_when(marks: int, question: Question) -> float:
    """The query asks for a time, and the line contains a time."""
    return float(question.asks_when and marks & line_features.DATED != 0)


def says_how_many(marks: int, question: Question) -> float:
    """The query asks for a number, and the line contains a number."""
    return float(question.asks_how_many and marks & line_features.COUNTS != 0)


def says_name(marks: int, question: Question) -> float:
    """The query asks for a person or a place, and the line contains names."""
    if not question.asks_name:
        return 0.0
    return 2.0 if marks & line_features.MORE_NAMES else float(marks & line_features.ONE_NAME != 0)


OF_MARKS: tuple[Callable[[int, Question], float], ...] = (
    asks,
    assistant,
    asked_assistant,
    says_when,
    says_how_many,
    says_name,
)


# Signals of the line itself.


def substance(length: int) -> float:
    """A value that grows with the length of a line, up to a limit.

    A longer line says more, but BM25 alone prefers the shortest line.
    """
    return min(math.log1p(length), _LONG_ENOUGH)


def speaker(line: Line, question: Question) -> float:
    """The query names the line's speaker."""
    return float(not question.names.isdisjoint(line_features.speaker_words(line.author)))


def latest(line: Line, question: Question) -> float:
    """How new the line is, if the query asks for the last time that something happened. Otherwise 0."""
    if not question.asks_latest:
        return 0.0
    return 1 / (1 + max(question.now - line.time, 0) / _MONTH)


_MONTH = 30 * 86_400_000
_LONG = 30
_LONG_ENOUGH = math.log(_LONG)
_STEPS = 8


class Weighing(NamedTuple):
    """Weights, and the sums that follow from them alone."""

    weights: Weights
    substances: tuple[float, ...]
    """The weighted `substance` of each length from 0 words on. Longer lines get the last value."""
    marks: dict[tuple[bool, ...], tuple[float, ...]]
    """For each kind of question, the weighted sum of the mark signals for each combination of marks."""

    @classmethod
    def of(cls, weights: Weights) -> Weighing:
        return cls(weights, tuple(weights.substance * substance(length) for length in range(_LONG)), {})

    def of_marks(self, question: Question) -> tuple[float, ...]:
        """For each combination of marks, the weighted sum of all signals that depend on marks."""
        asked = question.asks_when, question.asks_how_many, question.asks_name, question.asks_assistant
        known = self.marks.get(asked)
        if known is None:
            by_weight = [(getattr(self.weights, signal.__name__), signal) for signal in OF_MARKS]
            known = self.marks[asked] = tuple(
                sum([weight * signal(marks, question) for weight, signal in by_weight])
                for marks in range(line_features.SORTS)
            )
        return known

    def of_lines(self, lines: Iterable[tuple[Line, int]], question: Question) -> list[float]:
        """For each line, given with its length, the weighted sum of the signals that need the line itself.

        These are its length, its speaker and its time. Each speaker is compared with the question once.
        """
        substances, asks_latest = self.substances, question.asks_latest
        speakers = {"": 0.0}
        found: list[float] = []
        for line, length in lines:
            spoken = speakers.get(line.author)
            if spoken is None:
                spoken = speakers[line.author] = self.weights.speaker * speaker(line, question)
            known = (substances[length] if length < _LONG else substances[-1]) + spoken
            found.append(known + self.weights.latest * latest(line, question) if asks_latest else known)
        return found

    def shares(self, line: Line, length: int, marks: int, question: Question) -> Mapping[str, float]:
        """The weighted signals of one line that need no other line, by name."""
        values = {signal.__name__: signal(marks, question) for signal in OF_MARKS}
        values |= {"substance": substance(length), "speaker": speaker(line, question), "latest": latest(line, question)}
        return {name: getattr(self.weights, name) * value for name, value in values.items()}


def _mixed(share: float) -> Weights:
    both: Iterable[tuple[float, float]] = zip(AMONG_PEOPLE, WITH_ASSISTANT, strict=True)
    return Weights(*[people + share * (assisted - people) for people, assisted in both])


_WEIGHINGS: Sequence[Weighing] = [Weighing.of(_mixed(step / _STEPS)) for step in range(_STEPS + 1)]


def weighing_for(lines: int, replies: int) -> Weighing:
    """The weighing for so many lines, of which an assistant wrote `replies`.

    With no replies, this is the weighing of talk among people. If half of the lines or more are replies, it is that of
    talk with an assistant. Eight steps lie between the two, and the sums of each step are computed once.
    """
    return _WEIGHINGS[min(round(2 * _STEPS * replies / lines), _STEPS) if lines else 0]
