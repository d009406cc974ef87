"""Read documents from a memory for an archive, and write those of an archive into one, only through `Memory`.

An import never overwrites a document, and revives none that was deleted: it writes only under a key that was never
used. So it can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from strongroom import model
from strongroom.archive.archive_format import ArchivedDocument
from strongroom.archive.import_result import ImportResult
from strongroom.errors import InvalidRequest, LineNotFound, VersionConflict
from strongroom.memory import Memory
from strongroom.model import Document, DocumentInfo, Millis, Namespace

Named = Callable[[str], Namespace]
Tell = Callable[[], None]


def list_documents(memory: Memory, namespaces: Collection[str] | None) -> Iterator[DocumentInfo]:
    """Every document that the cap lists; none at a server that does not know documents yet."""
    after: str | None = None
    while True:
        try:
            page = memory.documents(namespaces=namespaces, limit=model.LIST_LIMIT, after=after)
        except LineNotFound:  # the server has no such route
            return
        yield from page.documents
        if page.next is None:
            return
        after = page.next


def read_documents(memory: Memory, known: Iterable[DocumentInfo], tell: Tell) -> Iterator[ArchivedDocument]:
    """The present versions of these documents, without those deleted since they were listed."""
    for info in known:
        found = _read(memory, info.key, info.namespace)
        if found is not None:
            yield _archived(found)
        tell()


def write_documents(
    memory: Memory,
    documents: Iterable[ArchivedDocument],
    names: Named,
    now: Millis | None,
    result: ImportResult,
    tell: Tell,
) -> None:
    """Write documents, counting into `result`. One that has expired, at `now` or for the vault, is skipped."""
    for document in documents:
        _take_in(memory, document, names(document.namespace), now, result)
        tell()


def _take_in(
    memory: Memory, document: ArchivedDocument, namespace: Namespace, now: Millis | None, result: ImportResult
) -> None:
    if now is not None and document.expires is not None and document.expires <= now:
        result.documents_expired += 1
        return
    held = _read(memory, document.key, namespace)
    if held is None:
        try:
            _write(memory, document, namespace)
        except VersionConflict:  # the key is not unused; or another write came first
            held = _read(memory, document.key, namespace)
            result.documents_forgotten += held is None
        except InvalidRequest:
            # It was checked when the archive was read: all that a write can still find wrong is its expiry.
            if document.expires is None:
                raise
            result.documents_expired += 1
        else:
            result.documents_put += 1
    if held is not None and _content(_archived(held)) == _content(document):
        result.documents_there += 1
    elif held is not None:
        result.document_conflicts.append((namespace, document.key))


def _read(memory: Memory, key: str, namespace: Namespace) -> Document | None:
    try:
        return memory.document(key, namespace=namespace)
    except LineNotFound:
        return None


def _write(memory: Memory, document: ArchivedDocument, namespace: Namespace) -> None:
    memory.write_document(
        document.key,
        document.text,
        namespace=namespace,
        tags=document.tags,
        meta=document.meta,
        expires=None if document.expires is None else model.moment(document.expires),
        unused=True,
    )


def _archived(document: Document) -> ArchivedDocument:
    return ArchivedDocument(
        key=document.key,
        namespace=document.namespace,
        version=document.version,
        text=document.text,
        provenance=document.provenance,
        tags=document.tags,
        meta=document.meta,
        expires=None if document.expires is None else model.millis(document.expires),
    )


def _content(document: ArchivedDocument) -> tuple[object, ...]:
    """What makes two documents the same: not their versions and provenance."""
    text = model.clean_text(document.text, limit=model.DOCUMENT_LIMIT, what="a document")
    return text, model.clean_tags(document.tags), model.clean_meta(document.meta or {}), document.expires
