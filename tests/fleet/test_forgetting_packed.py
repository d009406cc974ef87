"""What forgets of packed lines leave, and when it is taken out: many at once, and each pack once in a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault
from strongroom.errors import LineNotFound, StoreUnavailable, Tampered
from strongroom.store.s3 import S3Store, compaction_plan, packs, s3_store
from strongroom.store.s3.compaction import Compactor
from strongroom.store.s3.leftovers import PAUSE, Leftovers
from tests.fleet.memory import MemoryBucket, Timers, used_by_vaults
from tests.fleet.shelf import LONG, Shelf, whole

LINES = 1200


class Hours:
    """The clock of what is left over, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Rewritten(MemoryBucket):
    """A bucket that counts the bytes of packs that are written over others."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def swap(self, name: str, body: bytes, etag: str) -> str:
        if "/packs/" in name and not packs.is_claim(len(self.objects[name])):
            self.bytes += len(body)
        return super().swap(name, body, etag)

    @property
    def held(self) -> int:
        """Bytes of all packs."""
        return sum(len(body) for name, body in self.objects.items() if "/packs/" in name)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Rewritten:
    return used_by_vaults(Rewritten(), monkeypatch)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    made = Hours()
    monkeypatch.setattr(s3_store, "clock", made)
    return made


@pytest.fixture
def vault(bucket: Rewritten, hours: Hours, tmp_path: Path) -> Iterator[Vault]:
    with strongroom.create("s3://bucket/room", keys=FileKeys(tmp_path / "keys")) as made:
        yield made


@pytest.fixture
def memory(vault: Vault) -> Memory:
    cap = vault.mint(actor="local/alice", ops=["put", "get", "list", "forget"], namespaces=["travel"], ttl=3600)
    return vault.memory(cap)


@pytest.fixture
def lines(vault: Vault, memory: Memory) -> list[str]:
    """Ids of lines that are in packs."""
    store = store_of(vault)
    ids: list[str] = []
    for at in range(0, LINES, 200):
        ids += [one.id for one in memory.put_many([NewLine(text=f"trip {n}") for n in range(at, at + 200)])]
    compact(store)
    return ids


def store_of(vault: Vault) -> S3Store:
    assert isinstance(vault.store, S3Store)
    return vault.store


def compact(store: S3Store) -> None:
    for locator in store.reader.locators():
        Compactor(store.reader, Random(1).randbytes, settled=0, least=1).compact(locator)


def left(vault: Vault) -> int:
    """Forgotten lines of which a pack still holds the body."""
    store = store_of(vault)
    view = store.reader.actor(next(store.reader.locators()), fresh=True)
    return sum(
        1
        for pack in view.packs.values()
        for name, one in pack.records.items()
        if one.body is not None and view.objects[name].is_gone
    )


@pytest.mark.requirement("pack-forget-batched")
def test_forgets_one_after_the_other_rewrite_each_pack_once_in_a_while_and_not_once_each(
    vault: Vault, memory: Memory, lines: list[str], bucket: Rewritten, hours: Hours
) -> None:
    whole_size = bucket.held
    scattered = lines[::10]
    told = []
    for line in scattered:
        told.append(memory.forget(ids=[line]).scrubbed)
        hours.now += PAUSE / 100  # 200 forgets take twice the pause
    assert told[0], "the first is done at once"
    assert not all(told)
    bucket.timers.tick()
    assert left(vault) == 0
    assert bucket.bytes <= 5 * whole_size, f"{bucket.bytes / len(scattered):,.0f} bytes for each forget"
    assert bucket.bytes / len(scattered) < whole_size / 40


@pytest.mark.requirement("pack-forget-batched")
def test_one_forget_of_very_many_lines_rewrites_each_pack_once(
    vault: Vault, memory: Memory, lines: list[str], bucket: Rewritten
) -> None:
    whole_size = bucket.held
    done = memory.forget(ids=lines[::4])
    assert (len(done.ids), done.scrubbed) == (LINES // 4, True)
    assert bucket.bytes <= whole_size
    assert left(vault) == 0


@pytest.mark.requirement("pack-forget-batched", "fleet-forget-everywhere")
def test_line_is_gone_for_another_worker_before_its_bytes_are(
    vault: Vault, memory: Memory, lines: list[str], hours: Hours
) -> None:
    memory.forget(ids=[lines[0]])
    assert not memory.forget(ids=[lines[1]]).scrubbed
    assert left(vault) == 1
    cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=600)
    with strongroom.open("s3://bucket/room", keys=vault._state.source) as other:
        with pytest.raises(LineNotFound):
            other.memory(cap).get(ids=[lines[1]])
        assert other.memory(cap).put("the same again", id=lines[1]).forgotten
    hours.now += PAUSE
    assert vault.scrub()
    assert left(vault) == 0


@pytest.mark.requirement("pack-forget-batched")
def test_worker_that_is_closed_leaves_no_bytes_and_one_that_is_killed_leaves_them_to_the_next_compaction(
    vault: Vault, memory: Memory, lines: list[str]
) -> None:
    cap = vault.mint(actor="local/alice", ops=["forget"], namespaces=["travel"], ttl=600)
    for how in ("closed", "killed"):
        other = strongroom.open("s3://bucket/room", keys=vault._state.source)
        some = [lines.pop(), lines.pop()]
        for line in some:
            other.memory(cap).forget(ids=[line])
        assert left(vault) == 1
        if how == "closed":
            other.close()
        else:
            assert store_of(vault)._background is not None
            view = store_of(vault).reader.actor(next(store_of(vault).reader.locators()), fresh=True)
            assert Compactor(store_of(vault).reader, Random(1).randbytes).is_due(view)
            compact(store_of(vault))
        assert left(vault) == 0
    memory.list()
    other.close()


def test_failed_removal_is_tried_again_by_the_timer_and_by_no_other_request() -> None:
    timers, hours, tried = Timers(), Hours(), []

    def finish(locator: str) -> bool:
        tried.append(locator)
        if len(tried) < 3:
            raise StoreUnavailable("out of reach")
        return True

    leftovers = Leftovers(finish, timers.later, hours.monotonic)
    leftovers.add("a")
    leftovers.add("b")
    assert not leftovers.take_out_soon()
    assert tried == ["a"], "the bucket is out of reach for the other one, too"
    assert not leftovers.take_out_soon()
    timers.tick()
    assert tried == ["a", "a"]
    timers.tick()
    assert tried == ["a", "a", "a", "b"]
    assert leftovers.take_out_soon()
    assert not timers.waiting


def test_line_forgotten_while_packs_are_rewritten_goes_on_waiting() -> None:
    timers, hours = Timers(), Hours()

    def finish(locator: str) -> bool:
        if not timers.waiting and hours.now == 0:
            hours.now = 1
            leftovers.add(locator)
        return True

    leftovers = Leftovers(finish, timers.later, hours.monotonic)
    leftovers.add("a")
    assert not leftovers.take_out()
    timers.tick()
    assert leftovers.take_out_soon()


def test_tampered_pack_is_not_tried_again_by_the_timer_and_counts_as_waiting() -> None:
    timers, hours, tried = Timers(), Hours(), []

    def finish(locator: str) -> bool:
        tried.append(locator)
        if locator == "a":
            raise Tampered("a pack does not read back as it was written")
        return True

    leftovers = Leftovers(finish, timers.later, hours.monotonic)
    leftovers.add("a")
    leftovers.add("b")
    assert not leftovers.take_out(), "bytes of the one are still there"
    assert tried == ["a", "b"]
    assert not timers.waiting
    assert not leftovers.take_out()
    assert tried == ["a", "b", "a"], "somebody asked"


# Tombstones.


@pytest.mark.requirement("pack-tombstones")
def test_packs_of_tombstones_become_one_that_holds_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_plan, "MOST", 4)
    monkeypatch.setattr(compaction_plan, "SMALL", 3)
    made = Shelf()
    made.put(range(40))
    made.bucket.now += LONG
    made.worker().compact()
    assert len(made.packs()) == 10
    made.worker().forget(range(38))
    made.bucket.now += LONG
    made.worker().compact()
    assert len(made.packs()) == 2, "one of tombstones, and one of which half is left"
    assert made.alive() == whole([38, 39])
    reader = made.worker().reader
    view = reader.actor("a" * 32, fresh=True)
    assert sum(one.is_gone for one in view.objects.values()) == 38, "none has gone"


@pytest.mark.requirement("pack-tombstones")
def test_pack_of_which_less_than_half_is_gone_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_plan, "MOST", 4)
    monkeypatch.setattr(compaction_plan, "SMALL", 3)
    made = Shelf()
    made.put(range(40))
    made.bucket.now += LONG
    made.worker().compact()
    before = made.packs().keys()
    made.worker().forget(range(0, 40, 4))
    made.bucket.now += LONG
    made.worker().compact()
    assert before <= made.packs().keys()
