"""Tests of tombstones, which keep a name taken, and of purges, which leave nothing."""

from __future__ import annotations

from strongroom.store import Delete, Effect, Expect, Object, Purge, PutNew, Swap
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
    look,
    lost,
    names_of,
    refused,
    standing,
    unchanged,
    version_of,
)
from strongroom.store.conformance.suite import Suite, only


class Purging(Suite):
    def test_deleted_name_stays_taken_for_ever(self) -> None:
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

    def test_purge_removes_names_and_tombstones_below_its_prefix_only(self) -> None:
        inside = [line(1), line(2), PROFILE, DERIVED + "x"]
        outside = [f"{ALICE}/keys", line(1, WORK), f"{BOB}/keys", line(1, BOBS), standing(1), cap(1)]
        store = self.new([b"e"], [PutNew(name, b"x") for name in [*inside, *outside]])
        store.commit([b"e"], [Delete(line(2), version_of(store, line(2)))], NOW)
        store.commit([b"e"], [PutNew(standing(2), b""), Purge(TRAVEL)], NOW)
        for one in (store, self.another()):
            assert [one.get(name) for name in inside] == [None] * 4
            assert [body_of(one, name) for name in outside] == [b"x"] * 6
            assert list(one.list(TRAVEL)) == list(one.names(TRAVEL)) == []

    def test_purge_of_an_actor_leaves_nothing_of_it(self) -> None:
        inside = [f"{ALICE}/keys", line(1), PROFILE, line(1, WORK), DERIVED + "x"]
        store = self.new([b"e"], [PutNew(name, b"x") for name in [*inside, f"{BOB}/keys", line(1, BOBS)]])
        store.commit([b"e"], [PutNew(standing(1), b""), Purge(TRAVEL)], NOW)
        store.commit([b"e"], [PutNew(standing(2), b""), Purge(f"{ALICE}/")], NOW)
        for one in (store, self.another()):
            assert names_of(look(one)) == [f"{BOB}/keys", line(1, BOBS), FORMAT, standing(1), standing(2)]
            assert [one.get(name) for name in inside] == [None] * 5

    def test_purge_of_derived_data_leaves_what_it_was_derived_from(self) -> None:
        names = [DERIVED + "x", DERIVED + "y", line(1), WORK + "derived/x"]
        store = self.new([b"e"], [PutNew(name, b"x") for name in names])
        store.commit([b"e"], [PutNew(line(2), b""), Purge(DERIVED)], NOW)
        for one in (store, self.another()):
            assert [body_of(one, name) for name in names] == [None, None, b"x", b"x"]
            assert one.get(DERIVED + "x") is None

    def test_purged_name_can_be_used_again_at_another_version(self) -> None:
        names = [f"{ALICE}/keys", line(1)]
        store = self.new([b"e"], [PutNew(name, b"old") for name in names])
        versions = [version_of(store, name) for name in names]
        store.commit([b"e"], [PutNew(standing(1), b""), Purge(f"{ALICE}/")], NOW)
        store.commit([b"e"], [*(Expect(name, 0) for name in names), PutNew(standing(2), b"")], NOW)
        store.commit([b"e"], [PutNew(name, b"new") for name in names], NOW)
        for one in (store, self.another()):
            assert [body_of(one, name) for name in names] == [b"new", b"new"]
            assert all(version_of(one, name) != before for name, before in zip(names, versions, strict=True))

    def test_purge_shows_by_what_announces_it(self) -> None:
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
    def test_purge_is_no_change_by_itself(self) -> None:
        store = self.new([b"e"], [PutNew(f"{ALICE}/keys", b""), PutNew(line(1), b"")])
        seen = store.version()
        done = store.commit([b"e"], [PutNew(standing(1), b""), Purge(f"{ALICE}/")], NOW)
        assert store.changes(seen) == [Object(standing(1), done.version, b"")]
        assert store.version() == done.version > seen

    def test_purge_that_nothing_announces_is_refused(self) -> None:
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

    def test_purge_of_what_the_same_commit_changes_is_refused(self) -> None:
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
