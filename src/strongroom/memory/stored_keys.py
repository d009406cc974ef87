"""The keys of actors as they are stored: read and opened, never cached here. Who caches them is `replica`."""

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
"""Actors of a bucket that are looked at side by side."""
_TRIES = 4


@dataclass(frozen=True, slots=True)
class KeyCache:
    """An actor's opened keys, and the name and version of the document they come from."""

    keys: ActorKeys
    version: Version
    name: str
    places: dict[Namespace, ShelfPlace | None] = field(default_factory=dict, compare=False)
    """Where the actor's shelves are, of the namespaces that were asked for; None if nothing was put into one."""

    def find_place(self, slots: Slots, name: Namespace) -> ShelfPlace | None:
        """Work out where the actor's shelf of a namespace is, and keep it."""
        birth = self.keys.birth(slots.namespace(self.keys.actor, name))
        shelf = slots.shelf(self.keys.actor, name)
        found = self.places[name] = None if birth is None else ShelfPlace(name, shelf, birth)
        return found


class StoredKeys:
    """Reads the documents of actors' keys, and finds the actors that there are."""

    def __init__(self, vault_id: str, store: Store, records: VaultRecords, slots: Slots) -> None:
        self._vault_id = vault_id
        self._store = store
        self._records = records
        self._slots = slots

    def find(self, locator: str) -> KeyCache | None:
        """The keys of an actor, or None if there is no such actor; Tampered where its keys are gone and it is not."""
        for _ in range(_TRIES):  # another process may make or erase them between two looks
            held = self.read(locator)
            if held is not None or not self.has_objects(locator):
                return held
            # What is known may be of two moments, where a list comes in pages: nobody is refused by that.
            self._store.version(self._store.scope(f"{ACTORS}{locator}/"))
        raise Tampered(
            "an actor's keys are gone while its lines are there", hint="vault.audit.verify() names what is wrong"
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
        """The id of the root that seals an actor's keys, which are not opened for it; None if it is nobody."""
        stored = self._document(locator)
        if stored is not None:
            return root_of(stored.body or b"")
        held = self.find(locator)  # raises where keys are gone that must be there
        return None if held is None else held.keys.root

    def _document(self, locator: str) -> Object | None:
        stored = self._store.get(f"{ACTORS}{locator}/keys")
        if stored is not None and stored.body is None:
            raise Tampered("an actor's keys are a tombstone")
        return stored

    def locators(self) -> Iterator[str]:
        """The locator of every actor that has anything in the store, found without reading what it has.

        In a bucket each is looked at, some at a time: what is known of it is then as new as its turn.
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
            # Nothing of an actor comes before its keys.
            if name == f"{ACTORS}{locator}/keys" or self.has_objects(locator):
                yield locator
            after = f"{ACTORS}{locator}0"  # "0" follows "/": behind everything below this actor

    def has_objects(self, locator: str) -> bool:
        """Whether an actor has anything; what is only derived, and in no log, makes nobody."""
        return any(not is_derived(thing.name) for thing in self._records.names(f"{ACTORS}{locator}/"))
