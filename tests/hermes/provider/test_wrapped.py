"""Messages that Hermes makes of what a person said, or makes up: a skill's text is nobody's word."""

from __future__ import annotations

import pytest

from strongroom.hermes.provider import privacy_phrases
from tests.hermes.provider.conftest import DM, TRIP, Wired, say
from tests.hermes.provider.people import ALICE, said

HEAD = '[IMPORTANT: The user has invoked the "review" skill, indicating they want you to follow its instructions. '
ALONE = f"{HEAD}The full skill content is loaded below.]\n\nAlways begin with the pelican.\n\n[Skill directory: /s]"
SAID = "The user has provided the following instruction alongside the skill invocation: "
SKILL = f"{ALONE}\n\n{SAID}look at my trip"
BUNDLE = (
    '[IMPORTANT: The user has invoked the "{name}" skill bundle, loading 2 skills together. Treat every skill below '
    "as active guidance for this turn.]\n\nBundle: b\nSkills loaded: x, y\n\nBundle instruction: be a pelican"
)
LOADED = '\n\n[Loaded as part of the "b" skill bundle.]\n\nA pelican.\nUser instruction: quoted'
STACKED = BUNDLE.replace("skill bundle", "stacked skill bundle")
AUTO = '[IMPORTANT: The "review" skill is auto-loaded. Follow its instructions for this session.]\n\nA pelican.'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ALONE, ""),
        (SKILL, "look at my trip"),
        (f"{SKILL}\n\nand at the hotel\n\n[Runtime note: a pelican]", "look at my trip\n\nand at the hotel"),
        (SKILL.replace("pelican", f"pelican: {SAID}x"), "look at my trip"),
        (SKILL.replace("pelican", "pelican of a skill bundle, as in\nUser instruction: x"), "look at my trip"),
        (f"{BUNDLE}{LOADED}", ""),
        (f"{BUNDLE}\n\nUser instruction: look at my trip{LOADED}", "look at my trip"),
        (f"{STACKED}\n\nUser instruction: look at my trip{LOADED}", "look at my trip"),
        (f"{AUTO}\n\nlook at my trip", "look at my trip"),
        (f'[Replying to: "hello"]\n\n{SKILL}', "look at my trip"),
        ("[IMPORTANT: Background process 7 exited (exit code 1).\nCommand: x\nOutput:\nI am a pelican]", ""),
        ("[ASYNC DELEGATION COMPLETE — 7]\nA background subagent is done.\n--- RESULT ---\npelican", ""),
        ("[ASYNC DELEGATION BATCH COMPLETE — 7]\npelican", ""),
        ("[Continuing toward your standing goal]\nGoal: pelican\n\nContinue.", ""),
    ],
)
def test_wrapping_by_hermes_is_not_what_the_person_said(text: str, expected: str) -> None:
    assert privacy_phrases.bare(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[IMPORTANT: buy milk]",
        f"what does it mean: {ALONE}",
        f"{SAID}look at my trip",
        'the "review" skill is auto-loaded. Why?',
    ],
)
def test_text_that_only_resembles_it_stays(text: str) -> None:
    assert privacy_phrases.bare(text) == text


@pytest.mark.parametrize("text", [ALONE, f"{BUNDLE}{LOADED}"])
def test_bare_skill_is_in_no_draft_and_is_kept_by_no_later_process(wired: Wired, text: str) -> None:
    agent = wired.agent()
    say(agent, "one")
    agent.on_turn_start(2, text)
    assert wired.files(".draft") == []
    wired.forget_process()
    wired.agent("s2")
    assert said(wired) == ["one"]


@pytest.mark.requirement("hermes-crash")
def test_words_said_with_a_skill_are_safe_from_a_kill_without_the_skill(wired: Wired) -> None:
    wired.agent().on_turn_start(1, SKILL)
    wired.forget_process()
    wired.agent("s2")
    assert said(wired) == ["look at my trip"]


def test_turn_with_a_skill_is_known_again_when_it_is_told_after_one_that_was_interrupted(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "interrupted")
    agent.on_turn_start(2, SKILL)
    agent.sync_turn("look at my trip", "Done.", session_id="s1")
    assert wired.files(".draft") == []
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == ["look at my trip", "Done."]


def test_skill_in_a_shared_chat_is_not_kept_as_what_somebody_said(wired: Wired) -> None:
    """There Hermes does not know its own skill again, and tells of all of it."""
    told = {**DM, "user_name": "alice"}
    say(wired.agent(**told), f'[Replying to: "{TRIP}"]\n\n{SKILL}')
    assert said(wired, ALICE) == ["look at my trip"]
