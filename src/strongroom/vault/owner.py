"""The vault as its owner sees it: mint and revoke, namespaces, erase, rotate, audit.

Everything here needs the vault's keys. Lines are reached through `memory(cap)` alone, for the owner too: even
`erase` mints itself a short cap and goes through the gate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType

import msgspec

from strongroom import cap, model
from strongroom.audit.log import Witness
from strongroom.cap import Token
from strongroom.errors import InvalidRequest, KeyUnavailable, StrongroomError, UnknownNamespace
from strongroom.memory import Clerk, Memory
from strongroom.memory.pages import keep_pages
from strongroom.memory.state import CAPS, NAMESPACES, REVOKED, CapRecord, NamespaceRegistry
from strongroom.model import Actor, DataClass, Erased, LinkId, Namespace, Op
from strongroom.store import Lost, PutNew, Swap
from strongroom.vault import rotation
from strongroom.vault.auditing import Audit
from strongroom.vault.rotation import all_keys, retrying

TTL_DEFAULT = 300
TTL_LIMIT = 400 * 24 * 3600


class Vault:
    """An open vault. Use it as a context manager, or close it. Thread-safe; after a fork, open it anew."""

    def __init__(self, clerk: Clerk, witness: Witness) -> None:
        self._clerk = clerk
        self._state = clerk.state
        self.audit = Audit(clerk, witness)

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
                keep_pages(self._state)
        finally:
            self._state.shelves.close()
            self._state.store.close()

    @property
    def id(self) -> str:
        return self._state.vault_id

    def memory(self, token: str, *, source: str = "python", request: str = "") -> Memory:
        """The memory that a cap opens. The cap is checked at every call, not here."""
        return Memory(self._clerk, token, source=source, request=request)

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
        self._state.catch_up()
        names = [model.namespace(name) for name in _texts(namespaces, "namespaces")]
        unknown = sorted(set(names) - set(self._state.namespaces))
        if unknown:
            raise UnknownNamespace(
                f"the vault has no namespace {unknown[0]}", hint=f"it has {', '.join(self._state.namespaces)}"
            )
        if not isinstance(ttl, int) or not 1 <= ttl <= TTL_LIMIT:
            raise InvalidRequest(f"ttl is a whole number of seconds from 1 to {TTL_LIMIT}")
        seed = self._state.source.issuer()
        if cap.issuer_id(cap.public_key(seed)) not in self._state.secrets.issuers:
            raise KeyUnavailable("the issuer key is not the one of this vault", hint="use the keys made with it")
        token = cap.mint(
            issuer_seed=seed,
            audience=self.id,
            jti=os.urandom(16),
            holder_seed=os.urandom(32) if delegable else None,
            now=self._issue_time(actor),
            ttl=ttl,
            ops=_texts(ops, "ops"),
            namespaces=names,
            actor=actor,
            actor_scope=actor_scope,
            data_class=data_class,
            session=session,
            max_k=max_k,
            max_depth=max_depth,
            label=label,
        )
        first = cap.parse(token).links[0]
        record = _cap_record(first)
        effect = PutNew(CAPS + first.id, self._state.sealed_record(CAPS + first.id, record))
        self._clerk.record_owner("mint", [effect], links=[first.id])
        return token

    def _issue_time(self, actor: str | None) -> int:
        """Now, but never before what an erasure or a revocation of this actor has voided."""
        now = self._clerk.now() // 1000
        if actor is None:
            return now
        return max(now, self._state.standing.not_before.get(self._state.slots.actor(model.actor(actor)), 0))

    def revoke(self, token_or_link: str) -> LinkId:
        """Revoke a cap and all that was narrowed from it, in every process, from their next call on."""
        is_token = "." in token_or_link
        link = cap.parse(token_or_link).links[-1].id if is_token else model.link_id(token_or_link)
        name = REVOKED + link
        with suppress(Lost):  # it was revoked before
            self._clerk.record_owner("revoke", [PutNew(name, b"")], links=[link])
        self._state.catch_up()
        return link

    def revoke_actor(self, actor: str) -> None:
        """Revoke every cap of an actor that was issued up to now."""
        locator = self._state.slots.actor(model.actor(actor))
        retrying(
            self._state,
            lambda: self._clerk.record_owner("revoke", [self._state.standing_effect(locator, self._clerk.now())]),
        )

    def caps(self) -> Iterator[CapRecord]:
        """Every cap that was minted, oldest first, but for those of erased actors."""
        self._state.catch_up()
        found = [
            self._state.record(thing.name, CapRecord) for thing in self._state.objects(CAPS) if thing.body is not None
        ]
        for record in sorted(found, key=lambda one: (one.issued, one.link)):
            yield msgspec.structs.replace(record, revoked=self._is_void(record))

    def _is_void(self, record: CapRecord) -> bool:
        standing = self._state.standing
        voided = standing.not_before.get(self._state.slots.actor(Actor(record.actor)), 0)
        return record.link in standing.revoked or record.issued < voided

    # Namespaces and actors.

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """The vault's namespaces, most sensitive first."""
        self._state.catch_up()
        return self._state.namespaces

    def add_namespace(self, name: str, *, before: str | None = None) -> None:
        """Register a namespace as the least sensitive, or as just more sensitive than `before`."""
        new = model.namespace(name)

        def change() -> None:
            names = list(self._state.namespaces)
            if new in names:
                raise InvalidRequest(f"there is a namespace {new} already")
            if before is not None and before not in names:
                raise UnknownNamespace(f"the vault has no namespace {before}")
            names.insert(len(names) if before is None else names.index(Namespace(before)), new)
            stored = self._state.store.get(NAMESPACES)
            version = 0 if stored is None else stored.version
            body = self._state.sealed_record(NAMESPACES, NamespaceRegistry(tuple(names)))
            self._clerk.record_owner("namespaces", [Swap(NAMESPACES, body, version)])

        retrying(self._state, change)

    def actors(self) -> Iterator[Actor]:
        """Every actor that has keys, in no particular order."""
        for held in all_keys(self._state):
            yield held.keys.actor

    def names_in_log(self) -> dict[str, str]:
        """What the log's tags stand for: each actor's and each of its namespaces'. Those of the erased are unknown."""
        names: dict[str, str] = {}
        for held in all_keys(self._state):
            names[held.keys.actor_tag()] = held.keys.actor
            for name in self._state.namespaces:
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
        if rotate_root:
            self.rotate_root()
            erased = Erased(erased.objects, pending=not self.scrub())
        return erased

    def scrub(self) -> bool:
        """Remove what deleted objects left in the store's journals; False if another process is in the way."""
        return self._state.store.scrub()

    # Rotation.

    def rotate_root(self) -> None:
        """Replace the root key. Interrupted, the vault still opens; run it again."""
        rotation.rotate_root(self._clerk)

    def rotate_actor(self, actor: str) -> None:
        """Give an actor a new key and each of its namespaces a new epoch; old lines stay readable."""
        rotation.rotate_actor(self._clerk, model.actor(actor))

    def rotate_issuer(self) -> None:
        """Replace the issuer key. Every cap minted before is void from now on."""
        rotation.rotate_issuer(self._clerk)

    def accept_clock(self) -> None:
        """Accept this machine's clock although the log's latest entry lies ahead of it; the log says so."""
        self._clerk.record_owner("accept-clock", accept_clock=True)


def _texts(values: Iterable[str], what: str) -> list[str]:
    if isinstance(values, str):
        raise InvalidRequest(f"{what} is a list of names, not one text")
    return [str(value) for value in values]


def _cap_record(first: cap.Link) -> CapRecord:
    claims = first.claims
    assert isinstance(claims, cap.Grantable)  # noqa: S101 - link 0 always is
    return CapRecord(
        link=first.id,
        actor=claims.actor or claims.actor_scope or "",
        data_class=claims.data_class,
        ops=claims.ops,
        namespaces=claims.namespaces_allowed,
        issued=claims.iat,
        expires=claims.exp,
        label=claims.label or "",
    )
