"""A line that is replaced in a bucket: by one worker of several, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, errors
from strongroom.memory.ended_lines import forget_ended
from strongroom.store.s3 import S3Store
from strongroom.store.s3.compaction import Compactor
from tests.conftest import Clock
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.memory.test_replace import after

pytestmark = pytest.mark.requirement("replace-fleet")
NEW = "01JABCDEFGHJKMNPQRSTVWXYZ9"


class Acting(MemoryBucket):
    """Acts right before an object is created whose name contains a word, or fails instead of creating it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: tuple[str, Callable[[], object]] | None = None

    def create(self, name: str, body: bytes) -> str:
        if self.before is not None and self.before[0] in name:
            (_, act), self.before = self.before, None
            act()
        return super().create(name, body)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Acting:
    return used_by_vaults(Acting(), monkeypatch)


@pytest.fixture
def vault(bucket: Acting, tmp_path: Path, clock: Clock) -> Vault:
    return strongroom.create("s3://bucket/room", keys=FileKeys(tmp_path / "keys"), now=clock)


@pytest.fixture
def cap(vault: Vault) -> Token:
    ops = ["put", "get", "list", "forget"]
    return vault.mint(actor="local/alice", ops=ops, namespaces=vault.namespaces, ttl=86_400)


@pytest.fixture
def other(vault: Vault, tmp_path: Path, clock: Clock) -> Vault:
    return strongroom.open("s3://bucket/room", keys=FileKeys(tmp_path / "keys"), now=clock)


def _texts(memory: Memory) -> list[str]:
    return sorted(hit.text for hit in memory.get("trip", k=20))


def test_replacement_by_one_worker_is_seen_by_running_and_new_ones(
    vault: Vault, other: Vault, cap: Token, tmp_path: Path, clock: Clock
) -> None:
    memory, follower = vault.memory(cap), other.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")
    assert _texts(follower) == ["trip on May 25"]
    new = memory.replace(old.id, "trip on May 27", tags=["trip"])
    late = strongroom.open("s3://bucket/room", keys=FileKeys(tmp_path / "keys"), now=clock).memory(cap)
    for one in (memory, follower, late):
        assert _texts(one) == ["trip on May 27"]
        assert [hit.text for hit in one.history(new.id)] == ["trip on May 25", "trip on May 27"]
    assert vault.audit.verify().ok


def test_corrector_that_comes_second_loses_by_name_and_leaves_nothing_that_counts(
    vault: Vault, other: Vault, bucket: Acting, cap: Token, clock: Clock
) -> None:
    memory, rival = vault.memory(cap), other.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")
    assert _texts(rival) == ["trip on May 25"]
    bucket.before = ("/replaced/", lambda: rival.replace(old.id, "trip on May 26"))
    with pytest.raises(errors.LineReplaced):
        memory.replace(old.id, "trip on May 27")
    assert _texts(memory) == _texts(rival) == ["trip on May 26"]
    assert len(memory.list().lines) == 1
    clock.move(3700)
    assert forget_ended(vault._clerk) == 1
    assert _texts(memory) == ["trip on May 26"]
    assert vault.audit.verify().ok


def test_worker_killed_before_the_mark_leaves_the_old_line_andafter_it_the_new_one(
    vault: Vault, other: Vault, bucket: Acting, cap: Token
) -> None:
    memory, follower = vault.memory(cap), other.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")

    def die() -> None:
        raise errors.StoreUnavailable("killed")

    bucket.before = ("/replaced/", die)
    with pytest.raises(errors.StoreUnavailable):
        memory.replace(old.id, "trip on May 27", new_id="01JABCDEFGHJKMNPQRSTVWXYZ0")
    assert _texts(follower) == ["trip on May 25"]
    assert follower.replace(old.id, "trip on May 27", new_id="01JABCDEFGHJKMNPQRSTVWXYZ0").id
    assert _texts(follower) == _texts(memory) == ["trip on May 27"]
    assert other.audit.verify().is_sound


def test_replace_of_a_line_that_another_worker_forgets_meanwhile_finds_nothing(
    vault: Vault, other: Vault, bucket: Acting, cap: Token
) -> None:
    memory, rival = vault.memory(cap), other.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")
    assert _texts(rival) == ["trip on May 25"]
    bucket.before = ("/lines/", lambda: rival.forget(ids=[old.id]))
    with pytest.raises(errors.LineNotFound):
        memory.replace(old.id, "trip on May 27")
    assert _texts(memory) == _texts(rival) == []


def test_expired_lines_of_a_bucket_are_hidden_and_forgotten(
    vault: Vault, other: Vault, cap: Token, clock: Clock
) -> None:

    memory, follower = vault.memory(cap), other.memory(cap)
    memory.put("trip code 1111", namespace="travel", expires=after(clock, 60))
    assert _texts(follower) == ["trip code 1111"]
    clock.move(61)
    assert _texts(follower) == _texts(memory) == []
    clock.move(60)
    assert forget_ended(other._clerk) == 1
    assert vault.audit.verify().ok


def _die_before_the_mark(memory: Memory, bucket: Acting, old: str) -> None:
    def killed() -> None:
        raise errors.StoreUnavailable("killed")

    bucket.before = ("/replaced/", killed)
    with pytest.raises(errors.StoreUnavailable):
        memory.replace(old, "trip on May 27", new_id=NEW)


def test_retry_uses_no_line_that_upkeep_is_about_to_give_up(
    vault: Vault, other: Vault, bucket: Acting, cap: Token, clock: Clock
) -> None:
    """Otherwise the mark could name a line that another worker has swept: neither would count."""
    memory, rival = vault.memory(cap), other.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")
    _die_before_the_mark(memory, bucket, old.id)
    clock.move(3700)
    assert _texts(rival) == ["trip on May 25"]
    bucket.before = ("/replaced/", lambda: forget_ended(other._clerk))
    with pytest.raises(errors.LineConflict):
        memory.replace(old.id, "trip on May 27", new_id=NEW)
    assert _texts(memory) == _texts(rival) == ["trip on May 25"]


def test_put_is_no_duplicate_of_a_replacement_that_does_not_count(
    vault: Vault, other: Vault, bucket: Acting, cap: Token
) -> None:
    memory = vault.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")
    _die_before_the_mark(memory, bucket, old.id)
    with pytest.raises(errors.LineConflict):
        other.memory(cap).put("trip on May 27", namespace="travel", id=NEW)
    assert memory.replace(old.id, "trip on May 27", new_id=NEW).id == NEW
    assert other.memory(cap).put("trip on May 27", namespace="travel", id=NEW).duplicate


def test_cold_load_reads_one_object_for_each_replaced_line_and_no_more(
    vault: Vault, bucket: Acting, cap: Token, tmp_path: Path, clock: Clock
) -> None:
    memory = vault.memory(cap)
    ids = [one.id for one in memory.put_many([NewLine(text=f"trip {n}", namespace="travel") for n in range(60)])]

    def cold() -> tuple[int, int]:
        """Requests of a load by a fresh worker, when all lines are in packs."""
        assert isinstance(vault.store, S3Store)
        for locator in vault.store.reader.locators():
            Compactor(vault.store.reader, Random(1).randbytes, settled=0, least=1).compact(locator)
        with strongroom.open("s3://bucket/room", keys=FileKeys(tmp_path / "keys"), now=clock) as fresh:
            bucket.requests.clear()
            assert len(_texts(fresh.memory(cap))) == 20
            return bucket.requests["get"], bucket.requests["list"]

    gets, lists = cold()
    for old in ids[:50]:
        memory.replace(old, "trip, corrected")
    found = cold()
    assert found[0] <= gets + 50 + 2, "a mark for each, and a pack or two"
    assert found[1] <= lists + 2
