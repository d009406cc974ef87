"""Tests of copying, scrubbing and closing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import partial

from strongroom.errors import StoreUnavailable, VaultExists, VaultMissing
from strongroom.store import Delete, PutNew, Store
from strongroom.store.conformance.helpers import (
    BOBS,
    DERIVED,
    NOW,
    TRAVEL,
    body_of,
    everything,
    in_threads,
    line,
    pages,
    refused,
    unchanged,
    version_of,
)
from strongroom.store.conformance.suite import Suite, only


class Leaving(Suite):
    # Copying.

    def elsewhere(self) -> str:
        """Another empty location of the backend under test."""
        return self.location() + "-copy"

    def copied(self) -> Store:
        """A copy of the store, made with `copy` and opened with the keys."""
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
    def test_copy_is_not_made_over_another_store(self) -> None:
        self.new([b"e"], [PutNew(line(1), b"a")])
        copy = self.copied()
        copy.commit([b"e"], [PutNew(line(2), b"own")], NOW)
        with unchanged(copy), refused(VaultExists):
            self.backend().copy(self.location(), self.elsewhere())

    @only(copies=True)
    def test_copy_holds_everything_and_goes_its_own_way(self) -> None:
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
    def test_copy_says_how_far_it_is(self) -> None:
        self.new([b"e"], [PutNew(line(1), b"a")])
        told: list[tuple[int, int]] = []
        self.backend().copy(self.location(), self.elsewhere(), lambda done, whole: told.append((done, whole)))
        assert told
        assert all(0 <= done <= whole for done, whole in told)
        assert told[-1][0] == told[-1][1]

    @only(copies=True, is_whole=True)
    def test_copy_made_while_others_write_is_of_one_moment(self) -> None:
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

    # Scrubbing and closing.

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

    def test_closed_store_answers_nothing(self) -> None:
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
