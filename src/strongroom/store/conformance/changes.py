"""Tests of versions, scopes and changes: how a follower learns what was written."""

from __future__ import annotations

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
    body_of,
    cap,
    followed,
    line,
    names_of,
    standing,
    version_of,
)
from strongroom.store.conformance.suite import Suite, only


class Following(Suite):
    def test_changed_object_has_another_version(self) -> None:
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

    def test_commit_in_one_scope_ends_at_its_latest_number(self) -> None:
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

    def test_change_shows_in_its_own_scope_and_in_no_other(self) -> None:
        one, two = self.new([b"e"], [PutNew(line(1), b""), PutNew(line(1, BOBS), b"")]), self.another()
        names = (line(2), line(2, BOBS), standing(2))
        scopes = [two.scope(name) for name in names]
        for name in names:
            seen = dict(zip(scopes, two.versions(scopes), strict=True))
            one.commit([b"e"], [PutNew(name, b"x")], NOW)
            for scope, latest in zip(scopes, two.versions(scopes), strict=True):
                assert names_of(two.changes(seen[scope], 9, scope)) == ([name] if scope == two.scope(name) else [])
                assert (latest > seen[scope]) == (scope == two.scope(name))

    def test_commit_in_several_scopes_shows_in_each(self) -> None:
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

    def test_change_that_an_own_commit_overtook_is_found_all_the_same(self) -> None:
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
