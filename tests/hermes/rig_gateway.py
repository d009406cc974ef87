"""The rig of Hermes' gateway: several people and chats in one process.

    rig = rigs.make(where, model, settings=[rig_gateway.CHATS], wire=...)
    with rig_gateway.start(rig) as gateway:
        gateway.say("alice", "I fly to Chengdu.", chat="100")                              # a direct message
        gateway.say("bob", "Where to?", chat="-5", kind="group", thread="77")             # a shared thread
        gateway.say("alice", "/new", chat="100")                                           # also /undo and /compress
        gateway.together({"from": "alice", "chat": "100", "text": "A"}, {"from": "bob", "chat": "200", "text": "B"})
    with rig_gateway.start(rig) as again: ...                                              # restarted on the same home

`say` returns what was sent back, when the message is dealt with and the memory workers have caught up. To kill right
after a reply, use `send` with such a message and `until("delivered")`. Leaving the block stops the gateway as a signal
would; `kill` is `kill -9`. To the first message ever in a home Hermes adds a note for the model: look at what was said
and recalled, not at the whole message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.hermes.rigs import Child, Rig, Settings

MODULE = "tests.hermes.drive_gateway"


def chats(*platforms: str) -> Settings:
    """What a home needs so that its gateway has these platforms, open to everybody."""
    enabled = {name: {"enabled": True, "token": "no-token", "typing_indicator": False} for name in platforms}
    homes = {f"{name.upper()}_HOME_CHANNEL": "1" for name in platforms}  # or the first chat is asked to become it
    return Settings({"platforms": enabled}, {"GATEWAY_ALLOW_ALL_USERS": "true", **homes})


CHATS = chats("telegram")


class GatewayProcess(Child):
    port = 0
    """Where the API server listens, if it is enabled."""

    def say(
        self,
        person: str,
        text: str,
        *,
        chat: str,
        kind: str = "dm",
        thread: str | None = None,
        reply: str | None = None,
        **more: str,
    ) -> list[str]:
        """One message, to its end; what was sent back. `more`: `platform`, `id` (else the name), `alt`."""
        if reply is not None:
            self.rig.model.answers(text, reply)
        return self.together({"from": person, "text": text, "chat": chat, "type": kind, "thread": thread, **more})

    def together(self, *messages: Mapping[str, Any]) -> list[str]:
        """Several messages at once, to the end of the last; everything that was sent back, in order."""
        before = len(self.delivered())
        self.do({"together": [dict(one) for one in messages]})
        return [str(line["delivered"]) for line in self.delivered()[before:]]

    def agents(self) -> list[str]:
        """The conversations for which Hermes keeps an agent."""
        return list(self.do({})["agents"])


def start(rig: Rig) -> GatewayProcess:
    process = GatewayProcess(rig, MODULE)
    process.ready()
    return process
