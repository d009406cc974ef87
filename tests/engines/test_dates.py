"""Dates in lines and time words in questions. The tables are also what libraries were measured with (ADR 0012)."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.engines.dates import cjk, english_dates, english_periods, english_relative, numeric
from strongroom.engines.dates.parser import MOST_SPANS, Span, dates_in_line, dates_in_query

WEDNESDAY = date(2026, 5, 20)

# A line, and the days it speaks of when it is written on Wednesday 2026-05-20. A range is first/last.
LINES = [
    ("Trip to Chengdu, May 25-29", "2026-05-25/2026-05-29"),
    ("Passport renewal appointment 2026-06-11 at the town hall", "2026-06-11"),
    ("Deployed at 2026-05-19T22:14:03Z without errors", "2026-05-19"),
    ("Mum arrives on 25 May 2026 with the night train", "2026-05-25"),
    ("We rented the cabin from May 25 to June 2", "2026-05-25/2026-06-02"),
    ("The conference runs from the 3rd to the 7th of June", "2026-06-03/2026-06-07"),
    ("The plumber comes on the 28th", "2026-05-28"),
    ("Warranty ends 5/25/2026", "2026-05-25"),
    ("Lieferung am 25.5.2026", "2026-05-25"),
    ("Closing party Dec. 30 - Jan 2", "2026-12-30/2027-01-02"),
    ("We moved to Lisbon in March 2025", "2025-03-01/2025-03-31"),
    ("The kitchen will be ready mid-August", "2026-08-11/2026-08-20"),
    ("Budget review is in early June", "2026-06-01/2026-06-10"),
    ("Rent goes up at the end of the month", "2026-05-21/2026-05-31"),
    ("Last summer we hiked in the Dolomites", "2025-06-01/2025-08-31"),
    ("Ship the beta in Q3 2026", "2026-07-01/2026-09-30"),
    ("Grandpa opened the bakery in 1962", "1962-01-01/1962-12-31"),
    ("Had sushi with Ben yesterday", "2026-05-19"),
    ("Tomorrow I pick up the bike", "2026-05-21"),
    ("Lost my umbrella the day before yesterday", "2026-05-18"),
    ("Saw the orthodontist last Friday", "2026-05-15"),
    ("Piano recital next Friday", "2026-05-22 2026-05-29"),
    ("Team lunch Friday next week", "2026-05-29"),
    ("Met Priya for coffee on Monday", "2026-05-18"),
    ("Will call the bank on Monday", "2026-05-25"),
    ("Brunch at Leo's place on Sunday", "2026-05-17 2026-05-24"),
    ("Going sailing this weekend", "2026-05-23/2026-05-24"),
    ("Visited grandma last weekend", "2026-05-16/2026-05-17"),
    ("Camping the weekend after next", "2026-06-06/2026-06-07"),
    ("Exam results come next week", "2026-05-25/2026-05-31"),
    ("The boiler broke 3 days ago", "2026-05-17"),
    ("Ordered the sofa a couple of weeks ago", "2026-04-27/2026-05-08"),
    ("The vaccine is due in two weeks", "2026-06-01/2026-06-05"),
    ("Slept badly the past few days", "2026-05-14/2026-05-20"),
    ("Report due by Friday", "2026-05-22"),
    ("Out of office until June 3", "2026-05-20/2026-06-03"),
    ("Halloween party at Kim's", "2026-10-31"),
    ("Vet visit Friday, May 29 at 9:30", "2026-05-29"),
    ("2026年5月25日去成都", "2026-05-25"),
    ("5月25日到29日住在成都的酒店", "2026-05-25/2026-05-29"),
    ("下周五和王老师开会", "2026-05-29"),
    ("上个月换了新手机", "2026-04-01/2026-04-30"),
    ("三天前感冒了", "2026-05-17"),
    ("这个周末去爬山", "2026-05-23/2026-05-24"),
    ("６月３日に歯医者の予約", "2026-06-03"),
    ("来週の金曜日に出張", "2026-05-29"),
    ("明後日は母の誕生日会", "2026-05-22"),
    ("2週間後に引っ越し", "2026-06-01/2026-06-05"),
    ("5월 25일 부산 여행", "2026-05-25"),
    ("다음 주 금요일 회의", "2026-05-29"),
]

# A question asked on Wednesday 2026-05-20, the days it asks about, and the words that say so.
QUESTIONS = [
    ("where am I going this weekend?", "2026-05-23/2026-05-24", "this weekend"),
    ("what did I do last week?", "2026-05-11/2026-05-17", "last week"),
    ("what did I eat on Friday", "2026-05-15", "Friday"),
    ("what am I doing on Friday", "2026-05-22", "Friday"),
    ("Friday dinner", "2026-05-22", "Friday"),
    ("Monday meeting", "2026-05-18", "Monday"),
    ("whom did I meet in October?", "2025-10-01/2025-10-31", "in October"),
    ("where will I be in October?", "2026-10-01/2026-10-31", "in October"),
    ("October hotel", "2025-10-01/2025-10-31 2026-10-01/2026-10-31", "October"),
    ("what happens on may 25", "2026-05-25", "may 25"),
    ("what is on April 24?", "2026-04-24 2027-04-24", "April 24"),
    ("do I have something on June 2?", "2026-06-02", "June 2"),
    ("plans for autumn", "2026-09-01/2026-11-30", "for autumn"),
    ("tax return 2024", "2024-01-01/2024-12-31", "2024"),
    ("what is due by Friday?", "2026-05-20/2026-05-22", "by Friday"),
    ("what have I spent since Monday?", "2026-05-18/2026-05-20", "since Monday"),
    ("anything planned before June 1?", "2026-05-20/2026-05-31", "before June 1"),
    ("what is planned after June 1?", "2026-06-02/2026-07-01", "after June 1"),
    ("what have I been reading recently?", "2026-04-20/2026-05-20", "recently"),
    ("when is my next dentist appointment?", "2026-05-20/2026-07-19", "next"),
    ("any upcoming trips?", "2026-05-20/2026-07-19", "upcoming"),
    ("what's next?", "2026-05-20/2026-07-19", "next"),
    ("what did we plan for New Year's Eve", "2026-12-31", "New Year's Eve"),
    ("这个周末我去哪里？", "2026-05-23/2026-05-24", "这个周末"),
    ("上周五我做了什么", "2026-05-15", "上周五"),
    ("先週何を食べましたか", "2026-05-11/2026-05-17", "先週"),
    ("어제 뭐 먹었어?", "2026-05-19", "어제"),
]

# Lines that speak of no day.
TRAPS = [
    "I may go or I may stay, we will see",
    "May I borrow the ladder?",
    "The band will march through the old town",
    "April's phone number is 555-0134",
    "I met April and June at the bakery",
    "Jan likes oat milk",
    "Give me a second, the second option is better",
    "Back in a second",
    "The cat sat in the sun",
    "They wed in a small chapel",
    "My favourite novel is 1984",
    "Python 3.12.1 is installed on the server",
    "The router is at 192.168.1.20",
    "Call +49 30 1234567 for the pharmacy",
    "Her number is 555-2024-118",
    "The shop is open 24/7",
    "The documentary about 9/11 was long",
    "I read 5/25 pages",
    "The service listens on port 2024",
    "The laptop costs $2024",
    "The order number is 20260525",
    "The timeout is P3DT4H",
    "I go swimming every Friday",
    "The Friday Club meets upstairs",
    "Sundays are for pancakes",
    "We live on the 5th floor",
    "The 21st century is loud",
    "It was her 3rd marathon and the 2nd time in Boston",
    "She reads Wednesday mornings' paper in bed as Mon ami says",
    "He is the best of the last two players",
    "Next to the station there is a bakery",
    "The last page was missing",
    "This is the next step of the plan",
    "In the end it may be fine",
    "The fall broke his arm",
    "Spring onions and summer squash are in the fridge",
    "A dec is short for a decoder, mar means sea",
    "The ratio is 16:9 and the score was 3-2",
    "Feb 30 is not a day",
    "The year 3024 is far away and so is 1066",
    "Version 2024.1.3 of the tool is broken",
    "Chapter 12.5.3 is about engines",
    "He may 25 times repeat it",
    "My cousin August plays chess with April",
    "In two words: no thanks",
    "The weekday pattern is mon-fri in cron",
    "我每周五都游泳",
    "坐5号线到机场",
    "3日間の休みが欲しい",
    "明日香は友達です",
]


# Written after the grammar, to see how it does on what it was not made for.
LATER_LINES = [
    ("Anniversary dinner booked for Saturday at 7pm", "2026-05-23"),
    ("The landlord visits Thursday the 4th of June", "2026-06-04"),
    ("Car inspection valid through 2027-03-31", "2027-03-31"),
    ("Our flight leaves Sat 30 May at 06:40", "2026-05-30"),
    ("Sofia was born on 12 November 1991", "1991-11-12"),
    ("We got the keys on April 2nd", "2026-04-02"),
    ("Kindergarten is closed 22/06/2026 to 03/07/2026", "2026-06-22/2026-07-03"),
    ("The invoice is payable within 14 days", "2026-05-20/2026-06-03"),
    ("Started the new job at the beginning of February", "2026-02-01/2026-02-09"),
    ("Last Christmas we stayed in Oslo", "2025-12-24/2025-12-26"),
    ("School holidays: July 13 through August 21", "2026-07-13/2026-08-21"),
    ("The lease expires in a year", "2026-11-18/2027-11-19"),
    ("Two months ago I quit smoking", "2026-03-13/2026-03-27"),
    ("Had a migraine this morning", "2026-05-20"),
    ("Physio at 8 on Tuesday and Thursday next week", "2026-05-26 2026-05-28"),
    ("The concert is on June 12th, 2026 in Hamburg", "2026-06-12"),
    ("My parents visit over Easter 2027; the last week of March 2027", "2027-03-26/2027-03-29 2027-03-25/2027-03-31"),
    ("We hid forty eggs at Easter", "2026-04-03/2026-04-06"),
    ("Choir on the first Monday of June", "2026-06-01"),
    ("The fair is on the last weekend of August", "2026-08-29/2026-08-30"),
    ("The third Friday in July 2026 is taken", "2026-07-17"),
    ("Pick up the cake later this week", "2026-05-20/2026-05-24"),
    ("Vacation: 1-14 September", "2026-09-01/2026-09-14"),
    ("Since 2019 we have had the same dentist", "2019-01-01/2026-05-20"),
    ("meet you on the 2nd or the 3rd of june", "2026-06-02 2026-06-03"),
    ("He flew home last night", "2026-05-19"),
    ("Summer 2027 we want to see Norway", "2027-06-01/2027-08-31"),
    ("明年三月去日本旅游", "2027-03-01/2027-03-31"),
    ("昨天晚上跟小李吃饭", "2026-05-19"),
    ("十月一日国庆节放假", "2026-10-01"),
    ("先月の15日に退院しました", "2026-04-15"),
    ("今週の土曜日は運動会", "2026-05-23"),
    ("지난주에 감기에 걸렸어", "2026-05-11/2026-05-17"),
]
LATER_TRAPS = [
    "The march was peaceful and may continue",
    "She got a 2-1 degree",
    "ISBN 978-3-16-148410-0",
    "May the force be with you",
    "August Rodin, or rather Auguste",
    "Set the alarm for 6:30",
    "The meeting room is 12.04 on the left",
    "He weighs 82.5 kg and is 1.84 m tall",
    "A week is too short for Rome",
    "He saved it for a rainy day",
    "Use 2/3 cup of milk",
    "The apartment is 64 m2 on the third floor",
    "The Sunday Times costs more now",
    "My locker code is 1990",
    "Take one tablet twice a day",
    "The film lasts 2 hours and 12 minutes",
    "The next-gen console is loud",
    "She is in her mid thirties",
    "He has 3 days of leave left",
    "The 4th graders sang",
    "Sort by date, then by month",
    "Chapter 3 to 7 are boring",
    "The road to June Lake is closed",
    "It broke the second day",
    "The password was changed 2024 times",
    "I sat next to Mar and Dec",
    "一月一次的会议",
    "他住在3号楼",
    "日本の会社で働いている",
]


def _iso(spans: list[Span]) -> str:
    written = []
    for span in spans:
        first, last = (date.fromordinal(at).isoformat() for at in (span.first, span.last))
        written.append(first if first == last else f"{first}/{last}")
    return " ".join(written)


@pytest.mark.requirement("dates-no-false-hits")
@pytest.mark.parametrize("text", TRAPS + LATER_TRAPS)
def test_line_without_a_date_has_no_days(text: str) -> None:
    assert _iso(dates_in_line(text, WEDNESDAY)) == ""


@pytest.mark.requirement("dates-lines")
@pytest.mark.parametrize(("text", "expected"), LINES + LATER_LINES)
def test_line_speaks_of_these_days(text: str, expected: str) -> None:
    assert _iso(dates_in_line(text, WEDNESDAY)) == expected


@pytest.mark.requirement("dates-questions")
@pytest.mark.parametrize(("query", "expected", "words"), QUESTIONS)
def test_question_asks_about_these_days_in_these_words(query: str, expected: str, words: str) -> None:
    spans = dates_in_query(query, WEDNESDAY)
    assert _iso(spans) == expected
    assert {query[span.start : span.end] for span in spans} == {words}


NO_DAYS = [
    "feb 30, 31 April, 2026-02-30, 2026-13-01, 31/31/2026, 2月30日",
    "see 5/25 and 12/24",
    "on 9/11",
    "rows 1900 to 2100",
    "next of kin",
    "arriving on a Friday afternoon",
    "training every Saturday and Sunday",
]


@pytest.mark.parametrize("text", NO_DAYS)
def test_impossible_and_undecidable_dates_are_left_alone(text: str) -> None:
    assert _iso(dates_in_line(text, WEDNESDAY)) == ""


@pytest.mark.parametrize("text", ["my next dentist appointment", "upcoming trips", "recently we talked", "what's next"])
def test_open_windows_are_for_questions_only(text: str) -> None:
    assert dates_in_line(text, WEDNESDAY) == []
    assert dates_in_query(text, WEDNESDAY) != []


# A line, the day on which it was written, and the days it speaks of.
ELSEWHEN = [
    ("due on 5/25", date(2026, 5, 20), "2026-05-25"),
    ("from 12/30 - 1/2", date(2026, 12, 1), "2026-12-30/2027-01-02"),
    ("closed 22/06/2026 to 03/07/2026", date(2026, 5, 20), "2026-06-22/2026-07-03"),
    ("call on 5/6/2026", date(2026, 5, 20), "2026-05-06 2026-06-05"),
    ("5/6/26", date(2026, 5, 20), "2026-05-06 2026-06-05"),
    ("backup-2026-05-25.tar", date(2026, 5, 20), "2026-05-25"),
    ("2026-05-25/2026-05-29 offsite", date(2026, 5, 20), "2026-05-25/2026-05-29"),
    ("January 3 skiing", date(2025, 12, 20), "2026-01-03"),
    ("December 20 party", date(2026, 1, 10), "2025-12-20"),
    ("February 29", date(2026, 5, 20), "2028-02-29"),
    ("Dec 28 - Jan 3, 2027", date(2026, 5, 20), "2026-12-28/2027-01-03"),
    ("June 3 and 7", date(2026, 5, 20), "2026-06-03 2026-06-07"),
    ("between June 3 and 7", date(2026, 5, 20), "2026-06-03/2026-06-07"),
    ("Anna's birthday is May 3", date(2026, 5, 20), "2025-05-03 2026-05-03 2027-05-03 2028-05-03 2029-05-03"),
    ("the annual fair, we went on May 3", date(2026, 5, 20), "2026-05-03"),
    ("I registered the shop on February 10, and I am planning a party", date(2026, 5, 28), "2026-02-10"),
    ("at the gym since September 1st", date(2026, 5, 20), "2025-09-01/2026-05-20"),
    ("planning a dinner for the weekend", date(2026, 5, 24), "2026-05-23/2026-05-24 2026-05-30/2026-05-31"),
    ("we went there in October", date(2026, 5, 20), "2025-10-01/2025-10-31 2026-10-01/2026-10-31"),
    ("last Friday was loud", date(2026, 5, 24), "2026-05-15 2026-05-22"),
    ("this weekend", date(2026, 5, 24), "2026-05-23/2026-05-24"),
    ("next weekend", date(2026, 5, 20), "2026-05-23/2026-05-24 2026-05-30/2026-05-31"),
    ("next weekend", date(2026, 5, 23), "2026-05-30/2026-05-31"),
    ("last winter", date(2026, 1, 15), "2024-12-01/2025-02-28"),
    ("wore it six times in the last month", date(2026, 5, 20), "2026-04-20/2026-05-20"),
    ("this winter", date(2026, 1, 15), "2025-12-01/2026-02-28"),
    ("late next month", date(2026, 12, 15), "2027-01-21/2027-01-31"),
    ("a month ago", date(2026, 3, 31), "2026-02-21/2026-03-07"),
    ("May 29 (Friday)", date(2026, 5, 20), "2026-05-29"),
    ("5月29日（周五）", date(2026, 5, 20), "2026-05-29"),
    ("二〇二六年五月二十五日", date(2026, 5, 20), "2026-05-25"),
    ("去年5月", date(2026, 5, 20), "2025-05-01/2025-05-31"),
    ("最近三天很累", date(2026, 5, 20), "2026-05-17/2026-05-20"),
    ("in 2026", date(1, 1, 1), "2026-01-01/2026-12-31"),
    ("yesterday", date.min, ""),
    ("next year", date.max, ""),
    ("the past few days", date.min, "0001-01-01"),
]


@pytest.mark.requirement("dates-lines")
@pytest.mark.parametrize(("text", "written", "expected"), ELSEWHEN)
def test_line_is_read_from_the_day_it_was_written(text: str, written: date, expected: str) -> None:
    assert _iso(dates_in_line(text, written)) == expected


@pytest.mark.parametrize("offset", range(7))
def test_every_weekday_is_found_from_every_weekday(offset: int) -> None:
    today = WEDNESDAY + timedelta(offset)
    for ahead in range(1, 8):
        then = today + timedelta(ahead)
        name = then.strftime("%A")
        assert then.isoformat() in _iso(dates_in_line(f"will meet next {name}", today)).split()
        assert then.isoformat() in _iso(dates_in_query(f"what am I doing on {name}?", today)).split()
        assert today.isoformat() in _iso(dates_in_line(f"saw it last {today.strftime('%A')}", then)).split()


def test_full_width_figures_read_like_plain_ones() -> None:
    plain = "2026-05-25, 5月25日, 3日前, 25.5.2026"
    wide = plain.translate({ord("0") + at: 0xFF10 + at for at in range(10)})
    assert wide != plain
    assert dates_in_line(wide, WEDNESDAY) == dates_in_line(plain, WEDNESDAY)


def test_letter_that_grows_in_lower_case_moves_no_span() -> None:
    text = "İİİ on 2026-05-25"
    (span,) = dates_in_line(text, WEDNESDAY)
    assert text[span.start : span.end] == "2026-05-25"


def test_text_has_at_most_sixteen_spans() -> None:
    text = "; ".join(f"on 2026-05-{day:02} x" for day in range(1, 31))
    assert len(dates_in_line(text, WEDNESDAY)) == MOST_SPANS == 16


HOSTILE = [
    *(
        "9",
        "-",
        " ",
        "\n",
        "may ",
        "may 25-",
        "feb 30 ",
        "1/",
        "2026-",
        "the 3rd ",
        "last ",
        "月",
        "三",
        "一日",
        "in a ",
    ),
    *(
        "next ",
        "q1 ",
        "every friday ",
        "no may 3, ",
        "今周",
        "2026年",
        "5/5/",
        "26. ",
        "a couple of ",
        "\ud800",
        "İ",
        "０",
    ),
    *("from the 3", "monday to ", "2026-05-25 to ", "the past ", "early ", "from between ", "de ", "year 20"),
]


@pytest.mark.requirement("dates-bounded")
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_of_32_kib_is_read_to_its_end(piece: str) -> None:
    text = (piece * (32 * 1024 // len(piece) + 1))[: 32 * 1024]
    assert len(dates_in_line(text, WEDNESDAY)) <= MOST_SPANS
    assert len(dates_in_query(text, WEDNESDAY)) <= MOST_SPANS


@pytest.mark.requirement("dates-bounded")
def test_no_pattern_repeats_without_a_bound() -> None:
    """What makes the scan linear: a match can only ever take a bounded number of characters."""
    for module in (cjk, english_dates, english_periods, english_relative, numeric):
        for _, pattern, _ in module.RULES:
            assert not re.search(r"(?<!\\)[*+](?![^\[]*\])|,\}", pattern), pattern


VOCABULARY = (
    "May 25 29 2026 - , the 3rd of June last next this Friday weekend week in two days ago since until by before after "
    "月 日 5 年 周 五 来週 金曜日 三 天 前 오늘 월 일 25.5.2026 5/25/2026 Q3 past few a couple early Christmas Eve "
    "on from to and day yesterday winter New Year's İ ５"
)
WORDS = st.sampled_from(VOCABULARY.split())
GAPS = st.sampled_from(["", " ", " ", " ", "\t", "\n"])
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.tuples(WORDS, GAPS).map("".join), max_size=14).map("".join))


@pytest.mark.requirement("dates-bounded")
@given(TEXTS, st.dates(), st.booleans())
def test_any_text_on_any_day_gives_spans_inside_the_text_and_the_calendar(text: str, day: date, asked: bool) -> None:
    spans = dates_in_query(text, day) if asked else dates_in_line(text, day)
    assert len(spans) <= MOST_SPANS
    for span in spans:
        assert date.min.toordinal() <= span.first <= span.last <= date.max.toordinal()
        assert 0 <= span.start < span.end <= len(text)
    assert spans == (dates_in_query(text, day) if asked else dates_in_line(text, day))


@given(st.dates(date(1900, 1, 1), date(2100, 12, 31)), st.dates())
def test_every_iso_date_is_found_whenever_it_is_written(named: date, written: date) -> None:
    text = f"on {named.isoformat()} it rained"
    assert _iso(dates_in_line(text, written)) == named.isoformat()


@given(st.dates(date(1901, 1, 1), date(2099, 12, 31)), st.integers(-90, 180))
def test_date_without_a_year_is_the_one_near_the_day_of_writing(written: date, away: int) -> None:
    named = written + timedelta(away)
    text = f"dinner {named.day} {named.strftime('%B')}"
    assert named.isoformat() in _iso(dates_in_line(text, written)).split()
