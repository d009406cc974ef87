"""Reads and opens the stored keys of actors, without caching them. `replica` caches the keys."""

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
"""How many actors are read from a bucket at a time."""
_TRIES = 4


@dataclass(frozen=True, slots=True)
class KeyCache:
    """An actor's opened keys, with the name and version of the stored object that holds them."""

    keys: ActorKeys
    version: Version
    name: str
    places: dict[Namespace, ShelfPlace | None] = field(default_factory=dict, compare=False)
    """The places of the actor's namespaces in the store, computed on first use.

    The value is None for a namespace that has no keys, because nothing was put into it so far.
    """

    def find_place(self, slots: Slots, name: Namespace) -> ShelfPlace | None:
        """Compute and cache the place of one of the actor's namespaces in the store."""
        birth = self.keys.birth(slots.namespace(self.keys.actor, name))
        shelf = slots.shelf(self.keys.actor, name)
        found = self.places[name] = None if birth is None else ShelfPlace(name, shelf, birth)
        return found


class StoredKeys:
    """Reads the stored keys of actors, and lists the actors."""

    def __init__(self, vault_id: str, store: Store, records: VaultRecords, slots: Slots) -> None:
        self._vault_id = vault_id
        self._store = store
        self._records = records
        self._slots = slots

    def find(self, locator: str) -> KeyCache | None:
        """The keys of an actor, or None if there is no such actor.

        Raises Tampered if the actor has other objects in the store but no keys.
        """
        for _ in range(_TRIES):  # another process may create or erase them between two reads
            held = self.read(locator)
            if held is not None or not self.has_objects(locator):
                return held
            # A listing page by page may mix two moments. So the keys are read again before an error is raised.
            self._store.version(self._store.scope(f"{ACTORS}{locator}/"))
        raise Tampered(
            "an actor's keys are missing, but its lines are still there",
            hint="run vault.audit.verify(), which names the damaged objects",
        )

    def read(self, locator: str) -> KeyCache | None:
        """An actor's keys, read from the store, or None if no keys are stored."""
        stored = self._document(locator)
        if stored is None:
            return None
        body = stored.body or b""
        opened = self._records.with_ring(lambda ring: ActorKeys.open(body, self._vault_id, self._slots, locator, ring))
        return KeyCache(opened, stored.version, stored.name)

    def root(self, locator: str) -> str | None:
        """The id of the root key with which an actor's keys are sealed, or None if there is no such actor.

        The keys are not opened.
        """
        stored = self._document(locator)
        if stored is not None:
            return root_of(stored.body or b"")
        held = self.find(locator)  # raises if keys are gone that must exist
        return None if held is None else held.keys.root

    def _document(self, locator: str) -> Object | None:
        stored = self._store.get(f"{ACTORS}{locator}/keys")
        if stored is not None and stored.body is None:
            raise Tampered("an actor's keys are marked as deleted, which no operation does")
        return stored

    def locators(self) -> Iterator[str]:
        """The locator (the pseudonym in object names) of every actor that has objects in the store.

        No bodies of objects are read. In a bucket, the present versions of several actors are read at a time.
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

    def count(self) -> int:
        """The number of actors with objects in the store. A bucket is asked for their names only."""
        if isinstance(self._store, FleetStore):
            return sum(scope.startswith(ACTORS) for scope in self._store.scopes())
        return sum(1 for _ in self.locators())

    def has_objects(self, locator: str) -> bool:
        """Whether an actor has any object in the store, except for derived ones such as cached pages."""
        return any(not is_derived(thing.name) for thing in self._records.names(f"{ACTORS}{locator}/"))
