"""The decision recorder: asks the gate about every request, and records every decision in the log.

Only the gate admits requests. A refusal is in the log before the caller gets it. A success is committed together with
its effects before the caller gets the result. If the log cannot be written, the caller gets an error instead of either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from strongroom.audit.entry import Decision, Entry, Mark, marks, pending
from strongroom.audit.object_history import VAULT
from strongroom.caps.chain import Cap
from strongroom.errors import (
    CapRevoked,
    StoreUnavailable,
    StrongroomError,
    Tampered,
    Unavailable,
)
from strongroom.gate import AdminGrant, Ask, Gate, Grant
from strongroom.keys import ActorKeys
from strongroom.memory.admin_recorder import AdminRecorder
from strongroom.memory.line_cache.cache import CachedNamespace
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.memory.operation import AT_ONCE, Operation, SlowStep
from strongroom.memory.refusal_recorder import RefusalRecorder
from strongroom.memory.replica import Replica
from strongroom.memory.stored_pages import load_shelves, shelves_so_far
from strongroom.memory.vault_records import ACTORS
from strongroom.model import Line, LineId, LineIds, Millis, Namespace
from strongroom.store import ANY, Effect, Expect, Lost, Purge, Version

NONE_WRITTEN: Mapping[str, Line] = {}

_UNMARKED = (Expect, Purge)
T = TypeVar("T")

_MANY = 2_000
"""Ranking more lines than this counts as slow."""

_LARGE = 2 * 1024
"""Indexing more characters of new lines than this counts as slow."""

_TRIES = 64
"""How often namespaces are loaded again if they were evicted from RAM before their lines could be read."""

_PLACES_HELD = 1024
PER_ENTRY = 256
"""Maximum number of objects that one log entry names, so that a full entry stays below `ENTRY_LIMIT`."""


def system_clock() -> Millis:
    """The time of this machine's clock."""
    return Millis(time.time_ns() // 1_000_000)


class Caller(msgspec.Struct, frozen=True):
    """The cap that a caller shows, the source of the request (such as `python`), and the request's id for the log."""

    token: str
    source: str = "python"
    request: str = ""

    def __repr__(self) -> str:
        return f"<caller through {self.source}>"


class DecisionRecorder:
    """Admits requests and records their outcomes. Thread-safe."""

    def __init__(self, state: Replica, clock: Callable[[], Millis] = system_clock) -> None:
        self.state = state
        self.now = clock
        self._ids: dict[str, LineIds] = {}
        self._ids_lock = threading.Lock()
        # Both recorders take the time from here, so that all three objects use one clock.
        self.refusals = RefusalRecorder(state, lambda: self.now())
        self.admin = AdminRecorder(state, lambda: self.now())

    def admit(self, caller: Caller, ask: Ask, looked: Mapping[str, Version] | None = None) -> Operation[Grant]:
        """Ask the gate to admit a request to a memory. A refusal is logged, and then raised (`_decided`)."""
        return (yield from self._decided(caller, ask, lambda gate, now: gate.admit(caller.token, ask, now), looked))

    def admit_to_seal(
        self, caller: Caller, ask: Ask, since: Mapping[str, Version] = ANY
    ) -> Operation[tuple[Grant, Mapping[str, Version]]]:
        """Admit a caller that is about to write with an actor's keys.

        Returns the grant, and versions that the commit must find unchanged. Between the decision and the reading of the
        keys, an erasure may make the cap void, and another process may create new keys. Therefore the decision is based
        on versions that were read before the keys, and the commit verifies these versions.
        """
        grant = yield from self.admit(caller, ask, since or None)
        if not since and (since := self.known(caller, lines=False)):
            grant = yield from self.admit(caller, ask, since)
        return grant, since

    def known(self, caller: Caller, *, lines: bool) -> Mapping[str, Version]:
        """The cached versions for an optimistic decision, which uses the cache and lets the commit verify the versions.

        With `lines`, the version of the actor's memory is included; otherwise only that of the vault. The result is
        empty if the store must be read first, which is always so for a store on this machine.
        """
        return self.state.known(self._locator(caller), lines=lines) if self.state.store.is_distant else ANY

    def appoint(self, caller: Caller, ask: Ask) -> Operation[AdminGrant]:
        """Ask the gate to admit a request that concerns the vault itself, such as minting or revoking a cap."""
        return self._decided(caller, ask, lambda gate, now: gate.appoint(caller.token, ask, now))

    def check(self, caller: Caller) -> Operation[Cap]:
        """Raise the gate's refusal if a cap is not valid, before any work is done for the caller."""
        return self._decided(caller, None, lambda gate, now: gate.check(caller.token, now))

    def _decided(
        self,
        caller: Caller,
        ask: Ask | None,
        decide: Callable[[Gate, int], T],
        looked: Mapping[str, Version] | None = None,
    ) -> Operation[T]:
        """The gate's decision, made after every revocation so far was read. A refusal is logged before it is raised.

        `looked` are versions that the caller has just read, or that its commit will verify. They replace a read of the
        store. A refusal is never based on them alone: the store is read, and the request is decided again.
        """
        if self.state.store.is_distant and (hopeless := self.refusals.hopeless(caller.token)) is not None:
            yield from self.refusals.refuse(hopeless, ask, self.now(), caller.request)
            raise hopeless
        if self.now() >= self.refusals.log.due:
            yield from self.refusals.sum_up()
        locator = self._locator(caller)
        try:
            self.state.catch_up(locator, looked)
        except Tampered as error:
            yield from self._refused_as_known(error, caller, ask, decide)
            raise
        now = self.now()
        try:
            decided = decide(self.state.gate, now // 1000)
            if not locator and self._locator(caller):  # a new cap, whose actor was unknown before this decision
                self.state.catch_up(self._locator(caller))
            return decided
        except StrongroomError as error:
            if looked is not None:
                return (yield from self._decided(caller, ask, decide))
            if isinstance(error, CapRevoked):
                error.erased = self.refusals.is_erased(error)
            yield from self.refusals.refuse(error, ask, now, caller.request)
            raise

    def _refused_as_known(
        self, error: Tampered, caller: Caller, ask: Ask | None, decide: Callable[[Gate, int], object]
    ) -> Operation[None]:
        """Log that changes in the store could not be read. If the cap is known to be revoked, refuse it for that."""
        now = self.now()
        try:
            decide(self.state.gate, now // 1000)
        except StrongroomError as refusal:
            yield from self.refusals.refuse(refusal, ask, now, caller.request)
            raise refusal from None
        if (held := self.state.gate.known(caller.token)) is not None:
            yield from self.refusals.record(error, held, ask, caller.request)

    def _locator(self, caller: Caller) -> str:
        """The pseudonym of the request's actor in the store, or "".

        It is "" if the store does not keep the changes of each actor separately, or the cap was not verified before.
        """
        if not self.state.store.is_distant:
            return ""
        held = self.state.gate.known(caller.token)
        return self.state.slots.actor(held.actor) if held is not None and held.actor else ""

    def recorded(self, admitted: Grant | AdminGrant, caller: Caller, doing: Operation[T]) -> Operation[T]:
        """Run an admitted operation, and log an error that ends it. Unavailable is no decision, and is not logged."""
        try:
            return (yield from doing)
        except StrongroomError as error:
            if not isinstance(error, Unavailable) and not error.recorded:
                yield from self.refusals.record_failure(error, admitted, caller.request)
            raise
        except Lost:
            raise  # a lost race is not the end of the request: the caller of `commit` tries again
        except Exception as error:
            # A bug in Strongroom or in an engine. The request has ended, and the log must say so.
            yield from self.refusals.record_defect(error, admitted, caller.request)
            raise

    def new_id(self, place: str, now: Millis) -> LineId:
        """A new line id, greater than all earlier ids of the same place (a namespace of an actor).

        Each place has a counter of its own: a shared counter would show how much others put.
        """
        with self._ids_lock:
            while place not in self._ids and len(self._ids) >= _PLACES_HELD:
                del self._ids[next(iter(self._ids))]
            ids = self._ids.get(place) or self._ids.setdefault(place, LineIds(self.state.random))
            return ids.new(now)

    def in_order(self, namespaces: Collection[Namespace]) -> list[Namespace]:
        """The namespaces in order, most sensitive first. A namespace that the vault no longer lists comes last."""
        if len(namespaces) == 1:
            return list(namespaces)
        order = {name: place for place, name in enumerate(self.state.records.namespaces)}
        return sorted(namespaces, key=lambda name: (order.get(name, len(order)), name))

    def at_hand(self, grant: Grant) -> list[CachedNamespace] | None:
        """The cached namespaces of a grant. Returns None if one of them is not loaded, or its keys cannot be read."""
        try:
            places = self._places(grant)
        except (Tampered, Unavailable):
            return None  # loading them will raise the error again, and log it
        found: list[CachedNamespace] = []
        for place in places:
            shelf = self.state.shelves.loaded_at(place.prefix, place.birth)
            if shelf is None:
                return None
            found.append(shelf)
        self._retire(found)
        return found

    def _retire(self, shelves: Sequence[CachedNamespace]) -> None:
        """Hide the lines that have expired by the later of two times: this machine's clock, and the last log entry.

        A time that a request names plays no part in this.
        """
        now = self.now()
        for shelf in shelves:
            states = shelf.states
            if states.next_expiry is not None or states.hidden:  # history shows hidden lines, too
                shelf.retire(max(now, Millis(self.state.store.head().time)))
            elif now > states.now:
                states.now = now  # also for changes that are posted and not applied yet

    def is_long(self, shelves: Sequence[CachedNamespace]) -> bool:
        """Whether ranking the lines of these namespaces is slow."""
        if self.state.store.is_distant:
            return False
        unread = sum([shelf.unread_size for shelf in shelves])
        return unread > _LARGE or sum([len(shelf.lines) for shelf in shelves]) > _MANY

    def readable(
        self,
        caller: Caller,
        ask: Ask,
        patience: float | None = None,
        looked: Mapping[str, Version] | None = None,
        *,
        is_long: bool = False,
    ) -> Operation[tuple[Grant, list[CachedNamespace]]]:
        """Admit a request to read lines, and load the namespaces that it covers.

        The gate is asked again whenever time has passed, because the cap may have been revoked meanwhile. `patience`
        is how many seconds to wait: then the namespaces are returned even if only some of their lines are loaded.
        `is_long` says that the next step is slow, however few lines there are.
        """
        is_paced = False
        shelves: list[CachedNamespace] | None = None
        for _ in range(_TRIES):
            grant = yield from self.admit(caller, ask, looked)
            # The references in `shelves` keep the loaded lines in RAM, even if the cache evicts them.
            looked, shelves = None, self.at_hand(grant)
            if shelves is None:
                loading = load_shelves(self.state, grant.actor, self._places(grant), patience)
                shelves = yield from self.recorded(grant, caller, loading)
                if patience is None:
                    continue
                patience = 0.0
                grant = yield from self.admit(caller, ask)
                shelves = shelves_so_far(self.state, grant.actor, self._places(grant))
                self._retire(shelves)
            if is_paced or not (is_long or self.is_long(shelves)) or (yield SlowStep(grant.actor)) is AT_ONCE:
                return grant, shelves
            is_paced = True
        raise StoreUnavailable(
            "this process has too little memory for the lines of all current requests", hint="try again later"
        )

    def _places(self, grant: Grant) -> list[ShelfPlace]:
        """The places of the grant's namespaces in the store, without namespaces into which nothing was put."""
        return self.state.shelf_places(grant.actor, self.in_order(grant.namespaces))

    def commit(
        self,
        grant: Grant,
        effects: Sequence[Effect] = (),
        *,
        keys: ActorKeys | None = None,
        lines: Sequence[LineId] = (),
        count: int | None = None,
        erased: str = "",
        caller: Caller,
        written: Mapping[str, Line] = NONE_WRITTEN,
        detail: str = "",
        since: Mapping[str, Version] = ANY,
    ) -> Operation[None]:
        """Record an admitted request in one commit with its effects.

        `keys` are the actor's keys if they are not stored yet: the log entry needs them for its tags. `written` are the
        decrypted lines among the effects, by the names of their objects.
        """
        if keys is None:
            held = self.state.keys_of(grant.actor)
            keys = None if held is None else held.keys
        entries = self.entries(grant, effects, keys, lines, count, erased, caller.request)
        if detail:
            entries[0] = msgspec.structs.replace(entries[0], detail=detail)
        commit = yield pending(entries, effects, since)
        if effects:
            self.state.committed(effects, commit.version, written, keys)

    def entries(
        self,
        grant: Grant,
        effects: Sequence[Effect],
        keys: ActorKeys | None,
        lines: Sequence[LineId],
        count: int | None,
        erased: str,
        request: str,
    ) -> list[Entry]:
        """The log entries of one admitted request: several if one entry cannot name all its lines and objects."""
        tagged = self.marks(effects, keys) if effects else ()
        locators = [self.state.slots.namespace(grant.actor, name) for name in grant.namespaces]
        locators.sort()
        actor, namespaces = ("", ()) if keys is None else keys.tags(locators)
        first = Entry(
            v=1,
            time=self.now(),
            op=grant.op,
            decision=Decision.ALLOW,
            data_class="memory",
            request=request,
            actor=actor,
            namespaces=namespaces,
            links=grant.links,
            holder=grant.holder,
            count=len(lines) if count is None else count,
            lines=tuple(lines[:PER_ENTRY]),
            objects=tagged[:PER_ENTRY],
            erased=erased,
        )
        entries = [first]
        for at in range(PER_ENTRY, max(len(tagged), len(lines)), PER_ENTRY):
            stop = at + PER_ENTRY
            entries.append(
                msgspec.structs.replace(first, lines=tuple(lines[at:stop]), objects=tagged[at:stop], count=0)
            )
        return entries

    def marks(self, effects: Sequence[Effect], keys: ActorKeys | None) -> tuple[Mark, ...]:
        """The changed objects as the log names them: by pseudonyms, made with a key of the actor or of the vault."""
        vault_tag = self.state.records.vault_tag
        tags = {
            one.name: keys.object_tags(one.name)
            if keys and one.name.startswith(ACTORS)
            else (vault_tag(one.name), VAULT)
            for one in effects
            if not isinstance(one, _UNMARKED)
        }
        return marks(effects, tags)
