"""How arguments are written: moments, durations, namespaces, comma lists."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import Any

import click

from strongroom.errors import InvalidRequest
from strongroom.vault.issuing import TTL_LIMIT

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


class Moment(click.ParamType[datetime]):
    """An ISO date or time; without a zone it is in the local one.

    A date alone is the start of that day or, with `noon`, its middle: that is the same day in UTC in nearly every zone.
    """

    name = "time"

    def __init__(self, *, noon: bool = False) -> None:
        self.noon = noon

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            found = _noon_of(value) if self.noon else None
            found = found or datetime.fromisoformat(value)
            return found if found.tzinfo is not None else found.astimezone()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not an ISO date or time such as 2026-05-22 or 2026-05-22T10:30+02:00", param, ctx)


def _noon_of(value: str) -> datetime | None:
    """Noon of a day that was written without a time; None if it was written with one."""
    try:
        return datetime.combine(date.fromisoformat(value), time(12))
    except ValueError:
        return None


class Duration(click.ParamType[int]):
    """How long a cap lasts, such as `2h`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if not (found := re.fullmatch(r"([0-9]{1,9})([smhdw])", value)):
            self.fail(f"{value!r} is not a duration: say 90s, 15m, 2h or 30d", param, ctx)
        seconds = int(found[1]) * _UNITS[found[2]]
        if not 1 <= seconds <= TTL_LIMIT:
            raise InvalidRequest(f"a cap lasts from 1s to {TTL_LIMIT // _UNITS['d']}d, and not {value}")
        return seconds


class NamespaceName(click.ParamType[str]):
    """The name of one namespace; whether it is one is not for this to say."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if "," in value:
            several = isinstance(param, click.Option) and param.multiple
            self.fail(f"{value!r} is not one namespace" + (": repeat -n for each" if several else ""), param, ctx)
        return str(value)


class Names(click.ParamType[tuple[str, ...]]):
    """Names joined by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002 - click's signature
        if isinstance(value, tuple):
            return value
        return tuple(name for part in value.split(",") if (name := part.strip()))


MOMENT, DAY, DURATION, NAMES, NAMESPACE = Moment(), Moment(noon=True), Duration(), Names(), NamespaceName()
