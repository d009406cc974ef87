"""The contract, on every store there is; and stores that break one promise each, to show that it notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from strongroom.store import CLOCK_LEEWAY, Backend, Commit, Effect, Expect, Head, HeadMac, Object, PutNew, Swap, Version
from strongroom.store.conformance import StoreContract
from strongroom.store.fake import Disk, FakeStore, FakeStores
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
    def put_if_absent(self, name: str, body: bytes, given: Expect | None = None) -> Version:
        with self._call("put_if_absent") as disk:
            self._writable()
            disk.version += 1
            disk.objects.setdefault(name, (disk.version, body))
            return disk.version


class DerivedDataWithoutConditions(FakeStore):
    def put_if_absent(self, name: str, body: bytes, given: Expect | None = None) -> Version:
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

    def edit(self, disk: Disk) -> None:
        raise NotImplementedError

    def commit(
        self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, *, accept_clock: bool = False
    ) -> Commit:
        try:
            return super().commit(entries, effects, time, accept_clock=accept_clock)
        finally:
            if not self._closed:
                self.edit(self.disk)


class ReusesDeletedNames(_Careless):
    def edit(self, disk: Disk) -> None:
        for name in [name for name, (_, body) in disk.objects.items() if body is None]:
            del disk.objects[name]


class ReusesVersions(_Careless):
    def edit(self, disk: Disk) -> None:
        disk.version = len(disk.objects)


class LogsNothing(_Careless):
    def edit(self, disk: Disk) -> None:
        disk.entries.clear()


class SignsNothing(_Careless):
    def edit(self, disk: Disk) -> None:
        disk.head = replace(disk.head, mac=bytes(32))


class AppliesUntilOneIsLost(FakeStore):
    def commit(
        self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, *, accept_clock: bool = False
    ) -> Commit:
        done = super().commit([], [], time, accept_clock=accept_clock)
        for effect in effects:
            if isinstance(effect, PutNew | Swap):
                super().commit([b"e"], [effect], time, accept_clock=accept_clock)
        return Commit(done.first, self.disk.version)


class AcceptsAnyClock(FakeStore):
    def commit(
        self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, *, accept_clock: bool = False
    ) -> Commit:
        return super().commit(entries, effects, max(time, self.disk.head.time), accept_clock=False)


class TurnsTheClockBack(FakeStore):
    def commit(
        self, entries: Sequence[bytes], effects: Sequence[Effect], time: int, *, accept_clock: bool = False
    ) -> Commit:
        back = accept_clock or time >= self.disk.head.time - 30_000
        return super().commit(entries, effects, time, accept_clock=back)


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


BROKEN: list[tuple[type[FakeStore], Callable[[StoreContract], None]]] = [
    (HidesTombstones, StoreContract.test_a_deleted_name_stays_taken_for_ever),
    (ListsNoTombstones, StoreContract.test_a_list_is_in_name_order_and_holds_tombstones),
    (ListsBackwards, StoreContract.test_a_list_is_in_name_order_and_holds_tombstones),
    (ListsAnyCase, StoreContract.test_a_prefix_means_its_own_letters_and_no_others),
    (ListsFromAfter, StoreContract.test_after_names_where_a_list_goes_on),
    (ListsWithoutLimit, StoreContract.test_pages_of_any_size_give_every_object_once),
    (WritesAnythingOutsideTheLog, StoreContract.test_nothing_but_derived_data_is_written_outside_the_log),
    (DerivedDataWithoutConditions, StoreContract.test_derived_data_can_depend_on_another_object),
    (NamesWithBodies, StoreContract.test_names_are_a_list_without_bodies),
    (ChangesWithBodies, StoreContract.test_changes_come_in_commit_order_once_per_object_and_with_tombstones),
    (ChangesWithoutTombstones, StoreContract.test_changes_come_in_commit_order_once_per_object_and_with_tombstones),
    (ChangesInNameOrder, StoreContract.test_changes_come_in_commit_order_once_per_object_and_with_tombstones),
    (ReusesDeletedNames, StoreContract.test_a_deleted_name_stays_taken_for_ever),
    (ReusesVersions, StoreContract.test_versions_of_purged_objects_are_not_given_out_again),
    (LogsNothing, StoreContract.test_the_head_is_the_tree_over_all_entries),
    (SignsNothing, StoreContract.test_the_head_is_the_tree_over_all_entries),
    (AppliesUntilOneIsLost, StoreContract.test_a_lost_commit_writes_nothing_whatever_was_lost),
    (AcceptsAnyClock, StoreContract.test_a_clock_far_behind_is_refused),
    (AcceptsAnyClock, StoreContract.test_an_accepted_clock_is_the_latest),
    (TurnsTheClockBack, StoreContract.test_a_clock_within_the_leeway_does_not_turn_the_log_back),
    (ArchivesHashesToo, StoreContract.test_archived_entries_leave_their_hashes),
    (ArchivesNothing, StoreContract.test_archived_entries_leave_their_hashes),
    (StopsTooLate, StoreContract.test_entries_come_from_start_up_to_stop),
    (TakesAnyKey, StoreContract.test_other_keys_are_refused_and_open_nothing),
    (WritesWithoutKeys, StoreContract.test_without_keys_nothing_can_be_written),
    (NeverCloses, StoreContract.test_a_closed_store_answers_nothing),
    (ForgetsTheHead, StoreContract.test_the_head_is_the_tree_over_all_entries),
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
def test_a_broken_promise_is_noticed(kind: type[FakeStore], promise: Callable[[StoreContract], None]) -> None:
    def run(store: type[FakeStore]) -> None:
        stores = BrokenStores(store)

        class Contract(StoreContract):
            def backend(self) -> Backend:
                return stores

            def location(self) -> str:
                return "here"

        promise(Contract())

    run(FakeStore)
    with pytest.raises(Exception):  # noqa: B017 - a wrong answer, or what comes of it
        run(kind)
