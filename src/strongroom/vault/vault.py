"""The owner's interface to a vault: mint and revoke, namespaces, erase, rotate, audit.

Everything here needs the vault's keys. The owner, too, reaches lines only with `memory(cap)`: even `erase` mints a
short cap and goes through the gate.
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
from strongroom.vault.fleet_audit import audit_of
from strongroom.vault.health import Upkeep, upkeep_of
from strongroom.vault.key_rotation import Rotated, Unfinished, all_keys, retry_commit


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Figures about an open vault. They reveal no actor."""

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
    """How many logs of this process were abandoned because somebody else wrote to their place in the bucket."""


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
        """Close the vault. Before that, write counted refusals, cache pages, and scrub, as far as that works."""
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
        """The memory that a cap opens. The cap is checked at every call, not here."""
        return Memory(self.door(token, source=source, request=request))

    def door(self, token: str, *, source: str = "python", request: str = "") -> LocalTransport:
        """The transport for calls with a cap; `memory` wraps it."""
        return LocalTransport(self._clerk, token, OPERATIONS, source=source, request=request)

    @property
    def store(self) -> Store:
        """The vault's store, for a server that groups the commits of many requests."""
        return self._state.store

    def together(self) -> AbstractContextManager[bool]:
        """Check for changes only once for several operations of this thread that begin now; see `Replica`."""
        return self._state.together()

    def settle(self) -> None:
        """Index lines put since the last get, so that the next one need not wait for it; forget what has expired.

        Nothing is returned to a caller, so there is nothing for the gate to decide. Forgetting is recorded.
        """
        self._state.shelves.settle()
        forget_ended(self._clerk)

    def sum_up_refusals(self, *, wholly: bool = False) -> None:
        """Log the number of refusals that were only counted, for past minutes or, with `wholly`, until now.

        Requests and `close` do this when it is due; a process without requests has to call it.
        """
        run_inline(self._clerk.refusals.sum_up(wholly=wholly), self._state.store)

    def check_ready(self) -> None:
        """Raise unless store, keys and log are working: everything a request would need."""
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
            raise ClockBehind("this machine's clock is behind the log", hint="correct the clock")

    def usage(self) -> Usage:
        """What this process caches, and its counters since it opened the vault."""
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
        """Mint a cap for `ttl` seconds, by default 30 days. It is on record before it is returned."""
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

        Every process refuses them from its next call on.
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
        """Every minted cap, oldest first, without those of erased actors; or only those of one actor or scope."""
        return issue.records(self._state, actor)

    def caps_on_record(self, links: Iterable[str]) -> Iterator[CapRecord]:
        """The records of the given links, as far as they were minted. Reads no other records."""
        return issue.on_record(self._state, map(model.link_id, links))

    def shut_out(self, link: str) -> tuple[Actor, ...]:
        """Actors for whom a cap for a scope is void, because their caps were revoked after it was issued.

        Only actors with keys are returned: an erased actor has none and cannot be named.
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
                raise InvalidRequest(f"the vault already has a namespace {new}")
            if before is not None and before not in names:
                raise UnknownNamespace(
                    f"the vault has no namespace {before}", hint=f"its namespaces are {', '.join(names)}"
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
        """The actor or namespace behind each tag in the log. Tags of erased actors are missing."""
        names: dict[str, str] = {}
        for held in all_keys(self._state):
            names[held.keys.actor_tag()] = held.keys.actor
            for name in self._state.records.namespaces:
                names[held.keys.namespace_tag(self._state.slots.namespace(held.keys.actor, name))] = name
        return names

    def erase(self, actor: str, *, rotate_root: bool = False) -> Erased:
        """Destroy all memory of an actor with its keys, and void its caps.

        Earlier copies of the vault's files still hold the wrapped keys, which the root key opens; `rotate_root`
        replaces the root key to prevent that.
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
        """Remove the bytes of deleted objects from the store's journals; False if another process is reading."""
        return self._state.store.scrub()

    def scrub_is_due(self) -> bool:
        """Whether a journal may still hold bytes of deleted objects, because a scrub was put off."""
        store = self._state.store
        return isinstance(store, OnDisk) and store.scrub_is_due()

    def upkeep(self) -> Upkeep:
        """Figures for monitoring. Reads the record of every cap, so do not call it for every request."""
        return upkeep_of(self._state.store, self.caps(), self._clerk.now() // 1000, self.audit.backup_age())

    # Rotation.

    def rotate_root(self, *, resume: bool = False) -> Rotated:
        """Replace the root key. If it is interrupted, the vault still opens; run it again.

        Running it again makes another new root key and moves everything to it. With `resume`, it keeps the one of the
        interrupted rotation and moves only what is left.
        """
        return key_rotation.rotate_root(self._clerk, resume=resume)

    def unfinished_rotation(self) -> Unfinished | None:
        """What an interrupted or running root rotation has left to do; None if there is none."""
        return key_rotation.unfinished(self._state)

    def rotate_actor(self, actor: str) -> None:
        """Give an actor a new key and each of its namespaces a new epoch; old lines stay readable."""
        key_rotation.rotate_actor(self._clerk, model.actor(actor))

    def check_issuer(self) -> None:
        """Raise `KeyUnavailable` unless the issuer key exists and belongs to this vault."""
        issue.issuer_seed(self._state)

    def rotate_issuer(self) -> None:
        """Replace the issuer key. This voids every cap minted before."""
        key_rotation.rotate_issuer(self._clerk)

    def accept_clock(self) -> None:
        """Accept this machine's clock although the log's latest entry is ahead of it. The log records this."""
        self._clerk.admin.record_owner("accept-clock", accept_clock=True)


def _texts(values: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidRequest(f"{what} must be a list of names, not a string")
    return tuple(str(value) for value in values)
