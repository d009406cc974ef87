"""Cached agents on a real host: a provider hears that its session is over, and to be asked costs nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strongroom.host import AgentSession, Host, MemoryManager, MemoryProvider
from strongroom.host.cache.agent_cache import AgentCache, Runtime, User
from tests.host.chats import ANA, IDENTITY, RUNTIME, Filed, edit


@dataclass(eq=False)
class Chat:
    memory: MemoryManager

    def end(self) -> None:
        self.memory.end([{"role": "user", "content": "bye"}])


class Logged(MemoryProvider):
    """Notes what it is told; its settings are in a file."""

    name = "logged"

    def __init__(self, path: Path, log: list[str]) -> None:
        self._filed = Filed(path)
        self._log = log
        self.fails = False

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Any]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._log.append(f"initialize {kwargs['user_id']} as {self._filed.frozen.peer_name}")

    def on_session_end(self, messages: Any) -> None:
        self._log.append("on_session_end")

    def shutdown(self) -> None:
        self._log.append("shutdown")

    def cache_busting_signature(self) -> dict[str, Any] | None:
        if self.fails:
            raise ValueError
        return self._filed.cache_busting_signature()


@dataclass
class Gateway:
    cache: AgentCache[Chat]
    settings: Path
    log: list[str]

    def message(self, user: User = ANA) -> Chat:
        with self.cache.agent("chat", runtime=RUNTIME, user=user) as agent:
            return agent


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    log: list[str] = []
    edit(tmp_path / "logged.json", IDENTITY)
    with Host(tmp_path / "home", lambda: Logged(tmp_path / "logged.json", log), keys=tmp_path / "keys") as host:

        def build(key: str, _: Runtime, user: User) -> Chat:
            return Chat(host.manager(AgentSession(key, "telegram", user_id=user.id, gateway_session_key=key)))

        cache = AgentCache(build)
        yield Gateway(cache, tmp_path / "logged.json", log)
        cache.close()


@pytest.mark.requirement("cache-rebuild-on-identity", "cache-unrelated-edit-keeps", "cache-ends-sessions")
def test_identity_edit_ends_the_session_and_begins_one_with_the_new_settings(gateway: Gateway) -> None:
    first = gateway.message()
    edit(gateway.settings, IDENTITY | {"colour": "red"})
    assert gateway.message() is first
    edit(gateway.settings, IDENTITY | {"peer_name": "anna"})
    assert gateway.message() is not first
    assert gateway.cache.close()
    ending = ["on_session_end", "shutdown"]
    assert gateway.log == ["initialize ana as ana", *ending, "initialize ana as anna", *ending]


@pytest.mark.requirement("cache-two-users", "cache-ends-sessions")
def test_another_user_gets_a_session_of_their_own_after_the_first_was_ended(gateway: Gateway) -> None:
    gateway.message()
    gateway.message(User("bob"))
    assert gateway.log == ["initialize ana as ana", "on_session_end", "shutdown", "initialize bob as ana"]


def test_provider_whose_signature_fails_keeps_its_agent(gateway: Gateway) -> None:
    first = gateway.message()
    provider = first.memory.external
    assert isinstance(provider, Logged)
    provider.fails = True
    assert gateway.message() is first
    provider.fails = False
    assert gateway.message() is first


MESSAGES = """
import sys
from pathlib import Path
from strongroom.host import AgentCache, AgentSession, Host, User

class Agent:
    def __init__(self, memory): self.memory, self.end = memory, memory.end

home = Path(sys.argv[1])
opened, on = [], False
def hook(event, arguments):
    if on and (event == "open" or event.startswith(("os.", "socket.", "import", "subprocess."))):
        opened.append(event)
sys.addaudithook(hook)
with Host(home / "home", keys=home / "keys") as host:
    cache = AgentCache(lambda key, runtime, user: Agent(host.manager(AgentSession(key))))
    def message():
        with cache.agent("chat", runtime={"model": "large"}, user=User("ana")) as agent:
            agent.memory.on_turn_start("hello")
            assert agent.memory.prefetch("hello") == ""
            agent.memory.sync_turn("hello", "hi", messages=[{"role": "user", "content": "hello"}])
    on = True
    message()
    first = len(opened)
    for _ in range(100): message()
    print(first, len(opened) - first)
    on = False
    cache.close()
"""


@pytest.mark.requirement("cache-no-io-without-provider")
def test_host_without_a_provider_opens_no_file_for_a_message(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MESSAGES, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    first, later = (int(count) for count in done.stdout.split())
    assert first > 0  # the build reads the built-in memory: the count can fail
    assert later == 0
