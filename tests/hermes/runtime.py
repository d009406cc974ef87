"""A small agent runtime around a memory manager of ours: a model over HTTP, a loop for its tools, and no more.

It does what any runtime does that adds `strongroom.host`, and serves the tests as such. Messages keep what the user
said in `content`; what recall added for the model is in `api_content`, as Hermes has it.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from strongroom.host.memory_manager import MemoryManager

Tool = Callable[[Mapping[str, Any]], str]
Message = dict[str, Any]

SUMMARY = "[CONTEXT COMPACTION] "


class Runtime:
    def __init__(self, memory: MemoryManager, model_url: str) -> None:
        self.memory = memory
        self.session_id = memory.session.id
        self.messages: list[Message] = []
        self.tools: dict[str, Tool] = {}
        self._model_url = urlsplit(model_url)
        self._prompt: str | None = None

    def turn(self, text: str) -> str:
        """One turn of the user, to the model's last word on it."""
        if self._prompt is None:
            self._prompt = "You are an assistant.\n\n" + self.memory.system_prompt_block()
        self.memory.on_turn_start(text)
        recalled = self.memory.prefetch(text)
        self.messages.append(
            {"role": "user", "content": text, "api_content": f"{text}\n\n{recalled}" if recalled else text}
        )
        reply = self._reply()
        self.memory.sync_turn(text, reply, self.messages)
        return reply

    def compress(self, keep: int) -> None:
        """Replace all but the first message and the last `keep` by a summary."""
        remark = self.memory.on_pre_compress(self.messages)
        said = "\n".join(f"{one['role']}: {one['content']}" for one in self.messages)
        asked = {"role": "user", "content": f"Summarise:\n{said}\nKeep this: {remark}"}
        summary = self._ask([asked], tools=False)["content"]
        self._prompt = "You are an assistant.\n\n" + self.memory.system_prompt_block()
        self.memory.on_session_end(self.messages)
        between = {"role": "assistant", "content": SUMMARY + summary}
        self.messages = [self.messages[0], between, *self.messages[-keep:]]
        self.memory.on_session_switch(self.session_id, parent_session_id=self.session_id, reason="compression")

    def new(self, session_id: str) -> None:
        """A new conversation with the same agent."""
        parent, self.session_id = self.session_id, session_id
        self.memory.on_session_end(self.messages)
        self.memory.on_session_switch(session_id, parent_session_id=parent, reset=True, reason="new_session")
        self.messages, self._prompt = [], None

    def end(self) -> None:
        self.memory.end(self.messages)

    def _reply(self) -> str:
        while True:
            answer = self._ask([{"role": "system", "content": self._prompt}, *self.messages], tools=True)
            self.messages.append(answer)
            if not answer.get("tool_calls"):
                return str(answer["content"])
            for call in answer["tool_calls"]:
                name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": self._do(name, arguments)})

    def _do(self, name: str, arguments: dict[str, Any]) -> str:
        own = self.tools.get(name)
        return own(arguments) if own else self.memory.handle_tool_call(name, arguments)

    def _ask(self, messages: list[Message], *, tools: bool) -> Message:
        body: dict[str, Any] = {"model": "scripted", "messages": [_sent(one) for one in messages]}
        if tools:
            offered = [*self.memory.get_tool_schemas(), *({"name": name} for name in self.tools)]
            body["tools"] = [{"type": "function", "function": dict(schema)} for schema in offered]
        connection = http.client.HTTPConnection(self._model_url.netloc, timeout=30)
        try:
            connection.request("POST", f"{self._model_url.path}/chat/completions", json.dumps(body))
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        message: Message = answer["choices"][0]["message"]
        return message


def _sent(message: Message) -> Message:
    sent = {name: value for name, value in message.items() if name != "api_content"}
    return {**sent, "content": message.get("api_content", message["content"])}
