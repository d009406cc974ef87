"""The replica: one process's copy of an open vault's state (keys, namespaces, revocations, cached lines).

Other processes write to the same store. Every operation begins with `catch_up`, which applies all changes since the
last read. So the next call here sees every put, forget and revocation that another process has made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec

from strongroom.audit.log import AuditLog, VaultMac
from strongroom.errors import KeyUnavailable, StrongroomError, Tampered
from strongroom.gate import NEVER, Gate, Revocations
from strongroom.keys import ActorKeys, Keyring, KeySource, Slots
from strongroom.memory.cap_index import CapIndex
from strongroom.memory.line_cache.cache import LineCache
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.memory.stored_keys import KeyCache, StoredKeys
from strongroom.memory.vault_records import ACTORS, FORMAT, NAMESPACES, REVOKED, SECRETS, STANDING, VaultRecords
from strongroom.model import Actor, Line, LineId, LinkId, Namespace
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
)

_ACTORS_HELD = 10_000
_UNSEEN = (Expect, Purge)
_PAGE = 1000


class NotBefore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored record that makes caps of an actor void: those issued before the second `not_before`."""

    not_before: int


class Replica:
    """The state of one open vault in one process. Thread-safe."""

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
        self._actors: dict[str, KeyCache] = {}
        self._vault_scope = store.scope(FORMAT)
        self._seen: dict[str, Version] = {}
        """The version up to which the changes of each part of the store have been applied."""
        self._caught_up_for = 0
        """The id of the thread for which `together` has caught up, or 0. Only one thread at a time."""
        self._loop_thread = 0
        """The id of the thread that calls `together`, which runs an event loop."""
        self._seen[self._vault_scope] = store.version(self._vault_scope)
        self.records = VaultRecords(vault_id, store, source, random, ring)
        secrets = self.records.secrets
        self.slots = Slots(secrets.name_key)
        self.stored_keys = StoredKeys(vault_id, store, self.records, self.slots)
        self.cap_index = CapIndex(store, self.records.vault_tag, self.records.cap_record)
        self.mac = VaultMac(vault_id, secrets.tag_key, secrets.log_seed)
        self.log = AuditLog(store, vault_id, secrets.log_seed, self.mac)
        self.standing = Revocations(self.slots.actor)
        self.gate = Gate(vault_id, secrets.issuers, self.standing)
        for prefix in (REVOKED, STANDING):
            for thing in self.records.names(prefix):
                self._apply(thing)

    @contextmanager
    def together(self) -> Iterator[bool]:
        """Begin several operations on this thread, which all were requested before this call.

        Yields True if nothing in the store has changed, so that none of the operations needs to read changes. Otherwise
        each operation reads them itself, which may take long.
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
        """Apply every change that any process committed before this call: to the vault, and to one actor's objects.

        `locator` is the pseudonym of the actor in the store. `looked` are versions of these two parts of the store that
        the caller has just read, or that its commit will verify. With them, no versions are read here.
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
        """The versions that this process has read of the vault's records and, with `lines`, of an actor's objects.

        Empty if one of them has not been read. They serve optimistic concurrency on a distant store: decide from the
        present state, and let the commit verify the versions.
        """
        if not locator:
            return ANY
        scopes = [self._vault_scope, *(self._actor_scope(locator) if lines else ())]
        found = {scope: seen for scope in scopes if (seen := self._seen.get(scope)) is not None}
        return found if len(found) == len(scopes) else ANY

    def _actor_scope(self, locator: str) -> Sequence[str]:
        """The part of the store with an actor's objects. Empty if the store does not count changes by actor."""
        scope = self.store.scope(f"{ACTORS}{locator}/") if locator else self._vault_scope
        return () if scope == self._vault_scope else (scope,)

    def _follow(self, scope: str, latest: Version, locator: str) -> None:
        """Apply all new changes in one part of the store (`scope`).

        Often another thread, which held the lock before this one, has applied them already.
        """
        if scope not in self._seen:
            # The changes of this actor were not read so far, or not any more: all its cached data may be old.
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
        """Apply a commit of this process, if no other change came before it. Otherwise the next `catch_up` applies it.

        `written` are the decrypted lines among the effects, by the names of their objects. `keys` sealed these lines.
        """
        changed = [effect for effect in effects if not isinstance(effect, _UNSEEN)]
        scopes = {self.store.scope(effect.name) for effect in changed}
        scope = scopes.pop() if len(scopes) == 1 else None
        # Do not wait for the lock: this may be a server's event loop, and the next `catch_up` applies the commit.
        if scope is None or not self._guard.acquire(blocking=False):
            return
        try:
            # The commit is durable, so an error in reading it must not make it look failed.
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
        """Do the deferred work of the line cache. On the thread of an event loop this does nothing, to not block it."""
        if self.shelves.has_put_off and threading.get_ident() != self._loop_thread:
            self.shelves.let_go()

    def _take_in(
        self, scope: str, changed: Collection[str], written: Mapping[str, Line], keys: ActorKeys | None
    ) -> None:
        """Apply this process's own writes in a store that does not commit as a whole.

        All changes up to the first one by another process are applied and counted as read. After it, only the written
        lines are applied, which saves reading them later.
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
        """Apply one change. If this process has just sealed the changed line with `keys`, `line` is that line."""
        name = change.name
        if name.startswith(ACTORS):
            self._apply_actor(name, line, keys, deleted=change.body is None)
        elif name.startswith(REVOKED):
            self.standing.revoked.add(LinkId(name.removeprefix(REVOKED)))
        elif name.startswith(STANDING):
            self._apply_standing(name)
        elif name == NAMESPACES:
            self.records.load_registry()
        elif name == FORMAT:
            self.records.load_format()
        elif name == SECRETS:
            self.records.load_secrets()
            self.gate = Gate(self.vault_id, self.records.secrets.issuers, self.standing)

    def _apply_actor(self, name: str, line: Line | None, keys: ActorKeys | None, *, deleted: bool) -> None:
        parts = name.split("/")
        if parts[2] == "keys":
            self._actors.pop(parts[1], None)
            self._drop_stale_shelves(parts[1])
        elif len(parts) == 6 and parts[4] == "documents":
            self.shelves.document_changed(name.removesuffix("documents/" + parts[5]), parts[5])
        elif len(parts) == 6 and parts[4] == "lines":
            line_id = LineId(parts[5])
            birth = None if keys is None else keys.birth(parts[3])
            self.shelves.changed(name.removesuffix("lines/" + line_id), line_id, line, birth, deleted=deleted)

        elif len(parts) == 6 and parts[4] == "replaced":
            self.shelves.replaced(name.removesuffix("replaced/" + parts[5]), LineId(parts[5]))

    def _apply_standing(self, name: str) -> None:
        locator = name.removeprefix(STANDING)
        try:
            found = self.records.open(name, NotBefore).not_before
            # `not_before` never goes back: an older record that was put back must not make a cap valid again.
            self.standing.not_before[locator] = max(found, self.standing.not_before.get(locator, 0))
        except Tampered:
            self.standing.not_before[locator] = NEVER  # the record is unreadable, so all caps of this actor are void
        self._actors.pop(locator, None)
        self._drop_stale_shelves(locator)

    def _drop_stale_shelves(self, locator: str) -> None:
        """Drop an actor's cached namespaces whose keys are gone. Called when the actor's keys may have changed.

        The births of the keys are compared, because a namespace that was erased and used again has new keys.
        """
        loaded = self.shelves.below(f"{ACTORS}{locator}/")
        if loaded:
            try:
                held = self.held_keys(locator)
            except (Tampered, KeyUnavailable):
                held = None  # the next request for this actor raises the error
            for prefix, birth in loaded.items():
                if held is None or held.keys.birth(prefix.split("/")[3]) != birth:
                    self.shelves.drop(prefix)

    # Keys.

    def held_keys(self, locator: str) -> KeyCache | None:
        """The keys of the actor at `locator`, or None if the actor has no keys. An error of reading is raised."""
        held = self._actors.get(locator)
        return held if held is not None else self._read_keys(locator, self.stored_keys.find)

    def _read_keys(self, locator: str, read: Callable[[str], KeyCache | None]) -> KeyCache | None:
        # Read and cached under the lock: otherwise a change seen in between would leave old keys behind.
        with self._guard:
            held = read(locator)
            if held is not None:
                while len(self._actors) >= _ACTORS_HELD:
                    self._actors.pop(next(iter(self._actors)))
                self._actors[locator] = held
            return held

    def keys_of(self, actor: Actor) -> KeyCache | None:
        return self.held_keys(self.slots.actor(actor))

    def shelf_places(self, actor: Actor, names: Iterable[Namespace]) -> list[ShelfPlace]:
        """The places of an actor's namespaces in the store, without namespaces into which nothing was put."""
        held = self.keys_of(actor)
        if held is None:
            return []
        known = held.places
        found = [known[name] if name in known else held.find_place(self.slots, name) for name in names]
        return [place for place in found if place is not None]

    def tag_of(self, name: str, *, is_fresh: bool = False) -> tuple[str, str]:
        """The log's pseudonyms (tags) for the actor of an object and for the object itself.

        With `is_fresh`, the actor's keys are read again if the object is the actor's keys, because they may be newer
        than the cached ones.
        """
        if not name.startswith(ACTORS):
            return "", self.records.vault_tag(name)
        locator = name.split("/")[1]
        if is_fresh and name.endswith("/keys"):
            with self._guard:
                self._actors.pop(locator, None)
        held = self._actors.get(locator) or self._read_keys(locator, self.stored_keys.read)
        if held is None:
            return "?", name
        return held.keys.actor_tag(), held.keys.object_tag(name)

    def renew_keys(self, held: KeyCache) -> bool:
        """Read an actor's keys again. Returns True if the keys had changed or are gone."""
        locator = self.slots.actor(held.keys.actor)
        with self._guard:
            self._actors.pop(locator, None)
            found = self._read_keys(locator, self.stored_keys.find)
        return found is None or found.version != held.version
