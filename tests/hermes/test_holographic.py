"""The local provider that Hermes bundles, run by our host as it is installed: two sessions, two processes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strongroom import fence
from tests.hermes import homes
from tests.hermes.model_server import ModelServer, Request, Rule, ToolCall, by_rules, last_user_text

HOTEL = "The hotel in Chengdu is the Jinli House."
TEA = "Drinks jasmine tea in the morning."
FILE, LEARN = "Please file the place to stay.", "Please learn a habit of mine."
ASK_HOTEL, ASK_TEA, ASK_ELSE = "Which hotel in Chengdu is it?", "Is it jasmine tea?", "Will it rain?"

MARKS = re.compile(
    re.escape(fence.NOTICE) + r"\n<<<strongroom-recall ([0-9a-f]{32})>>>\n(.*)\n<<<end-strongroom-recall \1>>>\Z",
    re.DOTALL,
)
RULES = (
    Rule(FILE, "Filed.", (ToolCall("fact_store", {"action": "add", "content": HOTEL}),)),
    Rule(LEARN, "Learned.", (ToolCall("memory", {"action": "add", "target": "user", "content": TEA}),)),
)


@dataclass(frozen=True, slots=True)
class Session:
    """What a session's process said at its end, and what it sent to the model."""

    said: dict[str, Any]
    requests: list[Request]

    def about(self, message: str) -> str:
        """The message as it reached the model, with what was recalled for it."""
        return next(text for text in map(last_user_text, self.requests) if text.startswith(message))


@dataclass(frozen=True, slots=True)
class Talk:
    home: homes.Home
    first: Session
    second: Session


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Talk:
    with ModelServer(by_rules(RULES)) as model:
        where = tmp_path_factory.mktemp("holographic") / "home"
        home = homes.make(where, model_url=model.url, provider="holographic")
        first = _session(home, model, "first-session", FILE, LEARN)
        second = _session(home, model, "second-session", ASK_HOTEL, ASK_TEA, ASK_ELSE)
        return Talk(home, first, second)


def _session(home: homes.Home, model: ModelServer, *arguments: str) -> Session:
    before = len(model.requests)
    # The environment names another home: the host's own argument must decide.
    printed = homes.run(
        home,
        "tests.hermes.drive_holographic",
        model.url,
        str(home.hermes),
        *arguments,
        environment={"HERMES_HOME": str(home.root / "decoy")},
    )
    return Session(json.loads(printed.splitlines()[-1]), model.requests[before:])


def _fenced(text: str) -> str:
    """What stands between the two marks at the end of a message, and only there."""
    found = MARKS.search(text)
    assert found is not None
    assert text.count("strongroom-recall") == 2
    return found[2]


def test_nothing_is_recalled_for_an_unrelated_question(talk: Talk) -> None:
    assert talk.second.about(ASK_ELSE) == ASK_ELSE


def test_nothing_outside_the_home_is_written_and_only_loopback_is_called(talk: Talk) -> None:
    for session in (talk.first, talk.second):
        assert session.said["outside"] == []
        assert session.said["connected"] == ["127.0.0.1"]
    files = [path for path in talk.home.root.rglob("*") if path.is_file()]
    outside = {path.relative_to(talk.home.root).parts[0] for path in files if talk.home.hermes not in path.parents}
    assert outside == {"keys"}  # the journal's key, which a backup of the home must not hold


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_second_session_recalls_what_a_tool_call_of_the_first_one_stored(talk: Talk) -> None:
    assert HOTEL in _fenced(talk.second.about(ASK_HOTEL))


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_second_session_recalls_what_the_built_in_memory_mirrored(talk: Talk) -> None:
    assert TEA in _fenced(talk.second.about(ASK_TEA))


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_tool_calls_of_holographic_are_routed_to_it_and_answered(talk: Talk) -> None:
    (result,) = [one["content"] for one in talk.first.requests[1]["messages"] if one["role"] == "tool"]
    assert json.loads(result) == {"fact_id": 1, "status": "added"}
    assert talk.first.said["replies"] == ["Filed.", "Learned."]


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_model_is_offered_its_tools_beside_the_built_in_one(talk: Talk) -> None:
    for request in talk.first.requests:
        assert [tool["function"]["name"] for tool in request["tools"]] == ["memory", "fact_store", "fact_feedback"]


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_block_of_holographic_is_in_the_system_prompt_and_counts_what_the_first_session_left(talk: Talk) -> None:
    assert "Empty fact store" in talk.first.requests[0]["messages"][0]["content"]
    assert "Active. 2 facts stored" in talk.second.requests[0]["messages"][0]["content"]


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_holographic_lets_go_of_its_database_at_the_end_of_each_session(talk: Talk) -> None:
    assert talk.first.said["released"]
    assert talk.second.said["released"]


@pytest.mark.requirement("hermes-holographic-two-sessions")
def test_holographic_is_the_installed_file_and_the_host_has_no_complaint(talk: Talk) -> None:
    for session in (talk.first, talk.second):
        assert session.said["as_installed"] == "0.19.0"
        assert session.said["complaints"] == []


def test_tests_without_hermes_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = homes.make(tmp_path / "home", model_url="http://127.0.0.1:1/v1")
    monkeypatch.setattr(homes, "PYTHON", tmp_path / "nowhere")
    with pytest.raises(AssertionError, match=r"make \.venv-hermes"):
        homes.run(home, "tests.hermes.drive_holographic")
