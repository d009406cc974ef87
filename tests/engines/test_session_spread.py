"""The spread of an answer over sessions: only where a question asks for several things."""

from __future__ import annotations

import pytest

from strongroom.engines.lexical.query import Question
from tests.engines.tools import NOON, filled, line, texts

pytestmark = pytest.mark.requirement("recall-lists")

_TOLD = [
    line(1, "trip to Oslo, trip to Oslo, trip with a boat", session="a", author="user"),
    line(2, "trip to Oslo, trip to Oslo, trip with a lamp", session="a", author="Ana"),
    line(3, "trip to Oslo, trip to Oslo, trip with a rope", session="a", author="Ben"),
    line(4, "trip to Lima, trip to Lima, trip with an oar", session="b", author="Eve"),
]


@pytest.mark.parametrize("query", ["which trips", "all about the trip", "what trips have I made", "list every trip"])
def test_question_for_several_things_is_answered_from_several_sessions(query: str) -> None:
    assert Question.of(query, NOON).asks_many
    assert "trip to Lima, trip to Lima, trip with an oar" in texts(query, filled(_TOLD), k=3)


@pytest.mark.parametrize("query", ["the trip", "when was the trip", "who was on the trip", "what is this trip"])
def test_other_questions_are_answered_by_score_alone(query: str) -> None:
    assert not Question.of(query, NOON).asks_many
    assert texts(query, filled(_TOLD), k=4)[-1] == "trip to Lima, trip to Lima, trip with an oar"
