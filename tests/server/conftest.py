"""Vaults behind real servers: one for a whole module, others where a test needs options of its own."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.server.listen import ListenPlace
from strongroom.server.server_options import Options
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.server.running import Child, Running, serving_as_process, serving_in_thread

QUIET = Options(mcp=False, holder_rate=0, address_rate=0, checkpoint_seconds=0)
"""Without limits on rates, so that tests on one address do not meet each other."""

StartThread = Callable[..., Running]
StartProcess = Callable[..., Child]


@pytest.fixture(scope="module")
def module_clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def module_vault(tmp_path_factory: pytest.TempPathFactory, module_clock: Clock) -> Iterator[Vault]:
    place = tmp_path_factory.mktemp("served")
    with strongroom.create(place / "vault", keys=FileKeys(place / "keys"), now=module_clock) as made:
        yield made


@pytest.fixture(scope="module")
def served(module_vault: Vault) -> Iterator[Running]:
    """A server for a whole module, without MCP."""
    with serving_in_thread(module_vault, QUIET) as running:
        yield running


@pytest.fixture(scope="module")
def alice(module_vault: Vault) -> Token:
    """A cap for everything of local/alice."""
    return module_vault.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, ttl=3600)


@pytest.fixture
def start(vault: Vault) -> Iterator[StartThread]:
    """Starts servers for the test's own vault, with options of its own."""
    with ExitStack() as stack:

        def started(place: ListenPlace | None = None, tls: ssl.SSLContext | None = None, **options: Any) -> Running:
            return stack.enter_context(serving_in_thread(vault, replace(QUIET, **options), place, tls))

        yield started


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[StartProcess]:
    """Starts server processes for the vault of `on_disk`."""
    with ExitStack() as stack:
        count = 0

        def started(**told: Any) -> Child:
            nonlocal count
            count += 1
            defaults = {"mcp": False, "holder_rate": 0, "address_rate": 0}
            made: AbstractContextManager[Child] = serving_as_process(
                tmp_path / "disk", tmp_path / f"stderr-{count}", **{**defaults, **told}
            )
            return stack.enter_context(made)

        yield started


@pytest.fixture
def on_disk(tmp_path: Path) -> Token:
    """A vault that no process has open, by the machine's own clock; and a cap for everything of local/alice."""
    place = tmp_path / "disk"
    place.mkdir()
    with strongroom.create(place / "vault", keys=FileKeys(place / "keys")) as made:
        return made.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, ttl=3600)
