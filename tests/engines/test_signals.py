"""The signals one by one: two lines that differ in one thing rank as that thing says, by exactly its weight.

The better line is always the older one with the lower id, so that without its signal it would come second.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strongroom.engines.lexical import search, signals, term_weights
from strongroom.engines.lexical.line_features import (
    ASKS,
    ASSISTANT,
    COUNTS,
    DATED,
    MORE_NAMES,
    ONE_NAME,
    STANDING,
    extract,
)
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.weights import AMONG_PEOPLE, WITH_ASSISTANT
from strongroom.model import Line
from tests.engines.test_score import world
from tests.engines.tools import ENGINE, NOON, QUERIES, answer, filled, line, texts

pytestmark = [pytest.mark.requirement("recall-signals"), pytest.mark.usefixtures("way")]

HOUR = timedelta(hours=1)
AGO = NOON - timedelta(days=100)
W = AMONG_PEOPLE


def _pair(query: str, better: str | Line, worse: str | Line, *others: Line) -> float:
    """By how much the better of two lines is ahead; it must be."""
    one = line(1, better, time=AGO) if isinstance(better, str) else better
    two = line(2, worse, time=AGO) if isinstance(worse, str) else worse
    assert (one.time, one.id) < (two.time, two.id)
    scores = {found.id: found.score for found in answer(query, filled([two, one, *others]))}
    assert scores[one.id] > scores[two.id]
    return scores[one.id] - scores[two.id]


def _off(weight: float) -> Any:
    return pytest.approx(weight, abs=1e-9)


# Signals of a line's marks. The words of both lines, and how many there are, are the same.


def test_question_is_no_answer() -> None:
    assert _pair("parcel", "the parcel is at the depot", "the parcel is at the depot?") == _off(-W.asks)
    assert _pair("包裹", "包裹在这里", "包裹在这里？") == _off(-W.asks)


def test_long_text_that_ends_in_a_question_is_no_question() -> None:
    assert extract(line(1, "so " * 60 + "is it here?")).marks & ASKS
    assert not extract(line(1, "so " * 70 + "is it here?")).marks & ASKS


def test_peoples_words_go_before_the_assistants() -> None:
    said = line(1, "the parcel is at the depot", author="user", time=AGO)
    replied = line(2, "the parcel is at the depot", author="Assistant", time=AGO)
    assert _pair("parcel", said, replied) == _off(-WITH_ASSISTANT.assistant)


def test_asked_what_the_assistant_said_its_words_go_before_peoples() -> None:
    replied = line(1, "the parcel is at the depot", author="assistant", time=AGO)
    said = line(2, "the parcel is at the depot", author="user", time=AGO)
    ahead = WITH_ASSISTANT.asked_assistant + WITH_ASSISTANT.assistant
    assert ahead > 0
    for query in ("what did you suggest about the parcel", "you told me about the parcel", "your advice on the parcel"):
        assert _pair(query, replied, said) == _off(ahead)
    for query in ("did you know that the parcel came", "thank you, and the parcel"):
        with pytest.raises(AssertionError):
            _pair(query, replied, said)


def test_asked_when_a_line_that_has_a_time_goes_first() -> None:
    better, worse = "the parcel came recently", "the parcel came quietly"
    assert _pair("when did the parcel come", better, worse) == _off(W.says_when)
    assert _pair("いつ parcel", better, worse) == _off(W.says_when)
    with pytest.raises(AssertionError):
        _pair("did the parcel come", better, worse)


def test_asked_how_many_a_line_that_has_a_number_goes_first() -> None:
    better, worse = "the house has seven lamps", "the house has lovely lamps"
    assert _pair("how many lamps", better, worse) == _off(W.says_how_many)
    assert _pair("lamps 多少", better, worse) == _off(W.says_how_many)
    with pytest.raises(AssertionError):
        _pair("which lamps", better, worse)


def test_asked_who_or_where_lines_that_have_names_go_first() -> None:
    several = line(1, "the lamp from Lisbon by Bruno", time=AGO)
    one = line(2, "the lamp from Lisbon by someone", time=AGO)
    none = line(3, "the lamp from nowhere by someone", time=AGO)
    assert _pair("where is the lamp", several, one) == _off(W.says_name)
    assert _pair("who made the lamp", one, none) == _off(W.says_name)
    assert _pair("lamp 谁", several, none) == _off(2 * W.says_name)
    with pytest.raises(AssertionError):
        _pair("how is the lamp", several, none)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("boat", 0),
        ("is it here?", ASKS),
        ("was it here? yes", 0),
        ("it came yesterday", DATED),
        ("on the 3rd", DATED | COUNTS),
        ("in 1999", DATED | COUNTS),
        ("昨天到", DATED),
        ("seven", COUNTS),
        ("always take my boat", STANDING),
        ("私の", 0),
        ("Boat", 0),
        ("So. Then. Now.", 0),
        ("boat to Porto", ONE_NAME),
        ("boat to Porto with Ana", MORE_NAMES),
    ],
)
def test_marks_of_a_line(text: str, marks: int) -> None:
    assert extract(line(1, text)).marks == marks


def test_assistant_is_marked_by_its_role() -> None:
    assert extract(line(1, "boat", author="assistant")).marks == ASSISTANT
    assert extract(line(1, "boat", author="Assistant Manager")).marks == 0


# Signals of the line itself.


def test_line_with_more_to_say_goes_before_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = [line(number, f"{'filler ' * 40}{number}", session="s") for number in range(10, 16)]
    long = line(1, "boat oars mast sail rope hull", session="s", time=crowd[2].time - 1)
    short = line(2, "boat", session="s", time=crowd[4].time - 1)
    assert 0 < _pair("boat", long, short, *crowd) < W.substance * (math.log(7) - math.log(2))
    flat = signals.Weighing.of(W._replace(substance=0.0))
    monkeypatch.setattr(search, "weighing_for", lambda lines, replies: flat)
    with pytest.raises(AssertionError):  # BM25 alone prefers the shortest
        _pair("boat", long, short, *crowd)


def test_substance_ends_at_thirty_words() -> None:
    assert signals.substance(29) == signals.substance(30) == signals.substance(9999) == math.log(30)
    assert signals.substance(0) == 0.0
    question = Question.of("boat", NOON)
    weighing = signals.weighing_for(1, 0)
    lengths = [weighing.of_lines([(line(1, "boat"), length)], question)[0] for length in range(40)]
    assert lengths == [pytest.approx(W.substance * min(math.log1p(length), math.log(30))) for length in range(40)]


def test_speaker_that_the_query_names_goes_first() -> None:
    """Both names are words of their lines, and of the query: what differs is that one stands as the author."""
    hers = line(1, "sold the boat", author="Ana Silva", time=AGO)
    of_her = line(2, "sold the boat ana silva", time=AGO)
    assert _pair("what did ana sell?", hers, of_her) == _off(W.speaker)
    assert _pair("what did ANA SILVA sell?", hers, of_her) == _off(W.speaker)


def test_role_is_nobodys_name() -> None:
    question = Question.of("what did the user and the assistant say about the boat", NOON)
    assert signals.speaker(line(1, "the boat", author="user"), question) == 0.0
    assert signals.speaker(line(1, "the boat", author="Assistant"), question) == 0.0
    assert "user" not in extract(line(1, "the boat", author="user")).counts
    assert extract(line(1, "the boat", author="Ana")).counts == {"boat": 1, "ana": 1}


def test_asked_for_the_last_time_the_newer_of_two_equal_lines_goes_first() -> None:
    newer, older = line(1, "met the doctor", time=NOON - HOUR), line(2, "met the doctor", time=AGO)
    ordinary = filled([newer, older])
    scores = {found.id: found.score for found in answer("my latest doctor", ordinary)}
    month, ago = 30 * 24, 100 * 24
    assert scores[newer.id] - scores[older.id] == _off(W.latest * (1 / (1 + 1 / month) - 1 / (1 + ago / month)))
    even = [found.score for found in answer("doctor", ordinary)]
    assert even[0] == even[1]


def test_future_line_is_not_later_than_now() -> None:
    question = Question.of("the latest boat", NOON)
    assert signals.latest(line(1, "boat", time=NOON + 900 * HOUR), question) == 1.0
    assert signals.latest(line(1, "boat", time=NOON), question) == 1.0
    assert signals.latest(line(1, "boat", time=NOON), Question.of("the boat", NOON)) == 0.0


# Signals of matching.


def _talk(session: str, first: int, *said: str) -> list[Line]:
    return [line(first + at, text, session=session, time=AGO + at * HOUR) for at, text in enumerate(said)]


def test_answer_to_a_question_that_asked_for_it_goes_before_one_after_a_statement() -> None:
    asked = _talk("a", 1, "did the parcel arrive?", "it did arrive")
    told = _talk("b", 3, "did the parcel arrive", "it did arrive")
    found = {one.id: one.score for one in answer("parcel", filled([*told, *asked]))}
    # What the line before holds of all that was looked for, by BM25: one word of its two, where lines have 1.5.
    held = 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 1.5))
    assert found[asked[1].id] - found[told[1].id] == _off(W.question_before * held)


def test_question_before_that_asked_for_something_else_adds_nothing() -> None:
    asked = _talk("a", 1, "did the letter arrive?", "the parcel did")
    told = _talk("b", 3, "did the letter arrive", "the parcel did")
    found = {one.id: one.score for one in answer("parcel", filled([*told, *asked]))}
    assert found[asked[1].id] == pytest.approx(found[told[1].id])


def test_line_whose_neighbours_hold_the_rest_goes_before_one_that_stands_alone() -> None:
    beside = _talk("a", 1, "the green parcel", "lamp mast", "more rope here", "hull oars")
    apart = _talk("b", 11, "the green parcel", "more rope here", "hull oars", "lamp mast")
    found = {one.id: one.score for one in answer("parcel lamp", filled([*apart, *beside]))}
    together, alone = found[beside[1].id], found[apart[3].id]
    assert together > alone
    # Of two equally rare words the neighbour holds one: half of the weight.
    assert together - alone == _off(W.context / 2)


@pytest.mark.parametrize("words", [("the green parcel", "lamp mast"), ("lamp mast", "the green parcel")])
def test_neighbour_may_come_before_or_after(words: tuple[str, str]) -> None:
    index = filled([*_talk("a", 1, *words), line(9, "ordinary rope"), line(8, "green hull")])
    assert texts("parcel", index) == ["the green parcel", "lamp mast"]


def test_line_in_a_conversation_about_it_goes_before_one_that_only_mentions_it() -> None:
    about = _talk("a", 1, "lamp mast", "some rope", "more hull", "the parcel parcel parcel")
    beside = _talk("b", 11, "lamp mast", "some rope", "more hull", "the letter letter letter")
    found = {one.id: one.score for one in answer("lamp parcel", filled([*beside, *about]))}
    # One of two sessions holds the parcel, three times; both are of the same length and hold the lamp.
    share = math.log(2) / (math.log(2) + math.log(1.2))
    of_session = W.session * share * 2.2 * 3 / (3 + 1.2)
    # The best line of one session holds the parcel, the best line of the other one the lamp. Lines have 1.75 words.
    rare, common = math.log(1 + 7.5 / 1.5), math.log(1 + 6.5 / 2.5)
    parcels = rare * 2.2 * 3 / (3 - 1 + 1 + 1.2 * (0.25 + 0.75 * 3 / 1.75))
    lamp = common * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 1.75))
    of_best = W.best_of_session * (parcels - lamp) / (rare + common)
    assert found[about[0].id] - found[beside[0].id] == _off(of_session + of_best)


def test_session_is_a_name_and_not_a_place_in_time() -> None:
    """Lines that follow each other in time, but in different conversations, are no neighbours."""
    one = line(1, "did the parcel arrive?", session="a", time=AGO)
    two = line(2, "yes it did", session="b", time=AGO + HOUR)
    assert texts("parcel", filled([one, two])) == ["did the parcel arrive?"]


def test_line_that_speaks_of_the_days_asked_for_goes_first() -> None:
    better, worse = "dentist on 2026-05-21", "dentist on 2026-07-21"
    assert _pair("dentist tomorrow", better, worse) > W.date
    with pytest.raises(AssertionError):
        _pair("dentist", better, worse)


def test_line_written_on_the_days_asked_for_goes_first() -> None:
    better = line(1, "saw the dentist", time=NOON - timedelta(days=1))
    worse = line(2, "saw the dentist", time=NOON - timedelta(hours=1))
    assert _pair("dentist yesterday", better, worse) > term_weights.WRITTEN_THEN * W.date


def test_speaking_of_a_day_counts_more_than_being_written_then() -> None:
    speaks = line(1, "dentist on 2026-05-19", time=datetime(2026, 4, 1, tzinfo=UTC))
    written = line(2, "dentist on 2026-01-19", time=NOON - timedelta(days=1))
    assert 0 < term_weights.WRITTEN_THEN < 1
    assert _pair("dentist yesterday", speaks, written) > (1 - term_weights.WRITTEN_THEN) * W.date


def test_words_about_remembering_are_not_looked_for_if_others_remain() -> None:
    index = filled([line(1, "the boat is green"), line(2, "remember to mention and tell what I said")])
    assert texts("do you remember what I said about the boat", index) == ["the boat is green"]
    assert texts("remember", index) == ["remember to mention and tell what I said"]


# The weights.


def test_weights_go_from_talk_among_people_to_talk_with_an_assistant_by_the_share_of_replies() -> None:
    assert signals.weighing_for(0, 0).weights == AMONG_PEOPLE
    assert signals.weighing_for(100, 0).weights == AMONG_PEOPLE
    for replies in (50, 70, 100):
        assert signals.weighing_for(100, replies).weights == pytest.approx(WITH_ASSISTANT)
    half = signals.weighing_for(100, 25).weights
    assert half == pytest.approx([(one + other) / 2 for one, other in zip(AMONG_PEOPLE, WITH_ASSISTANT, strict=True)])


def test_every_signal_has_a_weight_and_a_share() -> None:
    question = Question.of("boat", NOON)
    own = signals.weighing_for(1, 0).shares(line(1, "boat"), 1, 0, question)
    assert own.keys() == {
        *(signal.__name__ for signal in signals.OF_MARKS),
        *("substance", "speaker", "latest"),
    }
    assert own.keys() < set(W._fields)


@pytest.mark.parametrize("query", QUERIES)
def test_shares_of_an_explanation_add_up_to_the_score(query: str) -> None:
    indexes = world(2)
    found = ENGINE.rank(query, indexes, 20, NOON)
    shares = ENGINE.explain(query, indexes, NOON, frozenset(one.line.id for one in found))
    for one in found:
        if one.score:  # standing lines that match nothing have no score
            own = shares[one.line.namespace, one.line.id]
            assert own.keys() == set(W._fields)
            assert sum(own.values()) == pytest.approx(one.score, abs=1e-9)


def test_explanation_leaves_out_lines_that_the_indexes_do_not_hold() -> None:
    index = filled([line(1, "the boat"), line(2, "a lamp")])
    shares = ENGINE.explain("boat", [index], NOON, frozenset([line(1, "").id, line(9, "").id]))
    assert shares.keys() == {("travel", line(1, "").id)}
    assert ENGINE.explain("unheard", [index], NOON, frozenset([line(1, "").id])) == {}
