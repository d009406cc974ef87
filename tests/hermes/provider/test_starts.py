"""Words are looked for only where a text holds what they begin with: nothing is missed by that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom import routing
from strongroom.hermes.provider.privacy_phrases import Asked, Phrases, asks

PIECES = st.sampled_from(
    [
        "son",
        "été",
        "旅行",
        "여행",
        "#tag",
        ".net",
        "a b",
        "in-laws",
        "3d",
        "x_y",
        "-",
        " ",
        "'",
        "ß",
        "é",
        "\u0e01",
        "1",
    ]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=6).map("".join)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("#tag", "see #tag"),
        (".net", "we use .NET here"),
        ("in-laws", "my In-Laws came"),
        ("blood type", "my Blood\n Type is A"),
        ("旅行", "明天去旅行吗"),
        ("été", "cet ÉTÉ"),
        ("x_y", "(x_y)"),
        ("ﬁsh", "the FISH"),
    ],
)
def test_word_is_found_whatever_it_begins_with(word: str, text: str) -> None:
    assert routing.route(text, _rules(word)).rule == "one"


@pytest.mark.parametrize(("word", "text"), [("son", "person"), ("son", "sons"), ("in-laws", "in laws"), ("x", "x_y")])
def test_part_of_a_word_is_not_the_word(word: str, text: str) -> None:
    assert routing.route(text, _rules(word)).rule == ""


@given(word=TEXTS.filter(lambda one: bool(one.strip())), text=TEXTS)
def test_every_word_that_a_text_holds_is_found(word: str, text: str) -> None:
    rules = _rules(word)
    folded = routing._folded(text)
    assert (routing.route(text, rules).rule == "one") == bool(rules.rules[0].words.search(folded))


@pytest.mark.parametrize("phrase", ["#quiet", "entre nous", "こっそり", "3 quiet", "d'accord"])
def test_phrase_of_the_owner_is_heard_whatever_it_begins_with(phrase: str) -> None:
    own = Phrases(turn=(phrase,), off=(), on=())
    assert asks(f"well, {phrase.upper()}: it rains", own) is Asked.THIS_TURN
    assert asks("it rains", own) is Asked.NOTHING


def _rules(word: str) -> routing.Rules:
    return routing.rules({"default": "personal", "rules": [{"name": "one", "namespace": "work", "words": [word]}]})
