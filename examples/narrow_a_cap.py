"""Narrow a cap for a helper, step by step, and take it back. Narrowing is offline: it needs the parent cap alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import strongroom


def show(what: str, call: Callable[[], object]) -> None:
    """Print what came of a call: its result, or the reason it was refused for."""
    try:
        print(f"{what}: {call()}")
    except strongroom.errors.StrongroomError as error:
        print(f"{what}: {error.reason}")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        keys = strongroom.FileKeys(Path(scratch) / "keys")
        with strongroom.create(Path(scratch) / "vault", keys=keys) as vault:
            # A gateway's cap: every actor below hermes/default/, so it opens nothing until a link names one.
            gateway = vault.mint(
                actor_scope="hermes/default/", ops=["put", "get"], namespaces=["travel", "work"], ttl=30 * 86400
            )
            actor = strongroom.actor_path("hermes", "default", "telegram", "12345")
            user = strongroom.attenuate(gateway, actor=actor)
            session = strongroom.attenuate(user, session="monday", ttl=300)
            helper = strongroom.attenuate(
                session, namespaces=["travel"], ops=["get"], max_k=3, delegable=False, label="booking helper"
            )

            vault.memory(session).put("Trip to Chengdu, May 25-29", namespace="travel")
            show("the gateway's own cap", lambda: vault.memory(gateway).get("trip"))
            show("the helper, in its session", lambda: vault.memory(helper).get("trip", session="monday")[0].text)
            show("the helper, in another", lambda: vault.memory(helper).get("trip", session="tuesday"))
            show("the helper, writing", lambda: vault.memory(helper).put("a note"))
            show("the helper, asking for work", lambda: vault.memory(helper).get("trip", namespaces=["work"]))
            show("the helper, asking for ten", lambda: vault.memory(helper).get("trip", k=10))
            show("the helper, narrowing further", lambda: strongroom.attenuate(helper, max_k=1))

            # Revoking a link takes back what was narrowed from it, in every process, from its next call on.
            vault.revoke(user)
            show("the helper, after its user's cap was revoked", lambda: vault.memory(helper).get("trip"))


if __name__ == "__main__":
    main()
