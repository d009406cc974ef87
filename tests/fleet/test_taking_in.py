"""What a worker has just written, it takes into its shelves at once; and not again, once it was forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault
from strongroom.store.s3.bucket import BucketObject
from tests.fleet.memory import MemoryBucket, used_by_vaults

pytestmark = pytest.mark.requirement("fleet-forget-everywhere")


class Acting(MemoryBucket):
    """Lets somebody act right before the line is written that is named."""

    def __init__(self) -> None:
        super().__init__()
        self.before: tuple[str, Callable[[], object]] | None = None
        self.read: list[str] = []

    def get(self, name: str) -> BucketObject | None:
        self.read.append(name)
        return super().get(name)

    def create(self, name: str, body: bytes) -> str:
        if self.before is not None and name.endswith(self.before[0]):
            (_, act), self.before = self.before, None
            act()
        return super().create(name, body)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Acting:
    return used_by_vaults(Acting(), monkeypatch)


@pytest.fixture
def vault(bucket: Acting, tmp_path: Path) -> Vault:
    return strongroom.create("s3://bucket/room", keys=FileKeys(tmp_path / "keys"))


def _memory(vault: Vault) -> Memory:
    ops = ["put", "get", "list", "forget"]
    return vault.memory(vault.mint(actor="local/alice", ops=ops, namespaces=vault.namespaces, ttl=3600))


def _lines(memory: Memory) -> set[str]:
    return {line.id for line in memory.list().lines}


@pytest.mark.parametrize("last", [1, 2])
def test_line_forgotten_while_others_of_its_put_were_written_does_not_come_back(
    vault: Vault, bucket: Acting, last: int
) -> None:
    memory = _memory(vault)
    first = memory.put("the first trip", namespace="travel").id
    ids = [f"01J{number}0000000000000000000000" for number in range(3)]
    forgotten: set[str] = set()

    def forget() -> None:
        while not forgotten:  # the first of them is written before, or on another thread
            forgotten.update(_lines(memory) - {first})
        for one in forgotten:
            memory.forget(ids=[one])

    bucket.before = (ids[last], forget)
    memory.put_many([NewLine(text=f"trip {one}", namespace="travel", id=one) for one in ids])
    assert forgotten
    assert _lines(memory) == {first, *ids} - forgotten
    assert vault.audit.verify().ok


def test_lines_that_were_written_around_somebody_elses_are_not_read_again(vault: Vault, bucket: Acting) -> None:
    memory = _memory(vault)
    first = memory.put("the first trip", namespace="travel").id
    assert _lines(memory) == {first}
    ids = [f"01J{number}0000000000000000000000" for number in range(3)]
    others: list[str] = []
    bucket.before = (ids[2], lambda: others.append(memory.put("another's trip", namespace="travel").id))
    memory.put_many([NewLine(text=f"trip {one}", namespace="travel", id=one) for one in ids])
    assert _lines(memory) == {first, *ids, *others}
    assert len(others) == 1
    assert not {name for name in bucket.read if name.endswith(tuple(ids))}
