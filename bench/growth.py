"""How work grows with what it touches: each operation at several sizes, with its exponent by CPU time.

The exponent is the slope through the points on a log-log scale: 1 is linear, 2 quadratic. `bare` is linear work, and
the points themselves stand in the row.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import log
from pathlib import Path
from statistics import linear_regression
from time import perf_counter, process_time

from bench import vaults
from bench.lines import lines
from bench.measure import Goal, Row, Run
from strongroom import Memory, NewLine, Token, Vault, attenuate
from strongroom.archive.export_import import export_lines
from strongroom.model import LIST_LIMIT, Millis

_LINEAR = Goal("ours", 1.3, 1.1)
_OPS = ["put", "get", "list", "snapshot", "forget", "erase"]
_LINES, _QUICK_LINES = (5_000, 10_000, 20_000, 40_000), (300, 600, 1_200, 2_400)
_ACTORS, _QUICK_ACTORS = (1_000, 2_500, 5_000, 20_000), (25, 50, 100, 200)
_THREADS = 16

Work = Callable[[Vault, Memory], object]
Points = dict[str, list[tuple[int, float]]]


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of the line through (size, seconds) on a log-log scale."""
    sizes, times = zip(*points, strict=True)
    return linear_regression([log(size) for size in sizes], [log(max(time, 1e-9)) for time in times]).slope


def rows(run: Run) -> Iterator[Row]:
    """Operations over the lines of one actor, over the actors of a vault, and a rotation that is contended for."""
    yield from _shown(_over_lines(run), "lines")
    yield from _shown(_over_actors(run), "actors")
    yield from _contended(run)


def _shown(points: Points, what: str) -> Iterator[Row]:
    for name, found in points.items():
        sizes = "/".join(f"{size:,}" for size, _ in found)
        times = "/".join(f"{time * 1e3:.3g}" for _, time in found)
        yield Row(
            f"growth.{name}", f"{sizes} {what}: {times} ms", "exponent", exponent(found), 1, "linear work", _LINEAR
        )


def _cpu(work: Callable[..., object], *subjects: object) -> float:
    start = process_time()
    work(*subjects)
    return process_time() - start


# Lines.


def _list(_: Vault, memory: Memory) -> None:
    after: str | None = None
    while True:
        listing = memory.list(limit=LIST_LIMIT, after=after)
        after = listing.next
        if after is None:
            return


def _names(vault: Vault, _: Memory) -> None:
    after = ""
    while page := vault.store.names("actors/", after):
        after = page[-1].name


def _changes(vault: Vault, _: Memory) -> None:
    after = 0
    while page := vault.store.changes(after):
        after = page[-1].version


_BY_LINES: dict[str, Work] = {
    "names": _names,
    "changes": _changes,
    "list": _list,
    "export": lambda vault, memory: export_lines(memory, vault=vault.id, actor=vaults.ACTOR, now=Millis(0)),
    "verify": lambda vault, _: vault.audit.verify(),
    "forget": lambda _, memory: memory.forget(namespaces=["work"]),
    "erase": lambda vault, _: vault.erase(vaults.ACTOR),
}


def _over_lines(run: Run) -> Points:
    points: Points = {name: [] for name in _BY_LINES}
    for size in _QUICK_LINES if run.quick else _LINES:
        with vaults.make(run.scratch / str(size)) as vault:
            memory = vault.memory(_cap(vault, vaults.ACTOR))
            half = size // 2
            vaults.fill(memory, (_into(line, "work") for line in lines(1, half)))
            vaults.fill(memory, (_into(line, "travel") for line in lines(2, size - half)))
            memory.list(limit=1)  # the shelf is loaded
            for name, work in _BY_LINES.items():
                points[name].append((size, _cpu(work, vault, memory)))
    return points


def _into(line: NewLine, namespace: str) -> NewLine:
    return NewLine(text=line.text, author=line.author, session=line.session, namespace=namespace)


def _cap(vault: Vault, actor: str) -> Token:
    return vault.mint(actor=actor, ops=_OPS, namespaces=vault.namespaces, ttl=vaults.DAY)


# Actors.


_BY_ACTORS: dict[str, Callable[[Vault], object]] = {
    "actors": lambda vault: list(vault.actors()),
    "caps": lambda vault: list(vault.caps()),
    "rotate": lambda vault: vault.rotate_root(),
    "verify-actors": lambda vault: vault.audit.verify(),
    "erase-actor": lambda vault: vault.erase("growth/0"),
}


def _over_actors(run: Run) -> Points:
    points: Points = {name: [] for name in _BY_ACTORS}
    with vaults.make(run.scratch / "actors") as vault:
        there = 0
        for size in _QUICK_ACTORS if run.quick else _ACTORS:
            _add(vault, range(there, size))
            there = size
            for name, work in _BY_ACTORS.items():
                points[name].append((size, _cpu(work, vault)))
            _add(vault, range(1))  # the one that was erased
    return points


def _add(vault: Vault, numbers: range) -> None:
    """New actors with a cap and a line each, from several threads at once: their commits share transactions."""

    def put(number: int) -> None:
        actor = f"growth/{number}"
        vault.memory(attenuate(_cap(vault, actor), ops=["put"])).put(f"line {number}", namespace="work")

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(put, numbers))


# A holder in the way.


_HOLDER = """
import sys, threading
import strongroom
from strongroom import FileKeys

place, keys, token = sys.argv[1:]
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
with strongroom.open(place, keys=FileKeys(keys)) as vault:
    memory, count = vault.memory(token), 0
    while not over.is_set():
        memory.put("in the way", namespace="travel")
        memory.erase(["travel"])
        count += 2
        if count == 2:
            print("ready", flush=True)
print(count, flush=True)
"""


@contextmanager
def _holder(place: Path, token: Token, done: list[int]) -> Iterator[None]:
    """A process that puts and erases without pause; `done` gets how often."""
    command = [sys.executable, "-c", _HOLDER, str(place / "vault"), str(place / "keys"), token]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            child.stdin.close()
            done.append(int(child.stdout.readline()))


def _contended(run: Run) -> Iterator[Row]:
    size, done = run.pick(5_000, 100), list[int]()
    with vaults.make(run.scratch / "contended") as vault:
        _add(vault, range(size))
        token = vault.mint(actor="growth/1", ops=["put", "erase"], namespaces=["travel"], ttl=vaults.DAY)
        alone = _wall(vault.rotate_root)
        with _holder(run.scratch / "contended", token, done):
            contended = _wall(vault.rotate_root)
        assert len(set(vault._state.source.load().keys)) == 1
    what = f"rotate {size:,} actors beside a holder that put and erased {done[0]:,} times"
    yield Row("growth.contended", what, "s wall", contended, alone, "the same alone")


def _wall(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
