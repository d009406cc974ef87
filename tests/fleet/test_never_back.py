"""A worker never goes back: what was put back to an older state is refused by a worker that has seen a newer one.

For that actor alone, and on record. What others do in good faith, compaction above all, is never taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, Vault
from strongroom.audit.entry import Decision
from strongroom.audit.verifier import Flaw
from strongroom.errors import CapRevoked, Tampered
from strongroom.model import Actor, Millis
from strongroom.store.s3.object_names import Table
from strongroom.store.s3.rollback_guard import NAMES, VERSIONS, Past, is_as_new, moment
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.fleet.shelf import LOCATOR, Shelf, name_of

PLACE = "s3://bucket/room"
ALICE, BOB = "local/alice", "local/bob"
OPS = ["put", "get", "list", "forget", "erase", "profile", "snapshot"]
Open = Callable[[], Vault]
pytestmark = pytest.mark.requirement("fleet-never-back")


class Clock:
    def __init__(self) -> None:
        self.millis = 1_800_000_000_000

    def __call__(self) -> Millis:
        return Millis(self.millis)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    return used_by_vaults(MemoryBucket(), monkeypatch)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(bucket: MemoryBucket, clock: Clock, tmp_path: Path) -> Iterator[Open]:
    keys = FileKeys(tmp_path / "keys")
    opened = [strongroom.create(PLACE, keys=keys, now=clock)]

    def another() -> Vault:
        opened.append(strongroom.open(PLACE, keys=keys, now=clock))
        return opened[-1]

    yield another
    for one in opened:
        one.close()


class Pair:
    """Two workers, and what a bucket held at a moment. Each has a cap of Alice's and one of Bob's."""

    def __init__(self, bucket: MemoryBucket, worker: Open) -> None:
        self.bucket = bucket
        self.vault, self.other = worker(), worker()
        self._caps = {
            actor: self.vault.mint(actor=actor, ops=OPS, namespaces=self.vault.namespaces, ttl=3600)
            for actor in (ALICE, BOB)
        }
        self.memory(BOB).put("somebody else's", namespace="travel")
        self._held: dict[str, bytes] = {}

    def memory(self, actor: str = ALICE, vault: Vault | None = None) -> Memory:
        return (vault or self.vault).memory(self._caps[actor])

    def elsewhere(self) -> Memory:
        """Alice's memory at the other worker."""
        return self.memory(ALICE, self.other)

    def hold(self) -> None:
        self._held = dict(self.bucket.objects)

    def put_back(self, *below: str) -> None:
        """Have everything below some parts of the bucket as it was held."""
        now = self.bucket.objects
        for name in [name for name in now if name.startswith(below) and name not in self._held]:
            del now[name]
        now.update({name: body for name, body in self._held.items() if name.startswith(below)})

    def check_refused(self, vault: Vault | None = None) -> None:
        """Alice's memory is refused, each time and on record; Bob's is not."""
        vault = vault or self.vault
        for _ in range(2):
            with pytest.raises(Tampered) as caught:
                self.memory(ALICE, vault).list()
            assert caught.value.recorded
        assert len(self.memory(BOB, vault).list().lines) == 1
        last = [entry for _, entry in vault.audit.entries() if entry is not None and entry.reason == Tampered.reason]
        assert [one.decision for one in last[-2:]] == [Decision.FAIL] * 2


@pytest.fixture
def pair(bucket: MemoryBucket, worker: Open) -> Pair:
    return Pair(bucket, worker)


def test_older_head_and_lines_of_an_erased_namespace_put_back_are_tampered(pair: Pair) -> None:
    pair.memory().put("a trip", namespace="travel")
    pair.hold()
    pair.elsewhere().erase(["travel"])
    assert pair.memory().list().lines == ()
    pair.put_back("actors/")
    pair.check_refused()


def test_forgotten_line_without_its_burial_is_tampered(pair: Pair) -> None:
    line = pair.memory().put("a trip", namespace="travel").id
    pair.hold()
    pair.elsewhere().forget(ids=[line])
    assert pair.memory().list().lines == ()
    pair.put_back("actors/")
    pair.check_refused()


def test_older_profile_that_was_seen_is_tampered(pair: Pair) -> None:
    first = pair.memory().set_profile("one", namespace="travel")
    assert pair.memory().profile("travel").text == "one"
    pair.hold()
    pair.elsewhere().set_profile("two", namespace="travel", version=first.version)
    assert pair.memory().profile("travel").text == "two"
    pair.put_back("actors/")
    pair.check_refused()


def test_line_that_vanishes_without_a_tombstone_is_tampered(pair: Pair, bucket: MemoryBucket) -> None:
    pair.memory().put("a trip", namespace="travel")
    pair.hold()
    line = pair.elsewhere().put("another", namespace="travel").id
    assert len(pair.memory().list().lines) == 2
    bucket.delete([name for name in bucket.objects if name.endswith(line)])
    pair.check_refused()


def test_actor_that_vanishes_whole_is_tampered_and_not_without_memory(pair: Pair, bucket: MemoryBucket) -> None:
    pair.memory().put("a trip", namespace="travel")
    others = {name for name in bucket.objects if name.startswith("actors/")}
    (alice,) = {name.split("/")[1] for name in others if name.endswith("/at")} - {_actor_of(pair, BOB)}
    bucket.delete([name for name in others if alice in name])
    pair.check_refused()


def _actor_of(pair: Pair, actor: str) -> str:
    return pair.vault._state.slots.actor(Actor(actor))


def test_seen_versions_last_when_the_view_is_dropped_to_make_room(pair: Pair) -> None:
    pair.memory().put("a trip", namespace="travel")
    pair.hold()
    pair.elsewhere().erase(["travel"])
    assert pair.memory().list().lines == ()
    reader = pair.vault._state.store.reader  # type: ignore[attr-defined]
    reader._actors.clear()
    pair.put_back("actors/")
    pair.check_refused()


def test_object_put_right_is_served_again(pair: Pair, bucket: MemoryBucket) -> None:
    pair.memory().put("a trip", namespace="travel")
    now = dict(bucket.objects)
    name = next(one for one in now if "/lines/" in one and _actor_of(pair, ALICE) in one)
    del bucket.objects[name]
    pair.check_refused()
    bucket.objects[name] = now[name]
    assert [one.text for one in pair.memory().get("trip")] == ["a trip"]


def test_verification_by_a_worker_that_refuses_names_what_the_bucket_has(pair: Pair, clock: Clock) -> None:
    line = pair.memory().put("a trip", namespace="travel").id
    pair.hold()
    clock.millis += 60_000
    pair.elsewhere().forget(ids=[line])
    assert pair.memory().list().lines == ()
    pair.put_back("actors/")
    pair.check_refused()
    assert {one.flaw for one in pair.vault.audit.look().findings} == {Flaw.OBJECT_REVIVED}


# The vault's own objects.


def _pass_a_minute(vault: Vault) -> None:
    """Have the next look at the vault be one at all of it."""
    vault._state.store.reader.vault._loaded_at -= 61_000  # type: ignore[attr-defined]


def test_revocation_that_was_seen_stays_in_force_when_it_is_removed(
    pair: Pair,
) -> None:
    pair.hold()
    pair.other.revoke(pair._caps[ALICE])
    with pytest.raises(CapRevoked):
        pair.memory().list()
    pair.put_back("vault/", "news/")
    with pytest.raises(CapRevoked):
        pair.memory().list()
    assert len(pair.memory(BOB).list().lines) == 1
    _pass_a_minute(pair.vault)
    for _ in range(2):  # now it looks at the vault as a whole, and trusts nothing of it
        with pytest.raises(CapRevoked):
            pair.memory().list()
        with pytest.raises(Tampered) as caught:
            pair.memory(BOB).list()
        assert caught.value.recorded


def test_worker_whose_announcements_are_removed_looks_at_everything_each_time(
    pair: Pair, bucket: MemoryBucket, worker: Open
) -> None:
    bucket.delete([name for name in bucket.objects if name.startswith("news/")])
    _pass_a_minute(pair.vault)
    assert pair.memory().list().lines == ()
    worker().revoke(pair._caps[ALICE])  # whose announcement has a number that nobody else waits for
    with pytest.raises(CapRevoked):
        pair.memory().list()


# No false alarm.


@pytest.mark.parametrize("seed", range(4))
def test_follower_that_looks_at_every_request_of_compaction_and_forgetting_sees_no_roll_back(seed: int) -> None:
    made = Shelf(seed)
    made.put(range(40))
    view = made.worker().reader.actor(LOCATOR)
    made.bucket.now += 600_000
    busy = made.worker(lambda _: view.refresh())
    busy.compact()
    busy.forget((3, 7))
    made.put(range(40, 60))
    made.bucket.now += 600_000
    busy.forget((41, 42, 5))
    busy.compact()
    busy.compact()
    view.refresh()
    assert {int(name[-26:]) for name, known in view.objects.items() if known.is_gone} == {3, 5, 7, 41, 42}


@pytest.mark.parametrize("at", range(40))
def test_compactors_killed_at_any_request_bring_no_roll_back(at: int) -> None:
    made = Shelf()
    made.put(range(20))
    made.bucket.now += 600_000
    view = made.worker().reader.actor(LOCATOR)
    made.killed(at, lambda worker: worker.compact())
    view.refresh()
    made.killed(at // 2, lambda worker: worker.forget((4,)))
    view.refresh()
    made.bucket.now += 8_000_000
    made.worker().compact()
    view.refresh()
    assert len(view.objects) == 20


def test_purge_while_a_list_is_made_is_no_roll_back() -> None:
    made = Shelf()
    made.put(range(10))
    reader = made.worker().reader
    view = reader.actor(LOCATOR)
    held = dict(made.bucket.objects)
    made.worker().purge()
    lists = 0

    def passed(name: str, *rest: object) -> object:
        """The first list shows the lines as they are now and the head as it was."""
        nonlocal lists
        lists += 1
        found = original(name, *rest)  # type: ignore[arg-type]
        return [one for one in found if not one.name.endswith("/at")] if lists == 1 else found

    original = reader.bucket.list
    reader.bucket.list = passed  # type: ignore[method-assign, assignment]
    view.refresh()
    assert name_of(1) not in view.objects
    assert held


# What is remembered.


def test_version_learned_during_a_request_does_not_count_for_it() -> None:
    past = Past()
    before = moment()
    past.replaced("a", 1)
    past.reached(Table(1))
    assert not past.has_replaced("a", 1, before)
    assert past.has_replaced("a", 1, moment())
    assert past.floor(before) == Table()
    assert past.floor(moment()) == Table(1)


def test_remembered_versions_are_bounded_and_the_oldest_go_first() -> None:
    past = Past()
    for number in range(VERSIONS + 1):
        past.replaced("a", number)
    assert not past.has_replaced("a", 0, moment())
    assert past.has_replaced("a", VERSIONS, moment())
    for number in range(NAMES):
        past.replaced(f"b{number}", 1)
    assert not past.has_replaced("a", VERSIONS, moment())
    assert past.has_replaced("b0", 1, moment())


@pytest.mark.parametrize(
    ("table", "floor", "is_new"),
    [
        (Table(1), Table(0, {"a": 3}), True),
        (Table(0, {"a": 3}), Table(0, {"a": 3}), True),
        (Table(0, {"a": 3, "b": 1}), Table(0, {"a": 3}), True),
        (Table(0, {"a": 2}), Table(0, {"a": 3}), False),
        (Table(0), Table(0, {"a": 1}), False),
        (Table(0, {"a": 9}), Table(1), False),
    ],
)
def test_no_generation_falls(table: Table, floor: Table, *, is_new: bool) -> None:
    assert is_as_new(table, floor) is is_new
