"""Tests of creating a store, opening it, and authenticating its head."""

from __future__ import annotations

from collections.abc import Callable

from strongroom.crypto import merkle_log
from strongroom.errors import AuditUnavailable, Tampered, VaultExists, VaultMissing
from strongroom.store import Delete, Expect, Lost, PutNew, Swap
from strongroom.store.conformance.helpers import (
    DERIVED,
    FORMAT,
    NOW,
    PROFILE,
    TRAVEL,
    SuiteMac,
    asked_for,
    body_of,
    cap,
    everything,
    line,
    look,
    names_of,
    refused,
    standing,
    unchanged,
    version_of,
)
from strongroom.store.conformance.suite import Suite, only


class Opening(Suite):
    # Creating and opening.

    def test_store_says_what_it_promises(self) -> None:
        store = self.new()
        assert store.is_whole is self.is_whole
        assert store.is_distant in (True, False)

    def test_new_store_holds_exactly_its_first_commit(self) -> None:
        store = self.new([b"made"], [PutNew(FORMAT, b"1"), PutNew("vault/secrets", b"2")])
        assert look(store) == [store.get(FORMAT), store.get("vault/secrets")]
        assert body_of(store, FORMAT) == b"1"
        first, *more = store.entries(0, 9)
        assert first == (0, merkle_log.leaf_hash(b"made"), b"made")
        assert not (more and store.is_whole), "only a store whose entries are intents may say that it was done"

    def test_place_with_a_store_is_not_made_into_another(self) -> None:
        store = self.new([b"first"], [PutNew(FORMAT, b"1")])
        with unchanged(store), refused(VaultExists):
            self.new([b"second"], [PutNew(FORMAT, b"2")])

    def test_place_without_a_store_is_missing(self) -> None:
        with refused(VaultMissing):
            self.unauthenticated()

    def test_creation_that_fails_leaves_no_store(self) -> None:
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
            assert merkle_log.tree_hash(leaf for _, leaf, _ in store.entries(0, 9)) == self.root(store)

    # Authentication.

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
