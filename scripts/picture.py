"""Boxes, words, arrows and curves as SVG, readable on a light and on a dark screen.

A text that does not fit its box is an error, by the widths of a wide font: the font that a reader has is narrower or
the same. Not responsible for layout: every shape says where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
SIZE, SMALL = 14, 12
LEADING, PADDING = 19, 14

_COLOURS = {
    # kind: fill and stroke on light, fill and stroke on dark
    "paper": ("#ffffff", "#ffffff", "#0d1117", "#0d1117"),
    "area": ("#f6f8fa", "#8c959f", "#161b22", "#6e7681"),
    "plain": ("#ffffff", "#57606a", "#0d1117", "#8b949e"),
    "trusted": ("#e9f5ec", "#2f6f3e", "#10291a", "#4c9a62"),
    "held": ("#e7f0fd", "#2f6fbb", "#10233f", "#4c8dee"),
    "clear": ("#fdecea", "#b3362b", "#361513", "#d9665b"),
    "owner": ("#fff6e0", "#9a6700", "#2e2408", "#c69026"),
}
_INK = {"ink": ("#1f2328", "#e6edf3"), "quiet": ("#57606a", "#9198a1")}


@dataclass(frozen=True)
class Box:
    """A rectangle with a bold title and lines of text below it; `kind` is its colour."""

    place: tuple[int, int, int, int]
    """x, y, width and height"""
    title: str
    lines: Sequence[str] = ()
    kind: str = "plain"
    dashed: bool = False


@dataclass(frozen=True)
class Words:
    """Small words outside of a box: the label of an arrow, or a note."""

    x: int
    y: int
    text: str
    anchor: str = "start"


@dataclass(frozen=True)
class Arrow:
    """A line through points, with a tip at its end, and at its start if it goes `both` ways."""

    points: Sequence[tuple[int, int]]
    dashed: bool = False
    both: bool = False


@dataclass(frozen=True)
class Curve:
    """A line through the points of a plot, with a dot at each; `kind` is its colour."""

    points: Sequence[tuple[int, int]]
    kind: str
    dashed: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture by its file's name, with what it says to somebody who cannot see it."""

    name: str
    title: str
    description: str
    width: int
    height: int
    shapes: Sequence[Box | Words | Arrow | Curve]


def svg(picture: Picture) -> str:
    """The picture as the text of an SVG file."""
    size = f'viewBox="0 0 {picture.width} {picture.height}"'
    described = 'role="img" aria-labelledby="title description"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="{SIZE}" {described}>',
        f'<title id="title">{escape(picture.title)}</title>',
        f'<desc id="description">{escape(picture.description)}</desc>',
        f"<style>{_style()}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="paper" width="{picture.width}" height="{picture.height}"/>',
        *(part for shape in picture.shapes for part in _drawn(shape)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style() -> str:
    rules = ["text{fill:#1f2328}.title{font-weight:600}.quiet{font-size:12px}.line{fill:none;stroke-width:1.4}"]
    for dark in (0, 1):
        drawn = [f".{kind}{{fill:{c[2 * dark]};stroke:{c[2 * dark + 1]}}}" for kind, c in _COLOURS.items()]
        ink, quiet = (_INK[name][dark] for name in ("ink", "quiet"))
        drawn += [f"text{{fill:{ink}}}.quiet,.tip{{fill:{quiet}}}.line{{stroke:{quiet}}}"]
        rules.append(f"@media (prefers-color-scheme:dark){{{''.join(drawn)}}}" if dark else "".join(drawn))
    return "".join(rules)


def _drawn(shape: Box | Words | Arrow | Curve) -> Iterator[str]:
    match shape:
        case Box():
            yield from _box(shape)
        case Words(x, y, text, anchor):
            yield f'<text class="quiet" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
        case Arrow(points, dashed, both):
            path = "M" + " L".join(f"{x} {y}" for x, y in points)
            ends = ' marker-start="url(#tip)"' if both else ""
            yield f'<path class="line" d="{path}"{_dashes(dashed)}{ends} marker-end="url(#tip)"/>'
        case Curve(points, kind, dashed):
            path = "M" + " L".join(f"{x} {y}" for x, y in points)
            yield f'<path class="{kind}" style="fill:none" stroke-width="2" d="{path}"{_dashes(dashed)}/>'
            yield from (f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"/>' for x, y in points)


def _box(box: Box) -> Iterator[str]:
    x, y, wide, high = box.place
    yield f'<rect class="{box.kind}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="6"{_dashes(box.dashed)}/>'
    down = y + PADDING + 9
    for number, line in enumerate([box.title, *box.lines]):
        if line and (width(line, bold=not number) > wide - 2 * PADDING + 4 or down > y + high - 6):
            raise ValueError(f"{line!r} does not fit its box")
        style = "" if number else ' class="title"'
        yield f'<text{style} x="{x + PADDING}" y="{down}">{escape(line)}</text>'
        down += LEADING


def _dashes(dashed: bool) -> str:
    return ' stroke-dasharray="6 4"' if dashed else ""


def width(text: str, *, bold: bool = False) -> float:
    """About how wide a text is in DejaVu Sans, one of the widest fonts that a browser may choose."""
    units = sum(0.38 if sign in "ijltfrI.,:;'|()[]/ !-" else 0.92 if sign in "mwMW@%" else 0.61 for sign in text)
    return SIZE * units * (1.1 if bold else 1)
