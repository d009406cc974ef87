"""Cached agents: who gets which, when one is built anew, and that each is ended once.

The provider of these tests is written here, on a file: the cache has never heard of it.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strongroom.errors import InvalidRequest, ProviderUnavailable, StrongroomError
from strongroom.host.cache import AgentCache, Runtime, User

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
    """A provider of this test alone: settings in a JSON file, read again when the file's status has changed."""

    name = "filed"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = 0
        self.reads = 0
        self._seen: tuple[int, int, int] | None = None
        self._settings: dict[str, Any] = {}
        self.frozen = self._current()

    def cache_busting_signature(self) -> dict[str, Any]:
        self.asked += 1
        return {f"filed.{key}": self._current()[key] for key in IDENTITY}

    def _current(self) -> dict[str, Any]:
        status = self.path.stat()
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._seen, self.reads = seen, self.reads + 1
            self._settings = json.loads(self.path.read_text())
        return self._settings


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


class Arrivals(threading.Condition):
    """The lock of the turns, which tells the test that somebody has begun to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        if not predicate():
            self.waiting.release()
        return super().wait_for(predicate, WAIT if timeout is None else timeout)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "filed.json"
    _edit(path, IDENTITY)
    return path


def _edit(path: Path, values: Mapping[str, Any]) -> None:
    """As an editor saves: a new file takes the place of the old one."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(values))
    beside.replace(path)


def _message(
    cache: AgentCache[Chat], key: str = "chat", runtime: Runtime = RUNTIME, user: User = ANA, then: Any = None
) -> Chat:
    with cache.agent(key, runtime=runtime, user=user) as agent:
        if then is not None:
            then()
        return agent


def _watched(cache: AgentCache[Chat]) -> threading.Semaphore:
    cache._turns.changed = arrivals = Arrivals()
    return arrivals.waiting


def _reason(future: Future[Any]) -> str:
    error = future.exception(WAIT)
    assert isinstance(error, StrongroomError)
    return error.reason


def _pass(event: threading.Event | threading.Semaphore) -> None:
    assert event.wait(WAIT) if isinstance(event, threading.Event) else event.acquire(timeout=WAIT)


# Refusals


def test_a_thread_that_leases_its_own_agent_again_is_refused_and_keeps_the_first() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as first:
        with pytest.raises(InvalidRequest) as caught:
            _message(cache)
        assert caught.value.reason == "invalid_request"
        assert first.ends == 0
    assert _message(cache) is first


def test_a_build_that_leases_its_own_key_is_refused() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    runtimes.on_build = lambda _: (runtimes.__setattr__("on_build", lambda _: None), _message(cache))[0]  # type: ignore[func-returns-value]
    with pytest.raises(InvalidRequest):
        _message(cache)
    assert _message(cache) is runtimes.built[0]


def test_two_threads_that_would_wait_for_each_other_are_refused_not_hung(pool: ThreadPoolExecutor) -> None:
    cache = AgentCache(Runtimes().build)
    waiting = _watched(cache)
    has_b = threading.Event()

    def b_then_a() -> Chat:
        return _message(cache, "b", then=lambda: (has_b.set(), _message(cache, "a")))

    with cache.agent("a", runtime=RUNTIME, user=ANA):
        other = pool.submit(b_then_a)
        _pass(has_b)
        _pass(waiting)
        with pytest.raises(InvalidRequest):
            _message(cache, "b")
    assert other.result(WAIT).key == "b"


@pytest.mark.parametrize("runtime", [{"tools": {"a"}}, {1: "a"}, {"limit": float("nan")}, {"home": Path("home")}])
def test_runtime_settings_that_are_not_json_are_refused_before_anything_is_built(runtime: Runtime) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    first = _message(cache)
    with pytest.raises(InvalidRequest):
        _message(cache, runtime=runtime)
    assert (runtimes.built, first.ends) == ([first], 0)
    assert _message(cache) is first


def test_a_closed_cache_takes_no_message() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    assert cache.close()
    with pytest.raises(ProviderUnavailable) as caught:
        _message(cache)
    assert caught.value.reason == "provider_unavailable"
    assert runtimes.built == []


def test_a_message_that_waits_while_the_cache_is_closed_is_turned_away(pool: ThreadPoolExecutor) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    waiting = _watched(cache)
    with cache.agent("chat", runtime=RUNTIME, user=ANA):
        other = pool.submit(_message, cache)
        _pass(waiting)
        assert not cache.close(wait=0)
        assert _reason(other) == "provider_unavailable"
    assert runtimes.ends == [1]


# Errors


def test_a_build_that_raises_leaves_nothing_and_does_not_block_the_key() -> None:
    def fail(_: str) -> None:
        raise OSError("no model")

    runtimes = Runtimes(on_build=fail)
    cache = AgentCache(runtimes.build)
    for _ in range(2):
        with pytest.raises(OSError, match="no model"):
            _message(cache)
    assert len(cache) == 0
    runtimes.on_build = lambda _: None
    assert _message(cache) is runtimes.built[0]


@pytest.mark.requirement("cache-ends-sessions")
def test_a_successor_that_cannot_be_built_finds_the_old_agent_ended_once_and_leaves_the_key_empty() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    old = _message(cache)

    def fail(_: str) -> None:
        assert old.ends == 1
        raise OSError

    runtimes.on_build = fail
    with pytest.raises(OSError):
        _message(cache, user=User("bob"))
    assert (old.ends, len(cache)) == (1, 0)
    assert cache.close()
    assert old.ends == 1


@pytest.mark.requirement("cache-ends-sessions")
def test_an_end_that_raises_is_logged_with_the_provider_and_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str) -> None:
        raise OSError("what ana said")

    runtimes = Runtimes(provider=lambda: Says({}), on_end=fail)
    cache = AgentCache(runtimes.build)
    _message(cache)
    _message(cache, user=User("bob"))
    cache.discard("chat")
    _message(cache)
    assert cache.close()
    assert runtimes.ends == [1, 1, 1]
    assert [record.getMessage().startswith("says: ") for record in caplog.records] == [True] * 3
    assert "what ana said" not in caplog.text


def test_an_error_in_a_turn_keeps_the_agent() -> None:
    cache = AgentCache(Runtimes().build)
    with pytest.raises(KeyError), cache.agent("chat", runtime=RUNTIME, user=ANA) as first:
        raise KeyError
    assert _message(cache) is first


@pytest.mark.parametrize("garbage", [ValueError("sk-marked"), [1], "text", 7, {1: 2}, {"a": {1}}, {"a": [object()]}])
def test_a_signature_that_is_of_no_use_is_no_change_and_logged_once(
    garbage: object, caplog: pytest.LogCaptureFixture
) -> None:
    runtimes = Runtimes(provider=lambda: Says({"says.peer": "ana"}, garbage))
    cache = AgentCache(runtimes.build)
    chats = {id(_message(cache)) for _ in range(4)}
    _message(cache, "other")
    _message(cache, "other")
    assert len(chats) == 1
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("strongroom.host", logging.WARNING)
    assert record.getMessage().startswith("says: ")
    assert "sk-marked" not in caplog.text


def test_none_is_no_change_and_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    runtimes = Runtimes(provider=lambda: Says({"says.peer": "ana"}, None))
    cache = AgentCache(runtimes.build)
    assert len({id(_message(cache)) for _ in range(3)}) == 1
    assert caplog.records == []


def test_a_change_after_answers_of_no_use_is_still_seen() -> None:
    answers = iter([Says({"a": 1}, ValueError(), None, {"a": 1}, {"a": 2}), Says({"a": 2})])
    runtimes = Runtimes(provider=lambda: next(answers))
    cache = AgentCache(runtimes.build)
    chats = [_message(cache) for _ in range(6)]
    assert [runtimes.built.index(chat) for chat in chats] == [0, 0, 0, 0, 1, 1]


def test_a_first_answer_that_failed_is_made_up_by_the_next_without_a_rebuild() -> None:
    runtimes = Runtimes(provider=lambda: Says(ValueError(), {"a": 1}, {"a": 1}, {"a": 2}))
    cache = AgentCache(runtimes.build)
    chats = [_message(cache) for _ in range(4)]
    assert [runtimes.built.index(chat) for chat in chats] == [0, 0, 0, 1]


# What builds an agent anew


@pytest.mark.requirement("cache-rebuild-on-identity")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("peer_name", "anna"),
        ("ai_peer", "other"),
        ("pin_user_peer", True),
        ("user_peer_aliases", {"7": "ana", "8": "bob"}),
        ("runtime_peer_prefix", "tg-"),
    ],
)
def test_an_edit_of_an_identity_key_builds_the_agent_anew_on_the_next_message(
    path: Path, key: str, value: object
) -> None:
    runtimes = Runtimes(provider=lambda: Filed(path))
    cache = AgentCache(runtimes.build)
    first = _message(cache)
    assert _message(cache) is first
    _edit(path, IDENTITY | {key: value})
    second = _message(cache)
    assert (second is first, first.ends, second.ends) == (False, 1, 0)
    assert second.memory.external.frozen[key] == value
    assert _message(cache) is second


@pytest.mark.requirement("cache-unrelated-edit-keeps")
def test_an_unrelated_edit_and_a_refreshed_token_keep_the_agent(path: Path) -> None:
    runtimes = Runtimes(provider=lambda: Filed(path))
    cache = AgentCache(runtimes.build)
    first = _message(cache)
    for other in ({"colour": "red"}, {"token": "one"}, {"token": "two"}, {}):
        _edit(path, IDENTITY | other)
        assert _message(cache) is first
    path.touch()
    assert _message(cache) is first
    assert first.ends == 0
    assert first.memory.external.reads >= 5  # it did look: the edits were seen, and found to be unrelated


@pytest.mark.requirement("cache-two-users")
@pytest.mark.parametrize("other", [User("bob"), User("ana", "bob"), User("", "ana"), User()])
def test_two_users_never_share_an_agent(other: User) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    first = _message(cache)
    runtimes.on_build = lambda _: None if first.ends == 1 else pytest.fail("built before the old one was ended")
    second = _message(cache, user=other)
    assert (first.user, second.user) == (ANA, other)
    third = _message(cache)
    assert third not in (first, second)
    assert runtimes.ends == [1, 1, 0]


@pytest.mark.parametrize(
    "change",
    [{"model": {"name": "small", "max_tokens": 512}}, {"api_key": "sk-other"}, {"tools": []}, {"more": None}],
)
def test_a_change_of_the_runtime_settings_builds_anew_without_asking_the_provider(change: Runtime) -> None:
    runtimes = Runtimes(provider=lambda: Says({"a": 1}))
    cache = AgentCache(runtimes.build)
    first = _message(cache)
    second = _message(cache, runtime={**RUNTIME, **change})
    assert (second is first, first.ends, first.memory.external.asked) == (False, 1, 1)


def test_equal_settings_in_another_order_keep_the_agent() -> None:
    cache = AgentCache(Runtimes().build)
    first = _message(cache)
    assert _message(cache, runtime=dict(reversed(RUNTIME.items()))) is first


@pytest.mark.requirement("cache-active-only")
def test_only_the_provider_of_the_cached_agent_is_asked_and_once_for_each_message() -> None:
    installed = {"one": Says({"one.a": 1}), "two": Says({"two.a": 1}), "three": Says({"three.a": 1})}
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)

    def messages(count: int, provider: str) -> dict[str, int]:
        before = {name: one.asked for name, one in installed.items()}
        runtimes.provider = lambda: installed[provider]
        for _ in range(count):
            _message(cache, runtime={"memory.provider": provider})
        return {name: one.asked - before[name] for name, one in installed.items()}

    assert messages(10, "one") == {"one": 10, "two": 0, "three": 0}
    assert messages(5, "two") == {"one": 0, "two": 5, "three": 0}
    assert len(runtimes.built) == 2


@pytest.mark.requirement("cache-new-provider-no-change")
def test_a_provider_made_after_the_cache_needs_nothing_from_it() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    _message(cache)
    peers = ["ana"]
    brand_new = type(
        "BrandNew",
        (),
        {"name": "brand-new", "cache_busting_signature": lambda self: {"brand-new.peer": peers[0]}},
    )
    runtimes.provider = brand_new
    with_provider = {**RUNTIME, "memory.provider": "brand-new"}
    first = _message(cache, runtime=with_provider)
    assert _message(cache, runtime=with_provider) is first
    peers[0] = "bob"
    assert _message(cache, runtime=with_provider) is not first


def test_an_edit_during_the_build_is_seen_where_the_first_answer_is_what_was_frozen(path: Path) -> None:
    class Frozen(Filed):
        def cache_busting_signature(self) -> dict[str, Any]:
            current = super().cache_busting_signature()
            return current if self.asked > 1 else {f"filed.{key}": self.frozen[key] for key in IDENTITY}

    def provider() -> Frozen:
        made = Frozen(path)
        if len(runtimes.built) == 0:
            _edit(path, IDENTITY | {"peer_name": "anna"})
        return made

    runtimes = Runtimes(provider=provider)
    cache = AgentCache(runtimes.build)
    first, second, third = _message(cache), _message(cache), _message(cache)
    assert (first is second, second is third) == (False, True)
    assert second.memory.external.frozen["peer_name"] == "anna"


@pytest.mark.requirement("secrets-hidden")
def test_no_runtime_setting_stays_in_the_cache() -> None:
    runtimes = Runtimes(provider=lambda: Says({"says.peer": "marked-peer"}))
    cache = AgentCache(runtimes.build)
    agent = _message(cache, user=User("marked-user"))
    assert _reachable(cache, {id(agent), id(runtimes)}, "marked") == []
    assert _reachable(cache, set(), "marked") != []  # the search does find what the agent itself holds


def _reachable(start: object, without: set[int], text: str) -> list[str]:
    """Texts with `text` in them that can be reached from an object through its own data, not through modules."""
    seen, todo, found = set(without), [start], []
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type | type(sys)) or (callable(one) and one is not start):
            continue
        seen.add(id(one))
        found += [one] if isinstance(one, str) and text in one else []
        found += [repr(one)] if isinstance(one, bytes) and text.encode() in one else []
        todo += gc.get_referents(one)
    return found


# No I/O

MESSAGES = """
import os, sys
from strongroom.host.cache import AgentCache, User

class Nothing:
    name = "nothing"
    def cache_busting_signature(self): return {}
class Stats(Nothing):
    def cache_busting_signature(self): return {"a": os.stat(os.devnull).st_size}
class Reads(Nothing):
    def cache_busting_signature(self):
        with open(os.devnull) as file: return {"a": file.read()}
class Agent:
    def __init__(self, memory): self.memory = memory
    def end(self): pass

memory = {"nothing": Nothing, "stats": Stats, "reads": Reads}[sys.argv[1]]()
cache = AgentCache(lambda *_: Agent(memory))
runtime = {"model": "large", "api_key": "sk", "tools": ["a", "b"]}
def message(number):
    with cache.agent("chat" + str(number % 5), runtime=runtime, user=User("ana")): pass
for number in range(10): message(number)
events, on = [], False
def hook(event, arguments):
    if on and (event == "open" or event.startswith(("os.", "socket.", "import", "subprocess.", "mmap."))):
        events.append(event)
sys.addaudithook(hook)
try: os.stat("/begin-of-messages")
except OSError: pass
on = True
for number in range(100): message(number)
on = False
try: os.stat("/end-of-messages")
except OSError: pass
print(len(events))
"""


def _audited(provider: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MESSAGES, provider], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


def _traced(provider: str, out: Path) -> list[str]:
    """The system calls on files, descriptors' contents and sockets between the two marks."""
    calls = "trace=%file,%network,read,pread64,readv,write,pwrite64,writev,getdents64,fstat,lseek"
    command = ["strace", "-f", "-e", calls, "-o", str(out), sys.executable, "-c", MESSAGES, provider]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    lines = out.read_text().splitlines()
    (begin,) = (number for number, line in enumerate(lines) if "/begin-of-messages" in line)
    (end,) = (number for number, line in enumerate(lines) if "/end-of-messages" in line)
    return lines[begin + 1 : end]


@pytest.mark.requirement("cache-no-io-without-provider")
def test_no_file_is_opened_for_a_message_without_a_provider() -> None:
    assert _audited("reads") == 100  # the count can fail
    assert _audited("nothing") == 0


@pytest.mark.requirement("cache-no-io-without-provider")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_system_call_on_a_file_is_made_for_a_message_without_a_provider(tmp_path: Path) -> None:
    if subprocess.run(["strace", "-o", tmp_path / "probe", "true"], capture_output=True, check=False).returncode:
        pytest.skip("tracing is not allowed here")
    assert len(_traced("stats", tmp_path / "stats")) == 100  # the count can fail
    assert _traced("nothing", tmp_path / "nothing") == []


def test_an_unchanged_settings_file_is_read_once(path: Path) -> None:
    cache = AgentCache(Runtimes(provider=lambda: Filed(path)).build)
    for _ in range(50):
        chat = _message(cache)
    assert (chat.memory.external.reads, chat.memory.external.asked) == (1, 50)


# Bounds


@pytest.mark.requirement("cache-ends-sessions")
def test_the_least_recently_used_agent_is_ended_beyond_the_capacity() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build, capacity=2)
    a, b = _message(cache, "a"), _message(cache, "b")
    assert _message(cache, "a") is a
    c = _message(cache, "c")
    assert (a.ends, b.ends, c.ends, len(cache)) == (0, 1, 0, 2)
    assert _message(cache, "a") is a
    assert _message(cache, "b") is not b


def test_agents_in_use_are_never_ended_and_never_turn_a_chat_away() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build, capacity=2)
    with ExitStack() as leases:
        for key in "abcde":
            leases.enter_context(cache.agent(key, runtime=RUNTIME, user=ANA))
        cache.sweep()
        assert (runtimes.ends, len(cache)) == ([0] * 5, 5)
    assert sorted(runtimes.ends) == [0, 0, 1, 1, 1]
    assert len(cache) == 2


@pytest.mark.requirement("cache-ends-sessions")
def test_an_agent_that_was_idle_too_long_is_ended_by_a_sweep_and_by_the_message_of_another_chat() -> None:
    runtimes, clock = Runtimes(), Turned()
    cache = AgentCache(runtimes.build, idle=60, clock=clock)
    a = _message(cache, "a")
    clock.seconds += 59
    b = _message(cache, "b")
    assert (a.ends, b.ends) == (0, 0)
    clock.seconds += 1
    _message(cache, "b")
    assert (a.ends, b.ends) == (1, 0)
    clock.seconds += 60
    cache.sweep()
    assert (a.ends, b.ends, len(cache)) == (1, 1, 0)


def test_an_agent_that_was_idle_too_long_is_not_used_again_whoever_notices() -> None:
    runtimes, clock = Runtimes(provider=lambda: Says({"a": 1})), Turned()
    cache = AgentCache(runtimes.build, idle=60, clock=clock)
    old = _message(cache)
    clock.seconds += 60
    assert _message(cache) is not old
    assert (runtimes.ends, old.memory.external.asked) == ([1, 0], 1)


def test_a_long_turn_does_not_count_as_idle() -> None:
    clock = Turned()
    cache = AgentCache(Runtimes().build, idle=60, clock=clock)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as agent:
        clock.seconds += 600
        cache.sweep()
        assert agent.ends == 0
    assert _message(cache) is agent


@pytest.mark.requirement("cache-ends-sessions")
def test_a_discarded_agent_is_ended_at_once_and_one_in_use_when_it_is_given_back() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    cache.discard("nobody")
    first = _message(cache)
    cache.discard("chat")
    assert (first.ends, len(cache)) == (1, 0)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as second:
        cache.discard("chat")
        cache.discard("chat")
        assert second.ends == 0
    assert second.ends == 1
    third = _message(cache)
    assert _message(cache) is third


def test_an_agent_that_is_discarded_while_it_is_built_serves_one_message() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    runtimes.on_build = cache.discard
    assert _message(cache).ends == 1
    runtimes.on_build = lambda _: None
    assert _message(cache) is _message(cache)


@pytest.mark.requirement("cache-ends-sessions")
def test_close_ends_every_agent_once_and_may_be_called_again() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    for key in "abc":
        _message(cache, key)
    assert cache.close()
    assert cache.close()
    cache.discard("a")
    cache.sweep()
    assert (runtimes.ends, len(cache)) == ([1, 1, 1], 0)


@pytest.mark.requirement("cache-ends-sessions")
def test_close_waits_for_an_agent_in_use_which_its_lease_then_ends(pool: ThreadPoolExecutor) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    waiting = _watched(cache)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as agent:
        closing = pool.submit(cache.close, WAIT)
        _pass(waiting)
        assert (agent.ends, closing.done()) == (0, False)
    assert closing.result(WAIT) is True
    assert runtimes.ends == [1]


def test_close_does_not_wait_for_ever_and_the_lease_still_ends_its_agent(pool: ThreadPoolExecutor) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    with cache.agent("chat", runtime=RUNTIME, user=ANA):
        assert pool.submit(cache.close, 0).result(WAIT) is False
        assert runtimes.ends == [0]
    assert runtimes.ends == [1]


def test_close_inside_a_lease_does_not_wait_for_that_lease() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    with cache.agent("chat", runtime=RUNTIME, user=ANA):
        assert cache.close(wait=threading.TIMEOUT_MAX) is False
    assert runtimes.ends == [1]


def test_the_cache_has_no_thread_of_its_own() -> None:
    before = set(threading.enumerate())
    clock = Turned()
    cache = AgentCache(Runtimes().build, capacity=1, idle=60, clock=clock)
    for key in "abcabc":
        _message(cache, key)
        clock.seconds += 30
    cache.discard("c")
    cache.close()
    assert set(threading.enumerate()) == before


# Chats side by side


def test_a_second_message_of_a_chat_waits_its_turn_in_the_order_of_arrival(pool: ThreadPoolExecutor) -> None:
    cache = AgentCache(Runtimes().build)
    waiting = _watched(cache)
    order: list[int] = []
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as agent:
        others = []
        for number in range(5):
            others.append(pool.submit(_message, cache, then=lambda number=number: order.append(number)))
            _pass(waiting)
        assert order == []
    assert [other.result(WAIT) is agent for other in others] == [True] * 5
    assert order == [0, 1, 2, 3, 4]


def test_a_slow_build_holds_up_no_other_chat(pool: ThreadPoolExecutor) -> None:
    begun, go = threading.Event(), threading.Event()
    runtimes = Runtimes(on_build=lambda key: (begun.set(), _pass(go)) if key == "slow" else None)  # type: ignore[func-returns-value]
    cache = AgentCache(runtimes.build, capacity=1)
    slow = pool.submit(_message, cache, "slow")
    _pass(begun)
    assert _message(cache, "b") is _message(cache, "b")
    cache.discard("b")
    cache.sweep()
    assert not slow.done()
    go.set()
    assert slow.result(WAIT).key == "slow"


@pytest.mark.parametrize("cause", ["sweep", "discard", "rebuild", "capacity"])
def test_a_slow_end_holds_up_no_other_chat_and_its_own_until_it_is_over(pool: ThreadPoolExecutor, cause: str) -> None:
    begun, go, clock = threading.Event(), threading.Event(), Turned()
    runtimes = Runtimes(on_end=lambda key: (begun.set(), _pass(go)) if key == "slow" else None)  # type: ignore[func-returns-value]
    cache = AgentCache(runtimes.build, capacity=2, idle=60, clock=clock)
    waiting = _watched(cache)
    old = _message(cache, "slow")
    clock.seconds += 60 if cause == "sweep" else 0
    causes: dict[str, Callable[[], object]] = {
        "sweep": cache.sweep,
        "discard": lambda: cache.discard("slow"),
        "rebuild": lambda: _message(cache, "slow", user=User("bob")),
        "capacity": lambda: (_message(cache, "x"), _message(cache, "y")),
    }
    ending = pool.submit(causes[cause])
    _pass(begun)
    assert _message(cache, "b") is _message(cache, "b")
    again = pool.submit(_message, cache, "slow")
    _pass(waiting)
    assert [chat for chat in runtimes.built if chat.key == "slow"] == [old]
    go.set()
    ending.result(WAIT)
    assert again.result(WAIT) is not old
    assert old.ends == 1


def test_the_chat_whose_message_causes_an_end_has_given_its_own_agent_back_before(pool: ThreadPoolExecutor) -> None:
    begun, go = threading.Event(), threading.Event()
    runtimes = Runtimes(on_end=lambda key: (begun.set(), _pass(go)) if key == "slow" else None)  # type: ignore[func-returns-value]
    cache = AgentCache(runtimes.build, capacity=1)
    _message(cache, "slow")
    first = pool.submit(_message, cache, "b")
    _pass(begun)
    assert _message(cache, "b") is runtimes.built[1]
    assert not first.done()
    go.set()
    assert first.result(WAIT) is runtimes.built[1]


# Properties


class Model(RuleBasedStateMachine):
    """One thread, any order of events, against a plain model of which agent each key must have."""

    keys = st.sampled_from("abcdef")
    capacity = 3

    def __init__(self) -> None:
        super().__init__()
        self.clock = Turned()
        self.said = {"a": 0}
        self.runtimes = Runtimes(provider=lambda: Says({}))
        self.runtimes.provider = lambda: self
        self.cache = AgentCache(self.runtimes.build, capacity=self.capacity, idle=60, clock=self.clock)
        self.leases: dict[str, tuple[ExitStack, Chat]] = {}
        self.free: dict[str, tuple[Chat, User, int, float]] = {}
        self.unwanted: set[str] = set()
        self.closed = False

    def cache_busting_signature(self) -> dict[str, int]:
        return dict(self.said)

    @precondition(lambda self: not self.closed)
    @rule(key=keys, user=st.sampled_from([ANA, User("bob")]))
    def lease(self, key: str, user: User) -> None:
        if key in self.leases:
            with pytest.raises(InvalidRequest):
                _message(self.cache, key, user=user)
            self._expire()
            return
        stack = ExitStack()
        agent = stack.enter_context(self.cache.agent(key, runtime=RUNTIME, user=user))
        before = self.free.pop(key, None)
        if before is not None:
            fits = before[1:3] == (user, self.said["a"]) and self.clock.seconds - before[3] < 60
            assert (agent is before[0]) == fits
            assert before[0].ends == (0 if fits else 1)
        self.leases[key] = (stack, agent)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.leases)))
        stack, agent = self.leases.pop(key)
        assert agent.ends == 0
        stack.close()
        if key in self.unwanted or self.closed:
            assert agent.ends == 1
        elif agent.ends == 0:
            first = self.runtimes.built.index(agent)
            self.free[key] = (agent, agent.user, self.versions[first], self.clock.seconds)
        self.unwanted.discard(key)
        self._expire()

    @property
    def versions(self) -> dict[int, int]:
        made = self.__dict__.setdefault("made", {})
        for index in range(len(self.runtimes.built)):
            made.setdefault(index, self.said["a"])
        return made

    @rule()
    def edit(self) -> None:
        assert self.versions is not None
        self.said["a"] += 1

    @rule(seconds=st.sampled_from([1, 30, 60]))
    def pass_time(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @rule()
    def sweep(self) -> None:
        self.cache.sweep()
        self._expire()

    @rule(key=keys)
    def discard(self, key: str) -> None:
        self.cache.discard(key)
        if key in self.leases:
            self.unwanted.add(key)
        elif key in self.free:
            assert self.free.pop(key)[0].ends == 1

    @precondition(lambda self: len(self.runtimes.built) > 5)
    @rule()
    def close(self) -> None:
        self.closed = True
        assert self.cache.close() == (not self.leases)
        assert all(agent.ends == 1 for agent, *_ in self.free.values())
        self.free.clear()

    def _expire(self) -> None:
        """After a sweep: nothing that is free is over, and no more than the capacity is kept unless all is in use."""
        ended = {key for key, (agent, *_) in self.free.items() if agent.ends}
        over = {key for key, (*_, used) in self.free.items() if self.clock.seconds - used >= 60}
        assert over <= ended
        for key in ended:
            del self.free[key]
        assert not self.free or len(self.free) + len(self.leases) <= self.capacity

    @invariant()
    def each_is_ended_at_most_once_and_what_is_kept_is_alive(self) -> None:
        assert max(self.runtimes.ends, default=0) <= 1
        alive = [chat.key for chat in self.runtimes.built if not chat.ends]
        assert len(alive) == len(set(alive)) == len(self.cache) <= self.capacity + len(self.leases)

    def teardown(self) -> None:
        for stack, _ in self.leases.values():
            stack.close()
        assert self.cache.close()
        assert set(self.runtimes.ends) <= {1}


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestModel = Model.TestCase


class Crowd:
    """Counts, under a lock of its own, who is alive and who is inside a lease, and remembers each breach."""

    def __init__(self, capacity: int) -> None:
        self.guard = threading.Lock()
        self.capacity = capacity
        self.alive: Counter[str] = Counter()
        self.inside = 0
        self.breaches: list[str] = []

    def enter(self, change: int) -> None:
        with self.guard:
            self.inside += change

    def born(self, key: str) -> None:
        with self.guard:
            self.alive[key] += 1
            if self.alive[key] > 1:
                self.breaches.append(f"two agents for {key}")
            if self.alive.total() > self.capacity + self.inside:
                self.breaches.append("too many agents")

    def dead(self, key: str) -> None:
        with self.guard:
            self.alive[key] -= 1


@pytest.mark.requirement("cache-ends-sessions")
@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_schedule_each_agent_is_ended_once_and_their_number_is_bounded(
    seed: int, pool: ThreadPoolExecutor
) -> None:
    crowd, clock = Crowd(capacity=3), Turned()
    chaos = random.Random(seed)

    def on_build(key: str) -> None:
        if chaos.random() < 0.05:
            raise OSError
        crowd.born(key)

    def on_end(key: str) -> None:
        crowd.dead(key)
        if chaos.random() < 0.1:
            raise OSError

    runtimes = Runtimes(lambda: Says({"a": chaos.randrange(2)}, {"a": 0}, {"a": 1}), on_build, on_end)
    cache = AgentCache(runtimes.build, capacity=crowd.capacity, idle=60, clock=clock)

    def message(key: str, user: User) -> None:
        crowd.enter(1)
        try:
            with cache.agent(key, runtime=RUNTIME, user=user) as agent:
                assert (agent.key, agent.user, agent.ends) == (key, user, 0)
        except (OSError, ProviderUnavailable):
            pass
        finally:
            crowd.enter(-1)

    def gateway(number: int) -> None:
        luck = random.Random(seed * 100 + number)
        for _ in range(60):
            key = luck.choice("abcdefg")
            what = luck.random()
            if what < 0.85:
                message(key, luck.choice([ANA, ANA, User("bob")]))
            elif what < 0.9:
                cache.discard(key)
            else:
                clock.seconds += luck.choice([1, 30])
        if number == 0:
            cache.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for done in [pool.submit(gateway, number) for number in range(8)]:
            done.result(WAIT * 3)
    finally:
        sys.setswitchinterval(before)
    assert cache.close()
    assert crowd.breaches == []
    assert len(runtimes.built) > 20
    assert set(runtimes.ends) == {1}
