"""The signals: the reasons for and against a line, each a number with a weight. A line's score is their weighted sum.

Most weights were fitted on LongMemEval (MIT licence) alone. The weights of `speaker` and `latest` are round values, and
that of `date` was chosen with all development sets in view (docs/recall.md).

The signals do not depend on the number of lines, so a score means the same in a namespace of any size. They are grouped
by the data that they need, so that each signal is computed as rarely as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from strongroom.engines.lexical import line_features
from strongroom.engines.lexical.query import Question
from strongroom.model import Line

# Signals of matching: the matched share of all words and days that were looked for. `python_reference` computes them.

MATCH = 4.42
"""The weight of the main signal: the line contains the words of the query (BM25)."""

CONTEXT = 1.40
"""The weight of a signal: the line and its two neighbours together contain the words of the query.

An answer often leaves out the words that the question before it contained.
"""

SESSION = 2.53
"""The weight of a signal: the session of the line, as a whole, contains the words of the query."""

QUESTION_BEFORE = 1.35
"""The weight of a signal: the line before is a question with the words of the query, so this line may answer it."""

DATE = 2.5
"""The weight of a signal: the line mentions the days that the query asks for, or was written on those days."""


# Signals of a line's marks (the flags in `line_features`). All lines with the same marks get the same value.


def asks(marks: int, question: Question) -> float:  # noqa: ARG001
    """The line is a question. This counts against the line, because a question is not an answer."""
    return float(marks & line_features.ASKS != 0)


def assistant(marks: int, question: Question) -> float:  # noqa: ARG001
    """An assistant wrote the line. This counts against the line: people mostly want to recall their own words."""
    return float(marks & line_features.ASSISTANT != 0)


def of_self(marks: int, question: Question) -> float:  # noqa: ARG001
    """The line contains a first-person pronoun, so it probably says something about the speaker."""
    return float(marks & line_features.SPEAKS_OF_SELF != 0)


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


OF_MARKS: tuple[tuple[Callable[[int, Question], float], float], ...] = (
    (asks, -0.59),
    (assistant, -2.62),
    (of_self, 0.40),
    (says_when, 0.57),
    (says_how_many, 0.47),
    (says_name, 0.40),
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


SUBSTANCE, SPEAKER, LATEST = 0.95, 1.0, 1.0
_MONTH = 30 * 86_400_000
_LONG_ENOUGH = math.log(30)
SUBSTANCES = tuple(SUBSTANCE * substance(length) for length in range(30))
"""The weighted `substance` of each length from 0 words on. Longer lines get the last value."""
_OF_MARKS: dict[tuple[bool, bool, bool], Sequence[float]] = {}


def of_marks(question: Question) -> Sequence[float]:
    """For each combination of marks (a line's flags), the sum of all signals that depend on marks.

    The sums are cached, because they depend only on the kind of answer that the question asks for.
    """
    asked = question.asks_when, question.asks_how_many, question.asks_name
    known = _OF_MARKS.get(asked)
    if known is None:
        known = _OF_MARKS[asked] = tuple(
            sum([weight * signal(marks, question) for signal, weight in OF_MARKS])
            for marks in range(line_features.SORTS)
        )
    return known


def substance_of(length: int) -> float:
    """The weighted `substance` of a line with this length."""
    return SUBSTANCES[length] if length < len(SUBSTANCES) else SUBSTANCES[-1]


def of_lines(lines: Iterable[tuple[Line, int]], question: Question) -> list[float]:
    """For each line, given with its length, the weighted sum of the signals that need the line itself."""
    return [of_line(line, length, question) for line, length in lines]


def of_line(line: Line, length: int, question: Question) -> float:
    """The weighted sum of the signals that need the line itself: its length, its speaker and its time."""
    known = substance_of(length)
    if line.author:
        known += SPEAKER * speaker(line, question)
    if question.asks_latest:
        known += LATEST * latest(line, question)
    return known
