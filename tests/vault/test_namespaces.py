"""The namespaces of a vault: which sets are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, errors


def test_vault_needs_at_least_one_namespace_and_each_once(tmp_path: Path, keys: FileKeys) -> None:
    for names in ([], ["work", "work"]):
        with pytest.raises(errors.InvalidRequest):
            strongroom.create(tmp_path / "other", keys=keys, namespaces=names)
    assert not (tmp_path / "other").exists()
