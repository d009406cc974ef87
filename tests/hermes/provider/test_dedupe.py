"""Lines that say nothing new to who asks, and messages that ask for nothing: tables, and a memory full of questions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.hermes.provider import dedupe
from strongroom.hermes.provider.speaker import ASSISTANT
from strongroom.model import Hit, Kind, LineId, Millis, Namespace, Provenance
from tests.hermes.provider.conftest import Wired, say

pytestmark = pytest.mark.requirement("hermes-echoes")
QUESTION = "Where am I going this weekend?"


def hit(text: str, author: str = "alice", kind: Kind = Kind.TURN) -> Hit:
    return Hit(
        id=LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),
        namespace=Namespace("travel"),
        text=text,
        time=datetime(2026, 5, 20, 12, tzinfo=UTC),
        kind=kind,
        session="s",
        author=author,
        score=1.0,
        provenance=Provenance((), "", "hermes", Millis(0)),
    )


def left(question: str, *hits: Hit) -> list[str]:
    return [one.text for one in dedupe.without_echoes(hits, question, ASSISTANT)]


# What is left out.


@pytest.mark.parametrize(
    ("line", "question"),
    [
        (QUESTION, QUESTION),
        ("where am i going THIS weekend", "Where am I going this weekend"),
        ("Where am I going?", QUESTION),
        ("this weekend?!?", "Where am I going this weekend?"),
        ("Where am I going this weekend?)", QUESTION),
        ("这个周末我去哪里？", "这个周末我去哪里？"),
        ("我去哪里呢。", "请问我周末去哪里呢"),
        ("周末去哪里吗", "我周末去哪里吗？"),
        ("週末はどこに行きますか。", "今度の週末はどこに行きますか"),
        ("주말에 어디 가?", "이번 주말에 어디 가?"),
        ("أين أذهب؟", "أين أذهب هذا الأسبوع؟"),
    ],
)
def test_question_that_was_asked_before_is_left_out(line: str, question: str) -> None:
    assert left(question, hit(line)) == []


@pytest.mark.parametrize("reply", ["I see.", "Noted!", "好。", "OK", "\U0001f44d"])
def test_reply_without_any_content_is_left_out(reply: str) -> None:
    assert left(QUESTION, hit(reply, ASSISTANT)) == []


def test_repeated_line_is_shown_once() -> None:
    assert left(QUESTION, hit("Trip to  Chengdu"), hit("trip to chengdu"), hit("Trip to Rome")) == [
        "Trip to  Chengdu",
        "Trip to Rome",
    ]


# What stays.


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("I am allergic to peanuts", "Am I allergic to peanuts?"),
        ("My next trip is Rome.", "Is Rome my next trip?"),
        ("Allergic to peanuts", "allergic to peanuts?"),
        ("我对花生过敏", "我对花生过敏吗？"),
        ("私はナッツアレルギーです", "私はナッツアレルギーですか？"),
    ],
)
def test_statement_that_answers_in_the_questions_own_words_stays(line: str, question: str) -> None:
    assert left(question, hit(line)) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "Where am I going this weekend? To Chengdu!",
        "Why am I going to Chengdu this weekend?",
        "Did I say that I am going to Chengdu?",
        "这个周末我去成都吗？",
        "I am going",
    ],
)
def test_line_that_adds_a_word_or_asks_nothing_stays(line: str) -> None:
    assert left(QUESTION, hit(line)) == [line]


@pytest.mark.parametrize("reply", ["You are going to Chengdu.", "This weekend", "Pack a warm coat"])
def test_reply_that_answers_or_tells_something_stays(reply: str) -> None:
    assert left(QUESTION, hit(reply, ASSISTANT)) == [reply]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.TURN])
def test_non_turn_is_never_an_echo(kind: Kind) -> None:
    assert left(QUESTION, hit(QUESTION, kind=kind), hit("I see.", ASSISTANT, kind)) == [QUESTION, "I see."]


@given(st.lists(st.text(max_size=40), max_size=6), st.text(max_size=40))
def test_nothing_is_added_or_put_in_another_order(texts: list[str], question: str) -> None:
    kept = left(question, *map(hit, texts))
    rest = iter(texts)
    assert all(one in rest for one in kept)


# Messages that ask for nothing.


@pytest.mark.parametrize(
    "text",
    ["", "hi", "Hello there!", "ok, thanks", "THANK YOU", "go on", "👍", "...", "你好", "好的，谢谢", "はい", "네"],
)
def test_small_talk_asks_for_nothing(text: str) -> None:
    assert dedupe.is_small_talk(text)


@pytest.mark.parametrize(
    "text", ["trip", "hi, when is my trip?", "ok and my allergy", "你是谁", "好的，我的旅行呢", "旅行", "42", "ja, Rom"]
)
def test_word_beside_it_asks_for_something(text: str) -> None:
    assert not dedupe.is_small_talk(text)


# In a memory.


def test_answer_is_shown_however_often_the_question_was_asked(either: Wired) -> None:
    either.put("The trip to Chengdu is on Saturday, going by train", "travel")
    for number in range(6):
        say(either.agent(f"s{number}"), QUESTION, "I see.")
    shown = either.agent("last").prefetch(QUESTION)
    assert "Chengdu" in shown
    assert "I see." not in shown
    assert QUESTION not in shown


def test_small_talk_recalls_nothing_and_the_gate_is_not_asked(either: Wired) -> None:
    either.put("ok great, thanks for the visa", "personal")
    agent = either.agent()
    before = either.vault.audit.size()
    assert agent.prefetch("ok great thanks") == ""
    assert either.vault.audit.size() == before
    assert "visa" in agent.prefetch("ok great thanks for the visa")
