"""Cached agents: how many there are, for how long, and that each is ended once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from strongroom.host.cache.agent_cache import AgentCache
from tests.host.chats import ANA, RUNTIME, WAIT, Runtimes, Says, Turned, message, passed, watched


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made


# Bounds


@pytest.mark.requirement("cache-ends-sessions")
def test_least_recently_used_agent_is_ended_beyond_the_capacity() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build, capacity=2)
    a, b = message(cache, "a"), message(cache, "b")
    assert message(cache, "a") is a
    c = message(cache, "c")
    assert (a.ends, b.ends, c.ends, len(cache)) == (0, 1, 0, 2)
    assert message(cache, "a") is a
    assert message(cache, "b") is not b


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
def test_agent_that_was_idle_too_long_is_ended_by_a_sweep_and_by_the_message_of_another_chat() -> None:
    runtimes, clock = Runtimes(), Turned()
    cache = AgentCache(runtimes.build, idle=60, clock=clock)
    a = message(cache, "a")
    clock.seconds += 59
    b = message(cache, "b")
    assert (a.ends, b.ends) == (0, 0)
    clock.seconds += 1
    message(cache, "b")
    assert (a.ends, b.ends) == (1, 0)
    clock.seconds += 60
    cache.sweep()
    assert (a.ends, b.ends, len(cache)) == (1, 1, 0)


def test_agent_that_was_idle_too_long_is_not_used_again_whoever_notices() -> None:
    runtimes, clock = Runtimes(provider=lambda: Says({"a": 1})), Turned()
    cache = AgentCache(runtimes.build, idle=60, clock=clock)
    old = message(cache)
    clock.seconds += 60
    assert message(cache) is not old
    assert (runtimes.ends, old.memory.external.asked) == ([1, 0], 1)


def test_long_turn_does_not_count_as_idle() -> None:
    clock = Turned()
    cache = AgentCache(Runtimes().build, idle=60, clock=clock)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as agent:
        clock.seconds += 600
        cache.sweep()
        assert agent.ends == 0
    assert message(cache) is agent


@pytest.mark.requirement("cache-ends-sessions")
def test_discarded_agent_is_ended_at_once_and_one_in_use_when_it_is_given_back() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    cache.discard("nobody")
    first = message(cache)
    cache.discard("chat")
    assert (first.ends, len(cache)) == (1, 0)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as second:
        cache.discard("chat")
        cache.discard("chat")
        assert second.ends == 0
    assert second.ends == 1
    third = message(cache)
    assert message(cache) is third


def test_agent_that_is_discarded_while_it_is_built_serves_one_message() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    runtimes.on_build = cache.discard
    assert message(cache).ends == 1
    runtimes.on_build = lambda _: None
    assert message(cache) is message(cache)


def test_discard_during_a_build_that_fails_is_over_with_it() -> None:
    def fail(key: str) -> None:
        cache.discard(key)
        raise OSError

    runtimes = Runtimes(on_build=fail)
    cache = AgentCache(runtimes.build)
    with pytest.raises(OSError):
        message(cache)
    runtimes.on_build = lambda _: None
    assert message(cache) is message(cache)


@pytest.mark.requirement("cache-ends-sessions")
def test_close_ends_every_agent_once_and_may_be_called_again() -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    for key in "abc":
        message(cache, key)
    assert cache.close()
    assert cache.close()
    cache.discard("a")
    cache.sweep()
    assert (runtimes.ends, len(cache)) == ([1, 1, 1], 0)


@pytest.mark.requirement("cache-ends-sessions")
def test_close_waits_for_an_agent_in_use_which_its_lease_then_ends(pool: ThreadPoolExecutor) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    waiting = watched(cache)
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as agent:
        closing = pool.submit(cache.close, WAIT)
        passed(waiting)
        assert (agent.ends, closing.done()) == (0, False)
    assert closing.result(WAIT) is True
    assert runtimes.ends == [1]


def test_agent_that_is_given_back_after_close_is_ended_before_its_turn_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    with cache.agent("chat", runtime=RUNTIME, user=ANA):
        cache.close(wait=0)
        monkeypatch.setattr(cache, "sweep", lambda: None)  # else that would make up for it, a moment too late
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


def test_cache_has_no_thread_of_its_own() -> None:
    before = set(threading.enumerate())
    clock = Turned()
    cache = AgentCache(Runtimes().build, capacity=1, idle=60, clock=clock)
    for key in "abcabc":
        message(cache, key)
        clock.seconds += 30
    cache.discard("c")
    cache.close()
    assert set(threading.enumerate()) == before
