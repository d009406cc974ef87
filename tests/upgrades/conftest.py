"""Each test runs with the fixtures of every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrades.frozen import Frozen, versions


@pytest.fixture(params=versions(), ids=lambda one: one.place.name)
def frozen(request: pytest.FixtureRequest) -> Frozen:
    one: Frozen = request.param
    return one


@pytest.fixture
def left(frozen: Frozen, tmp_path: Path) -> Path:
    """The directory that a user of that version has: a vault, its keys, and what left it."""
    return frozen.unpack("vault", tmp_path / "left")
