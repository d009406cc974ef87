"""The store's contract on a bucket in memory, in the order of bytes and in that of directories; stores that break one
promise each, to show that it notices; and races that the contract cannot bring about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from strongroom.errors import ClockBehind, StoreUnavailable, Tampered
from strongroom.store import (
    CLOCK_LEEWAY,
    Backend,
    Commit,
    Delete,
    Effect,
    Expect,
    HeadMac,
    Object,
    Purge,
    PutNew,
    Swap,
    Version,
)
from strongroom.store.conformance import StoreContract
from strongroom.store.conformance.helpers import (
    ALICE,
    BOBS,
    DERIVED,
    FORMAT,
    NOW,
    PROFILE,
    TRAVEL,
    WORK,
    SuiteMac,
    body_of,
    line,
    lost,
    names_of,
    refused,
    standing,
    unordered,
    version_of,
)
from strongroom.store.s3 import S3Store, actor_replica, create, object_names, open_store, packs
from strongroom.store.s3.bucket import BucketListing, BucketObject
from strongroom.store.s3.known_objects import Known
from strongroom.store.s3.reader import Reader
from strongroom.store.s3.writer import Change, Writer
from tests.fleet.memory import MemoryBucket

MAC = SuiteMac()


class InMemory:
    """A backend of one place."""

    def __init__(self, bucket: MemoryBucket, kind: type[S3Store] = S3Store) -> None:
        self.bucket = bucket
        self.kind = kind

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> S3Store:
        create(self.bucket, location, mac, entries, effects, time).close()
        store = self.open(location)
        store.authenticate(mac)
        return store

    def open(self, location: str) -> S3Store:
        open_store(self.bucket, location).close()
        return self.kind(self.bucket)

    def copy(self, location: str, target: str, progress: object = None) -> None:
        raise AssertionError("a bucket is not copied")


class Exact(InMemory):
    """The backend as it is."""

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> S3Store:
        return create(self.bucket, location, mac, entries, effects, time)

    def open(self, location: str) -> S3Store:
        return open_store(self.bucket, location)


class S3Contract(StoreContract):
    """What is promised on a bucket."""

    is_whole = False
    one_log = False
    archives = False
    copies = False
    _backend: InMemory

    def backend(self) -> Backend:
        return self._backend

    def location(self) -> str:
        return "here"


@pytest.mark.requirement("store-contract", "s3-contract")
class TestS3(S3Contract):
    @pytest.fixture(autouse=True)
    def _memory(self) -> None:
        self._backend = Exact(MemoryBucket())


class DirectoryBucket(MemoryBucket):
    """Lists as a server does that keeps directories: level by level, and goes on after a name in that order."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        behind = after.split("/") if after else []
        found = sorted(super().list(prefix), key=lambda one: one.name.split("/"))
        return [one for one in found if one.name.split("/") > behind][:limit]


@pytest.mark.requirement("store-contract", "s3-list-order")
class TestS3InDirectories(S3Contract):
    @pytest.fixture(autouse=True)
    def _memory(self) -> None:
        self._backend = Exact(DirectoryBucket())


# The order of names.


class Remembering(MemoryBucket):
    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()

    def create(self, name: str, body: bytes) -> str:
        self.used.add(name)
        return super().create(name, body)


@pytest.mark.requirement("s3-list-order")
def test_names_whose_order_is_not_that_of_bytes_everywhere_are_found() -> None:
    assert sorted(["data/1", "data-old/1"]) != sorted(["data/1", "data-old/1"], key=lambda name: name.split("/"))
    assert unordered(["data/1", "data-old/1", "other"]) == [("data", "data-old")]
    assert unordered(["a/b/c", "a/b.d", "a/b.d/e"]) == [("a/b", "a/b.d")]
    assert unordered(["data/1", "data1/1", "datax", "x-data", "a/data-old"]) == []


@pytest.mark.requirement("s3-list-order")
def test_no_place_in_the_bucket_depends_on_the_order_of_siblings() -> None:
    used: set[str] = set()
    for name in S3Contract.asked():
        contract, bucket = S3Contract(), Remembering()
        contract._backend = Exact(bucket)
        getattr(contract, name)()
        contract.teardown_method()
        used |= bucket.used
    assert {one.split("/")[0] for one in used} == {"actors", "caps", "logs", "news", "roster", "vault"}
    assert unordered(used) == []


# Stores that break a promise.


class NeverLooks(S3Store):
    def version(self, scope: str = "") -> Version:
        self._check_open()
        return self.reader.view(scope).latest

    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return [self.version(scope) for scope in scopes]


class LooksAtOneScopeOnly(S3Store):
    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return [self.version(scope) if at == 0 else self.reader.view(scope).latest for at, scope in enumerate(scopes)]


class MixesUpScopes(S3Store):
    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return super().versions(scopes)[::-1]


class ForgetsAChange(S3Store):
    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        return super().changes(after, limit, scope)[1:]


class ForgetsAScope(S3Store):
    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        return super().changes(after, limit, scope) if scope == object_names.VAULT else []


class OneScopeForAll(S3Store):
    """Followers of an actor hear of the vault's changes only."""

    def scope(self, name: str) -> str:
        return object_names.VAULT


class ScopeOfEachName(S3Store):
    def scope(self, name: str) -> str:
        return name


class CountsFromLastTime(S3Store):
    def version(self, scope: str = "") -> Version:
        super().version(scope)
        return 1


class ForgetsOwnWrites(S3Store):
    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        known = {
            view: dict(view.objects) for view in (self.reader.view(one) for one in {object_names.VAULT, ALICE + "/"})
        }
        done = super().commit(entries, effects, time, **more)
        for view, before in known.items():
            view.objects = before
        return done


class _Unchecked(Writer):
    def _check(self, effect: Change | Expect) -> None:
        pass


class ChecksNothingFirst(S3Store):
    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self.writer = _Unchecked(self.reader, self._random)


class WritesOver(S3Store):
    """A bucket that ignores conditions."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(_Ignoring(bucket))


class _Ignoring(MemoryBucket):
    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__()
        self.objects = bucket.objects

    def create(self, name: str, body: bytes) -> str:
        self.objects.pop(name, None)
        return super().create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        return self.create(name, body)


class _NeverLooks(Reader):
    def looks(self, effects: Sequence[Effect], since: Mapping[str, Version]) -> list[Callable[[], object]]:
        return [] if since else super().looks(effects, since)


class NeverLooksAgain(S3Store):
    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self.reader = _NeverLooks(bucket, self._threads, self._requests)
        self.writer = Writer(self.reader, self._random)


class LogsAfterwards(S3Store):
    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        self._writable()
        self.writer.check(effects)
        self.writer.carry_out(effects)
        return super().commit(entries, [], time, **more)


class MixesUpBodies(S3Store):
    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        first = next((one.body for one in effects if isinstance(one, PutNew)), b"")
        mixed = [PutNew(one.name, first) if isinstance(one, PutNew) else one for one in effects]
        return super().commit(entries, mixed, time, **more)


class WritesUnderOtherNames(S3Store):
    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        done = super().commit(entries, [], time, **more)
        for one in effects:
            if isinstance(one, PutNew) and one.name.startswith(TRAVEL):
                super().commit(entries, [PutNew(f"{one.name}{self.worker[-6:]}", one.body)], time)
        self.writer.carry_out(effects)
        return done


class LearnsNothingFromLosing(S3Store):
    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        before = {view: view.objects for view in (self.reader.view(one) for one in {object_names.VAULT, ALICE + "/"})}
        try:
            return super().commit(entries, effects, time, **more)
        except Exception:
            for view, objects in before.items():
                view.objects = dict(objects)
            raise


BROKEN: list[tuple[type[S3Store], Callable[[StoreContract], None]]] = [
    (NeverLooks, StoreContract.test_two_open_stores_see_each_others_commits_at_once),
    (LooksAtOneScopeOnly, StoreContract.test_change_shows_in_its_own_scope_and_in_no_other),
    (MixesUpScopes, StoreContract.test_versions_are_the_version_of_each_scope_in_turn),
    (ForgetsAChange, StoreContract.test_two_open_stores_see_each_others_commits_at_once),
    (ForgetsAScope, StoreContract.test_commit_in_several_scopes_shows_in_each),
    (OneScopeForAll, StoreContract.test_two_open_stores_see_each_others_commits_at_once),
    (ScopeOfEachName, StoreContract.test_one_actor_is_followed_in_one_scope),
    (CountsFromLastTime, StoreContract.test_numbers_of_a_scope_grow_with_every_change),
    (ForgetsOwnWrites, StoreContract.test_own_writes_are_read_at_once_without_a_look),
    (ChecksNothingFirst, StoreContract.test_condition_known_to_be_broken_writes_nothing),
    (WritesOver, StoreContract.test_what_a_lost_commit_leaves_has_its_own_name_and_body),
    (WritesOver, StoreContract.test_swap_or_deletion_lost_to_another_process_leaves_what_is_there),
    (NeverLooksAgain, StoreContract.test_commit_as_of_what_another_has_changed_since_is_stale),
    (NeverLooksAgain, StoreContract.test_who_has_not_looked_loses_to_changed_keys_and_to_a_name_in_use),
    (LogsAfterwards, StoreContract.test_what_a_lost_commit_leaves_has_its_own_name_and_body),
    (MixesUpBodies, StoreContract.test_what_a_lost_commit_leaves_has_its_own_name_and_body),
    (WritesUnderOtherNames, StoreContract.test_what_a_lost_commit_leaves_has_its_own_name_and_body),
    (WritesUnderOtherNames, StoreContract.test_lost_commit_tried_again_with_what_is_there_is_carried_out),
    (LearnsNothingFromLosing, StoreContract.test_who_lost_knows_what_is_there_without_another_look),
]


@pytest.mark.requirement("store-contract", "s3-contract")
@pytest.mark.parametrize(("kind", "promise"), BROKEN, ids=lambda one: one.__name__)
def test_broken_promise_is_noticed(kind: type[S3Store], promise: Callable[[StoreContract], None]) -> None:
    def run(store: type[S3Store]) -> None:
        contract = S3Contract()
        contract._backend = InMemory(MemoryBucket(), store)
        try:
            promise(contract)
        finally:
            contract.teardown_method()

    run(S3Store)
    with pytest.raises(Exception):  # noqa: B017 - a wrong answer, or what comes of it
        run(kind)


# Races, one step at a time.


class Interrupted(MemoryBucket):
    """Does something else in the middle of a call, once."""

    def __init__(self) -> None:
        super().__init__()
        self.before_a_look: Callable[[], None] | None = None
        self.after_a_list: Callable[[], None] | None = None
        self.after_a_swap: Callable[[], None] | None = None
        self.before_news: Callable[[], None] | None = None
        self.before_a_head: Callable[[], None] | None = None

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        self._look()
        found = super().list(prefix, after, limit)
        meanwhile, self.after_a_list = self.after_a_list, None
        if meanwhile is not None:
            meanwhile()
        return found

    def get(self, name: str) -> BucketObject | None:
        if name.startswith(object_names.NEWS):
            self._look()
        return super().get(name)

    def _look(self) -> None:
        meanwhile, self.before_a_look = self.before_a_look, None
        if meanwhile is not None:
            meanwhile()

    def _write_head(self, name: str) -> None:
        if name.endswith(f"/{object_names.AT}") and self.before_a_head is not None:
            meanwhile, self.before_a_head = self.before_a_head, None
            meanwhile()

    def create(self, name: str, body: bytes) -> str:
        self._write_head(name)
        if name.startswith(object_names.NEWS) and self.before_news is not None:
            meanwhile, self.before_news = self.before_news, None
            meanwhile()
        return super().create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        self._write_head(name)
        written = super().swap(name, body, etag)
        meanwhile, self.after_a_swap = self.after_a_swap, None
        if meanwhile is not None:
            meanwhile()
        return written


@pytest.fixture
def bucket() -> Interrupted:
    return Interrupted()


@pytest.fixture
def store(bucket: Interrupted) -> S3Store:
    effects = [PutNew(FORMAT, b"1"), PutNew(PROFILE, b"1"), PutNew(standing(1), b"1"), PutNew(DERIVED + "x", b"1")]
    return create(bucket, "here", MAC, [b"made"], effects, NOW)


def _another(bucket: MemoryBucket) -> S3Store:
    other = open_store(bucket, "here")
    other.authenticate(MAC)
    return other


def _write_during_a_look(store: S3Store, bucket: Interrupted) -> None:
    scope = store.scope(line(1))
    seen = store.version(scope)
    swap = Swap(PROFILE, b"2", version_of(store, PROFILE))

    def meanwhile() -> None:
        store.commit([b"e"], [PutNew(line(1), b"own"), swap], NOW)

    bucket.after_a_list = meanwhile
    store.version(scope)
    assert bucket.after_a_list is None
    assert line(1) in names_of(store.names(TRAVEL))
    assert body_of(store, line(1)) == b"own"
    assert {line(1), PROFILE} <= set(names_of(store.changes(seen, 9, scope)))
    store.commit([b"e"], [Swap(PROFILE, b"3", version_of(store, PROFILE))], NOW)


@pytest.mark.requirement("s3-contract")
def test_own_write_during_a_look_is_not_lost(store: S3Store, bucket: Interrupted) -> None:
    _write_during_a_look(store, bucket)


@pytest.mark.requirement("s3-contract")
def test_view_that_loses_own_writes_during_a_look_is_noticed(
    store: S3Store, bucket: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    look: Any = actor_replica.ActorView._look

    def careless(self: actor_replica.ActorView, current: int) -> None:
        self._last.clear()  # as if all of it were new
        look(self, current + 1)

    monkeypatch.setattr(actor_replica.ActorView, "_look", careless)
    monkeypatch.setattr(actor_replica.ActorView, "_back", lambda *_: "")  # which would look once more
    with pytest.raises(AssertionError):
        _write_during_a_look(store, bucket)


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("name", [PROFILE, standing(1), line(1)])
@pytest.mark.requirement("s3-contract")
def test_change_over_an_own_write_during_a_look_is_found_by_the_next(
    store: S3Store, bucket: Interrupted, name: str, *, gone: bool
) -> None:
    other, scope = _another(bucket), store.scope(name)
    before = store.version(scope)

    def meanwhile() -> None:
        known = store.get(name)
        store.commit([b"e"], [PutNew(name, b"own") if known is None else Swap(name, b"own", known.version)], NOW)
        other.version(scope)
        found = version_of(other, name)
        other.commit([b"e"], [Delete(name, found) if gone else Swap(name, b"theirs", found)], NOW)

    bucket.before_a_look = meanwhile
    store.version(scope)
    assert store.version(scope) > before
    assert [one.body for one in store.names(name)] == [None if gone else b""]
    assert (name, None if gone else b"") in [(one.name, one.body) for one in store.changes(before, 9, scope)]
    assert store.get(name) == other.get(name)
    if not gone:
        store.commit([b"e"], [Swap(name, b"own again", version_of(store, name))], NOW)


@pytest.mark.parametrize("name", [PROFILE, standing(1), DERIVED + "x"])
@pytest.mark.requirement("s3-contract")
def test_swap_between_the_check_and_the_write_is_not_overwritten(store: S3Store, name: str) -> None:
    swap = Swap(name, b"ours", version_of(store, name))
    store.writer.check([swap])
    store.commit([b"e"], [Swap(name, b"another thread's", swap.version)], NOW)
    with lost(name):
        store.writer.carry_out([swap])
    assert body_of(store, name) == b"another thread's"


@pytest.mark.requirement("s3-contract")
def test_own_write_does_not_hide_what_was_written_over_it(store: S3Store, bucket: Interrupted) -> None:
    view = store.reader.view(PROFILE)
    first = view.objects[PROFILE]
    store.commit([b"e"], [Swap(PROFILE, b"2", first.version)], NOW)
    store.commit([b"e"], [Swap(PROFILE, b"3", version_of(store, PROFILE))], NOW)
    newest = view.objects[PROFILE]
    view.wrote(PROFILE, store.reader.place(PROFILE), Known(5, is_gone=False, etag="late"), first)
    assert view.objects[PROFILE] == newest


@pytest.mark.requirement("s3-contract")
def test_version_of_derived_data_is_that_of_what_was_written(store: S3Store, bucket: Interrupted) -> None:
    other, name = _another(bucket), DERIVED + "x"

    def meanwhile() -> None:
        other.version(other.scope(name))
        other.compare_and_swap(name, b"theirs", version_of(other, name))
        store.version(store.scope(name))

    old = version_of(store, name)
    bucket.after_a_swap = meanwhile
    version = store.compare_and_swap(name, b"ours", old)
    with lost(name):
        store.compare_and_swap(name, b"ours again", version)
    assert body_of(store, name) == b"theirs"


@pytest.mark.requirement("s3-contract")
def test_look_that_failed_serves_nobody_who_waited_for_it(store: S3Store, bucket: Interrupted) -> None:
    view, scope = store.reader.view(PROFILE), store.scope(PROFILE)
    store.version(scope)
    writer = _another(bucket)
    held, release = threading.Event(), threading.Event()

    def stop() -> None:
        held.set()
        assert release.wait(60)
        bucket.after_a_list = fail

    def fail() -> None:
        raise StoreUnavailable("told to")

    bucket.after_a_list = stop
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(store.version, scope)
        assert held.wait(60)
        writer.commit([b"e"], [PutNew(line(1), b"theirs")], NOW)
        waiting = [pool.submit(store.version, scope) for _ in range(2)]
        while len(view.guard._waiters) < 2:  # type: ignore[attr-defined]
            assert not any(one.done() for one in waiting)
        release.set()
        outcomes = [one.exception(60) for one in (first, *waiting)]
    assert [type(one) for one in outcomes].count(StoreUnavailable) == 1
    assert line(1) in names_of(store.names(TRAVEL))


@pytest.mark.requirement("s3-contract")
def test_unannounced_change_of_a_dead_worker_stops_nobody(store: S3Store, bucket: Interrupted) -> None:
    other = _another(bucket)
    version = version_of(store, standing(1))

    def die() -> None:
        raise StoreUnavailable("told to")

    bucket.before_news = die
    assert version_of(other, standing(1)) == version
    with refused(StoreUnavailable):
        other.commit([b"e"], [Swap(standing(1), b"theirs", version)], NOW)
    store.version(store.scope(standing(1)))
    found = version_of(store, standing(1))
    assert found != version
    with lost(standing(1)):  # it did not know yet
        store.commit([b"e"], [Swap(standing(1), b"ours", found)], NOW)
    seen = store.reader.vault.latest
    assert store.version(store.scope(standing(1))) > seen
    store.commit([b"e"], [Swap(standing(1), b"ours", found)], NOW)
    assert body_of(_another(bucket), standing(1)) == b"ours"


@pytest.mark.requirement("s3-contract")
def test_commit_that_lost_after_its_check_stays_in_the_log_as_an_intent(store: S3Store, bucket: Interrupted) -> None:
    other = _another(bucket)
    other.version(other.scope(line(1)))
    store.commit([b"e"], [PutNew(line(2), b"theirs")], NOW)
    with lost(line(2)):
        other.commit([b"intent"], [PutNew(line(number), b"ours") for number in (1, 2, 3)], NOW)
    assert [entry for _, _, entry in other.entries(0, 9)] == [b"intent"]
    assert [body_of(other, line(number)) for number in (1, 2, 3)] == [b"ours", b"theirs", b"ours"]
    other.close()
    assert [bundle.entries for _, bundle in store.bundles(other.worker) if bundle is not None] == [[b"intent"]]


@pytest.mark.requirement("s3-contract")
@pytest.mark.parametrize("kind", ["new keys", "changed keys"])
def test_keys_written_while_their_actors_view_is_dropped_for_room_are_known(bucket: Interrupted, kind: str) -> None:
    create(bucket, "place", MAC, [b"made"], [PutNew(FORMAT, b"1")], NOW).close()
    store, name = S3Store(bucket, views=1, packs=False), f"{ALICE}/keys"
    store.authenticate(MAC)
    if kind == "changed keys":
        store.commit([b"e"], [PutNew(name, b"first")], NOW)

    def another_thread_looks() -> None:
        for scope in (store.scope(BOBS), store.scope(name)):
            store.version(scope)

    bucket.before_a_head = another_thread_looks
    change = PutNew(name, b"k") if kind == "new keys" else Swap(name, b"k", version_of(store, name))
    store.commit([b"e"], [change], NOW)
    assert bucket.before_a_head is None
    store.commit([b"e"], [Expect(name, version_of(store, name)), PutNew(line(1), b"text")], NOW)
    assert [body_of(store, one) for one in (name, line(1))] == [b"k", b"text"]


class _Purging(MemoryBucket):
    """Lets somebody else act right after the first pack is written."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def create(self, name: str, body: bytes) -> str:
        etag = super().create(name, body)
        if "/packs/" in name and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return etag


@pytest.mark.requirement("s3-contract")
def test_forget_that_an_erasure_overtakes_leaves_nothing_in_what_comes_after() -> None:
    bucket = _Purging()
    names = [line(1), line(1, WORK)]
    store = create(bucket, "place", MAC, [b"made"], [PutNew(FORMAT, b"1"), PutNew(f"{ALICE}/keys", b"k")], NOW)
    store.commit([b"e"], [PutNew(name, b"text") for name in names], NOW)
    other = _another(bucket)
    keys = Delete(f"{ALICE}/keys", version_of(other, f"{ALICE}/keys"))

    def erase() -> None:
        other.commit([b"erase"], [PutNew(standing(1), b""), Expect(keys.name, keys.version), Purge(f"{ALICE}/")], NOW)
        other.commit([b"again"], [PutNew(keys.name, b"k2")], NOW)
        other.commit([b"again"], [PutNew(name, b"anew") for name in names], NOW)
        store.version(store.scope(names[0]))  # another of its threads looks

    bucket.meanwhile = erase
    store.commit([b"forget"], [Delete(name, version_of(store, name)) for name in names], NOW)
    fresh = _another(bucket)
    assert bucket.meanwhile is None
    assert [body_of(fresh, name) for name in names] == [b"anew", b"anew"]


@pytest.mark.requirement("s3-contract")
def test_worker_whose_clock_is_far_behind_the_servers_writes_nothing(bucket: Interrupted, store: S3Store) -> None:
    bucket.time = NOW
    late = _another(bucket)
    before = dict(bucket.objects)
    with refused(ClockBehind):
        late.commit([b"e"], [PutNew(line(1), b"x")], NOW - CLOCK_LEEWAY - 1)
    assert bucket.objects == before
    late.commit([b"e"], [PutNew(line(1), b"x")], NOW - CLOCK_LEEWAY)
    store.version(store.scope(line(1)))
    assert body_of(store, line(1)) == b"x"


@pytest.mark.parametrize(
    "planted", ["news/999999999999", "news/zzz", "news/\uff19\uff19", "news/", "news/000000000003"]
)
@pytest.mark.requirement("s3-contract")
def test_announcement_that_nobody_made_keeps_no_worker_from_hearing_the_next(
    bucket: Interrupted, store: S3Store, planted: str
) -> None:
    other = _another(bucket)
    scope = other.scope(standing(1))
    other.version(scope)
    bucket.create(object_names.NEWS + planted, b"planted")
    for number in range(11, 15):
        seen = other.version(scope)
        store.commit([b"revoked"], [PutNew(standing(number), b"")], NOW)
        assert other.version(scope) > seen
        assert standing(number) in names_of(other.changes(seen, 9, scope))
        assert standing(number) in names_of(_another(bucket).names(standing(number)))


@pytest.mark.requirement("s3-contract")
def test_worker_that_is_kept_from_hearing_looks_for_itself_within_a_minute(bucket: Interrupted) -> None:
    now = [NOW]
    founder = create(bucket, "place", MAC, [b"made"], [PutNew(FORMAT, b"1")], NOW)
    other = S3Store(bucket, now=lambda: now[0])
    scope = other.scope(standing(1))
    seen = other.version(scope)
    founder.commit([b"revoked"], [PutNew(standing(1), b"")], NOW)
    bucket.delete([name for name in bucket.objects if name.startswith("news/")])
    assert other.version(scope) == seen
    now[0] += 60_000
    assert other.version(scope) > seen


@pytest.mark.requirement("s3-contract")
def test_worker_with_room_for_one_actor_hears_of_every_change(bucket: Interrupted, store: S3Store) -> None:
    other = S3Store(bucket, views=1)
    names = [line(1), line(1, BOBS)]
    seen = [other.version(other.scope(name)) for name in names]
    for turn in range(3):
        for at, name in enumerate(names):
            effect = PutNew(name, b"0") if turn == 0 else Swap(name, b"%d" % turn, version_of(store, name))
            store.commit([b"e"], [effect], NOW)
            latest = other.version(other.scope(name))
            assert latest > seen[at]
            assert name in names_of(other.changes(seen[at], 99, other.scope(name)))
            seen[at] = latest
            assert body_of(other, name) == b"%d" % turn


@pytest.mark.parametrize("name", ["at", f"g000000/memory/{'c3' * 16}/g000000/packs/{1:012x}{'a' * 12}"])
@pytest.mark.requirement("s3-contract")
def test_object_larger_than_any_of_ours_is_not_read(bucket: Interrupted, store: S3Store, name: str) -> None:
    other = _another(bucket)
    bucket.objects[f"{ALICE}/{name}"] = bytes(packs.LARGEST + 1)
    before = bucket.requests.get("get", 0)
    with refused(Tampered):
        other.version(other.scope(line(1)))
    assert bucket.requests.get("get", 0) == before
    other.version(other.scope(line(1, BOBS)))
    store.close()


@pytest.mark.requirement("pack-cold")
def test_process_that_only_puts_has_lines_packed_all_the_same(bucket: Interrupted) -> None:
    create(bucket, "place", MAC, [b"made"], [PutNew(FORMAT, b"1"), PutNew(f"{ALICE}/keys", b"k")], NOW).close()
    store = S3Store(bucket)
    store.authenticate(MAC)
    due: list[int] = []
    background = store._background
    assert background is not None
    background.consider = lambda view: due.append(len(view.places()))  # type: ignore[method-assign]
    vault = store.scope(FORMAT)
    for number in range(9):
        store.commit([b"e"], [PutNew(line(number), b"x", is_new=True)], NOW, since={vault: store.version(vault)})
    assert due[-1] == 1 + 9
    store.close()
