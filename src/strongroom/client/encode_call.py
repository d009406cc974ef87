"""Checks a call before it is sent to a server, and converts its arguments to the types that JSON has.

JSON would change some wrong arguments into valid ones (bytes into base64, NaN into null) and cannot carry others. Such
arguments are refused here, with the error that a vault in this process would raise. All other checks are left to the
server, which checks the cap first and logs its refusal.
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
"""Maximum length of a name that is sent, in characters. The vault's own limit is much lower, and has its own error."""

_NUMBER_LIMIT = 2**53
_VERSION = re.compile(r"[0-9a-f]{32}")
_NO_VERSION = "0" * 32
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Packer = Callable[[Any], Any]


def encode_call(call: Call[A]) -> Call[A]:
    """Check every field of a call, and return the call in the form in which it is sent."""
    struct: msgspec.Struct = call
    if isinstance(call, api.Get) and call.ids is not None and call.explain is not True:
        # The vault ignores these two when only the lines are wanted, so a bad value in them must not fail the call.
        struct = msgspec.structs.replace(struct, query="", now=None)
    return cast(Call[A], _packed_struct(struct))


def _packed_struct(struct: msgspec.Struct) -> msgspec.Struct:
    packers = packers_of(type(struct))
    return type(struct)(**{name: pack(getattr(struct, name)) for name, pack in packers})


@lru_cache(maxsize=64)
def packers_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, Packer], ...]:
    """For each field of a call, its name and the function that checks and converts its value."""
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
    raise InvalidRequest(
        "a text contains a lone surrogate, which UTF-8 cannot encode", hint="decode the text from UTF-8 bytes first"
    )


def _name(value: Any) -> str:
    text = model.plain(value)
    if len(text) > _NAME_LIMIT:
        raise InvalidRequest(f"a name or id is too long: it has more than {_NAME_LIMIT} characters")
    return _encodable(text)


def _text(limit: int, what: str) -> Packer:
    def pack(value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidRequest(f"{what} must be text", hint="decode bytes as UTF-8 first")
        text = str.__str__(value)
        if len(text) > 4 * limit:  # as in model.clean_text: NFC can shorten a text to a quarter at most
            raise LineTooLarge(f"{what} is larger than {limit} bytes", hint="split the text")
        return _encodable(text)

    return pack


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Collection):
        raise InvalidRequest("an argument that must be a list of strings is one string, or another value")
    return tuple(map(_name, value))


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise InvalidRequest("an argument that must be a whole number is another value")
    # The vault refuses every value beyond this range, and not every JSON reader handles such numbers.
    return max(-_NUMBER_LIMIT, min(value, _NUMBER_LIMIT))


def _page(value: Any) -> int:
    if type(value) is not int:
        raise TooMany(f"`limit` must be a number from 1 to {model.LIST_LIMIT}: a page has at most so many items")
    return _whole(value)


def _seconds(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not int:
        raise InvalidRequest("`patience` must be a number of seconds")
    return _whole(value)


def _share(value: Any) -> float | None:
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
        raise InvalidRequest("`min_confidence` must be a number from 0 to 1")
    return cast("float | None", value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidRequest("`or_newest` and `explain` must be true or false")
    return value


def _moment(value: Any) -> datetime:
    """The same moment in a time zone whose offset is whole minutes, because an offset in JSON has no seconds."""
    model.millis(value)  # raises an error if the value is not a datetime with a time zone
    offset: timedelta | None = value.utcoffset()
    if offset is None:
        raise InvalidRequest("a time must be a datetime with a time zone", hint="use datetime.now(timezone.utc)")
    minutes = max(offset // _MINUTE, 1 - 24 * 60)
    since: timedelta = value - _EPOCH
    return (_EPOCH + since).astimezone(timezone(minutes * _MINUTE))


def _lines(lines: tuple[NewLine, ...]) -> tuple[NewLine, ...]:
    if len(lines) > model.BATCH_LIMIT:
        raise TooMany(f"a batch holds at most {model.BATCH_LIMIT} lines")
    if sum(map(_raw_size, lines)) > model.BATCH_BYTES:
        raise BodyTooLarge(
            f"the texts of a batch have at most {model.BATCH_BYTES} bytes together", hint="send several smaller batches"
        )
    return tuple(cast(NewLine, _packed_struct(line)) for line in lines)


def _sealed(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidRequest("a sealed bundle must be bytes")
    if len(value) > inbox.SEALED_LIMIT:
        raise BodyTooLarge(
            f"the sealed bundle is larger than {inbox.SEALED_LIMIT} bytes", hint="seal the lines in several bundles"
        )
    return bytes(value)


def _raw_size(line: NewLine) -> int:
    return len(line.text.encode("utf-8", "surrogatepass")) if isinstance(line.text, str) else 0


def _or_none(pack: Packer) -> Packer:
    return lambda value: None if value is None else pack(value)


def _version(value: Any) -> str:
    """The version of a profile, as it is sent in a header.

    A value that a header cannot carry is replaced by a version that no profile has, which gives a VersionConflict.
    """
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
    api.Get: {
        "query": _text(QUERY_LIMIT, "a query"),
        "min_confidence": _share,
        "or_newest": _flag,
        "explain": _flag,
    },
    api.List: {"limit": _page},
    api.WriteDocument: {"text": _text(model.DOCUMENT_LIMIT, "a document")},
    api.ListDocuments: {"limit": _page},
    api.WriteProfile: {"text": _text(model.PROFILE_LIMIT, "a profile"), "version": _version},
}
