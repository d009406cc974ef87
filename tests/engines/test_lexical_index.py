"""What the lexical engine's index must never show: another shelf, a line that left, the order of arrival."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import permutations
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strongroom import NewLine, Token, Vault
from strongroom.engines.lexical import term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import Days
from strongroom.model import Hit, Line, Millis
from tests.conftest import ALL_OPS
from tests.engines.tools import ENGINE, NOON, QUERIES, Answer, answer, arrived, filled, line, shelves, texts

EXAMPLES = [pytest.param(80, id="some"), pytest.param(600, id="many", marks=pytest.mark.long)]


def _elsewhere(lines: Sequence[Line], namespace: str) -> list[Line]:
    return [
        line(one_number, one.text, session=one.session, author=one.author, time=one.time, namespace=namespace)
        for one_number, one in enumerate(lines)
    ]


def _answers(*indexes: LexicalIndex, k: int = 20) -> list[list[Answer]]:
    return [answer(query, *indexes, k=k) for query in QUERIES]


# A denied namespace changes no score.


@pytest.mark.requirement("recall-denied-silent")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_shelves_that_are_not_given_change_no_score(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves(), shelves(), shelves())
    def prove(own: list[Line], second: list[Line], denied: list[Line]) -> None:
        alone = filled(own)
        before = _answers(alone)
        other = filled(_elsewhere(second, "work"))
        both = _answers(alone, other)
        hidden = filled(_elsewhere(denied, "personal"))
        _answers(hidden)
        _answers(alone, other, hidden)
        assert _answers(alone) == before
        assert _answers(alone, other) == both
        assert _answers(filled(own)) == before

    prove()


@pytest.mark.requirement("recall-denied-silent")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_order_in_which_shelves_are_given_changes_nothing(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves(6), shelves(6), shelves(6))
    def prove(first: list[Line], second: list[Line], third: list[Line]) -> None:
        indexes = [filled(first), filled(_elsewhere(second, "work")), filled(_elsewhere(third, "family"))]
        assert len({tuple(map(tuple, _answers(*order))) for order in permutations(indexes)}) == 1

    prove()


@pytest.mark.requirement("recall-denied-silent")
def test_statistics_come_from_every_shelf_that_is_given() -> None:
    """The other direction: were shelves scored each for itself, the tests above would hold for the wrong reason."""
    own = filled([line(1, "blue boat"), line(2, "green lamp")])
    crowd = filled([line(number, "a boat again", namespace="work") for number in range(9)])
    alone, shared = (
        next(one.score for one in answer("blue boat", *given) if one.id.endswith("1"))
        for given in ([own], [own, crowd])
    )
    assert alone != shared


def _scores(hits: Sequence[Hit]) -> list[tuple[str, str, float]]:
    return [(hit.namespace, hit.id, hit.score) for hit in hits]


@pytest.mark.requirement("recall-denied-silent")
def test_lines_in_denied_namespaces_and_of_other_actors_change_no_score_of_a_vault(
    vault: Vault, cap: Token, reopen: Callable[[], Vault]
) -> None:
    everything = vault.memory(cap)
    everything.put_many(
        [
            NewLine(text="Trip to Chengdu, May 25-29", namespace="travel", session="a"),
            NewLine(text="Is the hotel in Chengdu booked?", namespace="travel", session="a"),
            NewLine(text="I booked it near the station", namespace="travel", session="a"),
            NewLine(text="The weekend train is going to Leshan", namespace="travel"),
        ]
    )
    travel = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"])
    asked = ["where am I going this weekend?", "hotel chengdu", "no such word", "station on May 26"]

    def seen(by: Vault) -> list[list[tuple[str, str, float]]]:
        return [_scores(by.memory(travel).get(query, k=20, now=NOON)) for query in asked]

    before = seen(vault)
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=["travel", "personal"])
    for number in range(40):
        text = f"Going to a hotel in Chengdu this weekend, May 26, the station {number}?"
        everything.put(text, namespace="personal", session="a")
        vault.memory(bob).put(text, namespace="travel", session="a")
    assert everything.get("hotel chengdu", k=20, now=NOON)  # the other shelves are in RAM now
    assert vault.memory(bob).get("hotel chengdu", k=20, now=NOON)
    assert seen(vault) == before
    assert seen(reopen()) == before
    both = [_scores(everything.get(query, namespaces=["travel", "work"], k=20, now=NOON)) for query in asked]
    assert both == before


@pytest.mark.requirement("recall-denied-silent", "recall-remove")
def test_nothing_of_a_line_or_a_query_is_remembered_outside_its_index() -> None:
    """A cache of words would carry them from one shelf to another, and past forgetting."""
    before = _outside()
    index = filled([line(1, "Plugh walked to xyzzy成都 on May 25, plugh_one@xyzzy.example", author="Xyzzyson")])
    answer("where did plugh walk on xyzzyday, May 26?", index)
    assert "plugh" in _written_out(index)
    after = _outside()
    assert "plugh" not in after.lower()
    assert "xyzzy" not in after.lower()
    assert after == before


def _outside() -> str:
    """What the engine's modules hold, and how full their caches are."""
    held = {name: vars(module) for name, module in sys.modules.items() if name.startswith("strongroom.engines")}
    caches = [
        (name, thing.cache_info().currsize)
        for module in held.values()
        for name, thing in module.items()
        if hasattr(thing, "cache_info")
    ]
    data = {
        name: {key: one for key, one in module.items() if isinstance(one, _DATA) and key[:2] != "__"}
        for name, module in held.items()
    }
    return f"{sorted(caches)} {data}"


_DATA = (dict, list, set, frozenset, tuple, str, int, bytes)


# A line that was removed leaves no trace.


@pytest.mark.requirement("recall-remove")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_index_that_lost_lines_answers_as_one_that_never_had_them(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves(), st.sets(st.integers(0, 11)))
    def prove(lines: list[Line], leaving: set[int]) -> None:
        gone = [one for number, one in enumerate(lines) if number in leaving]
        kept = [one for number, one in enumerate(lines) if number not in leaving]
        index, never = filled(lines), filled(kept)
        for one in gone:
            index.remove(one)
        assert _answers(index) == _answers(never)
        assert _facts(index) == _facts(never)

    prove()


def _listed(held: array[int] | int) -> Sequence[int]:
    return [held] if isinstance(held, int) else held


def _facts(index: LexicalIndex) -> object:
    """All that an index knows, told by ids instead of numbers."""
    every = Days(-(10**7), 10**7)
    return (
        index.line_count,
        index.session_count,
        index.word_count,
        index.reply_count,
        _standing(index),
        {
            word: sorted((index.line(at >> 8).id, at & 255) for at in _listed(held))
            for word, held in index.postings.items()
        },
        sorted(one.id for one in filter(None, index.lines)),
        sorted((index.line(number).id, *days) for days, numbers in index.calendar.spoken(every) for number in numbers),
        _neighbours(index),
    )


def _standing(index: LexicalIndex) -> object:
    held = vars(index.standing)
    return (
        sorted((index.line(number).id, kinds) for number, kinds in held["_kinds"].items()),
        {bit: [name for _, name, _ in places] for bit, places in held["_by_kind"].items()},
        {word: sorted(index.line(number).id for number in numbers) for word, numbers in held["_by_word"].items()},
    )


def _neighbours(index: LexicalIndex) -> list[tuple[str, list[str | None], int, int, int]]:
    found: list[tuple[str, list[str | None], int, int, int]] = []
    for number, one in enumerate(index.lines):
        if one is not None:
            beside: list[str | None] = [
                None if at < 0 else index.line(at).id for at in (index.previous[number], index.next[number])
            ]
            session = index.session_lengths[index.sessions[number]]
            found.append((one.id, beside, session, index.lengths[number], index.marks[number]))
    return sorted(found, key=lambda one: one[0])


@pytest.mark.requirement("recall-remove")
@pytest.mark.parametrize("kept", [False, True], ids=["read", "kept"])
def test_nothing_of_a_removed_line_stays_in_the_index(kept: bool) -> None:
    marked = line(7, "Always xyzzyword of xyzzy成都, May 25-29", session="xyzzysession", author="Xyzzyauthor")
    others = [line(1, "an ordinary boat", session="s"), line(2, "a lamp")]
    index = filled(others)
    if kept:
        index.add_read([marked], ENGINE.readings([marked]))
    else:
        index.add(marked)
    assert "xyzzy" in _written_out(index).lower()
    assert "成都" in _written_out(index)
    index.remove(marked)
    left = _written_out(index)
    assert "xyzzy" not in left.lower()
    assert "成都" not in left
    assert marked.id not in left
    assert str(marked.time) not in left
    assert not index.calendar.count(marked.time, Millis(marked.time + 1))
    assert marked.id not in index._numbers
    assert texts("xyzzyword 成都 May 26", index) == texts("no such word", filled(others))


def _written_out(index: LexicalIndex) -> str:
    return f"{vars(index)} {vars(index.calendar)} {vars(index.standing)}"


def test_index_from_which_everything_was_removed_is_empty_and_can_be_used_again() -> None:
    lines = [line(number, f"boat {number}", session="s" if number % 2 else "") for number in range(6)]
    index = filled(lines)
    for one in lines:
        index.remove(one)
    assert (index.line_count, index.session_count, index.word_count, index.postings) == (0, 0, 0, {})
    assert _answers(index) == [[] for _ in QUERIES]
    for one in lines:
        index.add(one)
    assert _facts(index) == _facts(filled(lines))


def test_removing_a_line_that_was_never_there_changes_nothing() -> None:
    lines = [line(1, "a boat", session="s"), line(2, "a lamp", session="s")]
    index = filled(lines)
    index.remove(line(3, "a boat", session="s"))
    index.remove(line(4, "a lamp", time=lines[1].time))
    assert _facts(index) == _facts(filled(lines))


# The same answer for any order of arrival.


@pytest.mark.requirement("recall-order", "get-deterministic")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_answer_and_its_scores_do_not_depend_on_how_the_lines_came(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(shelves(), shelves(4), st.integers(0, 2**32))
    def prove(lines: list[Line], passing: list[Line], seed: int) -> None:
        never = [
            line(90 + number, one.text, session=one.session, author=one.author, time=one.time)
            for number, one in enumerate(passing)
        ]
        in_order, otherwise = filled(lines), arrived(lines, never, Random(seed))
        assert _answers(otherwise) == _answers(in_order)
        assert _answers(otherwise, k=2) == _answers(in_order, k=2)
        beside = filled(_elsewhere(passing, "work"))
        assert _answers(otherwise, beside) == _answers(beside, in_order)
        assert _facts(otherwise) == _facts(in_order)

    prove()


@pytest.mark.requirement("recall-order")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_answer_does_not_depend_on_arrival_when_most_lines_are_pruned(
    examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_weights, "ENOUGH", 3)
    monkeypatch.setattr(term_weights, "SHORTLIST", 2)

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(shelves(16), st.integers(0, 2**32))
    def prove(lines: list[Line], seed: int) -> None:
        assert _answers(arrived(lines, [], Random(seed))) == _answers(filled(lines))

    prove()


@pytest.mark.requirement("recall-order")
def test_line_is_between_its_neighbours_in_time_however_late_it_comes() -> None:
    first, second, third = (line(number, f"boat {number}", session="s") for number in (1, 2, 3))
    for order in permutations([first, second, third]):
        assert _neighbours(filled(order)) == _neighbours(filled([first, second, third]))
        one = filled(order)
        one.remove(second)
        assert [beside for _, beside, *_ in _neighbours(one)] == [[None, third.id], [first.id, None]]


@pytest.mark.requirement("recall-order")
def test_lines_of_one_moment_follow_their_ids() -> None:
    lines = [line(number, "boat", session="s", time=NOON - timedelta(days=3)) for number in (1, 2, 3)]
    for order in permutations(lines):
        assert [one.id for one in answer("boat", filled(order))] == [one.id for one in reversed(lines)]
        assert _neighbours(filled(order)) == _neighbours(filled(lines))


def test_lines_without_a_session_have_no_neighbours() -> None:
    index = filled([line(1, "Where is the boat?"), line(2, "In the harbour")])
    assert [beside for _, beside, *_ in _neighbours(index)] == [[None, None], [None, None]]
    assert index.session_count == 2
    assert texts("boat", index) == ["Where is the boat?"]


def test_calendar_finds_a_long_stay_that_began_long_before() -> None:
    index = filled(
        [line(1, "We rent the cabin from January 5 to December 20, 2026"), line(2, "On May 19, 2026 the boat came")]
    )
    day = (NOON.date() - timedelta(days=1)).toordinal()
    found = [
        (index.line(number).id[-1], days.first <= day <= days.last)
        for days, numbers in index.calendar.spoken(Days(day, day))
        for number in numbers
    ]
    assert sorted(found) == [("1", True), ("2", True)]
