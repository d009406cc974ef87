"""Tests of the log and its clock."""

from __future__ import annotations

from strongroom.crypto import merkle_log
from strongroom.errors import ClockBehind, StoreUnavailable
from strongroom.store import PutNew
from strongroom.store.conformance.helpers import DERIVED, NOW, asked_for, line, refused, unchanged
from strongroom.store.conformance.suite import Suite, only


class Ledger(Suite):
    # The log.

    def test_head_is_the_tree_over_all_entries(self) -> None:
        store = self.new()
        written = [b"made"]
        for count in (0, 1, 1, 2, 3, 0, 7, 1):
            batch = [b"entry %d" % (len(written) + number) for number in range(count)]
            done = store.commit(batch, [], NOW)
            written += batch
            head = store.head()
            found = list(store.entries(0, head.size))
            edge = merkle_log.Range()
            for _, leaf, _ in found:
                edge.append(leaf)
            assert (head.size, head.peaks, head.time) == (edge.size, edge.packed(), NOW)
            self.mac.check(head)
            assert [number for number, _, _ in found] == list(range(head.size))
            assert [leaf for _, leaf, _ in found] == [merkle_log.leaf_hash(entry or b"") for _, _, entry in found]
            assert [entry for _, _, entry in store.entries(done.first, done.first + count)] == batch
            assert asked_for(store) == written

    def test_entries_come_from_start_up_to_stop(self) -> None:
        store = self.new([b"%d" % number for number in range(2500)])
        assert [number for number, _, _ in store.entries(0, 2500)] == list(range(2500))
        assert [entry for _, _, entry in store.entries(1023, 1026)] == [b"1023", b"1024", b"1025"]
        assert [number for number, _, _ in store.entries(2498, 9999)] == [2498, 2499]
        for start, stop in ((0, 0), (5, 5), (5, 4), (2500, 2600)):
            assert list(store.entries(start, stop)) == []

    def test_entry_comes_back_byte_for_byte(self) -> None:
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
            assert [leaf for _, leaf, _ in found] == [merkle_log.leaf_hash(b"%d" % number) for number in range(6)]
        assert store.head() == head
        assert store.commit([b"6"], [], NOW).first == 6
        assert merkle_log.tree_hash(leaf for _, leaf, _ in store.entries(0, 7)) == self.root(store)

    @only(archives=False)
    def test_log_that_is_not_archived_refuses_and_keeps_everything(self) -> None:
        store = self.new([b"%d" % number for number in range(6)])
        with unchanged(store), refused(StoreUnavailable):
            store.archive(4)

    # The clock.

    def test_clock_far_behind_is_refused(self) -> None:
        store = self.new([b"e"], [], NOW)
        with unchanged(store), refused(ClockBehind):
            store.commit([b"e"], [PutNew(line(1), b"")], NOW - self.clock_leeway - 1)

    def test_clock_within_the_leeway_does_not_turn_the_log_back(self) -> None:
        store = self.new([b"e"], [], NOW)
        store.commit([b"e"], [], NOW - self.clock_leeway)
        assert store.head().time == NOW
        store.commit([b"e"], [], NOW + 1)
        assert store.head().time == NOW + 1
        with refused(ClockBehind):
            store.commit([b"e"], [], NOW - self.clock_leeway)

    def test_accepted_clock_is_the_latest(self) -> None:
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
