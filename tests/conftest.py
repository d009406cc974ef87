"""Fixtures that most tests share: a vault in a scratch directory, its keys beside it, and a clock one can turn."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import strongroom
from strongroom import FileKeys, Token, Vault, engines, store
from strongroom.model import Millis

ALL_OPS = ["put", "get", "list", "snapshot", "profile", "forget", "erase"]
NAMESPACES = ["personal", "family", "work", "travel"]

# No property has a limit of time: how long an example takes, or is made in, says how busy the machine is. `make test`
# tries the same examples each time, so that a failure is from a change; `make test-long` draws new ones.
settings.register_profile("drawn", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("drawn"), derandomize=True)
settings.load_profile("repeatable")


class Clock:
    """A clock that stands still until it is moved. Starts on 2026-05-22, a Friday."""

    def __init__(self) -> None:
        self.millis = 1_779_440_000_000

    def __call__(self) -> Millis:
        return Millis(self.millis)

    def move(self, seconds: float) -> None:
        self.millis += round(seconds * 1000)


@functools.cache
def _entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)


@pytest.fixture(autouse=True, scope="session")
def _entry_points_read_once() -> Iterator[None]:
    """Opening a vault reads what every installed package registers, twice: without this, half of what it costs."""

    def known(*, group: str) -> EntryPoints:
        return _entry_points(group, tuple(sys.path))

    with pytest.MonkeyPatch.context() as patch:
        for module in (engines, store):
            patch.setattr(module, "entry_points", known)
        yield


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    """A command that serves in this process sends its events to stderr; the next test must not inherit that."""
    loggers = [logging.getLogger(name) for name in ("strongroom.server", "uvicorn", "mcp")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path) -> FileKeys:
    return FileKeys(tmp_path / "keys")


@pytest.fixture
def vault(tmp_path: Path, keys: FileKeys, clock: Clock) -> Iterator[Vault]:
    with strongroom.create(tmp_path / "vault", keys=keys, now=clock) as made:
        yield made


@pytest.fixture
def reopen(tmp_path: Path, keys: FileKeys, clock: Clock) -> Iterator[Callable[[], Vault]]:
    """Opens the same vault again, as another process would: nothing is shared but the files."""
    opened: list[Vault] = []

    def again() -> Vault:
        opened.append(strongroom.open(tmp_path / "vault", keys=keys, now=clock))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


@pytest.fixture
def cap(vault: Vault) -> Token:
    """A cap for everything of local/alice."""
    return vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
