"""New before old: which lines restate others, and which only look like it."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engines import Ranked
from strongroom.engines.lexical import restatements
from strongroom.model import Line
from tests.engines.test_lexical_index import EXAMPLES
from tests.engines.test_score import ASKED, world
from tests.engines.tools import ENGINE, NOON, answer, filled, line, shelves

pytestmark = pytest.mark.requirement("recall-restatements")

_ASKED = (
    "where am I going this weekend?",
    "what have I bought on my trips",
    "is the boat in the harbour a good present",
    "who moved to Oslo",
)
AGO = NOON - timedelta(days=30)


def _said(*texts: str, author: str = "user") -> list[Line]:
    """Lines of one author, a day after each other, each in a session of its own."""
    return [
        line(number, text, author=author, session=f"s{number}", time=AGO + timedelta(days=number))
        for number, text in enumerate(texts)
    ]


def _ask(query: str, lines: list[Line]) -> list[Ranked]:
    return list(ENGINE.rank(query, [filled(lines)], 10, NOON))


@pytest.mark.parametrize(
    ("old", "new", "query"),
    [
        (
            "My dentist appointment is on May 25",
            "The dentist appointment is not May 25 but May 27",
            "dentist appointment",
        ),
        ("I live in Oslo near the harbour", "I moved to Bergen, so I live near the station", "where do I live"),
        ("I work for the museum as a guard", "I no longer work for the museum", "work for the museum"),
        ("Our wifi password is bluewhale", "Actually the wifi password is redwhale", "wifi password"),
        ("The rent of the flat is 900 euros", "The rent of the flat is 950 euros", "rent of the flat"),
    ],
)
def test_later_line_that_corrects_or_repeats_an_earlier_one_comes_first(old: str, new: str, query: str) -> None:
    lines = _said(old, new)
    for order in permutations(lines):
        first, second = _ask(query, list(order))
        assert (first.line.text, second.line.text) == (new, old)
        assert first.superseded_by is None
        assert second.superseded_by == lines[1].id


@pytest.mark.parametrize("query", ["where did I live before Bergen", "what was my former flat in Bergen or Oslo"])
def test_question_for_the_former_state_keeps_the_order_of_scores(query: str) -> None:
    lines = _said("I live in a flat in Oslo", "I moved to Bergen, my flat is small")
    found = _ask(query, lines)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert {one.superseded_by for one in found} <= {None, lines[1].id}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My dentist is Dr Lee in Oslo", "My sister's dentist is now Dr Wu in Oslo"),
        ("I sold the red bicycle in May", "Tom has now sold the red bicycle in June"),
        ("The dentist costs 90 euros", "Is the dentist now 95 euros?"),
        ("The dentist costs 90 euros", "Finally saw a film about whales"),
    ],
)
def test_line_about_somebody_else_or_something_else_or_a_question_supersedes_nothing(old: str, new: str) -> None:
    found = _ask("dentist bicycle euros", _said(old, new))
    assert [one.superseded_by for one in found] == [None] * len(found)


@pytest.mark.parametrize("author", ["assistant", "Ana"])
def test_line_of_another_author_supersedes_nothing(author: str) -> None:
    old = _said("The rent of the flat is 900 euros")
    new = line(7, "Actually the rent of the flat is 950 euros", author=author, time=NOON - timedelta(days=1))
    assert {one.superseded_by for one in _ask("rent of the flat", [*old, new])} == {None}


def test_line_about_the_asker_goes_before_one_about_a_relative() -> None:
    lines = _said("I see the dentist in Oslo", "My sister sees the dentist in Oslo, the dentist is kind to the sister")
    assert _ask("who is my dentist in Oslo", lines)[0].line.text == lines[0].text


def test_two_lines_of_one_talk_supersede_each_other_only_with_a_correction() -> None:
    first = line(1, "The rent of the flat is 900 euros", author="user", time=AGO)
    minute = AGO + timedelta(minutes=1)
    again = line(2, "The rent of the flat is 950 euros", author="user", time=minute)
    corrected = line(2, "Actually the rent of the flat is 950 euros", author="user", time=minute)
    assert {one.superseded_by for one in _ask("rent of the flat", [first, again])} == {None}
    assert {one.superseded_by for one in _ask("rent of the flat", [first, corrected])} == {None, corrected.id}


@pytest.mark.parametrize("seed", range(3))
def test_no_line_is_dropped_and_no_score_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = world(seed)
    ordered = [{one[:4] for one in answer(query, *indexes)} for query in ASKED]
    monkeypatch.setattr(restatements, "_statements", lambda found: None)
    assert [{one[:4] for one in answer(query, *indexes)} for query in ASKED] == ordered


@pytest.mark.requirement("get-deterministic")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_longer_answer_begins_with_the_shorter_one(examples: int) -> None:
    """It holds for restatements, for the spread over sessions and for standing lines."""

    @settings(max_examples=examples, deadline=None)
    @given(shelves(30), shelves(5), st.integers(0, 2**32))
    def prove(first: list[Line], second: list[Line], seed: int) -> None:
        indexes = [filled(first), filled(Random(seed).sample(second, len(second)))]
        for query in _ASKED:
            whole = answer(query, *indexes, k=30)
            for k in (1, 3, 5, 9):
                assert answer(query, *indexes, k=k) == whole[:k]

    prove()
