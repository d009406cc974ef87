"""Routing: bad rules first, then what the rules make of texts, then `strongroom route`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom import model, routing
from strongroom.errors import InvalidRequest
from strongroom.model import DEFAULT_NAMESPACES
from strongroom.routing import Route, route, rules
from tests.cli.conftest import Cli


def ruled(**rule: object) -> routing.Rules:
    return rules({"default": "personal", "rules": [{"name": "mine", "namespace": "work", **rule}]})


@pytest.mark.requirement("routing-rules")
@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"words": [""]},
        {"words": ["x"], "namespace": "Not A Name"},
        {"words": "x"},
        {"words": [1]},
        {"words": ["x"], "nonsense": 1},
        {"patterns": [""]},
        {"patterns": ["("]},
        {"patterns": ["x*"]},
        {"patterns": ["x" * 300]},
        {"patterns": ["(a+)+$"]},
        {"patterns": ["(a|aa)+$"]},
        {"patterns": ["(?:x{1,9}){1,9}y"]},
        {"patterns": ["(a|aa){50}$"]},
        {"patterns": ["(?:a?){30}b"]},
        {"patterns": ["(?x)(a|aa) {1,50}$"]},
        {"patterns": ["(a|aa)(?#quiet){1,50}$"]},
        {"patterns": ["(a|aa)" * 20 + "$"]},
        {"patterns": ["a?" * 20 + "b"]},
        {"patterns": ["a*a*a*b"]},
        {"patterns": [r"\w+@\w+"]},
        {"patterns": [r"(.)\1"]},
        {"patterns": [r"(?P<q>.)(?P=q)"]},
        {"patterns": ["[ab]{0,60}[ab]{0,60}[ab]{1000}c"]},
        {"patterns": ["a{0,12}" * 3 + "a{900}b"]},
        {"patterns": ["(?:a|a)" * 11 + "a{1500}b"]},
        {"patterns": [".*" + "a" * 250 + "b"]},
        {"patterns": ["a{99999999999999999999}"]},
        {"patterns": ["a{1,99999999999999999999}"]},
        {"patterns": ["a{99999999999999999999,}"]},
        {"patterns": ["[[a]b"]},
        {"patterns": ["x"] * (routing.PATTERNS_LIMIT + 1)},
        {"words": [str(number) for number in range(routing.WORDS_LIMIT + 1)]},
        {"words": ["x" * (routing.PHRASE_LIMIT + 1)]},
        {"words": ["a " * routing.PHRASE_LIMIT + "b"]},
        {"words": ["\ufdfa" * 4]},
    ],
    ids=lambda rule: str(rule)[:60],
)
def test_bad_rule_is_refused_by_name(rule: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ruled(**rule)
    assert "mine" in refused.value.message


@pytest.mark.requirement("routing-rules")
@pytest.mark.parametrize("raised", [OverflowError, RecursionError])
def test_pattern_that_python_gives_up_on_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    def give_up(*_: object) -> None:
        raise raised

    monkeypatch.setattr("strongroom.routing.re.compile", give_up)
    with pytest.raises(InvalidRequest) as refused:
        ruled(patterns=["x"])
    assert "mine" in refused.value.message


@pytest.mark.requirement("routing-rules")
@pytest.mark.parametrize(
    "table",
    [
        {"default": "Not A Name"},
        {"nonsense": 1},
        {"rules": {}},
        {"rules": [{"namespace": "work", "words": ["x"]}]},
        {"rules": [{"name": "a", "namespace": "work", "words": ["x"]}] * 2},
        {"rules": [{"name": str(n), "namespace": "work", "words": ["x"]} for n in range(257)]},
    ],
    ids=["default", "unknown", "shape", "nameless", "twice", "many"],
)
def test_bad_table_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        rules(table)


@pytest.mark.requirement("routing-rules")
@pytest.mark.parametrize(
    ("text", "namespace", "rule"),
    [
        ("Trip to Chengdu, May 25-29", "travel", "trip"),
        ("MY FLIGHT leaves at nine", "travel", "trip"),
        ("明天flight去成都", "travel", "trip"),
        ("下周去成都旅行", "travel", "trip"),
        ("来週は新幹線で行く", "travel", "trip"),
        ("다음 주에 여행을 간다", "travel", "trip"),
        ("ｆｌｉｇｈｔ in full width", "travel", "trip"),
        ("Allergic to peanuts", "personal", "health"),
        ("我对花生过敏", "personal", "health"),
        ("My mother's birthday is in June", "family", "family"),
        ("妈妈的生日", "family", "family"),
        ("Standup moves to ten", "work", "office"),
        ("OPS-1234 is blocked", "work", "tickets"),
        ("The booking code is ABC-1234.", "travel", "trip"),
        ("明日の会議", "work", "office"),
        ("Likes green tea", "personal", ""),
        ("tripod and hotelier are other words", "personal", ""),
        ("", "personal", ""),
    ],
)
def test_default_rules_choose(text: str, namespace: str, rule: str) -> None:
    found = route(text)
    assert (found.namespace, found.rule) == (namespace, rule)


@pytest.mark.requirement("routing-rules")
@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("the doctor says I may take the flight", "personal"),
        ("a trip with my wife", "family"),
        ("the meeting is at the airport", "work"),
        ("my son is allergic", "personal"),
    ],
)
def test_text_that_fits_two_rules_lands_in_the_more_sensitive(text: str, namespace: str) -> None:
    assert route(text).namespace == namespace


@pytest.mark.requirement("routing-rules")
def test_route_takes_the_most_sensitive_of_all_rules_whatever_their_order() -> None:
    words = {"travel": "flight", "personal": "pills", "work": "ticket"}
    for order in (("travel", "work", "personal"), ("personal", "travel", "work"), ("work", "personal", "travel")):
        table = rules({"rules": [{"name": name, "namespace": name, "words": [words[name]]} for name in order]})
        assert route("my pills, the flight and the ticket", table).namespace == "personal"
        assert route("the flight and the ticket", table).namespace == "work"
        assert route("the flight", table).namespace == "travel"


@pytest.mark.requirement("routing-rules")
def test_namespace_of_ones_own_is_as_sensitive_as_its_first_rule_stands() -> None:
    names = ("secret", "travel", "personal", "hobby")
    table = rules({"rules": [{"name": name, "namespace": name, "words": [name]} for name in names]})
    assert table.order == ("secret", "personal", "travel", "hobby")
    assert route("personal secret", table).namespace == "secret"
    assert route("personal hobby", table).namespace == "personal"
    told = (model.namespace("hobby"), model.namespace("personal"))
    assert route("personal hobby", table, order=told).namespace == "hobby"
    assert route("personal secret", table, order=told).namespace == "secret"


@pytest.mark.requirement("routing-rules")
def test_stems_and_ignored_phrases() -> None:
    table = ruled(stems=["chemo", "steuer"], words=["bank"], ignore=["bank holiday", "chemo lab"])
    for text in ("Chemotherapy at nine", "die Steuererklärung", "the bank", "bank holiday at the bank"):
        assert route(text, table).rule == "mine"
    for text in ("a bank holiday", "the chemo lab", "biochemotherapy", "Bank  Holiday"):
        assert route(text, table).rule == ""
    assert route("my Chemotherapy ends", table).matched == "chemotherapy"


@pytest.mark.requirement("routing-rules")
@pytest.mark.parametrize("rule", [{"stems": ["ab"]}, {"stems": ["x" * 65]}, {"stems": ["医院"]}, {"ignore": ["x"]}])
def test_bad_stems_and_a_rule_that_only_ignores_are_refused(rule: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        ruled(**rule)


@pytest.mark.requirement("routing-rules")
def test_default_rules_go_from_the_most_sensitive_to_the_least() -> None:
    order = [DEFAULT_NAMESPACES.index(rule.namespace) for rule in routing.default_rules().rules]
    assert order == sorted(order)
    assert set(order) == set(range(len(DEFAULT_NAMESPACES)))


@pytest.mark.requirement("routing-rules")
def test_words_of_several_words_and_of_other_scripts_match() -> None:
    table = ruled(words=["Pull  Request", "straße", "c++", "日報"])
    for text in ("a pull\nrequest", "STRASSE 5", "C++ is old", "今日の日報です"):
        assert route(text, table).rule == "mine"
    for text in ("pull requests", "c", "日 報"):
        assert route(text, table).rule == ""


@pytest.mark.requirement("routing-rules")
def test_matched_says_the_whole_word() -> None:
    assert route("a credit card number").matched == "credit card"
    assert route("we travelling far").matched == "travelling"


@pytest.mark.requirement("routing-rules")
def test_rule_for_a_place_fits_only_there() -> None:
    place = ruled(platform="slack", chat="ops")
    assert route("hello", place, platform="slack", chat="ops") == Route(place.rules[0].namespace, "mine", "")
    assert route("hello", place, platform="slack").rule == ""
    assert route("hello", place).rule == ""
    both = ruled(platform="slack", words=["deploy"])
    assert route("deploy now", both, platform="slack").rule == "mine"
    assert route("hello", both, platform="slack").rule == ""
    assert route("deploy now", both).rule == ""


@pytest.mark.requirement("routing-rules")
def test_patterns_with_bounds_are_taken_and_ignore_case() -> None:
    table = ruled(
        patterns=[
            r"\bINV-[0-9]{1,6}\b",
            r"[a-z]{1,40}@[a-z]{1,40}\.com",
            r"due .*friday",
            r"(?:re: )?offer",
            r"(?<!no )[({]bill|tax[)}]",
        ]
    )
    for text in ("inv-77", "write to ann@example.com", "it is due next Friday", "offer", "a (bill", "tax}"):
        assert route(text, table).rule == "mine"


@pytest.mark.requirement("routing-rules")
def test_pattern_looks_no_further_than_its_limit() -> None:
    table = ruled(patterns=["needle"])
    assert route("x" * 4000 + " needle", table).rule == "mine"
    assert route("x" * routing.SCAN_LIMIT + " needle", table).rule == ""
    assert route("x" * routing.SCAN_LIMIT + " needle", ruled(words=["needle"])).rule == "mine"


@pytest.mark.requirement("routing-rules")
def test_words_look_no_further_than_the_longest_line() -> None:
    table = ruled(words=["needle"])
    assert route("x" * (routing.TEXT_LIMIT - 7) + " needle", table).rule == "mine"
    assert route("x" * routing.TEXT_LIMIT + " needle", table).rule == ""
    assert len(routing._folded("\ufdfa" * routing.TEXT_LIMIT)) == routing.TEXT_LIMIT


@pytest.mark.requirement("routing-rules")
def test_words_that_begin_alike_are_looked_for_together() -> None:
    """Each of these was tried from each place of the text: minutes. A slow one would not come back."""
    phrases = ["a " * count + end for count in range(31) for end in "bcdefghijklmnopqrstuvwxyz012345"]
    table = ruled(words=phrases)
    assert len(set(phrases)) > 900
    assert route("a " * 16_000, table).rule == ""
    assert route("a " * 16_000 + "5", table).matched == "a " * 30 + "5"
    assert route("中" * 10_000, ruled(words=["中" * count + "国" for count in range(63)])).rule == ""


@pytest.mark.requirement("routing-rules")
def test_marks_stacked_high_do_not_hold_up_a_text() -> None:
    """Normalising takes time quadratic in a stack of marks; these took seconds, and also come from other characters."""
    table = ruled(words=["café", "needle"])
    for stack in ("\u0301\u0323", "\u0f75\uff9e", "\u0f73"):
        assert len(routing._folded("a" + stack * 16_000)) < 200
        assert route("a" + stack * 10_000 + " needle", table).rule == "mine"
    assert route("cafe\u0301", table).matched == "café"
    assert route("é" * 1000 + " café", table).rule == "mine"


@pytest.mark.requirement("routing-rules")
@given(st.lists(st.text(alphabet="ab c+", min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=8), st.data())
def test_longest_word_at_the_first_place_is_reported(words: list[str], data: st.DataObject) -> None:
    text = " ".join(data.draw(st.text(alphabet="ab c+", max_size=30)).split())
    folded = sorted({" ".join(word.split()) for word in words}, key=len, reverse=True)
    plain = re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, folded))})(?!\w)", text)
    assert route(text, ruled(words=words)).matched == (plain[0] if plain else "")


@pytest.mark.requirement("routing-rules")
@given(st.text(alphabet="ab()|?*+{},12[]\\\\^:=!<>#x", max_size=14))
def test_pattern_that_is_taken_ends(source: str) -> None:
    """Whatever is taken is tried on what makes such patterns slow; a slow one would not come back."""
    try:
        table = ruled(patterns=[source])
    except InvalidRequest:
        return
    route("ab" + "a" * 2000 + "!", table)


@pytest.mark.requirement("routing-rules")
@given(st.text(max_size=200))
def test_every_text_has_one_answer(text: str) -> None:
    found = route(text)
    assert found == route(text)
    assert found.namespace in DEFAULT_NAMESPACES


# The command.


def test_bad_rules_in_the_file_are_told_where_they_are_used(cli: Cli, vault: None, home: Path) -> None:
    config = home / ".config" / "strongroom" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[[routing.rules]]\nname = "mine"\nnamespace = "work"\npatterns = ["(a+)+"]\n')
    for words in (["route", "x"], ["put", "x"]):
        done = cli(*words, "--json")
        assert (done.code, done.reason) == (2, "invalid_request")
        assert "mine" in done.error["message"]
    assert cli("put", "x", "--namespace", "travel").code == 0
    config.write_text("engine = [")
    assert cli("list", "--json").reason == "invalid_request"
    config.write_text("nonsense = 1")
    assert cli("list", "--json").reason == "invalid_request"


def test_route_explains_its_decision_without_a_vault(cli: Cli) -> None:
    assert cli("route", "my", "flight").out == "travel: rule `trip` matches 'flight'\n"
    assert cli("route", "tea", "--json").json == {"namespace": "personal", "rule": "", "matched": ""}
    both = cli("route", "see the doctor before the flight")
    assert both.out == "personal: rule `health` matches 'doctor'\n  overrules travel: rule `trip` matches 'flight'\n"
    told = cli("route", "see the doctor before the flight", "--json").json
    assert told["overruled"] == [{"namespace": "travel", "rule": "trip", "matched": "flight"}]
    assert cli("route", "--json").reason == "usage"


def test_own_rules_decide_for_route_and_put(cli: Cli, vault: None, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = home / "mine.toml"
    config.write_text(
        '[routing]\ndefault = "work"\n\n[[routing.rules]]\nname = "team"\nnamespace = "family"\nplatform = "slack"\n'
    )
    monkeypatch.setenv("STRONGROOM_CONFIG", str(config))
    assert cli("route", "my flight", "--json").json["namespace"] == "work"
    assert cli("route", "my flight", "--platform", "slack", "--json").json["rule"] == "team"
    assert cli("put", "my flight", "--json").json["lines"][0]["namespace"] == "work"


@pytest.mark.requirement("routing-rules")
def test_written_default_is_the_default_and_is_not_overwritten(cli: Cli, home: Path) -> None:
    told = cli("route", "--write-default", "--out", "-").out
    assert rules(tomllib.loads(told)["routing"]) == routing.default_rules()
    limits = (routing.WORDS_LIMIT, routing.PHRASE_LIMIT, routing.PATTERNS_LIMIT, routing.PATTERN_LIMIT)
    assert "{} words or phrases of {} characters each, and {} patterns of {}.".format(*limits) in told
    assert cli("route", "--write-default").code == 0
    written = home / ".config" / "strongroom" / "config.toml"
    assert written.read_text() == told
    assert cli("route", "my flight", "--json").json["namespace"] == "travel"
    done = cli("route", "--write-default", "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert cli("route", "x", "--write-default", "--json").reason == "usage"
