"""Replacing keys: the root, an actor's, the issuer's. Each ends in one commit or leaves the vault as it was."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from strongroom import cap, inbox
from strongroom.errors import InvalidRequest, StoreUnavailable
from strongroom.keys import ActorKeys, Keyring
from strongroom.memory import Clerk, State
from strongroom.memory.state import SECRETS, HeldKeys
from strongroom.model import Actor
from strongroom.store import Effect, Lost, Swap
from strongroom.store.fleet import Fleet

_TRIES = 64
_PORTION = 256
"""Actors in one commit where commits are not whole."""


def rotate_root(clerk: Clerk) -> None:
    """Wrap every actor's keys anew in one commit, then drop the old root.

    The new root is in the keyring before anything is wrapped by it, and the old one until nothing is.
    """
    state = clerk.state
    with state.source.rotating():
        ring = state.source.load().adding(os.urandom(32))
        state.source.replace(ring)
        state.use_ring(ring)
        retrying(state, lambda: _rewrap(clerk, ring, everything=True))
        # From that commit on nothing new is wrapped by the old root, but an actor made just before it may be.
        retrying(state, lambda: _rewrap(clerk, ring, everything=False))
        if isinstance(state.store, Fleet):
            state.store.settle()
            retrying(state, lambda: _rewrap(clerk, ring, everything=False))
        state.source.replace(ring.only_active())
        state.use_ring(ring.only_active())
    state.store.scrub()


def _rewrap(clerk: Clerk, ring: Keyring, *, everything: bool) -> None:
    """Wrap the vault's secrets and every actor's keys anew, or only those keys that the active root does not wrap."""
    state = clerk.state
    effects: list[Effect] = []
    if everything:
        # A vault made before there were inboxes gets its key here; one that has a key keeps it.
        secrets = state.secrets if state.secrets.inbox else state.secrets.with_inbox(inbox.new_identity())
        body = secrets.sealed(state.vault_id, ring, os.urandom)
        effects.append(Swap(SECRETS, body, state.secrets_version))
    touched: list[ActorKeys] = []
    for held in all_keys(state):
        if everything or held.keys.root != ring.active:
            name = state.slots.keys(held.keys.actor)
            effects.append(Swap(name, held.keys.sealed(ring, os.urandom), held.version))
            touched.append(held.keys)
            if len(effects) >= _PORTION and not state.store.is_whole:
                # Both roots are in the keyring: nothing depends on all of it being one commit.
                clerk.record_owner("rotate-root", effects, keys=touched)
                effects, touched = [], []
    if effects:
        clerk.record_owner("rotate-root", effects, keys=touched)


def rotate_actor(clerk: Clerk, actor: Actor) -> None:
    """A new actor key, and a new epoch for each of its namespaces."""
    state = clerk.state

    def rotate() -> None:
        held = state.keys_of(actor)
        if held is None:
            raise InvalidRequest("this actor has no keys to rotate: nothing was ever put")
        body = held.keys.rotated(os.urandom).sealed(state.ring(), os.urandom)
        clerk.record_owner("rotate-actor", [Swap(state.slots.keys(actor), body, held.version)], keys=[held.keys])

    retrying(state, rotate)


def rotate_issuer(clerk: Clerk) -> None:
    """A new issuer key. First the vault knows both, then the file holds the new one, then the old is unknown."""
    state = clerk.state
    seed = os.urandom(32)
    public = cap.public_key(seed)
    name = cap.issuer_id(public)
    with state.source.rotating():
        retrying(state, lambda: _set_issuers(clerk, {**state.secrets.issuers, name: public}))
        state.source.replace_issuer(seed)
        retrying(state, lambda: _set_issuers(clerk, {name: public}))


def _set_issuers(clerk: Clerk, issuers: dict[str, bytes]) -> None:
    state = clerk.state
    secrets = msgspec.structs.replace(state.secrets, issuers=issuers, generation=state.secrets.generation + 1)
    body = secrets.sealed(state.vault_id, state.ring(), os.urandom)
    clerk.record_owner("rotate-issuer", [Swap(SECRETS, body, state.secrets_version)])


def all_keys(state: State) -> Iterator[HeldKeys]:
    """The keys of every actor."""
    state.catch_up()
    for locator in state.locators():
        state.catch_up(locator)
        held = state.held_keys(locator)
        if held is not None:
            yield held


def retrying(state: State, change: Callable[[], object]) -> None:
    """Carry out a change of the vault itself, starting anew whenever another process was first."""
    for _ in range(_TRIES):
        state.catch_up()
        try:
            change()
        except Lost:
            continue
        state.catch_up()
        return
    raise StoreUnavailable("the vault is too busy: other processes kept changing it")
