"""Compaction beside everything else: what is forgotten stays so and nothing is lost, wherever anybody stops or dies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest

from strongroom.errors import StoreUnavailable, Tampered
from strongroom.store.s3 import compaction_plan, object_names, packs
from strongroom.store.s3.actor_replica import ActorView
from strongroom.store.s3.background_compaction import Background
from strongroom.store.s3.bucket import BucketObject, Changed
from strongroom.store.s3.compaction import DEAD, SETTLED, Packed
from strongroom.store.s3.rollback_guard import Past
from tests.fleet.shelf import (
    LOCATOR,
    LONG,
    PLACE,
    SHELF,
    Client,
    Killed,
    Shelf,
    Worker,
    body_of,
    name_of,
    once,
    whole,
)

LINES = range(13)
SECRETS = (1, 9, 12)
"""In a full pack, in a small one, and by itself."""
KEPT = [number for number in LINES if number not in SECRETS]


@pytest.fixture(autouse=True)
def _packs_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_plan, "MOST", 4)


def shelf(seed: int = 1) -> Shelf:
    """Two full packs, a small one, and three lines by themselves: all of it long ago."""
    made = Shelf(seed)
    made.put(range(10))
    made.bucket.now += LONG
    made.worker().compact()
    made.put(range(10, 13))
    made.bucket.now += LONG
    assert [len(made.packs()), made.loose()] == [3, [10, 11, 12]]
    return made


def compact(worker: Worker) -> object:
    return worker.compact()


def forget(worker: Worker) -> None:
    worker.forget(SECRETS)


def requests(work: Callable[[Worker], object]) -> range:
    """Before each of these something can happen."""
    counts: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction_plan, "MOST", 4)
        work(shelf().worker(counts.append))
    return range(len(counts))


def buried(made: Shelf, numbers: tuple[int, ...] = SECRETS) -> None:
    """Nothing is left of some lines, and all of the others."""
    assert made.alive() == whole(number for number in LINES if number not in numbers)
    assert [made.bytes_of(number) for number in numbers] == [[] for _ in numbers]


def in_time(made: Shelf) -> None:
    """Some time later others compact."""
    made.bucket.now += LONG
    made.worker().compact()


# Forgetting meanwhile.


@pytest.mark.requirement("pack-forget")
@pytest.mark.parametrize("at", requests(compact))
def test_forget_at_any_request_of_a_compaction_leaves_no_bytes_and_no_way_back(at: int) -> None:
    made = shelf()
    made.worker(once(at, lambda: forget(made.worker()))).compact()
    buried(made)
    in_time(made)
    buried(made)
    assert made.claims() == []


@pytest.mark.requirement("pack-forget")
@pytest.mark.parametrize("at", requests(forget))
def test_compaction_at_any_request_of_a_forget_leaves_no_bytes_and_no_way_back(at: int) -> None:
    made = shelf()
    forget(made.worker(once(at, lambda: made.worker().compact())))
    buried(made)
    in_time(made)
    buried(made)


@pytest.mark.requirement("pack-crash")
@pytest.mark.parametrize("at", requests(compact))
def test_line_that_was_gone_once_stays_gone_wherever_the_forget_died(at: int) -> None:
    for died in requests(forget):
        made = shelf()
        gone: list[int] = []

        def die(made: Shelf = made, died: int = died, gone: list[int] = gone) -> None:
            made.killed(died, forget)
            gone.extend(set(LINES) - made.alive().keys())

        made.worker(once(at, die)).compact()
        assert made.alive() == whole(set(LINES) - set(gone))
        in_time(made)
        buried(made, tuple(gone))
        forget(made.worker())
        buried(made)


@pytest.mark.requirement("pack-crash")
@pytest.mark.parametrize("at", requests(compact))
def test_line_stays_gone_when_a_second_compaction_comes_between(at: int) -> None:
    for died in requests(forget):
        made = shelf()
        gone: list[int] = []

        def die(made: Shelf = made, died: int = died, gone: list[int] = gone) -> None:
            made.killed(died, forget)
            gone.extend(set(LINES) - made.alive().keys())
            made.worker().compact()

        made.worker(once(at, die)).compact()
        assert made.alive() == whole(set(LINES) - set(gone))
        in_time(made)
        buried(made, tuple(gone))


@pytest.mark.requirement("pack-crash")
@pytest.mark.parametrize("at", requests(forget))
def test_forget_ends_well_wherever_a_compactor_died_meanwhile(at: int) -> None:
    for died in requests(compact):
        made = shelf()
        forget(made.worker(once(at, lambda made=made, died=died: made.killed(died, compact))))  # type: ignore[misc]
        buried(made)
        in_time(made)
        buried(made)


@pytest.mark.requirement("pack-crash")
@pytest.mark.parametrize("died", requests(compact))
def test_compactor_that_dies_loses_nothing_and_another_goes_on(died: int) -> None:
    made = shelf()
    made.killed(died, compact)
    assert made.alive() == whole(LINES)
    forget(made.worker())
    buried(made)
    made.bucket.now += DEAD
    in_time(made)
    buried(made)
    in_time(made)
    assert made.claims() == []


# Two compactors.


@pytest.mark.requirement("pack-compactors")
@pytest.mark.parametrize("at", requests(compact))
def test_two_compactors_lose_nothing_and_give_nothing_twice(at: int) -> None:
    made = shelf()
    made.worker(once(at, lambda: made.worker().compact())).compact()
    assert made.alive() == whole(LINES)
    in_time(made)
    assert made.alive() == whole(LINES)
    assert [made.loose(), made.claims()] == [[], []]


@pytest.mark.requirement("pack-compactors")
@pytest.mark.parametrize("at", requests(compact))
def test_compactor_that_dies_beside_another_loses_nothing(at: int) -> None:
    for died in requests(compact):
        made = shelf()
        made.worker(once(at, lambda made=made, died=died: made.killed(died, compact))).compact()  # type: ignore[misc]
        assert made.alive() == whole(LINES)
        forget(made.worker())
        buried(made)


class Turns:
    """Workers on threads of their own, of which one at a time makes one request."""

    def __init__(self, made: Shelf, random: Random) -> None:
        self._made = made
        self._random = random
        self._waiting: dict[int, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._dead: set[int] = set()

    def start(self, work: Callable[[Worker], object]) -> int:
        who = len(self._waiting)
        self._waiting[who] = threading.Semaphore(0)

        def before(_: int) -> None:
            self._back.release()
            self._waiting[who].acquire()
            if who in self._dead:
                raise Killed

        def run() -> None:
            try:
                work(self._made.worker(before))
            except Killed:
                pass
            finally:
                del self._waiting[who]
                self._back.release()

        threading.Thread(target=run, daemon=True).start()
        assert self._back.acquire(timeout=60)
        return who

    def run(self, *, deaths: float) -> None:
        while self._waiting:
            who = self._random.choice(sorted(self._waiting))
            if self._random.random() < deaths:
                self._dead.add(who)
            self._waiting[who].release()
            assert self._back.acquire(timeout=60)


@pytest.mark.requirement("pack-forget")
@pytest.mark.requirement("pack-compactors")
@pytest.mark.parametrize("seed", range(120))
def test_any_order_of_requests_and_deaths_keeps_what_is_kept_and_forgets_the_rest(seed: int) -> None:
    made, random = shelf(seed), Random(seed)
    turns = Turns(made, random)
    ended: list[int] = []

    def forgets(number: int) -> Callable[[Worker], None]:
        def work(worker: Worker) -> None:
            worker.forget([number])
            ended.append(number)

        return work

    for number in random.sample(LINES, 3):
        turns.start(forgets(number))
    for _ in range(3):
        turns.start(compact)
    turns.run(deaths=random.choice([0.0, 0.02]))
    alive = made.alive()
    gone = tuple(set(LINES) - alive.keys())
    assert set(ended) <= set(gone)
    assert alive == whole(alive)
    assert [made.bytes_of(number) for number in ended] == [[] for _ in ended]
    made.bucket.now += DEAD
    in_time(made)
    buried(made, gone)


# Purging and reading meanwhile.


@pytest.mark.requirement("pack-crash")
@pytest.mark.parametrize("at", requests(compact))
def test_purge_at_any_request_of_a_compaction_is_final_and_leaves_nothing(at: int) -> None:
    made = shelf()
    made.worker(once(at, lambda: made.worker().purge())).compact()
    assert made.alive() == {}
    in_time(made)
    assert [name for name in made.bucket.objects if not name.endswith("/at")] == []


@pytest.mark.requirement("pack-forget")
@pytest.mark.parametrize("at", requests(lambda worker: worker.purge()))
def test_compaction_at_any_request_of_a_purge_leaves_nothing(at: int) -> None:
    made = shelf()
    made.worker(once(at, lambda: made.worker().compact())).purge()
    assert made.alive() == {}
    assert [made.bytes_of(number) for number in LINES] == [[] for _ in LINES]


@pytest.mark.requirement("pack-crash")
def test_pack_that_is_filled_while_a_purge_deletes_goes_too() -> None:
    """By a compactor that has listed the lines before, and claimed after the purge has listed them."""
    made = shelf()
    place, body = next(iter(made.packs().items()))
    late = place[:-24] + packs.pack_id(99, b"late..")

    def fill(number: int) -> None:
        if number == last:
            made.bucket.create(late, body)

    last = next(at for at in requests(lambda worker: worker.purge()) if _is_delete(at))
    made.worker(fill).purge()
    assert [name for name in made.bucket.objects if not name.endswith("/at")] == []


def _is_delete(at: int) -> bool:
    """Whether a purge deletes with this request."""
    made = shelf()
    before = len(made.bucket.objects)
    made.killed(at + 1, lambda worker: worker.purge())
    return len(made.bucket.objects) < before


@pytest.mark.requirement("pack-compactors")
@pytest.mark.parametrize("at", requests(compact))
def test_follower_sees_every_line_at_every_request_and_hears_of_no_change(at: int) -> None:
    made = shelf()
    forget(made.worker())
    follower = made.worker().reader
    number = follower.version(SHELF)
    made.worker(once(at, lambda: follower.version(SHELF))).compact()
    made.worker(once(at, lambda: _reads_all(made))).compact()
    follower.version(SHELF)
    assert list(follower.changes(number, 100, SHELF)) == []
    assert {one.name: one.body for one in follower.listed(SHELF, "", 100) if one.body} == {
        name_of(number): body_of(number) for number in KEPT
    }


def _reads_all(made: Shelf) -> None:
    assert made.alive() == whole(KEPT)


def test_object_of_a_later_generation_than_the_table_in_the_same_list_is_not_swept() -> None:
    made = shelf()
    other = made.worker()
    other.purge()
    new = object_names.actor_place(name_of(99), object_names.Table(0, {"b" * 32: 1}))
    made.bucket.create(new, object_names.frame_body(body_of(99)))
    at = f"actors/{LOCATOR}/at"
    held = made.bucket.objects.pop(at)  # the list passed it before the purge
    view = made.worker().reader.actor(LOCATOR)
    assert new in view.places()
    assert view.left_over == []
    made.bucket.objects[at] = held
    made.worker().compact()
    assert made.alive() == whole([99])


@pytest.mark.requirement("pack-forget")
def test_burial_counts_whether_its_pack_comes_before_the_body_or_behind() -> None:
    for number in (0, 99):
        made = shelf()
        burial = packs.encode_pack(SHELF, {name_of(9): packs.Record(7, None)})
        made.bucket.create(PLACE + "packs/" + packs.pack_id(number, b"123456"), burial)
        in_time(made)
        buried(made, (9,))
        in_time(made)
        buried(made, (9,))


def test_follower_hears_of_no_change_when_a_tombstone_by_itself_goes() -> None:
    made = Shelf()
    made.put(range(4))
    made.bucket.now += LONG
    made.worker().compact()
    made.put([4])
    made.worker().forget([4])
    follower = made.worker().reader
    number = follower.version(SHELF)
    in_time(made)
    assert made.loose() == []
    follower.version(SHELF)
    assert list(follower.changes(number, 100, SHELF)) == []


@pytest.mark.requirement("pack-compactors")
def test_pack_is_not_deleted_while_its_lines_found_no_room_in_the_new_ones() -> None:
    made = Shelf()
    made.put(range(100, 106))
    made.bucket.now += LONG
    made.worker().compact()
    made.put([106])
    made.bucket.now += LONG

    def more(_: int) -> None:
        if made.claims() and made.loose() == [106]:
            made.put(range(8))
            made.bucket.modified.update({name: 0 for name in made.bucket.objects if "/lines/" in name})

    made.worker(more).compact()
    assert len(made.loose()) < 9
    assert made.alive() == whole([*range(8), *range(100, 107)])
    in_time(made)
    assert [made.loose(), made.alive()] == [[], whole([*range(8), *range(100, 107)])]


class Unlucky(Client):
    """Fills a pack, hears that somebody was first, and is late: others have relied on that pack since."""

    others: Callable[[], object] = staticmethod(lambda: None)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        super().swap(name, body, etag)
        self.others()
        raise Changed(name)


@pytest.mark.requirement("pack-compactors")
def test_pack_whose_fill_seemed_to_fail_is_not_removed_as_a_claim() -> None:
    made = shelf()
    client = Unlucky(made.bucket)
    client.others = lambda: made.worker().compact()
    Worker(client, Random(1)).compact()
    assert made.alive() == whole(LINES)


# What is packed, and what is not.


def test_lines_that_may_still_be_under_way_are_not_packed() -> None:
    made = Shelf()
    made.put(range(3))
    made.bucket.now += SETTLED
    made.put([3])
    made.bucket.now += SETTLED - 1
    made.worker().compact()
    assert made.loose() == [3]
    assert made.alive() == whole(range(4))


def test_large_line_stays_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_plan, "LARGE", len(body_of(10)))
    made = Shelf()
    made.put([1, 2, 10])
    made.bucket.now += LONG
    made.worker().compact()
    assert made.loose() == [10]


def test_packs_end_where_they_would_have_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_plan, "BYTES", 2 * len(object_names.frame_body(body_of(1))))
    made = Shelf()
    made.put(range(4))
    made.bucket.now += LONG
    assert made.worker().compact() == Packed(4, 2, 4)


def test_packs_hold_lines_in_their_order_and_keep_versions() -> None:
    made = Shelf()
    made.put(range(10))
    made.bucket.now += LONG
    before = {one.name: one.version for one in made.worker().reader.named(SHELF, "", 100)}
    assert made.worker().compact() == Packed(10, 3, 10)
    found = [packs.decode_pack(SHELF, body, "").records for _, body in sorted(made.packs().items())]
    assert [[int(name[-26:]) for name in records] for records in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert {name: one.version for records in found for name, one in records.items()} == before


def test_small_packs_are_absorbed_and_full_ones_left_alone() -> None:
    made = shelf()
    small = max(made.packs())
    full = {name: body for name, body in made.packs().items() if name != small}
    assert made.worker().compact() == Packed(5, 2, 4)
    assert small not in made.packs()
    assert full.items() <= made.packs().items()
    assert made.alive() == whole(LINES)


def test_shelf_with_little_to_do_is_left_alone() -> None:
    made = shelf()
    objects = dict(made.bucket.objects)
    worker = Worker(made.client(), Random(1), least=4)
    assert worker.compact() == Packed()
    assert made.bucket.objects == objects


def test_young_claim_of_another_stays_and_a_dead_one_goes() -> None:
    made = shelf()
    claim = PLACE + "packs/" + packs.pack_id(50, b"123456")
    made.bucket.create(claim, packs.claim(b"1" * 16))
    made.bucket.now += DEAD - 1
    made.worker().compact()
    assert made.claims() == [claim]
    made.put([13])
    made.bucket.now += LONG
    made.worker().compact()
    assert made.claims() == []
    assert made.alive() == whole(range(14))


def test_compactor_that_slept_for_hours_fills_nothing() -> None:
    made = shelf()
    at = requests(compact).index(11)
    slept: list[str] = []

    def sleep() -> None:
        slept.extend(made.claims())
        made.bucket.now += 2 * DEAD
        made.worker().compact()

    made.worker(once(at, sleep)).compact()
    assert slept
    assert made.alive() == whole(LINES)
    in_time(made)
    assert [made.loose(), made.claims()] == [[], []]


class Rotten(Client):
    """Gives back packs that were just written with a byte of a line changed."""

    def get(self, name: str) -> BucketObject | None:
        found = super().get(name)
        if found is None or "/packs/" not in name:
            return found
        return found._replace(body=found.body.replace(body_of(12), body_of(13)))


@pytest.mark.requirement("pack-proven")
def test_nothing_is_deleted_if_a_pack_does_not_read_back_as_written() -> None:
    made = shelf()
    old = made.packs()
    with pytest.raises(Tampered):
        Worker(Rotten(made.bucket), Random(1)).compact()
    assert made.loose() == [10, 11, 12]
    assert old.items() <= made.packs().items()


@pytest.mark.requirement("pack-proven")
def test_nothing_is_deleted_without_the_rest_and_the_next_pass_drops_the_copies() -> None:
    made = shelf()
    before = dict(made.bucket.objects)
    assert made.worker().compactor.compact(LOCATOR, lambda: False) == Packed(5, 2, 0)
    assert before.items() <= made.bucket.objects.items()
    in_time(made)
    assert [made.loose(), made.alive()] == [[], whole(LINES)]


@pytest.mark.requirement("pack-cold")
def test_cold_shelf_of_many_lines_takes_at_least_twenty_times_fewer_requests_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction_plan, "MOST", packs.MOST)
    made = Shelf()
    made.put(range(10_000))
    made.bucket.now += LONG
    unpacked = _requests_to_load(made, 10_000)
    made.worker().compact()
    packed = _requests_to_load(made, 10_000)
    assert unpacked >= 20 * packed
    assert packed == 11


def _requests_to_load(made: Shelf, count: int) -> int:
    client = made.client()
    found = Worker(client, Random(1)).reader.listed(SHELF, "", count)
    assert [one.body for one in found] == [body_of(number) for number in range(count)]
    return client.count


# When it is due, and in the background.


def due(made: Shelf, least: int = 4) -> bool:
    worker = Worker(made.client(), Random(1), least=least)
    return worker.compactor.is_due(worker.reader.actor(LOCATOR))


def test_many_lines_or_old_generations_or_burials_make_an_actor_due(monkeypatch: pytest.MonkeyPatch) -> None:
    made = shelf()
    assert not due(made)
    made.put([13])
    assert due(made)
    monkeypatch.setattr("strongroom.store.s3.compaction.SMALL", 3)
    made = shelf()
    for number in (1, 9):
        assert not due(made)
        made.worker().forget([number])
    assert due(made)
    made = shelf()
    made.worker().purge()
    assert not due(made)
    made.put([14])  # by somebody who has not heard of the purge
    assert due(made)
    in_time(made)
    assert not due(made)


def test_forget_that_died_makes_an_actor_due_until_its_bytes_are_gone() -> None:
    for died in requests(forget):
        made = shelf()
        made.killed(died, forget)
        gone = tuple(set(LINES) - made.alive().keys())
        assert due(made) == any(made.bytes_of(number) for number in gone)
        in_time(made)
        buried(made, gone)
        assert not due(made)


class Counted:
    """A compactor that says what it was told to do."""

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[str] = []
        self.turn = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self._error = error

    def is_due(self, view: ActorView) -> bool:
        return bool(view.locator)

    def compact(self, locator: str, rest: Callable[[], bool]) -> Packed:
        self.told.append(locator)
        self.turn.release()
        assert self.go.acquire(timeout=60)
        if self._error is not None:
            raise self._error
        rest()
        return Packed()


def viewed(locator: str) -> ActorView:
    return ActorView(Shelf().bucket, 1, locator, Shelf().worker().reader.threads, Past())


def test_background_takes_one_actor_at_a_time_and_each_once() -> None:
    compactor = Counted()
    background = Background(compactor, clock=lambda: 0.0, rest=0.0)  # type: ignore[arg-type]
    for locator in ("a", "a", "b", "a"):
        background.consider(viewed(locator))
    assert compactor.turn.acquire(timeout=60)
    assert compactor.told == ["a"]
    compactor.go.release()
    assert compactor.turn.acquire(timeout=60)
    background.consider(viewed("a"))
    compactor.go.release()
    background.close()
    assert compactor.told == ["a", "b"]
    assert [background.passes, background.errors] == [2, 0]


def test_error_in_the_background_is_counted_and_others_have_their_turn() -> None:
    compactor = Counted(StoreUnavailable("gone"))
    background = Background(compactor, rest=60.0)  # type: ignore[arg-type]
    compactor.go.release(2)
    background.consider(viewed("a"))
    background.consider(viewed("b"))
    for _ in range(2):
        assert compactor.turn.acquire(timeout=60)
    background.close()
    assert [compactor.told, background.passes, background.errors] == [["a", "b"], 2, 2]


def test_background_that_is_closed_neither_rests_nor_begins_anything() -> None:
    compactor = Counted()
    background = Background(compactor, rest=60.0)  # type: ignore[arg-type]
    background.consider(viewed("a"))
    assert compactor.turn.acquire(timeout=60)
    background.consider(viewed("b"))
    compactor.go.release()
    background.close()
    background.consider(viewed("c"))
    background.close()
    assert [compactor.told, background.passes] == [["a"], 1]
