"""Tests of reading and listing objects, and of derived data, which is written outside the log."""

from __future__ import annotations

from collections.abc import Callable

from strongroom.store import Delete, Expect, Object, PutNew, Swap
from strongroom.store.conformance.helpers import (
    ALICE,
    BOB,
    BOBS,
    DERIVED,
    FORMAT,
    NOW,
    PROFILE,
    TRAVEL,
    WORK,
    body_of,
    cap,
    followed,
    line,
    lost,
    names_of,
    pages,
    refused,
    standing,
    unchanged,
    version_of,
)
from strongroom.store.conformance.suite import Suite


class Objects(Suite):
    # Objects.

    def test_name_never_used_is_none(self) -> None:
        store = self.new([b"e"], [PutNew(line(1), b"x"), PutNew(standing(1), b"x"), PutNew(cap(1), b"x")])
        for name in (line(2), line(1, BOBS), standing(2), cap(2), f"{ALICE}/keys", line(1)[:-1]):
            assert store.get(name) is None

    def test_object_comes_back_byte_for_byte(self) -> None:
        bodies = [b"", b"\0", bytes(range(256)), b"\xff" * (1 << 20)]
        effects = [PutNew(line(number), body) for number, body in enumerate(bodies)]
        store = self.new([b"e"], effects)
        assert [body_of(store, effect.name) for effect in effects] == bodies
        assert [thing.body for thing in store.list(f"{TRAVEL}lines/")] == bodies

    def test_empty_body_is_no_tombstone(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"")])
        assert body_of(store, PROFILE) == b""
        assert [one.body for one in followed(store, store.scope(PROFILE), 0) if one.name == PROFILE] == [b""]
        store.commit([b"e"], [Swap(PROFILE, b"2", version_of(store, PROFILE))], NOW)
        assert body_of(store, PROFILE) == b"2"

    def test_list_is_in_name_order_and_holds_tombstones(self) -> None:
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

    def test_prefix_means_its_own_letters_and_no_others(self) -> None:
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
        kept = Expect(f"{ALICE}/keys", version)
        with unchanged(store), lost(line(1)):
            store.put_if_absent(DERIVED + "z", b"1", kept, Expect(line(1), 1))
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
