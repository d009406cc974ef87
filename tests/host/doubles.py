"""Providers for tests: one that records, one that is held, one that raises, one with old signatures, one of garbage.

None derives from another runtime's class. `Recorder` says who called what on which thread; the others break one hook
and record the rest. Nothing here waits for a clock: what is held is let go by an event.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strongroom.host import AgentSession, Host, Limits, MemoryProvider
from strongroom.host.provider_interface import Message, Schema

PATIENCE = 20.0
"""How long a test waits for what must happen. It is over at once unless something is broken."""
HOOKS = (
    "is_available",
    "get_tool_schemas",
    "initialize",
    "system_prompt_block",
    "on_turn_start",
    "prefetch",
    "sync_turn",
    "queue_prefetch",
    "handle_tool_call",
    "on_memory_write",
    "on_delegation",
    "on_pre_compress",
    "on_session_switch",
    "on_session_end",
    "cache_busting_signature",
    "shutdown",
)
"""Every hook that a runtime's conversation leads to."""
WAITED_FOR = (
    "initialize",
    "system_prompt_block",
    "on_turn_start",
    "prefetch",
    "handle_tool_call",
    "on_pre_compress",
    "cache_busting_signature",
    "shutdown",
)
"""Hooks that the caller waits for, within a limit."""
SHORT = Limits(
    initialize=0.1,
    system_prompt_block=0.1,
    on_turn_start=0.1,
    prefetch=0.1,
    handle_tool_call=0.1,
    on_pre_compress=0.1,
    cache_busting_signature=0.1,
    drain=0.1,
    shutdown=0.1,
    recovered_turn=0.1,
)
LONG = Limits(
    initialize=PATIENCE,
    system_prompt_block=PATIENCE,
    on_turn_start=PATIENCE,
    prefetch=PATIENCE,
    handle_tool_call=PATIENCE,
    on_pre_compress=PATIENCE,
    cache_busting_signature=PATIENCE,
    catching_up=PATIENCE,
    drain=PATIENCE,
    shutdown=PATIENCE,
    recovered_turn=PATIENCE,
    held=PATIENCE,
)
"""For tests in which nothing is late: a slow machine must not make it so."""
TOOL: Schema = {"name": "recall", "description": "Recalls.", "parameters": {"type": "object", "properties": {}}}


@dataclass
class Seen:
    """What all objects of one provider heard, in order."""

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    threads: list[tuple[str, int]] = field(default_factory=list)
    made: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)

    def note(self, hook: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        with self.guard:
            self.calls.append((hook, args, keywords))
            self.threads.append((hook, threading.get_ident()))

    @property
    def hooks(self) -> list[str]:
        return [hook for hook, _, _ in self.calls]

    def of(self, hook: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, keywords) for name, args, keywords in self.calls if name == hook]

    @property
    def turns(self) -> list[str]:
        """What users said in the turns that arrived."""
        return [args[0] for args, _ in self.of("sync_turn")]


class Recorder(MemoryProvider):
    """Records every call, then does what `answers` says for the hook: gives a value, or calls a function."""

    def __init__(self, seen: Seen | None = None, answers: dict[str, Any] | None = None, name: str = "recorder") -> None:
        self.seen = seen or Seen()
        self.seen.made += 1
        self._answers = answers or {}
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def is_available(self) -> bool:
        return bool(self.heard("is_available", True))

    def get_tool_schemas(self) -> list[Schema]:
        answer: list[Schema] = self.heard("get_tool_schemas", [TOOL])
        return answer

    def cache_busting_signature(self) -> dict[str, Any] | None:
        answer: dict[str, Any] | None = self.heard("cache_busting_signature", {"recorder.peer": "a"})
        return answer

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self.heard("initialize", None, session_id, **kwargs)

    def system_prompt_block(self) -> str:
        return str(self.heard("system_prompt_block", "recorder's block"))

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self.heard("on_turn_start", None, turn_number, message, **kwargs)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return str(self.heard("prefetch", f"about {query}", query, session_id=session_id))

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
    ) -> None:
        self.heard("sync_turn", None, user_content, assistant_content, session_id=session_id, messages=messages)

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        self.heard("queue_prefetch", None, query, session_id=session_id)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        return str(self.heard("handle_tool_call", json.dumps({"tool": tool_name}), tool_name, args, **kwargs))

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        self.heard("on_memory_write", None, action, target, content, metadata=metadata)

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        self.heard("on_delegation", None, task, result, child_session_id=child_session_id, **kwargs)

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        return str(self.heard("on_pre_compress", "keep this", messages))

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self.heard("on_session_switch", None, new_session_id, **kwargs)

    def on_session_end(self, messages: Sequence[Message]) -> None:
        self.heard("on_session_end", None, messages)

    def shutdown(self) -> None:
        self.heard("shutdown", None)

    def heard(self, hook: str, usual: Any, /, *args: Any, **keywords: Any) -> Any:
        self.seen.note(hook, args, keywords)
        answer = self._answers.get(hook, usual)
        return answer(*args) if callable(answer) else answer


class Raising(Recorder):
    """Raises in the named hooks, with a text in the error that no log may hold."""

    def __init__(
        self, hooks: Sequence[str], error: Callable[[str], BaseException], secret: str, seen: Seen | None = None
    ) -> None:
        super().__init__(seen, name="raising")
        self._hooks = hooks
        self._error = error
        self._secret = secret

    def heard(self, hook: str, usual: Any, /, *args: Any, **keywords: Any) -> Any:
        answer = super().heard(hook, usual, *args, **keywords)
        if hook in self._hooks:
            raise self._error(f"{self._secret} {args}")
        return answer


class Held(Recorder):
    """Hangs in the named hooks until it is released. Hangs again afterwards only if `again`."""

    def __init__(
        self, hooks: Sequence[str], seen: Seen | None = None, release: threading.Event | None = None, name: str = "held"
    ) -> None:
        super().__init__(seen, name=name)
        self._hooks = hooks
        self.entered = threading.Event()
        self.release = release or threading.Event()
        self.returned = threading.Event()

    def heard(self, hook: str, usual: Any, /, *args: Any, **keywords: Any) -> Any:
        answer = super().heard(hook, usual, *args, **keywords)
        if hook in self._hooks and not self.release.is_set():
            self.entered.set()
            self.release.wait(PATIENCE)
            self.returned.set()
        return answer


class Garbage:
    """Answers every hook with the same thing, whatever it is. Derives from nothing and takes anything."""

    def __init__(self, thing: Any, but: Sequence[str] = ("is_available",)) -> None:
        self.name = "garbage"
        for hook in HOOKS:
            setattr(self, hook, (lambda *_, **__: True) if hook in but else (lambda *_, **__: thing))


class Old:
    """A provider as they were written at first: fewer arguments, no keyword that came later, no later method."""

    name = "old"

    def __init__(self, seen: Seen | None = None) -> None:
        self.seen = seen or Seen()

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Schema]:
        return []

    def initialize(self, session_id: str) -> None:
        self.seen.note("initialize", (session_id,), {})

    def prefetch(self, query: str) -> str:
        self.seen.note("prefetch", (query,), {})
        return "old news"

    def sync_turn(self, user_content: str, assistant_content: str) -> None:
        self.seen.note("sync_turn", (user_content, assistant_content), {})

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        self.seen.note("on_memory_write", (action, target, content), {})

    def on_turn_start(self, turn_number: int, message: str) -> None:
        self.seen.note("on_turn_start", (turn_number, message), {})

    def on_delegation(self, task: str, result: str) -> None:
        self.seen.note("on_delegation", (task, result), {})


class FileProvider(MemoryProvider):
    """Writes each turn as a line of JSON to a file that several processes share; durable before it returns."""

    def __init__(self, path: Path, name: str = "file") -> None:
        self._path = path
        self._name = name
        self._session = ""

    @property
    def name(self) -> str:
        return self._name

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Schema]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._session = session_id

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
    ) -> None:
        row = {"session": self._session, "now": session_id, "user": user_content, "assistant": assistant_content}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def rows(path: Path) -> list[dict[str, str]]:
    """What a `FileProvider` wrote. A last line that a kill cut short does not count."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in whole]


@contextmanager
def hosted(
    place: Path, provider: Any = None, limits: Limits = LONG, reserved_tools: Sequence[str] = ()
) -> Iterator[Host]:
    """A host with its home and keys below `place`. `provider` may be an object, for tests that build one agent."""
    make = provider if provider is None or callable(provider) else lambda: provider
    with Host(place / "home", make, limits=limits, keys=place / "keys", reserved_tools=reserved_tools) as host:
        yield host


def session(number: int = 1, **known: Any) -> AgentSession:
    return AgentSession(id=f"s{number}", **known)
