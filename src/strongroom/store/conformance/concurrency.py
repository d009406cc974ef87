"""Tests with many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from strongroom.crypto import merkle_log
from strongroom.store import Lost, PutNew, Store, Swap
from strongroom.store.conformance.helpers import (
    DERIVED,
    NOW,
    TRAVEL,
    asked_for,
    body_of,
    followed,
    in_threads,
    line,
    look,
    names_of,
    pages,
    standing,
)
from strongroom.store.conformance.suite import Suite


class Racing(Suite):
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
        assert merkle_log.tree_hash(leaves) == self.root(store)
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
