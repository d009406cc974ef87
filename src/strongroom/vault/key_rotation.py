"""Replace keys: the root key in several commits, an actor's key and the issuer key in one commit each.

Holders of caps cannot keep a rotation of the root key from ending. First the vault's secrets are wrapped with the new
root key. Every commit that makes or changes an actor's keys requires that the secrets are unchanged, so from then on no
key is wrapped with an old root key. The number of actors still under an old root key can only fall: an actor whose keys
changed meanwhile is under the new root key, or erased. If the rotation is interrupted, the keyring still holds every
root key that is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import msgspec

from strongroom.caps import chain
from strongroom.crypto import inbox
from strongroom.errors import InvalidRequest, StoreUnavailable
from strongroom.keys import Keyring
from strongroom.memory import DecisionRecorder, Replica
from strongroom.memory.stored_keys import KeyCache
from strongroom.memory.vault_records import SECRETS
from strongroom.model import Actor
from strongroom.store import Effect, Expect, Lost, Store, Swap
from strongroom.store.fleet_contract import FleetStore

_TRIES = 64
_SCRUBS = 8
_PORTION = 256
"""The number of actors in one commit. Such a commit takes about 30 ms, in which no other process can write."""


class Rotated(msgspec.Struct, frozen=True):
    """The result of a root rotation.

    If `pending` is true, the store's journal may still hold keys wrapped with the old root key.
    """

    actors: int
    pending: bool


class Unfinished(msgspec.Struct, frozen=True):
    """The state of an interrupted or running root rotation.

    `roots` counts the root keys in the keyring, and `actors` those whose keys are not yet wrapped with the newest one.
    """

    roots: int
    actors: int


def rotate_root(clerk: DecisionRecorder, *, resume: bool = False) -> Rotated:
    """Wrap the secrets and every actor's keys with a new root key, a few actors at a time, and drop the old root keys.

    The new root key is in the keyring before it wraps anything. An old root key stays in the keyring until it wraps
    nothing.
    """
    state = clerk.state
    with state.source.rotating():
        for _ in all_keys(state):
            pass  # keys that do not open could not be moved: they raise here, before anything is changed
        ring = _ring_to_reach(state, resume=resume)
        state.records.use_ring(ring)
        retry_commit(state, lambda: _seal_secrets(clerk, ring))
        if isinstance(state.store, FleetStore):
            state.store.settle()  # a bucket checks conditions one by one: a commit begun before may still write
        moved = 0
        while found := _move_all(clerk, ring):  # until a pass finds none: only then are the old root keys dropped
            moved += found
        state.source.replace(ring.only_active())
        state.records.use_ring(ring.only_active())
    return Rotated(moved, pending=not _scrub(state.store))


def unfinished(state: Replica) -> Unfinished | None:
    """The remaining work of an interrupted root rotation; None if the keyring holds a single root key."""
    state.catch_up()
    ring = state.source.load()
    if len(ring.keys) == 1:
        return None
    return Unfinished(len(ring.keys), sum(root != ring.active for _, root in _roots(state)))


def _ring_to_reach(state: Replica, *, resume: bool) -> Keyring:
    """The keyring whose active key is to wrap everything.

    The keyring is a new one, or with `resume` that of the interrupted rotation.
    """
    ring = state.source.load()
    if resume and len(ring.keys) == 1:
        raise InvalidRequest(
            "there is no interrupted rotation to continue", hint="to begin a new one, leave out --continue"
        )
    if not resume:
        ring = ring.adding(os.urandom(32))
        state.source.replace(ring)
    return ring


def _seal_secrets(clerk: DecisionRecorder, ring: Keyring) -> None:
    state = clerk.state
    # A vault from a version without inboxes gets its inbox key here.
    secrets = (
        state.records.secrets if state.records.secrets.inbox else state.records.secrets.with_inbox(inbox.new_identity())
    )
    body = secrets.sealed(state.vault_id, ring, os.urandom)
    clerk.admin.record_owner("rotate-root", [Swap(SECRETS, body, state.records.secrets_version)])


def _move_all(clerk: DecisionRecorder, ring: Keyring) -> int:
    """Wrap all actor keys that are under an old root key with the active one. Returns the number of actors moved."""
    moved, portion = 0, dict[str, KeyCache]()
    for locator, root in _roots(clerk.state):
        held = None if root == ring.active else clerk.state.stored_keys.read(locator)
        if held is not None:
            portion[locator] = held
        if len(portion) == _PORTION:
            moved += _move(clerk, ring, portion)
            portion = {}
    return moved + _move(clerk, ring, portion)


def _move(clerk: DecisionRecorder, ring: Keyring, portion: Mapping[str, KeyCache]) -> int:
    """Wrap the keys of some actors anew in one commit. Returns the number of actors moved.

    Actors whose keys were moved or erased by another process meanwhile are left out.
    """
    state = clerk.state
    left = dict(portion)
    sealed: dict[str, Effect] = {locator: _sealed(state, ring, held) for locator, held in left.items()}
    for _ in range(len(portion) + _TRIES):
        if not left:
            return 0
        try:
            clerk.admin.record_owner("rotate-root", list(sealed.values()), keys=[held.keys for held in left.values()])
        except Lost as lost:
            # A commit to a bucket may be carried out in part, so there all of it is checked again.
            for locator in [lost.name.split("/")[1]] if state.store.is_whole else list(left):
                state.catch_up(locator)
                held = state.stored_keys.read(locator)
                if held is None or held.keys.root == ring.active:
                    del left[locator], sealed[locator]
                else:
                    left[locator], sealed[locator] = held, _sealed(state, ring, held)
            continue
        state.catch_up()
        return len(left)
    raise StoreUnavailable(
        "other processes kept changing keys during the rotation", hint="rotate the root key again; nothing was lost"
    )


def _sealed(state: Replica, ring: Keyring, held: KeyCache) -> Swap:
    return Swap(state.slots.keys(held.keys.actor), held.keys.sealed(ring, os.urandom), held.version)


def _scrub(store: Store) -> bool:
    """Scrub the journal. Retries a few times, since a reader usually holds the scrub up only for a moment."""
    return any(store.scrub() for _ in range(_SCRUBS))


def rotate_actor(clerk: DecisionRecorder, actor: Actor) -> None:
    """Replace an actor's key, and begin a new epoch in each of its namespaces. Old lines stay readable."""
    state = clerk.state

    def rotate() -> None:
        held = state.keys_of(actor)
        if held is None:
            raise InvalidRequest(f"{actor} has no keys to rotate, because nothing was ever put for it")
        body = held.keys.rotated(os.urandom).sealed(state.records.ring(), os.urandom)
        # With this condition, a root rotation at the same time cannot miss the new document.
        effects: list[Effect] = [
            Expect(SECRETS, state.records.secrets_version),
            Swap(state.slots.keys(actor), body, held.version),
        ]
        clerk.admin.record_owner("rotate-actor", effects, keys=[held.keys])

    stop = (
        f"if a holder of this actor's caps does this, stop it with `strongroom cap revoke --for {actor}`, then rotate"
        " again"
    )
    retry_commit(state, rotate, hint=stop)


def rotate_issuer(clerk: DecisionRecorder) -> None:
    """Replace the issuer key.

    First the vault accepts both keys, then the key file is replaced, and then the vault accepts only the new key.
    """
    state = clerk.state
    seed = os.urandom(32)
    public = chain.public_key(seed)
    name = chain.issuer_id(public)
    with state.source.rotating():
        retry_commit(state, lambda: _set_issuers(clerk, {**state.records.secrets.issuers, name: public}))
        state.source.replace_issuer(seed)
        retry_commit(state, lambda: _set_issuers(clerk, {name: public}))


def _set_issuers(clerk: DecisionRecorder, issuers: dict[str, bytes]) -> None:
    state = clerk.state
    secrets = msgspec.structs.replace(
        state.records.secrets, issuers=issuers, generation=state.records.secrets.generation + 1
    )
    body = secrets.sealed(state.vault_id, state.records.ring(), os.urandom)
    clerk.admin.record_owner("rotate-issuer", [Swap(SECRETS, body, state.records.secrets_version)])


def all_keys(state: Replica) -> Iterator[KeyCache]:
    """The keys of every actor. They are read from the store without filling the cache."""
    for locator, _ in _roots(state):
        held = state.stored_keys.read(locator)
        if held is not None:
            yield held


def _roots(state: Replica) -> Iterator[tuple[str, str]]:
    """The locator (name in the store) of every actor with keys, and the id of the root key that wraps these keys."""
    state.catch_up()
    for locator in state.stored_keys.locators():
        if not state.store.is_distant:
            state.catch_up(locator)
        root = state.stored_keys.root(locator)
        if root is not None:
            yield locator, root


def retry_commit(state: Replica, change: Callable[[], object], *, hint: str = "") -> None:
    """Run `change` until it does not raise `Lost` (optimistic concurrency).

    Before each new attempt the state is brought up to date.
    """
    for _ in range(_TRIES):
        state.catch_up()
        try:
            change()
        except Lost:
            continue
        state.catch_up()
        return
    raise StoreUnavailable(
        "the vault is too busy: other processes kept changing the same objects", hint=hint or "try again"
    )
