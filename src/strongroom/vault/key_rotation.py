"""Replacing keys: the root in portions, an actor's and the issuer's each in one commit.

A rotation of the root ends whatever holders of caps do meanwhile. First the vault's secrets are sealed by the new root.
Whoever makes or changes an actor's keys commits on condition that the secrets are unchanged, so from then on no old
root seals anything new. What is left then only shrinks: a document that is lost to somebody else's commit is sealed by
the new root already, or gone. Interrupted anywhere, every root that is needed is in the keyring.
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
"""Actors in one commit: some 30 ms in which nobody else writes."""


class Rotated(msgspec.Struct, frozen=True):
    """What a rotation of the root did. `pending` while the store's journal may hold what the old root sealed."""

    actors: int
    pending: bool


class Unfinished(msgspec.Struct, frozen=True):
    """A rotation of the root that was stopped, or is under way: roots in the keyring, and actors still to be moved."""

    roots: int
    actors: int


def rotate_root(clerk: DecisionRecorder, *, resume: bool = False) -> Rotated:
    """Seal the secrets and every actor's keys by a new root, in portions, and drop the old roots from the keyring.

    The new root is in the keyring before anything is sealed by it, and the old ones until nothing is.
    """
    state = clerk.state
    with state.source.rotating():
        for _ in all_keys(state):
            pass  # keys that do not open could not be moved: that is said before anything is changed
        ring = _ring_to_reach(state, resume=resume)
        state.records.use_ring(ring)
        retry_commit(state, lambda: _seal_secrets(clerk, ring))
        if isinstance(state.store, FleetStore):
            state.store.settle()  # its conditions are not of one moment: who began before may still write
        moved = 0
        while found := _move_all(clerk, ring):  # the last time none is found: a root is dropped once that was seen
            moved += found
        state.source.replace(ring.only_active())
        state.records.use_ring(ring.only_active())
    return Rotated(moved, pending=not _scrub(state.store))


def unfinished(state: Replica) -> Unfinished | None:
    """What a stopped rotation of the root left to do, by the keyring; None if there was none."""
    state.catch_up()
    ring = state.source.load()
    if len(ring.keys) == 1:
        return None
    return Unfinished(len(ring.keys), sum(root != ring.active for _, root in _roots(state)))


def _ring_to_reach(state: Replica, *, resume: bool) -> Keyring:
    """The keyring with the root that is to seal everything: a new one, or that of the rotation to be resumed."""
    ring = state.source.load()
    if resume and len(ring.keys) == 1:
        raise InvalidRequest("no rotation of the root was stopped: the keyring holds one", hint="begin a new one")
    if not resume:
        ring = ring.adding(os.urandom(32))
        state.source.replace(ring)
    return ring


def _seal_secrets(clerk: DecisionRecorder, ring: Keyring) -> None:
    state = clerk.state
    # A vault made before there were inboxes gets its key here; one that has a key keeps it.
    secrets = (
        state.records.secrets if state.records.secrets.inbox else state.records.secrets.with_inbox(inbox.new_identity())
    )
    body = secrets.sealed(state.vault_id, ring, os.urandom)
    clerk.admin.record_owner("rotate-root", [Swap(SECRETS, body, state.records.secrets_version)])


def _move_all(clerk: DecisionRecorder, ring: Keyring) -> int:
    """Seal anew all keys that another root seals than the active one; of how many actors."""
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
    """Seal a portion anew in one commit, without what others change before it; how many actors that were."""
    state = clerk.state
    left = dict(portion)
    sealed: dict[str, Effect] = {locator: _sealed(state, ring, held) for locator, held in left.items()}
    for _ in range(len(portion) + _TRIES):
        if not left:
            return 0
        try:
            clerk.admin.record_owner("rotate-root", list(sealed.values()), keys=[held.keys for held in left.values()])
        except Lost as lost:
            # Where a commit is not whole, some of it may have been carried out: all of it is looked at again.
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
    raise StoreUnavailable("others kept changing keys below the old root", hint="rotate again: nothing is lost")


def _sealed(state: Replica, ring: Keyring, held: KeyCache) -> Swap:
    return Swap(state.slots.keys(held.keys.actor), held.keys.sealed(ring, os.urandom), held.version)


def _scrub(store: Store) -> bool:
    """A reader elsewhere holds the journal up for a moment at a time: ask again before giving up."""
    return any(store.scrub() for _ in range(_SCRUBS))


def rotate_actor(clerk: DecisionRecorder, actor: Actor) -> None:
    """A new actor key, and a new epoch for each of its namespaces."""
    state = clerk.state

    def rotate() -> None:
        held = state.keys_of(actor)
        if held is None:
            raise InvalidRequest("this actor has no keys to rotate: nothing was ever put")
        body = held.keys.rotated(os.urandom).sealed(state.records.ring(), os.urandom)
        # A rotation of the root must not overlook it.
        effects: list[Effect] = [
            Expect(SECRETS, state.records.secrets_version),
            Swap(state.slots.keys(actor), body, held.version),
        ]
        clerk.admin.record_owner("rotate-actor", effects, keys=[held.keys])

    stop = (
        f"if it is a holder of this actor's caps, `strongroom cap revoke --for {actor}` stops that; then rotate again"
    )
    retry_commit(state, rotate, hint=stop)


def rotate_issuer(clerk: DecisionRecorder) -> None:
    """A new issuer key. First the vault knows both, then the file holds the new one, then the old is unknown."""
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
    """The keys of every actor. Those that are in use stay cached; these are read past them."""
    for locator, _ in _roots(state):
        held = state.stored_keys.read(locator)
        if held is not None:
            yield held


def _roots(state: Replica) -> Iterator[tuple[str, str]]:
    """The locator of every actor that has keys, and the root that seals them."""
    state.catch_up()
    for locator in state.stored_keys.locators():
        if not state.store.is_distant:
            state.catch_up(locator)
        root = state.stored_keys.root(locator)
        if root is not None:
            yield locator, root


def retry_commit(state: Replica, change: Callable[[], object], *, hint: str = "") -> None:
    """Carry out a change of the vault itself, starting anew whenever another process was first."""
    for _ in range(_TRIES):
        state.catch_up()
        try:
            change()
        except Lost:
            continue
        state.catch_up()
        return
    raise StoreUnavailable("the vault is too busy: other processes kept changing it", hint=hint)
