"""Standing instructions and preferences: which lines are standing, and which questions they fit."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from strongroom.engines.lexical.codec import EncodedFeatures
from strongroom.engines.lexical.line_features import STANDING, extract
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.standing_choice import CONFIDENCE, PLACES
from strongroom.engines.lexical.standing_instructions import is_standing
from strongroom.model import Line
from tests.engines.tools import ENGINE, NOON, answer, filled, line, texts

pytestmark = pytest.mark.requirement("recall-standing")

METRIC = "Always answer in metric units"
FAR = "how far is Graz from Vienna"


def _facts(count: int) -> list[Line]:
    """Lines that match `FAR`, each by another author, so that none restates another."""
    return [line(100 + at, f"Graz and Vienna, part {at}", author=f"author{at}") for at in range(count)]


@pytest.mark.parametrize(
    "text",
    [
        "always answer in metric units",
        "please call me Sam",
        "I prefer the aisle seat",
        "I don’t eat fish",
        "From now on, reply in German",
        "I'm allergic to nuts",
        "no meetings before ten",
    ],
)
def test_instruction_or_preference_is_standing(text: str) -> None:
    assert is_standing(text)
    assert extract(line(1, text, author="user")).marks & STANDING
    assert not extract(line(1, text, author="assistant")).marks & STANDING


@pytest.mark.parametrize(
    "text",
    [
        "Do you always answer in metric units?",
        "My sister always eats late",
        "I always end up at the same bar",
        "We went to Graz and had a soup",
        "always " * 40,
        "",
    ],
)
def test_question_habit_of_others_story_or_long_text_is_not_standing(text: str) -> None:
    assert not is_standing(text)


def test_standing_line_of_the_kind_of_a_request_comes_along_without_a_common_word() -> None:
    rule = line(1, METRIC)
    found = answer(FAR, filled([rule, *_facts(6)]), k=5)
    assert [one.id for one in found].index(rule.id) == PLACES[0]
    one = found[PLACES[0]]
    assert (one.score, one.confidence, one.standing) == (0.0, CONFIDENCE, True)
    assert [one.id for one in answer(FAR, filled([rule]), k=5)] == [rule.id]


@pytest.mark.parametrize(
    "query", ["how far did I walk yesterday", "when was my trip to Graz", "what did you tell me about the distance"]
)
def test_question_about_the_past_gets_no_standing_line(query: str) -> None:
    assert Question.of(query, NOON).kinds == 0
    assert METRIC not in texts(query, filled([line(1, METRIC), *_facts(3)]))


def test_question_that_names_a_speaker_gets_no_standing_line() -> None:
    assert METRIC not in texts(f"{FAR}, author1", filled([line(1, METRIC), *_facts(3)]))


def test_standing_line_of_another_kind_does_not_come_along() -> None:
    assert texts(FAR, filled([line(1, "I never eat fish for dinner")])) == []


def test_no_more_standing_lines_than_places_come_along_and_the_newest_ones() -> None:
    rules = [line(number, f"{METRIC} {number}") for number in range(8)]
    found = answer(FAR, filled([*rules, *_facts(9)]), k=12)
    assert [one.id for one in found if one.standing] == [rules[7].id, rules[6].id]
    assert [at for at, one in enumerate(found) if one.standing] == list(PLACES)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_short_answer_has_only_the_best_matches(k: int) -> None:
    facts = _facts(5)
    assert not any(one.standing for one in answer(FAR, filled([line(1, METRIC), *facts]), k=k))


def test_excluded_standing_line_makes_room_and_changes_no_score() -> None:
    rules = [line(number, f"{METRIC} {number}") for number in range(3)]
    index = filled([*rules, *_facts(5)])
    found = answer(FAR, index, k=9)
    left = answer(FAR, index, k=9, without=frozenset([rules[2].id]))
    assert [one.id for one in left if one.standing] == [rules[1].id, rules[0].id]
    assert {one for one in found if not one.standing} == {one for one in left if not one.standing}


def test_standing_line_that_was_removed_or_belongs_to_an_index_not_given_does_not_come_along() -> None:
    rule = line(1, METRIC)
    index, denied = filled([rule, *_facts(5)]), filled([line(2, METRIC, namespace="personal")])
    index.remove(rule)
    assert answer(FAR, index) == answer(FAR, filled(_facts(5)))
    assert answer(FAR, denied)
    assert answer(FAR, index) == answer(FAR, filled(_facts(5)))


def test_standing_line_comes_along_from_stored_index_data_too() -> None:
    lines = [line(1, METRIC), *_facts(4)]
    index = ENGINE.index()
    index.add_read(lines, ENGINE.readings(lines))
    assert answer(FAR, index) == answer(FAR, filled(lines))


def test_standing_line_among_the_best_matches_is_marked_and_stays_there() -> None:
    rule = line(1, "always answer how far Graz is from Vienna in kilometres", time=NOON - timedelta(days=2))
    found = answer(FAR, filled([rule, *_facts(5)]), k=5)
    assert [(one.standing, one.score > 0) for one in found if one.id == rule.id] == [(True, True)]


def test_index_data_of_earlier_rules_is_refused() -> None:
    lines = [line(1, METRIC)]
    kept = msgspec.msgpack.decode(ENGINE.readings(lines), type=EncodedFeatures)
    assert kept.version.startswith("2/")
    earlier = msgspec.structs.replace(kept, version="1" + kept.version[1:])
    index = ENGINE.index()
    with pytest.raises(ValueError, match="other rules"):
        index.add_read(lines, msgspec.msgpack.encode(earlier))
    assert (index.line_count, len(index.standing), index.postings) == (0, 0, {})
