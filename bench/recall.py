"""How well recall finds: public sets, and our own sets of one form, ours beside its peers in one run.

Each engine ranks each question once, ten lines deep, with one index for one actor. Figures are means over questions.
`recall_forms`, `silence` and `calibration` have the other rows.
Our own sets are hidden among ordinary English (bench/filler.py), so that finding them is not for want of anything else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from bench import evaldata, filler, packed_sets
from bench.evaldata import NoData, Pool
from bench.measure import Run
from bench.rankers import Answered, Load, Measure, answer, answer_public, lines_of, mean
from bench.scores import OURS, Miss, Score, hit, recall, recall_all
from strongroom.model import Line, millis, moment

FILLER = 500


def recall_at(k: int) -> Measure:
    return lambda question, ranked: recall(question.gold, ranked, k)


def hit_at(k: int) -> Measure:
    return lambda question, ranked: hit(question.gold, ranked, k)


def _sessions_at(k: int) -> Measure:
    return lambda question, ranked: recall_all(question.sessions, ranked, k)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of a data set, and what ours should reach."""

    what: str
    measure: Measure
    goal: float | None = None


LOCOMO = (Figure("R@5", recall_at(5), 73.5), Figure("R@10", recall_at(10), 80.5))
_BEAM = (Figure("R@5", recall_at(5)), Figure("R@10", recall_at(10), 55))
_FRIENDS = (Figure("R@5", recall_at(5)), Figure("R@10", recall_at(10)))
_LONGMEMEVAL = (
    Figure("turns, R@5", recall_at(5)),
    Figure("turns, R@10", recall_at(10), 83),
    Figure("sessions, recall_all@5", _sessions_at(5)),
    Figure("sessions, recall_all@10", _sessions_at(10)),
)
_LONGMEMEVAL_FIT = tuple(Figure(f"{figure.what}, fitted on", figure.measure) for figure in _LONGMEMEVAL)


def locomo(run: Run) -> Iterator[Score]:
    count = run.pick(5, 1)
    yield from _public("recall.locomo", evaldata.locomo, count, LOCOMO)
    yield from _text_alone("recall.locomo", evaldata.locomo, count, LOCOMO)


def longmemeval(run: Run) -> Iterator[Score]:
    yield from _public("recall.longmemeval", evaldata.longmemeval, run.pick(50, 5), _LONGMEMEVAL)


def longmemeval_fit(run: Run) -> Iterator[Score]:
    """The questions that the weights were fitted on: these figures are too favourable."""
    yield from _public("recall.longmemeval_fit", packed_sets.longmemeval_fit, run.pick(120, 5), _LONGMEMEVAL_FIT)


def friends(run: Run) -> Iterator[Score]:
    """Weights were fitted on it, too."""
    count = run.pick(9, 1)
    yield from _public("recall.friends", packed_sets.friendsqa, count, _FRIENDS)
    yield from _text_alone("recall.friends", packed_sets.friendsqa, count, _FRIENDS)


def beam(run: Run) -> Iterator[Score]:
    """Summaries have dozens of lines that answer, so they are in the detail only."""
    count = run.pick(20, 2)
    yield from _public("recall.beam", packed_sets.beam, count, _BEAM, packed_sets.SUMMARIZATION)
    yield from _text_alone("recall.beam", packed_sets.beam, count, _BEAM, packed_sets.SUMMARIZATION)


def _public(name: str, load: Load, pools: int, figures: Sequence[Figure], apart: str = "") -> Iterator[Score]:
    """A public set's rows. Questions of the kind `apart` count in the detail only."""
    try:
        answered = answer_public(load, pools)
    except NoData as missing:
        print(f"bench: {name}: {missing}", file=sys.stderr)
        yield from (Score(name, figure.what, 0, {}, figure.goal) for figure in figures)
        return
    yield from scores(name, answered, figures, apart)


def scores(name: str, answered: Sequence[Answered], figures: Sequence[Figure], apart: str = "") -> Iterator[Score]:
    """Each figure over all questions but those of the kind `apart`, then over each kind of them."""
    most = [one for one in answered if not apart or one.question.kind != apart]
    for figure in figures:
        yield Score(name, figure.what, len(most), mean(most, figure.measure), figure.goal)
    yield from by_kind(name, answered, figures)


def by_kind(name: str, answered: Sequence[Answered], figures: Sequence[Figure]) -> Iterator[Score]:
    """Each figure over each kind of questions, as details."""
    for kind in sorted({one.question.kind for one in answered}):
        some = [one for one in answered if one.question.kind == kind]
        for figure in figures:
            yield Score(name, f"{kind}: {figure.what}", len(some), mean(some, figure.measure), detail=True)


def _text_alone(name: str, load: Load, count: int, figures: Sequence[Figure], apart: str = "") -> Iterator[Score]:
    """A set without what an agent knows beside the words: how far the words alone carry."""
    try:
        answered = answer(map(text_alone, islice(load(), count)))
    except NoData:  # the rows above say so
        return
    most = [one for one in answered if not apart or one.question.kind != apart]
    for figure in figures:
        yield Score(name, f"text alone: {figure.what}", len(most), mean(most, figure.measure), detail=True)


def text_alone(pool: Pool) -> Pool:
    """The same lines without session and author, all of one time. The author's name stays as a part of the text.

    FTS5 is given the same texts as with sessions, so its figures must not change.
    """
    first = pool.lines[0].time
    lines = [
        msgspec.structs.replace(line, time=first, session="", author="", text=f"{line.author}: {line.text}")
        for line in pool.lines
    ]
    return Pool(lines, pool.questions)


def cjk(run: Run) -> Iterator[Score]:  # noqa: ARG001
    yield _own("recall.cjk", "hit@1", _sets("cjk"), 1, 98)


def identifiers(run: Run) -> Iterator[Score]:  # noqa: ARG001
    yield _own("recall.identifiers", "hit@1", _sets("identifiers"), 1, 98)


def time(run: Run) -> Iterator[Score]:  # noqa: ARG001
    """Among older filler: what was told in March would answer "what happened in March?" as well as what is wanted.

    The detail shows the figure among filler of the same months, too.
    """
    sets = _sets("time_*", older=True)
    yield _own("recall.time", "hit@5", sets, 5, 90)
    for name, pool in sets.items():
        yield _own("recall.time", f"{name}: hit@5", {name: pool}, 5, detail=True)
    yield _own("recall.time", "filler of the same months: hit@5", _sets("time_*"), 5, detail=True)


def _sets(pattern: str, *, older: bool = False) -> dict[str, Pool]:
    """Our own sets by name, each among filler of its own."""
    files = sorted(evaldata.SETS.glob(f"{pattern}.json"))
    if not files:
        raise FileNotFoundError(f"no {pattern}.json in {evaldata.SETS}")
    return {file.stem: hidden(evaldata.own_set(file), seed, older=older) for seed, file in enumerate(files)}


def _own(
    name: str, what: str, sets: Mapping[str, Pool], k: int, goal: float | None = None, *, detail: bool = False
) -> Score:
    answered = answer(then for pool in sets.values() for then in told(pool))
    measure = hit_at(k)
    missed = [miss(one, k) for one in answered if not measure(one.question, lines_of(one.ranked[OURS]))]
    return Score(name, what, len(answered), mean(answered, measure), goal, detail, () if detail else missed)


def miss(one: Answered, k: int) -> Miss:
    """What a question wanted, and what ours found instead."""
    wanted = [line.text for line in one.pool.lines if line.id in one.question.gold]
    return Miss(one.question.text, wanted, [found.line.text for found in one.ranked[OURS][:k]])


def hidden(pool: Pool, seed: int, count: int = FILLER, *, older: bool = False) -> Pool:
    """The same pool among `count` ordinary lines of other sessions, from a year before it to its end.

    With `older`, they all end a year before it.
    """
    first, last = (moment(edge(line.time for line in pool.lines)) for edge in (min, max))
    year = timedelta(days=365)
    span = (first - 3 * year, first - year) if older else (first - year, last)
    lines = [*pool.lines, *_ordinary(seed, count, *span)]
    return Pool(sorted(lines, key=lambda line: (line.time, line.id)), pool.questions)


def told(pool: Pool) -> Iterator[Pool]:
    """The pool as it was at each moment when something is asked: of lines told later nobody can know."""
    for now in sorted({question.now for question in pool.questions}):
        lines = [line for line in pool.lines if line.time <= millis(now)]
        yield Pool(lines, [question for question in pool.questions if question.now == now])


def _ordinary(seed: int, count: int, start: datetime, end: datetime) -> Iterator[Line]:
    step = (end - start) / count
    for number, (session, author, text) in enumerate(islice(filler.turns(seed), count)):
        # Turns of a session are seconds apart, and sessions as far as the span allows.
        time = start + step * (number - number % filler.SESSION) + timedelta(seconds=40 * (number % filler.SESSION))
        yield evaldata.new_line(number, time, f"talk-{session}", author, text)
