"""The best of many: lines that were left out could not have won, and lines that are not wanted change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engines import Ranked
from strongroom.engines.lexical import restatements, session_spread
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.model import Line, millis
from tests.engines.test_lexical_index import EXAMPLES
from tests.engines.tools import DAY, ENGINE, NOON, QUERIES, Answer, answer, filled, line, shelves

ALL = 10**9
_WORDS = """
    boat harbour lantern rope mast sail hull oar anchor deck weekend yesterday Chengdu Oslo May sister bought sold
    painted left found three twice
"""
ASKED = (
    *QUERIES,
    "what did Ana say about the lantern and the rope yesterday",
    "when was the last time that Ben painted the hull of the boat in Oslo?",
    "how many anchors did my sister buy in May",
    "boat harbour lantern rope mast sail hull oar anchor deck",
)


def _talk(chance: Random, count: int, namespace: str) -> Iterator[Line]:
    """Lines of several speakers in sessions, some of them questions, some long, some with days in them."""
    for number in range(count):
        text = " ".join(chance.choices(_WORDS.split(), k=chance.choice((2, 5, 9, 40))))
        yield line(
            number,
            text + ("?" if chance.random() < 0.3 else ""),
            session=f"s{number // 6}" if chance.random() < 0.8 else "",
            author=chance.choice(("user", "assistant", "Ana", "Ben", "")),
            time=millis(NOON) - chance.randrange(60 * DAY),
            namespace=namespace,
        )


def world(seed: int) -> list[LexicalIndex]:
    chance = Random(seed)
    sizes = zip(("personal", "family", "work"), (120, 30, 6), strict=True)
    return [filled(_talk(chance, count, name)) for name, count in sizes]


def _first(query: str, indexes: Sequence[LexicalIndex], k: int) -> list[Answer]:
    """The first of all lines of the shortlist, of which none was left out."""
    return answer(query, *indexes, k=ALL)[:k]


@pytest.mark.usefixtures("way")
@pytest.mark.requirement("recall-pruning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 5, 20])
def test_line_that_is_left_out_could_not_have_won(seed: int, k: int) -> None:
    indexes = world(seed)
    for query in ASKED:
        assert answer(query, *indexes, k=k) == _first(query, indexes, k)


@pytest.mark.usefixtures("way")
@pytest.mark.requirement("recall-pruning")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_line_that_is_left_out_could_not_have_won_on_any_shelf(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves(30), shelves(5), st.integers(1, 4))
    def prove(first: list[Line], second: list[Line], k: int) -> None:
        indexes = [filled(first), filled(second)]
        for query in QUERIES:
            assert answer(query, *indexes, k=k) == _first(query, indexes, k)

    prove()


@pytest.mark.usefixtures("way")
@pytest.mark.requirement("recall-without")
@pytest.mark.parametrize("query", ASKED)
def test_lines_that_are_not_wanted_make_room_and_change_no_score(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = world(7)
    # The order of restatements and the spread over sessions depend on the lines that are left.
    monkeypatch.setattr(restatements, "WINDOW", 0)
    monkeypatch.setattr(session_spread, "PENALTY", 0.0)
    every = ENGINE.rank(query, indexes, 40, NOON)
    chance = Random(query)
    for count in (0, 1, 8, 30):
        names = frozenset(one.line.id for one in chance.sample(list(every), min(count, len(every))))
        wanted = [one for one in every if one.line.id not in names][:5]
        found = ENGINE.rank_without(query, indexes, 5, NOON, names)
        assert _scores(found) == _scores(wanted)
        assert [one.confidence for one in found] == [one.confidence for one in wanted]


@pytest.mark.usefixtures("way")
@pytest.mark.requirement("recall-without")
def test_lines_that_do_not_match_never_replace_unwanted_matches() -> None:
    index = filled([line(1, "boat"), line(2, "lamp"), line(3, "rope")])
    unwanted = frozenset([line(1, "boat").id])
    assert ENGINE.rank_without("boat", [index], 5, NOON, unwanted) == []
    assert ENGINE.rank_without("mast", [index], 2, NOON, unwanted) == []


@pytest.mark.requirement("recall-pruning")
def test_speaker_is_known_as_long_as_one_line_of_theirs_is_there() -> None:
    lines = [line(1, "boat", author="Ana Lopez"), line(2, "lamp", author="ana"), line(3, "rope", author="user")]
    one_by_one, at_once = filled(lines), ENGINE.index()
    at_once.add_read(lines, ENGINE.readings(lines))
    for index in (one_by_one, at_once):
        assert index.is_speaker(frozenset(["ana"]))
        assert not index.is_speaker(frozenset(["user"]))
        index.remove(lines[0])
        assert index.is_speaker(frozenset(["ana"]))
        assert not index.is_speaker(frozenset(["lopez"]))
        index.remove(lines[1])
        assert not index.is_speaker(frozenset(["ana"]))


def _scores(ranked: Sequence[Ranked]) -> list[tuple[str, str, float]]:
    return [(one.line.namespace, one.line.id, one.score) for one in ranked]
