"""A language model that says what a script tells it, behind the chat completions interface that agents expect.

It listens on loopback, on a port of its own choosing, streams or not as it is asked, and keeps every request, so that
whoever runs it can see what reached the model. Standard library only: it runs in any environment. It understands
nothing: tokens are not counted, and options such as temperature are taken and ignored.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]
"""The body of one chat completion."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers: a text, or tools to call."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """For a message of the user that contains `when`: first each of the calls, one after another, then the text."""

    when: str
    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The figures that each answer states."""

    prompt_tokens: int = 1000
    completion_tokens: int = 10


Script = Callable[[Request], Reply]


def by_rules(rules: Sequence[Rule], *, without_tools: str = "A summary.", otherwise: str = "Understood.") -> Script:
    """The script of the first rule that fits the last message of the user.

    A request without tools may be for a title or a summary and quote the whole conversation: there, only a rule for
    exactly the message fits, and `without_tools` is said if there is none.
    """

    def answer(request: Request) -> Reply:
        text, tools = last_user_text(request), bool(request.get("tools"))
        fits = (rule for rule in rules if (rule.when in text if tools else rule.when == text))
        rule = next(fits, Rule("", otherwise if tools else without_tools))
        done = _results_since_user(request)
        return Reply(calls=(rule.calls[done],)) if done < len(rule.calls) else Reply(rule.text)

    return answer


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether it is one string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def last_user_text(request: Request) -> str:
    return next((text_of(one) for one in reversed(request["messages"]) if one["role"] == "user"), "")


def _results_since_user(request: Request) -> int:
    roles = [one["role"] for one in request["messages"]]
    return roles[len(roles) - roles[::-1].index("user") :].count("tool") if "user" in roles else 0


class ModelServer:
    """Serves from `start` to `stop`, or as a context manager. `requests` grows while it serves."""

    def __init__(self, script: Script, *, model: str = "scripted", usage: Usage | None = None) -> None:
        self.script = script
        self.model = model
        self.usage = usage or Usage()
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL that clients are given; it ends in /v1."""
        if self._http is None:
            raise LookupError("the model server is not running")
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def start(self) -> ModelServer:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._http is not None and self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()
            self._http = self._thread = None

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answer(self, request: Request) -> tuple[int, Reply]:
        """The number of the request, from 1, and what the script says to it."""
        with self._lock:
            self.requests.append(request)
            return len(self.requests), self.script(request)


def _handler_for(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            models = [{"id": server.model, "object": "model", "owned_by": "nobody"}]
            if self.path == "/v1/models":
                self._json(200, {"object": "list", "data": models})
            else:
                self._json(404, {"error": {"message": "not found"}})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path != "/v1/chat/completions":
                self._json(404, {"error": {"message": "not found"}})
                return
            request = json.loads(body)
            number, reply = server.answer(request)
            if request.get("stream"):
                self._stream(_chunks(server, number, reply))
            else:
                self._json(200, _completion(server, number, reply))

        def _json(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, chunks: Iterator[dict[str, Any]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: object) -> None:
            """Nothing: `requests` has it all."""

    return Handler


def _completion(server: ModelServer, number: int, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = _wire_calls(number, reply.calls)
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
    return {**_head(server, number, "chat.completion"), "choices": [choice], "usage": _usage(server)}


def _chunks(server: ModelServer, number: int, reply: Reply) -> Iterator[dict[str, Any]]:
    head = _head(server, number, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in reply.text.splitlines(keepends=True)]
    deltas += [
        {"tool_calls": [{"index": index, **call}]} for index, call in enumerate(_wire_calls(number, reply.calls))
    ]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(reply)}]}
    yield {**head, "choices": [], "usage": _usage(server)}


def _wire_calls(number: int, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call-{number}-{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(calls)
    ]


def _head(server: ModelServer, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"answer-{number}", "object": kind, "created": 0, "model": server.model}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(server: ModelServer) -> dict[str, int]:
    asked, told = server.usage.prompt_tokens, server.usage.completion_tokens
    return {"prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told}
