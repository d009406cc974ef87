"""The contract, on every store there is; and stores that break one promise each, to show that it notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from strongroom.store import (
    ANY,
    CLOCK_LEEWAY,
    Backend,
    Commit,
    Effect,
    Expect,
    Head,
    HeadMac,
    Object,
    PutNew,
    Swap,
    Version,
)
from strongroom.store.conformance import StoreContract, only
from strongroom.store.conformance.helpers import unordered
from strongroom.store.fake import FakeDisk, FakeStore, FakeStores, Faults
from strongroom.store.sqlite import SqliteStore


@pytest.mark.requirement("store-contract", "store-group", "store-missing-broken", "audit-atomic")
class TestSqlite(StoreContract):
    clock_leeway = CLOCK_LEEWAY

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self._location = str(tmp_path / "vault")

    def backend(self) -> Backend:
        return SqliteStore

    def location(self) -> str:
        return self._location


@pytest.mark.requirement("store-contract")
class TestFake(StoreContract):
    @pytest.fixture(autouse=True)
    def _memory(self) -> None:
        self._in_memory = FakeStores()

    def backend(self) -> Backend:
        return self._in_memory

    def location(self) -> str:
        return "here"


# Stores that break a promise.


class HidesTombstones(FakeStore):
    def get(self, name: str) -> Object | None:
        found = super().get(name)
        return None if found is None or found.body is None else found


class ListsNoTombstones(FakeStore):
    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return [thing for thing in super().list(prefix, after, limit) if thing.body is not None]


class ListsBackwards(FakeStore):
    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return super().list(prefix, after, limit)[::-1]


class ListsAnyCase(FakeStore):
    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        everything = super().list("", after)
        return [thing for thing in everything if thing.name.lower().startswith(prefix.lower())][:limit]


class ListsFromAfter(FakeStore):
    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return [thing for thing in super().list(prefix, "") if thing.name >= after][:limit]


class ListsWithoutLimit(FakeStore):
    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return super().list(prefix, after)


class WritesAnythingOutsideTheLog(FakeStore):
    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        with self._call("put_if_absent") as disk:
            self._writable()
            disk.version += 1
            disk.objects.setdefault(name, (disk.version, body))
            return disk.version


class DerivedDataWithoutConditions(FakeStore):
    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        return super().put_if_absent(name, body)


class NamesWithBodies(FakeStore):
    def names(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        return self.list(prefix, after, limit)


class ChangesWithBodies(FakeStore):
    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        return [
            replace(change, body=self.disk.objects[change.name][1]) for change in super().changes(after, limit, scope)
        ]


class ChangesWithoutTombstones(FakeStore):
    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        return [change for change in super().changes(after, limit, scope) if change.body is not None]


class ChangesInNameOrder(FakeStore):
    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        return sorted(super().changes(after, limit, scope), key=lambda change: change.name)


class _Careless(FakeStore):
    """Edits the disk around an honest commit."""

    def edit(self, disk: FakeDisk) -> None:
        raise NotImplementedError

    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        try:
            return super().commit(entries, effects, time, **more)
        finally:
            if not self._closed:
                self.edit(self.disk)


class ReusesDeletedNames(_Careless):
    def edit(self, disk: FakeDisk) -> None:
        for name in [name for name, (_, body) in disk.objects.items() if body is None]:
            del disk.objects[name]


class ReusesVersions(_Careless):
    def edit(self, disk: FakeDisk) -> None:
        disk.version = len(disk.objects)


class LogsNothing(_Careless):
    def edit(self, disk: FakeDisk) -> None:
        disk.entries.clear()


class SignsNothing(_Careless):
    def edit(self, disk: FakeDisk) -> None:
        disk.head = replace(disk.head, mac=bytes(32))


class AppliesUntilOneIsLost(FakeStore):
    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        done = super().commit([], [], time, **more)
        for effect in effects:
            if isinstance(effect, PutNew | Swap):
                super().commit([b"e"], [effect], time, **more)
        return Commit(done.first, self.disk.version)


class NeverLooksAgain(FakeStore):
    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        return super().commit(entries, effects, time, accept_clock=accept_clock)


class AlwaysStale(FakeStore):
    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        return super().commit(entries, effects, time, accept_clock=accept_clock, since=dict.fromkeys(since, -1))


class AcceptsAnyClock(FakeStore):
    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        return super().commit(entries, effects, max(time, self.disk.head.time), accept_clock=False, since=since)


class TurnsTheClockBack(FakeStore):
    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        back = accept_clock or time >= self.disk.head.time - 30_000
        return super().commit(entries, effects, time, accept_clock=back, since=since)


class ArchivesHashesToo(FakeStore):
    def archive(self, stop: int) -> None:
        super().archive(stop)
        self.disk.entries[:stop] = [(b"", None)] * stop


class ArchivesNothing(FakeStore):
    def archive(self, stop: int) -> None:
        self._writable()


class StopsTooLate(FakeStore):
    def entries(self, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        return super().entries(start, stop + 1)


class TakesAnyKey(FakeStore):
    def authenticate(self, mac: HeadMac) -> None:
        self._mac = mac


class WritesWithoutKeys(FakeStore):
    def _writable(self) -> HeadMac:
        return self._mac or StoreContract.mac


class NeverCloses(FakeStore):
    def close(self) -> None:
        pass


class ForgetsTheHead(FakeStore):
    def head(self) -> Head:
        return replace(super().head(), peaks=b"")


# Stores that know what they last looked at, as one that is far away does.


class Following(FakeStore):
    """Keeps its promises: it looks when it is asked for a version, and after a write of its own."""

    def __init__(self, disk: FakeDisk, faults: Faults) -> None:
        super().__init__(disk, faults)
        self.seen = disk.copied()

    def look(self) -> None:
        self.seen = self.disk.copied()

    def wrote(self) -> None:
        self.look()

    @contextmanager
    def _call(self, method: str) -> Iterator[FakeDisk]:
        with super()._call(method) as disk:
            yield self.seen if method in {"get", "list", "changes"} else disk

    def version(self, scope: str = "") -> Version:
        latest = super().version(scope)
        self.look()
        return latest

    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        done = super().commit(entries, effects, time, **more)
        self.wrote()
        return done


class NeverLooks(Following):
    def look(self) -> None:
        pass


class LooksOnceOnly(Following):
    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return [self.disk.version for _ in scopes]


class ForgetsAChange(Following):
    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        return super().changes(after, limit, scope)[:-1]


class SkipsWhatItOvertook(Following):
    """Counts its own changes right behind what it last saw, whatever came between."""

    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        seen = self.seen.version
        done = super().commit(entries, effects, time, **more)
        return Commit(done.first, seen + len(effects))


class ReadsOwnWritesLater(Following):
    def wrote(self) -> None:
        pass


class LosesOwnWritesInALook(Following):
    """What it looked at is older than what it wrote meanwhile, and it forgets that."""

    def look(self) -> None:
        older = getattr(self, "_older", self.disk.copied())
        self.seen, self._older = older, self.disk.copied()


class NumbersTurnBack(FakeStore):
    def version(self, scope: str = "") -> Version:
        return super().version(scope) % 2


class TooFewVersions(FakeStore):
    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        return super().versions(sorted(set(scopes)))


class ScopeOfEachName(FakeStore):
    def scope(self, name: str) -> str:
        return name


class SaysItIsNotWhole(FakeStore):
    is_whole = False


class KeepsVersions(_Careless):
    """A changed object is at the version at which it was made."""

    def edit(self, disk: FakeDisk) -> None:
        self.made: dict[str, int] = getattr(self, "made", {})
        for name, (version, body) in disk.objects.items():
            disk.objects[name] = self.made.setdefault(name, version), body


BROKEN: list[tuple[type[FakeStore], Callable[[StoreContract], None]]] = [
    (HidesTombstones, StoreContract.test_deleted_name_stays_taken_for_ever),
    (ListsNoTombstones, StoreContract.test_list_is_in_name_order_and_holds_tombstones),
    (ListsBackwards, StoreContract.test_list_is_in_name_order_and_holds_tombstones),
    (ListsAnyCase, StoreContract.test_prefix_means_its_own_letters_and_no_others),
    (ListsFromAfter, StoreContract.test_after_names_where_a_list_goes_on),
    (ListsWithoutLimit, StoreContract.test_pages_of_any_size_give_every_object_once),
    (WritesAnythingOutsideTheLog, StoreContract.test_nothing_but_derived_data_is_written_outside_the_log),
    (DerivedDataWithoutConditions, StoreContract.test_derived_data_can_depend_on_another_object),
    (NamesWithBodies, StoreContract.test_names_are_a_list_without_bodies),
    (ChangesWithBodies, StoreContract.test_changes_come_once_per_object_and_with_tombstones),
    (ChangesWithoutTombstones, StoreContract.test_changes_come_once_per_object_and_with_tombstones),
    (ChangesInNameOrder, StoreContract.test_changes_come_in_commit_order_at_their_versions),
    (ReusesDeletedNames, StoreContract.test_deleted_name_stays_taken_for_ever),
    (ReusesVersions, StoreContract.test_versions_of_purged_objects_are_not_given_out_again),
    (LogsNothing, StoreContract.test_head_is_the_tree_over_all_entries),
    (SignsNothing, StoreContract.test_head_is_the_tree_over_all_entries),
    (AppliesUntilOneIsLost, StoreContract.test_condition_known_to_be_broken_writes_nothing),
    (NeverLooksAgain, StoreContract.test_commit_as_of_what_another_has_changed_since_is_stale),
    (AlwaysStale, StoreContract.test_commit_as_of_what_is_still_so_is_made),
    (AcceptsAnyClock, StoreContract.test_clock_far_behind_is_refused),
    (AcceptsAnyClock, StoreContract.test_accepted_clock_is_the_latest),
    (TurnsTheClockBack, StoreContract.test_clock_within_the_leeway_does_not_turn_the_log_back),
    (ArchivesHashesToo, StoreContract.test_archived_entries_leave_their_hashes),
    (ArchivesNothing, StoreContract.test_archived_entries_leave_their_hashes),
    (StopsTooLate, StoreContract.test_entries_come_from_start_up_to_stop),
    (TakesAnyKey, StoreContract.test_other_keys_are_refused_and_open_nothing),
    (WritesWithoutKeys, StoreContract.test_without_keys_nothing_can_be_written),
    (NeverCloses, StoreContract.test_closed_store_answers_nothing),
    (ForgetsTheHead, StoreContract.test_head_is_the_tree_over_all_entries),
    (NeverLooks, StoreContract.test_two_open_stores_see_each_others_commits_at_once),
    (LooksOnceOnly, StoreContract.test_what_another_process_changed_or_deleted_is_seen_at_the_next_look),
    (ForgetsAChange, StoreContract.test_commit_in_several_scopes_shows_in_each),
    (SkipsWhatItOvertook, StoreContract.test_change_that_an_own_commit_overtook_is_found_all_the_same),
    (ReadsOwnWritesLater, StoreContract.test_own_writes_are_read_at_once_without_a_look),
    (LosesOwnWritesInALook, StoreContract.test_own_writes_outlast_the_looks_of_other_threads),
    (NumbersTurnBack, StoreContract.test_numbers_of_a_scope_grow_with_every_change),
    (NumbersTurnBack, StoreContract.test_commit_in_one_scope_ends_at_its_latest_number),
    (TooFewVersions, StoreContract.test_versions_are_the_version_of_each_scope_in_turn),
    (ScopeOfEachName, StoreContract.test_one_actor_is_followed_in_one_scope),
    (SaysItIsNotWhole, StoreContract.test_store_says_what_it_promises),
    (KeepsVersions, StoreContract.test_changed_object_has_another_version),
    (AppliesUntilOneIsLost, StoreContract.test_commit_lost_to_another_process_writes_nothing),
]


class BrokenStores(FakeStores):
    def __init__(self, kind: type[FakeStore]) -> None:
        super().__init__()
        self._kind = kind

    def open(self, location: str) -> FakeStore:
        super().open(location)
        return self._kind(self.disks[location], self.faults)


@pytest.mark.requirement("store-contract")
@pytest.mark.parametrize(("kind", "promise"), BROKEN, ids=lambda one: one.__name__)
def test_broken_promise_is_noticed(kind: type[FakeStore], promise: Callable[[StoreContract], None]) -> None:
    def run(store: type[FakeStore]) -> None:
        stores = BrokenStores(store)

        class Contract(StoreContract):
            def backend(self) -> Backend:
                return stores

            def location(self) -> str:
                return "here"

        promise(Contract())

    run(Following if issubclass(kind, Following) else FakeStore)
    with pytest.raises(Exception):  # noqa: B017 - a wrong answer, or what comes of it
        run(kind)


# What the suite itself asks for.


class Parted(StoreContract):
    """The suite of a store that promises as little as it may."""

    is_whole = False
    one_log = False
    archives = False
    copies = False


class Whole(StoreContract):
    """The suite of a store that promises everything."""


@pytest.mark.requirement("store-contract")
def test_suite_has_the_tests_that_its_properties_call_for_and_no_others() -> None:
    asked = {name: vars(getattr(StoreContract, name)).get("only", {}) for name in StoreContract.asked()}
    for suite in (Whole, Parted):
        wanted = {name for name, want in asked.items() if all(getattr(suite, one) is want[one] for one in want)}
        assert set(suite.asked()) == wanted
    assert len(set(Whole.asked()) & set(Parted.asked())) > 40
    assert set(Whole.asked()) | set(Parted.asked()) == set(asked)
    for suite, other in ((Whole, Parted), (Parted, Whole)):
        assert len(set(suite.asked()) - set(other.asked())) >= 5


@pytest.mark.requirement("store-contract")
def test_test_that_a_property_rules_out_is_not_collected_and_not_skipped() -> None:
    class Copies(StoreContract):
        copies = False

        @only(copies=False)
        def test_own(self) -> None:
            pass

    assert "test_own" in Copies.asked()
    assert Copies.test_copy_says_how_far_it_is is None


class NamesUsed(FakeStore):
    """Remembers every name that was ever written."""

    used: ClassVar[set[str]] = set()

    def commit(self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, **more: Any) -> Commit:
        done = super().commit(entries, effects, time, **more)
        self.used.update(self.disk.objects)
        return done


@pytest.mark.requirement("store-contract", "s3-list-order")
def test_no_test_depends_on_the_order_of_a_name_beside_that_name_and_punctuation() -> None:
    used: set[str] = set()
    for name in Whole.asked():
        stores = BrokenStores(NamesUsed)

        class Contract(StoreContract):
            def backend(self, stores: BrokenStores = stores) -> Backend:
                return stores

            def location(self) -> str:
                return "here"

        getattr(Contract(), name)()
        used |= {one for disk in stores.disks.values() for one in disk.objects} | NamesUsed.used
    assert {one.split("/")[0] for one in used} == {"actors", "vault"}
    assert len(used) > 50
    assert unordered(used) == []
    assert unordered([*used, f"{min(used).rpartition('/')[0]}-old/x"]) != []
