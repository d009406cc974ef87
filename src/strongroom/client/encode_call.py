"""Checks and normalises a call before it is sent: exact types as JSON has them, or the error the vault would raise.

JSON would carry some wrong arguments as right ones (bytes as base64, NaN as null) and cannot carry others. Those are
refused here, with the reason that a vault in this process gives. Everything else is left to the server, which checks
the cap first and logs its refusal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, cast, get_type_hints

import msgspec

from strongroom import api, model
from strongroom.api import A, Call
from strongroom.crypto import inbox
from strongroom.errors import BodyTooLarge, InvalidRequest, LineTooLarge, TooMany
from strongroom.memory.ops.get import QUERY_LIMIT
from strongroom.model import NewLine

_NAME_LIMIT = 4096
"""Longest name that is sent, in characters. A vault refuses far shorter ones with an error of its own."""

_NUMBER_LIMIT = 2**53
_VERSION = re.compile(r"[0-9a-f]{32}")
_NO_VERSION = "0" * 32
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Packer = Callable[[Any], Any]


def encode_call(call: Call[A]) -> Call[A]:
    """The call with every field checked and in the form that is sent."""
    struct: msgspec.Struct = call
    if isinstance(call, api.Get) and call.ids is not None:
        # The vault ignores these two when ids are given, so a bad value in them must not fail the call.
        struct = msgspec.structs.replace(struct, query="", now=None)
    return cast(Call[A], _packed_struct(struct))


def _packed_struct(struct: msgspec.Struct) -> msgspec.Struct:
    packers = packers_of(type(struct))
    return type(struct)(**{name: pack(getattr(struct, name)) for name, pack in packers})


@lru_cache(maxsize=64)
def packers_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, Packer], ...]:
    """The encoder of each field of a call, by field name."""
    hints = get_type_hints(kind)
    special = _SPECIAL.get(kind, {})
    return tuple((name, special.get(name) or _BY_TYPE[hints[name]]) for name in kind.__struct_fields__)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        return text
    raise InvalidRequest("a text holds a lone surrogate", hint="decode it as UTF-8 first")


def _name(value: Any) -> str:
    text = model.plain(value)
    if len(text) > _NAME_LIMIT:
        raise InvalidRequest(f"a name is far shorter than {_NAME_LIMIT} characters")
    return _encodable(text)


def _text(limit: int, what: str) -> Packer:
    def pack(value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidRequest(f"{what} must be text", hint="decode bytes as UTF-8 first")
        text = str.__str__(value)
        if len(text) > 4 * limit:  # as in model.clean_text: NFC can shorten a text to a quarter at most
            raise LineTooLarge(f"{what} is larger than {limit} bytes", hint="split it into several lines")
        return _encodable(text)

    return pack


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Collection):
        raise InvalidRequest("a list of texts is expected, not one text or another value")
    return tuple(map(_name, value))


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise InvalidRequest("a number must be a whole number")
    # The vault refuses every value beyond this range alike, and not every JSON reader handles such numbers.
    return max(-_NUMBER_LIMIT, min(value, _NUMBER_LIMIT))


def _page(value: Any) -> int:
    if type(value) is not int:
        raise TooMany(f"a page holds 1 to {model.LIST_LIMIT} lines")
    return _whole(value)


def _seconds(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not int:
        raise InvalidRequest("a time to wait must be a number of seconds")
    return _whole(value)


def _moment(value: Any) -> datetime:
    """The same instant in a zone of whole minutes: an offset in JSON has no seconds."""
    model.millis(value)  # raises for what is not a datetime with a zone
    offset: timedelta | None = value.utcoffset()
    if offset is None:
        raise InvalidRequest("a time must be a datetime with a time zone", hint="datetime.now(UTC)")
    minutes = max(offset // _MINUTE, 1 - 24 * 60)
    since: timedelta = value - _EPOCH
    return (_EPOCH + since).astimezone(timezone(minutes * _MINUTE))


def _lines(lines: tuple[NewLine, ...]) -> tuple[NewLine, ...]:
    if len(lines) > model.BATCH_LIMIT:
        raise TooMany(f"a batch holds at most {model.BATCH_LIMIT} lines")
    if sum(map(_raw_size, lines)) > model.BATCH_BYTES:
        raise BodyTooLarge(f"a batch's texts are at most {model.BATCH_BYTES} bytes in all", hint="send several")
    return tuple(cast(NewLine, _packed_struct(line)) for line in lines)


def _sealed(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidRequest("a sealed bundle must be bytes")
    if len(value) > inbox.SEALED_LIMIT:
        raise BodyTooLarge(f"a sealed bundle is at most {inbox.SEALED_LIMIT} bytes", hint="seal several")
    return bytes(value)


def _raw_size(line: NewLine) -> int:
    return len(line.text.encode("utf-8", "surrogatepass")) if isinstance(line.text, str) else 0


def _or_none(pack: Packer) -> Packer:
    return lambda value: None if value is None else pack(value)


def _version(value: Any) -> str:
    """A profile's version. A value that no header could carry is sent as one that no profile has: a VersionConflict."""
    version = str.__str__(value) if isinstance(value, str) else _NO_VERSION
    return version if version == "" or _VERSION.fullmatch(version) else _NO_VERSION


_BY_TYPE: dict[Any, Packer] = {
    str: _name,
    str | None: _or_none(_name),
    int: _whole,
    int | None: _or_none(_whole),
    float | None: _or_none(_seconds),
    bool: bool,
    Mapping[str, Any] | None: _or_none(model.clean_meta),
    bytes: _sealed,
    datetime | None: _or_none(_moment),
    tuple[str, ...]: _names,
    tuple[str, ...] | None: _or_none(_names),
    tuple[NewLine, ...]: _lines,
}

_SPECIAL: dict[type[msgspec.Struct], dict[str, Packer]] = {
    NewLine: {"text": _text(model.LINE_LIMIT, "a line")},
    api.Get: {"query": _text(QUERY_LIMIT, "a query")},
    api.List: {"limit": _page},
    api.WriteDocument: {"text": _text(model.DOCUMENT_LIMIT, "a document")},
    api.ListDocuments: {"limit": _page},
    api.WriteProfile: {"text": _text(model.PROFILE_LIMIT, "a profile"), "version": _version},
}
