"""How a figure is taken and shown.

Both sides of a row run in turns (A B A B ...), so that a busy machine slows them alike, and each side's figure is
the median over the turns. CPU time is the process's own, all threads and the kernel's work for it included.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Literal

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Run:
    """One run's settings. `scratch` is a directory on the disk that is measured."""

    scratch: Path
    quick: bool

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds for one call."""

    cpu: float
    wall: float


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row should reach: on its own figure, on the ratio to the bare one, or on its share of a bare rate."""

    on: Literal["ours", "ratio", "share"]
    floor: float
    aim: float

    def reached(self, row: Row) -> str:
        value = row.ours if self.on == "ours" else row.ratio
        if self.on == "share":
            value, floor, aim = -value, -self.floor, -self.aim
        else:
            floor, aim = self.floor, self.aim
        return "aim" if value <= aim else "floor" if value <= floor else "missed"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: our figure, the bare one beside it, and what the bare one is."""

    name: str
    what: str
    unit: str
    ours: float
    bare: float
    beside: str
    goal: Goal | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


def in_turns(sides: Sequence[Work], *, repeats: int, calls: int = 1, before: Work | None = None) -> list[Cost]:
    """The median cost of one call of each side, over `repeats` turns of `calls` calls.

    `before` prepares every turn and is not counted.
    """
    taken: list[list[Cost]] = [[] for _ in sides]
    for side in sides:
        side()
    gc.collect()
    for _ in range(repeats):
        for side, costs in zip(sides, taken, strict=True):
            if before is not None:
                before()
            costs.append(_cost(side, calls))
    return [Cost(median(one.cpu for one in costs), median(one.wall for one in costs)) for costs in taken]


def _cost(work: Work, calls: int) -> Cost:
    wall, cpu = perf_counter(), process_time()
    for _ in range(calls):
        work()
    return Cost((process_time() - cpu) / calls, (perf_counter() - wall) / calls)


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    head = ("row", "what", "unit", "ours", "bare", "ours/bare", "floor", "aim", "reached", "bare is")
    cells = [head, *map(_cells, rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    right = range(3, 8)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    share = row.goal is not None and row.goal.on == "share"
    ratio = f"{row.ratio:.0%}" if share else f"{_digits(row.ratio)}x"
    floor, aim = ("", "") if row.goal is None else (_goal(row.goal, row.goal.floor), _goal(row.goal, row.goal.aim))
    reached = "" if row.goal is None else row.goal.reached(row)
    return row.name, row.what, row.unit, _digits(row.ours), _digits(row.bare), ratio, floor, aim, reached, row.beside


def _goal(goal: Goal, value: float) -> str:
    return f"{value:.0%}" if goal.on == "share" else f"{value:g}x" if goal.on == "ratio" else f"{value:g}"


def _digits(value: float) -> str:
    """Three significant digits and no exponent."""
    if value == 0:
        return "0"
    whole = len(str(int(abs(value))))
    return f"{value:,.0f}" if whole >= 3 else f"{value:.{3 - whole}f}"
