"""Which recalled lines a turn shows: sure enough, with a match of their own, few, and the newer of two statements."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from strongroom.hermes.policy import LINES_LIMIT, Recall
from strongroom.hermes.provider import fitting_lines
from strongroom.model import Hit, Kind, LineId, Millis, Namespace, Provenance
from tests.hermes.provider.conftest import Wired

pytestmark = pytest.mark.requirement("hermes-floor")
TODAY = date(2026, 11, 20)
QUESTION = "What does the roof cost?"
ANY = Recall(min_confidence=0.0, neighbours=True)


def hit(
    text: str,
    confidence: float = 0.1,
    *,
    score: float = 1.0,
    standing: bool = False,
    author: str = "user",
    superseded_by: str | None = None,
) -> Hit:
    return Hit(
        id=LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),
        namespace=Namespace("family"),
        text=text,
        time=datetime(2026, 5, 20, 12, tzinfo=UTC),
        kind=Kind.TURN,
        session="s",
        author=author,
        score=score,
        provenance=Provenance((), "", "hermes", Millis(0)),
        confidence=confidence,
        standing=standing,
        superseded_by=None if superseded_by is None else LineId(superseded_by),
    )


def shown(*hits: Hit, question: str = QUESTION, recall: Recall | None = None) -> list[str]:
    return [one.text for one in fitting_lines.fitting(hits, question, TODAY, recall or Recall())]


# What is left out.


def test_line_that_is_half_as_sure_as_the_best_is_left_out() -> None:
    lines = hit("the roof costs 100", 0.2), hit("the roof leaks", 0.1), hit("a roof in Rome", 0.09)
    assert shown(*lines) == ["the roof costs 100", "the roof leaks"]


@pytest.mark.parametrize("author", ["user", "assistant"])
def test_neighbour_without_a_word_of_the_question_is_left_out(author: str) -> None:
    assert shown(hit("the roof costs 100", 0.2), hit("We get the keys in May", 0.2, author=author)) == [
        "the roof costs 100"
    ]


def test_standing_line_beyond_the_budget_is_left_out() -> None:
    lines = [hit(f"always {number}", score=0.0, standing=True) for number in range(3)]
    assert shown(*lines) == ["always 0"]
    assert shown(*lines, recall=Recall(standing=0)) == []
    assert shown(*lines, recall=Recall(standing=2)) == ["always 0", "always 1"]


def test_superseded_line_is_left_out_where_room_is_short() -> None:
    old = hit("the roof costs 100", 0.2, superseded_by="01JABCDEFGHJKMNPQRSTVWXYZ1")
    new = hit("the roof costs 120", 0.2)
    assert shown(old, new, recall=Recall(lines=1)) == ["the roof costs 120"]
    assert shown(old, new) == ["the roof costs 120", "the roof costs 100"]


def test_more_matches_than_the_policy_says_are_left_out() -> None:
    assert len(shown(*[hit(f"roof {number}") for number in range(9)])) == 3


# The floor.


def test_floor_of_a_question_that_names_a_time_or_has_no_spaces_is_half_of_the_policys() -> None:
    assert fitting_lines.floor("When is my trip?", TODAY, Recall()) == 0.02
    assert fitting_lines.floor("Where am I going this weekend?", TODAY, Recall()) == 0.01
    assert fitting_lines.floor("我什么时候去成都?", TODAY, Recall()) == 0.01
    assert fitting_lines.floor("When is my trip?", TODAY, ANY) is None


# What stays.


def test_policy_without_a_floor_and_with_neighbours_shows_every_match() -> None:
    lines = hit("the roof costs 100", 0.9), hit("We get the keys in May", 0.001)
    assert len(shown(*lines, recall=ANY)) == 2


def test_line_found_by_its_day_stays_although_it_shares_no_word() -> None:
    trip = hit("My trip to Chengdu is from May 25 to May 29")
    assert shown(trip, question="where am I going this weekend?") == [trip.text]


def test_line_of_the_person_who_is_named_stays() -> None:
    assert shown(hit("I'd rather have slate", author="Anna"), question="What did Anna want?") == [
        "I'd rather have slate"
    ]


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("What did the builders want for insulating the roof?", "The builder asked 100 for insulation"),
        ("我什么时候去成都?", "我五月二十五日去成都旅行"),
        ("Когда поездка в Чэнду?", "Поездки в Чэнду дороги"),
    ],
)
def test_other_form_of_a_word_is_a_match_in_any_script(question: str, line: str) -> None:
    assert shown(hit(line), question=question) == [line]


def test_standing_line_needs_no_word_and_takes_no_other_lines_place() -> None:
    lines = [*[hit(f"roof {number}") for number in range(3)], hit("Always in euros", score=0.0, standing=True)]
    assert len(shown(*lines)) == 4
    assert fitting_lines.number_of_lines(Recall()) == 4
    assert fitting_lines.number_of_lines(Recall(lines=0)) == 0
    assert fitting_lines.number_of_lines(Recall(lines=LINES_LIMIT)) == LINES_LIMIT


# In a memory.


def test_task_that_memory_knows_nothing_of_is_shown_nothing(either: Wired) -> None:
    either.put("The mortgage is with Havenbank, 3.4 percent for twenty years", "family")
    either.put("The intern asked whether lux is a brand of soap", "work")
    assert either.agent().prefetch("Explain in two sentences how a Fresnel lens works") == ""


def test_line_that_warns_is_shown_although_the_question_has_words_that_memory_does_not_know(either: Wired) -> None:
    for text in ("Our cat is going grey", "The soup is too salty", "The printer is on the second floor"):
        either.put(text, "personal")
    either.put("I'm allergic to peanuts, they made me very ill once", "personal")
    assert "allergic" in either.agent().prefetch("Can I eat this peanut cookie?")


def test_reply_near_a_match_is_not_shown_unless_the_policy_says_so(either: Wired) -> None:
    for text, author in (("The roof needs insulating", "user"), ("Knee pads are cheap and glorious", "assistant")):
        either.put(text, "family", author=author, session="s9")
    assert "Knee pads" not in either.agent().prefetch("Who insulates the roof?")
    either.write("[recall]\nmin_confidence = 0.0\nneighbours = true")
    assert "needs insulating" in either.agent("s2").prefetch("Who insulates the roof?")
