"""Ours and its peers behind one call: every engine ranks every question of a pool, with one index for one actor.

A peer is given each line's author as a word of the text, unless the author is a part of the text already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from bench.evaldata import Pool, Question, data_directory
from bench.peers import FullText, Okapi
from bench.scores import BM25, ENGINES, FTS5, OURS, RECENCY
from strongroom import engines
from strongroom.engines import Ranked
from strongroom.model import Line

DEPTH = 10
Rank = Callable[[Question, int], Sequence[Ranked]]
Measure = Callable[[Question, Sequence[Line]], float]
Load = Callable[[], Iterator[Pool]]


def by_engine(name: str, pool: Pool) -> Rank:
    """Ranks by one of Strongroom's engines."""
    engine = engines.load(name)
    index = engine.index()
    for line in pool.lines:
        index.add(line)
    return lambda question, k: engine.rank(question.text, [index], k, question.now)


def _by_recency(pool: Pool) -> Rank:
    """The lines that contain the question, then the newest lines, as with `or_newest`."""
    matching = by_engine("recency", pool)
    newest = [Ranked(line, 0.0) for line in sorted(pool.lines, key=lambda line: (line.time, line.id), reverse=True)]

    def rank(question: Question, k: int) -> Sequence[Ranked]:
        found = matching(question, k)
        known = {one.line.id for one in found}
        return [*found, *(one for one in newest[: 2 * k] if one.line.id not in known)][:k]

    return rank


def _by_peer(peer: FullText | Okapi, pool: Pool) -> Rank:
    return lambda question, k: [Ranked(pool.lines[at], score) for at, score in peer.score(question.text, k)]


def _texts(pool: Pool) -> Iterator[str]:
    return (f"{line.author}: {line.text}" if line.author else line.text for line in pool.lines)


_RANKERS: Mapping[str, Callable[[Pool], Rank]] = {
    OURS: lambda pool: by_engine("lexical", pool),
    FTS5: lambda pool: _by_peer(FullText.of(_texts(pool)), pool),
    BM25: lambda pool: _by_peer(Okapi(_texts(pool)), pool),
    RECENCY: _by_recency,
}


@dataclass(frozen=True, slots=True)
class Answered:
    """One question and what each engine ranked highest for it."""

    question: Question
    ranked: Mapping[str, Sequence[Ranked]]
    pool: Pool = field(repr=False)


def answer(pools: Iterable[Pool], k: int = DEPTH) -> list[Answered]:
    """Ask every engine every question, `k` lines deep."""
    return list(_answered(pools, k))


def _answered(pools: Iterable[Pool], k: int) -> Iterator[Answered]:
    for pool in pools:
        rankers = {name: _RANKERS[name](pool) for name in ENGINES}
        for question in pool.questions:
            yield Answered(question, {name: rank(question, k) for name, rank in rankers.items()}, pool)


def answer_public(load: Load, count: int) -> Sequence[Answered]:
    """The answers for the first pools of a public set, which several rows use: each engine is asked once."""
    return _answer_public(load, count, str(data_directory()))


@cache
def _answer_public(load: Load, count: int, directory: str) -> Sequence[Answered]:  # noqa: ARG001
    # Without the pools, whose lines would stay in memory.
    return [Answered(one.question, one.ranked, Pool([], [])) for one in _answered(islice(load(), count), DEPTH)]


def mean(answered: Sequence[Answered], measure: Measure) -> dict[str, float]:
    """Each engine's mean over the questions, in percent."""
    return {
        name: 100 * sum(measure(one.question, lines_of(one.ranked[name])) for one in answered) / len(answered)
        for name in answered[0].ranked
    }


def lines_of(ranked: Sequence[Ranked]) -> list[Line]:
    return [one.line for one in ranked]
