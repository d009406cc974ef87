"""The replica: an open vault's keys, registry, revocations and shelves in one process, and how they stay current.

Other processes write to the same store. `catch_up`, called at the start of every operation, applies what changed since
the last read, so that a put, a forget or a revocation anywhere is seen by the next call here.
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
    """Caps of an actor issued before this second are void."""

    not_before: int


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
        self._actors: dict[str, KeyCache] = {}
        self._vault_scope = store.scope(FORMAT)
        self._seen: dict[str, Version] = {}
        """The version up to which each part of the store has been followed."""
        self._caught_up_for = 0
        """The thread for which `together` has caught up; one at a time."""
        self._loop_thread = 0
        """The thread that calls `together`: an event loop's."""
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
        """Begin several operations on this thread, all requested before this call.

        Yields True if nothing is new, so that none of them need read again. Otherwise each must, which may take long.
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
        """Apply everything that any process committed before this call: to the vault, and to the actor at `locator`.

        `looked` are the versions of scopes that the caller has just read, or that its commit will verify.
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
        """The held versions of the vault's records and, with `lines`, of an actor's. Empty if one of them is not held.

        For optimistic concurrency on a distant store: decide from this state, and let the commit verify the versions.
        """
        if not locator:
            return ANY
        scopes = [self._vault_scope, *(self._actor_scope(locator) if lines else ())]
        found = {scope: seen for scope in scopes if (seen := self._seen.get(scope)) is not None}
        return found if len(found) == len(scopes) else ANY

    def _actor_scope(self, locator: str) -> Sequence[str]:
        """The scope of an actor's objects, if actors are followed separately."""
        scope = self.store.scope(f"{ACTORS}{locator}/") if locator else self._vault_scope
        return () if scope == self._vault_scope else (scope,)

    def _follow(self, scope: str, latest: Version, locator: str) -> None:
        """Apply what is new in a scope. The previous holder of the lock has often done it already."""
        if scope not in self._seen:
            # Not followed, or not any more: everything cached of it may be old.
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
        """Apply a commit of this process, if nothing came between. Otherwise the next `catch_up` finds it.

        `written` are the decrypted lines among the effects, by name, and `keys` those that sealed them.
        """
        changed = [effect for effect in effects if not isinstance(effect, _UNSEEN)]
        scopes = {self.store.scope(effect.name) for effect in changed}
        scope = scopes.pop() if len(scopes) == 1 else None
        # Without waiting: this may be a server's event loop, and the next `catch_up` finds it as well.
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
        """Let the shelves do deferred work, except on an event loop, which it would block."""
        if self.shelves.has_put_off and threading.get_ident() != self._loop_thread:
            self.shelves.let_go()

    def _take_in(
        self, scope: str, changed: Collection[str], written: Mapping[str, Line], keys: ActorKeys | None
    ) -> None:
        """Apply own writes one by one: everything up to the first change of another process, then lines only.

        For later lines this only saves reading them again. A line whose change was applied before may be forgotten by
        now.
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
        """Apply one change. `line` saves reading a line that this process has just sealed with `keys`."""
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
            # Never earlier than what is known: an older record put back must not revive a cap here.
            self.standing.not_before[locator] = max(found, self.standing.not_before.get(locator, 0))
        except Tampered:
            self.standing.not_before[locator] = NEVER  # unreadable, so all caps are void: for this actor alone
        self._actors.pop(locator, None)
        self._drop_stale_shelves(locator)

    def _drop_stale_shelves(self, locator: str) -> None:
        """Drop shelves sealed with keys that are gone, after an actor's keys may have changed.

        A namespace that was erased and used again has other keys, hence the comparison.
        """
        loaded = self.shelves.below(f"{ACTORS}{locator}/")
        if loaded:
            try:
                held = self.held_keys(locator)
            except (Tampered, KeyUnavailable):
                held = None  # the next request for this actor raises it
            for prefix, birth in loaded.items():
                if held is None or held.keys.birth(prefix.split("/")[3]) != birth:
                    self.shelves.drop(prefix)

    # Keys.

    def held_keys(self, locator: str) -> KeyCache | None:
        """The keys of the actor at `locator`, or None if it has none. A read error is never taken for None."""
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
        """The places of an actor's shelves. A namespace into which nothing was put has none."""
        held = self.keys_of(actor)
        if held is None:
            return []
        known = held.places
        found = [known[name] if name in known else held.find_place(self.slots, name) for name in names]
        return [place for place in found if place is not None]

    def tag_of(self, name: str, *, is_fresh: bool = False) -> tuple[str, str]:
        """The log's tags for an object: its owner's and its own.

        `is_fresh`: by keys that are at most as old as what was read of their actor last.
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
        """Read an actor's keys again. True if they had changed."""
        locator = self.slots.actor(held.keys.actor)
        with self._guard:
            self._actors.pop(locator, None)
            found = self._read_keys(locator, self.stored_keys.find)
        return found is None or found.version != held.version
