"""The signals: what speaks for a line, each as a number with its weight in the sum.

The weights were fitted on LongMemEval (MIT licence) alone, except for `speaker` and `latest`, which are round values,
and `date`, which was chosen with all development sets in view (docs/recall.md). All signals are independent of scale: a
score means the same on a shelf of any size. They are grouped by what they look at, so that each is computed as rarely
as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from strongroom.engines.lexical import line_features
from strongroom.engines.lexical.query import Question
from strongroom.model import Line

# Signals of matching, as shares of everything that was looked for. `python_reference` computes them.

MATCH = 4.42
"""The line contains the words of the query (BM25): the main signal."""

CONTEXT = 1.40
"""The line and its two neighbours together contain those words: an answer often omits what its question named."""

SESSION = 2.53
"""The conversation as a whole is about those words."""

QUESTION_BEFORE = 1.35
"""The line before is a question with those words, so this line is likely to be the answer."""

DATE = 2.5
"""The line mentions the days that were asked for, or was written on them, whatever else it contains."""


# Signals of a line's marks: the same for all lines with the same marks.


def asks(marks: int, question: Question) -> float:  # noqa: ARG001
    """A question is not an answer."""
    return float(marks & line_features.ASKS != 0)


def assistant(marks: int, question: Question) -> float:  # noqa: ARG001
    """People mostly want to recall what they said, not the long replies they got."""
    return float(marks & line_features.ASSISTANT != 0)


def of_self(marks: int, question: Question) -> float:  # noqa: ARG001
    """People speak about themselves in the first person; small talk and advice do not."""
    return float(marks & line_features.SPEAKS_OF_SELF != 0)


def says_when(marks: int, question: Question) -> float:
    """The query asks when, and the line contains a time."""
    return float(question.asks_when and marks & line_features.DATED != 0)


def says_how_many(marks: int, question: Question) -> float:
    """The query asks how many, and the line contains a number."""
    return float(question.asks_how_many and marks & line_features.COUNTS != 0)


def says_name(marks: int, question: Question) -> float:
    """The query asks who or where, and the line contains names."""
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
    """The length of a line, up to a limit: a longer line says more, but BM25 alone prefers the shortest."""
    return min(math.log1p(length), _LONG_ENOUGH)


def speaker(line: Line, question: Question) -> float:
    """The query names the line's speaker."""
    return float(not question.names.isdisjoint(line_features.speaker_words(line.author)))


def latest(line: Line, question: Question) -> float:
    """The query asks for the last time that something happened: of equal matches, the newer one."""
    if not question.asks_latest:
        return 0.0
    return 1 / (1 + max(question.now - line.time, 0) / _MONTH)


SUBSTANCE, SPEAKER, LATEST = 0.95, 1.0, 1.0
_MONTH = 30 * 86_400_000
_LONG_ENOUGH = math.log(30)
SUBSTANCES = tuple(SUBSTANCE * substance(length) for length in range(30))
"""The weight of a line's length. Longer lines get the last value."""
_OF_MARKS: dict[tuple[bool, bool, bool], Sequence[float]] = {}


def of_marks(question: Question) -> Sequence[float]:
    """The sum of all mark signals for each combination of marks. It depends on what the question asks for only."""
    asked = question.asks_when, question.asks_how_many, question.asks_name
    known = _OF_MARKS.get(asked)
    if known is None:
        known = _OF_MARKS[asked] = tuple(
            sum([weight * signal(marks, question) for signal, weight in OF_MARKS])
            for marks in range(line_features.SORTS)
        )
    return known


def substance_of(length: int) -> float:
    """The weight of a line's length."""
    return SUBSTANCES[length] if length < len(SUBSTANCES) else SUBSTANCES[-1]


def of_lines(lines: Iterable[tuple[Line, int]], question: Question) -> list[float]:
    """All signals of each line, with its length, weighed."""
    return [of_line(line, length, question) for line, length in lines]


def of_line(line: Line, length: int, question: Question) -> float:
    """The sum of all signals of one line."""
    known = substance_of(length)
    if line.author:
        known += SPEAKER * speaker(line, question)
    if question.asks_latest:
        known += LATEST * latest(line, question)
    return known
