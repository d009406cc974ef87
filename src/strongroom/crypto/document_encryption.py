"""Sealing and opening documents (docs/spec/line.md, section 5). Pure.

A document is one sealed object: its key, its present version, and earlier ones. The context names the object, so that
it opens in no other place, and no line or text can stand in for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from strongroom.crypto.line_encryption import LinePlace, open_padded, seal_padded, sealed_epoch
from strongroom.errors import FormatTooNew, Tampered
from strongroom.model import LineId, Millis, Namespace, Provenance

_KIND = "strongroom/document"
_encode = msgspec.json.Encoder().encode


class DocumentVersion(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One version of a document. `provenance.recorded` is when it was written."""

    version: LineId
    text: str
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = {}
    expires: Millis | None = None


class StoredDocument(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """All that is stored of a document. Without a `present` version it was deleted.

    `earlier` are newest first. `source` is the version that a renaming made the present one from. `critical` names
    members without which a reader would misread it; there are none so far.
    """

    key: str
    namespace: Namespace
    critical: tuple[str, ...] = ()
    present: DocumentVersion | None = None
    earlier: tuple[DocumentVersion, ...] = ()
    source: LineId | None = None


_decode = msgspec.json.Decoder(StoredDocument).decode


def seal_document(
    document: StoredDocument, locator: str, place: LinePlace, epoch: int, key: bytes, salt: bytes
) -> bytes:
    """Seal a document for the object that `locator` names."""
    return seal_padded(_encode(document), place.context(_KIND, locator, epoch), epoch, key, salt)


def open_document(sealed: bytes, locator: str, place: LinePlace, keys: Mapping[int, bytes]) -> StoredDocument:
    """Open the document that the object `locator` holds, or raise Tampered; FormatTooNew for one of a newer version."""
    epoch = sealed_epoch(sealed)
    plain = open_padded(sealed, place.context(_KIND, locator, epoch), keys.get(epoch))
    try:
        document = _decode(plain)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a decrypted document cannot be decoded") from None
    if document.namespace != place.namespace or (document.present is None and document.earlier):
        raise Tampered("a document contradicts its place, or was deleted and has versions")
    if document.critical:
        raise FormatTooNew(
            "a newer version of strongroom wrote a document that this one would misread", hint="install that version"
        )
    return document
