"""An erasure of a whole actor that fails on the way, or is overtaken: it can be asked for again with the same cap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, Token, Vault
from strongroom.errors import CapRevoked, StoreUnavailable
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
pytestmark = pytest.mark.requirement("fleet-erase-during-get")


class Failing(MemoryBucket):
    """Refuses one write below a prefix, or lets somebody else act right before it."""

    def __init__(self) -> None:
        super().__init__()
        self.below = ""
        self.instead: Callable[[], object] | None = None

    def _step(self, name: str) -> None:
        if self.instead is not None and self.below in name:
            instead, self.instead = self.instead, None
            instead()

    def create(self, name: str, body: bytes) -> str:
        self._step(name)
        return super().create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        self._step(name)
        return super().swap(name, body, etag)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return used_by_vaults(Failing(), monkeypatch)


def _alice(tmp_path: Path) -> tuple[Vault, Token, Memory]:
    vault = strongroom.create(PLACE, keys=FileKeys(tmp_path / "keys"))
    ops = ["put", "get", "list", "erase"]
    cap = vault.mint(actor="local/alice", ops=ops, namespaces=vault.namespaces, ttl=3600)
    memory = vault.memory(cap)
    memory.put("the boat leaves at noon", namespace="travel")
    return vault, cap, memory


def _refuse() -> None:
    raise StoreUnavailable("out of reach")


@pytest.mark.parametrize("below", ["/at", "vault/standing/"])
def test_an_erasure_that_failed_is_finished_with_the_same_cap(tmp_path: Path, bucket: Failing, below: str) -> None:
    vault, _, memory = _alice(tmp_path)
    bucket.below, bucket.instead = below, _refuse
    with pytest.raises(StoreUnavailable):
        memory.erase(everything=True)
    memory.erase(everything=True)
    with pytest.raises(CapRevoked):
        memory.list()
    assert not [name for name in bucket.objects if "/lines/" in name]
    assert vault.audit.verify().ok
    vault.close()


def test_an_erasure_that_a_put_overtakes_takes_its_line_too(tmp_path: Path, bucket: Failing) -> None:
    vault, cap, memory = _alice(tmp_path)
    with strongroom.open(PLACE, keys=FileKeys(tmp_path / "keys")) as other:
        bucket.below = "/at"
        bucket.instead = lambda: other.memory(cap).put("a first line elsewhere", namespace="work")
        memory.erase(everything=True)
        assert not [name for name in bucket.objects if "/lines/" in name]
        with pytest.raises(CapRevoked):
            other.memory(cap).put("too late", namespace="work")
        assert other.audit.verify().ok
    vault.close()
