"""Time in recall: what was asked for by days is found by days, however common the words are."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import cache

import pytest

from strongroom.engines.lexical import term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.model import Line
from tests.engines.tools import answer, filled, line, texts

pytestmark = [pytest.mark.requirement("recall-time"), pytest.mark.usefixtures("way")]

TRIP = "Trip to Chengdu, May 25-29"
ORDINARY = [
    "Going over the weekend rota with {}",
    "Is {} going to the market at the weekend?",
    "I was going to call {} but the weekend was too short",
    "{} says the weekend course is going well",
    "We keep going back to {} for a weekend",
    "The weekend team is going to meet {} again",
    "going through the weekend mail from {}",
]
WHO = ["Bruno", "the dentist", "Aunt Rosa", "the library", "Kim", "the plumber", "Porto", "the choir"]
YEARS = [2024, 2025, 2026, 2027]


def _noon(day: date) -> datetime:
    return datetime.combine(day, time(12), UTC)


def _weekend_days(year: int) -> list[date]:
    """Days from which "this weekend" means one that the trip touches, or misses by a day."""
    return [date(year, 5, day) for day in (22, 23, 25, 27)]


def _ordinary(before: datetime, count: int = 500, texts_: list[str] = ORDINARY) -> list[Line]:
    """Lines that all say "going" and "weekend", written over the weeks up to ten days before."""
    start = before - timedelta(days=10)
    return [
        line(
            number,
            texts_[number % len(texts_)].format(WHO[number % len(WHO)]),
            session=f"talk-{number // 9}" if number % 3 else "",
            time=start - timedelta(hours=7 * number),
        )
        for number in range(1, count + 1)
    ]


@cache
def _among_ordinary(now: datetime, trip: Line) -> LexicalIndex:
    """Made once for all the queries of a day: to rank changes nothing in an index."""
    return filled([*_ordinary(now), trip])


def _trip(year: int, text: str = TRIP) -> Line:
    return line(9001, text, time=datetime(year, 4, 28, 9, tzinfo=UTC))


def test_ordinary_lines_all_say_going_and_weekend() -> None:
    lines = _ordinary(_noon(date(2026, 5, 22)))
    assert len(lines) == 500
    assert all("going" in one.text.lower() and "weekend" in one.text for one in lines)


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    "query",
    [
        "where am I going this weekend?",
        "what am I doing this weekend",
        "Where will I be going this weekend",
        "这个周末我要去哪里？",
        "这周末去哪儿",
        "今週末はどこに行く？",
        "今週末の予定は？",
    ],
)
def test_trip_is_found_first_among_ordinary_lines_for_this_weekend(year: int, place: int, query: str) -> None:
    now = _noon(_weekend_days(year)[place])
    assert texts(query, _among_ordinary(now, _trip(year)), k=1, now=now) == [TRIP]


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("day", range(25, 30))
@pytest.mark.parametrize("query", ["where am I today?", "where am I going today", "今天我在哪里", "今日はどこ？"])
def test_trip_is_found_first_on_each_of_its_days(year: int, day: int, query: str) -> None:
    now = _noon(date(year, 5, day))
    assert texts(query, _among_ordinary(now, _trip(year)), k=1, now=now) == [TRIP]


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("text", ["成都旅行，5月25日至29日", "成都旅行 5月25日〜29日", "Chengdu, {}-05-25 to {}-05-29"])
def test_trip_may_be_written_in_other_forms(year: int, text: str) -> None:
    text = text.format(year, year)
    now = _noon(date(year, 5, 23))
    index = _among_ordinary(now, _trip(year, text))
    for query in ("where am I going this weekend?", "这个周末我要去哪里？", "今週末はどこに行く？", "May 26"):
        assert texts(query, index, k=1, now=now) == [text]


def test_trip_is_found_among_chinese_lines_that_all_speak_of_the_weekend() -> None:
    now = _noon(date(2026, 5, 23))
    chinese = ["周末要去看{}", "和{}商量周末去不去", "周末去{}吃饭很好", "{}说周末不去"]
    index = filled([*_ordinary(now, texts_=chinese), _trip(2026, "成都旅行，5月25日至29日")])
    assert texts("这个周末我要去哪里？", index, k=1, now=now) == ["成都旅行，5月25日至29日"]


def test_trip_is_found_across_shelves() -> None:
    now = _noon(date(2026, 5, 23))
    crowd, travel = filled(_ordinary(now)), filled([_trip(2026)])
    assert texts("where am I going this weekend?", crowd, travel, k=1, now=now) == [TRIP]
    assert texts("where am I going this weekend?", travel, crowd, k=1, now=now) == [TRIP]


def test_trip_of_another_year_is_not_what_was_asked_for() -> None:
    """A line says May 25 and means that of its own year."""
    now = _noon(date(2027, 5, 25))
    index = _among_ordinary(now, _trip(2026))
    assert TRIP not in texts("where am I today?", index, k=5, now=now)


@pytest.mark.parametrize(
    "query", ["this weekend?", "this weekend", "May 26", "next week", "2026-05-27", "5月26日", "来週"]
)
def test_query_of_time_words_alone_works(query: str) -> None:
    now = _noon(date(2026, 5, 22))
    assert texts(query, _among_ordinary(now, _trip(2026)), k=1, now=now) == [TRIP]


def test_time_words_of_the_query_are_not_looked_for_as_words() -> None:
    """Five hundred lines say weekend; none of them has to do with this one."""
    now = _noon(date(2026, 5, 23))
    found = answer("this weekend", _among_ordinary(now, _trip(2026)), now=now)
    assert [one.id for one in found] == [_trip(2026).id]


def _dentist(*days: str) -> LexicalIndex:
    """The same line for each day, the later ones with greater ids."""
    written = datetime(2026, 1, 5, tzinfo=UTC)
    return filled(line(number, f"dentist on {day}", time=written) for number, day in enumerate(days, 1))


def test_near_misses_rank_below_overlaps_and_lower_the_further_they_are() -> None:
    index = _dentist("2026-05-20", "2026-05-21", "2026-05-22", "2026-05-23", "2026-05-24")
    found = texts("dentist on 2026-05-20", index)
    assert found == [f"dentist on 2026-05-{day}" for day in (20, 21, 22, 23, 24)]


def test_day_further_away_than_a_near_miss_counts_nothing_at_all() -> None:
    index = _dentist("2026-05-20", "2026-05-24", "2026-09-01")
    scores = {one.id[-1]: one.score for one in answer("dentist on 2026-05-20", index)}
    assert scores["1"] > scores["2"] == scores["3"]


def test_line_whose_days_lie_all_inside_ranks_above_one_that_overlaps_in_part() -> None:
    written = datetime(2026, 1, 5, tzinfo=UTC)
    inside = line(1, "cabin from 2026-05-19 to 2026-05-21", time=written)
    partly = line(2, "cabin from 2026-05-21 to 2026-06-30", time=written)
    beside = line(3, "cabin from 2026-06-25 to 2026-06-26", time=written)
    query = "cabin between May 18 and May 24"
    now = _noon(date(2026, 5, 1))
    assert [one.id[-1] for one in answer(query, filled([inside, partly, beside]), now=now)] == ["1", "2", "3"]


TOKYO = timezone(timedelta(hours=9))
LIMA = timezone(timedelta(hours=-5))


@pytest.mark.parametrize(
    ("now", "today"),
    [
        (datetime(2026, 5, 25, 1, tzinfo=TOKYO), "2026-05-25"),
        (datetime(2026, 5, 24, 16, tzinfo=UTC), "2026-05-24"),
        (datetime(2026, 5, 24, 20, tzinfo=LIMA), "2026-05-24"),
        (datetime(2026, 5, 25, 1, tzinfo=UTC), "2026-05-25"),
    ],
)
def test_today_is_the_day_where_the_asker_is(now: datetime, today: str) -> None:
    for days in (("2026-05-24", "2026-05-25"), ("2026-05-25", "2026-05-24")):
        assert texts("dentist today", _dentist(*days), k=1, now=now) == [f"dentist on {today}"]


def test_line_written_in_the_askers_night_belongs_to_the_askers_day() -> None:
    midnight = datetime(2026, 5, 25, tzinfo=TOKYO)
    after = line(1, "saw the dentist", time=midnight)
    before = line(2, "saw the dentist", time=midnight - timedelta(milliseconds=1))
    index = filled([before, after])
    now = midnight + timedelta(hours=10)
    assert [one.id[-1] for one in answer("dentist today", index, now=now)] == ["1", "2"]
    assert [one.id[-1] for one in answer("dentist yesterday", index, now=now)] == ["2", "1"]
    assert [one.id[-1] for one in answer("today", index, now=now)] == ["1"]
    assert [one.id[-1] for one in answer("yesterday", index, now=now)] == ["2"]


def test_same_moment_in_another_zone_may_be_another_day() -> None:
    moment = datetime(2026, 5, 25, 1, tzinfo=TOKYO)
    index = _dentist("2026-05-24", "2026-05-25")
    assert texts("today", index, k=1, now=moment) != texts("today", index, k=1, now=moment.astimezone(UTC))


def test_newest_of_many_lines_written_on_a_day_count_and_those_that_hold_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(term_weights, "THEN", 3)
    now = _noon(date(2026, 5, 20))
    yesterday = datetime(2026, 5, 19, tzinfo=UTC)
    boat = line(1, "the boat", time=yesterday)
    lines = [line(number, "the lamp", time=yesterday + timedelta(hours=number)) for number in range(2, 12)]
    index = filled([boat, *lines, line(99, "the boat", time=now)])
    assert [one.id for one in answer("yesterday", index, now=now)] == [one.id for one in lines[:-4:-1]]
    assert answer("boat yesterday", index, k=1, now=now)[0].id == boat.id
    same = [line(number, "the lamp", time=yesterday) for number in range(50, 60)]
    assert len(answer("yesterday", filled(same), now=now)) == len(same)


@pytest.mark.parametrize("at", [datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)])
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
def test_ends_of_the_calendar_are_no_trouble(at: datetime, zone: timezone) -> None:
    index = filled(
        [line(1, "boat yesterday, tomorrow, next year and ten years ago", time=at), line(2, "lamp", time=at)]
    )
    now = at if zone is UTC else _within(at).astimezone(zone)
    for query in ("boat tomorrow", "boat yesterday", "boat last year", "boat in ten years"):
        assert answer(query, index, k=1, now=now)[0].id[-1] == "1"


def _within(at: datetime) -> datetime:
    """A moment near enough to the end of the calendar that has a date in every zone."""
    return at + timedelta(days=1) if at.year == 1970 else at - timedelta(days=1)


def test_time_that_no_line_has_to_do_with_gives_way_to_the_words() -> None:
    index = filled([line(1, "the boat is green"), line(2, "a lamp")])
    assert texts("the boat in March 1999", index) == ["the boat is green"]
    assert texts("in March 1999", index) == []
