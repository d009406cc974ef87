"""A scripted peer, and memories that talk to it with a clock and a sleep of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strongroom import Memory, Token, Vault
from strongroom.client.http_transport import HttpTransport
from strongroom.client.server_address import Address
from tests.client.peer import Peer, Step, for_vault
from tests.conftest import ALL_OPS, NAMESPACES, Clock

Start = Callable[..., Peer]


@pytest.fixture
def start(vault: Vault) -> Iterator[Start]:
    """Starts a peer that takes the given steps and then answers for the vault."""
    with ExitStack() as stack:

        def started(*steps: Step, then: Step | None = None, path: Path | None = None) -> Peer:
            return stack.enter_context(Peer(steps, then or for_vault(vault), path))

        yield started


@dataclass
class Reach:
    """Makes memories behind a peer, and keeps how long they would have slept."""

    clock: Clock
    cap: Token
    stack: ExitStack
    slept: list[float] = field(default_factory=list)

    def __call__(self, peer: Peer, cap: str | None = None, **options: Any) -> Memory:
        address = Address.of(peer.url)
        settings = {"timeout": 20.0, "retries": 3, "on_renew": None, "now": self.clock, "sleep": self.slept.append}
        token = self.cap if cap is None else cap
        door = HttpTransport(address, token, address.transport_maker(None, None), **{**settings, **options})
        return self.stack.enter_context(Memory(door, close=door.close))


@pytest.fixture
def reach(clock: Clock, cap: Token) -> Iterator[Reach]:
    with ExitStack() as stack:
        yield Reach(clock, cap, stack)


@pytest.fixture
def renewable(vault: Vault) -> Token:
    """A cap of 1,000 seconds that may renew itself."""
    return vault.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, ttl=1000)
