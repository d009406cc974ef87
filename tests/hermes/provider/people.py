"""Two people, a chat, and what they say: shared by tests of the provider."""

from __future__ import annotations

from typing import Any

from strongroom.hermes.provider import StrongroomProvider
from tests.hermes.provider.conftest import DM, OWNER, SCOPE, Served, Wired, say

ALICE, BOB = f"{SCOPE}telegram/100", f"{SCOPE}telegram/200"
BOBS: dict[str, Any] = {**DM, "user_id": "200", "chat_id": "200"}
CHAT: dict[str, Any] = {**DM, "gateway_session_key": "agent:main:telegram:dm:100"}
JOINED = '[people]\nme = ["telegram:100"]\n'
FLIGHT = "My flight to Rome is on May 5"
OFF = "this conversation is off the record"


def said(wired: Wired, actor: str = OWNER) -> list[str]:
    """What people said."""
    return [hit.text for hit in wired.lines(actor) if hit.author != "assistant"]


def namespace_of(wired: Wired, part: str, actor: str = OWNER) -> str:
    (found,) = [hit.namespace for hit in wired.lines(actor) if part in hit.text]
    return found


def both_wait(remote: Served) -> None:
    """Alice and Bob each say something while the server is down."""
    remote.stop()
    say(remote.agent("a", **DM), "Alice flies to Oslo")
    say(remote.agent("b", **BOBS), "Bob flies to Bonn")
    assert remote.waiting() == 2
    remote.start()


def undo(wired: Wired, agent: StrongroomProvider) -> None:
    agent.on_session_switch("s1", parent_session_id="", reset=False, rewound=True)
    assert wired.problems()["taking a turn back"] == "server_unavailable"
