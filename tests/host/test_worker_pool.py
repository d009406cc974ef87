"""Shared threads and lanes: bounded, in order, and nothing that hangs or raises takes them away from others."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar

import pytest

from strongroom.host.worker_pool import Lane, Workers
from tests.host.doubles import PATIENCE

SPEAKER: ContextVar[str] = ContextVar("speaker", default="nobody")


@pytest.mark.requirement("host-threads-bounded")
def test_no_more_threads_are_made_than_allowed() -> None:
    workers, release = Workers("few", 3), threading.Event()
    futures = [workers.call(lambda: release.wait(PATIENCE)) for _ in range(50)]
    assert workers.threads == 3
    release.set()
    assert all(future.result(PATIENCE) for future in futures)
    assert workers.threads == 3
    workers.close()


def test_threads_are_made_only_when_none_is_idle() -> None:
    workers = Workers("lazy", 8)
    assert workers.threads == 0
    for _ in range(20):
        workers.call(lambda: None).result(PATIENCE)
        _until_idle(workers)
    assert workers.threads == 1
    workers.close()


def test_threads_are_daemons_so_that_a_hung_one_cannot_hold_up_the_exit() -> None:
    workers = Workers("daemons", 1)
    assert workers.call(lambda: threading.current_thread().daemon).result(PATIENCE)
    workers.close()


@pytest.mark.requirement("host-threads-bounded")
def test_thread_that_is_held_for_long_is_replaced_up_to_a_bound() -> None:
    workers, release = Workers("held", 2, spare=3, held=0.001), threading.Event()
    held = [_holding(workers, release) for _ in range(5)]
    assert workers.threads == 5
    waiting = [workers.call(lambda: 7) for _ in range(20)]
    workers.relieve()
    assert workers.threads == 5
    assert not any(future.done() for future in waiting)
    release.set()
    assert [future.result(PATIENCE) for future in waiting] == [7] * 20
    assert all(future.result(PATIENCE) for future in held)
    workers.close()


def _holding(workers: Workers, release: threading.Event) -> Future[bool]:
    """A call that holds a thread, which it has had for long when this returns."""
    started = threading.Event()

    def hold() -> bool:
        started.set()
        return release.wait(PATIENCE)

    future = workers.call(hold)
    while not started.wait(0.01):
        workers.relieve()
    return future


def test_threads_that_are_busy_for_a_moment_are_not_replaced() -> None:
    workers, release = Workers("busy", 2, spare=3, held=PATIENCE), threading.Event()
    futures = [workers.call(lambda: release.wait(PATIENCE)) for _ in range(10)]
    workers.relieve()
    assert workers.threads == 2
    release.set()
    assert all(future.result(PATIENCE) for future in futures)
    workers.close()


@pytest.mark.requirement("host-faults-isolated")
def test_work_that_waits_behind_held_threads_gets_one_without_further_calls() -> None:
    workers, release = Workers("quiet", 1, spare=1, held=0.05), threading.Event()
    stuck, other = Lane(workers), Lane(workers)
    stuck.submit(lambda: release.wait(PATIENCE))
    other.submit(lambda: None)
    drained = other.drained(2)
    release.set()
    assert drained
    workers.close()


def test_function_runs_with_the_context_of_its_caller() -> None:
    workers = Workers("context", 1)
    token = SPEAKER.set("alice")
    try:
        future = workers.call(SPEAKER.get)
    finally:
        SPEAKER.reset(token)
    assert future.result(PATIENCE) == "alice"
    assert workers.call(SPEAKER.get).result(PATIENCE) == "nobody"
    workers.close()


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, CancelledError])
def test_error_of_a_function_belongs_to_the_waiter_and_the_thread_lives_on(error: type[BaseException]) -> None:
    workers = Workers("raising", 1)

    def fail() -> None:
        raise error("no")

    assert isinstance(workers.call(fail).exception(PATIENCE), error)
    assert workers.call(lambda: 7).result(PATIENCE) == 7
    workers.close()


def test_call_that_was_cancelled_before_its_turn_never_runs() -> None:
    workers, release, ran = Workers("one", 1), threading.Event(), threading.Event()
    holding = workers.call(lambda: release.wait(PATIENCE))
    waiting = workers.call(ran.set)
    assert waiting.cancel()
    release.set()
    assert holding.result(PATIENCE)
    workers.call(lambda: None).result(PATIENCE)
    assert not ran.is_set()
    workers.close()


def test_call_after_close_is_cancelled_at_once() -> None:
    workers = Workers("closed", 1)
    workers.close()
    assert workers.call(lambda: 1).done()


def test_calls_that_wait_are_cancelled_by_close() -> None:
    workers, release, started = Workers("closing", 1), threading.Event(), threading.Event()

    def hold() -> bool:
        started.set()
        return release.wait(PATIENCE)

    holding = workers.call(hold)
    assert started.wait(PATIENCE)
    waiting = workers.call(lambda: 1)
    workers.close()
    assert waiting.done()
    release.set()
    assert holding.result(PATIENCE)


def test_thread_that_is_done_leaves_after_close() -> None:
    workers, release, started = Workers("leaving", 2), threading.Event(), threading.Event()

    def hold() -> threading.Thread:
        started.set()
        release.wait(PATIENCE)
        return threading.current_thread()

    holding = workers.call(hold)
    assert started.wait(PATIENCE)
    workers.close()
    release.set()
    holding.result(PATIENCE).join(PATIENCE)
    assert workers.threads == 0


def test_thread_that_cannot_be_started_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers("none", 2)

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        future = workers.call(lambda: 1)
    assert workers.threads == 0
    assert future.cancelled() or workers.call(lambda: 2).result(PATIENCE) == 2
    workers.close()


# Lanes


def test_lane_keeps_its_order_on_many_threads() -> None:
    workers = Workers("many", 8)
    lanes = [Lane(workers) for _ in range(50)]
    done: list[list[int]] = [[] for _ in lanes]
    for number in range(40):
        for lane, list_ in zip(lanes, done, strict=True):
            lane.submit(lambda list_=list_, number=number: list_.append(number))  # type: ignore[misc]
    assert all(lane.drained(PATIENCE) for lane in lanes)
    assert done == [list(range(40))] * 50
    workers.close()


def test_tasks_of_one_lane_never_overlap() -> None:
    workers, lane_inside, overlapped = Workers("many", 8), threading.Lock(), threading.Event()
    lane = Lane(workers)

    def task() -> None:
        if not lane_inside.acquire(blocking=False):
            overlapped.set()
            return
        lane_inside.release()

    threads = [threading.Thread(target=lambda: [lane.submit(task) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert lane.drained(PATIENCE)
    assert not overlapped.is_set()
    workers.close()


def test_busy_lane_does_not_hold_up_another_on_the_same_thread() -> None:
    workers, order = Workers("one", 1), list[str]()
    gate = threading.Event()
    first, second = Lane(workers), Lane(workers)
    first.submit(lambda: gate.wait(PATIENCE))
    for number in range(3):
        first.submit(lambda number=number: order.append(f"first {number}"))  # type: ignore[misc]
    second.submit(lambda: order.append("second"))
    gate.set()
    assert first.drained(PATIENCE)
    assert second.drained(PATIENCE)
    assert order.index("second") < order.index("first 2")
    workers.close()


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("error", [ValueError, SystemExit, OSError])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_lane_survives_a_task_that_raises(error: type[BaseException]) -> None:
    workers, ran = Workers("raising", 1), threading.Event()
    lane = Lane(workers)

    def fail() -> None:
        raise error("no")

    lane.submit(fail)
    lane.submit(ran.set)
    assert lane.drained(1)
    assert ran.is_set()
    assert workers.threads <= 1
    workers.close()


def test_lane_takes_the_context_of_who_submits() -> None:
    workers, heard = Workers("context", 1), list[str]()
    lane = Lane(workers)
    for name in ("alice", "bob"):
        token = SPEAKER.set(name)
        lane.submit(lambda: heard.append(SPEAKER.get()))
        SPEAKER.reset(token)
    assert lane.drained(PATIENCE)
    assert heard == ["alice", "bob"]
    workers.close()


def test_closed_lane_drops_what_has_not_begun_and_says_how_much() -> None:
    workers, release, started, ran = Workers("one", 1), threading.Event(), threading.Event(), threading.Event()
    lane = Lane(workers)

    def hold() -> None:
        started.set()
        release.wait(PATIENCE)

    lane.submit(hold)
    lane.submit(ran.set)
    lane.submit(ran.set)
    assert started.wait(PATIENCE)
    assert len(lane) == 3
    assert lane.close() == 2
    assert not lane.submit(ran.set)
    release.set()
    assert lane.drained(PATIENCE)
    assert not ran.is_set()
    workers.close()


def test_lane_on_threads_that_are_gone_is_not_busy_for_ever() -> None:
    workers = Workers("gone", 1)
    lane = Lane(workers)
    workers.close()
    lane.submit(lambda: None)
    assert lane.drained(0.01)


def test_lane_that_does_not_finish_in_time_says_so() -> None:
    workers, release = Workers("one", 1), threading.Event()
    lane = Lane(workers)
    assert lane.drained(0.01)
    lane.submit(lambda: release.wait(PATIENCE))
    assert not lane.drained(0.01)
    release.set()
    assert lane.drained(PATIENCE)
    workers.close()


def _until_idle(workers: Workers) -> None:
    """Until the thread that has answered waits for the next task."""
    while True:
        with workers._guard:
            if workers._idle:
                return
