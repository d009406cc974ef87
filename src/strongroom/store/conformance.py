"""The store's contract as tests: one suite, which every backend passes (docs/stores.md says how to run it).

Inherit `StoreContract`, give it a backend and a place, and let pytest collect the class. Nothing here imports pytest,
so the package does not need it. What only some stores promise is a property of the class (`is_whole`, `one_log`,
`archives`, `copies`): a class has the tests that its properties call for, and no others.

A backend must take the names that a vault uses, and the suite uses no others:

    vault/format                          in the first commit of every store
    vault/<...>, vault/caps/<id>          records of caps need not show in `changes`: nobody follows them
    actors/<32 hex>/keys
    actors/<32 hex>/memory/<32 hex>/      and below it lines/<ULID>, profile, derived/<...>

A purge is of an actor, of a namespace below one, or of the derived data of a namespace. No object is given the same
bytes twice, since a vault seals anew each time: a store may tell versions apart by bytes.

Nothing here, and no layout of a vault, depends on the order of two siblings of which one is the other and then
punctuation (`a/1` and `a-b`): stores that keep directories order those by directory and not by byte. `unordered` finds
such names.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TypeVar

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
    ANY,
    Backend,
    Delete,
    Effect,
    Expect,
    Head,
    Lost,
    Object,
    Purge,
    PutNew,
    Runs,
    Stale,
    Store,
    Swap,
    Version,
)

NOW = 1_779_440_000_000

FORMAT = "vault/format"
ALICE = "actors/" + "a1" * 16
BOB = "actors/" + "b2" * 16
TRAVEL = f"{ALICE}/memory/{'c3' * 16}/"
WORK = f"{ALICE}/memory/{'d4' * 16}/"
BOBS = f"{BOB}/memory/{'e5' * 16}/"
PROFILE = TRAVEL + "profile"
DERIVED = TRAVEL + "derived/"
_DONE = b"done "


def line(number: int, shelf: str = TRAVEL) -> str:
    """The name of a line, as a vault gives it."""
    return f"{shelf}lines/01{'K' * 20}{number:04}"


def standing(number: int) -> str:
    """The name of one of the vault's own objects, of which it has any number."""
    return f"vault/standing/{number:032x}"


def cap(number: int) -> str:
    return f"vault/caps/{number:032x}"


def unordered(names: Iterable[str]) -> list[tuple[str, str]]:
    """Siblings of which one is the other and then punctuation that is less than a slash: not all stores agree there."""
    levels = {tuple(name.split("/")[:depth]) for name in names for depth in range(1, name.count("/") + 2)}
    return [
        ("/".join(one), "/".join(two))
        for one, two in pairwise(sorted(levels, key=lambda level: (level[:-1], level[-1])))
        if one[:-1] == two[:-1] and two[-1].startswith(one[-1]) and two[-1][len(one[-1])] < "/"
    ]


def asked_for(store: Store) -> list[bytes]:
    """The entries of a log but for those by which a worker says what it carried out."""
    found = [entry or b"" for _, _, entry in store.entries(0, store.head().size)]
    return [entry for entry in found if not entry.startswith(_DONE)]


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

    def done(self, done: Runs, undone: Runs, time: int) -> bytes:
        return _DONE + b"%d %a %a" % (time, [*done], [*undone])


@contextmanager
def refused(*kinds: type[Exception]) -> Iterator[None]:
    """Fail unless the block raises one of `kinds`."""
    try:
        yield
    except kinds:
        return
    raise AssertionError(f"{kinds[0].__name__} was not raised")


@contextmanager
def stale() -> Iterator[list[Stale]]:
    """Fail unless the block raises Stale; it is in the list then."""
    found: list[Stale] = []
    try:
        yield found
    except Stale as error:
        found.append(error)
        return
    raise AssertionError("Stale was not raised")


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


Everything = tuple[list[Object], dict[str, Version], Head, list[tuple[int, bytes, bytes | None]]]


def everything(store: Store) -> Everything:
    """All that a store can be asked for: objects, the number of each scope, the log."""
    objects = look(store)
    scopes = sorted({store.scope(name) for name in (FORMAT, *(thing.name for thing in objects))})
    head = store.head()
    log = list(store.entries(0, head.size + 1))
    return objects, dict(zip(scopes, store.versions(scopes), strict=True)), head, log


def look(store: Store) -> list[Object]:
    """Every object, as new as can be."""
    for scope in {store.scope(name) for name in (FORMAT, TRAVEL + "profile", BOBS + "profile")}:
        store.version(scope)
    return pages(store, "")


def pages(store: Store, prefix: str, limit: int = 1000) -> list[Object]:
    """Every object below `prefix`, page by page."""
    found: list[Object] = []
    after = ""
    while page := store.list(prefix, after, limit):
        assert len(page) <= limit
        found += page
        after = page[-1].name
    return found


def followed(store: Store, scope: str, after: Version, limit: int = 1000) -> list[Object]:
    """What is new in a scope, as a follower finds it: a look, then page by page."""
    store.version(scope)
    found: list[Object] = []
    while page := store.changes(after, limit, scope):
        assert len(page) <= limit
        found += page
        after = page[-1].version
    return found


def version_of(store: Store, name: str) -> int:
    found = store.get(name)
    assert found is not None
    return found.version


def body_of(store: Store, name: str) -> bytes | None:
    found = store.get(name)
    return None if found is None else found.body


def names_of(things: Iterable[Object]) -> list[str]:
    return [thing.name for thing in things]


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


Test = TypeVar("Test", bound=Callable[..., None])


def only(**properties: bool) -> Callable[[Test], Test]:
    """A test for stores whose suite has these properties; the suite of another store does not have it."""

    def marked(test: Test) -> Test:
        vars(test)["only"] = properties
        return test

    return marked


class StoreContract:
    """What every store does. A subclass says where stores come from, and what its stores do not promise."""

    is_whole = True
    """Whether a commit is all there or not at all, and each of its conditions holds at that one moment."""

    one_log = True
    """Whether all who open a store write one log; else each has its own, which its `head` and `entries` are of."""

    archives = True
    """Whether entries of the log can be dropped; else `archive` is refused."""

    copies = True
    """Whether the backend has `copy`."""

    clock_leeway = 30_000
    """How far, in ms, the backend lets a commit's time lie before the log's latest."""

    threads = 8
    """How many threads race for one name: fewer where who loses has to wait long."""

    turns = 10
    """How often they do."""

    mac = SuiteMac()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.asked():
            wanted = vars(getattr(cls, name)).get("only", {})
            if any(getattr(cls, one) is not value for one, value in wanted.items()):
                setattr(cls, name, None)

    @classmethod
    def asked(cls) -> list[str]:
        """The names of the tests that this suite has."""
        return [name for name in dir(cls) if name.startswith("test_") and callable(getattr(cls, name))]

    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError

    def location(self) -> str:
        """A place that was empty when the test began; the same one at every call of that test."""
        raise NotImplementedError

    # What the tests below use.

    def new(self, entries: Sequence[bytes] = (b"made",), effects: Sequence[Effect] = (), time: int = NOW) -> Store:
        """A store just made, with the keys open. Its first commit makes the format record too, as a vault's does."""
        if not any(isinstance(effect, PutNew) and effect.name == FORMAT for effect in effects):
            effects = [PutNew(FORMAT, b"format"), *effects]
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

    def test_a_store_says_what_it_promises(self) -> None:
        store = self.new()
        assert store.is_whole is self.is_whole
        assert store.is_distant in (True, False)

    def test_a_new_store_holds_exactly_its_first_commit(self) -> None:
        store = self.new([b"made"], [PutNew(FORMAT, b"1"), PutNew("vault/secrets", b"2")])
        assert look(store) == [store.get(FORMAT), store.get("vault/secrets")]
        assert body_of(store, FORMAT) == b"1"
        assert list(store.entries(0, 9)) == [(0, tlog.leaf_hash(b"made"), b"made")]

    def test_a_place_with_a_store_is_not_made_into_another(self) -> None:
        store = self.new([b"first"], [PutNew(FORMAT, b"1")])
        with unchanged(store), refused(VaultExists):
            self.new([b"second"], [PutNew(FORMAT, b"2")])

    def test_a_place_without_a_store_is_missing(self) -> None:
        with refused(VaultMissing):
            self.unauthenticated()

    def test_a_creation_that_fails_leaves_no_store(self) -> None:
        with refused(Lost, VaultExists):
            self.new([b"made"], [PutNew(FORMAT, b"1"), Expect("vault/secrets", 5)])
        with refused(VaultMissing):
            self.unauthenticated()
        store = self.new()
        assert store.head().size == 1
        assert names_of(look(store)) == [FORMAT]

    def test_opening_again_finds_every_object(self) -> None:
        store = self.new()
        store.commit([b"1"], [PutNew(line(1), b"a"), PutNew(line(2), b"b"), PutNew(cap(1), b"c")], NOW)
        store.commit([b"2"], [Delete(line(1), version_of(store, line(1)))], NOW + 1)
        store.put_if_absent(DERIVED + "x", b"x")
        before = look(store)
        store.close()
        assert look(self.another()) == before
        assert len(before) == 5

    @only(one_log=True)
    def test_opening_again_finds_the_log_and_all_numbers(self) -> None:
        store = self.new([b"1"], [PutNew(line(1), b"a")])
        before = everything(store)
        store.close()
        assert everything(self.another()) == before

    def test_two_open_stores_see_each_others_commits_at_once(self) -> None:
        one, two = self.new(), self.another()
        for number, (writer, reader) in enumerate([(one, two), (two, one)] * 2):
            for name in (line(number), standing(number), f"{TRAVEL}derived/{number}"):
                scope = reader.scope(name)
                seen = reader.version(scope)
                writer.commit([b"e"], [PutNew(name, b"x")], NOW)
                assert reader.version(scope) > seen
                assert names_of(reader.changes(seen, 1000, scope)) == [name]
                assert body_of(reader, name) == b"x"
                assert name in names_of(reader.names(name.rpartition("/")[0] + "/"))

    def test_what_another_process_changed_or_deleted_is_seen_at_the_next_look(self) -> None:
        one = self.new([b"e"], [PutNew(PROFILE, b"1"), PutNew(line(1), b"1"), PutNew(standing(1), b"1")])
        two = self.another()
        before = {name: version_of(two, name) for name in (PROFILE, line(1), standing(1))}
        one.commit([b"e"], [Swap(PROFILE, b"2", before[PROFILE]), Delete(line(1), before[line(1)])], NOW)
        one.commit([b"e"], [Swap(standing(1), b"2", before[standing(1)])], NOW)
        two.versions([two.scope(PROFILE), two.scope(standing(1))])
        assert [body_of(two, name) for name in before] == [b"2", None, b"2"]
        assert [two.get(name) for name in before] == [one.get(name) for name in before]
        assert [thing.body for thing in two.names(f"{TRAVEL}lines/")] == [None]
        done = two.commit([b"e"], [Swap(PROFILE, b"3", version_of(two, PROFILE))], NOW)
        assert done.version == two.version(two.scope(PROFILE))

    @only(one_log=True)
    def test_all_who_open_a_store_write_one_log(self) -> None:
        one, two = self.new(), self.another()
        for number, writer in enumerate([one, two, one, two]):
            assert writer.commit([b"%d" % number], [], NOW).first == number + 1
            assert one.head() == two.head()

    @only(one_log=False)
    def test_each_who_opens_a_store_has_a_log_of_its_own(self) -> None:
        one, two = self.new([b"made"]), self.another()
        assert two.head().size == 0
        for number in range(3):
            first = two.commit([b"%d" % number], [], NOW).first
            assert [entry for _, _, entry in two.entries(first, first + 1)] == [b"%d" % number]
        assert asked_for(one) == [b"made"]
        assert asked_for(two) == [b"0", b"1", b"2"]
        for store in (one, two):
            self.mac.check(store.head())
            assert tlog.tree_hash(leaf for _, leaf, _ in store.entries(0, 9)) == self._root(store)

    # The keys to the head.

    def test_without_keys_every_object_can_be_read(self) -> None:
        store = self.new([b"made"], [PutNew(line(1), b"a"), PutNew(cap(1), b"c")])
        assert look(self.unauthenticated()) == look(store)

    @only(one_log=True)
    def test_without_keys_the_log_can_be_read(self) -> None:
        store = self.new([b"made"], [PutNew(line(1), b"a")])
        assert everything(self.unauthenticated()) == everything(store)

    def test_without_keys_nothing_can_be_written(self) -> None:
        self.new([b"made"], [PutNew(line(1), b"a"), PutNew(DERIVED + "a", b"a")])
        store = self.unauthenticated()
        version = version_of(store, DERIVED + "a")
        attempts: list[Callable[[], object]] = [
            lambda: store.commit([b"e"], [], NOW),
            lambda: store.commit([b"e"], [PutNew(line(2), b"b")], NOW),
            lambda: store.put_if_absent(DERIVED + "b", b"b"),
            lambda: store.compare_and_swap(DERIVED + "a", b"b", version),
            lambda: store.delete(DERIVED + "a", version),
        ]
        for attempt in attempts:
            with unchanged(store), refused(AuditUnavailable):
                attempt()

    @only(archives=True)
    def test_without_keys_nothing_can_be_archived(self) -> None:
        self.new([b"made"])
        store = self.unauthenticated()
        with unchanged(store), refused(AuditUnavailable):
            store.archive(1)

    @only(one_log=True)
    def test_other_keys_are_refused_and_open_nothing(self) -> None:
        self.new([b"made"])
        store = self.unauthenticated()
        with refused(Tampered):
            store.authenticate(SuiteMac(b"another key"))
        with unchanged(store), refused(AuditUnavailable):
            store.commit([b"e"], [], NOW)

    # Objects.

    def test_a_name_never_used_is_none(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"x"), PutNew(standing(1), b"x"), PutNew(cap(1), b"x")])
        for name in (line(2), line(1, BOBS), standing(2), cap(2), f"{ALICE}/keys", line(1)[:-1]):
            assert store.get(name) is None

    def test_an_object_comes_back_byte_for_byte(self) -> None:
        bodies = [b"", b"\0", bytes(range(256)), b"\xff" * (1 << 20)]
        effects = [PutNew(line(number), body) for number, body in enumerate(bodies)]
        store = self.new([b"e"], effects)
        assert [body_of(store, effect.name) for effect in effects] == bodies
        assert [thing.body for thing in store.list(f"{TRAVEL}lines/")] == bodies

    def test_an_empty_body_is_no_tombstone(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"")])
        assert body_of(store, PROFILE) == b""
        assert [one.body for one in followed(store, store.scope(PROFILE), 0) if one.name == PROFILE] == [b""]
        store.commit([b"e"], [Swap(PROFILE, b"2", version_of(store, PROFILE))], NOW)
        assert body_of(store, PROFILE) == b"2"

    def test_a_list_is_in_name_order_and_holds_tombstones(self) -> None:
        names = [line(3), line(1), line(4), line(2)]
        store = self.new([b"e"], [PutNew(name, name.encode()) for name in names])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW)
        for one in (store, self.another()):
            listed = one.list(f"{TRAVEL}lines/")
            assert names_of(listed) == sorted(names)
            assert [thing.body for thing in listed] == [line(1).encode(), None, line(3).encode(), line(4).encode()]
            assert [one.get(thing.name) for thing in listed] == list(listed)

    def test_names_are_a_list_without_bodies(self) -> None:
        names = [line(3), line(1), line(2), line(1, WORK), cap(1), cap(2)]
        store = self.new([b"e"], [PutNew(name, name.encode()) for name in names])
        store.commit([b"e"], [Delete(name, version_of(store, name)) for name in (line(2), cap(2))], NOW)
        for after, limit in (("", 1000), (line(1), 1000), ("", 2), (line(3), 1)):
            for prefix in (TRAVEL, "vault/", "vault/caps/"):
                listed = store.list(prefix, after, limit)
                bare = [Object(thing.name, thing.version, None if thing.body is None else b"") for thing in listed]
                assert list(store.names(prefix, after, limit)) == bare
        assert [thing.body for thing in store.names(TRAVEL)] == [b"", None, b""]
        assert [thing.body for thing in store.names("vault/caps/")] == [b"", None]

    def test_a_prefix_means_its_own_letters_and_no_others(self) -> None:
        names = ["vault/revoked/ab1", "vault/revoked/aB1", "vault/revoked/a_1", "vault/standing/ab1"]
        store = self.new([b"e"], [PutNew(name, b"") for name in names])
        asked = {
            "vault/revoked/ab": ["vault/revoked/ab1"],
            "vault/revoked/aB": ["vault/revoked/aB1"],
            "vault/revoked/a_": ["vault/revoked/a_1"],
            "vault/revoked/ab1": ["vault/revoked/ab1"],
            "vault/revoked/ab12": [],
            "vault/revoked/a1": [],
            "Vault/": [],
            "b1": [],
            "vault/s": ["vault/standing/ab1"],
        }
        for prefix, wanted in asked.items():
            assert names_of(store.list(prefix)) == wanted, prefix
        assert set(names_of(store.list("vault/r"))) == {name for name in names if "revoked" in name}
        assert set(names_of(store.list(""))) == {*names, FORMAT}

    def test_after_names_where_a_list_goes_on(self) -> None:
        names = [line(number) for number in range(1, 10)]
        store = self.new([b"e"], [PutNew(name, b"") for name in [*names, line(1, BOBS), f"{ALICE}/keys"]])
        asked = {
            "": names,
            f"{ALICE}/keys": names,
            f"{TRAVEL}lines/": names,
            line(0): names,
            line(1): names[1:],
            line(3) + "5": names[3:],
            line(9): [],
            line(1, BOBS): [],
        }
        for after, wanted in asked.items():
            assert names_of(store.list(f"{TRAVEL}lines/", after)) == wanted, after

    def test_pages_of_any_size_give_every_object_once(self) -> None:
        names = [line(number, shelf) for number in range(3) for shelf in (TRAVEL, WORK, BOBS)]
        names += [f"{ALICE}/keys", f"{BOB}/keys", PROFILE, *map(standing, range(2)), *map(cap, range(2))]
        store = self.new([b"e"], [PutNew(name, b"x") for name in names])
        names.append(FORMAT)
        for one in (store, self.another()):
            for prefix in ("", "actors/", "vault/", "vault/caps/", f"{ALICE}/", TRAVEL):
                wanted = sorted(name for name in names if name.startswith(prefix))
                for limit in (1, 4, len(wanted), 1000):
                    assert names_of(pages(one, prefix, limit)) == wanted, (prefix, limit)

    def test_records_of_caps_are_read_as_they_are_now(self) -> None:
        one, two = self.new(), self.another()
        assert two.get(cap(1)) is None
        one.commit([b"e"], [PutNew(cap(1), b"1")], NOW)
        assert body_of(two, cap(1)) == b"1"
        assert names_of(two.names("vault/caps/")) == [cap(1)]
        two.commit([b"e"], [Delete(cap(1), version_of(two, cap(1)))], NOW)
        assert one.get(cap(1)) == two.get(cap(1))
        assert body_of(one, cap(1)) is None
        for store in (one, two):
            with unchanged(store), lost(cap(1)):
                store.commit([b"e"], [PutNew(cap(1), b"2")], NOW)

    # Derived data, outside the log.

    def test_derived_data_is_written_without_a_log_entry(self) -> None:
        store = self.new([b"made"])
        name, scope = DERIVED + "x", store.scope(DERIVED + "x")
        head = store.head()
        first = store.put_if_absent(name, b"1")
        assert store.get(name) == Object(name, first, b"1")
        second = store.compare_and_swap(name, b"2", first)
        assert store.get(name) == Object(name, second, b"2")
        seen = store.version(scope)
        third = store.delete(name, second)
        assert store.get(name) == Object(name, third, None)
        assert len({first, second, third}) == 3
        assert names_of(followed(store, scope, seen)) == [name]
        assert store.head() == head

    def test_derived_data_is_written_conditionally(self) -> None:
        store = self.new()
        name, dead, never = DERIVED + "x", DERIVED + "y", DERIVED + "z"
        version = store.put_if_absent(name, b"1")
        gone = store.delete(dead, store.put_if_absent(dead, b"1"))
        attempts: list[tuple[str, Callable[[], object]]] = [
            (name, lambda: store.put_if_absent(name, b"2")),
            (name, lambda: store.compare_and_swap(name, b"2", version + 1)),
            (name, lambda: store.delete(name, version + 1)),
            (never, lambda: store.compare_and_swap(never, b"2", 0)),
            (never, lambda: store.delete(never, 0)),
            (dead, lambda: store.put_if_absent(dead, b"2")),
            (dead, lambda: store.compare_and_swap(dead, b"2", gone)),
            (dead, lambda: store.delete(dead, gone)),
        ]
        for touched, attempt in attempts:
            with unchanged(store), lost(touched):
                attempt()

    def test_derived_data_can_depend_on_another_object(self) -> None:
        store = self.new([b"e"], [PutNew(f"{ALICE}/keys", b"a")])
        version = version_of(store, f"{ALICE}/keys")
        for given in (Expect(f"{ALICE}/keys", version + 1), Expect(f"{ALICE}/keys", 0), Expect(line(1), 1)):
            with unchanged(store), lost(given.name):
                store.put_if_absent(DERIVED + "x", b"1", given)
        store.put_if_absent(DERIVED + "x", b"1", Expect(f"{ALICE}/keys", version))
        store.put_if_absent(DERIVED + "y", b"1", Expect(line(1), 0))
        assert body_of(store, DERIVED + "x") == body_of(store, DERIVED + "y") == b"1"

    def test_nothing_but_derived_data_is_written_outside_the_log(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"a")])
        version = version_of(store, PROFILE)
        attempts: list[Callable[[], object]] = [
            lambda: store.put_if_absent(line(1), b"b"),
            lambda: store.put_if_absent("vault/derived", b"b"),
            lambda: store.put_if_absent(TRAVEL + "derived", b"b"),
            lambda: store.compare_and_swap(PROFILE, b"b", version),
            lambda: store.delete(PROFILE, version),
        ]
        for attempt in attempts:
            with unchanged(store), refused(ValueError):
                attempt()

    # Tombstones and purges.

    def test_a_deleted_name_stays_taken_for_ever(self) -> None:
        for name in (line(1), standing(1), cap(1)):
            store = self.new([b"e"], [PutNew(name, b"a")]) if name == line(1) else self.another()
            if store.get(name) is None:
                store.commit([b"e"], [PutNew(name, b"a")], NOW)
            store.commit([b"e"], [Delete(name, version_of(store, name))], NOW)
            tombstone = version_of(store, name)
            for one in (store, self.another()):
                assert one.get(name) == Object(name, tombstone, None)
                for effect in (
                    PutNew(name, b"again"),
                    Swap(name, b"again", tombstone),
                    Delete(name, tombstone),
                    Expect(name, 0),
                ):
                    with unchanged(one), lost(name):
                        one.commit([b"e"], [effect], NOW)

    def test_a_purge_removes_names_and_tombstones_below_its_prefix_only(self) -> None:
        inside = [line(1), line(2), PROFILE, DERIVED + "x"]
        outside = [f"{ALICE}/keys", line(1, WORK), f"{BOB}/keys", line(1, BOBS), standing(1), cap(1)]
        store = self.new([b"e"], [PutNew(name, b"x") for name in [*inside, *outside]])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW)
        store.commit([b"e"], [PutNew(standing(2), b""), Purge(TRAVEL)], NOW)
        for one in (store, self.another()):
            assert [one.get(name) for name in inside] == [None] * 4
            assert [body_of(one, name) for name in outside] == [b"x"] * 6
            assert list(one.list(TRAVEL)) == list(one.names(TRAVEL)) == []

    def test_a_purge_of_an_actor_leaves_nothing_of_it(self) -> None:
        inside = [f"{ALICE}/keys", line(1), PROFILE, line(1, WORK), DERIVED + "x"]
        store = self.new([b"e"], [PutNew(name, b"x") for name in [*inside, f"{BOB}/keys", line(1, BOBS)]])
        store.commit([b"e"], [PutNew(standing(1), b""), Purge(TRAVEL)], NOW)
        store.commit([b"e"], [PutNew(standing(2), b""), Purge(f"{ALICE}/")], NOW)
        for one in (store, self.another()):
            assert names_of(look(one)) == [f"{BOB}/keys", line(1, BOBS), FORMAT, standing(1), standing(2)]
            assert [one.get(name) for name in inside] == [None] * 5

    def test_a_purge_of_derived_data_leaves_what_it_was_derived_from(self) -> None:
        names = [DERIVED + "x", DERIVED + "y", line(1), WORK + "derived/x"]
        store = self.new([b"e"], [PutNew(name, b"x") for name in names])
        store.commit([b"e"], [PutNew(line(2), b""), Purge(DERIVED)], NOW)
        for one in (store, self.another()):
            assert [body_of(one, name) for name in names] == [None, None, b"x", b"x"]
            assert one.get(DERIVED + "x") is None

    def test_a_purged_name_can_be_used_again_at_another_version(self) -> None:
        names = [f"{ALICE}/keys", line(1)]
        store = self.new([b"e"], [PutNew(name, b"old") for name in names])
        versions = [version_of(store, name) for name in names]
        store.commit([b"e"], [PutNew(standing(1), b""), Purge(f"{ALICE}/")], NOW)
        store.commit([b"e"], [*(Expect(name, 0) for name in names), PutNew(standing(2), b"")], NOW)
        store.commit([b"e"], [PutNew(name, b"new") for name in names], NOW)
        for one in (store, self.another()):
            assert [body_of(one, name) for name in names] == [b"new", b"new"]
            assert all(version_of(one, name) != before for name, before in zip(names, versions, strict=True))

    def test_a_purge_shows_by_what_announces_it(self) -> None:
        store = self.new([b"e"], [PutNew(f"{ALICE}/keys", b""), PutNew(line(1), b"")])
        other = self.another()
        assert other.get(line(1)) is not None
        for one in (store, other):
            one.version(one.scope(line(1)))
        seen = [one.version(one.scope(standing(1))) for one in (store, other)]
        store.commit([b"e"], [PutNew(standing(1), b""), Purge(f"{ALICE}/")], NOW)
        for one, before in zip((store, other), seen, strict=True):
            assert names_of(followed(one, one.scope(standing(1)), before)) == [standing(1)]
            one.version(one.scope(line(1)))
            assert one.get(line(1)) is None
            assert list(one.names(f"{ALICE}/")) == []

    @only(is_whole=True)
    def test_a_purge_is_no_change_by_itself(self) -> None:
        store = self.new([b"e"], [PutNew(f"{ALICE}/keys", b""), PutNew(line(1), b"")])
        seen = store.version()
        done = store.commit([b"e"], [PutNew(standing(1), b""), Purge(f"{ALICE}/")], NOW)
        assert store.changes(seen) == [Object(standing(1), done.version, b"")]
        assert store.version() == done.version > seen

    def test_a_purge_that_nothing_announces_is_refused(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"x"), PutNew(standing(1), b"")])
        seen = version_of(store, standing(1))
        alone: list[list[Effect]] = [
            [Purge(TRAVEL)],
            [Purge(TRAVEL), Purge(WORK)],
            [Expect(standing(1), seen), Purge(TRAVEL)],
        ]
        for effects in alone:
            with unchanged(store), refused(ValueError):
                store.commit([b"e"], effects, NOW)

    def test_a_purge_of_what_the_same_commit_changes_is_refused(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"x")])
        version = version_of(store, PROFILE)
        for effect in (PutNew(line(1), b""), Swap(PROFILE, b"", version), Delete(PROFILE, version)):
            for effects in ([effect, Purge(TRAVEL)], [Purge(TRAVEL), effect]):
                with unchanged(store), refused(ValueError):
                    store.commit([b"e"], [PutNew(standing(1), b""), *effects], NOW)

    @only(is_whole=True)
    def test_versions_of_purged_objects_are_not_given_out_again(self) -> None:
        store = self.new([b"e"], [PutNew(standing(1), b"")])
        store.commit([b"e"], [PutNew(standing(2), b""), PutNew(line(1), b""), PutNew(line(2), b"")], NOW)
        highest = store.version()
        store.commit([b"e"], [Swap(standing(1), b"2", version_of(store, standing(1))), Purge(TRAVEL)], NOW)
        store.commit([b"e"], [PutNew(line(1, BOBS), b"")], NOW)
        before = store.version()
        store.commit([b"e"], [Delete(standing(2), version_of(store, standing(2))), Purge(BOBS)], NOW)
        store.close()
        again = self.another()
        assert again.version() > before > highest
        again.commit([b"e"], [PutNew(standing(3), b"")], NOW)
        assert version_of(again, standing(3)) > before

    # Versions, scopes and changes.

    def test_a_changed_object_has_another_version(self) -> None:
        store = self.new()
        for name in (PROFILE, standing(1), f"{ALICE}/keys", cap(1)):
            store.commit([b"e"], [PutNew(name, b"1")], NOW)
            seen = [version_of(store, name)]
            for body in (b"2", b"3"):
                store.commit([b"e"], [Swap(name, body, seen[-1])], NOW)
                seen.append(version_of(store, name))
            store.commit([b"e"], [Delete(name, seen[-1])], NOW)
            seen.append(version_of(store, name))
            assert len(set(seen)) == 4
            assert 0 not in seen
            assert version_of(self.another(), name) == seen[-1]

    def test_numbers_of_a_scope_grow_with_every_change(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"1"), PutNew(standing(1), b"1"), PutNew(f"{BOB}/keys", b"1")])
        for name in (PROFILE, standing(2), line(1, BOBS)):
            scope = store.scope(name)
            seen = [store.version(scope)]
            store.commit([b"e"], [PutNew(name, b"1")], NOW)
            seen.append(store.version(scope))
            store.commit([b"e"], [Swap(name, b"2", version_of(store, name))], NOW)
            seen.append(store.version(scope))
            store.commit([b"e"], [Delete(name, version_of(store, name))], NOW)
            seen.append(store.version(scope))
            assert seen == sorted(set(seen))
            assert store.version(scope) == seen[-1]
            assert [one.version for one in store.changes(seen[0], 9, scope)] == [seen[-1]]

    def test_a_commit_in_one_scope_ends_at_its_latest_number(self) -> None:
        store = self.new([b"e"], [PutNew(f"{ALICE}/keys", b"1")])
        scope = store.scope(f"{ALICE}/keys")
        before = store.version(scope)
        done = store.commit([b"e"], [PutNew(line(number), b"1") for number in range(3)], NOW)
        assert done.version == store.version(scope) >= before + 3
        swapped = Swap(f"{ALICE}/keys", b"2", version_of(store, f"{ALICE}/keys"))
        assert store.commit([b"e"], [swapped, PutNew(line(3), b"")], NOW).version == store.version(scope)
        assert store.commit([b"e"], [PutNew(standing(1), b"1")], NOW).version <= max(
            store.versions([scope, store.scope(standing(1))])
        )

    @only(is_whole=True)
    def test_versions_grow_with_every_change_of_the_store(self) -> None:
        store = self.new()
        seen = [store.version()]
        for number in range(5):
            done = store.commit([b"e"], [PutNew(line(number), b""), PutNew(standing(number), b"")], NOW)
            both = version_of(store, line(number)), version_of(store, standing(number))
            assert both[0] != both[1]
            assert done.version == store.version()
            assert seen[-1] < min(both)
            seen.append(done.version)
        seen.append(store.put_if_absent(DERIVED + "x", b""))
        done = store.commit([b"e"], [Swap(standing(0), b"2", version_of(store, standing(0)))], NOW)
        seen.append(version_of(store, standing(0)))
        done = store.commit([b"e"], [Delete(standing(0), done.version)], NOW)
        seen.append(version_of(store, standing(0)))
        assert seen == sorted(set(seen))
        assert done.version == store.version() == seen[-1]

    def test_one_actor_is_followed_in_one_scope(self) -> None:
        store = self.new()
        for actor, shelf in ((ALICE, TRAVEL), (BOB, BOBS)):
            names = [f"{actor}/keys", line(1, shelf), shelf + "profile", shelf + "derived/x"]
            assert len({store.scope(name) for name in names}) == 1
        vault = {store.scope(name) for name in (FORMAT, "vault/secrets", standing(1), "vault/revoked/1")}
        assert len(vault) == 1
        assert self.another().scope(line(1)) == store.scope(line(1))

    def test_versions_are_the_version_of_each_scope_in_turn(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b""), PutNew(line(1, BOBS), b""), PutNew(standing(1), b"")])
        scopes = [store.scope(name) for name in (line(1), standing(1), line(1, BOBS), line(1))]
        for count in range(5):
            assert list(store.versions(scopes[:count])) == [store.version(scope) for scope in scopes[:count]]

    def test_a_change_shows_in_its_own_scope_and_in_no_other(self) -> None:
        one, two = self.new([b"e"], [PutNew(line(1), b""), PutNew(line(1, BOBS), b"")]), self.another()
        names = (line(2), line(2, BOBS), standing(2))
        scopes = [two.scope(name) for name in names]
        for name in names:
            seen = dict(zip(scopes, two.versions(scopes), strict=True))
            one.commit([b"e"], [PutNew(name, b"x")], NOW)
            for scope, latest in zip(scopes, two.versions(scopes), strict=True):
                assert names_of(two.changes(seen[scope], 9, scope)) == ([name] if scope == two.scope(name) else [])
                assert (latest > seen[scope]) == (scope == two.scope(name))

    def test_a_commit_in_several_scopes_shows_in_each(self) -> None:
        one, two = self.new(), self.another()
        names = (line(1), line(1, BOBS), standing(1))
        seen = [two.version(two.scope(name)) for name in names]
        one.commit([b"e"], [PutNew(name, b"x") for name in names], NOW)
        for name, before in zip(names, seen, strict=True):
            assert name in names_of(followed(two, two.scope(name), before))

    def test_own_writes_are_read_at_once_without_a_look(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"1"), PutNew(PROFILE, b"1")])
        scope = store.scope(line(1))
        for one in (store, self.another()):
            seen = one.version(scope)
            own = line(2 if one is store else 3)
            one.commit([b"e"], [PutNew(own, b"own"), Swap(PROFILE, own.encode(), version_of(one, PROFILE))], NOW)
            assert body_of(one, own) == b"own"
            assert body_of(one, PROFILE) == own.encode()
            assert own in names_of(one.names(TRAVEL))
            assert {own, PROFILE} <= set(names_of(one.changes(seen, 9, scope)))
            one.commit([b"e"], [Delete(own, version_of(one, own))], NOW)
            assert one.get(own) == Object(own, version_of(one, own), None)
            assert [thing.body for thing in one.names(own)] == [None]

    def test_a_change_that_an_own_commit_overtook_is_found_all_the_same(self) -> None:
        one, two = self.new([b"e"], [PutNew(f"{ALICE}/keys", b"")]), self.another()
        scope = two.scope(line(1))
        seen = two.version(scope)
        one.commit([b"e"], [PutNew(line(1), b"theirs")], NOW)
        done = two.commit([b"e"], [PutNew(line(2), b"own")], NOW)
        if done.version == seen + 1:  # nothing came between, as far as this follower can tell
            seen = done.version
        assert line(1) in names_of(followed(two, scope, seen))

    def test_changes_come_once_per_object_and_with_tombstones(self) -> None:
        store = self.new()
        scope = store.scope(PROFILE)
        other = self.another()
        starts = {one: one.version(scope) for one in (store, other)}
        store.commit([b"e"], [PutNew(PROFILE, b"1"), PutNew(line(1), b"1")], NOW)
        store.commit([b"e"], [PutNew(line(2), b"1")], NOW)
        store.commit([b"e"], [Swap(PROFILE, b"2", version_of(store, PROFILE))], NOW)
        store.commit([b"e"], [Delete(line(1), version_of(store, line(1)))], NOW)
        for one, start in starts.items():
            changes = followed(one, scope, start)
            assert sorted((change.name, change.body) for change in changes if change.body is not None) == sorted(
                [(PROFILE, b""), (line(2), b"")]
            )
            assert [change.name for change in changes if change.body is None] == [line(1)]
            assert [change.version for change in changes] == sorted({change.version for change in changes})
            assert list(one.changes(changes[0].version, 9, scope)) == changes[1:]
            assert list(one.changes(one.version(scope), 9, scope)) == []

    @only(is_whole=True)
    def test_changes_come_in_commit_order_at_their_versions(self) -> None:
        store = self.new()
        start = store.version()
        store.commit([b"e"], [PutNew(standing(3), b"1"), PutNew(standing(1), b"1")], NOW)
        store.commit([b"e"], [PutNew(standing(2), b"1")], NOW)
        store.commit([b"e"], [Swap(standing(3), b"2", version_of(store, standing(3)))], NOW)
        store.commit([b"e"], [Delete(standing(1), version_of(store, standing(1)))], NOW)
        changes = store.changes(start)
        assert names_of(changes) == [standing(2), standing(3), standing(1)]
        assert [change.version for change in changes] == [version_of(store, change.name) for change in changes]

    def test_changes_come_in_pages(self) -> None:
        names = [line(number) for number in range(9)]
        store = self.new([b"e"], [PutNew(name, b"x") for name in names])
        scope = store.scope(line(0))
        for one in (store, self.another()):
            for limit in (1, 4, 9, 1000):
                found = [name for name in names_of(followed(one, scope, 0, limit)) if name.startswith(TRAVEL)]
                assert sorted(found) == names

    def test_what_changes_nothing_is_no_change(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"")])
        scope = store.scope(line(1))
        before = store.version(scope)
        store.commit([b"e"], [Expect(line(1), version_of(store, line(1)))], NOW)
        store.commit([b"e"], [], NOW)
        assert store.version(scope) == before
        assert list(store.changes(before, 9, scope)) == []

    # Commits.

    def test_a_condition_known_to_be_broken_writes_nothing(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"a"), PutNew(line(2), b"b"), PutNew(line(1, BOBS), b"x")])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW)
        live, dead = version_of(store, PROFILE), version_of(store, line(2))
        losing: list[PutNew | Swap | Delete | Expect] = [
            PutNew(PROFILE, b"2"),
            PutNew(line(2), b"2"),
            Swap(PROFILE, b"2", live + 1),
            Swap(PROFILE, b"2", 0),
            Swap(line(2), b"2", dead),
            Swap(line(3), b"2", 0),
            Swap(line(3), b"2", live),
            Delete(PROFILE, live - 1),
            Delete(line(2), dead),
            Delete(line(3), 0),
            Expect(PROFILE, 0),
            Expect(PROFILE, live + 1),
            Expect(line(2), 0),
            Expect(line(3), live),
        ]
        for bad in losing:
            good: list[Effect] = [PutNew(standing(1), b"x"), Purge(BOBS)]
            for effects in ([*good, bad], [bad, *good]):
                with unchanged(store), lost(bad.name):
                    store.commit([b"never"], effects, NOW + 5)

    def test_a_commit_as_of_what_is_still_so_is_made(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"1"), PutNew(f"{ALICE}/keys", b"k")])
        since = {scope: store.version(scope) for scope in (store.scope(PROFILE), store.scope(FORMAT))}
        pinned = Expect(f"{ALICE}/keys", version_of(store, f"{ALICE}/keys"))
        store.commit([b"e"], [pinned, PutNew(line(1), b"x", is_new=True)], NOW, since=since)
        assert body_of(store, line(1)) == body_of(self.another(), line(1)) == b"x"

    def test_a_commit_as_of_what_another_has_changed_since_is_stale(self) -> None:
        one, two = self.new([b"e"], [PutNew(f"{ALICE}/keys", b"k")]), self.another()
        for number, name in enumerate((line(8), PROFILE, standing(1), f"{BOB}/keys")):
            scope, ours = two.scope(name), line(number)
            since = {scope: two.version(scope)}
            one.commit([b"e"], [PutNew(name, b"theirs")], NOW)
            with stale() as found:
                two.commit([b"perhaps"], [PutNew(ours, b"ours", is_new=True)], NOW, since=since)
            two.version(two.scope(ours))
            assert two.get(ours) is None
            assert found[0].latest in (ANY, {scope: two.version(scope)})
            assert name in names_of(two.changes(since[scope], 9, scope))
            two.commit([b"e"], [PutNew(ours, b"ours", is_new=True)], NOW, since={scope: two.version(scope)})

    def test_who_has_not_looked_loses_to_changed_keys_and_to_a_name_in_use(self) -> None:
        keys = f"{ALICE}/keys"
        one, two = self.new([b"e"], [PutNew(keys, b"1")]), self.another()
        pinned = Expect(keys, version_of(two, keys))
        for bad, theirs in (
            (pinned, Swap(keys, b"2", pinned.version)),
            (PutNew(line(2), b"ours"), PutNew(line(2), b"theirs")),
        ):
            vault = two.scope(FORMAT)
            since = {} if vault == two.scope(keys) else {vault: two.version(vault)}
            one.commit([b"e"], [theirs], NOW)
            with lost(bad.name):
                two.commit([b"perhaps"], [bad, PutNew(line(1), b"ours", is_new=True)], NOW, since=since)
            two.version(two.scope(keys))
            assert two.get(line(1)) is None

    @only(is_whole=True)
    def test_a_commit_lost_to_another_process_writes_nothing(self) -> None:
        one, two = self.new([b"e"], [PutNew(PROFILE, b"1")]), self.another()
        version = version_of(two, PROFILE)
        one.commit([b"e"], [PutNew(line(2), b"theirs"), Swap(PROFILE, b"2", version)], NOW)
        for bad in (PutNew(line(2), b"ours"), Swap(PROFILE, b"ours", version), Expect(PROFILE, version)):
            with unchanged(one), lost(bad.name):
                two.commit([b"never"], [PutNew(line(1), b"ours"), bad, PutNew(line(3), b"ours")], NOW)

    @only(is_whole=False)
    def test_what_a_lost_commit_leaves_has_its_own_name_and_body(self) -> None:
        one, two = self.new(), self.another()
        scope, wanted = two.scope(TRAVEL + "profile"), {line(number): b"ours %d" % number for number in range(4)}
        two.version(scope)
        one.commit([b"theirs"], [PutNew(line(2), b"theirs")], NOW)
        size = two.head().size
        with lost(line(2)):
            two.commit([b"intent"], [PutNew(name, body) for name, body in wanted.items()], NOW)
        intents = [entry for _, _, entry in two.entries(size, two.head().size)]
        for reader in (one, two, self.another()):
            reader.version(scope)
            found = {thing.name: thing.body for thing in pages(reader, TRAVEL)}
            assert found.pop(line(2)) == b"theirs"
            assert found.items() <= wanted.items()
            assert intents == [b"intent"] or (not found and not intents)

    @only(is_whole=False)
    def test_a_lost_commit_tried_again_with_what_is_there_is_carried_out(self) -> None:
        one, two = self.new(), self.another()
        scope, wanted = two.scope(line(1)), {line(number): b"ours %d" % number for number in range(4)}
        two.version(scope)
        one.commit([b"theirs"], [PutNew(line(2), b"theirs")], NOW)
        for _ in range(2):  # again as it was: it is not carried out by accident, and nothing is written twice
            with lost(line(2)):
                two.commit([b"intent"], [PutNew(line(2), b"ours 2"), PutNew(line(3), b"ours 3")], NOW)
            two.version(scope)
        again: list[Effect] = []
        for name, body in wanted.items():
            there = two.get(name)
            again.append(PutNew(name, body) if there is None else Expect(name, there.version))
        two.commit([b"again"], again, NOW)
        found = {thing.name: thing.body for thing in look(self.another()) if thing.name.startswith(TRAVEL)}
        assert found == wanted | {line(2): b"theirs"}

    @only(is_whole=False)
    def test_a_swap_or_deletion_lost_to_another_process_leaves_what_is_there(self) -> None:
        one = self.new([b"e"], [PutNew(PROFILE, b"1"), PutNew(line(1), b"1"), PutNew(standing(1), b"1")])
        two = self.another()
        names = (PROFILE, standing(1))
        old = {name: version_of(two, name) for name in (*names, line(1))}
        one.commit([b"e"], [*(Swap(name, b"theirs", old[name]) for name in names), Delete(line(1), old[line(1)])], NOW)
        for name in names:
            with lost(name):
                two.commit([b"e"], [Swap(name, b"ours", old[name])], NOW)
            with lost(name):
                two.commit([b"e"], [Delete(name, old[name])], NOW)
        with lost(line(1)):
            two.commit([b"e"], [Delete(line(1), old[line(1)])], NOW)
        with lost(line(1)):
            two.commit([b"e"], [PutNew(line(1), b"ours")], NOW)
        for store in (one, two, self.another()):
            look(store)
            assert [body_of(store, name) for name in old] == [b"theirs", b"theirs", None]

    @only(is_whole=False)
    def test_who_lost_knows_what_is_there_without_another_look(self) -> None:
        one, two = self.new([b"e"], [PutNew(PROFILE, b"1"), PutNew(standing(1), b"1")]), self.another()
        for name in (PROFILE, standing(1)):
            old = version_of(two, name)
            one.commit([b"e"], [Swap(name, b"theirs", old)], NOW)
            with lost(name):
                two.commit([b"e"], [Swap(name, b"ours", old)], NOW)
            two.commit([b"e"], [Swap(name, b"ours again", version_of(two, name))], NOW)
            assert body_of(self.another(), name) == b"ours again"

    def test_expectations_that_hold_change_nothing(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"a"), PutNew(line(2), b"b"), PutNew(cap(1), b"c")])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW)
        held = [Expect(name, version_of(store, name)) for name in (line(1), line(2), cap(1))]
        before = look(store)
        store.commit([b"e"], [*held, Expect(line(3), 0), PutNew(standing(1), b"")], NOW)
        assert [thing for thing in look(store) if thing.name != standing(1)] == before
        assert store.get(standing(1)) is not None

    def test_conditions_are_checked_before_any_effect(self) -> None:
        for number, order in enumerate([(0, 1, 2), (2, 1, 0), (1, 2, 0)]):
            place = f"actors/{number:032x}"
            store = self.new([b"e"], [PutNew(f"{place}/keys", b"k")]) if number == 0 else self.another()
            if number:
                store.commit([b"e"], [PutNew(f"{place}/keys", b"k")], NOW)
            pinned = Expect(f"{place}/keys", version_of(store, f"{place}/keys"))
            effects: list[Effect] = [PutNew(standing(number), b""), pinned, Purge(f"{place}/")]
            store.commit([b"e"], [effects[at] for at in order], NOW)
            assert store.get(f"{place}/keys") is None

    def test_a_commit_touches_each_name_once(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"a")])
        version = version_of(store, PROFILE)
        twice: list[list[Effect]] = [
            [PutNew(line(1), b""), PutNew(line(1), b"")],
            [Expect(PROFILE, version), Swap(PROFILE, b"", version)],
            [Swap(PROFILE, b"", version), Delete(PROFILE, version)],
            [PutNew(line(1), b""), Expect(line(1), 0)],
        ]
        for effects in twice:
            with unchanged(store), refused(ValueError):
                store.commit([b"e"], effects, NOW)

    # The log.

    def test_the_head_is_the_tree_over_all_entries(self) -> None:
        store = self.new()
        written = [b"made"]
        for count in (0, 1, 1, 2, 3, 0, 7, 1):
            batch = [b"entry %d" % (len(written) + number) for number in range(count)]
            done = store.commit(batch, [], NOW)
            written += batch
            head = store.head()
            found = list(store.entries(0, head.size))
            edge = tlog.Range()
            for _, leaf, _ in found:
                edge.append(leaf)
            assert (head.size, head.peaks, head.time) == (edge.size, edge.packed(), NOW)
            self.mac.check(head)
            assert [number for number, _, _ in found] == list(range(head.size))
            assert [leaf for _, leaf, _ in found] == [tlog.leaf_hash(entry or b"") for _, _, entry in found]
            assert [entry for _, _, entry in store.entries(done.first, done.first + count)] == batch
            assert asked_for(store) == written

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

    @only(archives=True)
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

    @only(archives=False)
    def test_a_log_that_is_not_archived_refuses_and_keeps_everything(self) -> None:
        store = self.new([b"%d" % number for number in range(6)])
        with unchanged(store), refused(StoreUnavailable):
            store.archive(4)

    def _root(self, store: Store) -> bytes:
        head = store.head()
        return tlog.Range.of(head.size, head.peaks).root()

    # The clock.

    def test_a_clock_far_behind_is_refused(self) -> None:
        store = self.new([b"e"], [], NOW)
        with unchanged(store), refused(ClockBehind):
            store.commit([b"e"], [PutNew(line(1), b"")], NOW - self.clock_leeway - 1)

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
        store.put_if_absent(DERIVED + "x", b"")
        assert store.head().time == NOW

    # Threads.

    def test_commits_of_many_threads_lose_nothing(self) -> None:
        store = self.new()
        scope = store.scope(line(0))
        firsts: list[int] = []

        def writer(number: int) -> None:
            for turn in range(2 * self.turns):
                name = line(100 * number + turn)
                done = store.commit([name.encode(), b"second"], [PutNew(name, name.encode())], NOW)
                assert body_of(store, name) == name.encode()
                assert [entry for _, _, entry in store.entries(done.first, done.first + 2)] == [
                    name.encode(),
                    b"second",
                ]
                firsts.append(done.first)

        in_threads([partial(writer, number) for number in range(self.threads)])
        count = self.threads * 2 * self.turns
        assert len(pages(store, TRAVEL)) == count
        assert len(set(firsts)) == count
        assert len(asked_for(store)) == 2 * count + 1
        leaves = [leaf for _, leaf, _ in store.entries(0, store.head().size)]
        assert tlog.tree_hash(leaves) == self._root(store)
        found = followed(store, scope, 0)
        assert len({change.name for change in found if change.name.startswith(TRAVEL)}) == count
        assert [change.version for change in found] == sorted({change.version for change in found})

    def test_own_writes_outlast_the_looks_of_other_threads(self) -> None:
        store, other = self.new(), self.another()
        scope = store.scope(line(0))
        done = threading.Event()

        def looker(one: Store) -> None:
            while not done.is_set():
                one.version(scope)

        def writer() -> None:
            try:
                seen = 0
                for turn in range(2 * self.turns):
                    store.commit([b"e"], [PutNew(line(turn), b"%d" % turn)], NOW)
                    assert body_of(store, line(turn)) == b"%d" % turn
                    assert len(store.names(f"{TRAVEL}lines/")) == turn + 1
                    new = store.changes(seen, 1000, scope)
                    assert line(turn) in names_of(new)
                    seen = new[-1].version
                    assert line(turn) in names_of(followed(other, scope, 0))
            finally:
                done.set()

        in_threads([writer, partial(looker, store), partial(looker, other)])

    def test_of_threads_that_want_one_name_one_wins_and_each_other_is_told(self) -> None:
        stores = [self.new(), self.another()]
        outcomes: list[bool] = []

        def writer(number: int) -> None:
            store = stores[number % 2]
            for turn in range(self.turns):
                try:
                    store.commit([b"%d" % number], [PutNew(line(turn), b"%d" % number)], NOW)
                except Lost:
                    outcomes.append(False)
                else:
                    assert body_of(store, line(turn)) == b"%d" % number
                    outcomes.append(True)

        in_threads([partial(writer, number) for number in range(self.threads)])
        assert (outcomes.count(True), outcomes.count(False)) == (self.turns, self.turns * (self.threads - 1))
        assert len(look(self.another())) == self.turns + 1
        if self.is_whole:
            assert stores[0].head().size == self.turns + 1

    def test_no_swap_of_many_threads_is_overwritten(self) -> None:
        stores = [self.new([b"e"], [PutNew(standing(1), b"0"), PutNew(DERIVED + "x", b"0")]), self.another()]

        def add(store: Store, own: int, name: str, swap: Callable[[bytes, int], object]) -> None:
            while True:
                store.version(store.scope(name))
                found = store.get(name)
                assert found is not None
                count = int((found.body or b"").split()[0]) + 1
                try:
                    swap(b"%d by %d" % (count, own), found.version)
                except Lost:
                    continue
                return

        def writer(number: int) -> None:
            store = stores[number % 2]
            for _ in range(self.turns // 2):
                add(
                    store,
                    number,
                    standing(1),
                    lambda body, at: store.commit([b"e"], [Swap(standing(1), body, at)], NOW),
                )
                add(store, number, DERIVED + "x", lambda body, at: store.compare_and_swap(DERIVED + "x", body, at))

        in_threads([partial(writer, number) for number in range(self.threads)])
        last = self.another()
        for name in (standing(1), DERIVED + "x"):
            assert int((body_of(last, name) or b"").split()[0]) == self.turns // 2 * self.threads

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

    @only(copies=True)
    def test_what_is_not_there_is_not_copied(self) -> None:
        with refused(VaultMissing):
            self.backend().copy(self.location(), self.elsewhere())
        with refused(VaultMissing):
            self.backend().open(self.elsewhere())

    @only(copies=True)
    def test_a_copy_is_not_made_over_another_store(self) -> None:
        self.new([b"e"], [PutNew(line(1), b"a")])
        copy = self.copied()
        copy.commit([b"e"], [PutNew(line(2), b"own")], NOW)
        with unchanged(copy), refused(VaultExists):
            self.backend().copy(self.location(), self.elsewhere())

    @only(copies=True)
    def test_a_copy_holds_everything_and_goes_its_own_way(self) -> None:
        store = self.new([b"made"], [PutNew(line(1), b"a"), PutNew(line(2), b"b")])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW + 1)
        store.put_if_absent(DERIVED + "x", b"x")
        before = everything(store)
        copy = self.copied()
        assert everything(copy) == before
        copy.commit([b"theirs"], [PutNew(line(3), b"t")], NOW + 2)
        assert everything(store) == before
        with unchanged(copy):
            store.commit([b"ours"], [PutNew(line(4), b"o")], NOW + 2)

    @only(copies=True)
    def test_a_copy_says_how_far_it_is(self) -> None:
        self.new([b"e"], [PutNew(line(1), b"a")])
        told: list[tuple[int, int]] = []
        self.backend().copy(self.location(), self.elsewhere(), lambda done, whole: told.append((done, whole)))
        assert told
        assert all(0 <= done <= whole for done, whole in told)
        assert told[-1][0] == told[-1][1]

    @only(copies=True, is_whole=True)
    def test_a_copy_made_while_others_write_is_of_one_moment(self) -> None:
        store = self.new()
        first = threading.Event()
        done = threading.Event()

        def writer(shelf: str) -> None:
            for turn in range(400):
                names = [line(3 * turn + part, shelf) for part in range(3)]
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

        in_threads([partial(writer, TRAVEL), partial(writer, BOBS), copier])
        copy = self._kept(self.backend().open(self.elsewhere()))
        copy.authenticate(self.mac)
        head = copy.head()
        assert 1 < head.size <= store.head().size
        assert len(pages(copy, "actors/")) == 3 * (head.size - 1)
        assert list(copy.entries(0, head.size + 1)) == list(store.entries(0, head.size))

    # Letting go.

    def test_scrubbing_leaves_everything_that_is_not_deleted(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), hashlib.sha256(b"a").digest()), PutNew(line(2), b"b")])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW)
        with unchanged(store):
            assert store.scrub() is True
        store.commit([b"e"], [PutNew(line(3), b"c")], NOW)
        assert body_of(self.another(), line(3)) == b"c"

    def test_closing_twice_is_closing_once(self) -> None:
        store = self.new()
        store.close()
        store.close()

    def test_a_closed_store_answers_nothing(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"a")])
        scope = store.scope(line(1))
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get(line(1)),
            lambda: store.list(TRAVEL),
            lambda: store.names(TRAVEL),
            lambda: store.changes(0, 9, scope),
            lambda: store.version(scope),
            lambda: store.versions([scope]),
            store.version,
            store.head,
            lambda: list(store.entries(0, 1)),
            lambda: store.commit([b"e"], [], NOW),
            lambda: store.put_if_absent(DERIVED + "x", b""),
            lambda: store.archive(1),
        ]
        for call in calls:
            with refused(StoreUnavailable):
                call()
        again = self.another()
        assert body_of(again, line(1)) == b"a"
        if self.one_log:
            assert again.head().size == 1
