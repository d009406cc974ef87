"""The calls to documents: named, versioned texts in a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from strongroom.api.call import Call, Names
from strongroom.model import Document, DocumentHistory, DocumentPage, Forgotten, Op


class ReadDocument(Call[Document], frozen=True, kw_only=True):
    """Read the present version of a document."""

    op = Op.GET
    answer = Document
    path = "/v1/documents/read"
    key: str
    namespace: str | None = None


class WriteDocument(Call[Document], frozen=True, kw_only=True):
    """Write a document that is still at `version` (compare-and-swap). An empty `version`: it must not exist yet.

    With `unused`, the key must never have had a document, not even one that was deleted.
    """

    op = Op.PUT
    answer = Document
    path = "/v1/documents/write"
    key: str
    text: str
    namespace: str | None = None
    version: str = ""
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    unused: bool = False


class ListDocuments(Call[DocumentPage], frozen=True, kw_only=True):
    """Read one page of documents in the order of their keys, without their texts."""

    op = Op.LIST
    answer = DocumentPage
    path = "/v1/documents/list"
    prefix: str = ""
    namespaces: Names = None
    limit: int = 100
    after: str | None = None


class DeleteDocument(Call[Forgotten], frozen=True, kw_only=True):
    """Delete a document with all of its versions. If `version` is given, the document must still be at that version."""

    op = Op.FORGET
    answer = Forgotten
    path = "/v1/documents/delete"
    key: str
    namespace: str | None = None
    version: str | None = None


class RenameDocument(Call[Document], frozen=True, kw_only=True):
    """Give a document another key, and keep its earlier versions. The cap must also allow `put`.

    If `version` is given, the document must still be at that version.
    """

    op = Op.FORGET
    answer = Document
    path = "/v1/documents/rename"
    key: str
    new_key: str
    namespace: str | None = None
    version: str | None = None


class ReadDocumentHistory(Call[DocumentHistory], frozen=True, kw_only=True):
    """Read the versions of a document with their texts, newest first. The cap's `max_k` limits their number."""

    op = Op.GET
    answer = DocumentHistory
    path = "/v1/documents/history"
    key: str
    namespace: str | None = None
