"""How well recall finds: LoCoMo, LongMemEval and our own sets, ours beside FTS5 and recency in one run.

Each engine ranks each question once, ten lines deep, with one index for one actor. Figures are means over questions.
Our own sets are hidden among ordinary English (bench/filler.py), so that finding them is not for want of anything else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from bench import evaldata, filler
from bench.evaldata import NoData, Pool, Question
from bench.measure import Run
from bench.peers import FullText
from bench.scores import ENGINES, FTS5, OURS, RECENCY, Miss, Score, hit, recall, recall_all
from strongroom import engines
from strongroom.model import Line, millis, moment

DEPTH = 10
FILLER = 500
Rank = Callable[[Question], Sequence[Line]]
Measure = Callable[[Question, Sequence[Line]], float]


def _by_engine(name: str, pool: Pool) -> Rank:
    engine = engines.load(name)
    index = engine.index()
    for line in pool.lines:
        index.add(line)
    return lambda question: [one.line for one in engine.rank(question.text, [index], DEPTH, question.now)]


def _by_recency(pool: Pool) -> Rank:
    """The lines that contain the question, then the newest lines, as with `or_newest`."""
    matching = _by_engine("recency", pool)
    newest = sorted(pool.lines, key=lambda line: (line.time, line.id), reverse=True)[:DEPTH]

    def rank(question: Question) -> Sequence[Line]:
        found = matching(question)
        return [*found, *(line for line in newest if line not in found)][:DEPTH]

    return rank


def _by_fts5(pool: Pool) -> Rank:
    table = FullText.of(f"{line.author}: {line.text}" if line.author else line.text for line in pool.lines)
    return lambda question: [pool.lines[at] for at in table.search(question.text, DEPTH)]


RANKERS: Mapping[str, Callable[[Pool], Rank]] = {
    OURS: lambda pool: _by_engine("lexical", pool),
    FTS5: _by_fts5,
    RECENCY: _by_recency,
}


@dataclass(frozen=True, slots=True)
class Answered:
    """One question and what each engine ranked highest for it."""

    question: Question
    ranked: Mapping[str, Sequence[Line]]
    pool: Pool = field(repr=False)


def answer(pools: Iterable[Pool]) -> list[Answered]:
    """Ask every engine every question."""
    return [one for pool in pools for one in _answered(pool)]


def _answered(pool: Pool) -> Iterator[Answered]:
    rankers = {name: RANKERS[name](pool) for name in ENGINES}
    for question in pool.questions:
        yield Answered(question, {name: rank(question) for name, rank in rankers.items()}, pool)


def mean(answered: Sequence[Answered], measure: Measure) -> dict[str, float]:
    """Each engine's mean over the questions, in percent."""
    return {
        name: 100 * sum(measure(one.question, one.ranked[name]) for one in answered) / len(answered)
        for name in answered[0].ranked
    }


def _recall_at(k: int) -> Measure:
    return lambda question, ranked: recall(question.gold, ranked, k)


def _hit_at(k: int) -> Measure:
    return lambda question, ranked: hit(question.gold, ranked, k)


def _sessions_at(k: int) -> Measure:
    return lambda question, ranked: recall_all(question.sessions, ranked, k)


@dataclass(frozen=True, slots=True)
class _Figure:
    """One measure of a data set, and what ours should reach."""

    what: str
    measure: Measure
    goal: float | None = None


LOCOMO = (_Figure("R@5", _recall_at(5), 72), _Figure("R@10", _recall_at(10), 78))
_LONGMEMEVAL = (
    _Figure("turns, R@5", _recall_at(5)),
    _Figure("turns, R@10", _recall_at(10), 83),
    _Figure("sessions, recall_all@5", _sessions_at(5)),
    _Figure("sessions, recall_all@10", _sessions_at(10)),
)


def locomo(run: Run) -> Iterator[Score]:
    count = run.pick(5, 1)
    yield from _public("recall.locomo", evaldata.locomo, count, LOCOMO)
    yield from _text_alone("recall.locomo", evaldata.locomo, count)


def _text_alone(name: str, load: Callable[[], Iterator[Pool]], count: int) -> Iterator[Score]:
    """LoCoMo without what an agent knows beside the words: how far the words alone carry."""
    try:
        answered = answer(map(text_alone, islice(load(), count)))
    except NoData:  # the rows above say so
        return
    for figure in LOCOMO:
        yield Score(name, f"text alone: {figure.what}", len(answered), mean(answered, figure.measure), detail=True)


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


def longmemeval(run: Run) -> Iterator[Score]:
    yield from _public("recall.longmemeval", evaldata.longmemeval, run.pick(50, 5), _LONGMEMEVAL)


def _public(name: str, load: Callable[[], Iterator[Pool]], pools: int, figures: Sequence[_Figure]) -> Iterator[Score]:
    try:
        answered = answer(islice(load(), pools))
    except NoData as missing:
        print(f"bench: {name}: {missing}", file=sys.stderr)
        yield from (Score(name, figure.what, 0, {}, figure.goal) for figure in figures)
        return
    yield from scores(name, answered, figures)


def scores(name: str, answered: Sequence[Answered], figures: Sequence[_Figure]) -> Iterator[Score]:
    """Each figure over all questions, then over each kind of them."""
    for figure in figures:
        yield Score(name, figure.what, len(answered), mean(answered, figure.measure), figure.goal)
    for kind in sorted({one.question.kind for one in answered}):
        some = [one for one in answered if one.question.kind == kind]
        for figure in figures:
            yield Score(name, f"{kind}: {figure.what}", len(some), mean(some, figure.measure), detail=True)


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
    measure = _hit_at(k)
    missed = [_miss(one, k) for one in answered if not measure(one.question, one.ranked[OURS])]
    return Score(name, what, len(answered), mean(answered, measure), goal, detail, () if detail else missed)


def _miss(one: Answered, k: int) -> Miss:
    wanted = [line.text for line in one.pool.lines if line.id in one.question.gold]
    return Miss(one.question.text, wanted, [line.text for line in one.ranked[OURS][:k]])


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
