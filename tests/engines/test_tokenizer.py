"""From text to words: other scripts, names in code, and whatever else a line may be made of."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engines.lexical.line_features import LENGTH_LIMIT, TF_LIMIT, extract
from strongroom.engines.lexical.tokenizer import WHOLE_LIMIT, words
from strongroom.model import LINE_LIMIT
from tests.engines.tools import NOON, answer, filled, line, texts

pytestmark = pytest.mark.requirement("recall-words")

EXAMPLES = [pytest.param(150, id="some"), pytest.param(5000, id="many", marks=pytest.mark.long)]

HOSTILE = [
    *"aA1é成カก가🎉_'.-\u0301\u3099 \u200d\u00a0\n?",
    "\ufdfa",  # one character that folds into eighteen
    "aA",
    "A1",
    "a'",
    "a.",
    "成a",
    "e\u0301",
    "what is it? ",
    "May 25-29, ",
    "5月25日",
    "((((",
    "a@b.c/",
]


@pytest.mark.parametrize("unit", HOSTILE, ids=[f"{ord(unit[0]):x}-{number}" for number, unit in enumerate(HOSTILE)])
def test_line_of_32_kib_of_one_thing_is_read_and_found(unit: str) -> None:
    text = unit * (LINE_LIMIT // len(unit.encode()))
    reading = extract(line(1, text))
    assert reading.length <= LENGTH_LIMIT
    assert all(0 < count <= TF_LIMIT for count in reading.counts.values())
    assert 0 <= reading.marks < 128
    index = filled([line(1, text), line(2, "an ordinary boat")])
    assert not words(text) or answer(text, index, now=NOON)
    index.remove(line(1, text))
    assert texts("boat", index) == ["an ordinary boat"]


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_text_has_words_that_are_never_empty_and_always_the_same(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.text(st.characters(codec="utf-8")) | st.text("aAé'1_.成カ가ก🎉\u0301\u3099 ?", max_size=60))
    def prove(text: str) -> None:
        found = words(text)
        assert all(found)
        assert not any(character.isspace() for word in found for character in word)
        assert words(text) == found
        index = filled([line(1, text), line(2, "an ordinary boat")])
        assert not found or [one.id for one in answer(text, index)]
        index.remove(line(1, text))
        assert index.postings.keys() == {"ordinari", "boat"}

    prove()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_text_finds_the_line_that_says_it_in_another_width_or_composition(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.text("aZéüñ가각カガﾊﾟぱ成都ＡＢ１x '", min_size=1, max_size=20))
    def prove(text: str) -> None:
        for form in ("NFD", "NFC", "NFKC", "NFKD"):
            assert words(unicodedata.normalize(form, text)) == words(text)

    prove()


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("成都旅行", ["成都", "都旅", "旅行", "成", "旅", "行"]),
        ("去成都", ["去成", "成都", "成"]),
        ("我", ["我"]),
        ("旅行の計画", ["旅行", "行の", "の計", "計画", "旅", "行", "計", "画"]),
        ("ガイド", ["ガイ", "イド"]),
        ("東京 station", ["東京", "東", "京", "station"]),
        ("Room101号", ["room101", "room", "101", "号"]),
    ],
)
def test_scripts_without_spaces_give_pairs_and_single_han_characters(text: str, held: list[str]) -> None:
    assert sorted(words(text)) == sorted(held)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("parseHTTPResponse", {"parsehttpresponse", "http"}),
        ("snake_case_name", {"snake_case_name", "snake", "case", "name"}),
        ("mail ana@example.com, please", {"ana@example.com", "ana", "com"}),
        ("/etc/nginx/nginx.conf", {"/etc/nginx/nginx.conf", "etc", "nginx", "conf"}),
        ("v2.14.3", {"v2.14.3", "2", "14", "3"}),
        ("(see http://host:8080/x)", {"http://host:8080/x", "http", "host", "8080"}),
        ("`max_retries`", {"max_retries", "max"}),
        ("ABC-1234.", {"abc-1234", "abc", "1234"}),
        ("iPhone", {"iphone", "phone"}),
        ("h2o", {"h2o"}),
    ],
)
def test_identifiers_count_whole_and_in_parts(text: str, held: set[str]) -> None:
    assert held <= set(words(text))


def test_run_that_is_too_long_for_a_name_counts_by_its_parts_only() -> None:
    longest = "x" * (WHOLE_LIMIT - 3) + "/ab"
    assert longest in words(longest)
    assert f"{longest}c" not in words(f"{longest}c")
    assert "abc" in words(f"{longest}c")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("walked", "walking"),
        ("went", "going"),
        ("children", "kids"),
        ("photos", "picture"),
        ("Ana's", "Ana"),
        ("dogs'", "dog"),
        ("“boat”", "boat"),
        ("boat?!", "BOAT"),
        ("café", "cafe"),
        ("Ｃａｆｅ", "café"),
        ("naïve", "naive"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("ﾊﾟﾘ", "パリ"),
        ("２０２６", "2026"),
        ("ﬁle", "file"),
        ("isn’t", "isn't"),
        ("Ärger", "arger"),
        ("Привет", "привет"),
    ],
)
def test_two_ways_to_write_a_word_are_one_word(one: str, other: str) -> None:
    assert words(one) == words(other) != []


@pytest.mark.parametrize(
    ("one", "other"),
    [("boat", "boot"), ("ガイド", "カイト"), ("パリ", "バリ"), ("成都", "都成"), ("가", "나"), ("12", "21")],
)
def test_different_words_stay_different(one: str, other: str) -> None:
    assert words(one) != words(other)
    assert texts(one, filled([line(1, one), line(2, other)]), k=1) == [one]


ORDINARY = [f"we were going over the plans for room {number} again" for number in range(60)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我对花生过敏", "花生"),
        ("来週、京都へ引っ越します", "引っ越し"),
        ("ﾊﾟｽﾎﾟｰﾄは引き出しの中", "パスポート"),
        ("여권은 서랍 안에 있다", "여권"),
        ("หนังสือเดินทางอยู่ในลิ้นชัก", "หนังสือเดินทาง"),
        ("Паспорт лежит в ящике", "паспорт"),
        ("جواز السفر في الدرج", "السفر"),
        ("call renderUserList() first", "renderUserList"),
        ("call renderUserList() first", "user list"),
        ("the key is in ~/.config/app/key.pem", "key.pem"),
        ("ask jo.doe+x@mail.example.org", "jo.doe+x@mail.example.org"),
        ("party 🎉", "🎉"),
        ("To be or not to be", "to be or not to be"),
        ("Señor Muñoz", "munoz"),
    ],
)
def test_line_is_found_first_among_ordinary_ones(text: str, query: str) -> None:
    lines = [line(number, ordinary) for number, ordinary in enumerate(ORDINARY, 100)]
    assert texts(query, filled([line(1, text), *lines]), k=1) == [text]


@pytest.mark.parametrize("text", ["the", "What is it?", "I am", "don't", "的", "not to be"])
def test_text_of_stop_words_alone_is_made_of_these(text: str) -> None:
    assert words(text)
    assert texts(text, filled([line(1, text), line(2, "a boat")])) == [text]


@pytest.mark.parametrize("text", ["", " \n", "...", "?!", "\u0301\u0301", "« »", "。、"])
def test_text_without_any_word_has_none_and_finds_nothing(text: str) -> None:
    assert words(text) == []
    index = filled([line(1, "a boat"), line(2, "a lamp"), line(3, text)])
    assert answer(text, index) == []
    assert texts("boat", index) == ["a boat"]


def test_stop_words_beside_others_do_not_count() -> None:
    assert words("where is the boat that we had") == ["boat"]
    assert texts("where is the boat", filled([line(1, "where is the"), line(2, "a boat")])) == ["a boat"]


def test_word_in_capitals_is_no_name_in_code() -> None:
    assert words("WALKING the Dog") == ["walk", "dog"]


def test_word_repeated_more_often_than_can_be_counted_still_counts() -> None:
    reading = extract(line(1, "boat " * 400))
    assert (reading.counts, reading.length) == ({"boat": TF_LIMIT}, 400)
