"""What a worker has just written, it takes into its shelves at once; and not again, once it was forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault
from tests.fleet.memory import MemoryBucket, used_by_vaults

pytestmark = pytest.mark.requirement("fleet-forget-everywhere")


class Acting(MemoryBucket):
    """Lets somebody act right before the line is written that is named."""

    def __init__(self) -> None:
        super().__init__()
        self.before: tuple[str, Callable[[], object]] | None = None

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


@pytest.mark.parametrize("last", range(3))
def test_a_line_forgotten_while_others_of_its_put_were_written_does_not_come_back(
    vault: Vault, bucket: Acting, last: int
) -> None:
    memory = _memory(vault)
    first = memory.put("the first trip", namespace="travel").id
    ids = [f"01J{number}0000000000000000000000" for number in range(3)]
    forgotten: set[str] = set()

    def forget() -> None:
        forgotten.update(_lines(memory) - {first})
        for one in forgotten:
            memory.forget(ids=[one])

    bucket.before = (ids[last], forget)
    memory.put_many([NewLine(text=f"trip {one}", namespace="travel", id=one) for one in ids])
    assert _lines(memory) == {first, *ids} - forgotten
    assert vault.audit.verify().ok


def test_lines_behind_somebody_elses_change_are_not_read_again(vault: Vault, bucket: Acting, tmp_path: Path) -> None:
    memory = _memory(vault)
    first = memory.put("the first trip", namespace="travel").id
    assert _lines(memory) == {first}
    other = strongroom.open("s3://bucket/room", keys=FileKeys(tmp_path / "keys"))
    theirs = _memory(other).put("another's trip", namespace="travel").id
    before = bucket.requests["get"]
    own = {receipt.id for receipt in memory.put_many([NewLine(text=f"trip {n}", namespace="travel") for n in range(9)])}
    assert _lines(memory) == {first, theirs, *own}
    assert bucket.requests["get"] - before < 9 + len(own)
