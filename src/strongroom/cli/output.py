"""Answers for people and for programs.

For people: short, aligned, times in the local zone, colour only on a terminal. What was once said by somebody is shown
as data: characters that are invisible or that steer a terminal are written out, and further lines are indented, so
that no line can pass for something that Strongroom says. For programs: one JSON document, in ISO times.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click
import msgspec

_SUSPECT = re.compile("[^\t\n\x20-\x7e]")
_STEERING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))  # controls, bidi and zero width, surrogates, line breaks
_BLANK = re.compile(  # letters and marks that show nothing: fillers, selectors, joiners, tags
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))

Advance = Callable[[int], None]


def escape_invisible(text: str) -> str:
    """A text with every invisible or steering character written out as `<U+202E>`."""
    return _SUSPECT.sub(lambda hit: f"<U+{ord(hit[0]):04X}>" if _is_hidden(hit[0]) else hit[0], text)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _STEERING or _BLANK.match(character) is not None


def indent(text: str, by: str) -> str:
    """A text as data: written out, and every line but the first indented."""
    return escape_invisible(text).replace("\n", "\n" + by)


def quote(text: str, by: str) -> str:
    """What somebody once said: written out, every line but the first marked, and none left for the terminal to break.

    Without the mark, a second line could look like what Strongroom says about the first.
    """
    lines = escape_invisible(text).split("\n")
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - len(by) - 2, 20)
        lines = [piece for line in lines for piece in _broken(line, room)]
    return f"\n{by}| ".join(lines)


def _broken(line: str, room: int) -> Iterator[str]:
    piece, used = "", 0
    for character in line:
        width = _width(character)
        if used + width > room:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + width
    yield piece


def one_line(text: str) -> str:
    """A text in a message of one line: a name of a file must not begin another."""
    return escape_invisible(text).replace("\n", "<U+000A>")


def encode_json(document: object) -> str:
    """One JSON document. Invisible characters are escaped: the same JSON, and harmless on a terminal."""
    return _SUSPECT.sub(_escaped, msgspec.json.encode(document).decode())


def _escaped(hit: re.Match[str]) -> str:
    if not _is_hidden(hit[0]):
        return hit[0]
    units = hit[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def say(message: str) -> None:
    """Tell the user something on stderr, beside the answer."""
    head, _, rest = message.partition(": ")
    colour = {"error": "red", "warning": "yellow"}.get(head)
    text = one_line(message) if colour is None else f"{click.style(head, fg=colour)}: {one_line(rest)}"
    click.echo(f"strongroom: {text}", err=True, color=None if colours_allowed() else False)


def colours_allowed() -> bool:
    """Whether a terminal may get colours."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def faint(text: str) -> str:
    """Less important text."""
    return click.style(text, dim=True)


def bold(text: str) -> str:
    """The text that matters most."""
    return click.style(text, bold=True)


def local(moment: datetime) -> str:
    """A moment in the local zone, to the minute; where that lies outside the calendar, in UTC."""
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except OverflowError:
        return moment.strftime("%Y-%m-%d %H:%MZ")


def moment(seconds: int) -> datetime:
    """Seconds since 1970 as a datetime."""
    return datetime.fromtimestamp(seconds, UTC)


def in_words(seconds: float) -> str:
    """How far away a moment is: `in 2 hours`, `3 days ago`."""
    size = abs(round(seconds))
    name, unit = next((unit for unit in _UNITS if size >= unit[1]), _UNITS[-1])
    count = max(round(size / unit), 1)
    words = f"{count} {name}{'' if count == 1 else 's'}"
    return f"in {words}" if seconds > 0 else f"{words} ago"


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows with aligned columns; the last column is as long as it is."""
    cells = [[escape_invisible(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)][:-1]
    return ["  ".join([*map(_padded, row, widths), row[-1]]).rstrip() for row in cells]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, marks none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


@contextmanager
def progress(label: str, length: int, *, quiet: bool = False) -> Iterator[Advance]:
    """A progress bar on stderr while long work lasts, and nothing unless that is a terminal."""
    if quiet or length == 0 or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
