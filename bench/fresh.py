"""The first get of a fresh process, from `open` to the answer. Runs itself as the process that is measured.

Once with the index snapshot that an earlier process left, and once on a vault that nobody has asked before, where the
snapshot is made on the way. Beside it, a fresh process that opens an FTS5 file of the same lines and asks it the same
question: that index lies on the disk in clear. Imports are not in the figure; they have a row of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from bench.measure import Goal, Row, Run

_QUESTION = "What did Alice say about the first printer in the kitchen?"
_FTS5 = "fts5.db"
_OURS, _BARE, _COMPILE = "ours", "fts5", "compile"
Costs = dict[str, float]
Close = Callable[[], object]
First = Callable[[], Close]
"""Opens and asks; what it returns closes again and keeps everything in memory until then."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What the first get should take, with an index snapshot and without one."""

    kept: Goal
    anew: Goal


def of(count: int, repeats: int, goals: Goals | None = None) -> Callable[[Run], Iterator[Row]]:
    """The benchmark of a vault of `count` lines."""
    name = f"first.{count // 1000}k"

    def rows(run: Run) -> Iterator[Row]:
        token = _prepare(run.scratch, count)
        _child(_COMPILE, run.scratch, token)
        anew = _median([_anew(run.scratch, token) for _ in range(run.pick(max(repeats // 3, 1), 1))])
        _child(_OURS, run.scratch, token)  # leaves the snapshot
        taken: dict[str, list[Costs]] = {_OURS: [], _BARE: []}
        for _ in range(run.pick(repeats, 1)):
            for side, costs in taken.items():
                costs.append(_child(side, run.scratch, token))
        kept, bare = map(_median, taken.values())
        beside = "open an FTS5 file, the same question"
        for how, ours, goal in (
            ("snapshot", kept, None if goals is None else goals.kept),
            ("no snapshot", anew, None if goals is None else goals.anew),
        ):
            what = f"first get, {count:,} lines, {how}"
            yield Row(name, what, "ms wall", ours["wall"] * 1e3, bare["wall"] * 1e3, beside, goal)
            yield Row(name, what, "ms cpu", ours["cpu"] * 1e3, bare["cpu"] * 1e3, beside)
        size, what = (run.scratch / _FTS5).stat().st_size, f"resident through it, {count:,} lines"
        yield Row(name, what, "MB", kept["grown"] / 1e6, size / 1e6, "the size of the FTS5 file")
        yield Row(name, "import strongroom", "ms cpu", kept["import"] * 1e3, bare["import"] * 1e3, "import apsw")

    return rows


def _median(taken: Sequence[Costs]) -> Costs:
    return {key: median(costs[key] for costs in taken) for key in taken[0]}


def _prepare(scratch: Path, count: int) -> str:
    """A vault and an FTS5 file of the same lines."""
    from bench import vaults
    from bench.get import full_text_of
    from bench.lines import lines
    from bench.peers import FullText

    known = list(lines(1, count))
    with vaults.make(scratch) as vault:
        token = vaults.session_cap(vault)
        vaults.fill(vault.memory(token), known)
    FullText.of(full_text_of(known), scratch / _FTS5).close()
    return token


def _anew(scratch: Path, token: str) -> Costs:
    """The first get of all, on a copy of the vault that is thrown away afterwards."""
    with TemporaryDirectory(dir=scratch) as copy:
        for part in ("vault", "keys"):
            shutil.copytree(scratch / part, Path(copy) / part)
        return _child(_OURS, Path(copy), token, compiled=scratch)


def _child(side: str, scratch: Path, token: str, compiled: Path | None = None) -> Costs:
    # Compiled modules are kept, as an installed package keeps them, whatever this environment says.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str((compiled or scratch) / "compiled")
    done = subprocess.run(
        [sys.executable, "-m", "bench.fresh", side, str(scratch)],
        env=environment,
        input=token,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    costs: Costs = json.loads(done.stdout)
    return costs


def _open_ours(scratch: Path, token: str) -> First:
    from bench import vaults

    def first() -> Close:
        vault = vaults.reopen(scratch)
        vault.memory(token).get(_QUESTION)
        return vault.close

    return first


def _open_fts5(scratch: Path, token: str) -> First:  # noqa: ARG001
    from bench.peers import FullText

    def first() -> Close:
        table = FullText(scratch / _FTS5)
        table.read(_QUESTION, 5)
        return table.close

    return first


def _compile(scratch: Path, token: str) -> First:  # noqa: ARG001
    """Only has the modules compiled, as they are once a package is installed."""
    from bench import vaults  # noqa: F401
    from strongroom import engines

    engines.load(engines.DEFAULT)
    return lambda: lambda: None


_SIDES = {_OURS: _open_ours, _BARE: _open_fts5, _COMPILE: _compile}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(side: str, scratch: Path) -> None:
    token = sys.stdin.read()
    started = process_time()
    work = _SIDES[side](scratch, token)
    imported = process_time() - started
    before = _resident()
    wall, cpu = perf_counter(), process_time()
    close = work()
    costs = {"cpu": process_time() - cpu, "wall": perf_counter() - wall, "import": imported}
    costs["grown"] = _resident() - before
    close()
    print(json.dumps(costs))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
