"""Caps and looks at the log for the tests of issuing: what was asked, what became of it, and what stayed alive."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from strongroom import Token, Vault, api
from strongroom.audit import Entry
from strongroom.caps import chain
from strongroom.caps.chain import Grantable
from strongroom.errors import Invalid, StrongroomError
from strongroom.memory.local_transport import run_inline
from strongroom.store import ANY, Commit, Effect, Version
from tests.conftest import NAMESPACES

SCOPE = "hermes/default/"
ALICE = "hermes/default/alice"
BOB = "hermes/default/bob"
ADMIN_OPS = ["audit", "mint", "revoke"]
REQUEST = "request-1"


def renewable(vault: Vault, **changes: Any) -> Token:
    """A cap of one actor, or of a scope of them, that may renew itself."""
    given: dict[str, Any] = {
        "actor": None if "actor_scope" in changes else ALICE,
        "ops": ["get", "put", "list", "renew"],
        "namespaces": ["work", "travel"],
        "ttl": 3600,
    }
    return vault.mint(**{**given, **changes})


def admin(vault: Vault, **changes: Any) -> Token:
    """An admin cap for a scope of actors and two namespaces."""
    given: dict[str, Any] = {
        "actor_scope": None if "actor" in changes else SCOPE,
        "ops": ADMIN_OPS,
        "namespaces": ["work", "travel"],
        "ttl": 3600,
        "data_class": "admin",
    }
    return vault.mint(**{**given, **changes})


def terms(**changes: Any) -> api.Mint:
    """What an admin cap of `admin` may mint, with changes."""
    given: dict[str, Any] = {
        "ops": ("get", "put", "renew"),
        "namespaces": ("work",),
        "actor": None if "actor_scope" in changes else ALICE,
        "ttl": 600,
    }
    return api.Mint(**{**given, **changes})


def minted(vault: Vault, token: str, **changes: Any) -> Token:
    """A cap minted with an admin cap."""
    return Token(vault.door(token, request=REQUEST).call(terms(**changes)).cap)


def renewed(vault: Vault, token: str) -> Token:
    return vault.memory(token, request=REQUEST).renew()


def revoked(vault: Vault, token: str, link: str) -> tuple[str, ...]:
    """The links that fall with one, revoked with an admin cap."""
    return vault.door(token, request=REQUEST).call(api.Revoke(link=link)).links


def link(token: str) -> str:
    """The id by which a cap is revoked."""
    return chain.parse(token).links[0].id


def links(token: str) -> tuple[str, ...]:
    return tuple(one.id for one in chain.parse(token).links)


def claims(token: str) -> Grantable:
    return chain.parse(token).first


def standing(vault: Vault, token: str) -> str:
    """The reason for which the vault refuses a cap now, "" if it is alive."""
    try:
        run_inline(vault.door(token).checking(), vault.store)
    except StrongroomError as error:
        return error.reason
    return ""


def refusal(call: Callable[[], object]) -> StrongroomError:
    """The error that a call raises; none fails the test."""
    with pytest.raises(StrongroomError) as caught:
        call()
    return caught.value


def unread(vault: Vault, token: str, kind: type[api.Call[Any]], error: Invalid) -> StrongroomError:
    """What the vault says to a call that could not be read."""
    return run_inline(vault.door(token, request=REQUEST).refusing(kind, error), vault._state.store)


def entries(vault: Vault, start: int = 0) -> list[Entry]:
    return [entry for _, entry in vault.audit.entries(start) if entry is not None]


def only_entry(vault: Vault, start: int) -> Entry:
    """The one entry since the log had `start`."""
    (entry,) = entries(vault, start)
    return entry


def registry(vault: Vault) -> set[str]:
    return {record.link for record in vault.caps()}


def foreign_cap(vault: Vault, **changes: Any) -> Token:
    """A cap signed with the vault's issuer key and any claims, past what the owner's mint would allow."""
    given: dict[str, Any] = {
        "issuer_seed": vault._state.source.issuer(),
        "audience": vault.id,
        "jti": os.urandom(16),
        "holder_seed": os.urandom(32),
        "now": vault._clerk.now() // 1000,
        "ttl": 3600,
        "ops": ["get", "renew"],
        "namespaces": NAMESPACES,
        "actor": None if "actor_scope" in changes else ALICE,
    }
    return chain.mint(**{**given, **changes})


class Shifty(str):
    """A text that every comparison takes for an allowed one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash("get")

    def __str__(self) -> str:
        return "get"

    def startswith(self, *_: object) -> bool:
        return True


def before_commit(
    monkeypatch: pytest.MonkeyPatch, vault: Vault, op: str, rival: Callable[[], object], *, times: int = 1
) -> list[object]:
    """Let `rival` act just before the vault's next commits of an `op` that change something.

    Returns what it did, one item for each time; an error of the rival's counts.
    """
    store = vault._state.store
    commit = store.commit
    done: list[object] = []

    def late(
        encoded: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        if effects and len(done) < times and f'"op":"{op}"'.encode() in encoded[0]:
            done.append(None)
            try:
                done[-1] = rival()
            except StrongroomError as error:
                done[-1] = error
        return commit(encoded, effects, time, accept_clock=accept_clock, since=since)

    monkeypatch.setattr(store, "commit", late)
    return done
