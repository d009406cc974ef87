"""The check of one worker's log by itself, log bundle by log bundle.

Numbers, tree and signatures of the log are checked, and the vault's certificate of the worker's key. The log must also
continue its last seen checkpoint. Each fault is a finding, and the check continues after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from strongroom.audit.entry import Entry, decode_entry, done_runs
from strongroom.audit.log import certified_part
from strongroom.audit.verifier import Finding, Flaw
from strongroom.crypto import merkle_log
from strongroom.errors import Tampered
from strongroom.store import fleet_contract
from strongroom.store.fleet_contract import FleetStore, LogBundle, Member


@dataclass(slots=True)
class Walked:
    """One worker's log, as far as it was read."""

    worker: str
    edge: merkle_log.Range = field(default_factory=merkle_log.Range)
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    time: int = 0
    """The time of the latest entry read."""

    @property
    def checkpoint(self) -> tuple[int, bytes]:
        return self.edge.size, self.edge.root()


class LogWalk:
    """Checks the logs of one vault, each by itself, and collects the findings."""

    def __init__(
        self, logs: FleetStore, vault_id: str, public_key: bytes, seen: Mapping[str, merkle_log.Checkpoint]
    ) -> None:
        self._logs = logs
        self._vault = vault_id
        self._public = public_key
        self._seen = seen
        self.findings: list[Finding] = []

    def walk(self, worker: str, members: Mapping[str, Member | None]) -> Walked:
        """Read one log and check it."""
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
        """A worker's public key if the vault's certificate for it is valid, and otherwise None."""
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

    def decoded(self, walked: Walked) -> Iterator[tuple[int, Entry]]:
        """The entries of a log that can be decoded, with their numbers.

        An entry that cannot be decoded becomes a finding.
        """
        for number, data in walked.entries:
            try:
                entry = decode_entry(data)
                done_runs(entry)
            except Tampered:
                self._find(Flaw.ENTRY_EDITED, f"an entry in the log of {walked.worker} cannot be read", entry=number)
            else:
                yield number, entry

    def _find(self, flaw: Flaw, message: str, *, entry: int | None = None) -> None:
        self.findings.append(Finding(flaw, message, entry))


def _edge(bundle: LogBundle) -> merkle_log.Range | None:
    """The right edge of the tree as a log bundle states it. None if the edge does not fit the stated size."""
    try:
        return merkle_log.Range.of(bundle.size, bundle.peaks)
    except Tampered:
        return None
