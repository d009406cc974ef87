"""What a hook reads and what it answers: broken documents, open pipes, and the three verdicts. Denials first."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import pytest

from strongroom.errors import BodyTooLarge, CapExpired, CapRevoked, InvalidRequest, ServerUnavailable, StrongroomError
from strongroom.hermes.hooks import hook_payload, tool_verdict
from strongroom.hermes.hooks.guarded_home import Bound
from strongroom.hermes.hooks.hook_payload import Payload
from tests.hermes.provider.conftest import ALLERGY, Wired

CALL = Payload(event="pre_tool_call", tool="terminal", arguments={"command": "ls"}, session="s1", cwd="/")


def nothing(_said: Payload) -> None:
    return None


def stands() -> None:
    return None


# Documents.


@pytest.mark.requirement("hermes-hook-check-closed")
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff", b'{"tool_name": 1}', b'{"tool_input": "ls"}', b"[" * 100_000],
)
def test_json_that_is_not_of_a_hook_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hook_payload.parse(data)
    assert refused.value.reason == "invalid_request"


def test_document_of_hermes_is_read_and_what_a_later_version_adds_is_left() -> None:
    document = {
        "hook_event_name": "pre_tool_call",
        "tool_name": "terminal",
        "tool_input": {"command": "ls"},
        "session_id": "s1",
        "cwd": "/",
        "extra": {"platform": "cli", "task_id": 7},
        "new": [1],
    }
    said = hook_payload.parse(json.dumps(document).encode())
    assert (said.event, said.tool, said.arguments, said.session, said.cwd) == (
        CALL.event,
        CALL.tool,
        CALL.arguments,
        CALL.session,
        CALL.cwd,
    )
    assert (said.said("platform"), said.said("task_id"), said.said("none")) == ("cli", "", "")


# Pipes.


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def soon() -> float:
    return time.monotonic() + 0.05


@pytest.mark.requirement("hermes-hook-stdin")
def test_open_pipe_without_data_is_not_waited_for(pipe: tuple[int, int]) -> None:
    assert hook_payload.read(pipe[0], soon()) == b""


@pytest.mark.requirement("hermes-hook-stdin")
def test_input_before_the_deadline_is_taken_from_a_pipe_that_stays_open(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"{}")
    assert hook_payload.read(pipe[0], soon()) == b"{}"


def test_pipe_is_read_to_its_end(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"{" + b" " * 1000 + b"}")
    os.close(pipe[1])
    assert len(hook_payload.read(pipe[0], time.monotonic() + 60)) == 1002


@pytest.mark.requirement("hermes-hook-stdin")
def test_terminal_is_not_read() -> None:
    ours, theirs = pty.openpty()
    try:
        with pytest.raises(InvalidRequest):
            hook_payload.read(theirs, time.monotonic() + 60)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.requirement("hermes-hook-stdin")
def test_more_than_the_limit_is_refused(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_payload, "LIMIT", 100)
    os.write(pipe[1], b"x" * 101)
    with pytest.raises(BodyTooLarge) as refused:
        hook_payload.read(pipe[0], time.monotonic() + 60)
    assert refused.value.reason == "body_too_large"


# check


@pytest.mark.requirement("hermes-hook-check-closed")
@pytest.mark.parametrize("said", [Payload(), Payload(tool="terminal"), Payload(arguments={})])
def test_call_without_a_tool_or_arguments_is_blocked(said: Payload) -> None:
    assert tool_verdict.check(said, nothing, stands)["decision"] == "block"


@pytest.mark.requirement("hermes-hook-check-closed")
@pytest.mark.parametrize("error", [CapRevoked("x"), CapExpired("x"), ServerUnavailable("x"), InvalidRequest("x")])
def test_call_is_blocked_while_the_cap_does_not_stand(error: StrongroomError) -> None:
    def falls() -> None:
        raise error

    verdict = tool_verdict.check(CALL, nothing, falls)
    assert verdict["decision"] == "block"
    assert error.reason in verdict["reason"]


@pytest.mark.requirement("hermes-hook-check-closed")
def test_call_whose_arguments_cannot_be_looked_at_is_blocked() -> None:
    def broken(_said: Payload) -> None:
        raise InvalidRequest("not wired")

    assert tool_verdict.check(CALL, broken, stands)["decision"] == "block"


def test_call_that_reaches_is_blocked_before_the_gate_is_asked() -> None:
    def asked() -> None:
        raise AssertionError("the gate was asked")

    verdict = tool_verdict.check(CALL, lambda _: "the vault", asked)
    assert verdict["decision"] == "block"
    assert "the vault" in verdict["reason"]


def test_everything_else_is_allowed() -> None:
    assert tool_verdict.check(CALL, nothing, stands) == {}


# audit and inject


def test_call_without_a_name_is_not_put_on_record() -> None:
    with pytest.raises(InvalidRequest):
        tool_verdict.audit(Payload(arguments={}), lambda *_: None)


@pytest.mark.requirement("hermes-hook-audit")
def test_call_is_put_on_record_by_name_and_digest_and_never_blocked() -> None:
    seen: list[tuple[str, str]] = []
    assert tool_verdict.audit(CALL, lambda what, digest: seen.append((what, digest))) == {}
    assert seen == [("terminal", tool_verdict.digest({"command": "ls"}))]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({}, {"a": None}, False),
    ],
)
def test_digest_does_not_depend_on_the_order_of_names(one: Any, other: Any, is_same: bool) -> None:
    assert (tool_verdict.digest(one) == tool_verdict.digest(other)) is is_same


@pytest.mark.parametrize(("text", "verdict"), [("", {}), ("x", {"context": "<memory-context>\nx\n</memory-context>"})])
def test_recalled_lines_are_handed_over_in_a_fence(text: str, verdict: dict[str, str]) -> None:
    assert tool_verdict.inject(CALL, lambda _: text) == verdict


@pytest.mark.requirement("hermes-hook-check-arguments")
@pytest.mark.parametrize("name", ["memory-inject", "audit", "check"])
def test_tool_may_not_call_a_hook(wired: Wired, name: str) -> None:
    document = '{"extra":{"user_message":"allergy","platform":"cli"}}'
    command = f"echo '{document}' | strongroom hook {name}"
    assert Bound(wired.path).reached(Payload(tool="terminal", arguments={"command": command})) is not None


@pytest.mark.requirement("hermes-hook-inject")
@pytest.mark.parametrize(("source", "is_shown"), [("telegram", False), ("cli", True)])
def test_hook_does_not_take_a_chat_for_the_command_line(wired: Wired, source: str, is_shown: bool) -> None:
    wired.put(ALLERGY, "personal")
    database = sqlite3.connect(wired.path / "state.db")
    with database:
        database.execute("CREATE TABLE sessions (id TEXT, source TEXT, user_id TEXT)")
        database.execute("INSERT INTO sessions VALUES ('s1', ?, '666')", (source,))
    database.close()
    document = Payload(session="s1", extra={"user_message": "my peanut allergy", "platform": "cli"})
    if is_shown:
        assert "peanut" in Bound(wired.path).recall(document)
    else:
        with pytest.raises(InvalidRequest):
            Bound(wired.path).recall(document)
