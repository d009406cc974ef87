"""A line whose object is altered in the bucket opens nowhere: not in a new worker, nor in one that holds it in RAM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.errors import Tampered
from strongroom.store.s3.bucket import BucketObject
from tests.fleet.memory import MemoryBucket, used_by_vaults

pytestmark = pytest.mark.requirement("fleet-never-back")
NAMESPACES = ("personal", "travel")


class Watched(MemoryBucket):
    """Counts how often lines were read."""

    def __init__(self) -> None:
        super().__init__()
        self.lines_read = 0

    def get(self, name: str) -> BucketObject | None:
        self.lines_read += "/lines/" in name
        return super().get(name)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return used_by_vaults(Watched(), monkeypatch)


@pytest.fixture
def workers(bucket: MemoryBucket, tmp_path: Path) -> Iterator[tuple[Vault, Vault]]:
    keys = FileKeys(tmp_path / "keys")
    with (
        strongroom.create("s3://bucket/room", keys=keys) as writer,
        strongroom.open("s3://bucket/room", keys=keys) as reader,
    ):
        yield writer, reader


@pytest.fixture
def cap(workers: tuple[Vault, Vault]) -> str:
    return workers[0].mint(actor="local/alice", ops=["put", "get", "list"], namespaces=list(NAMESPACES), ttl=3600)


def swap(bucket: MemoryBucket) -> None:
    one, other = (name for name in sorted(bucket.objects) if "/lines/" in name)
    bucket.objects[one], bucket.objects[other] = bucket.objects[other], bucket.objects[one]


def test_swapped_lines_are_refused_by_workers_that_hold_them(
    bucket: MemoryBucket, workers: tuple[Vault, Vault], cap: str
) -> None:
    for namespace in NAMESPACES:
        workers[0].memory(cap).put(f"said of {namespace}", namespace=namespace)
    for vault in workers:
        assert len(vault.memory(cap).get("said")) == len(NAMESPACES)
    swap(bucket)
    for vault in workers:
        for namespace in NAMESPACES:
            with pytest.raises(Tampered):
                vault.memory(cap).get("said", namespaces=[namespace])
    swap(bucket)
    for vault in workers:
        assert len(vault.memory(cap).get("said")) == len(NAMESPACES), "all well once they are back"


def test_line_that_this_worker_wrote_is_not_read_again(bucket: Watched, workers: tuple[Vault, Vault], cap: str) -> None:
    memory = workers[0].memory(cap)
    memory.put("the first", namespace="travel")
    memory.get("first")
    bucket.lines_read = 0
    memory.put("the second", namespace="travel")
    assert [hit.text for hit in memory.get("second")] == ["the second"]
    assert bucket.lines_read == 0
