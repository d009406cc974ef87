"""Put: one client against a bare transaction, 32 threads against bare group commit, and where its CPU goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from statistics import median, quantiles
from unittest.mock import patch

from bench import vaults
from bench.bare import BareLog, Sizes, copied
from bench.lines import lines, of_size
from bench.measure import Goal, Row, Run, Work, in_turns
from strongroom import Memory, Vault
from strongroom.crypto import line_encryption
from strongroom.memory import decision_recorder
from strongroom.memory.ops import put

_THREADS = 32


@dataclass(frozen=True, slots=True)
class _Ours:
    """A vault, one cap's memory in it, and the lines to put next."""

    vault: Vault
    memory: Memory
    texts: Iterator[str]

    def put(self) -> None:
        self.memory.put(next(self.texts), session="chat-1", author="user", kind="turn")


@contextmanager
def _sides(run: Run, count: int) -> Iterator[tuple[_Ours, BareLog]]:
    with vaults.make(run.scratch) as vault:
        memory = vault.memory(vaults.session_cap(vault))
        vaults.fill(memory, lines(1, 1000))
        # Made beforehand: making them must not count.
        ours = _Ours(vault, memory, iter(list(islice(of_size(2, 200), count))))
        ours.put()
        file = copied(run.scratch / "vault", run.scratch / "bare")
        bare = BareLog(file, Sizes.of_last_put(file))
        yield ours, bare
        bare.close()


def one_client(run: Run) -> Iterator[Row]:
    repeats, calls = run.pick(150, 30), 8
    with _sides(run, repeats * calls + 2) as (vault, log):
        # Small turns, because the time that a flush takes drifts.
        ours, bare = in_turns((vault.put, log.put), repeats=repeats, calls=calls)
    beside = "a transaction writing the same rows"
    goal = Goal("ratio", 1.5, 1.15)
    yield Row("put.one", "put, one client", "us wall", ours.wall * 1e6, bare.wall * 1e6, beside, goal)
    yield Row("put.one", "put, one client", "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)


def slowest(run: Run) -> Iterator[Row]:
    """Puts into a shelf of 10,000 lines that is in RAM, whose index takes in what is new: the slowest, and the median.

    A stall is a put that takes five times the median.
    """
    size, count = run.pick(10_000, 1_000), run.pick(4_000, 400)
    with vaults.make(run.scratch) as vault:
        memory = vault.memory(vaults.session_cap(vault))
        vaults.fill(memory, lines(1, size))
        memory.get("boat")
        ours = _Ours(vault, memory, iter(list(islice(of_size(2, 200), count))))
        clocks = [_seconds(ours.put) for _ in range(count)]
    times, works = zip(*clocks, strict=True)
    middle = median(times)
    stalls = sum(one > 5 * middle for one in times)
    what = f"put, {size:,} lines in RAM"
    yield Row("put.p99", what, "us p99", quantiles(times, n=100)[98] * 1e6, middle * 1e6, "the median")
    yield Row("put.p99", what, "us cpu p99", quantiles(works, n=100)[98] * 1e6, median(works) * 1e6, "the median")
    yield Row("put.p99", what, "stalls", stalls, count, "all puts")


def _seconds(work: Work) -> tuple[float, float]:
    """By the clock, and of this thread's CPU, which waits for neither disk nor neighbours."""
    start, before = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - start, time.thread_time() - before


def threads(run: Run) -> Iterator[Row]:
    repeats, each = run.pick(25, 5), run.pick(20, 10)
    count = _THREADS * each

    def some(work: Work) -> None:
        for _ in range(each):
            work()

    with _sides(run, (repeats + 1) * count + 1) as (vault, log), ThreadPoolExecutor(_THREADS) as pool:

        def everybody(work: Work) -> None:
            list(pool.map(some, [work] * _THREADS))

        ours, bare = in_turns((lambda: everybody(vault.put), lambda: everybody(log.put_grouped)), repeats=repeats)
    what = f"put, {_THREADS} threads"
    beside = "group commit writing the same rows"
    goal = Goal("share", 0.45, 0.70)
    yield Row("put.threads", what, "lines/s", count / ours.wall, count / bare.wall, beside, goal)
    yield Row("put.threads", what, "us cpu", ours.cpu / count * 1e6, bare.cpu / count * 1e6, beside)


class _Stopwatch:
    """Adds up the CPU time spent inside a function, wherever it is called from."""

    def __init__(self, work: Callable[..., object]) -> None:
        self._work = work
        self.seconds = 0.0

    def __call__(self, *values: object, **named: object) -> object:
        start = time.thread_time()
        try:
            return self._work(*values, **named)
        finally:
            self.seconds += time.thread_time() - start


def split(run: Run) -> Iterator[Row]:
    """Where the CPU of one put goes. Every watched part pays for its own watching, about a microsecond."""
    count = run.pick(600, 150)
    watches: dict[str, _Stopwatch] = {}
    with _sides(run, count + 1) as (ours, _), ExitStack() as stack:
        clerk = ours.vault._clerk
        for name, owner, attribute in (
            ("catch up", clerk.state, "catch_up"),
            ("gate", clerk.state.gate, "admit"),
            ("line", put, "_drafts"),
            ("seal", line_encryption, "seal_line"),
            ("marks", clerk, "entries"),
            ("entry", decision_recorder, "pending"),
            ("store", clerk.state.store, "commit"),
            ("shelf", clerk.state, "committed"),
        ):
            watches[name] = _Stopwatch(getattr(owner, attribute))
            stack.enter_context(patch.object(owner, attribute, watches[name]))
        start = time.thread_time()
        for _ in range(count):
            ours.put()
        whole = (time.thread_time() - start) / count * 1e6
    spent = {name: watch.seconds / count * 1e6 for name, watch in watches.items()}
    spent["entry"] += spent.pop("marks")
    spent["rest"] = whole - sum(spent.values())
    for name, cost in spent.items():
        yield Row("put.split", f"of one put: {name}", "us cpu", cost, whole, "the whole put")
