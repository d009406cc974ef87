"""The stored keys of actors: read and opened, but not cached. `replica` caches them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from strongroom.errors import Tampered
from strongroom.keys import ActorKeys, Slots
from strongroom.keys.hierarchy import root_of
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.memory.vault_records import ACTORS, VaultRecords
from strongroom.model import Namespace
from strongroom.store import Object, Store, Version, is_derived
from strongroom.store.fleet_contract import FleetStore

_AT_ONCE = 16
"""Actors of a bucket that are read concurrently."""
_TRIES = 4


@dataclass(frozen=True, slots=True)
class KeyCache:
    """An actor's opened keys, and the name and version of the document they come from."""

    keys: ActorKeys
    version: Version
    name: str
    places: dict[Namespace, ShelfPlace | None] = field(default_factory=dict, compare=False)
    """The places of the actor's shelves, computed on first use; None for a namespace without any line so far."""

    def find_place(self, slots: Slots, name: Namespace) -> ShelfPlace | None:
        """Compute and cache the place of the actor's shelf of a namespace."""
        birth = self.keys.birth(slots.namespace(self.keys.actor, name))
        shelf = slots.shelf(self.keys.actor, name)
        found = self.places[name] = None if birth is None else ShelfPlace(name, shelf, birth)
        return found


class StoredKeys:
    """Reads the documents of actors' keys, and lists the actors."""

    def __init__(self, vault_id: str, store: Store, records: VaultRecords, slots: Slots) -> None:
        self._vault_id = vault_id
        self._store = store
        self._records = records
        self._slots = slots

    def find(self, locator: str) -> KeyCache | None:
        """The keys of an actor; None if there is no such actor. Tampered if only its other objects are there."""
        for _ in range(_TRIES):  # another process may create or erase them between two reads
            held = self.read(locator)
            if held is not None or not self.has_objects(locator):
                return held
            # Listing page by page may mix two moments, so no refusal is based on it before another read.
            self._store.version(self._store.scope(f"{ACTORS}{locator}/"))
        raise Tampered(
            "an actor's keys are missing, but its lines are still there",
            hint="vault.audit.verify() names what is wrong",
        )

    def read(self, locator: str) -> KeyCache | None:
        """An actor's keys as they are stored; None if there are none."""
        stored = self._document(locator)
        if stored is None:
            return None
        body = stored.body or b""
        opened = self._records.with_ring(lambda ring: ActorKeys.open(body, self._vault_id, self._slots, locator, ring))
        return KeyCache(opened, stored.version, stored.name)

    def root(self, locator: str) -> str | None:
        """The id of the root that seals an actor's keys, without opening them; None if there is no actor."""
        stored = self._document(locator)
        if stored is not None:
            return root_of(stored.body or b"")
        held = self.find(locator)  # raises if keys are gone that must exist
        return None if held is None else held.keys.root

    def _document(self, locator: str) -> Object | None:
        stored = self._store.get(f"{ACTORS}{locator}/keys")
        if stored is not None and stored.body is None:
            raise Tampered("an actor's keys are a tombstone")
        return stored

    def locators(self) -> Iterator[str]:
        """The locator of every actor with objects in the store, found without reading their bodies.

        In a bucket, the actors' scopes are refreshed in batches.
        """
        if isinstance(self._store, FleetStore):
            scopes = (scope for scope in self._store.scopes() if scope.startswith(ACTORS))
            while portion := list(islice(scopes, _AT_ONCE)):
                self._store.versions(portion)
                yield from (scope.split("/")[1] for scope in portion)
            return
        after = ""
        while found := self._store.list(ACTORS, after, 1):
            name = found[0].name
            locator = name.split("/")[1]
            # An actor's keys come before its other objects.
            if name == f"{ACTORS}{locator}/keys" or self.has_objects(locator):
                yield locator
            after = f"{ACTORS}{locator}0"  # "0" follows "/", so this is after everything below the actor

    def has_objects(self, locator: str) -> bool:
        """Whether an actor has any object that is not derived."""
        return any(not is_derived(thing.name) for thing in self._records.names(f"{ACTORS}{locator}/"))
