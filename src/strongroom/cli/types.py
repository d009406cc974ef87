"""How arguments are written: moments, durations, comma lists."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


class Moment(click.ParamType[datetime]):
    """An ISO date or time; without a zone it is in the local one."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            found = datetime.fromisoformat(value)
            return found if found.tzinfo is not None else found.astimezone()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not an ISO date or time such as 2026-05-22 or 2026-05-22T10:30+02:00", param, ctx)


class Duration(click.ParamType[int]):
    """A length of time such as `2h`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if not (found := re.fullmatch(r"([0-9]{1,9})([smhdw]?)", value)):
            self.fail(f"{value!r} is not a duration such as 90s, 15m, 2h, 30d or 4w", param, ctx)
        return int(found[1]) * _UNITS[found[2] or "s"]


class Names(click.ParamType[tuple[str, ...]]):
    """Names joined by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002 - click's signature
        if isinstance(value, tuple):
            return value
        return tuple(name for part in value.split(",") if (name := part.strip()))


MOMENT, DURATION, NAMES = Moment(), Duration(), Names()
