"""Tests of commits: their conditions, lost races, and what a commit that lost leaves behind."""

from __future__ import annotations

from strongroom.store import ANY, Delete, Effect, Expect, Purge, PutNew, Swap
from strongroom.store.conformance.helpers import (
    ALICE,
    BOB,
    BOBS,
    FORMAT,
    NOW,
    PROFILE,
    TRAVEL,
    body_of,
    cap,
    line,
    look,
    lost,
    names_of,
    pages,
    refused,
    stale,
    standing,
    unchanged,
    version_of,
)
from strongroom.store.conformance.suite import Suite, only


class Committing(Suite):
    def test_condition_known_to_be_broken_writes_nothing(self) -> None:
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

    def test_commit_as_of_what_is_still_so_is_made(self) -> None:
        store = self.new([b"e"], [PutNew(PROFILE, b"1"), PutNew(f"{ALICE}/keys", b"k")])
        since = {scope: store.version(scope) for scope in (store.scope(PROFILE), store.scope(FORMAT))}
        pinned = Expect(f"{ALICE}/keys", version_of(store, f"{ALICE}/keys"))
        store.commit([b"e"], [pinned, PutNew(line(1), b"x", is_new=True)], NOW, since=since)
        assert body_of(store, line(1)) == body_of(self.another(), line(1)) == b"x"

    def test_commit_as_of_what_another_has_changed_since_is_stale(self) -> None:
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
    def test_commit_lost_to_another_process_writes_nothing(self) -> None:
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
    def test_lost_commit_tried_again_with_what_is_there_is_carried_out(self) -> None:
        one, two = self.new(), self.another()
        scope, wanted = two.scope(line(1)), {line(number): b"ours %d" % number for number in range(4)}
        two.version(scope)
        one.commit([b"theirs"], [PutNew(line(2), b"theirs")], NOW)
        for _ in range(2):  # unchanged, it must neither succeed by accident nor write twice
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
    def test_swap_or_deletion_lost_to_another_process_leaves_what_is_there(self) -> None:
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

    def test_commit_touches_each_name_once(self) -> None:
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
