"""The objects of a store as verification sees them: each by its digest and its tags, never by its content.

If an object cannot be read, it is listed with the reason, and reading continues.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from strongroom.audit.entry import encode_hash
from strongroom.audit.verifier import TagOf
from strongroom.errors import KeyUnavailable, Tampered
from strongroom.store import Object, Store
from strongroom.store.fleet_contract import FleetStore

_PAGE = 1000
_AT_ONCE = 16
"""The number of parts of the store that are refreshed concurrently."""
Tags = tuple[str, str]


class SeenObject(NamedTuple):
    """An object as it was read: its digest ("" for a tombstone) and its tags.

    If `tags` is None, `why` says why.
    """

    name: str
    digest: str
    tags: Tags | None
    why: str = ""


class StoredObjects:
    """Reads the objects of one store."""

    def __init__(self, store: Store, logs: FleetStore, tag_of: TagOf) -> None:
        self._store = store
        self._logs = logs
        self._tag_of = tag_of

    def read_all(self) -> Iterator[SeenObject]:
        """Every object of the store, one part after another."""
        for scope in self.scopes():
            last, found = self._page(scope, "")
            while last:
                yield from found
                last, found = self._page(scope, last)

    def scopes(self) -> Iterator[str]:
        """The names of all parts of the store. Each part is refreshed first, several of them concurrently."""
        scopes = self._logs.scopes()
        while portion := list(islice(scopes, _AT_ONCE)):
            try:
                self._store.versions(portion)
            except Tampered:
                for scope in portion:
                    with suppress(Tampered):  # reported when it is read
                        self._store.version(scope)
            yield from portion

    def _page(self, scope: str, after: str) -> tuple[str, list[SeenObject]]:
        """One page of objects in a part, with the last name on the page.

        If the page cannot be read as a whole, its objects are read one by one.
        """
        try:
            page = self._store.list(scope, after, _PAGE)
        except Tampered:
            names = self.names(scope, after)
            return names[-1] if names else "", [one for one in map(self.read, names) if one is not None]
        return page[-1].name if page else "", list(map(self._tagged, page))

    def names(self, scope: str, after: str) -> list[str]:
        """One page of names in a part.

        If the page cannot be read, it holds only the name of the actor's keys. Reading these reports the flaw.
        """
        try:
            return [one.name for one in self._store.names(scope, after, _PAGE)]
        except Tampered:
            return [f"{scope}keys"] if not after else []

    def read(self, name: str) -> SeenObject | None:
        """One object, or None if it does not exist."""
        try:
            found = self._store.get(name)
        except Tampered as error:
            return SeenObject(name, "", self.tags(name), error.message)
        return None if found is None else self._tagged(found)

    def _tagged(self, thing: Object) -> SeenObject:
        digest = "" if thing.body is None else encode_hash(hashlib.sha256(thing.body).digest())
        tags = self.tags(thing.name)
        why = "" if tags is not None else "an actor's keys do not open, so its objects cannot be checked"
        return SeenObject(thing.name, digest, tags, why)

    def tags(self, name: str) -> Tags | None:
        """The tags for an object's name. None if the keys of its actor do not open."""
        try:
            return self._tag_of(name)
        except (Tampered, KeyUnavailable):
            return None
