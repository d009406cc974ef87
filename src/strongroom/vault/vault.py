"""The vault as its owner sees it: mint and revoke, namespaces, erase, rotate, audit.

Everything here needs the vault's keys. Lines are reached through `memory(cap)` alone, for the owner too: even
`erase` mints itself a short cap and goes through the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from types import TracebackType

import msgspec

from strongroom import api, model
from strongroom.audit.log import Witness
from strongroom.caps import chain
from strongroom.caps.chain import Token
from strongroom.errors import ClockBehind, InvalidRequest, StrongroomError, UnknownNamespace
from strongroom.keys import FileKeys
from strongroom.memory import DecisionRecorder, Memory
from strongroom.memory.cap_records import standing_effects
from strongroom.memory.local_transport import LocalTransport, run_inline
from strongroom.memory.stored_pages import keep_pages
from strongroom.memory.vault_records import NAMESPACES, NamespaceRegistry
from strongroom.model import Actor, CapRecord, DataClass, Erased, LinkId, Namespace, Op
from strongroom.store import CLOCK_LEEWAY, Grouping, OnDisk, Store, Swap
from strongroom.store.fleet_contract import FleetStore
from strongroom.vault import cap_void_reason, issue, key_rotation
from strongroom.vault.admin_calls import OPERATIONS
from strongroom.vault.fleet_audit import audit_of
from strongroom.vault.health import Upkeep, upkeep_of
from strongroom.vault.key_rotation import Rotated, Unfinished, all_keys, retry_commit

TTL_DEFAULT = 300


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Figures about an open vault; nothing in them tells of an actor."""

    shelves: int
    shelf_bytes: int
    shelf_hits: int
    shelf_misses: int
    log_size: int
    checkpoint_age: float | None
    garbage: int
    refusals_counted: int
    refusals_pending: int
    group_sizes: Mapping[int, int]
    grouped: int
    taken_logs: int
    """How many logs of this process had something foreign put in their way."""


class Vault:
    """An open vault. Use it as a context manager, or close it. Thread-safe; after a fork, open it anew."""

    def __init__(self, clerk: DecisionRecorder, witness: Witness) -> None:
        self._clerk = clerk
        self._state = clerk.state
        self.audit = audit_of(clerk, witness)

    def __repr__(self) -> str:
        return f"<vault {self.id}>"

    def __enter__(self) -> Vault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the vault. What a later process can use to answer faster is written first, if it can be."""
        try:
            with suppress(StrongroomError):
                self.sum_up_refusals(wholly=True)
            with suppress(StrongroomError):
                keep_pages(self._state)
                if self.scrub_is_due():
                    self.scrub()
        finally:
            self._state.shelves.close()
            self._state.store.close()

    @property
    def id(self) -> str:
        return self._state.vault_id

    def memory(self, token: str, *, source: str = "python", request: str = "") -> Memory:
        """The memory that a cap opens. The cap is checked at every call, not here."""
        return Memory(self.door(token, source=source, request=request))

    def door(self, token: str, *, source: str = "python", request: str = "") -> LocalTransport:
        """Where calls made with a cap go; `memory` is the friendly form of it."""
        return LocalTransport(self._clerk, token, OPERATIONS, source=source, request=request)

    @property
    def store(self) -> Store:
        """Where the vault is kept, for who commits on behalf of many."""
        return self._state.store

    def together(self) -> AbstractContextManager[bool]:
        """Look once whether anything is new, for several operations begun now by this thread alone; see `State`."""
        return self._state.together()

    def settle(self) -> None:
        """Read into the index what was put since the last question, which the next one would have to wait for.

        Nobody is answered by that, so there is nothing to decide and nothing to record.
        """
        self._state.shelves.settle()

    def sum_up_refusals(self, *, wholly: bool = False) -> None:
        """Write down how many refusals were counted instead of written, in minutes that are over or `wholly`.

        Every request does it where that is due, and so does `close`; a process that gets no requests calls this.
        """
        run_inline(self._clerk.refusals.sum_up(wholly=wholly), self._state.store)

    def check_ready(self) -> None:
        """Raise unless store, keys and log answer: what a request would need, without making one."""
        state = self._state
        state.catch_up()
        if isinstance(state.source, FileKeys):
            state.source.check()
        else:
            state.source.load()
        if isinstance(state.store, FleetStore):
            state.store.check_log()
        head = state.store.head()
        state.mac.check(head)
        if head.time - self._clerk.now() > CLOCK_LEEWAY:
            raise ClockBehind("this machine's clock is behind the log", hint="set the clock")

    def usage(self) -> Usage:
        """What this process holds of the vault, and what it has counted since it was opened."""
        state = self._state
        shelves, shelf_bytes = state.shelves.usage()
        sizes, grouped = state.store.group_sizes() if isinstance(state.store, Grouping) else ({}, 0)
        return Usage(
            shelves=shelves,
            shelf_bytes=shelf_bytes,
            shelf_hits=state.shelves.hits,
            shelf_misses=state.shelves.misses,
            log_size=state.log.size(),
            checkpoint_age=self.audit.seen_age(),
            garbage=self._clerk.refusals.garbage,
            refusals_counted=self._clerk.refusals.log.counted,
            refusals_pending=self._clerk.refusals.log.pending,
            group_sizes=sizes,
            grouped=grouped,
            taken_logs=state.store.taken_logs if isinstance(state.store, FleetStore) else 0,
        )

    # Caps.

    def mint(
        self,
        *,
        ops: Iterable[str],
        namespaces: Iterable[str],
        actor: str | None = None,
        actor_scope: str | None = None,
        ttl: int = TTL_DEFAULT,
        data_class: str = DataClass.MEMORY,
        session: str | None = None,
        max_k: int | None = None,
        max_depth: int | None = None,
        label: str | None = None,
        delegable: bool = True,
    ) -> Token:
        """Sign a cap for `ttl` seconds. It is on record before it is returned."""
        terms = api.Mint(
            ops=_texts(ops, "ops"),
            namespaces=_texts(namespaces, "namespaces"),
            actor=actor,
            actor_scope=actor_scope,
            ttl=ttl,
            session=session,
            max_k=max_k,
            max_depth=max_depth,
            label=label,
            delegable=delegable,
        )
        return issue.issue(self._clerk, terms, data_class)

    def revoke(self, token_or_link: str) -> LinkId:
        """Revoke a cap and all that came from it, in every process, from their next call on.

        What came from it was narrowed from it, renewed from it, or minted with it.
        """
        is_token = "." in token_or_link
        links = [one.id for one in chain.parse(token_or_link).links] if is_token else [model.link_id(token_or_link)]
        issue.revoke(self._clerk, links[-1], links[0])
        issue.index(self._clerk)
        return links[-1]

    def revoke_actor(self, actor: str) -> None:
        """Revoke every cap of an actor that was issued up to now."""
        whose = model.actor(actor)
        retry_commit(
            self._state,
            lambda: self._clerk.admin.record_owner("revoke", standing_effects(self._state, whose, self._clerk.now())),
        )
        issue.index(self._clerk)

    def caps(self, actor: str | None = None) -> Iterator[CapRecord]:
        """Every cap that was minted, oldest first, but for those of erased actors; or those of one actor or scope."""
        return issue.records(self._state, actor)

    def caps_on_record(self, links: Iterable[str]) -> Iterator[CapRecord]:
        """Those of these links of which a cap was minted, without reading any other."""
        return issue.on_record(self._state, map(model.link_id, links))

    def shut_out(self, link: str) -> tuple[Actor, ...]:
        """Actors that a minted cap for a scope covers no more: their caps were revoked after it was issued.

        Told of actors that have keys. An erased one has none, and is not told.
        """
        known = list(self.caps_on_record([link]))
        if not known or not self._state.standing.not_before:
            return ()
        return tuple(sorted(cap_void_reason.shut_out(self._state, known[0])))

    # Namespaces and actors.

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """The vault's namespaces, most sensitive first."""
        self._state.catch_up()
        return self._state.records.namespaces

    def add_namespace(self, name: str, *, before: str | None = None) -> None:
        """Register a namespace as the least sensitive, or as just more sensitive than `before`."""
        new = model.namespace(name)

        def change() -> None:
            names = list(self._state.records.namespaces)
            if new in names:
                raise InvalidRequest(f"there is a namespace {new} already")
            if before is not None and before not in names:
                raise UnknownNamespace(f"the vault has no namespace {before}")
            names.insert(len(names) if before is None else names.index(Namespace(before)), new)
            stored = self._state.store.get(NAMESPACES)
            version = 0 if stored is None else stored.version
            body = self._state.records.seal(NAMESPACES, NamespaceRegistry(tuple(names)))
            self._clerk.admin.record_owner("namespaces", [Swap(NAMESPACES, body, version)])

        retry_commit(self._state, change)

    def actors(self) -> Iterator[Actor]:
        """Every actor that has keys, in no particular order."""
        for held in all_keys(self._state):
            yield held.keys.actor

    def names_in_log(self) -> dict[str, str]:
        """What the log's tags stand for: each actor's and each of its namespaces'. Those of the erased are unknown."""
        names: dict[str, str] = {}
        for held in all_keys(self._state):
            names[held.keys.actor_tag()] = held.keys.actor
            for name in self._state.records.namespaces:
                names[held.keys.namespace_tag(self._state.slots.namespace(held.keys.actor, name))] = name
        return names

    def erase(self, actor: str, *, rotate_root: bool = False) -> Erased:
        """Destroy everything of an actor and void its caps.

        A copy of the vault's files made earlier still holds the wrapped keys, and the root key opens them;
        `rotate_root` replaces the root key, so that it does not.
        """
        if rotate_root:
            with self._state.source.rotating():
                pass  # before anything is destroyed: keys that cannot be rotated raise here
        token = self.mint(
            actor=actor,
            ops=[Op.ERASE],
            namespaces=self.namespaces,
            ttl=60,
            label="owner erase",
            delegable=False,
        )
        erased = self.memory(token, source="owner").erase(everything=True)
        return Erased(erased.objects, pending=self.rotate_root().pending) if rotate_root else erased

    def scrub(self) -> bool:
        """Remove what deleted objects left in the store's journals; False if another process is in the way."""
        return self._state.store.scrub()

    def scrub_is_due(self) -> bool:
        """Whether what was forgotten may still wait in a journal: a scrub was put off, and none has ended since."""
        store = self._state.store
        return isinstance(store, OnDisk) and store.scrub_is_due()

    def upkeep(self) -> Upkeep:
        """What an operator has to see to in time. It reads every cap's record: not for every request."""
        return upkeep_of(self._state.store, self.caps(), self._clerk.now() // 1000, self.audit.backup_age())

    # Rotation.

    def rotate_root(self, *, resume: bool = False) -> Rotated:
        """Replace the root key. Interrupted, the vault still opens; run it again.

        That makes a root that nobody can have seen yet, and moves everything to it. With `resume` it is the root of the
        rotation that was stopped, and only what was left is moved.
        """
        return key_rotation.rotate_root(self._clerk, resume=resume)

    def unfinished_rotation(self) -> Unfinished | None:
        """What a rotation of the root left to do that was stopped, or is under way; None if none was."""
        return key_rotation.unfinished(self._state)

    def rotate_actor(self, actor: str) -> None:
        """Give an actor a new key and each of its namespaces a new epoch; old lines stay readable."""
        key_rotation.rotate_actor(self._clerk, model.actor(actor))

    def check_issuer(self) -> None:
        """Raise KeyUnavailable unless the issuer key is there and is this vault's: without it nothing is minted."""
        issue.issuer_seed(self._state)

    def rotate_issuer(self) -> None:
        """Replace the issuer key. Every cap minted before is void from now on."""
        key_rotation.rotate_issuer(self._clerk)

    def accept_clock(self) -> None:
        """Accept this machine's clock although the log's latest entry lies ahead of it; the log says so."""
        self._clerk.admin.record_owner("accept-clock", accept_clock=True)


def _texts(values: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidRequest(f"{what} is a list of names, not one text")
    return tuple(str(value) for value in values)
