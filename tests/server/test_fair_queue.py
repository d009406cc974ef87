"""The queue of slow work: no cap and no actor gets every thread, and caps take turns."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from strongroom.server.fair_queue import FairQueue

pytestmark = pytest.mark.requirement("server-fair")


@dataclass(eq=False)
class Work:
    cap: str
    actor: str = ""
    name: str = ""


def _taken(queue: FairQueue[Work], count: int) -> list[Work]:
    found = [queue.take() for _ in range(count)]
    return [work for work in found if work is not None]


def _is_idle(queue: FairQueue[Work]) -> bool:
    """Whether a thread that asks now would have to wait."""
    return queue._next() is None


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_cap_never_has_work_on_every_thread(threads: int) -> None:
    queue: FairQueue[Work] = FairQueue(threads)
    for _ in range(20):
        queue.put(Work("greedy"))
    _taken(queue, threads - 1)
    assert _is_idle(queue)
    queue.put(Work("other"))
    assert [work.cap for work in _taken(queue, 1)] == ["other"]


def test_actor_with_many_caps_never_has_work_on_every_thread() -> None:
    queue: FairQueue[Work] = FairQueue(3)
    for number in range(9):
        queue.put(Work(f"cap {number}", "greedy"))
    _taken(queue, 2)
    assert _is_idle(queue)
    queue.put(Work("another cap", "other"))
    assert [work.actor for work in _taken(queue, 1)] == ["other"]


def test_cap_and_an_actor_of_one_name_are_not_the_same() -> None:
    queue: FairQueue[Work] = FairQueue(2)
    queue.put(Work("same", "one"))
    queue.put(Work("other", "same"))
    assert len(_taken(queue, 2)) == 2


def test_caps_take_turns_whatever_each_of_them_waits_for() -> None:
    queue: FairQueue[Work] = FairQueue(2)
    for name in "abc":
        queue.put(Work("many", name=name))
    queue.put(Work("few", name="x"))
    order = []
    for _ in range(4):
        (work,) = _taken(queue, 1)
        order.append(work.name)
        queue.finished(work)
    assert order == ["a", "x", "b", "c"]


def test_cap_with_the_fewest_threads_goes_first() -> None:
    queue: FairQueue[Work] = FairQueue(4)
    for _ in range(4):
        queue.put(Work("many"))
    _taken(queue, 2)
    queue.put(Work("few"))
    assert [work.cap for work in _taken(queue, 1)] == ["few"]


def test_actor_that_becomes_known_meanwhile_frees_what_was_counted_before() -> None:
    queue: FairQueue[Work] = FairQueue(2)
    work = Work("one")
    queue.put(work)
    _taken(queue, 1)
    work.actor = "alice"
    queue.finished(work)
    assert not queue._at_work
    queue.put(work)
    assert _taken(queue, 1) == [work]


def test_work_of_others_is_awaited_and_work_of_ones_own_is_not() -> None:
    queue: FairQueue[Work] = FairQueue(2)
    queue.put(work := Work("one"))
    _taken(queue, 1)
    queue.put(Work("one"))
    assert not queue.is_awaited(work)
    queue.put(Work("other"))
    assert queue.is_awaited(work)


def test_one_thread_serves_everybody() -> None:
    queue: FairQueue[Work] = FairQueue(1)
    queue.put(Work("one"))
    assert len(_taken(queue, 1)) == 1


def test_close_lets_threads_that_wait_end_and_hands_out_nothing_more() -> None:
    queue: FairQueue[Work] = FairQueue(2)
    found: list[Work | None] = []
    threads = [threading.Thread(target=lambda: found.append(queue.take())) for _ in range(2)]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(60)
    queue.put(Work("late"))
    assert [*found, queue.take()] == [None, None, None]
