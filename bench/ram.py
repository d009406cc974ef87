"""RAM for a shelf of lines of 200 bytes, in fresh processes: by the allocator's count and by resident size."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

from bench import vaults
from bench.lines import lines, of_size
from bench.measure import Goal, Row, Run

_SMALL = "local/small"


def rows(run: Run) -> Iterator[Row]:
    count = run.pick(10_000, 2_000)
    with vaults.make(run.scratch) as vault:
        tokens = [vaults.session_cap(vault), vaults.session_cap(vault, _SMALL)]
        # Two at a time, a turn and its answer: lines of one batch have more in common than memory usually has.
        vaults.fill(vault.memory(tokens[0]), lines(1, count, of_size(1, 200)), at_once=2)
        vaults.fill(vault.memory(tokens[1]), lines(2, 10))
    texts = islice(of_size(1, 200), count)
    (run.scratch / "texts").write_text("\n".join(texts))
    given = json.dumps(tokens)
    for way, what in (("traced", "allocated"), ("resident", "resident")):
        taken: dict[str, list[list[float]]] = {"ours": [], "bare": []}
        for _ in range(run.pick(5, 1) if way == "resident" else 1):
            for side, sizes in taken.items():
                sizes.append(_child(side, way, run.scratch, given))
        ours, bare = (median(size[0] for size in sizes) / count / 1000 for sizes in taken.values())
        name = f"1,000 lines of 200 bytes, {what}"
        yield Row("ram.shelf", name, "MB", ours, bare, "a list of the texts", Goal("ours", 2, 1))
        if way == "traced":
            estimate = taken["ours"][0][1] / count / 1000
            yield Row("ram.estimate", "the shelf's own estimate", "MB", estimate, ours, "what was allocated")


def _child(side: str, way: str, scratch: Path, given: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.ram", side, way, str(scratch)],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    sizes: list[float] = json.loads(done.stdout)
    return sizes


def _grown(way: str, fill: Callable[[], object]) -> float:
    """Bytes by which the process has grown through `fill`, whose result is kept alive meanwhile."""
    if way == "traced":
        tracemalloc.start()
    gc.collect()
    before = _size(way)
    kept = fill()
    gc.collect()
    grown = _size(way) - before
    del kept
    return grown


def _size(way: str) -> float:
    if way == "traced":
        return tracemalloc.get_traced_memory()[0]
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(side: str, way: str, scratch: Path) -> None:
    tokens = json.loads(sys.stdin.read())
    if side == "bare":
        with (scratch / "texts").open() as texts:
            print(json.dumps([_grown(way, lambda: [text.rstrip() for text in texts])]))
        return
    with vaults.reopen(scratch) as vault:
        vault.memory(tokens[1]).get("what was that again")
        _, before = vault._state.shelves.usage()
        grown = _grown(way, lambda: vault.memory(tokens[0]).get("what was that again"))
        _, after = vault._state.shelves.usage()
    print(json.dumps([grown, after - before]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
