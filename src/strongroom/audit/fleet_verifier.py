"""Verification of a vault with one log per worker: is each log sound, is none missing, do logs and store agree?

Reads only. Each log is checked by itself: numbers, tree, signatures, the vault's certificate of its key, and whether it
continues what was seen of it. Then the objects are compared with what all logs say together. What cannot be read is a
finding, and the rest is still checked. Workers may write meanwhile, so a misfit is reported only after logs and object
were read again. Entries that were begun and never stated as done are judged by `unfinished_entries`, once they are too
old to be under way.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec.structs import replace

from strongroom.audit.entry import DONE, Decision, Entry, decode_entry, done_runs, encode_hash
from strongroom.audit.log import certified_part
from strongroom.audit.object_history import Statements, There, ToldEntry
from strongroom.audit.unfinished_entries import IS_OVER, Sighting, Unsettled, is_open, judge
from strongroom.audit.verifier import Finding, Flaw, Progress, TagOf, VerificationReport, owner_part
from strongroom.crypto import merkle_log
from strongroom.errors import KeyUnavailable, Tampered
from strongroom.store import CLOCK_LEEWAY, Object, Store, fleet_contract
from strongroom.store.fleet_contract import FleetStore, LogBundle, Member

GIVEN_UP = "given_up"
"""The reason shown for an entry that had no effect, as its worker stated later."""
_LOOKS = 5
"""How often to look, at most, while others write and objects do not fit."""
_PAGE = 1000
_AT_ONCE = 16
"""How many parts of the store are read side by side."""
Tags = tuple[str, str]


class SeenLogs(NamedTuple):
    """An object as it was read: its digest ("" for a tombstone) and its tags. `why` says why it has no tags."""

    name: str
    digest: str
    tags: Tags | None
    why: str = ""


class Doubt(NamedTuple):
    """A misfit that a concurrent write may explain, to be looked at again: an object by its name, or by its tags."""

    finding: Finding
    tags: Tags | None = None


@dataclass(slots=True)
class Walked:
    """One log, as far as it was read."""

    worker: str
    edge: merkle_log.Range = field(default_factory=merkle_log.Range)
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    time: int = 0
    """The time of its latest entry."""

    @property
    def checkpoint(self) -> tuple[int, bytes]:
        return self.edge.size, self.edge.root()


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
        self._vault = vault_id
        self._public = public_key
        self._tag_of = tag_of
        self._seen = seen
        self._now = now
        self._seen_of = {worker: Sighting.parse(one.extensions) for worker, one in seen.items()}
        self._findings: list[Finding] = []
        self._open: list[ToldEntry] = []
        """Entries not stated as done, as of the last reading of the logs."""
        self.walked: dict[str, Walked] = {}
        self.sighted: dict[str, Sighting] = {}
        """For each log, the sighting to store in its checkpoint."""

    def run(self, progress: Progress | None = None) -> VerificationReport:
        """Verify everything. Misfits are looked at again before they are reported."""
        told = progress or (lambda *_: None)
        # Objects before logs: the entry of every object seen here is already in a log that is read afterwards.
        objects = list(self._objects())
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
            unsettled = self._settle(list(self._objects()), self._read_logs(told))
        found = [*self._findings, *(one.finding for one in doubts), *map(_stray, self._logs.strays())]
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
        self._findings = []
        members = dict(self._logs.roster())
        workers = sorted({*members, *self._logs.logs(), *self._seen})
        self.walked = {}
        for number, worker in enumerate(workers):
            progress(number, len(workers))
            self.walked[worker] = self._walk(worker, members)
        progress(len(workers), len(workers))
        return self._statements()

    def _size(self) -> int:
        return sum(one.edge.size for one in self.walked.values())

    def _root(self) -> str:
        """One hash over the state of all logs."""
        total = hashlib.sha256()
        for worker, one in sorted(self.walked.items()):
            total.update(f"{worker} {one.edge.size} {one.edge.root().hex()}\n".encode())
        return total.hexdigest()

    def _find(self, flaw: Flaw, message: str, *, entry: int | None = None, name: str | None = None) -> None:
        self._findings.append(Finding(flaw, message, entry, name))

    # One log.

    def _walk(self, worker: str, members: Mapping[str, Member | None]) -> Walked:
        walked = Walked(worker)
        public = self._key(worker, members)
        expected, is_entered = 1, False
        for number, bundle in self._logs.bundles(worker):
            if not number:
                self._find(Flaw.LOG_EDITED, f"an object in the log of {worker} has a name that is not a number")
                continue
            if number != expected:
                self._find(Flaw.ENTRY_MISSING, f"the log of {worker} has no bundle {expected}", entry=walked.edge.size)
            expected = number + 1
            if bundle is None:
                self._find(
                    Flaw.LOG_EDITED, f"bundle {number} in the log of {worker} cannot be read", entry=walked.edge.size
                )
                continue
            if public is None and bundle.member is not None:
                public = self._certified(worker, bundle.member)
            is_entered = is_entered or bundle.member is None
            self._take(walked, bundle, public)
        if worker not in members and public is not None and is_entered and worker not in dict(self._logs.roster()):
            self._find(Flaw.ROSTER_MISSING, f"{worker} was in the roster, and its entry is gone")
        if expected == 1 and worker in members:
            self._find(Flaw.LOG_MISSING, f"the log of {worker}, a worker in the roster, is missing")
        elif expected > 1 and public is None:
            self._find(Flaw.LOG_UNKNOWN, f"there is a log of {worker}, a worker that the vault never certified")
        self._check_seen(walked)
        return walked

    def _key(self, worker: str, members: Mapping[str, Member | None]) -> bytes | None:
        if worker not in members:
            return None
        member = members[worker]
        found = None if member is None else self._certified(worker, member)
        if found is None:
            self._find(Flaw.ROSTER_FORGED, f"the entry of {worker} in the roster was not made by this vault")
        return found

    def _certified(self, worker: str, member: Member) -> bytes | None:
        """A worker's key, if the vault's certificate for it is valid."""
        try:
            key = Ed25519PublicKey.from_public_bytes(self._public)
            key.verify(member.certificate, certified_part(self._vault, worker, member.public))
        except (ValueError, InvalidSignature):
            return None
        return member.public if member.worker == worker else None

    def _take(self, walked: Walked, bundle: LogBundle, public: bytes | None) -> None:
        signed = public is not None and fleet_contract.is_signed(walked.worker, bundle, public)
        if public is not None and not signed:
            self._find(
                Flaw.HEAD_FORGED,
                f"a bundle in the log of {walked.worker} does not have its signature",
                entry=bundle.first,
            )
        goes_on = bundle.first == walked.edge.size
        if goes_on:
            for entry in bundle.entries:
                walked.edge.append(merkle_log.leaf_hash(entry))
                self._check_fork(walked)
        if not goes_on or walked.edge.size != bundle.size or walked.edge.packed() != bundle.peaks:
            message = f"the entries of {walked.worker} do not match its log, or some are missing or repeated"
            self._find(Flaw.LOG_EDITED, message, entry=bundle.first)
            walked.edge = _edge(bundle) or walked.edge  # resume: what follows may be sound
        if signed:  # unsigned entries prove nothing about any object
            walked.entries += enumerate(bundle.entries, bundle.first)
            walked.time = max(walked.time, bundle.time)

    def _check_fork(self, walked: Walked) -> None:
        seen = self._seen.get(walked.worker)
        if seen is not None and walked.edge.size == seen.size and walked.edge.root() != seen.root:
            message = f"a part of the log of {walked.worker} before the last seen checkpoint was rewritten"
            self._find(Flaw.LOG_FORKED, message, entry=walked.edge.size - 1)

    def _check_seen(self, walked: Walked) -> None:
        seen = self._seen.get(walked.worker)
        if seen is not None and walked.edge.size < seen.size:
            message = f"the log of {walked.worker} has {walked.edge.size} entries, but {seen.size} were seen before"
            self._find(Flaw.LOG_ROLLED_BACK, message)

    # All logs, and the objects.

    def _statements(self) -> Statements:
        said, self._open = Statements(), []
        for walked in self.walked.values():
            entries = list(self._decoded(walked))
            done = Covered((*run, number) for number, entry in entries for run in done_runs(entry)[0])
            undone = Covered((*run, number) for number, entry in entries for run in done_runs(entry)[1])
            seen = self._seen_of.get(walked.worker, Sighting())
            for number, entry in entries:
                told = ToldEntry(walked.worker, number, entry, done.at(number), seen.seen(number))
                said.take(told)
                if is_open(told) and undone.at(number) is None:
                    self._open.append(told)
        return said

    def _settle(self, objects: Sequence[SeenLogs], said: Statements) -> list[Unsettled]:
        """Judge the entries never stated as done, by the objects as they are now."""
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

    def _decoded(self, walked: Walked) -> Iterator[tuple[int, Entry]]:
        for number, data in walked.entries:
            try:
                entry = decode_entry(data)
                done_runs(entry)
            except Tampered:
                self._find(Flaw.ENTRY_EDITED, f"an entry in the log of {walked.worker} cannot be read", entry=number)
            else:
                yield number, entry

    def _objects(self) -> Iterator[SeenLogs]:
        for scope in self._scopes():
            last, found = self._page(scope, "")
            while last:
                yield from found
                last, found = self._page(scope, last)

    def _scopes(self) -> Iterator[str]:
        """Every part of the store, refreshed first, some of them side by side."""
        scopes = self._logs.scopes()
        while portion := list(islice(scopes, _AT_ONCE)):
            try:
                self._store.versions(portion)
            except Tampered:
                for scope in portion:
                    with suppress(Tampered):  # reported when it is read
                        self._store.version(scope)
            yield from portion

    def _page(self, scope: str, after: str) -> tuple[str, list[SeenLogs]]:
        """One page of a part, and its last name. If the page does not read, each of its objects is read by itself."""
        try:
            page = self._store.list(scope, after, _PAGE)
        except Tampered:
            names = self._names(scope, after)
            return names[-1] if names else "", [one for one in map(self._read, names) if one is not None]
        return page[-1].name if page else "", list(map(self._tagged, page))

    def _names(self, scope: str, after: str) -> list[str]:
        """A page of names. If it does not read, the actor's keys alone: reading those reports the flaw."""
        try:
            return [one.name for one in self._store.names(scope, after, _PAGE)]
        except Tampered:
            return [f"{scope}keys"] if not after else []

    def _read(self, name: str) -> SeenLogs | None:
        """One object, or None if it is not there."""
        try:
            found = self._store.get(name)
        except Tampered as error:
            return SeenLogs(name, "", self._tags(name), error.message)
        return None if found is None else self._tagged(found)

    def _tagged(self, thing: Object) -> SeenLogs:
        digest = "" if thing.body is None else encode_hash(hashlib.sha256(thing.body).digest())
        tags = self._tags(thing.name)
        why = "" if tags is not None else "an actor's keys do not open, so its objects cannot be checked"
        return SeenLogs(thing.name, digest, tags, why)

    def _tags(self, name: str) -> Tags | None:
        try:
            return self._tag_of(name)
        except (Tampered, KeyUnavailable):
            return None

    def _compare(self, objects: Sequence[SeenLogs], said: Statements) -> list[Doubt]:
        found = {one.tags for one in objects if one.tags is not None}
        owners = {owner for owner, _ in found}
        is_whole = all(one.tags is not None for one in objects)  # otherwise some owners' tags are unknown
        doubts = [Doubt(one) for one in self._misfits(objects, said)]
        for tags in said.demanded(owners):
            if tags not in found and (is_whole or tags[0] in owners):
                message = f"an object that was logged is not in the store (tag {tags[1]})"
                doubts.append(Doubt(Finding(Flaw.OBJECT_MISSING, message), tags))
        return doubts

    def _read_again(self, doubts: Sequence[Doubt]) -> list[SeenLogs]:
        """The objects that did not fit, as they are now. Those that are gone are left out."""
        names = sorted({one.finding.object for one in doubts if one.finding.object is not None})
        for scope in {self._store.scope(name) for name in names}:
            with suppress(Tampered):  # reported when it is read
                self._store.version(scope)
        for keys in set(map(owner_part, names)):
            self._tags(keys)  # refreshes the keys with which the objects are tagged
        return [one for one in map(self._read, names) if one is not None]

    def _present(self, doubts: Sequence[Doubt]) -> set[Tags]:
        """The tags of all objects, if any are missing. Their names are unknown, so every name must be listed."""
        found: set[Tags] = set()
        for scope in self._scopes() if any(one.tags is not None for one in doubts) else ():
            names = self._names(scope, "")
            while names:
                found |= {tags for name in names if (tags := self._tags(name)) is not None}
                names = self._names(scope, names[-1])
        return found

    def _compare_again(
        self, doubts: Sequence[Doubt], again: Sequence[SeenLogs], present: set[Tags], said: Statements
    ) -> list[Doubt]:
        missing = [one for one in doubts if one.tags is not None and one.tags not in present]
        still = [one for one in missing if one.tags is not None and said.must_be_there(*one.tags)]
        return [*map(Doubt, self._misfits(again, said)), *still]

    def _misfits(self, objects: Iterable[SeenLogs], said: Statements) -> Iterator[Finding]:
        for one in objects:
            if one.why or one.tags is None:
                yield Finding(Flaw.OBJECT_ALTERED, one.why, object=one.name)
            elif one.digest not in said.allowed(*one.tags):
                yield _misfit(one, one.tags, said)


def _misfit(seen: SeenLogs, tags: Tags, said: Statements) -> Finding:
    """The finding for an object whose digest no log allows."""
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
    """The entries of a log with their numbers, without those that only state the outcome of others.

    An entry that was given up, because the vault or the memory had changed meanwhile, is shown as failed: its worker
    decided anew.
    """
    entries = [(number, decode_entry(data)) for one in bundles for number, data in enumerate(one.entries, one.first)]
    undone = Covered((*run, number) for number, entry in entries for run in done_runs(entry)[1])
    for number, entry in entries:
        if entry.op != DONE:
            is_undone = undone.at(number) is not None
            yield number, replace(entry, decision=Decision.FAIL, reason=GIVEN_UP) if is_undone else entry


class Covered:
    """A set of numbers given as runs, each stated by an entry.

    Memory and time depend on the number of runs, not on their lengths.
    """

    def __init__(self, runs: Iterable[tuple[int, int, int]]) -> None:
        self._first: list[int] = []
        self._reach: list[tuple[int, int]] = []
        """For each run: the furthest end of it and of those it overlaps, and the latest entry that stated one."""
        for first, behind, said_at in sorted(runs):
            reach, latest = self._reach[-1] if self._reach else (0, 0)
            self._first.append(first)
            self._reach.append((behind, said_at) if reach <= first else (max(behind, reach), max(latest, said_at)))

    def at(self, number: int) -> int | None:
        """The number of an entry that states it, or of a later one; None if no run covers the number."""
        place = bisect_right(self._first, number)
        if not place or number >= self._reach[place - 1][0]:
            return None
        return self._reach[place - 1][1]


def _edge(bundle: LogBundle) -> merkle_log.Range | None:
    """The tree's edge in a bundle, or None if it does not fit its size."""
    try:
        return merkle_log.Range.of(bundle.size, bundle.peaks)
    except Tampered:
        return None
