"""Turns as lines: ids that a repeated call cannot duplicate, and texts cut so that a line takes them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom import model
from strongroom.hermes.provider import turn_ids
from strongroom.hermes.provider.turn_ids import Turns
from strongroom.model import Millis
from tests.hermes.provider.conftest import OWNER, Wired, say

KEY = b"k" * 32
NOW = Millis(1_779_440_000_000)
ZALGO = "e" + "\u0301" * 40


# Ids.


def test_id_is_a_line_id_that_begins_with_the_moment() -> None:
    made = turn_ids.line_id(KEY, NOW, "actor", "session", "0", "0", "words")
    assert model.line_id(made) == made
    assert made[:10] == turn_ids.line_id(b"other" * 8, NOW, "x")[:10]


def test_id_says_nothing_without_the_key() -> None:
    assert turn_ids.hash_of(turn_ids.line_id(KEY, NOW, "words")) != turn_ids.hash_of(
        turn_ids.line_id(b"x" * 32, NOW, "words")
    )


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4), st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_different_words_have_different_ids_unless_they_hold_what_no_line_may(one: list[str], other: list[str]) -> None:
    if one != other and not any("\0" in part for part in (*one, *other)):
        assert turn_ids.line_id(KEY, NOW, *one) != turn_ids.line_id(KEY, NOW, *other)


def test_turns_never_begin_at_one_moment() -> None:
    begun = Turns()
    times = [begun.begin("hello", NOW).time for _ in range(5)]
    assert all(later - earlier >= 2 for earlier, later in pairwise(times))


# Texts.


@given(st.text(max_size=300))
def test_every_piece_of_any_text_can_be_kept(text: str) -> None:
    for piece in turn_ids.pieces(text):
        model.clean_text(piece)


@pytest.mark.parametrize("character", ["a", "我", "🏔", "\n", "é"])
def test_long_text_becomes_lines_that_can_be_kept_and_hold_all_of_it(character: str) -> None:
    text = ("x" + character * 9) * 5000
    found = list(turn_ids.pieces(text))
    assert "".join(found).replace("\n", "") == text.strip().replace("\n", "")
    for piece in found:
        model.clean_text(piece)


def test_part_left_out_of_a_huge_text_is_said() -> None:
    found = list(turn_ids.pieces("a" * 1_000_000))
    assert len(found) < 20
    assert "left out" in found[-1]


@pytest.mark.parametrize("text", ["", " \n\t", "\x00\x01", "\ud800"])
def test_text_of_nothing_is_no_line(text: str) -> None:
    assert list(turn_ids.pieces(text)) == []


@pytest.mark.requirement("hermes-any-script")
@pytest.mark.parametrize("words", ["我对花生过敏", "у меня аллергия", "나는 땅콩 알레르기가 있어"])
def test_one_overloaded_letter_costs_no_other_script_its_words(words: str) -> None:
    assert any(words in piece for piece in turn_ids.pieces(f"{words} {ZALGO}"))


def test_huge_text_with_an_overloaded_letter_can_be_kept() -> None:
    for piece in turn_ids.pieces(f"{'a' * 140_000}{ZALGO}" + ZALGO + "b" * 10):
        model.clean_text(piece)
    for piece in turn_ids.pieces(ZALGO + "a" * 140_000):
        model.clean_text(piece)


# Turns, as they are kept.


@pytest.mark.requirement("hermes-sync-once")
def test_turn_that_is_told_twice_is_kept_once(either: Wired) -> None:
    agent = either.agent()
    say(agent, "hello there", "hi")
    agent.sync_turn("hello there", "hi", session_id="s1")
    assert either.texts() == ["hello there", "hi"]


@pytest.mark.requirement("hermes-sync-once")
def test_same_words_in_two_turns_are_kept_twice(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "yes", "fine")
    say(agent, "yes", "fine")
    assert wired.texts() == ["yes", "fine"] * 2


def test_turn_that_is_told_after_the_next_began_keeps_its_own_moment(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "first")
    agent.on_turn_start(2, "second")
    agent.sync_turn("first", "one", session_id="s1")
    agent.sync_turn("second", "two", session_id="s1")
    assert wired.texts() == ["first", "one", "second", "two"]


def test_same_words_told_late_are_kept_in_their_order(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "yes")
    agent.on_turn_start(2, "yes")
    agent.sync_turn("yes", "one", session_id="s1")
    agent.sync_turn("yes", "two", session_id="s1")
    assert wired.texts() == ["yes", "one", "yes", "two"]


def test_turn_without_a_beginning_is_kept(wired: Wired) -> None:
    wired.agent().sync_turn("hello", "hi", session_id="s1")
    assert wired.texts() == ["hello", "hi"]


def test_turn_told_twice_is_kept_once_even_if_more_was_shown_in_between(wired: Wired) -> None:
    agent = wired.agent()
    wired.put("I am allergic to peanuts", "personal")
    agent.on_turn_start(1, "My trip begins")
    agent.sync_turn("My trip begins", "Have a nice trip", session_id="s1")
    assert agent.prefetch("what am I allergic to? peanuts?")
    agent.sync_turn("My trip begins", "Have a nice trip", session_id="s1")
    assert wired.texts(OWNER).count("Have a nice trip") == 1


def test_turn_of_the_hosts_journal_is_kept_once_after_a_restart(wired: Wired) -> None:
    agent = wired.agent(turn_journal=True)
    agent.on_turn_start(1, "hello")
    agent.sync_turn("hello", "hi", session_id="s1", turn_id="t1")
    wired.forget_process()
    wired.agent(turn_journal=True).sync_turn("hello", "hi", session_id="s1", turn_id="t1")
    assert wired.texts() == ["hello", "hi"]


@pytest.mark.requirement("hermes-any-script")
@pytest.mark.parametrize(
    "words", ["我五月去成都旅行", "Vietnamese: Tôi dị ứng đậu phộng", "أنا ذاهب إلى الصين", "🏔 trip"]
)
def test_turn_of_any_script_is_kept_word_for_word(wired: Wired, words: str) -> None:
    say(wired.agent(), words, words)
    assert wired.texts() == [words, words]


def test_turn_with_a_picture_told_late_costs_the_next_one_nothing(wired: Wired) -> None:
    """Hermes begins it without a text, and tells it with one."""
    agent = wired.agent()
    agent.on_turn_start(1, "")
    agent.on_turn_start(2, "the next thing")
    agent.sync_turn("[1 image] what is this?", "a cat", session_id="s1")
    agent.sync_turn("the next thing", "fine", session_id="s1")
    assert wired.texts() == ["[1 image] what is this?", "a cat", "the next thing", "fine"]


def test_turn_that_never_began_costs_the_one_under_way_nothing(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "under way")
    agent.sync_turn("never began", "one", session_id="s1")
    agent.sync_turn("under way", "two", session_id="s1")
    assert sorted(wired.texts()) == ["never began", "one", "two", "under way"]


def test_turn_that_never_began_is_kept_after_one_that_was_taken_back(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "never mind")
    agent.on_session_switch("s1", rewound=True)
    agent.sync_turn("hello", "hi", session_id="s1")
    assert wired.texts() == ["hello", "hi"]
