"""Documents in the store: each document is one sealed object with its key, its present version and earlier versions.

Every change replaces this object by compare-and-swap. The object of a deleted document stays, without versions, so that
the key can be used again. For recalls, the present version is also a line of its namespace, of the kind `document`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from strongroom.crypto.document_encryption import DocumentVersion, StoredDocument, open_document, seal_document
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import Tampered
from strongroom.keys import DOCUMENTS, ActorKeys
from strongroom.memory.line_cache.cached_namespace import Batch
from strongroom.memory.replica import Replica
from strongroom.memory.stored_lines import open_object
from strongroom.model import (
    HISTORY_BYTES,
    HISTORY_LIMIT,
    Actor,
    Kind,
    Line,
    LineDetails,
    LineId,
    Millis,
    Namespace,
)
from strongroom.store import Effect, Object, PutNew, Swap, Version

_TOGETHER = 32
"""How many documents are opened at a time when a namespace is loaded."""


class DocumentSlot(NamedTuple):
    """The place of a document in the store, whether or not the document exists. `name` is the name of its object."""

    actor: Actor
    namespace: Namespace
    key: str
    name: str

    @classmethod
    def of(cls, state: Replica, actor: Actor, namespace: Namespace, key: str) -> DocumentSlot:
        return cls(actor, namespace, key, state.slots.document(actor, namespace, key))


class FoundDocument(NamedTuple):
    """A document that was looked up, and the version of its object in the store (0 if there is no object).

    A deleted or missing document has no versions.
    """

    document: StoredDocument
    object_version: Version = 0

    def present(self, now: Millis) -> DocumentVersion | None:
        """The present version of the document, or None if it was deleted, has expired or never existed."""
        found = self.document.present
        return None if found is None or is_over(found, now) else found


def is_over(version: DocumentVersion, now: Millis) -> bool:
    """Whether a version of a document has expired."""
    return version.expires is not None and version.expires <= now


def find_document(state: Replica, slot: DocumentSlot) -> FoundDocument:
    """Read the document in a slot from the store."""
    stored = state.store.get(slot.name)
    document = None if stored is None else open_stored(state, slot.actor, slot.namespace, stored)
    if stored is None or document is None:
        return FoundDocument(StoredDocument(key=slot.key, namespace=slot.namespace))
    return FoundDocument(document, stored.version)


def open_stored(state: Replica, actor: Actor, namespace: Namespace, thing: Object) -> StoredDocument | None:
    """Open the object of a document. Returns None if the object or the keys of its namespace are gone."""
    place = LinePlace(state.vault_id, actor, namespace)

    def opened(body: bytes, keys: Mapping[int, bytes]) -> StoredDocument:
        return open_document(body, _locator(thing.name), place, keys)

    found = open_object(state, actor, namespace, thing, opened)
    # The encryption binds the object's name. A writer with the key could still put another document's key inside.
    if found is not None and state.slots.document(actor, namespace, found.key) != thing.name:
        raise Tampered("a stored document has a key that does not belong to the name of its object")
    return found


def with_version(found: FoundDocument, version: DocumentVersion, now: Millis) -> StoredDocument:
    """The document with a new present version. The version before becomes the newest of the earlier versions."""
    held = found.document
    before = found.present(now)
    living = [one for one in held.earlier if not is_over(one, now)]
    earlier = () if before is None else within_history((before, *living))
    return StoredDocument(key=held.key, namespace=held.namespace, present=version, earlier=earlier)


def within_history(versions: Iterable[DocumentVersion]) -> tuple[DocumentVersion, ...]:
    """The newest of these earlier versions: as many as a document keeps. `versions` come newest first."""
    kept: list[DocumentVersion] = []
    room = HISTORY_BYTES
    for version in versions:
        room -= len(version.text.encode())
        if room < 0 or len(kept) == HISTORY_LIMIT:
            break
        kept.append(version)
    return tuple(kept)


def emptied(document: StoredDocument) -> StoredDocument:
    """The deleted document: the same key, without any versions."""
    return StoredDocument(key=document.key, namespace=document.namespace)


def write_effect(
    state: Replica, keys: ActorKeys, slot: DocumentSlot, found: FoundDocument, document: StoredDocument
) -> Effect:
    """The effect that replaces the document that was `found` with `document`. It fails if the object changed since."""
    epoch, key = keys.newest(state.slots.namespace(slot.actor, slot.namespace))
    place = LinePlace(state.vault_id, slot.actor, slot.namespace)
    body = seal_document(document, _locator(slot.name), place, epoch, key, state.random(24))
    return Swap(slot.name, body, found.object_version) if found.object_version else PutNew(slot.name, body)


def delete_effects(state: Replica, actor: Actor, lines: Sequence[Line]) -> tuple[list[Effect], list[LineId]]:
    """The effects that delete the documents whose present versions are these lines, and the ids of the deleted lines.

    A line that is not the present version any more is left out.
    """
    held = state.keys_of(actor)
    effects: list[Effect] = []
    gone: list[LineId] = []
    for line in lines:
        if held is None or line.details is None or not line.details.document:
            continue
        slot = DocumentSlot.of(state, actor, line.namespace, line.details.document)
        found = find_document(state, slot)
        if found.document.present is not None and found.document.present.version == line.id:
            effects.append(write_effect(state, held.keys, slot, found, emptied(found.document)))
            gone.append(line.id)
    return effects, gone


def ended_effects(state: Replica, actor: Actor, lines: Sequence[Line]) -> tuple[list[Effect], list[LineId]]:
    """The effects that take ended versions out of documents, and these versions. A document's last one empties it."""
    held = state.keys_of(actor)
    effects: list[Effect] = []
    gone: list[LineId] = []
    ended: dict[DocumentSlot, set[LineId]] = {}
    for line in lines:
        if line.details is not None and line.details.document:
            slot = DocumentSlot.of(state, actor, line.namespace, line.details.document)
            ended.setdefault(slot, set()).add(line.id)
    for slot, ids in ended.items() if held is not None else ():
        found = find_document(state, slot)
        stored = [one.version for one in versions_of(found.document) if one.version in ids]
        if held is not None and stored:
            effects.append(write_effect(state, held.keys, slot, found, _without(found.document, ids)))
            gone += stored
    return effects, gone


def versions_of(document: StoredDocument) -> tuple[DocumentVersion, ...]:
    """The versions that are stored of a document, newest first."""
    return document.earlier if document.present is None else (document.present, *document.earlier)


def _without(document: StoredDocument, ids: Collection[LineId]) -> StoredDocument:
    if document.present is not None and document.present.version in ids:
        return emptied(document)
    earlier = tuple(one for one in document.earlier if one.version not in ids)
    return msgspec.structs.replace(document, earlier=earlier)


def line_of(document: StoredDocument) -> Line | None:
    """The present version of a document as a line; None if it was deleted."""
    return None if document.present is None else line_of_version(document, document.present)


def line_of_version(document: StoredDocument, version: DocumentVersion) -> Line:
    """A version of a document as a line."""
    details = LineDetails(
        critical=() if version.expires is None else ("expires",),
        tags=version.tags,
        meta=version.meta,
        expires=version.expires,
        document=document.key,
    )
    return Line(
        version.version,
        version.provenance.recorded,
        Kind.DOCUMENT,
        document.namespace,
        "",
        "",
        version.text,
        version.provenance,
        details,
    )


class DocumentSource:
    """Reads the documents of one namespace as lines."""

    def __init__(self, state: Replica, actor: Actor, namespace: Namespace) -> None:
        self._state = state
        self._actor = actor
        self._namespace = namespace
        self._prefix = f"{state.slots.shelf(actor, namespace)}{DOCUMENTS}"

    def batches(self) -> Iterator[Batch]:
        """All documents of the namespace, in batches."""
        found: dict[str, Line | None] = {}
        for thing in self._state.records.objects(self._prefix, most=_TOGETHER):
            found[_locator(thing.name)] = self._line(thing)
            if len(found) == _TOGETHER:
                yield Batch((), documents=found)
                found = {}
        if found:
            yield Batch((), documents=found)

    def read(self, locator: str) -> Line | None:
        """The present version of the document at `locator` as a line, or None if there is no such document."""
        stored = self._state.store.get(self._prefix + locator)
        return None if stored is None else self._line(stored)

    def _line(self, thing: Object) -> Line | None:
        document = open_stored(self._state, self._actor, self._namespace, thing)
        return None if document is None else line_of(document)


def _locator(name: str) -> str:
    return name.rsplit("/", 1)[1]
