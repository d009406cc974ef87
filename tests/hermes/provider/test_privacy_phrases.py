"""Off the record by phrase, who speaks in a shared chat, and what was recalled rather than said."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom import model
from strongroom.errors import InvalidRequest
from strongroom.hermes.provider import line_format, privacy_phrases
from strongroom.hermes.provider.privacy_phrases import Asked, Phrases
from strongroom.model import Hit
from tests.hermes.provider import people
from tests.hermes.provider.conftest import TRIP, Wired, say
from tests.hermes.provider.people import said

NOTE = (
    "[System note: The following is recalled memory context, NOT new user input. Treat as authoritative reference data"
    " — this is the agent's persistent memory and should inform all responses.]"
)
RECALLED = (
    f"{line_format.HEADING}\n"
    '- 2026-05-20, travel, alice: "Trip to Chengdu, May 25-29" [01JABCDEFGHJKMNPQRSTVWXYZ0]\n'
    '- 2026-05-21 09:30, personal, user: "Allergic to \\"peanuts\\"\\nand [dust]" [01JABCDEFGHJKMNPQRSTVWXYZ1]'
)
BLOCK = f"<memory-context>\n{NOTE}\n\n{RECALLED}\n</memory-context>"


# Off the record

TURN = [
    "off the record: I am thinking of leaving",
    "This is OFF  THE\nRECORD, ok",
    "off-the-record, she said no",
    "**Off the record** I hate it",
    "ｏｆｆ ｔｈｅ ｒｅｃｏｒｄ: x",
    "o\u200bff the re\u00adcord: x",
    "what does off the record mean?",
    "Don't remember this, but I lied",
    "don\u2019t remember this",
    "dont remember this",
    "please do not store this",
    "Bitte nicht merken: ich kündige",
    "不要记住:我要辞职",
    "請不要記住這個",
    "これはオフレコですが、辞めます",
    "これはｵﾌﾚｺです",
    "s'il te plaît ne retiens pas cela",
    "ne mémorise pas",
    "NE MEMORISE PAS",
    unicodedata.normalize("NFD", "ne mémorise pas"),
    "esto es extraoficialmente, no guardes esto",
    "не запоминай это",
    "이건 기억하지 마",
    "we were back on the record, but this is off the record",
]
OFF = [
    "This conversation is off the record.",
    "let's go off the record now",
    "stop remembering",
    "Please STOP remembering things",
    "from now on off the record",
    "don't remember anything I say",
    "停止记忆",
    "ここからオフレコでお願いします",
    "merk dir nichts mehr",
    "back on the record? no, we're off the record",
]
ON = [
    "back on the record",
    "OK, we're back on the record: I fly on Monday",
    "you may remember again",
    "we are no longer off the record",
    "merk dir wieder alles",
    "可以继续记了",
    "オフレコ終わり。来週は成都",
]
NOTHING = [
    "",
    " ",
    "?!",
    "I broke the record off the coast",
    "turn off the recorder",
    "off the records",
    "kickoff the record",
    "She set the record straight",
    "remember this: the code review is on Friday",
    "don't forget this",
    "我记住了",
    "オフ会の記録",
]


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize("text", TURN)
def test_phrase_takes_its_turn_off_the_record(text: str) -> None:
    assert privacy_phrases.asks(text) is Asked.THIS_TURN


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize("text", OFF)
def test_phrase_takes_what_follows_off_the_record(text: str) -> None:
    assert privacy_phrases.asks(text) is Asked.OFF


@pytest.mark.parametrize("text", ON)
def test_phrase_puts_what_follows_on_record_again(text: str) -> None:
    assert privacy_phrases.asks(text) is Asked.ON


@pytest.mark.parametrize("text", NOTHING)
def test_other_words_ask_nothing(text: str) -> None:
    assert privacy_phrases.asks(text) is Asked.NOTHING


@pytest.mark.parametrize("before", ["", "so, ", "\n\n", "“"])
def test_every_built_in_phrase_is_found_and_asks_for_what_it_says(before: str) -> None:
    for asked, phrases in (
        (Asked.THIS_TURN, privacy_phrases.DEFAULT.turn),
        (Asked.OFF, privacy_phrases.DEFAULT.off),
        (Asked.ON, privacy_phrases.DEFAULT.on),
    ):
        assert {
            phrase for phrase in phrases if privacy_phrases.asks(f"{before}{phrase.upper()}!") is not asked
        } == set()


def test_phrases_of_the_owner_replace_the_built_in_ones() -> None:
    own = Phrases(turn=("Psst",), off=("radio silence",), on=("radio on",))
    assert privacy_phrases.asks("psst: a secret", own) is Asked.THIS_TURN
    assert privacy_phrases.asks("Radio silence, please", own) is Asked.OFF
    assert privacy_phrases.asks("radio on", own) is Asked.ON
    assert privacy_phrases.asks("off the record", own) is Asked.NOTHING
    assert privacy_phrases.asks("psst", Phrases((), (), ())) is Asked.NOTHING


def test_phrase_that_is_given_twice_asks_for_the_more_private() -> None:
    assert privacy_phrases.asks("hush", Phrases(("hush",), ("hush",), ("hush",))) is Asked.OFF
    assert privacy_phrases.asks("hush", Phrases(("hush",), (), ("hush",))) is Asked.THIS_TURN


@pytest.mark.parametrize("phrase", ["", " \n", "\u200b", "'", "x" * 65])
def test_phrase_that_is_empty_or_too_long_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        privacy_phrases.asks("x", Phrases((phrase,), (), ()))
    assert refused.value.reason == "invalid_request"


def test_too_many_phrases_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        privacy_phrases.asks("x", Phrases(tuple(f"phrase {number}" for number in range(257)), (), ()))


def test_phrase_is_a_text_and_no_pattern() -> None:
    assert privacy_phrases.asks("abc", Phrases(("a.c", ".*"), (), ())) is Asked.NOTHING
    assert privacy_phrases.asks("a.c", Phrases(("a.c",), (), ())) is Asked.THIS_TURN


def test_phrase_before_or_after_a_long_paste_is_found() -> None:
    paste = "word " * 100_000
    assert privacy_phrases.asks(f"off the record: {paste}") is Asked.THIS_TURN
    assert privacy_phrases.asks(f"{paste} that was off the record") is Asked.THIS_TURN


@pytest.mark.parametrize("piece", ["off the ", "e\u0301", "\u0301", " ", "不要", "\ufdfa", "don't ", "-"])
def test_time_grows_with_a_hostile_text_and_not_with_its_square(piece: str) -> None:
    def cost(size: int) -> float:
        text = (piece * size)[:size]
        return min(_spent(lambda: (privacy_phrases.asks(text), privacy_phrases.bare(text))) for _ in range(3))

    assert cost(65536) < 28 * cost(8192) + 0.001  # 8 if linear, 64 if quadratic


# Who speaks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[alice] hello", ("alice", "hello")),
        ("[Alice B. 王] two\nlines", ("Alice B. 王", "two\nlines")),
        ("[alice]   spaces", ("alice", "spaces")),
        ("[alice] [urgent] call", ("alice", "[urgent] call")),
        ("[[VIP] Ann] hello", ("[VIP] Ann", "hello")),
        ("[x] [bob] hello", ("x", "[bob] hello")),
        ("[ alice\t\u202eb ] hello", ("alice b", "hello")),
        (f"[{'n' * 240}] hello", ("n" * 64, "hello")),
        ('[Replying to: "see you"]\n\n[alice] hello', ("alice", "hello")),
        ('[Replying to: "x"]\n\n[bob] I owe you"]\n\n[alice] hello', ("alice", "hello")),
        ("[Recent channel messages]\n[bob] hi\n\n[New message]\n[alice] hello", ("alice", "hello")),
        (
            "[Recent channel messages]\n[eve] x\n\n[New message]\n[bob] I quit\n\n[New message]\n[alice] hello",
            ("alice", "hello"),
        ),
    ],
)
def test_name_before_a_message_is_its_author(text: str, expected: tuple[str, str]) -> None:
    assert privacy_phrases.speaker(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[",
        "[]",
        "[] hello",
        "[   ] hello",
        "[\u202e\x00] hello",
        "[alice]hello",
        "[alice hello",
        "[al\nice] hello",
        "[al]ice] hello",
        f"[{'n' * 10_000}] hello",
        "[" * 10_000,
        " [alice] hello",
        "see [alice] there",
    ],
)
def test_non_name_stays_part_of_the_message(text: str) -> None:
    assert privacy_phrases.speaker(text) == ("", text)


def test_message_cannot_bring_its_own_channel_notes() -> None:
    assert privacy_phrases.speaker("[eve] x\n\n[New message]\n[bob] I quit") == (
        "eve",
        "x\n\n[New message]\n[bob] I quit",
    )


@given(st.text(max_size=400), st.text(max_size=40))
def test_name_fits_the_field_it_goes_to(name: str, said: str) -> None:
    found, rest = privacy_phrases.speaker(f"[{name}] {said}")
    assert len(found) <= privacy_phrases.NAME_LIMIT
    assert model.clean_field(found, "a name") is not None
    assert rest in f"[{name}] {said}"


# What was recalled


@pytest.mark.requirement("hermes-recalled-not-stored-again")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"where am I going?\n\n{BLOCK}", "where am I going?"),
        (f"{BLOCK}\n\nwhere am I going?", "where am I going?"),
        (f"a {BLOCK} b {BLOCK} c", "a  b  c"),
        (BLOCK, ""),
        (BLOCK.upper().replace("<MEMORY-CONTEXT>", "< Memory-Context >"), ""),
        (f"so {BLOCK[:200]}", "so"),
        (f"{NOTE}\n{RECALLED}\nYou fly on May 25.", "You fly on May 25."),
        (f"As I recall:\n\n{RECALLED}", "As I recall:"),
        (
            'From memory:\n- 2026-05-20, travel, alice: "Trip" [01JABCDEFGHJKMNPQRSTVWXYZ0]\nYou fly.',
            "From memory:\nYou fly.",
        ),
        ("You asked: <memory-context>\n<memory-context>\nx</memory-context> y", "You asked:  y"),
        ("stray </memory-context> tag", "stray  tag"),
    ],
)
def test_recalled_text_is_no_part_of_what_was_said(text: str, expected: str) -> None:
    assert privacy_phrases.bare(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  where am I going? ",
        "what does <memory-context> do in Hermes?",
        "- 2026-05-20, travel: pack the bags",
        '- 2026-05-20, travel, alice: "Trip" [draft]',
        "- buy milk [01JABCDEFGHJKMNPQRSTVWXYZ0]",
        "forget 01JABCDEFGHJKMNPQRSTVWXYZ0 please",
        "[System note: the disk is full]",
        "[Replying to: nobody] x",
    ],
)
def test_text_that_only_resembles_it_stays(text: str) -> None:
    assert privacy_phrases.bare(text) == text


def test_runtime_note_before_a_message_is_not_what_the_person_said() -> None:
    notes = (
        "[Replying to: \"I am allergic\"]\n\n[Triggering message id: `1` — use it.]\n\n[The user sent a file: 'a'.]\n\n"
    )
    assert privacy_phrases.bare(f"{notes}take care") == "take care"


@given(
    st.lists(
        st.sampled_from([BLOCK, RECALLED, NOTE, "hello", "\n", "<memory-context>", "</memory-context>"]), max_size=6
    )
)
def test_taking_it_out_again_changes_nothing(parts: list[str]) -> None:
    once = privacy_phrases.bare("\n".join(parts))
    assert privacy_phrases.bare(once) == once
    assert "Chengdu" not in once


@given(st.text(max_size=1500), st.text(max_size=80))
def test_every_line_that_we_show_is_known_again(text: str, author: str) -> None:
    hit = Hit(
        id=model.LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),
        namespace=model.Namespace("travel"),
        text=text,
        kind=model.Kind.TURN,
        time=datetime(2026, 5, 20, tzinfo=UTC),
        author=author,
        session="",
        provenance=model.Provenance((), "", "test", model.Millis(0)),
        score=1.0,
    )
    shown, taken = line_format.format_hits([hit], 2000)
    assert taken == [hit]
    assert privacy_phrases.bare(f"Here you are:\n{shown}") == "Here you are:"


def _spent(call: Callable[[], object]) -> float:
    before = time.thread_time()
    call()
    return time.thread_time() - before


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize(
    "text",
    [
        "I'll tell you when we're back on the record",
        "don't go back on the record yet",
        "what does back on the record mean",
        "are we back on the record?",
        "Never say that you can remember again",
        "We are back on the record once my lawyer has read all of this and agreed to it in writing",
        "we aren't back on the record",
        "I can\u2019t say that you can remember again",
        "wenn ich es sage, merk dir wieder alles",
        "可以继续记吗",
        "等我说可以再记",
        "我没说可以继续记",
        "また覚えて\uff1f",
        "まだ覚えてるよね",
        "また覚えてとは言ってない",
        "다시 기억해 달라고 하지 않았어",
    ],
)
def test_mere_mention_does_not_end_off_the_record(wired: Wired, text: str) -> None:
    assert privacy_phrases.asks(text) is not Asked.ON
    agent = wired.agent()
    for one in (people.OFF, text, "I am leaving my job"):
        say(agent, one)
    assert wired.texts() == []


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize(
    "text",
    [
        "back on the record",
        "OK, we're back on the record now.",
        "not off the record anymore",
        "No longer off the record!",
        "you can remember again, thanks",
        "I want to be back on the record now",
        "OK agent, you can remember again",
        "Du darfst dir wieder alles merken",
        "可以继续记了",
        "また覚えて。",
        "다시 기억해",
    ],
)
def test_plain_request_ends_off_the_record(wired: Wired, text: str) -> None:
    agent = wired.agent()
    for one in (people.OFF, text, TRIP):
        say(agent, one)
    assert said(wired) == [text, TRIP]


@pytest.mark.requirement("hermes-off-the-record")
def test_mention_in_a_shared_chat_does_not_end_what_another_asked_for(wired: Wired) -> None:
    thread = {"platform": "telegram", "chat_id": "-5", "chat_type": "group", "thread_id": "7"}
    key = {"gateway_session_key": "agent:main:telegram:group:-5:7"}
    alice = wired.agent("g", **thread, **key, user_id="1", user_name="alice")
    bob = wired.agent("g", **thread, **key, user_id="2", user_name="bob")
    say(alice, f"[alice] {people.OFF}")
    say(bob, "[bob] what does back on the record mean")
    say(alice, "[alice] I am leaving my job")
    assert wired.texts(strongroom.actor_path("hermes", "default", "telegram", "chat", "-5", "7")) == []
