"""The format of an archive: JSON Lines with a header, and an end record with counts and a hash (docs/spec/archive.md).

All functions are pure. `unpack` checks the whole archive before it returns any part: the hash, the counts, and each
line and document by the rules of a write.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from strongroom import model
from strongroom.errors import BodyTooLarge, InvalidRequest, StrongroomError, Tampered
from strongroom.model import Kind, LineId, Millis, Namespace, Provenance
from strongroom.strict_json import check_unique_keys

FORMAT = "strongroom-archive"
VERSION = 1
DETAILED = 2
"""The version of an archive in which a line has tags, meta, an expiry or a turn.

A reader of version 1 refuses such an archive because of its version.
"""
DOCUMENTED = 3
"""The version of an archive with a document. A reader of 1 or 2 refuses it by name."""

ARCHIVE_LIMIT = 512 * 1024 * 1024
"""The size of the largest archive in bytes.

An archive is held in memory, since all of it is checked before any part is used.
"""


class Header(msgspec.Struct, tag="header", tag_field="record", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The header: the format, and the vault, actor and time of the export.

    These are only shown to people: nothing is decided by them.
    """

    format: str = FORMAT
    v: int = VERSION
    vault: str
    actor: str
    exported: Millis


class ArchivedLine(
    msgspec.Struct,
    tag="line",
    tag_field="record",
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
):
    """One line with its original provenance. An imported line gets the importing cap's provenance instead.

    The fields with a default are in a record only if the line has them, and only in an archive of version 2.
    """

    id: LineId
    time: Millis
    kind: Kind
    namespace: Namespace
    session: str
    author: str
    text: str
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: Millis | None = None
    turn: str = ""

    @property
    def is_detailed(self) -> bool:
        """Whether the line has a field that archives of version 1 do not have."""
        return bool(self.tags or self.meta or self.turn) or self.expires is not None


class ArchivedProfile(
    msgspec.Struct, tag="profile", tag_field="record", frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """The profile of one namespace, as a record of an archive."""

    namespace: Namespace
    text: str


class ArchivedDocument(
    msgspec.Struct,
    tag="document",
    tag_field="record",
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
):
    """The present version of a document; `provenance.recorded` is when it was written. Only in an archive of version 3.

    Earlier versions stay behind. An imported document gets a version and a provenance of its own.
    """

    key: str
    namespace: Namespace
    version: LineId
    text: str
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: Millis | None = None


class _End(
    msgspec.Struct,
    tag="end",
    tag_field="record",
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
):
    """The counts. `documents` is there only if there are any."""

    lines: int
    profiles: int
    documents: int = 0
    sha256: str


_Record = Header | ArchivedLine | ArchivedProfile | ArchivedDocument | _End
"""One record: one line of the archive file."""


class Archive(msgspec.Struct, frozen=True):
    """A decoded archive. Lines are ordered by id and then namespace, profiles by namespace.

    Documents are ordered by key and then namespace.
    """

    header: Header
    lines: tuple[ArchivedLine, ...]
    profiles: tuple[ArchivedProfile, ...] = ()
    documents: tuple[ArchivedDocument, ...] = ()

    @property
    def namespaces(self) -> set[Namespace]:
        """Every namespace that something in it is of."""
        found = {line.namespace for line in self.lines} | {profile.namespace for profile in self.profiles}
        return found | {document.namespace for document in self.documents}


_START = b'{"record":"header","format":"strongroom-archive",'
_decoder: msgspec.json.Decoder[_Record] = msgspec.json.Decoder(_Record)
_encode = msgspec.json.Encoder().encode


def pack(archive: Archive) -> bytes:
    """Encode an archive. Raises `BodyTooLarge` above the limit.

    The version depends on the content: an archive without documents and without details (tags, meta, expiry, turn) has
    version 1, which every version of Strongroom reads.
    """
    lines = sorted(archive.lines, key=_place)
    profiles = sorted(archive.profiles, key=lambda one: one.namespace)
    documents = sorted(archive.documents, key=_document_place)
    header = msgspec.structs.replace(archive.header, v=_version(lines, documents))
    body = _joined([header, *lines, *profiles, *documents])
    end = _End(
        lines=len(lines),
        profiles=len(profiles),
        documents=len(documents),
        sha256=hashlib.sha256(body).hexdigest(),
    )
    if len(body) > ARCHIVE_LIMIT - 256:
        raise BodyTooLarge(f"an archive is at most {ARCHIVE_LIMIT} bytes", hint="export one namespace at a time")
    return body + _joined([end])


def _version(lines: Iterable[ArchivedLine], documents: Collection[ArchivedDocument]) -> int:
    if documents:
        return DOCUMENTED
    return DETAILED if any(line.is_detailed for line in lines) else VERSION


def _joined(records: Iterable[_Record]) -> bytes:
    return b"".join(_encode(record) + b"\n" for record in records)


def unpack(data: bytes) -> Archive:
    """Check a whole archive and decode it.

    Raises `InvalidRequest` if the bytes are not an archive or have a newer format, and `Tampered` if the archive was
    cut or edited.
    """
    if len(data) > ARCHIVE_LIMIT:
        raise BodyTooLarge(f"an archive is at most {ARCHIVE_LIMIT} bytes")
    header = _header(data)
    body, last = _parted(data)
    end = _record(last, 0)
    if not isinstance(end, _End) or hashlib.sha256(body).hexdigest() != end.sha256:
        raise _damaged()
    records = [_record(text, number) for number, text in enumerate(body.split(b"\n")[1:-1], start=2)]
    lines = tuple(
        _checked(one, at, header.v) for at, one in enumerate(records, start=2) if isinstance(one, ArchivedLine)
    )
    profiles = tuple(
        _checked_profile(one, at) for at, one in enumerate(records, start=2) if isinstance(one, ArchivedProfile)
    )
    documents = tuple(
        _checked_document(one, at, header.v)
        for at, one in enumerate(records, start=2)
        if isinstance(one, ArchivedDocument)
    )
    counts = (len(lines), len(profiles), len(documents))
    if counts != (end.lines, end.profiles, end.documents) or records != [*lines, *profiles, *documents]:
        raise Tampered(
            "the archive's contents do not match the counts at its end", hint="use another copy of the archive"
        )
    _check_order([_place(line) for line in lines])
    _check_order([(profile.namespace, "") for profile in profiles])
    _check_order([_document_place(document) for document in documents])
    return Archive(header, lines, profiles, documents)


def _header(data: bytes) -> Header:
    """Decode the header, which is the first line.

    The header is decoded before the rest, to tell a newer format from a damaged file.
    """
    if not data.startswith(_START):
        raise InvalidRequest("the file is not a strongroom archive", hint="name a file that `strongroom export` wrote")
    found = _record(data[: data.find(b"\n") if b"\n" in data else len(data)], 1)
    if not isinstance(found, Header):
        raise _damaged()
    if found.v not in (VERSION, DETAILED, DOCUMENTED):
        raise InvalidRequest(
            f"the archive has format {found.v}, but this version of strongroom reads only up to {DOCUMENTED}",
            hint="install a newer strongroom",
        )
    _check_header(found)
    return found


def _check_header(header: Header) -> None:
    """Check the fields of a header. They are shown to people, so they must be valid."""
    try:
        model.actor(header.actor)
        model.millis(model.moment(header.exported))
    except (StrongroomError, OverflowError) as error:
        raise _unfit(error, 1) from None
    if not re.fullmatch(r"[0-9a-f]{16}", header.vault):
        raise InvalidRequest("line 1 of the archive has no valid vault id")


def _parted(data: bytes) -> tuple[bytes, bytes]:
    """Split an archive into the part that its hash covers, and the last line."""
    if not data.endswith(b"\n"):
        raise _damaged()
    cut = data.rfind(b"\n", 0, len(data) - 1) + 1
    return data[:cut], data[cut:-1]


def _record(text: bytes, number: int) -> _Record:
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Tampered(
            "the archive was cut or edited" if not number else f"line {number} of the archive cannot be decoded",
            hint="use another copy of the archive",
        ) from None
    check_unique_keys(text)
    return found


def _damaged() -> Tampered:
    return Tampered("the archive was cut or edited", hint="use another copy of the archive")


def _checked(line: ArchivedLine, number: int, version: int) -> ArchivedLine:
    """Return the line if a put would accept it. Otherwise raises `InvalidRequest`."""
    try:
        model.line_id(line.id)
        model.namespace(line.namespace)
        model.millis(model.moment(line.time))
        model.clean_field(line.session, "a session")
        model.clean_field(line.author, "an author")
        model.clean_text(line.text)
        if not line.text.strip():
            raise InvalidRequest("a line needs some text")
        if line.is_detailed:
            _check_details(line, version)
    except (StrongroomError, OverflowError) as error:
        raise _unfit(error, number) from None
    return line


def _check_details(line: ArchivedLine, version: int) -> None:
    if version < DETAILED:
        raise InvalidRequest(f"the line has fields that format {version} does not have")
    model.clean_tags(line.tags)
    model.clean_meta(line.meta or {})
    model.clean_field(line.turn, "a turn")
    if line.expires is not None:
        model.millis(model.moment(line.expires))


def _checked_profile(profile: ArchivedProfile, number: int) -> ArchivedProfile:
    try:
        model.namespace(profile.namespace)
        model.clean_text(profile.text, limit=model.PROFILE_LIMIT, what="a profile")
    except StrongroomError as error:
        raise _unfit(error, number) from None
    return profile


def _checked_document(document: ArchivedDocument, number: int, version: int) -> ArchivedDocument:
    """Return the document if a write would accept it. Raises `InvalidRequest` otherwise."""
    try:
        if version < DOCUMENTED:
            raise InvalidRequest(f"it is a document, and format {version} has none")
        model.line_id(document.version)
        model.namespace(document.namespace)
        if model.document_key(document.key) != document.key:
            raise InvalidRequest("a document's key is in NFC")
        model.clean_text(document.text, limit=model.DOCUMENT_LIMIT, what="a document")
        if not document.text.strip():
            raise InvalidRequest("a document needs some text")
        model.millis(model.moment(document.provenance.recorded))
        model.clean_tags(document.tags)
        model.clean_meta(document.meta or {})
        if document.expires is not None:
            model.millis(model.moment(document.expires))
    except (StrongroomError, OverflowError) as error:
        raise _unfit(error, number) from None
    return document


def _unfit(error: Exception, number: int) -> InvalidRequest:
    said = error.message if isinstance(error, StrongroomError) else "a time must be between 1970 and 9999"
    return InvalidRequest(f"line {number} of the archive cannot be put: {said}")


def _check_order(places: list[tuple[str, str]]) -> None:
    if any(one >= other for one, other in pairwise(places)):
        raise Tampered("the archive's lines are out of order or repeated", hint="use another copy of the archive")


def _place(line: ArchivedLine) -> tuple[str, str]:
    return line.id, line.namespace


def _document_place(document: ArchivedDocument) -> tuple[str, str]:
    return document.key, document.namespace
