"""An erasure of a whole actor that fails on the way, or is overtaken: it can be asked for again with the same cap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, Token, Vault
from strongroom.errors import CapRevoked, StoreUnavailable
from strongroom.store.s3.bucket import BucketListing
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
pytestmark = pytest.mark.requirement("fleet-erase-during-get")


class Failing(MemoryBucket):
    """Refuses one write or list below a prefix, or lets somebody else act right before it."""

    def __init__(self) -> None:
        super().__init__()
        self.below = ""
        self.instead: Callable[[], object] | None = None

    def _step(self, name: str) -> None:
        if self.instead is not None and self.below in name:
            instead, self.instead = self.instead, None
            instead()

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        self._step(f"list {prefix}")
        return super().list(prefix, after, limit)

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
def test_erasure_that_failed_is_finished_with_the_same_cap(tmp_path: Path, bucket: Failing, below: str) -> None:
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


def test_erasure_of_nobody_that_a_first_put_overtakes_takes_its_line_too(tmp_path: Path, bucket: Failing) -> None:
    """There is no head to replace, so nothing but a look afterwards finds keys made before the caps were void."""
    with strongroom.create(PLACE, keys=FileKeys(tmp_path / "keys")) as vault:
        cap = vault.mint(actor="local/bob", ops=["put", "list"], namespaces=vault.namespaces, ttl=3600)
        with strongroom.open(PLACE, keys=FileKeys(tmp_path / "keys")) as other:
            bucket.below = "vault/standing/"
            bucket.instead = lambda: other.memory(cap).put("a very first line", namespace="work")
            assert vault.erase("local/bob").objects == 2
            assert bucket.instead is None
            assert not [name for name in bucket.objects if "/lines/" in name]
            with pytest.raises(CapRevoked):
                other.memory(cap).list()
            assert other.audit.verify().ok


def test_first_put_that_an_erasure_of_nobody_overtakes_writes_no_line(tmp_path: Path, bucket: Failing) -> None:
    """The other way round: keys made after that look are there, and whoever made them seals nothing with them."""
    with strongroom.create(PLACE, keys=FileKeys(tmp_path / "keys")) as vault:
        cap = vault.mint(actor="local/bob", ops=["put", "list"], namespaces=vault.namespaces, ttl=3600)
        with strongroom.open(PLACE, keys=FileKeys(tmp_path / "keys")) as other:
            bucket.below, bucket.instead = "/at", lambda: other.erase("local/bob")
            with pytest.raises(CapRevoked):
                vault.memory(cap).put("a very first line", namespace="work")
            assert bucket.instead is None
            assert not [name for name in bucket.objects if "/lines/" in name]
            assert other.audit.verify().ok


def test_erasure_that_a_put_overtakes_takes_its_line_too(tmp_path: Path, bucket: Failing) -> None:
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


@pytest.mark.parametrize("write", ["put", "set_profile"])
@pytest.mark.parametrize("others", ["have put with a new cap", "have left keys behind"])
def test_void_cap_seals_nothing_with_keys_that_it_finds_after_it_was_admitted(
    tmp_path: Path, bucket: Failing, write: str, others: str
) -> None:
    """Admitted before an erasure, by a worker that looks at the actor only after it: the keys there are new ones."""
    keys, ops = FileKeys(tmp_path / "keys"), ["put", "profile", "list"]
    with strongroom.create(PLACE, keys=keys) as vault, strongroom.open(PLACE, keys=keys) as third:

        def mint() -> Token:
            return vault.mint(actor="local/bob", ops=ops, namespaces=["work"], ttl=3600)

        def erases() -> None:
            if others == "have put with a new cap":
                vault.erase("local/bob")
                vault.memory(mint()).put("a new beginning")
                return
            bucket.below, bucket.instead = "/at", lambda: vault.erase("local/bob")
            with strongroom.open(PLACE, keys=keys) as second, pytest.raises(CapRevoked):
                second.memory(old).put("keys, and no line")

        old = mint()
        bucket.below, bucket.instead = "list actors/", erases
        memory = third.memory(old)
        with pytest.raises(CapRevoked):
            memory.put("too late") if write == "put" else memory.set_profile("too late")
        assert bucket.instead is None
        assert len(vault.memory(mint()).list().lines) == (others == "have put with a new cap")
        assert not [name for name in bucket.objects if name.endswith("/profile")]
        assert vault.audit.verify().ok
