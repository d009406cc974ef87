"""The owner's interface to a vault: mint and revoke, namespaces, erase, rotate, audit.

All methods need the vault's keys. The owner, too, reaches lines only with `memory(cap)`. Even `erase` mints a
short-lived cap and goes through the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from types import TracebackType

import msgspec

from strongroom import api, model
from strongroom.audit.log import Witness
from strongroom.caps import chain
from strongroom.caps.authority import TTL_DEFAULT
from strongroom.caps.chain import Token
from strongroom.errors import ClockBehind, InvalidRequest, StrongroomError, UnknownNamespace
from strongroom.keys import FileKeys
from strongroom.memory import DecisionRecorder, Memory
from strongroom.memory.cap_records import standing_effects
from strongroom.memory.ended_lines import forget_ended
from strongroom.memory.local_transport import LocalTransport, run_inline
from strongroom.memory.stored_pages import keep_pages
from strongroom.memory.vault_records import NAMESPACES, NamespaceRegistry
from strongroom.model import Actor, CapRecord, DataClass, Erased, LinkId, Namespace, Op
from strongroom.store import CLOCK_LEEWAY, Grouping, OnDisk, Store, Swap
from strongroom.store.fleet_contract import FleetStore
from strongroom.vault import cap_void_reason, issue, key_rotation
from strongroom.vault.admin_calls import OPERATIONS
from strongroom.vault.ended_sweep import EndedSweep
from strongroom.vault.fleet_audit import audit_of
from strongroom.vault.health import Upkeep, upkeep_of
from strongroom.vault.key_rotation import Rotated, Unfinished, all_keys, retry_commit


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Figures about an open vault. They do not reveal any actor."""

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
    """How many logs of this process were given up because another writer used their names in the bucket."""


class Vault:
    """An open vault. Use it as a context manager, or close it.

    Thread-safe. After a fork, open the vault anew.
    """

    def __init__(self, clerk: DecisionRecorder, witness: Witness) -> None:
        self._clerk = clerk
        self._state = clerk.state
        self.audit = audit_of(clerk, witness)
        self.ended = EndedSweep(clerk)

    def __repr__(self) -> str:
        return f"<vault {self.id}>"

    def __enter__(self) -> Vault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the vault.

        Before that, as far as possible, counted refusals and cache pages are written, and deleted bytes are removed.
        """
        try:
            with suppress(StrongroomError):
                self.sum_up_refusals(wholly=True)
            with suppress(StrongroomError):
                forget_ended(self._clerk)
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
        """The memory that a cap opens. The cap is checked at every call on the memory, and not by this method."""
        return Memory(self.door(token, source=source, request=request))

    def door(self, token: str, *, source: str = "python", request: str = "") -> LocalTransport:
        """The transport for calls with a cap. `memory` is a more convenient interface to it."""
        return LocalTransport(self._clerk, token, OPERATIONS, source=source, request=request)

    @property
    def store(self) -> Store:
        """The vault's store, for a server that groups the commits of many requests."""
        return self._state.store

    def together(self) -> AbstractContextManager[bool]:
        """In this context, operations of this thread share one check for changes by others; see `Replica`.

        Use it for several operations that begin now.
        """
        return self._state.together()

    def settle(self) -> None:
        """Index the lines put since the last get, so that the next get is faster, and forget expired lines.

        The gate is not asked, because no line is returned. The log records lines that were forgotten.
        """
        self._state.shelves.settle()
        forget_ended(self._clerk)

    def sum_up_refusals(self, *, wholly: bool = False) -> None:
        """Log the number of refusals that were only counted, for past minutes or, with `wholly`, until now.

        Requests and `close` do this when it is due. A process without requests has to call this method itself.
        """
        run_inline(self._clerk.refusals.sum_up(wholly=wholly), self._state.store)

    def check_ready(self) -> None:
        """Raise an error if the store, the keys or the log do not work, so that requests would fail."""
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
            raise ClockBehind("this machine's clock is behind the log", hint="set this machine's clock")

    def usage(self) -> Usage:
        """The sizes of this process's caches for the vault, and its counters since it opened the vault."""
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
        """Mint a cap for `ttl` seconds, by default 30 days. The cap is on record before it is returned."""
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
        """Revoke a cap and every cap narrowed from it, renewed from it or minted with it. Returns its link.

        From their next call on, all processes refuse these caps.
        """
        is_token = "." in token_or_link
        links = [one.id for one in chain.parse(token_or_link).links] if is_token else [model.link_id(token_or_link)]
        issue.revoke(self._clerk, links[-1], links[0])
        issue.index(self._clerk)
        return links[-1]

    def revoke_actor(self, actor: str) -> None:
        """Revoke every cap issued so far for an actor."""
        whose = model.actor(actor)
        retry_commit(
            self._state,
            lambda: self._clerk.admin.record_owner("revoke", standing_effects(self._state, whose, self._clerk.now())),
        )
        issue.index(self._clerk)

    def caps(self, actor: str | None = None) -> Iterator[CapRecord]:
        """Every minted cap, oldest first, without those of erased actors.

        With `actor`, only the caps of that actor or scope of actors.
        """
        return issue.records(self._state, actor)

    def caps_on_record(self, links: Iterable[str]) -> Iterator[CapRecord]:
        """The records of the minted caps with these links. No other record is read."""
        return issue.on_record(self._state, map(model.link_id, links))

    def shut_out(self, link: str) -> tuple[Actor, ...]:
        """The actors for whom a cap for a scope of actors is void, because their caps were revoked after it was issued.

        Only actors with keys are returned: an erased actor has no keys, so its name is unknown.
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
        """Register a namespace. It becomes the least sensitive, or just more sensitive than the namespace `before`."""
        new = model.namespace(name)

        def change() -> None:
            names = list(self._state.records.namespaces)
            if new in names:
                raise InvalidRequest(f"the vault already has a namespace {new}")
            if before is not None and before not in names:
                raise UnknownNamespace(
                    f"the vault has no namespace {before}", hint=f"the vault's namespaces are {', '.join(names)}"
                )
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
        """The actor or namespace for each tag in the log. Tags of erased actors are missing."""
        names: dict[str, str] = {}
        for held in all_keys(self._state):
            names[held.keys.actor_tag()] = held.keys.actor
            for name in self._state.records.namespaces:
                names[held.keys.namespace_tag(self._state.slots.namespace(held.keys.actor, name))] = name
        return names

    def erase(self, actor: str, *, rotate_root: bool = False) -> Erased:
        """Destroy all memory of an actor with its keys, and make its caps void.

        Copies of the vault's files made earlier still hold the actor's wrapped keys, and the root key of that time
        opens these. `rotate_root` replaces the root key to prevent that.
        """
        if rotate_root:
            with self._state.source.rotating():
                pass  # keys that cannot be rotated raise here, before anything is destroyed
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
        """Remove the bytes of deleted objects from the store's journals.

        Returns False if another process is reading; then try again.
        """
        return self._state.store.scrub()

    def scrub_is_due(self) -> bool:
        """Whether a journal may still hold bytes of deleted objects, because a scrub was put off."""
        store = self._state.store
        return isinstance(store, OnDisk) and store.scrub_is_due()

    def upkeep(self) -> Upkeep:
        """Figures for monitoring. They need the record of every cap, so do not call this for every request."""
        return upkeep_of(self._state.store, self.caps(), self._clerk.now() // 1000, self.audit.backup_age())

    # Rotation.

    def rotate_root(self, *, resume: bool = False) -> Rotated:
        """Replace the root key. If this is interrupted, the vault still opens; run it again.

        Without `resume`, a second run makes another new root key and moves everything to it. With `resume`, it keeps
        the root key of the interrupted rotation and does only the remaining work.
        """
        return key_rotation.rotate_root(self._clerk, resume=resume)

    def unfinished_rotation(self) -> Unfinished | None:
        """The remaining work of an interrupted or running root rotation; None if there is no such rotation."""
        return key_rotation.unfinished(self._state)

    def rotate_actor(self, actor: str) -> None:
        """Give an actor a new key, and begin a new epoch in each of its namespaces. Old lines stay readable."""
        key_rotation.rotate_actor(self._clerk, model.actor(actor))

    def check_issuer(self) -> None:
        """Raise `KeyUnavailable` if the issuer key is missing or belongs to another vault."""
        issue.issuer_seed(self._state)

    def rotate_issuer(self) -> None:
        """Replace the issuer key. This makes every cap minted before void."""
        key_rotation.rotate_issuer(self._clerk)

    def accept_clock(self) -> None:
        """Accept this machine's clock although the log's latest entry has a later time. The log records this."""
        self._clerk.admin.record_owner("accept-clock", accept_clock=True)


def _texts(values: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidRequest(f"{what} must be a list of names, not a string")
    return tuple(str(value) for value in values)
