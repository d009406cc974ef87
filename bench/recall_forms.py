"""How well recall does what is more than finding: the newest first, standing instructions, and people's own languages.

The sets are our own (bench/sets), each pool as it is, without other lines around it. No rule may be fitted on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench import formed_sets
from bench.evaldata import Question
from bench.formed_sets import COUNTER, GENERAL
from bench.measure import Run
from bench.rankers import Answered, answer, lines_of, mean
from bench.recall import Figure, by_kind, hit_at, miss
from bench.scores import OURS, Score, newest_first
from bench.silence import FLOOR
from strongroom.engines import Ranked
from strongroom.model import Line

PLACES = 5
"""How many lines are asked for where a standing instruction may be needed, or a language is not English."""


def _newest_first(question: Question, ranked: Sequence[Line]) -> float:
    return newest_first(question.gold, question.unwanted, ranked)


def _unwanted(question: Question, ranked: Sequence[Line]) -> float:
    return float(sum(line.id in question.unwanted for line in ranked))


_NEWEST = Figure("newest first", _newest_first, 85)
_NEWEST_THERE = Figure("newest in the first ten", hit_at(10))
_STANDING = Figure("hit@5", hit_at(PLACES), 75)
_LANGUAGES = Figure("hit@5", hit_at(PLACES), 85)


def changed(run: Run) -> Iterator[Score]:  # noqa: ARG001
    yield from _changed("recall.changed", "changed_facts")


def changed_b(run: Run) -> Iterator[Score]:  # noqa: ARG001
    yield from _changed("recall.changed_b", "changed_facts_b")


def _changed(name: str, file: str) -> Iterator[Score]:
    answered = answer(formed_sets.changed(file))
    yield _row(name, answered, _NEWEST)
    there = mean(answered, _NEWEST_THERE.measure)
    yield Score(name, _NEWEST_THERE.what, len(answered), there, detail=True)
    yield from by_kind(name, answered, [_NEWEST])


def standing(run: Run) -> Iterator[Score]:  # noqa: ARG001
    yield from _standing("recall.standing", "standing")


def standing_b(run: Run) -> Iterator[Score]:  # noqa: ARG001
    yield from _standing("recall.standing_b", "standing_b")


def _standing(name: str, file: str) -> Iterator[Score]:
    answered = answer(formed_sets.standing(file), PLACES)
    cases = [one for one in answered if one.question.kind != COUNTER]
    counter = [one for one in answered if one.question.kind == COUNTER]
    yield _row(name, cases, _STANDING)
    yield from by_kind(name, cases, [_STANDING])
    what = f"{GENERAL} left out: needless instructions for 100 questions"
    yield Score(name, what, len(counter), mean(counter, _unwanted), detail=True)
    yield _needless(name, counter, f"of them above the floor {FLOOR:g}", lambda one: one.confidence >= FLOOR)
    yield _needless(name, counter, "of them shown as standing", lambda one: one.standing)


def _needless(name: str, counter: Sequence[Answered], what: str, is_shown: Callable[[Ranked], bool]) -> Score:
    shown = sum(
        one.line.id in asked.question.unwanted for asked in counter for one in asked.ranked[OURS] if is_shown(one)
    )
    return Score(name, what, len(counter), {OURS: 100 * shown / len(counter)}, detail=True)


def languages(run: Run) -> Iterator[Score]:  # noqa: ARG001
    answered = answer(formed_sets.languages(), PLACES)
    yield _row("recall.languages", answered, _LANGUAGES)
    yield from by_kind("recall.languages", answered, [_LANGUAGES])


def _row(name: str, answered: Sequence[Answered], figure: Figure) -> Score:
    missed = [one for one in answered if not figure.measure(one.question, lines_of(one.ranked[OURS]))]
    percent = mean(answered, figure.measure)
    return Score(name, figure.what, len(answered), percent, figure.goal, misses=[miss(one, PLACES) for one in missed])
