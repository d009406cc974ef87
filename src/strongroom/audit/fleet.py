"""Verification of a vault with several logs: does each hold together, is none missing, and do they and the store agree?

Needs nothing but reading. Each log is checked by itself: numbers, tree, signatures, the vault's word for its key, and
whether it continues what was seen of it. Then the objects are compared with what all of them say together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from strongroom import tlog
from strongroom.audit.entry import decode_entry, written
from strongroom.audit.log import certified_part
from strongroom.audit.statements import Statements
from strongroom.audit.verify import Finding, Flaw, Progress, Report, TagOf
from strongroom.errors import KeyUnavailable, Tampered
from strongroom.store import Store, fleet
from strongroom.store.fleet import Bundle, Fleet, Member

_LOOKS = 5
_OBJECTS = {Flaw.OBJECT_MISSING, Flaw.OBJECT_EXTRA, Flaw.OBJECT_ALTERED, Flaw.OBJECT_REVIVED}


@dataclass(slots=True)
class Walked:
    """One log as it was found."""

    worker: str
    edge: tlog.Range = field(default_factory=tlog.Range)
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    done: list[tuple[int, int]] = field(default_factory=list)

    @property
    def checkpoint(self) -> tuple[int, bytes]:
        return self.edge.size, self.edge.root()


class FleetVerifier:
    """One run of verification over one store."""

    def __init__(
        self,
        store: Store,
        logs: Fleet,
        vault_id: str,
        public_key: bytes,
        tag_of: TagOf,
        seen: Mapping[str, tlog.Checkpoint],
    ) -> None:
        self._store = store
        self._logs = logs
        self._vault = vault_id
        self._public = public_key
        self._tag_of = tag_of
        self._seen = seen
        self._findings: list[Finding] = []
        self.walked: dict[str, Walked] = {}

    def run(self, progress: Progress | None = None) -> Report:
        """Look at everything. If objects do not fit while others were writing, look again before saying so."""
        before = -1
        for _ in range(_LOOKS):
            report = self._look(progress or (lambda *_: None))
            if report.size == before or not any(one.flaw in _OBJECTS for one in report.findings):
                break
            before = report.size
        return report

    def _look(self, progress: Progress) -> Report:
        self._findings = []
        # Objects first: whatever is there by then has its entry in a log that is read afterwards.
        objects = list(self._objects())
        members = dict(self._logs.roster())
        workers = sorted({*members, *self._logs.logs(), *self._seen})
        self.walked = {}
        for number, worker in enumerate(workers):
            progress(number, len(workers))
            self.walked[worker] = self._walk(worker, members)
        progress(len(workers), len(workers))
        self._compare(objects, self._statements())
        size = sum(one.edge.size for one in self.walked.values())
        return Report(size, self._root(), len(objects), tuple(self._findings), len(workers))

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
        expected = 1
        for number, bundle in self._logs.bundles(worker):
            if number != expected:
                self._find(Flaw.ENTRY_MISSING, f"the log of {worker} has no bundle {expected}", entry=walked.edge.size)
            expected = number + 1
            if bundle is None:
                self._find(Flaw.LOG_EDITED, f"bundle {number} of {worker} does not read", entry=walked.edge.size)
                continue
            if public is None and bundle.member is not None:
                public = self._certified(worker, bundle.member)
            self._take(walked, bundle, public)
        if expected == 1 and worker in members:
            self._find(Flaw.LOG_MISSING, f"the log of {worker}, who is in the roster, is not there")
        elif expected > 1 and public is None:
            self._find(Flaw.LOG_UNKNOWN, f"there is a log of {worker}, whom the vault never certified")
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
        """A worker's key, if the vault vouches for it."""
        try:
            key = Ed25519PublicKey.from_public_bytes(self._public)
            key.verify(member.certificate, certified_part(self._vault, worker, member.public))
        except (ValueError, InvalidSignature):
            return None
        return member.public if member.worker == worker else None

    def _take(self, walked: Walked, bundle: Bundle, public: bytes | None) -> None:
        if public is not None and not fleet.is_signed(walked.worker, bundle, public):
            self._find(Flaw.HEAD_FORGED, f"a bundle of {walked.worker} was not signed by it", entry=bundle.first)
        if bundle.first == walked.edge.size:
            for entry in bundle.entries:
                walked.edge.append(tlog.leaf_hash(entry))
                self._check_fork(walked)
        if walked.edge.size != bundle.size or walked.edge.packed() != bundle.peaks:
            message = f"entries of {walked.worker} are missing, or do not add up to its log"
            self._find(Flaw.LOG_EDITED, message, entry=bundle.first)
            walked.edge = _edge(bundle) or walked.edge  # from here on it may be sound again
        walked.entries += enumerate(bundle.entries, bundle.first)
        walked.done += bundle.done

    def _check_fork(self, walked: Walked) -> None:
        seen = self._seen.get(walked.worker)
        if seen is not None and walked.edge.size == seen.size and walked.edge.root() != seen.root:
            message = f"the log of {walked.worker} was rewritten before the checkpoint last seen"
            self._find(Flaw.LOG_FORKED, message, entry=walked.edge.size - 1)

    def _check_seen(self, walked: Walked) -> None:
        seen = self._seen.get(walked.worker)
        if seen is not None and walked.edge.size < seen.size:
            message = f"the log of {walked.worker} has {walked.edge.size} entries, but {seen.size} were seen before"
            self._find(Flaw.LOG_ROLLED_BACK, message)

    # All logs, and the objects.

    def _statements(self) -> Statements:
        said = Statements()
        for walked in self.walked.values():
            sure = {number for first, behind in walked.done for number in range(first, behind)}
            for number, data in walked.entries:
                try:
                    said.take(decode_entry(data), is_sure=number in sure)
                except Tampered:
                    self._find(Flaw.ENTRY_EDITED, f"an entry of {walked.worker} does not read as one", entry=number)
        return said

    def _objects(self) -> Iterator[tuple[str, str, tuple[str, str] | None]]:
        """Every object: its name, its digest ("" for a tombstone), and its tags if its owner's keys open."""
        after = ""
        while page := self._store.list("", after, 1000):
            for thing in page:
                digest = "" if thing.body is None else written(hashlib.sha256(thing.body).digest())
                yield thing.name, digest, self._tags(thing.name)
            after = page[-1].name

    def _tags(self, name: str) -> tuple[str, str] | None:
        try:
            return self._tag_of(name)
        except (Tampered, KeyUnavailable):
            return None

    def _compare(self, objects: list[tuple[str, str, tuple[str, str] | None]], said: Statements) -> None:
        found: set[tuple[str, str]] = set()
        is_whole = True
        for name, digest, tags in objects:
            if tags is None:
                is_whole = False
                message = "an actor's keys do not open, so its objects cannot be checked"
                self._find(Flaw.OBJECT_ALTERED, message, name=name)
            else:
                found.add(tags)
                self._compare_one(name, digest, tags, said)
        for owner, tag in said.demanded() if is_whole else ():
            if (owner, tag) not in found:
                self._find(Flaw.OBJECT_MISSING, f"an object that was logged is not in the store (tag {tag})")

    def _compare_one(self, name: str, digest: str, tags: tuple[str, str], said: Statements) -> None:
        allowed = said.allowed(*tags)
        if digest in allowed:
            return
        if not said.knows(*tags):
            self._find(Flaw.OBJECT_EXTRA, "an object is in the store that was never logged", name=name)
        elif not digest:
            self._find(Flaw.OBJECT_MISSING, "an object was deleted without a log entry", name=name)
        elif allowed == {""}:
            self._find(Flaw.OBJECT_REVIVED, "a deleted object is back", name=name)
        else:
            self._find(Flaw.OBJECT_ALTERED, "an object is not the one that was logged", name=name)


def _edge(bundle: Bundle) -> tlog.Range | None:
    """The tree's edge as a bundle has it."""
    try:
        return tlog.Range.of(bundle.size, bundle.peaks)
    except Tampered:
        return None
