"""The methods of a memory for documents: named, versioned texts in a namespace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from strongroom import api
from strongroom.memory.memory_handle import MemoryHandle
from strongroom.model import Document, DocumentPage, Forgotten


class DocumentMethods(MemoryHandle):
    """The methods of a memory that read and write documents.

    `namespace` may be left out if the cap covers only one namespace.
    """

    def document(self, key: str, *, namespace: str | None = None) -> Document:
        """The present version of the document at `key`. Raises LineNotFound if there is no such document."""
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
        unused: bool = False,
    ) -> Document:
        """Write a document if its present version is `version`; otherwise raise VersionConflict.

        `version` is "" for a document that does not exist yet. `key` is a path such as `notes/2026/trip.md`, and `text`
        has at most 64 KiB. Tags, meta and expiry belong to the new version only. Up to ten earlier versions are kept
        (`document_history`). With `unused`, VersionConflict is also raised for a key that had a document before it was
        deleted or renamed.
        """
        call = api.WriteDocument(
            key=key,
            text=text,
            namespace=namespace,
            version=version,
            tags=(tags,) if isinstance(tags, str) else tuple(tags),
            meta=meta,
            expires=expires,
            unused=unused,
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
        """List the documents whose keys begin with `prefix`, in the order of their keys, without texts.

        Returns one page. For the next page, pass the `next` of this page as `after`.
        """
        names = (namespaces,) if isinstance(namespaces, str) else None if namespaces is None else tuple(namespaces)
        return self._door.call(api.ListDocuments(prefix=prefix, namespaces=names, limit=limit, after=after))

    def delete_document(self, key: str, *, namespace: str | None = None, version: str | None = None) -> Forgotten:
        """Delete a document with all of its versions.

        If `version` is given, it must be the document's present version; otherwise the call raises VersionConflict. The
        answer names the version that was deleted, or no version if there was no document. The key can be used again.
        """
        return self._door.call(api.DeleteDocument(key=key, namespace=namespace, version=version))

    def rename_document(
        self, key: str, new_key: str, *, namespace: str | None = None, version: str | None = None
    ) -> Document:
        """Give a document another key, together with its history.

        Raises VersionConflict if there is a document at `new_key`, or if `version` is given and is not the present
        version. On SQLite, a crash leaves the document either renamed or not renamed. In a bucket, a crash may leave
        the document under both keys: repeat the call to complete the renaming.
        """
        call = api.RenameDocument(key=key, new_key=new_key, version=version, namespace=namespace)
        return self._door.call(call)

    def document_history(self, key: str, *, namespace: str | None = None) -> list[Document]:
        """The versions of a document, newest first: the present one, and up to ten (256 KiB) before it."""
        return list(self._door.call(api.ReadDocumentHistory(key=key, namespace=namespace)).versions)
