"""Whether memory is silent when nothing fits: does confidence tell questions that lines answer from those they do not?

Two measurings: our own set, whose unanswerable questions are of the same subjects, and LoCoMo, where each conversation
is also asked the questions of the next one, with the names of its own people.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from bench import evaldata, formed_sets
from bench.evaldata import NoData, Pool, Question
from bench.measure import Run
from bench.rankers import DEPTH, Answered, answer
from bench.scores import OURS, RECENCY, Score, auc
from strongroom.engines import Ranked
from strongroom.engines.lexical import weights

FLOOR: float = getattr(weights, "DEFAULT_FLOOR", 0.05)
"""The confidence below which a line is not shown unless the caller says otherwise."""

FEW = 5
"""How many lines a caller shows who has little room."""

_NAME = "recall.silence"
_AUC_GOAL, _KEPT_GOAL = 82, 95


def rows(run: Run) -> Iterator[Score]:
    yield from _scores("own pools", answer(formed_sets.silence()))
    try:
        pools = list(islice(evaldata.locomo(), run.pick(5, 2)))
    except NoData as missing:
        print(f"bench: {_NAME}: {missing}", file=sys.stderr)
        yield Score(_NAME, "LoCoMo, swapped: AUC", 0, {}, _AUC_GOAL)
        return
    yield from _scores("LoCoMo, swapped", answer(swapped(pools)), _AUC_GOAL)


def swapped(pools: Sequence[Pool]) -> Iterator[Pool]:
    """Each pool with the questions of the next one besides, which it cannot answer, about its own people by name."""
    for pool, other in zip(pools, [*pools[1:], *pools[:1]], strict=True):
        names = dict(zip(_people(other), _people(pool), strict=False))
        now = pool.questions[0].now
        foreign = [Question(_renamed(asked.text, names), now, frozenset()) for asked in other.questions]
        yield Pool(pool.lines, [*pool.questions, *foreign])


def _people(pool: Pool) -> list[str]:
    """The first names of the two who say most."""
    said = Counter(line.author for line in pool.lines)
    return [name.split()[0] for name, _ in said.most_common(2)]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    anyone = "|".join(map(re.escape, names))
    return re.sub(rf"\b({anyone})\b", lambda found: names[found[1]], text)


def _scores(set_name: str, answered: Sequence[Answered], goal: float | None = None) -> Iterator[Score]:
    """AUC for every engine that has evidence; what the floor does, for ours."""
    answerable = [one for one in answered if one.question.gold]
    unanswerable = [one for one in answered if not one.question.gold]
    yield Score(_NAME, f"{set_name}: AUC", len(answered), _areas(answerable, unanswerable, _best), goal)
    yield _of_ours(f"{set_name}: silenced at {FLOOR:g}", [not above_floor(one.ranked[OURS]) for one in unanswerable])
    kept = [is_kept(one.question, one.ranked[OURS]) for one in answerable if _has_gold(one, DEPTH)]
    yield _of_ours(f"{set_name}: keeps its line at {FLOOR:g}", kept, _KEPT_GOAL)
    for what, evidence in (("of the first line", _first), ("without standing lines", _best_match)):
        areas = _areas(answerable, unanswerable, evidence)
        yield Score(_NAME, f"{set_name}: AUC, {what}", len(answered), areas, detail=True)
    fair = fair_floor(answerable)
    silent = [not above_floor(one.ranked[OURS], fair) for one in unanswerable]
    yield _of_ours(f"{set_name}: silenced at {fair:.3f}, where 5 % lose their line", silent, detail=True)
    kept = [is_kept(one.question, one.ranked[OURS][:FEW]) for one in answerable if _has_gold(one, FEW)]
    yield _of_ours(f"{set_name}: keeps its line of the first {FEW}", kept, detail=True)
    for what, some in (("answerable", answerable), ("unanswerable", unanswerable)):
        shown = [one.confidence >= FLOOR for asked in some for one in asked.ranked[OURS]]
        yield _of_ours(f"{set_name}: {what}, lines that are shown", shown, detail=True)


def _areas(
    answerable: Sequence[Answered], unanswerable: Sequence[Answered], evidence: Callable[[Sequence[Ranked]], float]
) -> dict[str, float]:
    """The AUC of each engine. Recency is left out: it has no evidence."""
    areas = {}
    for name in answerable[0].ranked:
        if name != RECENCY:
            yes, no = (
                [evidence(_judged(name, one.ranked[name])) for one in part] for part in (answerable, unanswerable)
            )
            areas[name] = 100 * auc(yes, no)
    return areas


def _judged(name: str, ranked: Sequence[Ranked]) -> Sequence[Ranked]:
    """What is known of an answer. The evidence of an engine without confidence is its score."""
    if name == OURS:
        return ranked
    return [Ranked(one.line, one.score, confidence=one.score) for one in ranked]


def _best(ranked: Sequence[Ranked]) -> float:
    return max((one.confidence for one in ranked), default=0.0)


def _first(ranked: Sequence[Ranked]) -> float:
    return ranked[0].confidence if ranked else 0.0


def _best_match(ranked: Sequence[Ranked]) -> float:
    return _best([one for one in ranked if not one.standing])


def above_floor(ranked: Sequence[Ranked], floor: float = FLOOR) -> list[Ranked]:
    """The lines that are shown at this floor."""
    return [one for one in ranked if one.confidence >= floor]


def is_kept(question: Question, ranked: Sequence[Ranked], floor: float = FLOOR) -> bool:
    """Whether a line of the gold is still shown at this floor."""
    return any(one.line.id in question.gold for one in above_floor(ranked, floor))


def fair_floor(answerable: Sequence[Answered]) -> float:
    """The highest floor at which at most one in twenty of the questions that found their line loses it."""
    surest = sorted(
        max(one.confidence for one in asked.ranked[OURS] if one.line.id in asked.question.gold)
        for asked in answerable
        if _has_gold(asked, DEPTH)
    )
    return surest[len(surest) // 20]


def _has_gold(one: Answered, k: int) -> bool:
    return is_kept(one.question, one.ranked[OURS][:k], 0)


def _of_ours(what: str, held: Sequence[bool], goal: float | None = None, *, detail: bool = False) -> Score:
    return Score(_NAME, what, len(held), {OURS: 100 * sum(held) / len(held)}, goal, detail)
