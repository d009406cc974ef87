"""Reads, writes, lists, deletes and renames documents. Every change is a compare-and-swap of one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strongroom import api, model
from strongroom.crypto.document_encryption import DocumentVersion, StoredDocument
from strongroom.crypto.line_encryption import DETAILED
from strongroom.errors import (
    CapLimitExceeded,
    FormatTooOld,
    InvalidRequest,
    LineNotFound,
    StoreUnavailable,
    TooMany,
    VersionConflict,
)
from strongroom.gate import Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.operation import AT_ONCE, Operation, SlowStep
from strongroom.memory.ops.forget import scrub
from strongroom.memory.ops.put import keys_for, only_namespace
from strongroom.memory.stored_documents import (
    DocumentSlot,
    FoundDocument,
    emptied,
    find_document,
    is_over,
    with_version,
    write_effect,
)
from strongroom.model import (
    Document,
    DocumentHistory,
    DocumentInfo,
    DocumentPage,
    Forgotten,
    Line,
    Millis,
    Op,
    Provenance,
)
from strongroom.store import Lost, Version

_TRIES = 64
_LARGE = 16 * 1024
"""Writing a document with more characters than this counts as slow."""


def read_document(clerk: DecisionRecorder, caller: Caller, call: api.ReadDocument) -> Operation[Document]:
    """The present version of a document."""
    grant = yield from clerk.admit(caller, _ask(Op.GET, call.namespace))
    return (yield from clerk.recorded(grant, caller, _read(clerk, grant, caller, call)))


def _read(clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.ReadDocument) -> Operation[Document]:
    slot = _slot(clerk, grant, call.key)
    present = find_document(clerk.state, slot).present(_now(clerk))
    if present is None:
        raise _missing()
    yield from clerk.commit(grant, lines=[present.version], caller=caller, detail="read a document")
    return _document(slot, present)


def _now(clerk: DecisionRecorder) -> Millis:
    """The time by which documents expire: this machine's, or that of the log if it is later."""
    return Millis(max(clerk.now(), clerk.state.store.head().time))


def read_history(clerk: DecisionRecorder, caller: Caller, call: api.ReadDocumentHistory) -> Operation[DocumentHistory]:
    """The versions of a document, newest first."""
    grant = yield from clerk.admit(caller, _ask(Op.GET, call.namespace))
    return (yield from clerk.recorded(grant, caller, _history(clerk, grant, caller, call)))


def _history(
    clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.ReadDocumentHistory
) -> Operation[DocumentHistory]:
    slot = _slot(clerk, grant, call.key)
    found = find_document(clerk.state, slot)
    now = _now(clerk)
    present = found.present(now)
    if present is None:
        raise _missing()
    versions = [present, *(one for one in found.document.earlier if not is_over(one, now))][: grant.max_k]
    read = [version.version for version in versions]
    yield from clerk.commit(grant, lines=read, caller=caller, detail="read the history of a document")
    return DocumentHistory(tuple([_document(slot, version) for version in versions]))


def write_document(clerk: DecisionRecorder, caller: Caller, call: api.WriteDocument) -> Operation[Document]:
    """Write a document if its present version is `version`, which is "" for a document that does not exist yet."""
    ask = _ask(Op.PUT, call.namespace)
    if isinstance(call.text, str) and len(call.text) > _LARGE:
        yield SlowStep((yield from clerk.admit(caller, ask)).actor)
    tried: DocumentVersion | None = None
    for _ in range(_TRIES):
        grant, since = yield from clerk.admit_to_seal(caller, ask)
        written = yield from clerk.recorded(grant, caller, _write(clerk, grant, caller, call, since, tried))
        if isinstance(written, Document):
            return written
        tried = written
    raise _busy()


def _write(
    clerk: DecisionRecorder,
    grant: Grant,
    caller: Caller,
    call: api.WriteDocument,
    since: Mapping[str, Version],
    tried: DocumentVersion | None,
) -> Operation[Document | DocumentVersion]:
    """Write a document. If another process changed something meanwhile, returns the version for another try.

    A bucket may have carried out a write that it reported as failed. Then the next try finds the version `tried` in the
    store, and the write is complete.
    """
    _check_session(grant)
    slot = _slot(clerk, grant, call.key)
    version = tried or _version(clerk, grant, caller, call)
    if clerk.state.records.format < DETAILED:
        raise FormatTooOld(
            "this vault cannot hold documents yet: its format is for older programs, which may still use it",
            hint="once all programs that use the vault have this version, its owner runs `strongroom upgrade`",
        )
    found = find_document(clerk.state, slot)
    if tried is not None and found.document.present == tried:
        yield from clerk.commit(grant, lines=[version.version], caller=caller, since=since, detail="wrote a document")
        return _document(slot, version)
    if call.unused and found.object_version:
        raise VersionConflict("there is or was a document under this key", hint="read it, or choose another key")
    if model.plain(call.version) == "" and found.present(_now(clerk)) is not None:
        raise VersionConflict(
            "there is a document with this key already",
            hint="to write a new version of it, read the document and pass its `version`",
        )
    _check_version(found, call.version, clerk)
    document = with_version(found, version, _now(clerk))
    done = yield from _commit(clerk, grant, caller, [(slot, found, document)], since, "wrote a document")
    return _document(slot, version) if done else version


def _version(clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.WriteDocument) -> DocumentVersion:
    """Check a call, and return the document version that it writes."""
    text = model.clean_text(call.text, limit=model.DOCUMENT_LIMIT, what="a document")
    if not text.strip():
        raise InvalidRequest("the text of the document is empty")
    now = clerk.now()
    expires = None if call.expires is None else model.millis(call.expires)
    if expires is not None and expires <= now:
        raise InvalidRequest(
            "the document would expire before it is stored", hint="give a later `expires`, or leave it out"
        )
    return DocumentVersion(
        version=clerk.new_id(clerk.state.slots.shelf(grant.actor, only_namespace(grant)), now),
        text=text,
        provenance=Provenance(grant.links, grant.holder, caller.source, now),
        tags=model.clean_tags(call.tags),
        meta={} if call.meta is None else model.clean_meta(call.meta),
        expires=expires,
    )


def delete_document(clerk: DecisionRecorder, caller: Caller, call: api.DeleteDocument) -> Operation[Forgotten]:
    """Delete a document with its earlier versions. A missing document is no error, so the call can be repeated."""
    ask = _ask(Op.FORGET, call.namespace)
    yield SlowStep((yield from clerk.admit(caller, ask)).actor)
    for _ in range(_TRIES):
        grant, since = yield from clerk.admit_to_seal(caller, ask)
        gone = yield from clerk.recorded(grant, caller, _delete(clerk, grant, caller, call, since))
        if gone is not None:
            return Forgotten(gone.ids, scrubbed=scrub(clerk.state.store))
    raise _busy()


def _delete(
    clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.DeleteDocument, since: Mapping[str, Version]
) -> Operation[Forgotten | None]:
    _check_session(grant)
    slot = _slot(clerk, grant, call.key)
    found = find_document(clerk.state, slot)
    present = found.document.present
    if present is None:
        yield from clerk.commit(grant, count=0, caller=caller, since=since, detail="deleted a document")
        return Forgotten(())
    if call.version is not None and model.plain(call.version) != present.version:
        raise _changed()
    emptying = [(slot, found, emptied(found.document))]
    done = yield from _commit(clerk, grant, caller, emptying, since, "deleted a document")
    return Forgotten((present.version,)) if done else None


def rename_document(clerk: DecisionRecorder, caller: Caller, call: api.RenameDocument) -> Operation[Document]:
    """Give a document another key. A call that was interrupted can be repeated: it completes the renaming."""
    forgetting, putting = _ask(Op.FORGET, call.namespace), _ask(Op.PUT, call.namespace)
    grant = yield from clerk.admit(caller, forgetting)
    if (yield SlowStep(grant.actor)) is not AT_ONCE:
        grant = yield from clerk.admit(caller, forgetting)
    for _ in range(_TRIES):
        put_grant, since = yield from clerk.admit_to_seal(caller, putting)
        grant = yield from clerk.admit(caller, forgetting, since or None)
        renamed = yield from clerk.recorded(grant, caller, _rename(clerk, put_grant, grant, caller, call, since))
        if renamed is not None:
            scrub(clerk.state.store)
            return renamed
    raise _busy()


def _rename(
    clerk: DecisionRecorder,
    put_grant: Grant,
    grant: Grant,
    caller: Caller,
    call: api.RenameDocument,
    since: Mapping[str, Version],
) -> Operation[Document | None]:
    """Write the document under its new key and delete it under the old key, in one commit if the store allows that."""
    _check_session(grant)
    slot, target = _slot(clerk, grant, call.key), _slot(clerk, grant, call.new_key)
    if slot.key == target.key:
        raise InvalidRequest("the new key of the document is its present key: choose another key")
    found, there = find_document(clerk.state, slot), find_document(clerk.state, target)
    present, emptying = found.document.present, (slot, found, emptied(found.document))
    meant = call.version if call.version is not None else "" if present is None else present.version
    if (begun := there.document.present) is not None and there.document.source == model.plain(meant):
        if present is not None and present.version == meant:
            done = yield from _commit(clerk, grant, caller, [emptying], since, "renamed a document")
        else:
            done = True
            yield from clerk.commit(grant, count=0, caller=caller, since=since, detail="renamed a document")
        return _document(target, begun) if done else None
    if found.present(_now(clerk)) is None or present is None:
        raise _missing()
    _check_version(found, meant, clerk)
    if there.present(_now(clerk)) is not None:
        raise VersionConflict(
            "another document has the new key already", hint="delete that document first, or choose another key"
        )
    shelf = clerk.state.slots.shelf(grant.actor, slot.namespace)
    version = DocumentVersion(
        version=clerk.new_id(shelf, clerk.now()),
        text=present.text,
        provenance=present.provenance,
        tags=present.tags,
        meta=present.meta,
        expires=present.expires,
    )
    moved = StoredDocument(
        key=target.key,
        namespace=target.namespace,
        present=version,
        earlier=found.document.earlier,
        source=present.version,
    )
    writing = (target, there, moved)
    if clerk.state.store.is_whole:
        done = yield from _commit(clerk, grant, caller, [writing, emptying], since, "renamed a document")
        return _document(target, version) if done else None
    yield from _commit(clerk, put_grant, caller, [writing], since, "renamed a document")
    return None  # the next try finds the document under the new key, and deletes it under the old key


_Write = tuple[DocumentSlot, FoundDocument, StoredDocument]


def _commit(
    clerk: DecisionRecorder,
    grant: Grant,
    caller: Caller,
    writes: Sequence[_Write],
    since: Mapping[str, Version],
    detail: str,
) -> Operation[bool]:
    """Commit changes of documents. Returns False if another process changed one of them meanwhile."""
    state = clerk.state
    try:
        keys, effects = keys_for(state, grant, {only_namespace(grant)})
        effects += [write_effect(state, keys, *write) for write in writes]
        ids = [document.present.version for _, _, document in writes if document.present is not None]
        ids = ids or [held.document.present.version for _, held, _ in writes if held.document.present is not None]
        yield from clerk.commit(grant, effects, keys=keys, lines=ids, caller=caller, since=since, detail=detail)
    except Lost:
        state.catch_up(state.slots.actor(grant.actor))
        return False
    return True


def list_documents(clerk: DecisionRecorder, caller: Caller, call: api.ListDocuments) -> Operation[DocumentPage]:
    """One page of a listing of documents, in the order of their keys."""
    grant, shelves = yield from clerk.readable(caller, Ask.of(Op.LIST, call.namespaces))
    return (yield from clerk.recorded(grant, caller, _list(clerk, grant, shelves, caller, call)))


def _list(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, call: api.ListDocuments
) -> Operation[DocumentPage]:
    if type(call.limit) is not int or not 1 <= call.limit <= model.LIST_LIMIT:
        raise TooMany(f"`limit` must be a number from 1 to {model.LIST_LIMIT}: a page has at most so many documents")
    prefix, after, now = model.clean_field(call.prefix, "a prefix"), _cursor(call.after), _now(clerk)
    with hold_still(shelves):
        lines = [shelf.lines[name] for shelf in shelves for name in shelf.documents.ids() if name in shelf.lines]
    found = [
        (_place(line), line)
        for line in lines
        if _key(line).startswith(prefix)
        and _place(line) > after
        and (line.details is None or line.details.expires is None or line.details.expires > now)
    ]
    found.sort(key=lambda one: one[0])
    page = found[: call.limit]
    yield from clerk.commit(grant, count=len(page), caller=caller, detail="listed documents")
    more = _cursor_of(*page[-1][0]) if len(found) > len(page) else None
    return DocumentPage(tuple([_info(line) for _, line in page]), more)


def _place(line: Line) -> tuple[str, str]:
    """The place of a document in a listing: its key, then its namespace."""
    return _key(line), line.namespace


def _key(line: Line) -> str:
    return "" if line.details is None else line.details.document


def _cursor_of(key: str, namespace: str) -> str:
    return f"{namespace}/{key}"


def _cursor(after: str | None) -> tuple[str, str]:
    if after is None:
        return "", ""
    namespace, _, key = model.plain(after).partition("/")
    return model.document_key(key), model.namespace(namespace)


def _info(line: Line) -> DocumentInfo:
    details = line.details or model.LineDetails()
    return DocumentInfo(
        key=details.document,
        namespace=line.namespace,
        size=len(line.text.encode()),
        version=line.id,
        written=model.moment(line.provenance.recorded),
        provenance=line.provenance,
        tags=details.tags,
        meta=details.meta or None,
        expires=None if details.expires is None else model.moment(details.expires),
    )


def _document(slot: DocumentSlot, version: DocumentVersion) -> Document:
    return Document(
        key=slot.key,
        namespace=slot.namespace,
        text=version.text,
        version=version.version,
        written=model.moment(version.provenance.recorded),
        provenance=version.provenance,
        tags=version.tags,
        meta=version.meta or None,
        expires=None if version.expires is None else model.moment(version.expires),
    )


def _ask(op: Op, namespace: str | None) -> Ask:
    return Ask.of(op, None if namespace is None else [namespace])


def _slot(clerk: DecisionRecorder, grant: Grant, key: str) -> DocumentSlot:
    return DocumentSlot.of(clerk.state, grant.actor, only_namespace(grant), model.document_key(key))


def _check_session(grant: Grant) -> None:
    if grant.session is not None:
        raise CapLimitExceeded("the cap is bound to a session, and documents belong to no session")


def _check_version(found: FoundDocument, version: str, clerk: DecisionRecorder) -> None:
    present = found.present(_now(clerk))
    if model.plain(version) != ("" if present is None else present.version):
        raise _changed()


def _changed() -> VersionConflict:
    return VersionConflict(
        "the present version of the document is not the given one",
        hint="read the document again, then repeat the change",
    )


def _missing() -> LineNotFound:
    return LineNotFound("there is no document with this key")


def _busy() -> StoreUnavailable:
    return StoreUnavailable("the vault is too busy: other processes kept changing the same document")
