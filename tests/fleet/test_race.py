"""The trial with several writers: run beside the work of a store that is open, and refused from then on if it fails."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.errors import StoreUnavailable
from strongroom.store.s3 import S3Store
from strongroom.store.s3.bucket_probe import Trial
from tests.fleet.memory import MemoryBucket, used_by_vaults

pytestmark = pytest.mark.requirement("s3-probe-refuses")
WRONG = Trial("of writers at the same time one wins", "2 of 4 made the same new object")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    return used_by_vaults(MemoryBucket(), monkeypatch)


def _store(vault: Vault) -> S3Store:
    assert isinstance(vault.store, S3Store)
    return vault.store


def test_server_that_fails_is_refused_by_name_and_not_ready(
    bucket: MemoryBucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with strongroom.create("s3://bucket/room", keys=FileKeys(tmp_path)) as vault:
        cap = vault.mint(actor="local/alice", ops=["list"], namespaces=["travel"], ttl=60)
        _store(vault).race_later(lambda: WRONG)
        assert vault.memory(cap).list().lines == ()
        with caplog.at_level(logging.ERROR, "strongroom.store"):
            bucket.timers.tick()
        assert ["unfit store" in one.getMessage() for one in caplog.records] == [True]
        for ask in (vault.check_ready, vault.memory(cap).list):
            with pytest.raises(StoreUnavailable) as caught:
                ask()
            assert WRONG.wrong in caught.value.message


def test_trial_that_came_to_nothing_is_made_again_and_one_that_holds_is_the_last(
    bucket: MemoryBucket, tmp_path: Path
) -> None:
    tried: list[int] = []

    def race() -> Trial:
        tried.append(1)
        if len(tried) < 3:
            raise StoreUnavailable("out of reach")
        return Trial("of writers at the same time one wins")

    with strongroom.create("s3://bucket/room", keys=FileKeys(tmp_path)) as vault:
        _store(vault).race_later(race)
        for _ in range(5):
            bucket.timers.tick()
        vault.check_ready()
    assert len(tried) == 3


def test_store_that_is_closed_before_runs_no_trial(bucket: MemoryBucket, tmp_path: Path) -> None:
    vault = strongroom.create("s3://bucket/room", keys=FileKeys(tmp_path))
    _store(vault).race_later(lambda: WRONG)
    vault.close()
    assert bucket.timers.waiting == []
