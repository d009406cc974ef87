"""Cached agents: messages that come at the same time. Whoever must wait waits for the same chat, and never for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from strongroom.errors import InvalidRequest
from strongroom.host.cache.agent_cache import AgentCache, User
from tests.host.chats import ANA, RUNTIME, WAIT, Held, Runtimes, Turned, message, passed, reason_of, watched


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made


def test_two_threads_that_would_wait_for_each_other_are_refused_not_hung(pool: ThreadPoolExecutor) -> None:
    cache = AgentCache(Runtimes().build)
    waiting = watched(cache)
    has_b = threading.Event()

    def ask_for_a() -> None:
        has_b.set()
        message(cache, "a")

    with cache.agent("a", runtime=RUNTIME, user=ANA):
        other = pool.submit(message, cache, "b", then=ask_for_a)
        passed(has_b)
        passed(waiting)
        with pytest.raises(InvalidRequest):
            message(cache, "b")
    assert other.result(WAIT).key == "b"


def test_message_that_waits_while_the_cache_is_closed_is_turned_away(pool: ThreadPoolExecutor) -> None:
    runtimes = Runtimes()
    cache = AgentCache(runtimes.build)
    waiting = watched(cache)
    with cache.agent("chat", runtime=RUNTIME, user=ANA):
        other = pool.submit(message, cache)
        passed(waiting)
        assert not cache.close(wait=0)
        assert reason_of(other) == "provider_unavailable"
    assert runtimes.ends == [1]


def test_second_message_of_a_chat_waits_its_turn_in_the_order_of_arrival(pool: ThreadPoolExecutor) -> None:
    cache = AgentCache(Runtimes().build)
    waiting = watched(cache)
    order: list[int] = []
    with cache.agent("chat", runtime=RUNTIME, user=ANA) as agent:
        others = []
        for number in range(5):
            others.append(pool.submit(message, cache, then=lambda number=number: order.append(number)))
            passed(waiting)
        assert order == []
    assert [other.result(WAIT) is agent for other in others] == [True] * 5
    assert order == [0, 1, 2, 3, 4]


def test_slow_build_holds_up_no_other_chat(pool: ThreadPoolExecutor) -> None:
    slow_one = Held("slow")
    runtimes = Runtimes(on_build=slow_one)
    cache = AgentCache(runtimes.build, capacity=1)
    slow = pool.submit(message, cache, "slow")
    passed(slow_one.begun)
    assert message(cache, "b") is message(cache, "b")
    cache.discard("b")
    cache.sweep()
    assert not slow.done()
    slow_one.go.set()
    assert slow.result(WAIT).key == "slow"


@pytest.mark.parametrize("cause", ["sweep", "discard", "rebuild", "capacity"])
def test_slow_end_holds_up_no_other_chat_and_its_own_until_it_is_over(pool: ThreadPoolExecutor, cause: str) -> None:
    slow_one, clock = Held("slow"), Turned()
    runtimes = Runtimes(on_end=slow_one)
    cache = AgentCache(runtimes.build, capacity=2, idle=60, clock=clock)
    waiting = watched(cache)
    old = message(cache, "slow")
    clock.seconds += 60 if cause == "sweep" else 0
    causes: dict[str, Callable[[], object]] = {
        "sweep": cache.sweep,
        "discard": lambda: cache.discard("slow"),
        "rebuild": lambda: message(cache, "slow", user=User("bob")),
        "capacity": lambda: (message(cache, "x"), message(cache, "y")),
    }
    ending = pool.submit(causes[cause])
    passed(slow_one.begun)
    assert message(cache, "b") is message(cache, "b")
    again = pool.submit(message, cache, "slow")
    passed(waiting)
    assert [chat for chat in runtimes.built if chat.key == "slow"] == [old]
    slow_one.go.set()
    ending.result(WAIT)
    assert again.result(WAIT) is not old
    assert old.ends == 1


def test_chat_whose_message_causes_an_end_has_given_its_own_agent_back_before(pool: ThreadPoolExecutor) -> None:
    slow_one = Held("slow")
    runtimes = Runtimes(on_end=slow_one)
    cache = AgentCache(runtimes.build, capacity=1)
    message(cache, "slow")
    first = pool.submit(message, cache, "b")
    passed(slow_one.begun)
    assert message(cache, "b") is runtimes.built[1]
    assert not first.done()
    slow_one.go.set()
    assert first.result(WAIT) is runtimes.built[1]
