"""The scripted model: what it streams is what it answers plainly, and it answers by the last message of the user."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.hermes.model_server import ModelServer, Rule, ToolCall, Usage, by_rules

TOOLS = [{"type": "function", "function": {"name": "look"}}]
USER = {"role": "user", "content": "Where is it?"}
RULES = [Rule("Where", "Over\nthere.", (ToolCall("look", {"far": True}), ToolCall("look", {"far": False})))]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(by_rules(RULES, without_tools="No tools."), usage=Usage(7, 3)) as server:
        yield server


def _ask(model: ModelServer, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)
    try:
        connection.request(method, path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _plain(model: ModelServer, *messages: dict[str, Any], tools: object = TOOLS) -> dict[str, Any]:
    status, body = _ask(model, "POST", "/v1/chat/completions", {"messages": messages, "tools": tools})
    assert status == 200
    answer: dict[str, Any] = json.loads(body)
    return answer


def test_unknown_path_is_not_found(model: ModelServer) -> None:
    assert _ask(model, "GET", "/v1/other")[0] == 404
    assert _ask(model, "POST", "/api/show", {})[0] == 404
    assert model.requests == []


def test_model_server_names_its_model(model: ModelServer) -> None:
    status, body = _ask(model, "GET", "/v1/models")
    assert (status, [one["id"] for one in json.loads(body)["data"]]) == (200, ["scripted"])


def test_calls_come_one_after_another_and_then_the_text(model: ModelServer) -> None:
    result = {"role": "tool", "tool_call_id": "x", "content": "{}"}
    answers = [_plain(model, USER, *[result] * done) for done in range(3)]
    choices = [answer["choices"][0] for answer in answers]
    calls = [one["message"]["tool_calls"][0]["function"]["arguments"] for one in choices[:2]]
    assert [json.loads(one) for one in calls] == [{"far": True}, {"far": False}]
    assert choices[2]["message"] == {"role": "assistant", "content": "Over\nthere."}
    assert [one["finish_reason"] for one in choices] == ["tool_calls", "tool_calls", "stop"]
    assert answers[2]["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert [len(one["messages"]) for one in model.requests] == [1, 2, 3]


def test_quoted_conversation_without_tools_causes_no_call(model: ModelServer) -> None:
    quoting = {"role": "user", "content": "Summarise: Where is it?"}
    assert _plain(model, quoting, tools=None)["choices"][0]["message"]["content"] == "No tools."


def test_stream_says_the_same_as_a_plain_answer(model: ModelServer) -> None:
    asked = {"messages": [USER, *[{"role": "tool", "content": "{}"}] * 2], "tools": TOOLS, "stream": True}
    _, body = _ask(model, "POST", "/v1/chat/completions", asked)
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks[:-1]) == "Over\nthere."
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] == 10
