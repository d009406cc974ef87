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

from bench import (
    calibration,
    caps,
    fair,
    following,
    fresh,
    gate,
    get,
    growth,
    hermes,
    hermes_talk,
    host,
    lives,
    log,
    put,
    ram,
    recall,
    recall_forms,
    s3,
    scores,
    sealing,
    served,
    silence,
)
from bench.calibration import Bin
from bench.measure import Goal, Row, Run, table
from bench.scores import Score

BENCHMARKS: dict[str, Callable[[Run], Iterator[Row | Score | Bin]]] = {
    "gate": gate.rows,
    "cap": caps.rows,
    "seal": sealing.rows,
    "log": log.rows,
    "put.one": put.one_client,
    "put.split": put.split,
    "put.p99": put.slowest,
    "put.threads": put.threads,
    "get.10": get.of(10),
    "get.1k": get.of(1_000),
    "get.10k": get.of(10_000, Goal("ours", 6, 2)),
    "get.100k": get.of(100_000, Goal("ours", 60, 15)),
    "first.1k": fresh.of(1_000, 7),
    "first.10k": fresh.of(10_000, 7, fresh.Goals(Goal("ours", 300, 100), Goal("ours", 1200, 100))),
    "first.100k": fresh.of(100_000, 3),
    "recall.locomo": recall.locomo,
    "recall.longmemeval": recall.longmemeval,
    "recall.longmemeval_fit": recall.longmemeval_fit,
    "recall.friends": recall.friends,
    "recall.beam": recall.beam,
    "recall.cjk": recall.cjk,
    "recall.identifiers": recall.identifiers,
    "recall.time": recall.time,
    "recall.changed": recall_forms.changed,
    "recall.changed_b": recall_forms.changed_b,
    "recall.standing": recall_forms.standing,
    "recall.standing_b": recall_forms.standing_b,
    "recall.languages": recall_forms.languages,
    "recall.silence": silence.rows,
    "recall.calibration": calibration.rows,
    "lives": lives.rows,
    "ram": ram.rows,
    "follow": following.rows,
    "growth": growth.rows,
    "serve.get": served.get,
    "serve.put": served.put,
    "serve.mcp": served.mcp,
    "serve.ram": served.ram,
    "fair": fair.rows,
    "s3.put": s3.put,
    "s3.get": s3.get,
    "s3.threads": s3.threads,
    "s3.cold": s3.cold,
    "s3.requests": s3.requests,
    "s3.done": s3.done,
    "s3.loose": s3.loose,
    "s3.forgets": s3.forgets,
    "s3.growth": s3.growth,
    "host.turn": host.turn,
    "host.sync": host.sync,
    "host.prefetch": host.prefetch,
    "host.chats": host.chats,
    "host.cache": host.cache,
    "hermes.beside": hermes.beside,
    "hermes.size": hermes.size,
    "hermes.http": hermes.http,
    "hermes.first": hermes.first,
    "hermes.hostile": hermes.hostile,
    "hermes.talk": hermes_talk.rows,
}
_SLOW = {"get.100k", "first.100k"}
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
    _show(rows, misses=options.misses)
    if options.json:
        Path(options.json).write_text(json.dumps(list(map(_as_json, rows)), indent=1))


def _show(rows: Sequence[Row | Score | Bin], *, misses: bool) -> None:
    costs = [row for row in rows if isinstance(row, Row)]
    found = [row for row in rows if isinstance(row, Score)]
    parts = [table(costs)] if costs else []
    for title, detail in (("recall, in percent", False), ("recall by kind of question, in percent", True)):
        if some := [score for score in found if score.detail == detail]:
            parts.append(f"{title}\n{scores.table(some)}")
    if judged := [row for row in rows if isinstance(row, Bin)]:
        parts.append(f"confidence, and the share of the lines that answer\n{calibration.table(judged)}")
    parts += [scores.missed(score) for score in found if misses and score.misses]
    print("\n\n".join(parts))


def _as_json(row: Row | Score | Bin) -> dict[str, object]:
    if isinstance(row, Bin):
        return asdict(row)
    return asdict(row) | ({"ratio": row.ratio} if isinstance(row, Row) else {"reached": row.reached})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, each figure beside its baseline.")
    parser.add_argument("rows", nargs="*", help="rows or groups of rows, such as put or get.10k; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller counts, without the 100k rows")
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file, too")
    parser.add_argument("--misses", action="store_true", help="print the questions of our own sets that were missed")
    parser.add_argument("--dir", metavar="DIR", type=Path, default=_SCRATCH, help="a directory on the disk to measure")
    return parser.parse_args()


def _measured(name: str, options: argparse.Namespace) -> list[Row | Score | Bin]:
    print(f"bench: {name}", file=sys.stderr)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        return list(BENCHMARKS[name](Run(Path(scratch), options.quick)))


def _meant(benchmark: str, chosen: str) -> bool:
    """Whether a choice means a benchmark, a group of them, or one row of it."""
    return f"{benchmark}.".startswith(f"{chosen}.") or f"{chosen}.".startswith(f"{benchmark}.")


def _named(row: Row | Score | Bin, chosen: Sequence[str]) -> bool:
    return any(f"{row.name}.".startswith(f"{one}.") for one in chosen)


if __name__ == "__main__":
    main()
