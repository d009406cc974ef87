"""Run the benchmarks and print them as a table."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import apsw

from bench import caps, following, fresh, gate, get, log, put, ram, sealing
from bench.measure import Goal, Row, Run, table

BENCHMARKS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "gate": gate.rows,
    "cap": caps.rows,
    "seal": sealing.rows,
    "log": log.rows,
    "put.one": put.one_client,
    "put.split": put.split,
    "put.threads": put.threads,
    "get.1k": get.of(1_000),
    "get.10k": get.of(10_000, Goal("ours", 6, 2)),
    "get.100k": get.of(100_000, Goal("ours", 60, 15)),
    "first": fresh.rows,
    "ram": ram.rows,
    "follow": following.rows,
}
_SLOW = {"get.100k"}
_SCRATCH = Path(__file__).parent / "out"


def main() -> None:
    options = _options()
    chosen: Sequence[str] = options.rows
    if not options.rows and options.quick:
        chosen = [name for name in BENCHMARKS if name not in _SLOW]
    names = [name for name in BENCHMARKS if not chosen or any(_meant(name, one) for one in chosen)]
    if not names:
        sys.exit(f"bench: no row is called so; there are {', '.join(BENCHMARKS)}")
    rows = [row for name in names for row in _measured(name, options) if not chosen or _named(row, chosen)]
    versions = {"Python": platform.python_version(), "SQLite": apsw.sqlite_lib_version()}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(table(rows))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, each figure beside its baseline.")
    parser.add_argument("rows", nargs="*", help="rows or groups of rows, such as put or get.10k; all unless told")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller counts, without get.100k")
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file, too")
    parser.add_argument("--dir", metavar="DIR", type=Path, default=_SCRATCH, help="a directory on the disk to measure")
    return parser.parse_args()


def _measured(name: str, options: argparse.Namespace) -> list[Row]:
    print(f"bench: {name}", file=sys.stderr)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        return list(BENCHMARKS[name](Run(Path(scratch), options.quick)))


def _meant(benchmark: str, chosen: str) -> bool:
    """Whether a choice means a benchmark, a group of them, or one row of it."""
    return f"{benchmark}.".startswith(f"{chosen}.") or f"{chosen}.".startswith(f"{benchmark}.")


def _named(row: Row, chosen: Sequence[str]) -> bool:
    return any(f"{row.name}.".startswith(f"{one}.") for one in chosen)


if __name__ == "__main__":
    main()
