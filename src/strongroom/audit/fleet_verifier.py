"""Verification of a vault with one log per worker: is each log sound, is none missing, do logs and store agree?

Verification only reads. Each log is checked by itself (`log_walk`), and then the objects (`stored_objects`) are
compared with the statements of all logs together. An object or entry that cannot be read is a finding, and the check
continues. Workers may write meanwhile, so a mismatch is reported only after the logs and the object were read again.
`unfinished_entries` judges entries that were begun and never stated as done, once they are too old to be under way.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from strongroom.audit.entry import DONE, Decision, Entry, decode_entry, done_runs
from strongroom.audit.log_walk import LogWalk, Walked
from strongroom.audit.object_history import Statements, There, ToldEntry
from strongroom.audit.stored_objects import SeenObject, StoredObjects, Tags
from strongroom.audit.unfinished_entries import IS_OVER, Sighting, Unsettled, is_open, judge
from strongroom.audit.verifier import Finding, Flaw, Progress, TagOf, VerificationReport, owner_part
from strongroom.crypto import merkle_log
from strongroom.errors import Tampered
from strongroom.store import CLOCK_LEEWAY, Store
from strongroom.store.fleet_contract import FleetStore, LogBundle

GIVEN_UP = "given_up"
"""The reason shown for an entry if its worker stated later that the entry had no effect."""
_LOOKS = 5
"""The most comparisons of objects with the logs, if they do not match while others write."""


class Doubt(NamedTuple):
    """A mismatch that a concurrent write may explain, so it is checked again.

    The object is given by its name in the finding, or by its tags if it is missing.
    """

    finding: Finding
    tags: Tags | None = None


class FleetVerifier:
    """One run of verification over one store."""

    def __init__(
        self,
        store: Store,
        logs: FleetStore,
        vault_id: str,
        public_key: bytes,
        tag_of: TagOf,
        seen: Mapping[str, merkle_log.Checkpoint],
        now: int,
    ) -> None:
        self._store = store
        self._logs = logs
        self._objects = StoredObjects(store, logs, tag_of)
        self._new_walk = partial(LogWalk, logs, vault_id, public_key, seen)
        self._seen = seen
        self._now = now
        self._seen_of = {worker: Sighting.parse(one.extensions) for worker, one in seen.items()}
        self._walk = self._new_walk()
        """The result of the latest reading of the logs."""
        self._open: list[ToldEntry] = []
        """The entries that were not stated as done at the last reading of the logs."""
        self.walked: dict[str, Walked] = {}
        self.sighted: dict[str, Sighting] = {}
        """For each log, the sighting to store in its checkpoint: which effects of unsettled entries were there."""

    def run(self, progress: Progress | None = None) -> VerificationReport:
        """Verify the logs and all objects. Mismatches are checked again before they are reported."""
        told = progress or (lambda *_: None)
        # Objects before logs: the entry of every object seen here is already in a log that is read afterwards.
        objects = list(self._objects.read_all())
        said = self._read_logs(told)
        doubts = self._compare(objects, said)
        for _ in range(_LOOKS - 1):
            if not doubts:
                break
            before = self._size()
            again, present = self._read_again(doubts), self._present(doubts)
            said = self._read_logs(told)
            doubts = self._compare_again(doubts, again, present, said)
            if self._size() == before:
                break
        unsettled = self._settle(objects, said)
        if any(one.is_doubtful for one in unsettled):
            unsettled = self._settle(list(self._objects.read_all()), self._read_logs(told))
        found = [*self._walk.findings, *(one.finding for one in doubts), *map(_stray, self._logs.strays())]
        return VerificationReport(
            self._size(),
            self._root(),
            len(objects),
            tuple(found),
            len(self.walked),
            sum(one.size for one in self._seen.values()) if self._seen else None,
            unsettled=tuple(unsettled),
            recent=sum(not self._is_over(one) for one in self._open),
        )

    def _read_logs(self, progress: Progress) -> Statements:
        self._walk = self._new_walk()
        members = dict(self._logs.roster())
        workers = sorted({*members, *self._logs.logs(), *self._seen})
        self.walked = {}
        for number, worker in enumerate(workers):
            progress(number, len(workers))
            self.walked[worker] = self._walk.walk(worker, members)
        progress(len(workers), len(workers))
        return self._statements()

    def _size(self) -> int:
        return sum(one.edge.size for one in self.walked.values())

    def _root(self) -> str:
        """A hash over the state of all logs."""
        total = hashlib.sha256()
        for worker, one in sorted(self.walked.items()):
            total.update(f"{worker} {one.edge.size} {one.edge.root().hex()}\n".encode())
        return total.hexdigest()

    def _statements(self) -> Statements:
        said, self._open = Statements(), []
        for walked in self.walked.values():
            entries = list(self._walk.decoded(walked))
            done = Covered((*run, number) for number, entry in entries for run in done_runs(entry)[0])
            undone = Covered((*run, number) for number, entry in entries for run in done_runs(entry)[1])
            seen = self._seen_of.get(walked.worker, Sighting())
            for number, entry in entries:
                told = ToldEntry(walked.worker, number, entry, done.at(number), seen.seen(number))
                said.take(told)
                if is_open(told) and undone.at(number) is None:
                    self._open.append(told)
        return said

    def _settle(self, objects: Sequence[SeenObject], said: Statements) -> list[Unsettled]:
        """Judge the entries that were never stated as done, by the present state of the objects."""
        there = There({one.tags: one.digest for one in objects if one.tags is not None})
        found: list[Unsettled] = []
        self.sighted = {}
        for worker in sorted({one.worker for one in self._open}):
            begun = [one for one in self._open if one.worker == worker and self._is_over(one)]
            seen = self._seen_of.get(worker, Sighting())
            judged, self.sighted[worker] = judge(begun, seen, said, there)
            found += judged
        return found

    def _is_over(self, told: ToldEntry) -> bool:
        """Whether an entry is so old that its worker, if alive, would have stated it as done by now."""
        latest = max(one.time for one in self.walked.values())
        return told.entry.time < max(self._now, latest) - IS_OVER - CLOCK_LEEWAY

    def _compare(self, objects: Sequence[SeenObject], said: Statements) -> list[Doubt]:
        found = {one.tags for one in objects if one.tags is not None}
        owners = {owner for owner, _ in found}
        is_whole = all(one.tags is not None for one in objects)  # otherwise some owners' tags are unknown
        doubts = [Doubt(one) for one in self._misfits(objects, said)]
        for tags in said.demanded(owners):
            if tags not in found and (is_whole or tags[0] in owners):
                message = f"an object that was logged is not in the store (tag {tags[1]})"
                doubts.append(Doubt(Finding(Flaw.OBJECT_MISSING, message), tags))
        return doubts

    def _read_again(self, doubts: Sequence[Doubt]) -> list[SeenObject]:
        """Read the objects that did not match again. Objects that are gone are left out."""
        names = sorted({one.finding.object for one in doubts if one.finding.object is not None})
        for scope in {self._store.scope(name) for name in names}:
            with suppress(Tampered):  # reported when it is read
                self._store.version(scope)
        for keys in set(map(owner_part, names)):
            self._objects.tags(keys)  # refreshes the keys with which the objects are tagged
        return [one for one in map(self._objects.read, names) if one is not None]

    def _present(self, doubts: Sequence[Doubt]) -> set[Tags]:
        """The tags of all objects in the store; empty if no object is missing.

        The name of a missing object is unknown, so every name must be listed to find it.
        """
        found: set[Tags] = set()
        for scope in self._objects.scopes() if any(one.tags is not None for one in doubts) else ():
            names = self._objects.names(scope, "")
            while names:
                found |= {tags for name in names if (tags := self._objects.tags(name)) is not None}
                names = self._objects.names(scope, names[-1])
        return found

    def _compare_again(
        self, doubts: Sequence[Doubt], again: Sequence[SeenObject], present: set[Tags], said: Statements
    ) -> list[Doubt]:
        missing = [one for one in doubts if one.tags is not None and one.tags not in present]
        still = [one for one in missing if one.tags is not None and said.must_be_there(*one.tags)]
        return [*map(Doubt, self._misfits(again, said)), *still]

    def _misfits(self, objects: Iterable[SeenObject], said: Statements) -> Iterator[Finding]:
        for one in objects:
            if one.why or one.tags is None:
                yield Finding(Flaw.OBJECT_ALTERED, one.why, object=one.name)
            elif one.digest not in said.allowed(*one.tags):
                yield _misfit(one, one.tags, said)


def _misfit(seen: SeenObject, tags: Tags, said: Statements) -> Finding:
    """The finding for an object with a digest that no log allows."""
    if said.is_erased(tags[0]):
        return Finding(Flaw.OBJECT_REVIVED, "an object of an actor that was erased is back", object=seen.name)
    if not said.knows(*tags):
        return Finding(Flaw.OBJECT_EXTRA, "the store has an object that was never logged", object=seen.name)
    if not seen.digest:
        return Finding(Flaw.OBJECT_MISSING, "an object was deleted without a log entry", object=seen.name)
    if said.allowed(*tags) == {""}:
        return Finding(Flaw.OBJECT_REVIVED, "a deleted object is back", object=seen.name)
    return Finding(Flaw.OBJECT_ALTERED, "an object differs from the one that was logged", object=seen.name)


def _stray(place: str) -> Finding:
    return Finding(Flaw.OBJECT_EXTRA, "there is an object where a vault stores nothing", object=place)


def told_entries(bundles: Iterable[LogBundle]) -> Iterator[tuple[int, Entry]]:
    """The entries of a log with their numbers, without entries that only state the outcome of others.

    A worker gives up an entry if the vault or the memory has changed meanwhile, and decides anew. An entry that was
    given up is shown as failed.
    """
    entries = [(number, decode_entry(data)) for one in bundles for number, data in enumerate(one.entries, one.first)]
    undone = Covered((*run, number) for number, entry in entries for run in done_runs(entry)[1])
    for number, entry in entries:
        if entry.op != DONE:
            is_undone = undone.at(number) is not None
            yield number, replace(entry, decision=Decision.FAIL, reason=GIVEN_UP) if is_undone else entry


class Covered:
    """A set of numbers, given as ranges. Each range was stated by an entry.

    Memory and time depend on the number of ranges, not on their lengths.
    """

    def __init__(self, runs: Iterable[tuple[int, int, int]]) -> None:
        self._first: list[int] = []
        self._reach: list[tuple[int, int]] = []
        """For each range: the furthest end of the ranges that overlap it, and the latest entry about these."""
        for first, behind, said_at in sorted(runs):
            reach, latest = self._reach[-1] if self._reach else (0, 0)
            self._first.append(first)
            self._reach.append((behind, said_at) if reach <= first else (max(behind, reach), max(latest, said_at)))

    def at(self, number: int) -> int | None:
        """The number of an entry that states this number as covered, or of a later such entry.

        None if no range covers it.
        """
        place = bisect_right(self._first, number)
        if not place or number >= self._reach[place - 1][0]:
            return None
        return self._reach[place - 1][1]
