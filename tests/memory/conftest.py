"""Fixtures of the memory's tests: a vault whose engine judges and explains, and its memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, Vault, engines
from tests.client.served import served
from tests.conftest import Clock
from tests.memory.word_share_engine import DAY, STANDING, WordShare, fill, owner


@pytest.fixture
def word_share() -> WordShare:
    return WordShare()


@pytest.fixture
def judged(
    tmp_path: Path, keys: FileKeys, clock: Clock, word_share: WordShare, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Vault]:
    """A vault whose engine judges and explains."""
    monkeypatch.setattr(engines, "load", lambda _: word_share)
    with strongroom.create(tmp_path / "judged", keys=keys, now=clock) as vault:
        yield vault


@pytest.fixture(params=["embedded", "served"])
def judged_memory(request: pytest.FixtureRequest, judged: Vault, clock: Clock) -> Iterator[Memory]:
    """The memory of this vault with a few lines, in this process and behind a server."""
    fill(judged)
    judged.memory(owner(judged)).put(STANDING, namespace="travel", author="alice", time=DAY - timedelta(days=1))
    if request.param == "embedded":
        yield judged.memory(owner(judged))
    else:
        with served(judged) as url, strongroom.connect(url, owner(judged), now=clock, timeout=20) as memory:
            yield memory
