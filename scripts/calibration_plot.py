"""The plot of docs/recall.md that shows how far confidence can be trusted, drawn from the table on that page.

The public sets are not in the repository, so the page holds the figures, and the plot cannot differ from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from scripts.picture import Arrow, Box, Curve, Picture, Words

FEWEST = 20
"""Bins of fewer lines are left out: their share is chance."""

_LEFT, _TOP, _SIDE = 70, 50, 320
_COLOURS = (("held", False), ("owner", True), ("trusted", False))
_HEAD = re.compile(r"^\| confidence \| (.+) \|$", re.MULTILINE)
_ROW = re.compile(r"^\| \d\.\d+ to \d\.\d+ \| (.+) \|$", re.MULTILINE)
_CELL = re.compile(r"([\d.]+) / ([\d.]+) \(([\d,]+)\)")

_Point = tuple[float, float]


def calibration(page: str) -> Picture:
    """The plot of a page's table of confidence."""
    curves = points(page)
    most = max(value for some in curves.values() for point in some for value in point)
    end = math.ceil(most * 10) / 10
    shapes: list[Box | Words | Arrow | Curve] = [
        Box((_LEFT, _TOP, _SIDE, _SIDE), "", kind="area"),
        *_axes(end),
        Arrow([_place(0, 0, end), _place(end, end, end)], dashed=True),
    ]
    for number, ((name, some), (colour, dashed)) in enumerate(zip(curves.items(), _COLOURS, strict=True)):
        shapes.append(Curve([_place(sure, gold, end) for sure, gold in some], colour, dashed))
        across, down = _LEFT + _SIDE + 24, _TOP + 24 + 26 * number
        shapes += [Curve([(across, down), (across + 34, down)], colour, dashed), Words(across + 46, down + 4, name)]
    across, down = _LEFT + _SIDE + 24, _TOP + 24 + 26 * len(curves)
    shapes += [Arrow([(across, down), (across + 34, down)], dashed=True), Words(across + 46, down + 4, "exact")]
    return Picture(
        "calibration",
        "Confidence, and how often a line answers",
        "For each of three public sets, the mean confidence of lines against the share of them that answer their "
        "question. On the dashed line both are the same; above it, confidence is too low. The table beside the plot "
        "has the figures.",
        _LEFT + _SIDE + 190,
        _TOP + _SIDE + 70,
        shapes,
    )


def points(page: str) -> dict[str, Sequence[_Point]]:
    """For each set, the mean confidence and the share that answers, of each bin with enough lines."""
    head = _HEAD.search(page)
    if head is None:
        raise ValueError("the page has no table of confidence")
    names = head[1].split(" | ")
    found: dict[str, list[_Point]] = {name: [] for name in names}
    for row in _ROW.findall(page):
        for name, cell in zip(names, row.split("|"), strict=True):
            if (read := _CELL.fullmatch(cell.strip())) and int(read[3].replace(",", "")) >= FEWEST:
                found[name].append((float(read[1]), float(read[2])))
    return {name: some for name, some in found.items() if some}


def _axes(end: float) -> Iterator[Words]:
    for tenth in range(round(end * 10) + 1):
        x, y = _place(tenth / 10, tenth / 10, end)
        yield Words(x, _TOP + _SIDE + 18, f"{tenth / 10:.1f}", "middle")
        yield Words(_LEFT - 8, y + 4, f"{tenth / 10:.1f}", "end")
    yield Words(_LEFT + _SIDE // 2, _TOP + _SIDE + 44, "mean confidence of the lines", "middle")
    yield Words(_LEFT - 40, _TOP - 18, "share of the lines that answer")


def _place(sure: float, gold: float, end: float) -> tuple[int, int]:
    return _LEFT + round(_SIDE * sure / end), _TOP + round(_SIDE * (1 - gold / end))
