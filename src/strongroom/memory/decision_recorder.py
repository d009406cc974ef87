"""The decision recorder: asks the gate, and records every decision.

Only the gate admits. A refusal is in the log before the caller hears of it; a success is committed together with its
effects before its result is released. If the log cannot be written, neither leaves.
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
"""From so many lines on, ranking counts as slow."""

_LARGE = 2 * 1024
"""From so many characters of new lines on, reading them counts as slow."""

_TRIES = 64
"""How often shelves are loaded again that were evicted before they could be read."""

_PLACES_HELD = 1024
PER_ENTRY = 256
"""Objects named in one entry, so that a full one still fits an entry bundle's 64 KiB."""


def system_clock() -> Millis:
    """This machine's time."""
    return Millis(time.time_ns() // 1_000_000)


class Caller(msgspec.Struct, frozen=True):
    """The cap shown, the source of the request, and its id for the log."""

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
        # They ask here for the time, so that all three go by one clock.
        self.refusals = RefusalRecorder(state, lambda: self.now())
        self.admin = AdminRecorder(state, lambda: self.now())

    def admit(self, caller: Caller, ask: Ask, looked: Mapping[str, Version] | None = None) -> Operation[Grant]:
        """Ask the gate about a request to a memory; see `_decided`."""
        return (yield from self._decided(caller, ask, lambda gate, now: gate.admit(caller.token, ask, now), looked))

    def admit_to_seal(
        self, caller: Caller, ask: Ask, since: Mapping[str, Version] = ANY
    ) -> Operation[tuple[Grant, Mapping[str, Version]]]:
        """Admit a caller who is about to write with an actor's keys. Returns the grant, and the `since` for the commit.

        Keys are read after the vault or beside it, so an erasure that voids the cap, and new keys, may come between.
        Therefore the decision is made on what is known before the keys are read, and verified beside the log's write.
        """
        grant = yield from self.admit(caller, ask, since or None)
        if not since and (since := self.known(caller, lines=False)):
            grant = yield from self.admit(caller, ask, since)
        return grant, since

    def known(self, caller: Caller, *, lines: bool) -> Mapping[str, Version]:
        """The versions for an optimistic decision: decide from the cache, and commit `since` these. Empty: read first.

        With `lines`, the version of the memory is among them, else only the vault's. A near store is always read first.
        """
        return self.state.known(self._locator(caller), lines=lines) if self.state.store.is_distant else ANY

    def appoint(self, caller: Caller, ask: Ask) -> Operation[AdminGrant]:
        """Ask the gate about the vault's own affairs."""
        return self._decided(caller, ask, lambda gate, now: gate.appoint(caller.token, ask, now))

    def check(self, caller: Caller) -> Operation[Cap]:
        """Raise if a cap is not valid, before any work is done for it."""
        return self._decided(caller, None, lambda gate, now: gate.check(caller.token, now))

    def _decided(
        self,
        caller: Caller,
        ask: Ask | None,
        decide: Callable[[Gate, int], T],
        looked: Mapping[str, Version] | None = None,
    ) -> Operation[T]:
        """The gate's decision, after catching up with every revocation. A refusal is logged before it is raised.

        `looked` replaces the read of versions: the caller has just read these, or its commit verifies them. A refusal
        is never based on them alone: the request is then decided again, after a read.
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
            if not locator and self._locator(caller):  # a new cap: only now is it known whose memory it opens
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
        """Log that the store cannot be followed. Known revocations stay in force: a revoked cap is refused as such."""
        now = self.now()
        try:
            decide(self.state.gate, now // 1000)
        except StrongroomError as refusal:
            yield from self.refusals.refuse(refusal, ask, now, caller.request)
            raise refusal from None
        if (held := self.state.gate.known(caller.token)) is not None:
            yield from self.refusals.record(error, held, ask, caller.request)

    def _locator(self, caller: Caller) -> str:
        """The actor of a request, if actors are followed one by one and the cap was verified before; else ""."""
        if not self.state.store.is_distant:
            return ""
        held = self.state.gate.known(caller.token)
        return self.state.slots.actor(held.actor) if held is not None and held.actor else ""

    def recorded(self, admitted: Grant | AdminGrant, caller: Caller, doing: Operation[T]) -> Operation[T]:
        """Log failures between admission and answer. Unavailable is not a decision and is not logged."""
        try:
            return (yield from doing)
        except StrongroomError as error:
            if not isinstance(error, Unavailable) and not error.recorded:
                yield from self.refusals.record_failure(error, admitted, caller.request)
            raise
        except Lost:
            raise  # a lost race is no outcome: the caller of `commit` tries again
        except Exception as error:
            # A defect, ours or an engine's: the request has ended, and the log must say so.
            yield from self.refusals.record_defect(error, admitted, caller.request)
            raise

    def new_id(self, place: str, now: Millis) -> LineId:
        """A new id, increasing within one place. A counter shared by places would tell of what others put."""
        with self._ids_lock:
            while place not in self._ids and len(self._ids) >= _PLACES_HELD:
                del self._ids[next(iter(self._ids))]
            ids = self._ids.get(place) or self._ids.setdefault(place, LineIds(self.state.random))
            return ids.new(now)

    def in_order(self, namespaces: Collection[Namespace]) -> list[Namespace]:
        """Namespaces, most sensitive first; one that left the registry comes last."""
        if len(namespaces) == 1:
            return list(namespaces)
        order = {name: place for place, name in enumerate(self.state.records.namespaces)}
        return sorted(namespaces, key=lambda name: (order.get(name, len(order)), name))

    def at_hand(self, grant: Grant) -> list[CachedNamespace] | None:
        """The shelves of a grant. None if they have to be loaded, or if that fails."""
        try:
            places = self._places(grant)
        except (Tampered, Unavailable):
            return None  # loading them will raise it again, and log it
        found: list[CachedNamespace] = []
        for place in places:
            shelf = self.state.shelves.loaded_at(place.prefix, place.birth)
            if shelf is None:
                return None
            found.append(shelf)
        self._retire(found)
        return found

    def _retire(self, shelves: Sequence[CachedNamespace]) -> None:
        """Hide what has expired by this machine's clock or the log's, whichever is later; no request decides it."""
        now = self.now()
        for shelf in shelves:
            states = shelf.states
            if states.next_expiry is not None or states.hidden:  # history shows hidden lines, too
                shelf.retire(max(now, Millis(self.state.store.head().time)))
            elif now > states.now:
                states.now = now  # also for changes that are posted and not applied yet

    def is_long(self, shelves: Sequence[CachedNamespace]) -> bool:
        """Whether ranking these shelves is slow."""
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
        """Admit a request to read lines, and load the shelves that it covers.

        The gate is asked again whenever time has passed, because the cap may have been revoked meanwhile. With
        `patience`, the shelves are returned as far as they are loaded after so many seconds. `is_long` says that the
        next step is slow whatever the size of the shelves.
        """
        is_paced = False
        shelves: list[CachedNamespace] | None = None
        for _ in range(_TRIES):
            grant = yield from self.admit(caller, ask, looked)
            # References in `shelves` keep loaded shelves available, whatever the budget says.
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
        raise StoreUnavailable("the server has too little memory for all current requests", hint="try again")

    def _places(self, grant: Grant) -> list[ShelfPlace]:
        """The places of a grant's shelves. A namespace into which nothing was put has none."""
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
        """Record an admitted request with its effects, all or nothing.

        `keys` tag it if they are not stored yet. `written` are the decrypted lines among the effects, by name.
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
        """The entries of one admitted request; several if it touches more objects than one entry can name."""
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
        """The marks of the effects, under the tags of the actor that `keys` belong to, or of the vault."""
        vault_tag = self.state.records.vault_tag
        tags = {
            one.name: keys.object_tags(one.name)
            if keys and one.name.startswith(ACTORS)
            else (vault_tag(one.name), VAULT)
            for one in effects
            if not isinstance(one, _UNMARKED)
        }
        return marks(effects, tags)
