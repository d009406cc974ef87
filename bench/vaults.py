"""A vault to measure, the caps that runtimes use, and how to fill it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault
from strongroom.model import BATCH_LIMIT

ACTOR = "local/alice"
DAY = 24 * 3600


def make(directory: Path) -> Vault:
    return strongroom.create(directory / "vault", keys=FileKeys(directory / "keys"))


def reopen(directory: Path) -> Vault:
    """The same vault once more, as another process would open it."""
    return strongroom.open(directory / "vault", keys=FileKeys(directory / "keys"))


def session_cap(vault: Vault, actor: str = ACTOR) -> Token:
    """Two links, as a runtime presents them: its own long-lived cap, narrowed for one session's namespace."""
    runtime = vault.mint(
        actor=actor, ops=["put", "get", "list", "snapshot"], namespaces=["personal", "work", "travel"], ttl=30 * DAY
    )
    return strongroom.attenuate(runtime, ops=["put", "get"], namespaces=["work"], ttl=DAY)


def fill(memory: Memory, lines: Iterable[NewLine], *, at_once: int = BATCH_LIMIT) -> None:
    source = iter(lines)
    while batch := list(islice(source, at_once)):
        memory.put_many(batch)
