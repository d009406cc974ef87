"""One key of a TOML text changed, and every comment, order and edit of its owner kept. Pure.

A key is found by its line and its value by reading it; the new text is read again and must mean the old one but for
that key. What is written in another way (dotted keys, inline tables) is refused, and the owner is told what to write.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from strongroom.errors import InvalidRequest

Value = str | bool | tuple[str, ...]

_HEADER = re.compile(r"\s*\[")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def rendered(value: Value) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if any("\ud800" <= one <= "\udfff" for one in value):
            raise InvalidRequest("a name that is not UTF-8 cannot be written down", hint="rename that directory")
        return '"' + "".join(_escaped(one) for one in value) + '"'
    return f"[{', '.join(map(rendered, value))}]"


def _escaped(one: str) -> str:
    return _ESCAPES.get(one) or (f"\\u{ord(one):04X}" if ord(one) < 32 or ord(one) == 127 else one)


def changed(text: str, table: str, key: str, value: Value) -> str:
    """The text with a key set, in a table or, for "", before the first of them."""
    data = tomllib.loads(text)
    held = data.get(table, {}) if table else data
    plain = list(value) if isinstance(value, tuple) else value
    if isinstance(held, dict) and key in held and held[key] == plain and type(held[key]) is type(plain):
        return text
    new = _set(re.findall(r"[^\n]*\n|[^\n]+", text), table, key, rendered(value))
    if not _means(new, _with(data, table, key, plain)):
        where = f"below [{table}]" if table else "at the top"
        raise InvalidRequest(
            f"{key}, {where}, is written in a way that is not changed from outside",
            hint=f"write `{key} = {rendered(value)}` {where}, and run this again",
        )
    return new


def _means(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except ValueError:
        return False


def _with(data: dict[str, Any], table: str, key: str, value: object) -> dict[str, Any]:
    if not table:
        return {**data, key: value}
    held = data.get(table, {})
    return {**data, table: {**(held if isinstance(held, dict) else {}), key: value}}


def _set(lines: list[str], table: str, key: str, value: str) -> str:
    start, end = _region(lines, table)
    if start < 0:
        gap = "\n" if lines and not lines[-1].endswith("\n") else ""
        return f"{''.join(lines)}{gap}\n[{table}]\n{key} = {value}\n"
    at = _line_of(lines, start, end, rf"\s*{key}\s*=")
    if at is not None:
        until = _end_of_value(lines, at, end)
        lines[at:until] = [f"{key} = {value}{_comment(lines[until - 1], at == until - 1)}"]
    else:
        said = _line_of(lines, start, end, rf"\s*#\s*{key}\s*=")
        lines.insert(_last_key(lines, start, end) if said is None else said + 1, f"{key} = {value}\n")
    return "".join(lines)


def _region(lines: Sequence[str], table: str) -> tuple[int, int]:
    """Where the lines of a table begin and end; -1 if it has none."""
    start = 0
    if table:
        header = _line_of(lines, 0, len(lines), rf"\s*\[\s*{table}\s*\]")
        if header is None:
            return -1, -1
        start = header + 1
    end = next((at for at in range(start, len(lines)) if _HEADER.match(lines[at])), len(lines))
    return start, end


def _line_of(lines: Sequence[str], start: int, end: int, pattern: str) -> int | None:
    return next((at for at in range(start, end) if re.match(pattern, lines[at])), None)


def _end_of_value(lines: Sequence[str], at: int, end: int) -> int:
    """The line after a value that may be written on several."""
    for until in range(at + 1, end + 1):
        if _reads("".join(lines[at:until])):
            return until
    return at + 1


def _comment(line: str, whole: bool) -> str:
    """What follows the value on its line: spaces, a comment, the end of the line."""
    tail = "\n" if line.endswith("\n") else ""
    if whole:
        for at, one in enumerate(line):
            if one == "#" and _reads(line[:at]):
                return line[len(line[:at].rstrip()) :]
    return tail


def _last_key(lines: Sequence[str], start: int, end: int) -> int:
    """After the last key of a region, or at its start."""
    for at in range(end - 1, start - 1, -1):
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            if not lines[at].endswith("\n"):
                break
            return at + 1
    return start


def _reads(text: str) -> bool:
    try:
        return bool(tomllib.loads(text))
    except ValueError:
        return False
