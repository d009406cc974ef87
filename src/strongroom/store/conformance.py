"""The store's contract as tests: one suite, which every backend passes (docs/stores.md says how to run it).

Inherit `StoreContract`, give it a backend and a place, and let pytest collect the class. Nothing here imports pytest,
so the package does not need it.

The suite asks for no more than the contract says. In particular it never lists two names of which one is the other
and then punctuation (`a` and `a-b`): stores that keep directories order those by directory and not by byte, and the
vault does not use such names side by side.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from strongroom import tlog
from strongroom.errors import (
    AuditUnavailable,
    ClockBehind,
    StoreUnavailable,
    Tampered,
    VaultExists,
    VaultMissing,
)
from strongroom.store import (
    Backend,
    Delete,
    Effect,
    Expect,
    Head,
    Lost,
    Object,
    Purge,
    PutNew,
    Store,
    Swap,
)

NOW = 1_779_440_000_000
THREADS = 8


class SuiteMac:
    """Authenticates heads with a fixed key, as a vault does with its own."""

    def __init__(self, key: bytes = b"the suite's key") -> None:
        self._key = key

    def sign(self, size: int, peaks: bytes, time: int) -> bytes:
        return hmac.digest(self._key, b"%d %d " % (size, time) + peaks, "sha256")

    def check(self, head: Head) -> None:
        if not hmac.compare_digest(self.sign(head.size, head.peaks, head.time), head.mac):
            raise Tampered("the head was not written with this key")

    def certify(self, worker: str, public: bytes) -> bytes:
        return hmac.digest(self._key, worker.encode() + public, "sha256")


@contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """Fail unless the block raises `kind`."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


@contextmanager
def lost(name: str) -> Iterator[None]:
    """Fail unless the block raises Lost for this object."""
    try:
        yield
    except Lost as error:
        if error.name == name:
            return
    raise AssertionError(f"Lost was not raised for {name}")


@contextmanager
def unchanged(store: Store) -> Iterator[None]:
    """Fail if the block leaves any trace in the store."""
    before = everything(store)
    yield
    assert everything(store) == before


def everything(store: Store) -> tuple[list[Object], int, Head, list[tuple[int, bytes, bytes | None]]]:
    """All that a store can be asked for."""
    head = store.head()
    return pages(store, ""), store.version(), head, list(store.entries(0, head.size + 1))


def pages(store: Store, prefix: str, limit: int = 1000) -> list[Object]:
    """Every object below `prefix`, page by page."""
    found: list[Object] = []
    after = ""
    while page := store.list(prefix, after, limit):
        assert len(page) <= limit
        found += page
        after = page[-1].name
    return found


def version_of(store: Store, name: str) -> int:
    found = store.get(name)
    assert found is not None
    return found.version


def body_of(store: Store, name: str) -> bytes | None:
    found = store.get(name)
    return None if found is None else found.body


def in_threads(work: Sequence[Callable[[], None]]) -> None:
    """Run all at once; raise what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(work))

    def run(one: Callable[[], None]) -> None:
        try:
            start.wait()
            one()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class StoreContract:
    """What every store does. A subclass says where stores come from."""

    clock_leeway = 30_000
    """How far, in ms, the backend lets a commit's time lie before the log's latest."""

    mac = SuiteMac()

    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError

    def location(self) -> str:
        """A place that was empty when the test began; the same one at every call of that test."""
        raise NotImplementedError

    # What the tests below use.

    def new(self, entries: Sequence[bytes] = (), effects: Sequence[Effect] = (), time: int = NOW) -> Store:
        """A store just made, with the keys open."""
        return self._kept(self.backend().create(self.location(), self.mac, entries, effects, time))

    def another(self) -> Store:
        """The same store opened again, as another process would, with the keys open."""
        store = self.unauthenticated()
        store.authenticate(self.mac)
        return store

    def unauthenticated(self) -> Store:
        return self._kept(self.backend().open(self.location()))

    def _kept(self, store: Store) -> Store:
        self.__dict__.setdefault("_stores", []).append(store)
        return store

    def teardown_method(self) -> None:
        for store in self.__dict__.pop("_stores", []):
            store.close()

    # Making and opening.

    def test_a_new_store_holds_exactly_its_first_commit(self) -> None:
        store = self.new([b"made"], [PutNew("vault/format", b"1")])
        assert pages(store, "") == [store.get("vault/format")]
        assert body_of(store, "vault/format") == b"1"
        assert list(store.entries(0, 9)) == [(0, tlog.leaf_hash(b"made"), b"made")]

    def test_a_place_with_a_store_is_not_made_into_another(self) -> None:
        store = self.new([b"first"], [PutNew("vault/format", b"1")])
        with unchanged(store), refused(VaultExists):
            self.new([b"second"], [PutNew("vault/format", b"2")])

    def test_a_place_without_a_store_is_missing(self) -> None:
        with refused(VaultMissing):
            self.unauthenticated()

    def test_a_creation_that_fails_leaves_no_store(self) -> None:
        with refused(Lost):
            self.new([b"made"], [PutNew("vault/format", b"1"), Expect("vault/other", 5)])
        with refused(VaultMissing):
            self.unauthenticated()
        assert self.new().head().size == 0

    def test_opening_again_finds_everything(self) -> None:
        store = self.new()
        store.commit([b"1"], [PutNew("things/a", b"a"), PutNew("things/b", b"b")], NOW)
        store.commit([b"2"], [Delete("things/a", version_of(store, "things/a"))], NOW + 1)
        store.put_if_absent("things/derived/x", b"x")
        before = everything(store)
        store.close()
        assert everything(self.another()) == before

    def test_two_open_stores_see_each_others_commits_at_once(self) -> None:
        one, two = self.new(), self.another()
        for number, (writer, reader) in enumerate([(one, two), (two, one)] * 3):
            done = writer.commit([b"e"], [PutNew(f"things/{number}", b"x")], NOW)
            assert reader.version() == done.version
            assert [change.name for change in reader.changes(done.version - 1)] == [f"things/{number}"]
            assert reader.head() == writer.head()

    # The keys to the head.

    def test_without_keys_everything_can_be_read(self) -> None:
        store = self.new([b"made"], [PutNew("things/a", b"a")])
        assert everything(self.unauthenticated()) == everything(store)

    def test_without_keys_nothing_can_be_written(self) -> None:
        self.new([b"made"], [PutNew("things/a", b"a"), PutNew("things/derived/a", b"a")])
        store = self.unauthenticated()
        version = version_of(store, "things/derived/a")
        attempts: list[Callable[[], object]] = [
            lambda: store.commit([b"e"], [], NOW),
            lambda: store.commit([b"e"], [PutNew("things/b", b"b")], NOW),
            lambda: store.put_if_absent("things/derived/b", b"b"),
            lambda: store.compare_and_swap("things/derived/a", b"b", version),
            lambda: store.delete("things/derived/a", version),
            lambda: store.archive(1),
        ]
        for attempt in attempts:
            with unchanged(store), refused(AuditUnavailable):
                attempt()

    def test_other_keys_are_refused_and_open_nothing(self) -> None:
        self.new([b"made"])
        store = self.unauthenticated()
        with refused(Tampered):
            store.authenticate(SuiteMac(b"another key"))
        with unchanged(store), refused(AuditUnavailable):
            store.commit([b"e"], [], NOW)

    # Objects.

    def test_a_name_never_used_is_none(self) -> None:
        assert self.new([b"e"], [PutNew("things/ab", b"x")]).get("things/a") is None

    def test_an_object_comes_back_byte_for_byte(self) -> None:
        bodies = [b"", b"\0", bytes(range(256)), b"\xff" * (1 << 20)]
        effects = [PutNew(f"things/{number}", body) for number, body in enumerate(bodies)]
        store = self.new([b"e"], effects)
        assert [body_of(store, effect.name) for effect in effects] == bodies
        assert [thing.body for thing in store.list("things/")] == bodies

    def test_an_empty_body_is_no_tombstone(self) -> None:
        store = self.new([b"e"], [PutNew("things/empty", b"")])
        assert body_of(store, "things/empty") == b""
        assert [change.body for change in store.changes(0)] == [b""]
        store.commit([b"e"], [Swap("things/empty", b"", version_of(store, "things/empty"))], NOW)

    def test_a_list_is_in_name_order_and_holds_tombstones(self) -> None:
        names = ["things/c", "things/a", "things/d", "things/b"]
        store = self.new([b"e"], [PutNew(name, name.encode()) for name in names])
        store.commit([b"e"], [Delete("things/b", version_of(store, "things/b"))], NOW)
        listed = store.list("things/")
        assert [thing.name for thing in listed] == sorted(names)
        assert [thing.body for thing in listed] == [b"things/a", None, b"things/c", b"things/d"]
        assert [store.get(thing.name) for thing in listed] == list(listed)

    def test_names_are_a_list_without_bodies(self) -> None:
        names = ["things/c", "things/a", "things/b", "other/a"]
        store = self.new([b"e"], [PutNew(name, name.encode()) for name in names])
        store.commit([b"e"], [Delete("things/b", version_of(store, "things/b"))], NOW)
        for after, limit in (("", 1000), ("things/a", 1000), ("", 2), ("things/c", 1)):
            listed = store.list("things/", after, limit)
            bare = [Object(thing.name, thing.version, None if thing.body is None else b"") for thing in listed]
            assert list(store.names("things/", after, limit)) == bare

    def test_a_prefix_means_its_own_letters_and_no_others(self) -> None:
        names = ["m/ab1", "m/aB1", "m/a_1", "n/ab1"]
        store = self.new([b"e"], [PutNew(name, b"") for name in names])
        asked = {
            "m/ab": ["m/ab1"],
            "m/aB": ["m/aB1"],
            "m/a_": ["m/a_1"],
            "m/ab1": ["m/ab1"],
            "m/ab12": [],
            "m/a1": [],
            "M/": [],
            "b1": [],
            "n": ["n/ab1"],
        }
        for prefix, wanted in asked.items():
            assert [thing.name for thing in store.list(prefix)] == wanted, prefix
        assert {thing.name for thing in store.list("m/")} == set(names) - {"n/ab1"}
        assert {thing.name for thing in store.list("")} == set(names)

    def test_after_names_where_a_list_goes_on(self) -> None:
        names = [f"things/{number:02}" for number in range(1, 10)]
        store = self.new([b"e"], [PutNew(name, b"") for name in [*names, "zebra/1", "alpha/1"]])
        asked = {
            "": names,
            "alpha/1": names,
            "things/": names,
            "things/00": names,
            "things/01": names[1:],
            "things/035": names[3:],
            "things/09": [],
            "zebra/1": [],
        }
        for after, wanted in asked.items():
            assert [thing.name for thing in store.list("things/", after)] == wanted, after

    def test_pages_of_any_size_give_every_object_once(self) -> None:
        names = [f"things/{number:02}" for number in range(12)]
        store = self.new([b"e"], [PutNew(name, b"x") for name in names])
        for limit in (1, 5, 11, 12, 13, 1000):
            assert [thing.name for thing in pages(store, "things/", limit)] == names

    # Derived data, outside the log.

    def test_derived_data_is_written_without_a_log_entry(self) -> None:
        store = self.new([b"made"])
        head = store.head()
        first = store.put_if_absent("a/derived/x", b"1")
        assert store.get("a/derived/x") == Object("a/derived/x", first, b"1")
        second = store.compare_and_swap("a/derived/x", b"2", first)
        assert store.get("a/derived/x") == Object("a/derived/x", second, b"2")
        third = store.delete("a/derived/x", second)
        assert store.get("a/derived/x") == Object("a/derived/x", third, None)
        assert first < second < third == store.version()
        assert [change.name for change in store.changes(second)] == ["a/derived/x"]
        assert store.head() == head

    def test_derived_data_is_written_conditionally(self) -> None:
        store = self.new()
        name = "a/derived/x"
        version = store.put_if_absent(name, b"1")
        gone = store.put_if_absent("a/derived/y", b"1")
        store.delete("a/derived/y", gone)
        attempts: list[tuple[str, Callable[[], object]]] = [
            (name, lambda: store.put_if_absent(name, b"2")),
            (name, lambda: store.compare_and_swap(name, b"2", version + 1)),
            (name, lambda: store.delete(name, version + 1)),
            ("a/derived/z", lambda: store.compare_and_swap("a/derived/z", b"2", 0)),
            ("a/derived/z", lambda: store.delete("a/derived/z", 0)),
            ("a/derived/y", lambda: store.put_if_absent("a/derived/y", b"2")),
            ("a/derived/y", lambda: store.compare_and_swap("a/derived/y", b"2", gone + 1)),
        ]
        for touched, attempt in attempts:
            with unchanged(store), lost(touched):
                attempt()

    def test_derived_data_can_depend_on_another_object(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a")])
        version = version_of(store, "things/a")
        for given in (Expect("things/a", version + 1), Expect("things/a", 0), Expect("things/b", 1)):
            with unchanged(store), lost(given.name):
                store.put_if_absent("a/derived/x", b"1", given)
        store.put_if_absent("a/derived/x", b"1", Expect("things/a", version))
        store.put_if_absent("a/derived/y", b"1", Expect("things/b", 0))
        assert body_of(store, "a/derived/x") == body_of(store, "a/derived/y") == b"1"

    def test_nothing_but_derived_data_is_written_outside_the_log(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a")])
        version = version_of(store, "things/a")
        attempts: list[Callable[[], object]] = [
            lambda: store.put_if_absent("things/b", b"b"),
            lambda: store.put_if_absent("derived", b"b"),
            lambda: store.put_if_absent("things/derived", b"b"),
            lambda: store.compare_and_swap("things/a", b"b", version),
            lambda: store.delete("things/a", version),
        ]
        for attempt in attempts:
            with unchanged(store), refused(ValueError):
                attempt()

    # Tombstones and purges.

    def test_a_deleted_name_stays_taken_for_ever(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a")])
        store.commit([b"e"], [Delete("things/a", version_of(store, "things/a"))], NOW)
        tombstone = version_of(store, "things/a")
        for one in (store, self.another()):
            assert body_of(one, "things/a") is None
            assert one.get("things/a") is not None
            for effect in (
                PutNew("things/a", b"again"),
                Swap("things/a", b"again", tombstone),
                Delete("things/a", tombstone),
                Expect("things/a", 0),
            ):
                with unchanged(one), lost("things/a"):
                    one.commit([b"e"], [effect], NOW)

    def test_a_purge_removes_names_and_tombstones_below_its_prefix_only(self) -> None:
        inside = ["a/1/keys", "a/1/lines/x", "a/1/lines/y"]
        outside = ["a/12/keys", "a/2/keys", "b/a/1/keys"]
        store = self.new([b"e"], [PutNew(name, b"x") for name in [*inside, *outside]])
        store.commit([b"e"], [Delete("a/1/lines/y", version_of(store, "a/1/lines/y"))], NOW)
        store.commit([b"e"], [PutNew("standing/1", b""), Purge("a/1/")], NOW)
        assert [store.get(name) for name in inside] == [None, None, None]
        assert [body_of(store, name) for name in outside] == [b"x", b"x", b"x"]
        assert store.list("a/1/") == []

    def test_a_purged_name_can_be_used_again_at_a_newer_version(self) -> None:
        store = self.new([b"e"], [PutNew("a/1/keys", b"old")])
        version = version_of(store, "a/1/keys")
        store.commit([b"e"], [PutNew("standing/1", b""), Purge("a/1/")], NOW)
        store.commit([b"e"], [Expect("a/1/keys", 0), PutNew("standing/2", b"")], NOW)
        store.commit([b"e"], [PutNew("a/1/keys", b"new")], NOW)
        assert body_of(store, "a/1/keys") == b"new"
        assert version_of(store, "a/1/keys") > version

    def test_a_purge_shows_by_what_announces_it(self) -> None:
        store = self.new([b"e"], [PutNew("a/1/keys", b""), PutNew("a/1/lines/x", b"")])
        seen = store.version()
        done = store.commit([b"e"], [PutNew("standing/1", b""), Purge("a/1/")], NOW)
        assert store.changes(seen) == [Object("standing/1", done.version, b"")]
        assert store.version() == done.version > seen

    def test_a_purge_that_nothing_announces_is_refused(self) -> None:
        store = self.new([b"e"], [PutNew("a/1/keys", b"x"), PutNew("b/1", b"")])
        seen = version_of(store, "b/1")
        alone: list[list[Effect]] = [
            [Purge("a/1/")],
            [Purge("a/1/"), Purge("a/2/")],
            [Expect("b/1", seen), Purge("a/1/")],
        ]
        for effects in alone:
            with unchanged(store), refused(ValueError):
                store.commit([b"e"], effects, NOW)

    def test_a_purge_of_what_the_same_commit_changes_is_refused(self) -> None:
        store = self.new([b"e"], [PutNew("a/1/keys", b"x")])
        version = version_of(store, "a/1/keys")
        for effect in (PutNew("a/1/new", b""), Swap("a/1/keys", b"", version), Delete("a/1/keys", version)):
            for effects in ([effect, Purge("a/1/")], [Purge("a/1/"), effect]):
                with unchanged(store), refused(ValueError):
                    store.commit([b"e"], [PutNew("b/1", b""), *effects], NOW)

    def test_versions_of_purged_objects_are_not_given_out_again(self) -> None:
        store = self.new([b"e"], [PutNew("b/1", b"")])
        store.commit([b"e"], [PutNew("b/2", b""), PutNew("a/1/x", b""), PutNew("a/1/y", b"")], NOW)
        highest = store.version()
        store.commit([b"e"], [Swap("b/1", b"", version_of(store, "b/1")), Purge("a/1/")], NOW)
        store.commit([b"e"], [PutNew("c/1/x", b"")], NOW)
        before = store.version()
        store.commit([b"e"], [Delete("b/2", version_of(store, "b/2")), Purge("c/1/")], NOW)
        store.close()
        again = self.another()
        assert again.version() > before > highest
        again.commit([b"e"], [PutNew("b/3", b"")], NOW)
        assert version_of(again, "b/3") > before

    # Versions and changes.

    def test_versions_grow_with_every_change(self) -> None:
        store = self.new()
        seen = [store.version()]
        for number in range(5):
            done = store.commit([b"e"], [PutNew(f"things/{number}", b""), PutNew(f"others/{number}", b"")], NOW)
            assert version_of(store, f"things/{number}") != version_of(store, f"others/{number}")
            assert done.version == store.version()
            assert seen[-1] < min(version_of(store, f"things/{number}"), version_of(store, f"others/{number}"))
            seen.append(done.version)
        seen.append(store.put_if_absent("a/derived/x", b""))
        done = store.commit([b"e"], [Swap("things/0", b"2", version_of(store, "things/0"))], NOW)
        seen.append(version_of(store, "things/0"))
        done = store.commit([b"e"], [Delete("things/0", done.version)], NOW)
        seen.append(version_of(store, "things/0"))
        assert seen == sorted(set(seen))
        assert done.version == store.version() == seen[-1]

    def test_changes_come_in_commit_order_once_per_object_and_with_tombstones(self) -> None:
        store = self.new()
        start = store.version()
        store.commit([b"e"], [PutNew("things/c", b"1"), PutNew("things/a", b"1")], NOW)
        store.commit([b"e"], [PutNew("things/b", b"1")], NOW)
        store.commit([b"e"], [Swap("things/c", b"2", version_of(store, "things/c"))], NOW)
        store.commit([b"e"], [Delete("things/a", version_of(store, "things/a"))], NOW)
        changes = store.changes(start)
        assert [(change.name, change.body) for change in changes] == [
            ("things/b", b""),
            ("things/c", b""),
            ("things/a", None),
        ]
        assert [change.version for change in changes] == [version_of(store, change.name) for change in changes]
        assert list(store.changes(changes[0].version)) == list(changes[1:])
        assert list(store.changes(store.version())) == []

    def test_changes_come_in_pages(self) -> None:
        store = self.new([b"e"], [PutNew(f"things/{number}", b"x") for number in range(9)])
        found: list[str] = []
        after = 0
        while page := store.changes(after, 4):
            assert len(page) <= 4
            found += [change.name for change in page]
            after = page[-1].version
        assert found == [f"things/{number}" for number in range(9)]

    def test_what_changes_nothing_is_no_change(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"")])
        before = store.version()
        done = store.commit([b"e"], [Expect("things/a", before)], NOW)
        assert store.commit([b"e"], [], NOW).version == done.version == before == store.version()
        assert list(store.changes(before)) == []

    # Commits.

    def test_a_lost_commit_writes_nothing_whatever_was_lost(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a"), PutNew("things/b", b"b"), PutNew("p/1/x", b"x")])
        store.commit([b"e"], [Delete("things/b", version_of(store, "things/b"))], NOW)
        live, dead = version_of(store, "things/a"), version_of(store, "things/b")
        losing: list[PutNew | Swap | Delete | Expect] = [
            PutNew("things/a", b"2"),
            PutNew("things/b", b"2"),
            Swap("things/a", b"2", live + 1),
            Swap("things/a", b"2", 0),
            Swap("things/b", b"2", dead),
            Swap("things/c", b"2", 0),
            Swap("things/c", b"2", live),
            Delete("things/a", live - 1),
            Delete("things/b", dead),
            Delete("things/c", 0),
            Expect("things/a", 0),
            Expect("things/a", live + 1),
            Expect("things/b", 0),
            Expect("things/c", live),
        ]
        for bad in losing:
            good: list[Effect] = [PutNew("things/new", b"x"), Purge("p/1/")]
            for effects in ([*good, bad], [bad, *good]):
                with unchanged(store), lost(bad.name):
                    store.commit([b"never"], effects, NOW + 5)

    def test_expectations_that_hold_change_nothing(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a"), PutNew("things/b", b"b")])
        store.commit([b"e"], [Delete("things/b", version_of(store, "things/b"))], NOW)
        held = [Expect(name, version_of(store, name)) for name in ("things/a", "things/b")]
        before = pages(store, "things/")
        store.commit([b"e"], [*held, Expect("things/c", 0), PutNew("others/x", b"")], NOW)
        assert pages(store, "things/") == before
        assert store.get("others/x") is not None

    def test_conditions_are_checked_before_any_effect(self) -> None:
        for number, order in enumerate([(0, 1, 2), (2, 1, 0), (1, 2, 0)]):
            place = f"a/{number}"
            store = self.new([b"e"], [PutNew(f"{place}/keys", b"k")]) if number == 0 else self.another()
            if number:
                store.commit([b"e"], [PutNew(f"{place}/keys", b"k")], NOW)
            pinned = Expect(f"{place}/keys", version_of(store, f"{place}/keys"))
            effects: list[Effect] = [PutNew(f"standing/{number}", b""), pinned, Purge(f"{place}/")]
            store.commit([b"e"], [effects[at] for at in order], NOW)
            assert store.get(f"{place}/keys") is None

    def test_a_commit_touches_each_name_once(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a")])
        version = version_of(store, "things/a")
        twice: list[list[Effect]] = [
            [PutNew("things/b", b""), PutNew("things/b", b"")],
            [Expect("things/a", version), Swap("things/a", b"", version)],
            [Swap("things/a", b"", version), Delete("things/a", version)],
            [PutNew("things/b", b""), Expect("things/b", 0)],
        ]
        for effects in twice:
            with unchanged(store), refused(ValueError):
                store.commit([b"e"], effects, NOW)

    # The log.

    def test_the_head_is_the_tree_over_all_entries(self) -> None:
        store = self.new()
        edge = tlog.Range()
        assert (store.head().size, store.head().peaks) == (0, b"")
        for count in (1, 1, 2, 3, 0, 7, 1):
            batch = [b"entry %d" % (edge.size + number) for number in range(count)]
            done = store.commit(batch, [], NOW)
            assert done.first == edge.size
            for entry in batch:
                edge.append(tlog.leaf_hash(entry))
            head = store.head()
            assert (head.size, head.peaks, head.time) == (edge.size, edge.packed(), NOW)
            self.mac.check(head)
        found = list(store.entries(0, edge.size))
        assert [number for number, _, _ in found] == list(range(edge.size))
        assert [entry for _, _, entry in found] == [b"entry %d" % number for number in range(edge.size)]
        assert [leaf for _, leaf, _ in found] == [tlog.leaf_hash(entry or b"") for _, _, entry in found]

    def test_entries_come_from_start_up_to_stop(self) -> None:
        store = self.new([b"%d" % number for number in range(2500)])
        assert [number for number, _, _ in store.entries(0, 2500)] == list(range(2500))
        assert [entry for _, _, entry in store.entries(1023, 1026)] == [b"1023", b"1024", b"1025"]
        assert [number for number, _, _ in store.entries(2498, 9999)] == [2498, 2499]
        for start, stop in ((0, 0), (5, 5), (5, 4), (2500, 2600)):
            assert list(store.entries(start, stop)) == []

    def test_an_entry_comes_back_byte_for_byte(self) -> None:
        entries = [b"", b"\0", bytes(range(256)), b"\xff" * 65_535]
        store = self.new(entries)
        assert [entry for _, _, entry in store.entries(0, 4)] == entries

    def test_archived_entries_leave_their_hashes(self) -> None:
        store = self.new([b"%d" % number for number in range(6)])
        head = store.head()
        store.archive(0)
        assert [entry for _, _, entry in store.entries(0, 6)] == [b"%d" % number for number in range(6)]
        for _ in range(2):
            store.archive(4)
            found = list(self.another().entries(0, 6))
            assert [entry for _, _, entry in found] == [None] * 4 + [b"4", b"5"]
            assert [leaf for _, leaf, _ in found] == [tlog.leaf_hash(b"%d" % number) for number in range(6)]
        assert store.head() == head
        assert store.commit([b"6"], [], NOW).first == 6
        assert tlog.tree_hash(leaf for _, leaf, _ in store.entries(0, 7)) == self._root(store)

    def _root(self, store: Store) -> bytes:
        head = store.head()
        return tlog.Range.of(head.size, head.peaks).root()

    # The clock.

    def test_a_clock_far_behind_is_refused(self) -> None:
        store = self.new([b"e"], [], NOW)
        with unchanged(store), refused(ClockBehind):
            store.commit([b"e"], [PutNew("things/a", b"")], NOW - self.clock_leeway - 1)

    def test_a_clock_within_the_leeway_does_not_turn_the_log_back(self) -> None:
        store = self.new([b"e"], [], NOW)
        store.commit([b"e"], [], NOW - self.clock_leeway)
        assert store.head().time == NOW
        store.commit([b"e"], [], NOW + 1)
        assert store.head().time == NOW + 1
        with refused(ClockBehind):
            store.commit([b"e"], [], NOW - self.clock_leeway)

    def test_an_accepted_clock_is_the_latest(self) -> None:
        store = self.new([b"e"], [], NOW)
        early = NOW - 10 * self.clock_leeway
        store.commit([b"e"], [], early, accept_clock=True)
        assert store.head().time == early
        self.mac.check(store.head())
        store.commit([b"e"], [], early + 1)
        assert store.head().time == early + 1

    def test_derived_data_knows_no_clock(self) -> None:
        store = self.new([b"e"], [], NOW)
        store.put_if_absent("a/derived/x", b"")
        assert store.head().time == NOW

    # Threads.

    def test_commits_of_many_threads_lose_nothing(self) -> None:
        store = self.new()
        firsts: list[int] = []

        def writer(number: int) -> None:
            for turn in range(20):
                name = f"things/{number}-{turn:02}"
                done = store.commit([name.encode(), b"second"], [PutNew(name, name.encode())], NOW)
                assert body_of(store, name) == name.encode()
                assert [entry for _, _, entry in store.entries(done.first, done.first + 2)] == [
                    name.encode(),
                    b"second",
                ]
                firsts.append(done.first)

        in_threads([partial(writer, number) for number in range(THREADS)])
        count = THREADS * 20
        assert len(pages(store, "things/")) == count
        assert sorted(firsts) == list(range(0, 2 * count, 2))
        leaves = [leaf for _, leaf, _ in store.entries(0, 2 * count)]
        assert tlog.tree_hash(leaves) == self._root(store)
        versions = [change.version for change in store.changes(0)]
        assert versions == sorted(set(versions))

    def test_of_threads_that_want_one_name_one_wins_and_each_other_is_told(self) -> None:
        store = self.new()
        outcomes: list[bool] = []

        def writer(number: int) -> None:
            for turn in range(10):
                try:
                    store.commit([b"%d" % number], [PutNew(f"things/{turn}", b"%d" % number)], NOW)
                except Lost:
                    outcomes.append(False)
                else:
                    assert body_of(store, f"things/{turn}") == b"%d" % number
                    outcomes.append(True)

        in_threads([partial(writer, number) for number in range(THREADS)])
        assert (outcomes.count(True), outcomes.count(False)) == (10, 10 * (THREADS - 1))
        assert store.head().size == 10

    def test_no_swap_of_many_threads_is_overwritten(self) -> None:
        store = self.new([b"e"], [PutNew("things/count", b"0"), PutNew("a/derived/count", b"0")])

        def add(name: str, swap: Callable[[bytes, int], object]) -> None:
            while True:
                found = store.get(name)
                assert found is not None
                try:
                    swap(b"%d" % (int(found.body or b"") + 1), found.version)
                except Lost:
                    continue
                return

        def writer() -> None:
            for _ in range(5):
                add("things/count", lambda body, at: store.commit([b"e"], [Swap("things/count", body, at)], NOW))
                add("a/derived/count", lambda body, at: store.compare_and_swap("a/derived/count", body, at))

        in_threads([writer] * THREADS)
        assert body_of(store, "things/count") == body_of(store, "a/derived/count") == b"%d" % (5 * THREADS)

    # Copying.

    def elsewhere(self) -> str:
        """Another place of the same kind, with nothing in it yet."""
        return self.location() + "-copy"

    def copied(self) -> Store:
        """A copy of the store, opened with the keys."""
        self.backend().copy(self.location(), self.elsewhere())
        copy = self._kept(self.backend().open(self.elsewhere()))
        copy.authenticate(self.mac)
        return copy

    def test_what_is_not_there_is_not_copied(self) -> None:
        with refused(VaultMissing):
            self.backend().copy(self.location(), self.elsewhere())
        with refused(VaultMissing):
            self.backend().open(self.elsewhere())

    def test_a_copy_is_not_made_over_another_store(self) -> None:
        self.new([b"e"], [PutNew("things/a", b"a")])
        copy = self.copied()
        copy.commit([b"e"], [PutNew("things/own", b"own")], NOW)
        with unchanged(copy), refused(VaultExists):
            self.backend().copy(self.location(), self.elsewhere())

    def test_a_copy_holds_everything_and_goes_its_own_way(self) -> None:
        store = self.new([b"made"], [PutNew("things/a", b"a"), PutNew("things/b", b"b")])
        store.commit([b"e"], [Delete("things/b", version_of(store, "things/b"))], NOW + 1)
        store.put_if_absent("things/derived/x", b"x")
        before = everything(store)
        copy = self.copied()
        assert everything(copy) == before
        copy.commit([b"theirs"], [PutNew("things/theirs", b"t")], NOW + 2)
        assert everything(store) == before
        with unchanged(copy):
            store.commit([b"ours"], [PutNew("things/ours", b"o")], NOW + 2)

    def test_a_copy_says_how_far_it_is(self) -> None:
        self.new([b"e"], [PutNew("things/a", b"a")])
        told: list[tuple[int, int]] = []
        self.backend().copy(self.location(), self.elsewhere(), lambda done, whole: told.append((done, whole)))
        assert told
        assert all(0 <= done <= whole for done, whole in told)
        assert told[-1][0] == told[-1][1]

    def test_a_copy_made_while_others_write_is_of_one_moment(self) -> None:
        store = self.new()
        first = threading.Event()
        done = threading.Event()

        def writer(number: int) -> None:
            for turn in range(400):
                names = [f"things/{number}-{turn}/{part}" for part in range(3)]
                store.commit([b"e"], [PutNew(name, name.encode()) for name in names], NOW)
                first.set()
                if done.is_set():
                    break

        def copier() -> None:
            first.wait()
            try:
                self.backend().copy(self.location(), self.elsewhere())
            finally:
                done.set()

        in_threads([partial(writer, 1), partial(writer, 2), copier])
        copy = self._kept(self.backend().open(self.elsewhere()))
        copy.authenticate(self.mac)
        head = copy.head()
        assert 0 < head.size <= store.head().size
        assert len(pages(copy, "")) == 3 * head.size
        assert list(copy.entries(0, head.size + 1)) == list(store.entries(0, head.size))

    # Letting go.

    def test_scrubbing_leaves_everything_that_is_not_deleted(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", hashlib.sha256(b"a").digest()), PutNew("things/b", b"b")])
        store.commit([b"e"], [Delete("things/b", version_of(store, "things/b"))], NOW)
        with unchanged(store):
            assert store.scrub() is True
        store.commit([b"e"], [PutNew("things/c", b"c")], NOW)
        assert body_of(self.another(), "things/c") == b"c"

    def test_closing_twice_is_closing_once(self) -> None:
        store = self.new()
        store.close()
        store.close()

    def test_a_closed_store_answers_nothing(self) -> None:
        store = self.new([b"e"], [PutNew("things/a", b"a")])
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get("things/a"),
            lambda: store.list("things/"),
            lambda: store.names("things/"),
            lambda: store.changes(0),
            store.version,
            store.head,
            lambda: list(store.entries(0, 1)),
            lambda: store.commit([b"e"], [], NOW),
            lambda: store.put_if_absent("a/derived/x", b""),
            lambda: store.archive(1),
        ]
        for call in calls:
            with refused(StoreUnavailable):
                call()
        assert self.another().head().size == 1
