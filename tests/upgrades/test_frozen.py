"""The fixtures are there, and are the bytes that were frozen."""

from __future__ import annotations

import pytest

from tests.upgrades import wired
from tests.upgrades.frozen import FIXTURES, PINNED, Frozen, sha256

pytestmark = pytest.mark.requirement("upgrade-frozen")
NAMES = {"vault.tar.xz", "buckets.tar.xz", "hermes.tar.xz", "journal.tar.xz"}


def test_fixtures_exist_and_every_version_of_them_is_pinned() -> None:
    assert PINNED
    assert sorted(one.name for one in FIXTURES.iterdir() if one.is_dir()) == sorted(PINNED)


def test_files_of_a_version_are_the_bytes_that_were_frozen(frozen: Frozen) -> None:
    assert sha256(frozen.place / "manifest.json") == PINNED[frozen.place.name]
    assert frozen.manifest["files"].keys() >= NAMES
    found = {one.name: sha256(one) for one in frozen.place.iterdir() if one.name not in ("manifest.json", "README.md")}
    assert found == frozen.manifest["files"]


def test_wired_home_of_the_fixtures_names_no_directory_of_the_machine_that_made_it(frozen: Frozen) -> None:
    files = frozen.files("hermes")
    assert wired.ROOT in files["hermes/strongroom.toml"]
    for name, body in files.items():
        assert not any(word in body for word in (b"/tmp/", b"/home/", b"/root/", b"127.0.0.1")), name
