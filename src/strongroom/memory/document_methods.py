"""The methods of a memory for documents: named, versioned texts in a namespace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from strongroom import api
from strongroom.memory.memory_handle import MemoryHandle
from strongroom.model import Document, DocumentPage, Forgotten


class DocumentMethods(MemoryHandle):
    """The documents of a memory. `namespace` may be left out if the cap covers only one."""

    def document(self, key: str, *, namespace: str | None = None) -> Document:
        """The present version of the document at `key`. LineNotFound if there is none."""
        return self._door.call(api.ReadDocument(key=key, namespace=namespace))

    def write_document(
        self,
        key: str,
        text: str,
        *,
        namespace: str | None = None,
        version: str = "",
        tags: Collection[str] = (),
        meta: Mapping[str, Any] | None = None,
        expires: datetime | None = None,
    ) -> Document:
        """Write a document if it is still at `version` ("": there is none); otherwise raise VersionConflict.

        `key` is a path such as `notes/2026/trip.md`, `text` has at most 64 KiB. Tags, meta and expiry are those of this
        version. The version before is kept: `document_history` has the last ten.
        """
        call = api.WriteDocument(
            key=key,
            text=text,
            namespace=namespace,
            version=version,
            tags=(tags,) if isinstance(tags, str) else tuple(tags),
            meta=meta,
            expires=expires,
        )
        return self._door.call(call)

    def documents(
        self,
        prefix: str = "",
        *,
        namespaces: Collection[str] | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> DocumentPage:
        """One page of the documents whose keys begin with `prefix`, in the order of their keys, without texts.

        `after` takes the `next` of the page before.
        """
        names = (namespaces,) if isinstance(namespaces, str) else None if namespaces is None else tuple(namespaces)
        return self._door.call(api.ListDocuments(prefix=prefix, namespaces=names, limit=limit, after=after))

    def delete_document(self, key: str, *, namespace: str | None = None, version: str | None = None) -> Forgotten:
        """Delete a document with all of its versions; with `version`, only if it is still at that one.

        The answer names the version that was deleted, or none if there was no document. The key can be used again.
        """
        return self._door.call(api.DeleteDocument(key=key, namespace=namespace, version=version))

    def rename_document(
        self, key: str, new_key: str, *, namespace: str | None = None, version: str | None = None
    ) -> Document:
        """Give a document another key, together with its history; with `version`, only if it is still at that one.

        VersionConflict if it has changed, or if there is a document at `new_key`. On SQLite it is renamed or not,
        whatever crashes. In a bucket, a crash may leave it under both keys; the same call again completes it.
        """
        call = api.RenameDocument(key=key, new_key=new_key, version=version, namespace=namespace)
        return self._door.call(call)

    def document_history(self, key: str, *, namespace: str | None = None) -> list[Document]:
        """The versions of a document, newest first: the present one, and up to ten (256 KiB) before it."""
        return list(self._door.call(api.ReadDocumentHistory(key=key, namespace=namespace)).versions)
