"""Parameter types for click: moments, durations, namespaces, comma lists, members of meta, addresses."""

from __future__ import annotations

import ipaddress
import re
from datetime import date, datetime, time, timedelta
from typing import Any

import click
import msgspec

from strongroom.errors import InvalidRequest
from strongroom.strict_json import check_unique_keys
from strongroom.vault.issue import TTL_LIMIT

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


class MomentType(click.ParamType[datetime]):
    """An ISO date or time. A time without a time zone is local time.

    A date alone means the start of that day. With `noon` it means noon, which falls on that day in UTC for nearly every
    zone.
    """

    name = "time"
    forms = "an ISO date or time such as 2026-05-22 or 2026-05-22T10:30+02:00"

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
            self.fail(f"{value!r} is not {self.forms}", param, ctx)


def _noon_of(value: str) -> datetime | None:
    """Noon of the day, if `value` is a date without a time. Otherwise None."""
    try:
        return datetime.combine(date.fromisoformat(value), time(12))
    except ValueError:
        return None


class ExpiryType(MomentType):
    """A moment, as an ISO date or time, or as a duration from now such as `30d`."""

    name = "time|duration"
    forms = "a duration such as 2h or 30d, or an ISO date or time such as 2026-05-22 or 2026-05-22T10:30+02:00"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        seconds = _seconds(value) if isinstance(value, str) else None
        if seconds is None:
            return super().convert(value, param, ctx)
        try:
            return datetime.now().astimezone() + timedelta(seconds=seconds)
        except OverflowError:
            self.fail(f"{value!r} from now is after the year 9999", param, ctx)


class MetaType(click.ParamType[tuple[str, Any]]):
    """One member of a line's meta, as `key=value`. A value that is JSON is read as JSON, any other value as text."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        key, sign, text = value.partition("=")
        if not key or not sign:
            self.fail(f"{value!r} is not KEY=VALUE, such as city=Chengdu or nights=4", param, ctx)
        data = text.encode("utf-8", "surrogatepass")
        try:
            found = msgspec.json.decode(data)
        except RecursionError:
            self.fail(f"the value of {key!r} is nested too deep", param, ctx)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return key, text
        check_unique_keys(data)
        return key, found


class DurationType(click.ParamType[int]):
    """The lifetime of a cap, such as `2h`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if (seconds := _seconds(value)) is None:
            self.fail(f"{value!r} is not a duration; write 90s, 15m, 2h or 30d", param, ctx)
        if not 1 <= seconds <= TTL_LIMIT:
            raise InvalidRequest(f"a cap can last from 1s to {TTL_LIMIT // _UNITS['d']}d; {value} is not possible")
        return seconds


def _seconds(value: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", value)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


class IntervalType(click.ParamType[int]):
    """An interval of up to a week, in seconds. 0 is allowed; the error message uses `zero` to say what 0 means."""

    name = "duration"

    def __init__(self, zero: str) -> None:
        self.zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        seconds = 0 if value == "0" else _seconds(value)
        if seconds is None or seconds > _UNITS["w"]:
            self.fail(f"{value!r} is not a duration up to a week; write 30s, 15m, 2h, or 0 {self.zero}", param, ctx)
        return seconds


class ListenType(click.ParamType[tuple[str, int]]):
    """An address and a port, such as `127.0.0.1:8765` or `[::1]:8765`."""

    name = "address:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", value)
        if found is None or int(found[3]) > 65_535:
            self.fail(f"{value!r} is not ADDRESS:PORT, such as 127.0.0.1:8765 or [::1]:8765", param, ctx)
        return found[1] or found[2], int(found[3])


class AddressType(click.ParamType[str]):
    """The IP address of a machine or of a network."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            ipaddress.ip_network(value)
        except ValueError:
            self.fail(f"{value!r} is not an IP address or network, such as 10.0.0.5 or 10.0.0.0/24", param, ctx)
        return str(value)


class OriginType(click.ParamType[str]):
    """The origin of a web page, as browsers send it: scheme, host and port."""

    name = "origin"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?", value):
            self.fail(f"{value!r} is not an origin; write https://console.example.org, without a path", param, ctx)
        return str(value)


class HostNameType(click.ParamType[str]):
    """A host name or IP address, as in the Host header, without the port."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _is_address(value) and not re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?", value):
            self.fail(f"{value!r} is not a host name; write memory.example.org, without scheme and port", param, ctx)
        return str(value).lower()


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


class NamespaceType(click.ParamType[str]):
    """The name of one namespace. The gate checks later whether the vault has this namespace."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if "," in value:
            several = isinstance(param, click.Option) and param.multiple
            self.fail(f"{value!r} is not one namespace" + ("; repeat -n for each" if several else ""), param, ctx)
        return str(value)


class NamesType(click.ParamType[tuple[str, ...]]):
    """Names that are separated by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002 - click's signature
        if isinstance(value, tuple):
            return value
        return tuple(name for part in value.split(",") if (name := part.strip()))


MOMENT, DAY, DURATION, NAMES, NAMESPACE = (
    MomentType(),
    MomentType(noon=True),
    DurationType(),
    NamesType(),
    NamespaceType(),
)
EXPIRY, META = ExpiryType(), MetaType()
EVERY, WITHIN = IntervalType("for never"), IntervalType("to not wait")
LISTEN, ADDRESS, ORIGIN, HOST_NAME = ListenType(), AddressType(), OriginType(), HostNameType()
