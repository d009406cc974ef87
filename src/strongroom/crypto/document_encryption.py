"""Seals and opens documents (docs/spec/line.md, section 5), without input or output.

A document is one sealed object with its key, its present version and its earlier versions. The encryption binds the
object's name and kind, so the object opens in no other place, and no line or text can replace it.
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
    """One version of a document. `provenance.recorded` is the time when the version was written."""

    version: LineId
    text: str
    provenance: Provenance
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = {}
    expires: Millis | None = None


class StoredDocument(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The stored form of a document. A document without a `present` version was deleted.

    `earlier` has the earlier versions, newest first. If the document was renamed, `source` is the id that its version
    had under the old key. `critical` names members that a reader must understand to read the document correctly; no
    such members exist so far.
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
    """Seal a document. It opens only in the object with the pseudonym `locator`."""
    return seal_padded(_encode(document), place.context(_KIND, locator, epoch), epoch, key, salt)


def open_document(sealed: bytes, locator: str, place: LinePlace, keys: Mapping[int, bytes]) -> StoredDocument:
    """Open the document in the object that `locator` names, or raise Tampered.

    A document of a newer version raises FormatTooNew.
    """
    epoch = sealed_epoch(sealed)
    plain = open_padded(sealed, place.context(_KIND, locator, epoch), keys.get(epoch))
    try:
        document = _decode(plain)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a decrypted document cannot be decoded") from None
    if document.namespace != place.namespace or (document.present is None and document.earlier):
        raise Tampered("a document names another namespace than its place, or has versions although it was deleted")
    if document.critical:
        raise FormatTooNew(
            "a newer version of strongroom wrote a document that this version would misread",
            hint="install the newer version",
        )
    return document
