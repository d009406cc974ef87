"""What a process knows of an open vault: keys, registry, revocations and shelves, and how it stays true.

Other processes write to the same store. `catch_up`, called at the start of every operation, reads what changed
since the last look and applies it, so that a put, a forget or a revocation anywhere is seen by the next call here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import msgspec

from strongroom import model
from strongroom.audit.log import AuditLog, VaultMac
from strongroom.crypto import line_encryption
from strongroom.crypto.hmac_state import HmacState
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import InvalidRequest, KeyUnavailable, StrongroomError, Tampered
from strongroom.gate import NEVER, Gate, Revocations
from strongroom.keys import ActorKeys, Keyring, KeySource, Slots, VaultSecrets
from strongroom.keys.hierarchy import root_of, tag
from strongroom.memory.cap_index import CapIndex
from strongroom.memory.line_cache.cache import LineCache
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.model import Actor, CapRecord, Line, LineId, LinkId, Namespace
from strongroom.store import (
    ANY,
    Delete,
    Effect,
    Expect,
    Object,
    Purge,
    PutNew,
    Store,
    Swap,
    Version,
    is_derived,
)
from strongroom.store.fleet_contract import FleetStore

FORMAT = "vault/format"
SECRETS = "vault/secrets"
NAMESPACES = "vault/namespaces"
REVOKED = "vault/revoked/"
STANDING = "vault/standing/"
ARCHIVED = "vault/archived"
ACTORS = "actors/"

_ACTORS_HELD = 10_000
_UNSEEN = (Expect, Purge)
_PAGE = 1000
_NAMES = 10_000
_AT_ONCE = 16
"""Actors of a bucket that are looked at side by side."""
_TRIES = 4

T = TypeVar("T")


class NamespaceRegistry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vault's namespaces, most sensitive first."""

    names: tuple[Namespace, ...]


class NotBefore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Caps of an actor issued before this second are void."""

    not_before: int


@dataclass(frozen=True, slots=True)
class KeyCache:
    """An actor's opened keys, and the name and version of the document they come from."""

    keys: ActorKeys
    version: Version
    name: str
    places: dict[Namespace, ShelfPlace] = field(default_factory=dict, compare=False)
    """Where the actor's shelves are, of the namespaces that were asked for."""


class Replica:
    """One open vault in one process. Thread-safe."""

    def __init__(
        self,
        vault_id: str,
        store: Store,
        source: KeySource,
        shelves: LineCache,
        random: Callable[[int], bytes],
        ring: Keyring | None = None,
    ) -> None:
        self.vault_id = vault_id
        self.store = store
        self.source = source
        self.shelves = shelves
        self.random = random
        self._guard = threading.RLock()
        self._ring = ring
        self._actors: dict[str, KeyCache] = {}
        self._vault_scope = store.scope(FORMAT)
        self._seen: dict[str, Version] = {}
        """How far each part of the store has been followed."""
        self._generation = 0
        self._caught_up_for = 0
        """The thread for which `together` has caught up; one at a time."""
        self._loop_thread = 0
        """The thread that calls `together`: an event loop's."""
        self._open()

    # Opening and following.

    def _open(self) -> None:
        self._seen[self._vault_scope] = self.store.version(self._vault_scope)
        self._load_secrets()
        self.slots = Slots(self.secrets.name_key)
        self.cap_index = CapIndex(self.store, self.vault_tag, self.cap_record)
        self.mac = VaultMac(self.vault_id, self.secrets.tag_key, self.secrets.log_seed)
        self.log = AuditLog(self.store, self.vault_id, self.secrets.log_seed, self.mac)
        self.standing = Revocations(self.slots.actor)
        self.gate = Gate(self.vault_id, self.secrets.issuers, self.standing)
        self._load_registry()
        for prefix in (REVOKED, STANDING):
            for thing in self.names(prefix):
                self._apply(thing)

    @contextmanager
    def together(self) -> Iterator[bool]:
        """Begin several operations on this thread now, each of which was asked for before.

        Gives True if nothing is new, so that none of them need look again; else each has to, which may take long.
        """
        self._loop_thread = threading.get_ident()
        if self.store.is_distant or self.store.version() > self._seen[self._vault_scope]:
            yield False
            return
        self._caught_up_for = self._loop_thread
        try:
            yield True
        finally:
            self._caught_up_for = 0

    def catch_up(self, locator: str = "", looked: Mapping[str, Version] | None = None) -> None:
        """Apply what any process has committed before this call: to the vault, and to the actor at `locator`.

        Whoever has `looked` already says how far what it looked at has come.
        """
        if self._caught_up_for and self._caught_up_for == threading.get_ident():
            return
        scopes = [self._vault_scope, *self._actor_scope(locator)]
        found = self.store.versions(scopes) if looked is None else [looked.get(scope, -1) for scope in scopes]
        for scope, latest in zip(scopes, found, strict=True):
            if latest > self._seen.get(scope, -1):
                with self._guard:
                    self._follow(scope, latest, locator)
                self._let_go()

    def known(self, locator: str, *, lines: bool) -> Mapping[str, Version]:
        """How far the vault, and with `lines` an actor, have been followed; empty where either has not been.

        For the optimistic path: decide from this state and commit with it, and a distant store looks while it writes.
        """
        if not locator:
            return ANY
        scopes = [self._vault_scope, *(self._actor_scope(locator) if lines else ())]
        found = {scope: seen for scope in scopes if (seen := self._seen.get(scope)) is not None}
        return found if len(found) == len(scopes) else ANY

    def _actor_scope(self, locator: str) -> Sequence[str]:
        """The scope of an actor's objects, where they are followed apart."""
        scope = self.store.scope(f"{ACTORS}{locator}/") if locator else self._vault_scope
        return () if scope == self._vault_scope else (scope,)

    def _follow(self, scope: str, latest: Version, locator: str) -> None:
        """Apply what is new in a scope. Who held the lock before has often come this far already."""
        if scope not in self._seen:
            # Never followed, or not for long: whatever is held of it may be old.
            self._actors.pop(locator, None)
            self.shelves.drop(f"{ACTORS}{locator}/")
            while len(self._seen) > _ACTORS_HELD:
                del self._seen[next(name for name in self._seen if name != self._vault_scope)]
            self._seen[scope] = latest
        while self._seen[scope] < latest:
            page = self.store.changes(self._seen[scope], _PAGE, scope)
            for change in page:
                self._apply(change)
                self._seen[scope] = change.version
            if len(page) < _PAGE:
                return

    def committed(
        self, effects: Sequence[Effect], version: Version, written: Mapping[str, Line], keys: ActorKeys | None
    ) -> None:
        """Take in a commit of this process, if nothing came between; else the next `catch_up` finds it.

        `written` are the opened lines among the effects, by name, and `keys` those that sealed them.
        """
        changed = [effect for effect in effects if not isinstance(effect, _UNSEEN)]
        scopes = {self.store.scope(effect.name) for effect in changed}
        scope = scopes.pop() if len(scopes) == 1 else None
        # Not waited for: this may be a server's event loop, and the next `catch_up` finds it as well.
        if scope is None or not self._guard.acquire(blocking=False):
            return
        try:
            # It is durable: what cannot be read now must not make it look as if it had failed.
            with suppress(StrongroomError):
                self._take_in_own(scope, changed, version, written, keys)
        finally:
            self._guard.release()
        self._let_go()

    def _take_in_own(
        self,
        scope: str,
        changed: Sequence[PutNew | Swap | Delete],
        version: Version,
        written: Mapping[str, Line],
        keys: ActorKeys | None,
    ) -> None:
        seen = self._seen.get(scope)
        if seen is None:
            return
        if not self.store.is_whole:
            self._take_in(scope, {effect.name for effect in changed}, written, keys)
        elif seen == version - len(changed):
            for effect in changed:
                body = None if isinstance(effect, Delete) else b""
                self._apply(Object(effect.name, 0, body), written.get(effect.name), keys)
            self._seen[scope] = version

    def _let_go(self) -> None:
        """Have the shelves do what they put off; not on an event loop, which would keep everybody waiting."""
        if self.shelves.has_put_off and threading.get_ident() != self._loop_thread:
            self.shelves.let_go()

    def _take_in(
        self, scope: str, changed: Collection[str], written: Mapping[str, Line], keys: ActorKeys | None
    ) -> None:
        """Take in what was written one by one: all up to the first change of somebody else, then lines alone.

        Those are only spared being read again. One whose change was taken in before may be forgotten by now.
        """
        is_next = True
        for change in self.store.changes(self._seen[scope], _PAGE, scope):
            is_next = is_next and change.name in changed
            line = written.get(change.name) if change.body is not None else None
            if is_next or line is not None:
                self._apply(change, line, keys)
            if is_next:
                self._seen[scope] = change.version

    def _apply(self, change: Object, line: Line | None = None, keys: ActorKeys | None = None) -> None:
        """Take in one change; `line` spares reading a line that this process has just sealed with `keys`."""
        name = change.name
        if name.startswith(ACTORS):
            self._apply_actor(name, line, keys, deleted=change.body is None)
        elif name.startswith(REVOKED):
            self.standing.revoked.add(LinkId(name.removeprefix(REVOKED)))
        elif name.startswith(STANDING):
            self._apply_standing(name)
        elif name == NAMESPACES:
            self._load_registry()
        elif name == SECRETS:
            self._load_secrets()
            self.gate = Gate(self.vault_id, self.secrets.issuers, self.standing)

    def _apply_actor(self, name: str, line: Line | None, keys: ActorKeys | None, *, deleted: bool) -> None:
        parts = name.split("/")
        if parts[2] == "keys":
            self._actors.pop(parts[1], None)
            self._drop_stale_shelves(parts[1])
        elif len(parts) == 6 and parts[4] == "lines":
            line_id = LineId(parts[5])
            birth = None if keys is None else keys.birth(parts[3])
            self.shelves.changed(name.removesuffix("lines/" + line_id), line_id, line, birth, deleted=deleted)

    def _apply_standing(self, name: str) -> None:
        locator = name.removeprefix(STANDING)
        try:
            found = self.record(name, NotBefore).not_before
            # Never earlier than what is known: an older record put back must not revive a cap here.
            self.standing.not_before[locator] = max(found, self.standing.not_before.get(locator, 0))
        except Tampered:
            self.standing.not_before[locator] = NEVER  # unreadable, so void: for this actor alone
        self._actors.pop(locator, None)
        self._drop_stale_shelves(locator)

    def _drop_stale_shelves(self, locator: str) -> None:
        """After an actor's keys may have changed: what was sealed with keys that are gone must leave the memory.

        A namespace that was erased and used again has keys again, but others: hence the comparison.
        """
        loaded = self.shelves.below(f"{ACTORS}{locator}/")
        if loaded:
            try:
                held = self.held_keys(locator)
            except (Tampered, KeyUnavailable):
                held = None  # who asks for this actor will hear of it
            for prefix, birth in loaded.items():
                if held is None or held.keys.birth(prefix.split("/")[3]) != birth:
                    self.shelves.drop(prefix)

    # Keys.

    def ring(self) -> Keyring:
        if self._ring is None:
            self._ring = self.source.load()
        return self._ring

    def use_ring(self, ring: Keyring) -> None:
        """Take over a keyring that this process has just written."""
        self._ring = ring

    def _load_secrets(self) -> None:
        stored = self.store.get(SECRETS)
        if stored is None or stored.body is None:
            raise Tampered("the vault has lost its secrets", hint="restore a backup; they cannot be made again")
        body = stored.body
        found = self._with_ring(lambda ring: VaultSecrets.open(body, self.vault_id, ring))
        if found.generation < self._generation:  # else a rotated-out issuer would be back
            raise Tampered("older secrets of the vault were put back", hint="vault.audit.verify() names what is wrong")
        self.secrets, self._generation, self._tagging = found, found.generation, HmacState(found.tag_key)
        self.secrets_version = stored.version

    def _with_ring(self, use: Callable[[Keyring], T]) -> T:
        """Open something with the keyring, reading it anew if another process has rotated the root key."""
        try:
            return use(self.ring())
        except KeyUnavailable:
            self._ring = None
            return use(self.ring())

    def held_keys(self, locator: str) -> KeyCache | None:
        """The keys of the actor at `locator`, or None if it has none. A read error never looks like None."""
        held = self._actors.get(locator)
        # Read and kept under the follower's lock: else a change seen in between would leave old keys behind.
        return held if held is not None else self._read_keys(locator)

    def _read_keys(self, locator: str) -> KeyCache | None:
        with self._guard:
            for _ in range(_TRIES):  # another process may make or erase them between two looks
                held = self.stored_keys(locator)
                if held is not None:
                    self._keep(locator, held)
                    return held
                if not self._has_objects(locator):
                    return None
                # What is known may be of two moments, where a list comes in pages: nobody is refused by that.
                self.store.version(self.store.scope(f"{ACTORS}{locator}/"))
            raise Tampered(
                "an actor's keys are gone while its lines are there", hint="vault.audit.verify() names what is wrong"
            )

    def _has_objects(self, locator: str) -> bool:
        """Whether an actor has anything; what is only derived, and in no log, makes nobody."""
        return any(not is_derived(thing.name) for thing in self.names(f"{ACTORS}{locator}/"))

    def _keep(self, locator: str, held: KeyCache) -> None:
        while len(self._actors) >= _ACTORS_HELD:
            self._actors.pop(next(iter(self._actors)))
        self._actors[locator] = held

    def stored_keys(self, locator: str) -> KeyCache | None:
        """An actor's keys as they are stored, whatever is cached; None if there are none."""
        stored = self._key_document(locator)
        if stored is None:
            return None
        body = stored.body or b""
        opened = self._with_ring(lambda ring: ActorKeys.open(body, self.vault_id, self.slots, locator, ring))
        return KeyCache(opened, stored.version, stored.name)

    def stored_root(self, locator: str) -> str | None:
        """The id of the root that seals an actor's keys, which are not opened for it; None if it is nobody."""
        stored = self._key_document(locator)
        if stored is not None:
            return root_of(stored.body or b"")
        held = self.held_keys(locator)  # raises where keys are gone that must be there
        return None if held is None else held.keys.root

    def _key_document(self, locator: str) -> Object | None:
        stored = self.store.get(f"{ACTORS}{locator}/keys")
        if stored is not None and stored.body is None:
            raise Tampered("an actor's keys are a tombstone")
        return stored

    def locators(self) -> Iterator[str]:
        """The locator of every actor that has anything in the store, found without reading what it has.

        In a bucket each is looked at, some at a time: what is known of it is then as new as its turn.
        """
        if isinstance(self.store, FleetStore):
            scopes = (scope for scope in self.store.scopes() if scope.startswith(ACTORS))
            while portion := list(islice(scopes, _AT_ONCE)):
                self.store.versions(portion)
                yield from (scope.split("/")[1] for scope in portion)
            return
        after = ""
        while found := self.store.list(ACTORS, after, 1):
            name = found[0].name
            locator = name.split("/")[1]
            # Nothing of an actor comes before its keys.
            if name == f"{ACTORS}{locator}/keys" or self._has_objects(locator):
                yield locator
            after = f"{ACTORS}{locator}0"  # "0" follows "/": behind everything below this actor

    def keys_of(self, actor: Actor) -> KeyCache | None:
        return self.held_keys(self.slots.actor(actor))

    def shelf_places(self, actor: Actor, names: Iterable[Namespace]) -> list[ShelfPlace]:
        """The places of an actor's shelves; a namespace into which nothing was put has none."""
        held = self.keys_of(actor)
        found = [] if held is None else [held.places.get(name) or self._shelf_place(held, name) for name in names]
        return [place for place in found if place is not None]

    def _shelf_place(self, held: KeyCache, name: Namespace) -> ShelfPlace | None:
        birth = held.keys.birth(self.slots.namespace(held.keys.actor, name))
        if birth is None:
            return None
        place = held.places[name] = ShelfPlace(name, self.slots.shelf(held.keys.actor, name), birth)
        return place

    # Registry, records and tags.

    def _load_registry(self) -> None:
        self.namespaces = self.record(NAMESPACES, NamespaceRegistry).names

    def record(self, name: str, kind: type[T]) -> T:
        """One of the vault's own sealed records, which must be there."""
        stored = self.store.get(name)
        if stored is None or stored.body is None:
            raise Tampered("one of the vault's own records is missing", hint="vault.audit.verify() names what is wrong")
        return line_encryption.open_record(stored.body, name, self.vault_id, self.secrets.record_key, kind)

    def sealed_record(self, name: str, record: msgspec.Struct) -> bytes:
        return line_encryption.seal_record(record, name, self.vault_id, self.secrets.record_key, self.random(24))

    def cap_record(self, thing: Object) -> CapRecord:
        """Open what the registry keeps of a cap."""
        return line_encryption.open_record(
            thing.body or b"", thing.name, self.vault_id, self.secrets.record_key, CapRecord
        )

    def objects(self, prefix: str, after: str = "", last: str | None = None, most: int = _PAGE) -> Iterator[Object]:
        """Everything below `prefix`, tombstones too; only what follows `after`, and nothing behind `last`.

        It is read in pages of `most`: who needs only some need not have all of them read.
        """
        while page := self.store.list(prefix, after, most):
            for thing in page:
                if last is not None and thing.name > last:
                    return
                yield thing
            after = page[-1].name
            if last is not None and after >= last:
                return

    def names(self, prefix: str) -> Iterator[Object]:
        """Everything below `prefix`, tombstones too, without bodies."""
        after = ""
        while page := self.store.names(prefix, after, _NAMES):
            yield from page
            after = page[-1].name

    def tag_of(self, name: str) -> tuple[str, str]:
        """The log's tags for an object: its owner's and its own."""
        if not name.startswith(ACTORS):
            return "", self.vault_tag(name)
        locator = name.split("/")[1]
        held = self._actors.get(locator)
        if held is None:
            with self._guard:
                held = self.stored_keys(locator)
                if held is None:
                    return "?", name
                self._keep(locator, held)
        return held.keys.actor_tag(), held.keys.object_tag(name)

    def fresh_tag_of(self, name: str) -> tuple[str, str]:
        """As `tag_of`, by keys that are at most as old as what was read of their actor last."""
        if name.startswith(ACTORS) and name.endswith("/keys"):
            with self._guard:
                self._actors.pop(name.split("/")[1], None)
        return self.tag_of(name)

    def vault_tag(self, name: str) -> str:
        return tag(self._tagging, "object", name)

    # Lines.

    def open_line(self, actor: Actor, namespace: Namespace, thing: Object | None) -> Line | None:
        """Open a stored line; None for a tombstone or nothing."""
        if thing is None or thing.body is None:
            return None
        place = LinePlace(self.vault_id, actor, namespace)

        def opened(body: bytes, keys: Mapping[int, bytes]) -> Line:
            return line_encryption.open_line(body, line_id_of(thing.name), place, keys)

        return self.opening(actor, namespace, thing, opened)

    def opening(
        self, actor: Actor, namespace: Namespace, thing: Object, use: Callable[[bytes, Mapping[int, bytes]], T]
    ) -> T | None:
        """Open a stored object with its namespace's keys; None if it, or they, are gone.

        What does not open may have been sealed by another process with keys that were rotated since we read ours.
        """
        body = thing.body
        for last in (False, True):
            held = self.keys_of(actor)
            if body is None or held is None:
                return None
            try:
                return use(body, held.keys.namespaces.get(self.slots.namespace(actor, namespace), {}))
            except Tampered:
                renewed = not last and self._renewed(held)
                again = self._again(thing.name)
                if not renewed and (last or again == body):
                    raise
            body = again
        return None

    def _again(self, name: str) -> bytes | None:
        """The body of an object as it is now."""
        if not self.store.is_whole:
            self.store.version(self.store.scope(name))
        found = self.store.get(name)
        return None if found is None else found.body

    def _renewed(self, held: KeyCache) -> bool:
        """Read an actor's keys anew; True if they were not the ones in the store."""
        locator = self.slots.actor(held.keys.actor)
        with self._guard:
            self._actors.pop(locator, None)
            found = self._read_keys(locator)
        return found is None or found.version != held.version


def line_id_of(name: str) -> LineId:
    """The last part of a line's name; anything but an id in its place is tampering."""
    try:
        return model.line_id(name.rsplit("/", 1)[1])
    except InvalidRequest:
        raise Tampered(
            "an object stands among the lines that is none", hint="vault.audit.verify() names what is wrong"
        ) from None
