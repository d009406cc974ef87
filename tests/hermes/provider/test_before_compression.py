"""The lines worth keeping before a conversation is summarised away."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.hermes.provider import line_format
from strongroom.hermes.provider.before_compression import LINE_LIMIT, worth
from strongroom.hermes.provider.privacy_phrases import Phrases

RECALLED = f'{line_format.HEADING}\n- 2026-05-20, travel, alice: "Trip to Oslo on May 2" [01JABCDEFGHJKMNPQRSTVWXYZ0]'


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


# What is left out


@pytest.mark.requirement("hermes-compress-keeps-what-matters")
@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "We decided to leave on May 2."},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "x", "arguments": "May 2"}}]},
        {"role": "tool", "content": "My flight is on May 2."},
        {"role": "system", "content": "Always answer in 2 lines."},
        user(None, api_content="I fly on May 2."),
        user("", api_content="I fly on May 2."),
        user(f"<memory-context>\n{RECALLED}\n</memory-context>"),
        user(RECALLED),
        user([{"type": "tool_result", "content": "I fly on May 2."}, {"type": "image_url", "image_url": {"url": "x"}}]),
        user("[CONTEXT COMPACTION — REFERENCE ONLY] I fly on May 2."),
        user("We agreed on May 2.", _compressed_summary=True),
        user("```\nmy_deadline = 2\n```"),
        user("```\nmy deadline is 2"),
        user(42),
        user({"text": "I fly on May 2."}),
        {"content": "I fly on May 2."},
        {},
    ],
)
def test_text_that_the_person_did_not_say_is_left_out(message: dict[str, Any]) -> None:
    assert worth([message]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello!",
        "Thanks so much!",
        "ok, sounds good",
        "Where am I going on May 25?",
        "what time is my flight",
        "Can you book my hotel for 3 nights",
        "我什么时候去成都?",
        "我五月去成都\uff1f",
        "我要去成都吗",
        "谢谢",
        "你好!好的",
        "ありがとうございます",
        "私の会議はいつですか",
        "감사합니다",
        "Danke, super!",
        "¿Dónde está mi hotel?",
        "هل لدي موعد 5؟",
        "👍",
        "...",
    ],
)
def test_questions_and_small_talk_are_left_out(text: str) -> None:
    assert worth([user(text)]) == ""


@pytest.mark.requirement("hermes-off-the-record")
def test_off_the_record_text_is_left_out_and_what_came_after_is_not() -> None:
    messages = [
        user("My dentist is on May 3."),
        user("Off the record: I may quit on May 4."),
        user("This conversation is off the record."),
        user("My boss leaves on May 5."),
        user("Back on the record: I fly on May 6."),
        user("My hotel has 7 floors."),
    ]
    assert worth(messages) == (
        "- user: My dentist is on May 3.\n- user: Back on the record: I fly on May 6.\n- user: My hotel has 7 floors."
    )


def test_conversation_that_was_off_the_record_before_stays_so_until_it_is_on_again() -> None:
    messages = [user("My boss leaves on May 5."), user("You may remember again."), user("I fly on May 6.")]
    assert worth(messages, is_off=True) == "- user: You may remember again.\n- user: I fly on May 6."


def test_phrases_of_the_owner_count_here_too() -> None:
    messages = [user("psst, I fly on May 6."), user("My dentist is on May 3.")]
    assert worth(messages, phrases=Phrases(("psst",), (), ())) == "- user: My dentist is on May 3."


# What is kept


@pytest.mark.requirement("hermes-compress-keeps-what-matters")
@pytest.mark.parametrize(
    "text",
    [
        "I am going to Chengdu from May 25 to 29.",
        "We decided to use Postgres",
        "never deploy on Fridays",
        "The deadline moved to Tuesday",
        "My daughter is called Mia",
        "do not use tabs in this project",
        "我对花生过敏。",
        "我们决定五月二十五号去成都",
        "来週の金曜日に成都へ行きます。",
        "저는 땅콩 알레르기가 있어요.",
        "Я лечу в Чэнду в пятницу.",
        "أنا أسافر إلى تشنغدو يوم الجمعة.",
        "मैं शुक्रवार को चेंगदू जा रहा हूँ।",
        "ฉันจะไปเฉิงตูวันศุกร์",
        "Ich fliege am Freitag nach Chengdu.",
        "Θα πάω στο Τσενγκντού την Παρασκευή.",
    ],
)
def test_statement_is_kept_in_any_script(text: str) -> None:
    assert worth([user(text)]) == f"- user: {text}"


def test_only_the_statements_of_a_message_are_kept() -> None:
    text = "Hello! I fly to Chengdu on May 25. Where should I stay?\nThanks.\n```\nx = 1\n```\nMy budget is 900."
    assert worth([user(text)]) == "- user: I fly to Chengdu on May 25. My budget is 900."


def test_text_parts_are_read_and_recalled_text_between_them_is_not() -> None:
    parts = [{"type": "text", "text": "I fly on May 25."}, "My budget is 900.", {"type": "text", "text": RECALLED}]
    assert worth([user(parts)]) == "- user: I fly on May 25. My budget is 900."


def test_repeated_text_stands_once_where_it_was_said_last() -> None:
    messages = [user("I fly on May 25."), user("My budget is 900."), user("I  FLY on May 25.")]
    assert worth(messages) == "- user: My budget is 900.\n- user: I FLY on May 25."


def test_lines_keep_their_order() -> None:
    messages = [user(f"My item number {number} is here.") for number in range(20)]
    assert worth(messages).split("\n") == [f"- user: My item number {number} is here." for number in range(20)]


def test_newest_statements_are_kept_if_room_is_short() -> None:
    messages = [user(f"My item number {number} is here.") for number in range(100, 200)]
    lines = worth(messages, limit=400).split("\n")
    assert lines == [f"- user: My item number {number} is here." for number in range(200 - len(lines), 200)]
    assert len(lines) == 11


def test_lasting_statements_are_kept_before_others_if_room_is_short() -> None:
    messages = [user("My daughter is called Mia."), *(user(f"make the title {shade} please") for shade in COLOURS)]
    chosen = worth(messages, limit=90).split("\n")
    assert chosen == ["- user: My daughter is called Mia.", "- user: make the title white please"]


COLOURS = ["red", "green", "blue", "black", "white"]


def test_long_message_is_cut_and_its_lasting_sentences_go_first() -> None:
    filler = "the weather over there seems rather pleasant. " * 20
    line = worth([user(f"{filler}My flight is on May 25. {filler}")])
    assert line == "- user: My flight is on May 25."
    line = worth([user("my word " * 400)])
    assert len(line) == LINE_LIMIT
    assert line.endswith("\u2026")


def test_lines_that_fill_the_limit_are_kept_and_one_character_less_costs_a_line() -> None:
    messages = [user("I fly on May 25."), user("My budget is 900.")]
    whole = worth(messages)
    assert worth(messages, limit=len(whole)) == whole
    assert worth(messages, limit=len(whole) - 1) == "- user: My budget is 900."


def test_no_room_gives_nothing() -> None:
    assert worth([user("I fly on May 25.")], limit=10) == ""
    assert worth([], limit=0) == ""


WORDS = st.sampled_from(
    ["I fly on May 25. ", "thanks ", "why? ", "我去成都。", "\n", "- ", "My budget is 900 ", "off the record ", "```"]
)
MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "tool"]),
        st.lists(WORDS, max_size=30).map("".join) | st.text(max_size=400) | st.none(),
    ),
    max_size=30,
)


@given(MESSAGES, st.integers(0, 2000))
def test_result_is_the_same_each_time_within_its_limit_and_one_line_each(messages: list[Any], limit: int) -> None:
    result = worth(messages, limit)
    assert result == worth(messages, limit)
    assert len(result) <= limit
    assert all(line.startswith("- user: ") and len(line) <= LINE_LIMIT for line in result.splitlines())


@pytest.mark.parametrize(
    "text", ["I fly on May {}. ", "{}" + " " * 8000, "{}" + "。" * 4000, "{}" + "`" * 8000, "{}" + "?!" * 4000]
)
def test_time_grows_with_the_messages_and_not_with_their_square(text: str) -> None:
    def cost(count: int) -> float:
        messages = [user(text.format(number)) for number in range(count)]
        best = float("inf")
        for _ in range(3):
            before = time.thread_time()
            worth(messages)
            best = min(best, time.thread_time() - before)
        return best

    assert cost(80) < 28 * cost(10) + 0.001  # 8 if linear, 64 if quadratic
