"""Format answers for people and for programs.

For people, answers are short and aligned, with times in the local zone, and with colour only on a terminal. Remembered
text is shown as data: invisible characters and terminal controls are written out, and all lines but the first are
indented. So no part of the text can pass for a message from Strongroom. For programs, an answer is one JSON document
with ISO times.
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
    """The text with every invisible or control character written out, such as `<U+202E>`."""
    return _SUSPECT.sub(lambda hit: f"<U+{ord(hit[0]):04X}>" if _is_hidden(hit[0]) else hit[0], text)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _STEERING or _BLANK.match(character) is not None


def indent(text: str, by: str) -> str:
    """The text with invisible characters written out and every line but the first indented."""
    return escape_invisible(text).replace("\n", "\n" + by)


def quote(text: str, by: str) -> str:
    """Remembered text, with invisible characters written out and `|` before every line but the first.

    Long lines are broken here and not by the terminal, so that every line carries the `|`. Without the `|`, a second
    line could look like a remark of Strongroom about the first.
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
    """A text on one line, for messages. A line break in a file name must not start a second message."""
    return escape_invisible(text).replace("\n", "<U+000A>")


def encode_json(document: object) -> str:
    """Encode an answer as one JSON document. Invisible characters are escaped, so that the document is harmless on a
    terminal.
    """
    return _SUSPECT.sub(_escaped, msgspec.json.encode(document).decode())


def _escaped(hit: re.Match[str]) -> str:
    if not _is_hidden(hit[0]):
        return hit[0]
    units = hit[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def say(message: str) -> None:
    """Print a message on stderr, next to the answer on stdout."""
    head, _, rest = message.partition(": ")
    colour = {"error": "red", "warning": "yellow"}.get(head)
    text = one_line(message) if colour is None else f"{click.style(head, fg=colour)}: {one_line(rest)}"
    click.echo(f"strongroom: {text}", err=True, color=None if colours_allowed() else False)


def colours_allowed() -> bool:
    """True if colours are allowed: not with `NO_COLOR` or `TERM=dumb`."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def faint(text: str) -> str:
    """Style a text as less important."""
    return click.style(text, dim=True)


def bold(text: str) -> str:
    """Style a text as very important."""
    return click.style(text, bold=True)


def local(moment: datetime) -> str:
    """A time in the local zone, to the minute. In UTC if the local time would be outside the calendar."""
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except OverflowError:
        return moment.strftime("%Y-%m-%d %H:%MZ")


def moment(seconds: int) -> datetime:
    """The time that is `seconds` after the beginning of 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def in_words(seconds: float) -> str:
    """A number of seconds from now, in words: `in 2 hours`, `3 days ago`."""
    size = abs(round(seconds))
    name, unit = next((unit for unit in _UNITS if size >= unit[1]), _UNITS[-1])
    count = max(round(size / unit), 1)
    words = f"{count} {name}{'' if count == 1 else 's'}"
    return f"in {words}" if seconds > 0 else f"{words} ago"


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Format rows with aligned columns. The last column is not padded."""
    cells = [[escape_invisible(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)][:-1]
    return ["  ".join([*map(_padded, row, widths), row[-1]]).rstrip() for row in cells]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """The number of columns that a text takes on a terminal. Wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


@contextmanager
def progress(label: str, length: int, *, quiet: bool = False) -> Iterator[Advance]:
    """Show a progress bar on stderr during long work. Shows nothing if stderr is not a terminal."""
    if quiet or length == 0 or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
