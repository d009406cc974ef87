"""A vault by the machine's own clock, since other processes open it too, and a way to reach it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from tests.conftest import NAMESPACES
from tests.server.conftest import QUIET
from tests.server.mcp.clients import SLOW_WAYS, WAYS, Connector
from tests.server.running import serving_in_thread

TOOL_OPS = ["put", "get", "list", "snapshot", "forget"]


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with strongroom.create(tmp_path / "vault", keys=FileKeys(tmp_path / "keys")) as made:
        yield made


@pytest.fixture
def cap(vault: Vault) -> Token:
    """A cap for every tool, in every namespace of local/alice."""
    return vault.mint(actor="local/alice", ops=TOOL_OPS, namespaces=NAMESPACES, ttl=3600)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, vault: Vault, tmp_path: Path) -> Iterator[Connector]:
    """The quick ways to connect a client, one after the other."""
    with _connecting(request.param, vault, tmp_path) as connector:
        yield connector


@pytest.fixture(params=WAYS + SLOW_WAYS)
def any_way(request: pytest.FixtureRequest, vault: Vault, tmp_path: Path) -> Iterator[Connector]:
    """Every way to connect a client, one after the other."""
    with _connecting(request.param, vault, tmp_path) as connector:
        yield connector


@contextmanager
def _connecting(name: str, vault: Vault, directory: Path) -> Iterator[Connector]:
    if not name.startswith("http"):
        yield Connector(name, vault, directory, "")
        return
    with serving_in_thread(vault, replace(QUIET, mcp=True)) as running:
        assert not isinstance(running.address, str)
        host, port = running.address
        yield Connector(name, vault, directory, f"http://{host}:{port}/mcp")
