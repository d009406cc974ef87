"""Agents, providers and clocks for the tests of the cache. The providers are unknown to it: they are made here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strongroom.errors import StrongroomError
from strongroom.host.cache.agent_cache import AgentCache, Runtime, User
from strongroom.host.cache.settings_file import Watched
from strongroom.host.user_identity import KEYS, Identity

ANA = User("ana")
RUNTIME: Runtime = {"model": {"name": "large", "max_tokens": 512}, "api_key": "sk-marked-secret", "tools": ["memory"]}
IDENTITY: dict[str, Any] = {
    "peer_name": "ana",
    "ai_peer": "helper",
    "pin_user_peer": False,
    "user_peer_aliases": {"7": "ana"},
    "runtime_peer_prefix": "",
}
WAIT = 20.0
"""Seconds after which a test that hangs fails. Nothing passes by waiting."""


class Filed:
    """A provider of these tests alone: who is who stands in a JSON file, next to other things."""

    name = "filed"

    def __init__(self, path: Path) -> None:
        self.asked = 0
        self.parsed = 0
        self._watched = Watched(path, self._parse)
        self.frozen = self._watched.value

    def cache_busting_signature(self) -> dict[str, Any]:
        self.asked += 1
        return self._watched.value.signature(self.name)

    def _parse(self, text: str) -> Identity:
        self.parsed += 1
        return Identity.parse({key: value for key, value in json.loads(text).items() if key in KEYS})


class Says:
    """A provider whose answers are given: a value, or an error to raise. The last one stays."""

    name = "says"

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked = 0

    def cache_busting_signature(self) -> Any:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Memory:
    external: Any = None

    @property
    def external_name(self) -> str:
        return "" if self.external is None else str(self.external.name)

    def cache_busting_signature(self) -> Mapping[str, Any] | None:
        answer: Mapping[str, Any] | None = {} if self.external is None else self.external.cache_busting_signature()
        return answer


@dataclass(eq=False)
class Chat:
    """An agent. It is falsy, as a runtime's may be."""

    key: str
    runtime: Runtime
    user: User
    memory: Memory
    on_end: Callable[[], None]
    ends: int = 0

    def __len__(self) -> int:
        return 0

    def end(self) -> None:
        self.ends += 1
        self.on_end()


@dataclass
class Runtimes:
    """A runtime that builds chats and remembers all of them."""

    provider: Callable[[], Any] = lambda: None
    on_build: Callable[[str], None] = lambda _: None
    on_end: Callable[[str], None] = lambda _: None
    built: list[Chat] = field(default_factory=list)

    def build(self, key: str, runtime: Runtime, user: User) -> Chat:
        self.on_build(key)
        chat = Chat(key, runtime, user, Memory(self.provider()), lambda: self.on_end(key))
        self.built.append(chat)
        return chat

    @property
    def ends(self) -> list[int]:
        return [chat.ends for chat in self.built]


@dataclass
class Turned:
    """A clock that stands until it is turned."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Held:
    """Holds up whoever comes for one key until it is let go."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, key: str) -> None:
        if key == self.key:
            self.begun.set()
            passed(self.go)


class Arrivals(threading.Condition):
    """The lock of the turns, which tells the test that somebody has begun to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        if not predicate():
            self.waiting.release()
        return super().wait_for(predicate, WAIT if timeout is None else timeout)


def edit(path: Path, values: Mapping[str, Any]) -> None:
    """As an editor saves: a new file takes the place of the old one."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(values))
    beside.replace(path)


def message(
    cache: AgentCache[Chat], key: str = "chat", runtime: Runtime = RUNTIME, user: User = ANA, then: Any = None
) -> Chat:
    with cache.agent(key, runtime=runtime, user=user) as agent:
        if then is not None:
            then()
        return agent


def watched(cache: AgentCache[Chat]) -> threading.Semaphore:
    cache._turns.changed = arrivals = Arrivals()
    return arrivals.waiting


def reason_of(future: Future[Any]) -> str:
    error = future.exception(WAIT)
    assert isinstance(error, StrongroomError)
    return error.reason


def passed(event: threading.Event | threading.Semaphore) -> None:
    assert event.wait(WAIT) if isinstance(event, threading.Event) else event.acquire(timeout=WAIT)
