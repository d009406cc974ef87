"""The rig of Hermes' API server: its own gateway process, asked over HTTP on loopback.

    rig = rigs.make(where, model, settings=[rig_api.SERVER], wire=...)
    with rig_api.start(rig) as server:
        server.ask("My code is 17.", key="webui:alice").reply     # with X-Hermes-Session-Key
        server.ask("My code is 17.", key="webui:bob").session     # the same first words: Hermes gives the same id
        server.ask("My code is 17.")                              # without a key
        server.ask("And now?", stream=True)

`ask` returns when the answer is there and the memory workers have caught up.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.hermes.rig_gateway import MODULE, GatewayProcess
from tests.hermes.rigs import ANSWER_SECONDS, Rig, Settings

API_KEY = "a-key-for-tests-on-loopback-only-5d1c"
SERVER = Settings(
    {"platforms": {"api_server": {"enabled": True, "extra": {"host": "127.0.0.1", "port": 0, "key": API_KEY}}}}
)
"""What a home needs so that its gateway has an API server."""


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    reply: str
    session: str
    """The session that Hermes put the request into."""


class ApiProcess(GatewayProcess):
    def ask(
        self,
        text: str,
        *,
        key: str | None = None,
        session: str | None = None,
        before: Sequence[dict[str, str]] = (),
        stream: bool = False,
        api_key: str = API_KEY,
    ) -> Answered:
        """One request. `before` are the messages that the client kept of the conversation so far."""
        headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        headers |= {"X-Hermes-Session-Key": key} if key is not None else {}
        headers |= {"X-Hermes-Session-Id": session} if session is not None else {}
        messages = [*before, {"role": "user", "content": text}]
        answered = self._post(headers, {"model": "hermes-agent", "messages": messages, "stream": stream})
        self.do({})
        return answered

    def _post(self, headers: dict[str, str], body: dict[str, Any]) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read().decode()
        finally:
            connection.close()
        text = _reply(said, stream=body["stream"]) if answer.status == 200 else ""
        return Answered(answer.status, text, answer.headers.get("X-Hermes-Session-Id", ""))


def _reply(said: str, *, stream: bool) -> str:
    if not stream:
        return str(json.loads(said)["choices"][0]["message"]["content"])
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    deltas = [one["choices"][0]["delta"] for one in chunks if one.get("choices")]
    return "".join(delta.get("content") or "" for delta in deltas)


def start(rig: Rig) -> ApiProcess:
    process = ApiProcess(rig, MODULE)
    process.port = process.ready()["port"]
    return process
