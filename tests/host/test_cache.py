"""Cached agents: which message gets which, and what builds one anew. Refusals and errors first."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.host.cache.agent_cache import AgentCache, Runtime, User
from tests.host.chats import ANA, IDENTITY, RUNTIME, Filed, Runtimes, Says, edit, message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "filed.json"
    edit(path, IDENTITY)
    return path


# Refusals


def test_thread_that_leases_its_own_agent_again_is_refused_and_keeps_the_first() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as first:
        with pytest.raises(InvalidRequest) as caught:
            message(cache)
        assert caught.value.reason == "invalid_request"
        assert first.ends == 0
    assert message(cache) is first


def test_build_that_leases_its_own_key_is_refused() -> None:
    def lease_again(key: str) -> None:
        runtimes.on_build = lambda _: None
        message(cache, key)

    runtimes = Runtimes(on_build=lease_again)
    cache = AgentCache(runtimes.build)
    with pytest.raises(InvalidRequest):
        message(cache)
    assert message(cache) is runtimes.built[0]


@pytest.mark.parametrize("runtime", [{"tools": {"a"}}, {1: "a"}, {"limit": float("nan")}, {"home": Path("home")}])
def test_runtime_settings_that_are_not_json_are_refused_before_anything_is_built(runtime: Runtime) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    first = message(cache)
    with pytest.raises(InvalidRequest):
        message(cache, runtime=runtime)
    assert (runtimes.built, first.ends) == ([first], 0)
    assert message(cache) is first


def test_closed_cache_takes_no_message() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    assert cache.close()
    with pytest.raises(ProviderUnavailable) as caught:
        message(cache)
    assert caught.value.reason == "provider_unavailable"
    assert runtimes.built == []


# Errors


def test_build_that_raises_leaves_nothing_and_does_not_block_the_key() -> None:
    def fail(_: str) -> None:
        raise OSError("no model")

    runtimes = Runtimes(on_build=fail)
    cache = AgentCache(runtimes.build)
    for _ in range(2):
        with pytest.raises(OSError, match="no model"):
            message(cache)
    assert len(cache) == 0
    runtimes.on_build = lambda _: None
    assert message(cache) is runtimes.built[0]


@pytest.mark.requirement("cache-ends-sessions")
def test_successor_that_cannot_be_built_finds_the_old_agent_ended_once_and_leaves_the_key_empty() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    old = message(cache)

    def fail(_: str) -> None:
        assert old.ends == 1
        raise OSError

    runtimes.on_build = fail
    with pytest.raises(OSError):
        message(cache, user=User("bob"))
    assert (old.ends, len(cache)) == (1, 0)
    assert cache.close()
    assert old.ends == 1


@pytest.mark.requirement("cache-ends-sessions")
def test_end_that_raises_is_logged_with_the_provider_and_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str) -> None:
        raise OSError("what ana said")

    runtimes = Runtimes(provider=lambda: Says({}), on_end=fail)
    cache = AgentCache(runtimes.build)
    message(cache)
    message(cache, user=User("bob"))
    cache.discard("chat")
    message(cache)
    assert cache.close()
    assert runtimes.ends == [1, 1, 1]
    assert [record.getMessage().startswith("says: ") for record in caplog.records] == [True] * 3
    assert "what ana said" not in caplog.text


def test_error_in_a_turn_keeps_the_agent() -> None:
    cache = AgentCache(Runtimes().build)
    with pytest.raises(KeyError), cache.agent("chat", runtime=RUNTIME, user=ANA) as first:
        raise KeyError
    assert message(cache) is first


@pytest.mark.parametrize("garbage", [ValueError("sk-marked"), [1], "text", 7, {1: 2}, {"a": {1}}, {"a": [object()]}])
def test_signature_that_is_of_no_use_is_no_change_and_logged_once(
    garbage: object, caplog: pytest.LogCaptureFixture
) -> None:
    runtimes = Runtimes(provider=lambda: Says({"says.peer": "ana"}, garbage))
    cache = AgentCache(runtimes.build)
    chats = {id(message(cache)) for _ in range(4)}
    message(cache, "other")
    message(cache, "other")
    assert len(chats) == 1
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("strongroom.host", logging.WARNING)
    assert record.getMessage().startswith("says: ")
    assert "sk-marked" not in caplog.text


def test_none_is_no_change_and_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    runtimes = Runtimes(provider=lambda: Says({"says.peer": "ana"}, None))
    cache = AgentCache(runtimes.build)
    assert len({id(message(cache)) for _ in range(3)}) == 1
    assert caplog.records == []


def test_change_after_answers_of_no_use_is_still_seen() -> None:
    answers = iter([Says({"a": 1}, ValueError(), None, {"a": 1}, {"a": 2}), Says({"a": 2})])
    runtimes = Runtimes(provider=lambda: next(answers))
    cache = AgentCache(runtimes.build)
    chats = [message(cache) for _ in range(6)]
    assert [runtimes.built.index(chat) for chat in chats] == [0, 0, 0, 0, 1, 1]


def test_first_answer_that_failed_is_made_up_by_the_next_without_a_rebuild() -> None:
    runtimes = Runtimes(provider=lambda: Says(ValueError(), {"a": 1}, {"a": 1}, {"a": 2}))
    cache = AgentCache(runtimes.build)
    chats = [message(cache) for _ in range(4)]
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
def test_edit_of_an_identity_key_builds_the_agent_anew_on_the_next_message(path: Path, key: str, value: object) -> None:
    runtimes = Runtimes(provider=lambda: Filed(path))
    cache = AgentCache(runtimes.build)
    first = message(cache)
    assert message(cache) is first
    edit(path, IDENTITY | {key: value})
    second = message(cache)
    assert (second is first, first.ends, second.ends) == (False, 1, 0)
    assert getattr(second.memory.external.frozen, key) == value
    assert message(cache) is second


@pytest.mark.requirement("cache-unrelated-edit-keeps")
def test_unrelated_edit_and_a_refreshed_token_keep_the_agent(path: Path) -> None:
    runtimes = Runtimes(provider=lambda: Filed(path))
    cache = AgentCache(runtimes.build)
    first = message(cache)
    for other in ({"colour": "red"}, {"token": "one"}, {"token": "two"}, {}):
        edit(path, IDENTITY | other)
        assert message(cache) is first
    path.touch()
    assert message(cache) is first
    assert first.ends == 0
    assert first.memory.external.parsed == 5  # it did look: each edit was seen, and found to be unrelated


@pytest.mark.requirement("cache-two-users")
@pytest.mark.parametrize("other", [User("bob"), User("ana", "bob"), User("", "ana"), User()])
def test_two_users_never_share_an_agent(other: User) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    first = message(cache)
    runtimes.on_build = lambda _: None if first.ends == 1 else pytest.fail("built before the old one was ended")
    second = message(cache, user=other)
    assert (first.user, second.user) == (ANA, other)
    third = message(cache)
    assert third not in (first, second)
    assert runtimes.ends == [1, 1, 0]


@pytest.mark.parametrize(
    "change",
    [{"model": {"name": "small", "max_tokens": 512}}, {"api_key": "sk-other"}, {"tools": []}, {"more": None}],
)
def test_change_of_the_runtime_settings_builds_anew_without_asking_the_provider(change: Runtime) -> None:
    runtimes = Runtimes(provider=lambda: Says({"a": 1}))
    cache = AgentCache(runtimes.build)
    first = message(cache)
    second = message(cache, runtime={**RUNTIME, **change})
    assert (second is first, first.ends, first.memory.external.asked) == (False, 1, 1)


def test_equal_settings_in_another_order_keep_the_agent() -> None:
    cache = AgentCache(Runtimes().build)
    first = message(cache)
    assert message(cache, runtime=dict(reversed(list(RUNTIME.items())))) is first


@pytest.mark.requirement("cache-active-only")
def test_only_the_provider_of_the_cached_agent_is_asked_and_once_for_each_message() -> None:
    installed = {"one": Says({"one.a": 1}), "two": Says({"two.a": 1}), "three": Says({"three.a": 1})}
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)

    def messages(count: int, provider: str) -> dict[str, int]:
        before = {name: one.asked for name, one in installed.items()}
        runtimes.provider = lambda: installed[provider]
        for _ in range(count):
            message(cache, runtime={"memory.provider": provider})
        return {name: one.asked - before[name] for name, one in installed.items()}

    assert messages(10, "one") == {"one": 10, "two": 0, "three": 0}
    assert messages(5, "two") == {"one": 0, "two": 5, "three": 0}
    assert len(runtimes.built) == 2


@pytest.mark.requirement("cache-new-provider-no-change")
def test_provider_made_after_the_cache_needs_nothing_from_it() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    message(cache)
    peers = ["ana"]
    brand_new = type(
        "BrandNew",
        (),
        {"name": "brand-new", "cache_busting_signature": lambda self: {"brand-new.peer": peers[0]}},
    )
    runtimes.provider = brand_new
    with_provider = {**RUNTIME, "memory.provider": "brand-new"}
    first = message(cache, runtime=with_provider)
    assert message(cache, runtime=with_provider) is first
    peers[0] = "bob"
    assert message(cache, runtime=with_provider) is not first


def test_edit_during_the_build_is_seen_where_the_first_answer_is_what_was_frozen(path: Path) -> None:
    class Frozen(Filed):
        def cache_busting_signature(self) -> dict[str, Any]:
            current = super().cache_busting_signature()
            return current if self.asked > 1 else self.frozen.signature(self.name)

    def provider() -> Frozen:
        made = Frozen(path)
        if len(runtimes.built) == 0:
            edit(path, IDENTITY | {"peer_name": "anna"})
        return made

    runtimes = Runtimes(provider=provider)
    cache = AgentCache(runtimes.build)
    first, second, third = message(cache), message(cache), message(cache)
    assert (first is second, second is third) == (False, True)
    assert second.memory.external.frozen.peer_name == "anna"


@pytest.mark.requirement("secrets-hidden")
def test_no_runtime_setting_stays_in_the_cache() -> None:
    runtimes = Runtimes(provider=lambda: Says({"says.peer": "marked-peer"}))
    cache = AgentCache(runtimes.build)
    agent = message(cache, user=User("marked-user"))
    assert _reachable(cache, {id(agent), id(runtimes)}, "marked") == []
    assert _reachable(cache, set(), "marked") != []  # the search does find what the agent itself holds


def test_two_caches_have_other_fingerprints_for_the_same_settings() -> None:
    caches = [AgentCache(Runtimes().build) for _ in range(2)]
    for cache in caches:
        message(cache)
    assert len({cache._kept["chat"].made_for for cache in caches}) == 2


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
from strongroom.host import AgentCache, User

class Nothing:
    name = "nothing"
    def cache_busting_signature(self): return {}
class Reads(Nothing):
    def cache_busting_signature(self):
        with open(os.devnull) as file: return {"a": file.read()}
class Agent:
    def __init__(self, memory): self.memory = memory
    def end(self): pass

memory = {"nothing": Nothing, "reads": Reads}[sys.argv[1]]()
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
on = True
for number in range(100): message(number)
on = False
print(len(events))
"""


def _audited(provider: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MESSAGES, provider], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.requirement("cache-no-io-without-provider")
def test_no_file_is_opened_for_a_message_without_a_provider() -> None:
    assert _audited("reads") == 100  # the count can fail
    assert _audited("nothing") == 0


def test_unchanged_settings_file_is_parsed_once(path: Path) -> None:
    cache = AgentCache(Runtimes(provider=lambda: Filed(path)).build)
    for _ in range(50):
        chat = message(cache)
    assert (chat.memory.external.parsed, chat.memory.external.asked) == (1, 50)
