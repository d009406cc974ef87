"""Checks all values that come from outside: actors, namespaces, ids, kinds, lines and times.

An invalid value raises Invalid. Behind this module, every Actor, Namespace and LineId is well formed. The types are
defined in `values`, and can be imported from here. The module uses no keys, no storage and no clock.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from ulid import ULID

from strongroom.errors import InvalidRequest, LineTooLarge, TooMany
from strongroom.values import (
    CERTAIN,
    Actor,
    ActorScope,
    CapRecord,
    DataClass,
    Document,
    DocumentHistory,
    DocumentInfo,
    DocumentPage,
    Erased,
    Forgotten,
    Hit,
    Kind,
    Line,
    LineDetails,
    LineId,
    LineInfo,
    LinkId,
    Listing,
    Millis,
    Namespace,
    NewLine,
    Op,
    Profile,
    Provenance,
    Receipt,
    Snapshot,
    Void,
    Why,
)

__all__ = [
    "ANSWER_LIMIT",
    "BATCH_BYTES",
    "BATCH_LIMIT",
    "CERTAIN",
    "DEFAULT_NAMESPACES",
    "DOCUMENT_LIMIT",
    "FIELD_LIMIT",
    "HISTORY_BYTES",
    "HISTORY_LIMIT",
    "KEY_LIMIT",
    "K_DEFAULT",
    "K_LIMIT",
    "LINE_LIMIT",
    "LIST_LIMIT",
    "META_DEPTH",
    "META_LIMIT",
    "PROFILE_LIMIT",
    "TAGS_LIMIT",
    "TAG_LIMIT",
    "TEXTS_LIMIT",
    "WITHOUT_LIMIT",
    "Actor",
    "ActorScope",
    "CapRecord",
    "DataClass",
    "Document",
    "DocumentHistory",
    "DocumentInfo",
    "DocumentPage",
    "Erased",
    "Forgotten",
    "Hit",
    "Kind",
    "Line",
    "LineDetails",
    "LineId",
    "LineIds",
    "LineInfo",
    "LinkId",
    "Listing",
    "Millis",
    "Namespace",
    "NewLine",
    "Op",
    "Profile",
    "Provenance",
    "Receipt",
    "Snapshot",
    "Void",
    "Why",
    "actor",
    "actor_path",
    "actor_scope",
    "clean_details",
    "clean_field",
    "clean_line",
    "clean_meta",
    "clean_tags",
    "clean_text",
    "deed",
    "digest",
    "document_key",
    "is_namespace",
    "kind",
    "line_id",
    "line_ids",
    "link_id",
    "millis",
    "moment",
    "namespace",
    "plain",
    "pluralize",
]

LINE_LIMIT = 32 * 1024
FIELD_LIMIT = 256
PROFILE_LIMIT = 8 * 1024
BATCH_LIMIT = 256
BATCH_BYTES = 4 * 1024 * 1024
K_DEFAULT = 5
K_LIMIT = 20
ANSWER_LIMIT = 64 * 1024
LIST_LIMIT = 1000
TEXTS_LIMIT = 1024 * 1024
WITHOUT_LIMIT = 1024
TAG_LIMIT = 64
TAGS_LIMIT = 16
META_LIMIT = 2 * 1024
META_DEPTH = 8
DOCUMENT_LIMIT = 64 * 1024
KEY_LIMIT = 256
HISTORY_LIMIT = 10
HISTORY_BYTES = 256 * 1024

DEFAULT_NAMESPACES = ("personal", "family", "work", "travel")
"""The namespaces of a new vault, most sensitive first."""

_SEGMENT = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_NAMESPACE = re.compile(r"[a-z][a-z0-9-]{0,31}")
_LINE_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ID_LENGTH = 26
_ID_BYTES = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LINK_ID = re.compile(r"[0-9a-f]{64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DEED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/@+-]{0,63}")
_INTEGERS = range(-(2**63), 2**63)
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_ENCODED = "h+"
_ACTOR_LIMIT = 512
_MADE_OF_MARKS = frozenset("\u0f73\u0f75\u0f81")  # not marks themselves, but they decompose into marks alone
_MARKS = 30  # the most on one character in Unicode's Stream-Safe Text Format
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_KINDS = {str(kind): kind for kind in Kind}
_LAST_TIME = 253_402_300_799_000  # the end of year 9999, where datetime ends


def actor(text: str) -> Actor:
    """Check an actor path: segments joined by `/`."""
    if not isinstance(text, str) or len(text) > _ACTOR_LIMIT or not all(map(_is_segment, text.split("/"))):
        raise InvalidRequest(
            "an actor must be a path of segments such as local/alice, each of at most 64 characters a-z 0-9 . _ @ + -",
            hint="make the path with strongroom.actor_path(...), which encodes any other text",
        )
    return Actor(text)


def actor_scope(text: str) -> ActorScope:
    """Check a scope: the common beginning of several actors' paths, such as `hermes/default/`. It ends with a /."""
    if not isinstance(text, str) or not text.endswith("/"):
        raise InvalidRequest("an actor scope must be a prefix that ends with /, such as hermes/default/")
    return ActorScope(actor(text[:-1]) + "/")


def actor_path(*segments: str) -> Actor:
    """Build an actor from any texts. A text that is no valid segment is replaced by its hash."""
    return actor("/".join(map(_encode_segment, segments)))


def _is_segment(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None


def _encode_segment(text: str) -> str:
    # A text that looks like our encoding is encoded too, so that no two texts share a segment.
    if _is_segment(text) and not text.startswith(_ENCODED):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return _ENCODED + digest[:40]


def is_namespace(text: object) -> bool:
    """Whether a value has the form of the name of a namespace."""
    return isinstance(text, str) and _NAMESPACE.fullmatch(text) is not None


def namespace(text: str) -> Namespace:
    """Check a namespace name."""
    if not is_namespace(text := plain(text)):
        raise InvalidRequest(
            "a namespace must be a name such as travel: a letter a-z, and at most 31 more characters a-z 0-9 -"
        )
    return Namespace(text)


def line_id(text: str) -> LineId:
    """Check a line id, which is a ULID of 26 upper-case characters (Crockford's base 32)."""
    if not _LINE_ID.fullmatch(text := plain(text)):
        raise InvalidRequest("a line id must be a ULID: 26 characters such as 01JABCDEFGHJKMNPQRSTVWXYZ0")
    return LineId(text)


def line_ids(texts: Collection[str]) -> frozenset[LineId]:
    """Check many line ids. They are checked together, which is fast, and one by one only if one of them is invalid."""
    if {str}.issuperset(map(type, texts)) and {_ID_LENGTH}.issuperset(map(len, texts)):
        joined = "".join(texts)
        if (
            joined.isascii()
            and not joined.encode().translate(None, _ID_BYTES)
            and not joined[::_ID_LENGTH].strip("01234567")
        ):
            return frozenset(cast("Collection[LineId]", texts))
    return frozenset(map(line_id, texts))


def link_id(text: str) -> LinkId:
    """Check a link id: the SHA-256 of a cap's link, in hex."""
    if not _LINK_ID.fullmatch(text := plain(text)):
        raise InvalidRequest("a link id must be 64 hex digits; vault.caps() lists the link ids of caps")
    return LinkId(text)


def clean_text(text: str, *, limit: int = LINE_LIMIT, what: str = "a line") -> str:
    """Return `text` in NFC. Raises for a text that is too large, has control characters, or is not Unicode."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{what} must be text", hint="decode bytes as UTF-8 first")
    text = str.__str__(text)
    if len(text) <= 4 * limit:  # NFC can shorten a text, by four characters to one at most
        if _REFUSED.search(text):
            raise InvalidRequest(
                f"{what} holds a control character or a lone surrogate",
                hint="of the control characters, only newline and tab are allowed; turn CR LF into LF",
            )
        text = text if text.isascii() else _composed(text, what)
        if len(text) * 4 <= limit or len(text.encode()) <= limit:
            return text
    raise LineTooLarge(f"{what} is larger than {limit} bytes", hint="split the text")


def _composed(text: str, what: str) -> str:
    """The text in NFC. Too many combining marks on one character are refused, because NFC takes quadratic time then."""
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) or character in _MADE_OF_MARKS else 0
        if run > _MARKS:
            raise InvalidRequest(f"{what} has more than {_MARKS} combining marks on one character")
    return unicodedata.normalize("NFC", text)


def clean_line(new: NewLine, session: str) -> tuple[Kind, str, str, str, LineDetails | None]:
    """Check a line from outside. Returns its kind, session, author, text in NFC, and details.

    `session` is used if the line names no session.
    """
    if (found := kind(new.kind)) == Kind.DOCUMENT:
        raise InvalidRequest("a new line cannot have the kind `document`", hint="write documents with write_document")
    return (
        found,
        clean_field(session if new.session is None else new.session, "a session"),
        clean_field(new.author, "an author"),
        clean_text(new.text),
        clean_details(new),
    )


def clean_details(new: NewLine) -> LineDetails | None:
    """Check the details of a line from outside, and return them. None for a line without details."""
    if not (new.tags or new.meta or new.turn) and new.expires is None:
        return None
    return LineDetails(
        critical=() if new.expires is None else ("expires",),
        tags=clean_tags(new.tags),
        meta={} if new.meta is None else clean_meta(new.meta),
        expires=None if new.expires is None else millis(new.expires),
        turn=clean_field(new.turn, "a turn"),
    )


def clean_tags(tags: Collection[str]) -> tuple[str, ...]:
    """Check tags, and return them in order, each once. A tag that is empty, too long or has line breaks is refused."""
    if isinstance(tags, str) or not isinstance(tags, Collection):
        raise InvalidRequest("tags must be a list of strings, not one string or another value")
    if len(tags) > TAGS_LIMIT:
        raise TooMany(f"a line has at most {TAGS_LIMIT} tags")
    found = {clean_field(tag, "a tag") for tag in tags}
    if any(not tag.strip() or len(tag) > TAG_LIMIT for tag in found):
        raise InvalidRequest(f"a tag must have 1 to {TAG_LIMIT} characters")
    return tuple(sorted(found))


def clean_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Check a JSON object, and return a copy. Refuses an object that is too large or too deep, or not valid as JSON."""
    if not isinstance(meta, Mapping):
        raise InvalidRequest("meta must be a JSON object")
    copy: dict[str, Any] = _clean_value(meta, META_DEPTH)
    if len(msgspec.json.encode(copy)) > META_LIMIT:
        raise LineTooLarge(f"meta is larger than {META_LIMIT} bytes as JSON", hint="store long texts as lines")
    return copy


def _clean_value(value: object, depth: int) -> Any:
    """A checked copy of one JSON value, made of plain Python types."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value, limit=META_LIMIT, what="a text in meta")
    if isinstance(value, int) and int(value) in _INTEGERS:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping | list | tuple):
        if not depth or len(value) > META_LIMIT:
            raise InvalidRequest(f"meta may be nested at most {META_DEPTH} deep, and have at most {META_LIMIT} bytes")
        if not isinstance(value, Mapping):
            return [_clean_value(one, depth - 1) for one in value]
        copy = {clean_field(key, "a key of meta"): _clean_value(one, depth - 1) for key, one in value.items()}
        if len(copy) < len(value):
            raise InvalidRequest("two keys of meta are equal once normalised to NFC", hint="send each key once, in NFC")
        return copy
    raise InvalidRequest(
        "meta holds a value that JSON does not have",
        hint="use strings, whole numbers of 64 bits, finite numbers, true, false, null, lists and objects",
    )


def document_key(text: str) -> str:
    """Check the key of a document, a path of segments such as notes/2026/trip.md, and return it in NFC."""
    key = clean_field(plain(text), "a document's key")
    if len(key.encode()) > KEY_LIMIT:
        raise InvalidRequest(f"a document's key must have at most {KEY_LIMIT} bytes")
    if any(segment in ("", ".", "..") for segment in key.split("/")) or key != key.strip():
        raise InvalidRequest(
            "a document's key must be a path such as notes/2026/trip.md, without empty, `.` or `..` segments",
            hint="the key must not begin or end with a / or a space",
        )
    return key


def plain(text: str) -> str:
    """The value as a plain `str`. A subclass of `str` could show the checks another text than the stored text."""
    if not isinstance(text, str):
        raise InvalidRequest("a name or id must be a string")
    return str.__str__(text)


def clean_field(text: str, what: str) -> str:
    """Check a short metadata field, and return it in NFC. A text that is too long or has line breaks is refused."""
    if not isinstance(text, str) or len(text := str.__str__(text)) > FIELD_LIMIT:
        raise InvalidRequest(f"{what} must be text of at most {FIELD_LIMIT} characters")
    if text.isascii() and text.isprintable():
        return text  # printable ASCII is in NFC already
    if "\n" in text or "\t" in text:
        raise InvalidRequest(f"{what} must be one line without tabs")
    return clean_text(text, limit=4 * FIELD_LIMIT, what=what)


def deed(text: str) -> str:
    """Check the name of an action outside the vault. It must be a short name: the log keeps it unencrypted for ever."""
    if not _DEED.fullmatch(text := plain(text)):
        raise InvalidRequest(
            "`what` must be a name, such as the name of a tool, of 1 to 64 letters, digits and . _ : / @ + -"
        )
    return text


def digest(text: str) -> str:
    """Check a SHA-256 digest in hex."""
    if not _DIGEST.fullmatch(text := plain(text)):
        raise InvalidRequest("a digest must be 64 hex digits in lower case", hint="hashlib.sha256(...).hexdigest()")
    return text


def kind(text: str) -> Kind:
    """Check the kind of a line."""
    try:
        return _KINDS[text]
    except (KeyError, TypeError):
        raise InvalidRequest(f"a kind must be one of {', '.join(Kind)}") from None


def millis(moment: datetime) -> Millis:
    """Convert a datetime with a time zone into milliseconds since 1970."""
    if isinstance(moment, timedelta | int | float):
        raise InvalidRequest(
            "a time must be a datetime with a time zone, not a duration or a number",
            hint="for a time from now on, use datetime.now(timezone.utc) + timedelta(...)",
        )
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidRequest(
            "a time must be a datetime with a time zone",
            hint="add a zone such as Z or +02:00; in Python, use datetime.now(timezone.utc)",
        )
    value = round(moment.timestamp() * 1000)
    if not 0 <= value <= _LAST_TIME:
        raise InvalidRequest("a time must be between 1970 and 9999")
    return Millis(value)


def moment(value: Millis) -> datetime:
    """Convert milliseconds since 1970 into a UTC datetime."""
    return _EPOCH + value * _MILLISECOND


class LineIds:
    """Makes line ids (ULIDs) that increase even within one millisecond, so that a batch keeps its order.

    Use one object for each namespace. With a shared counter, ids in one namespace would reveal activity in another.
    """

    def __init__(self, random: Callable[[int], bytes]) -> None:
        self._random = random
        self._last = 0

    def new(self, now: Millis) -> LineId:
        """A new id for the time `now`. Concurrent calls on one object are not allowed."""
        stamp = now << 80
        # The top random bit stays 0, so that counting up cannot change the time in the id.
        value = stamp | int.from_bytes(self._random(10), "big") >> 1
        if self._last >> 80 == now:
            value = self._last + 1
        self._last = value
        return LineId(str(ULID.from_int(value)))


def pluralize(count: int, noun: str) -> str:
    """A count with its noun, such as `1 line` or `2 lines`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
