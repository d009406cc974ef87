"""Cached agents: any order of events, and many threads at once."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.host.cache.agent_cache import AgentCache, User
from tests.host.chats import ANA, RUNTIME, WAIT, Chat, Runtimes, Says, Turned, message


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made


class Model(RuleBasedStateMachine):
    """One thread, any order of events, against a plain model of which agent each key must have."""

    keys = st.sampled_from("abcdef")
    capacity = 3

    def __init__(self) -> None:
        super().__init__()
        self.clock = Turned()
        self.said = {"a": 0}
        self.runtimes = Runtimes(provider=lambda: self)
        self.cache = AgentCache(self.runtimes.build, capacity=self.capacity, idle=60, clock=self.clock)
        self.leases: dict[str, tuple[ExitStack, Chat]] = {}
        self.free: dict[str, tuple[Chat, User, int, float]] = {}
        self.versions: dict[Chat, int] = {}
        self.unwanted: set[str] = set()
        self.closed = False

    def cache_busting_signature(self) -> dict[str, int]:
        return dict(self.said)

    @precondition(lambda self: not self.closed)
    @rule(key=keys, user=st.sampled_from([ANA, User("bob")]))
    def lease(self, key: str, user: User) -> None:
        if key in self.leases:
            with pytest.raises(InvalidRequest):
                message(self.cache, key, user=user)
            return
        stack = ExitStack()
        agent = stack.enter_context(self.cache.agent(key, runtime=RUNTIME, user=user))
        before = self.free.pop(key, None)
        if before is not None:
            fits = before[1:3] == (user, self.said["a"]) and self.clock.seconds - before[3] < 60
            assert (agent is before[0]) == fits
            assert before[0].ends == (0 if fits else 1)
        self.versions.setdefault(agent, self.said["a"])
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
            self.free[key] = (agent, agent.user, self.versions[agent], self.clock.seconds)
        self.unwanted.discard(key)
        self._expire()

    @rule()
    def edit(self) -> None:
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
def test_agents_are_ended_once_and_bounded_under_any_schedule(seed: int, pool: ThreadPoolExecutor) -> None:
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
