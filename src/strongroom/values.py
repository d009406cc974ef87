"""The types of the vault's data: operations, kinds, lines and answers. `model` checks texts from outside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NewType

import msgspec

Actor = NewType("Actor", str)
ActorScope = NewType("ActorScope", str)
Namespace = NewType("Namespace", str)
LineId = NewType("LineId", str)
LinkId = NewType("LinkId", str)
Millis = NewType("Millis", int)


class Op(StrEnum):
    """The operations that a cap may allow. The names are the same in every data class."""

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

    No operation serves `credentials` yet. A cap for one class never gives access to another class.
    """

    MEMORY = "memory"
    CREDENTIALS = "credentials"
    ADMIN = "admin"


class Kind(StrEnum):
    """The kinds of lines, such as a fact or a note."""

    TURN = "turn"
    FACT = "fact"
    NOTE = "note"
    SUMMARY = "summary"
    DELEGATION = "delegation"
    DOCUMENT = "document"
    """The present version of a document. No new line may have this kind."""


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """The origin of a line: the links and the holder of the cap, the source of the request, and the time of writing."""

    links: tuple[LinkId, ...]
    holder: str
    source: str
    recorded: Millis


class LineDetails(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The members of a line that exist only in format 2.

    - `critical` names the members that a reader must understand to read the line correctly.
    - `origin` (the source of the line) and `parents` (the lines that were shown when it was written, as (namespace,
      id)) are reserved. No code writes or reads them yet.
    - `document` is the key of a document, if the line is its present version. No stored line has this member.
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
    """One remembered text, decrypted.

    `time` is the time of the remembered event, and `provenance.recorded` the time when the line was written. A line
    with `details` needs format 2; a line without them has format 1.
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
    """A line to be put. All fields except the text are optional."""

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
    """The acknowledgement of a put line.

    `duplicate` is True if the same line was stored already. `forgotten` is True if a line with this id was forgotten
    before, so that nothing was stored.
    """

    id: LineId
    namespace: Namespace
    duplicate: bool = False
    forgotten: bool = False


class LineInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of a listing of lines. It has the text of the line only in a listing with texts."""

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


CERTAIN = 1.0
"""The confidence of a line that no engine has judged.

It is one object, because msgspec omits only the default itself.
"""


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a line was recalled, or would not have been.

    - `signals` has the share of each signal in the score, by the signal's name. It is empty if the engine cannot tell.
    - `rank` is the place of the line in the ranking, from 1 on. It is 0 for a line that is not among the candidates.
    - `cut` is the reason for which a recall without `explain` leaves the line out: "floor" (its confidence is below
      `min_confidence`), "shown" (it is named by `without`), or "budget" (the answer would be too large). It is "" for
      a line that such a recall returns.
    """

    signals: Mapping[str, float]
    rank: int
    cut: Literal["", "floor", "shown", "budget"] = ""


class Hit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recalled line. Its text is data, and never an instruction.

    - `confidence` is how likely the line answers the question, from 0 to 1.
    - `superseded_by` is the id of a later line by the same author that states the same thing anew.
    - `standing` is True for a standing instruction or preference, which is recalled if it fits the kind of question.
    - `why` is there only if the recall was asked to explain.
    """

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
    confidence: float = CERTAIN
    superseded_by: LineId | None = None
    standing: bool = False
    why: Why | None = None


class Listing(msgspec.Struct, frozen=True):
    """One page of a listing of lines. `next` is the cursor of the following page, or None on the last page."""

    lines: tuple[LineInfo, ...]
    next: str | None = None


class Document(msgspec.Struct, frozen=True):
    """One version of a document (a named text).

    `version` is the id of this version, which a later write must give. `written` is the time when it was written.
    """

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
    """An entry of a listing of documents, without the text. `size` is the size of the text in bytes."""

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
    """One page of a listing of documents, in the order of their keys.

    `next` is the cursor of the following page, or None on the last page.
    """

    documents: tuple[DocumentInfo, ...]
    next: str | None = None


class DocumentHistory(msgspec.Struct, frozen=True):
    """The versions of a document, newest first. The first one is the present version."""

    versions: tuple[Document, ...]


class Profile(msgspec.Struct, frozen=True):
    """The text that the owner approved for one namespace. If no profile was written yet, `version` is ""."""

    namespace: Namespace
    text: str
    version: str


class Snapshot(msgspec.Struct, frozen=True):
    """The profiles that a cap covers, together at most 8 KiB.

    `left_out` has the namespaces whose profiles did not fit.
    """

    profiles: tuple[Profile, ...]
    left_out: tuple[Namespace, ...] = ()


class Forgotten(msgspec.Struct, frozen=True):
    """The result of a forget.

    `scrubbed` is False if a copy of the old ciphertext may still be in the database's journal or in a bucket that keeps
    old versions of objects. Copies that the operator of a bucket keeps are not considered.
    """

    ids: tuple[LineId, ...]
    missing: tuple[LineId, ...] = ()
    scrubbed: bool = True


class Erased(msgspec.Struct, frozen=True):
    """The result of an erase. `pending` is True if a file of the vault may still hold the destroyed keys."""

    objects: int
    pending: bool = False


class Void(StrEnum):
    """The reasons for which a cap is void before its end."""

    REVOKED = "revoked"
    ACTOR_REVOKED = "actor_revoked"
    ISSUER_ROTATED = "issuer_rotated"


class CapRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The vault's record of a cap that it minted. The token itself is not stored.

    - `parents` are the links of the cap with which this cap was renewed or minted, and of all caps before that one.
      Revoking one of these links revokes this cap.
    - `issuer` is the id of the key that signed the cap.
    - `void` is the reason if the cap is void. `void_since` is the second since when it is void, if this is known.
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
