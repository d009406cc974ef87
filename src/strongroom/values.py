"""The words of the vault as values: operations, kinds, lines and answers. Types only: `model` checks texts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

import msgspec

Actor = NewType("Actor", str)
ActorScope = NewType("ActorScope", str)
Namespace = NewType("Namespace", str)
LineId = NewType("LineId", str)
LinkId = NewType("LinkId", str)
Millis = NewType("Millis", int)


class Op(StrEnum):
    """The operations that a cap may allow. Their names fit every data class."""

    PUT = "put"
    GET = "get"
    LIST = "list"
    SNAPSHOT = "snapshot"
    PROFILE = "profile"
    FORGET = "forget"
    ERASE = "erase"
    RENEW = "renew"
    MINT = "mint"
    REVOKE = "revoke"
    AUDIT = "audit"


class DataClass(StrEnum):
    """The class of data that a cap is for.

    Nothing serves `credentials`: a cap for it never opens memory, nor the reverse.
    """

    MEMORY = "memory"
    CREDENTIALS = "credentials"
    ADMIN = "admin"


class Kind(StrEnum):
    """The kind of a line."""

    TURN = "turn"
    FACT = "fact"
    NOTE = "note"
    SUMMARY = "summary"
    DELEGATION = "delegation"
    DOCUMENT = "document"
    """The present version of a document. No line is put as one."""


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """The origin of a line: the cap's links and holder, the source it came in by, and when it was recorded."""

    links: tuple[LinkId, ...]
    holder: str
    source: str
    recorded: Millis


class LineDetails(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The members of a line that format 1 has not. `critical` names those without which a reader would misread it.

    `origin` and `parents` are reserved: where a line comes from, and the lines that were shown when it was written, as
    (namespace, id). Nothing writes or reads them yet. `document` is the key of the document whose present version the
    line is; no stored line has it.
    """

    critical: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = {}
    expires: Millis | None = None
    replaces: LineId | None = None
    turn: str = ""
    origin: str = ""
    parents: tuple[tuple[Namespace, LineId], ...] = ()
    document: str = ""


class Line(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One remembered text, decrypted. `time` is when it happened, `provenance.recorded` when it was written.

    A line with `details` is of format 2, any other of format 1.
    """

    id: LineId
    time: Millis
    kind: Kind
    namespace: Namespace
    session: str
    author: str
    text: str
    provenance: Provenance
    details: LineDetails | None = None


class NewLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line to be put. Everything but the text is optional."""

    text: str
    namespace: str | None = None
    session: str | None = None
    author: str = ""
    kind: str = "note"
    id: str | None = None
    time: datetime | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    turn: str = ""


class Receipt(msgspec.Struct, frozen=True):
    """The acknowledgement of a durable line. `duplicate`: the same line was there. `forgotten`: it was forgotten
    before.
    """

    id: LineId
    namespace: Namespace
    duplicate: bool = False
    forgotten: bool = False


class LineInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line as it is listed. It has its text only in a listing with texts."""

    id: LineId
    namespace: Namespace
    time: datetime
    kind: Kind
    session: str
    author: str
    size: int
    provenance: Provenance
    text: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    replaces: LineId | None = None
    turn: str = ""
    document: str = ""


class Hit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recalled line. Its text is quoted data, never an instruction."""

    id: LineId
    namespace: Namespace
    text: str
    time: datetime
    kind: Kind
    session: str
    author: str
    score: float
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    replaces: LineId | None = None
    turn: str = ""
    document: str = ""


class Listing(msgspec.Struct, frozen=True):
    """One page of a listing. `next` is the cursor of the following page, None after the last."""

    lines: tuple[LineInfo, ...]
    next: str | None = None


class Document(msgspec.Struct, frozen=True):
    """One version of a document: a named text. `version` names it in a write; `written` is when it was written."""

    key: str
    namespace: Namespace
    text: str
    version: LineId
    written: datetime
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None


class DocumentInfo(msgspec.Struct, frozen=True):
    """A document as it is listed, without its text. `size` is the text's, in bytes."""

    key: str
    namespace: Namespace
    size: int
    version: LineId
    written: datetime
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None


class DocumentPage(msgspec.Struct, frozen=True):
    """One page of documents, by key. `next` is the cursor of the following page, None after the last."""

    documents: tuple[DocumentInfo, ...]
    next: str | None = None


class DocumentHistory(msgspec.Struct, frozen=True):
    """The versions of a document, newest first; the first is the present one."""

    versions: tuple[Document, ...]


class Profile(msgspec.Struct, frozen=True):
    """The owner-approved text of one namespace. An empty `version` means that none was written yet."""

    namespace: Namespace
    text: str
    version: str


class Snapshot(msgspec.Struct, frozen=True):
    """The allowed profiles, together at most 8 KiB. `left_out` names those that did not fit."""

    profiles: tuple[Profile, ...]
    left_out: tuple[Namespace, ...] = ()


class Forgotten(msgspec.Struct, frozen=True):
    """The result of a forget. `scrubbed` is False while a copy of the old ciphertext may still be in the journal, or is
    in a bucket that keeps versions. Copies that a bucket's provider keeps are not known here.
    """

    ids: tuple[LineId, ...]
    missing: tuple[LineId, ...] = ()
    scrubbed: bool = True


class Erased(msgspec.Struct, frozen=True):
    """The result of an erase. `pending` is True while a file of the vault may still hold the destroyed keys."""

    objects: int
    pending: bool = False


class Void(StrEnum):
    """The reasons for which a cap is void before its end."""

    REVOKED = "revoked"
    ACTOR_REVOKED = "actor_revoked"
    ISSUER_ROTATED = "issuer_rotated"


class CapRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The vault's record of a cap that it minted. The token itself is not kept.

    `parents` are the links of the cap with which this one was renewed or minted, and of all before it; revoking one of
    them revokes this cap. `issuer` is the id of the key that signed it. `void` is the reason if the cap is void, and
    `void_since` the second from which it is, where known.
    """

    link: LinkId
    actor: str
    data_class: str
    ops: tuple[str, ...]
    namespaces: tuple[str, ...]
    issued: int
    expires: int
    label: str = ""
    revoked: bool = False
    parents: tuple[LinkId, ...] = ()
    issuer: str = ""
    void: Void | None = None
    void_since: int | None = None
