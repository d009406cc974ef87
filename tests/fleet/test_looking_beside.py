"""Deciding by what is known, while the bucket is looked at beside the log's writing: one wait instead of two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault
from strongroom.errors import CapRevoked, LineNotFound, StoreUnavailable
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
OPS = ["put", "get", "list", "forget", "erase"]
pytestmark = pytest.mark.requirement("fleet-stale-worker")


class Watched(MemoryBucket):
    """Notes requests in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def _count(self, kind: str) -> None:
        self.asked.append(kind)
        super()._count(kind)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return used_by_vaults(Watched(), monkeypatch)


@pytest.fixture
def workers(bucket: Watched, tmp_path: Path) -> Iterator[tuple[Vault, Vault]]:
    keys = FileKeys(tmp_path / "keys")
    with strongroom.create(PLACE, keys=keys) as one, strongroom.open(PLACE, keys=keys) as two:
        yield one, two


def _memories(workers: tuple[Vault, Vault]) -> tuple[Memory, Memory, str]:
    """The same memory through both workers, each of which has put and got something."""
    one, two = workers
    cap = one.mint(actor="local/alice", ops=OPS, namespaces=["travel"], ttl=3600)
    mine, other = one.memory(cap), two.memory(cap)
    for memory in (mine, other):
        memory.put("a first line, so that everything is known")
        memory.get("first line")
    return mine, other, cap


def test_cap_revoked_elsewhere_gets_nothing_and_the_record_says_so(workers: tuple[Vault, Vault]) -> None:
    one, two = workers
    mine, _, cap = _memories(workers)
    two.revoke(cap)
    with pytest.raises(CapRevoked):
        mine.get("first line")
    one.close()
    shown = [(entry.op, str(entry.decision), entry.reason) for _, entry in two.audit.entries() if entry is not None]
    assert ("get", "fail", "given_up") in shown
    assert ("get", "deny", "cap_revoked") in shown
    assert shown.count(("get", "allow", "")) == 2
    assert two.audit.verify().ok


def test_cap_revoked_elsewhere_puts_nothing(workers: tuple[Vault, Vault], bucket: Watched) -> None:
    one, two = workers
    mine, _, cap = _memories(workers)
    before = {name for name in bucket.objects if "/lines/" in name}
    two.revoke(cap)
    with pytest.raises(CapRevoked):
        mine.put("this must not be kept")
    assert {name for name in bucket.objects if "/lines/" in name} == before
    one.close()
    shown = [(entry.op, entry.decision, entry.reason) for _, entry in two.audit.entries() if entry is not None]
    assert ("put", "fail", "given_up") in shown
    assert ("put", "deny", "cap_revoked") in shown
    assert two.audit.verify().ok


def test_line_put_elsewhere_before_a_get_began_is_in_its_answer(workers: tuple[Vault, Vault]) -> None:
    mine, other, _ = _memories(workers)
    for number in range(5):
        line = other.put(f"the boat number {number} leaves at noon").id
        assert line in [hit.id for hit in mine.get(f"boat number {number}", k=20)]
        assert [hit.id for hit in mine.get(ids=[line])] == [line]


def test_line_forgotten_elsewhere_is_in_no_answer(workers: tuple[Vault, Vault]) -> None:
    mine, other, _ = _memories(workers)
    line = mine.put("the boat leaves at noon").id
    assert line in [hit.id for hit in mine.get("boat")]
    other.forget(ids=[line])
    assert line not in [hit.id for hit in mine.get("boat")]
    with pytest.raises(LineNotFound):
        mine.get(ids=[line])


def test_line_sent_again_is_no_second_one_whoever_has_it(workers: tuple[Vault, Vault]) -> None:
    mine, other, _ = _memories(workers)
    line = other.put("the boat leaves at noon").id
    assert mine.put("the boat leaves at noon", id=line).duplicate
    other.forget(ids=[line])
    assert mine.put("the boat leaves at noon", id=line).forgotten
    assert line not in [one.id for one in mine.list().lines]


def test_put_after_an_erasure_elsewhere_is_sealed_with_new_keys(workers: tuple[Vault, Vault]) -> None:
    one, two = workers
    mine, other, _ = _memories(workers)
    other.erase(["travel"])
    line = mine.put("a new beginning").id
    assert [hit.id for hit in other.get("beginning")] == [line]
    assert [hit.id for hit in mine.get("new beginning", k=20)] == [line]
    one.close()
    assert two.audit.verify().ok


def test_known_state_costs_a_put_no_list_and_a_get_one(workers: tuple[Vault, Vault], bucket: Watched) -> None:
    mine, _, _ = _memories(workers)
    mine.get("what the other has put")
    bucket.asked.clear()
    mine.put("one more")
    assert sorted(bucket.asked) == ["get", "get", "put", "put"]
    bucket.asked.clear()
    mine.get("one more")
    assert sorted(bucket.asked) == ["get", "list", "put"]


def test_bucket_that_cannot_be_looked_at_lets_nothing_out(
    workers: tuple[Vault, Vault], bucket: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _, _ = _memories(workers)

    def gone(*_: object) -> object:
        raise StoreUnavailable("out of reach")

    monkeypatch.setattr(bucket, "list", gone)
    with pytest.raises(StoreUnavailable):
        mine.get("first line")
    monkeypatch.setattr(bucket, "get", gone)
    before = {name for name in bucket.objects if "/lines/" in name}
    with pytest.raises(StoreUnavailable):
        mine.put("nobody looked")
    assert {name for name in bucket.objects if "/lines/" in name} == before


def test_fresh_worker_reads_each_line_once(workers: tuple[Vault, Vault], bucket: Watched) -> None:
    one, two = workers
    cap = one.mint(actor="local/bob", ops=OPS, namespaces=["travel"], ttl=3600)
    texts = [f"stop {number} of the way" for number in range(300)]
    for at in range(0, len(texts), 100):
        one.memory(cap).put_many([NewLine(text=text) for text in texts[at : at + 100]])
    bucket.asked.clear()
    assert two.memory(cap).get("stop 217 of the way")[0].text == texts[217]
    assert bucket.asked.count("get") < len(texts) + 10
