"""Something foreign lies where a worker's log goes on: the worker begins a new log, and raises an alarm."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.audit.verifier import Flaw
from strongroom.errors import AuditUnavailable, StoreUnavailable
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
Open = Callable[[], Vault]
pytestmark = pytest.mark.requirement("fleet-log-taken")


class Refusing(MemoryBucket):
    """Refuses to write below a prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.below = ""

    def create(self, name: str, body: bytes) -> str:
        if self.below and name.startswith(self.below):
            raise StoreUnavailable("no right to write here")
        return super().create(name, body)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return used_by_vaults(Refusing(), monkeypatch)


@pytest.fixture
def worker(bucket: Refusing, tmp_path: Path) -> Iterator[Open]:
    keys = FileKeys(tmp_path / "keys")
    opened = [strongroom.create(PLACE, keys=keys)]

    def another() -> Vault:
        opened.append(strongroom.open(PLACE, keys=keys))
        return opened[-1]

    yield another
    for one in opened:
        one.close()


def put(vault: Vault, text: str) -> str:
    cap = vault.mint(actor="local/alice", ops=["put", "list"], namespaces=vault.namespaces, ttl=3600)
    return vault.memory(cap).put(text, namespace="travel").id


def plant(vault: Vault, bucket: MemoryBucket, body: bytes = b"planted") -> str:
    """Write an object where this worker's log goes on; that log's name."""
    name: str = vault.store.worker  # type: ignore[attr-defined]
    count = sum(one.startswith(f"logs/{name}/") for one in bucket.objects)
    bucket.create(f"logs/{name}/{count + 1:012d}", body)
    return name


def test_foreign_bundle_begins_a_new_log_with_an_alarm_and_loses_nothing(
    worker: Open, bucket: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    vault = worker()
    first = put(vault, "one")
    taken = plant(vault, bucket)
    with caplog.at_level(logging.ERROR, "strongroom.store"):
        second = put(vault, "two")
    third = put(vault, "three")
    now: str = vault.store.worker  # type: ignore[attr-defined]
    assert now != taken
    assert {f"roster/{taken}", f"roster/{now}"} <= bucket.objects.keys()
    assert vault.usage().taken_logs == 1
    assert [taken in one.getMessage() and now in one.getMessage() for one in caplog.records] == [True]
    vault.check_ready()
    cap = vault.mint(actor="local/alice", ops=["list"], namespaces=vault.namespaces, ttl=3600)
    assert {one.id for one in vault.memory(cap).list().lines} == {first, second, third}


def test_verification_names_the_log_that_was_taken(worker: Open, bucket: Refusing) -> None:
    vault = worker()
    put(vault, "one")
    taken = plant(vault, bucket)
    put(vault, "two")
    found = vault.audit.look().findings
    assert {one.flaw for one in found} == {Flaw.LOG_EDITED}
    assert all(taken in one.message for one in found)


def test_verification_names_a_bundle_that_was_copied_to_the_next_place(worker: Open, bucket: Refusing) -> None:
    vault = worker()
    put(vault, "one")
    own: str = vault.store.worker  # type: ignore[attr-defined]
    last = max(name for name in bucket.objects if name.startswith(f"logs/{own}/"))
    plant(vault, bucket, bucket.objects[last])
    found = vault.audit.look().findings
    assert {one.flaw for one in found} == {Flaw.LOG_EDITED}


def test_another_workers_bundle_in_the_way_is_foreign_too(worker: Open, bucket: Refusing) -> None:
    vault, other = worker(), worker()
    put(vault, "one")
    put(other, "two")
    theirs: str = other.store.worker  # type: ignore[attr-defined]
    plant(vault, bucket, bucket.objects[f"logs/{theirs}/{1:012d}"])
    put(vault, "three")
    assert vault.usage().taken_logs == 1


def test_first_bundle_or_an_entry_in_the_roster_that_is_taken_begins_a_new_log(worker: Open, bucket: Refusing) -> None:
    vault = worker()
    plant(vault, bucket)
    put(vault, "one")
    assert vault.usage().taken_logs == 1
    other = worker()
    bucket.create(f"roster/{other.store.worker}", b"planted")  # type: ignore[attr-defined]
    put(other, "two")
    assert other.usage().taken_logs == 1


def test_worker_is_not_ready_while_its_log_cannot_be_written(worker: Open, bucket: Refusing) -> None:
    vault = worker()
    put(vault, "one")
    vault.check_ready()
    bucket.below = "logs/"
    with pytest.raises(AuditUnavailable):
        put(vault, "two")
    for _ in range(2):
        with pytest.raises(AuditUnavailable):
            vault.check_ready()
    bucket.below = ""
    vault.check_ready()
    put(vault, "three")


def test_worker_that_writes_nothing_is_ready_without_a_request_to_its_log(worker: Open, bucket: Refusing) -> None:
    vault = worker()
    put(vault, "one")
    bucket.requests.clear()
    vault.check_ready()
    assert "put" not in bucket.requests
