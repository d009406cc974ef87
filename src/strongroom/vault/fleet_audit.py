"""The owner's view of several logs: the same as `Audit`, over those of every worker.

A checkpoint is kept for each log, signed by the vault: what was last seen is a text of several notes, one behind the
other. Entries of all logs are shown by their times; an entry is named by its worker and its number.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from strongroom import engines
from strongroom.audit.entry import Entry
from strongroom.audit.fleet_verifier import FleetVerifier, told_entries
from strongroom.audit.log import Witness
from strongroom.audit.unfinished_entries import Sighting
from strongroom.audit.verifier import Flaw, Progress, VerificationReport
from strongroom.crypto import merkle_log
from strongroom.errors import InvalidRequest, KeyUnavailable, StrongroomError, Tampered
from strongroom.memory import DecisionRecorder
from strongroom.memory.line_cache.cache import LineCache
from strongroom.memory.replica import Replica
from strongroom.store.fleet_contract import FleetStore
from strongroom.vault.owner_audit import BETWEEN, Audit, EntryOf

_ENGINE = "recency"
"""Nothing is asked of it."""


class FleetAudit(Audit):
    """What `vault.audit` is where every worker has a log of its own."""

    def __init__(self, clerk: DecisionRecorder, witness: Witness, logs: FleetStore) -> None:
        super().__init__(clerk, witness)
        self._logs = logs

    # Reading.

    def size(self) -> int:
        """How many entries all logs have."""
        return sum(1 for worker in self._logs.logs() for _ in self._read(worker))

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Entry | None]]:
        """Entries of all logs in the order of their times, numbered in that order as it is now."""
        for number, (entry, _, _) in enumerate(self._merged()):
            if number >= start and (stop is None or number < stop):
                yield number, entry

    def newest(self) -> Iterator[EntryOf]:
        """Every entry, newest first. All logs are read for it, once."""
        merged = [EntryOf(number, entry, worker) for number, (entry, worker, _) in enumerate(self._merged())]
        return reversed(merged)

    def _merged(self) -> Iterator[tuple[Entry, str, int]]:
        """Entries by their times, each with its worker and its number there."""
        return heapq.merge(*map(self._read, self._logs.logs()), key=lambda one: one[0].time)

    def _read(self, worker: str) -> Iterator[tuple[Entry, str, int]]:
        bundles = (bundle for _, bundle in self._logs.bundles(worker) if bundle is not None)
        return ((entry, worker, number) for number, entry in told_entries(bundles))

    # What was seen.

    def checkpoint(self, *, first: bool = False) -> str:
        """Verify all logs, and sign each as it stands: a note for each log, and those last seen of others.

        With `first`, what is there now is accepted where nothing was seen before, unsettled entries too.
        """
        verifier, report = self._run(None, None)
        if not report.is_sound:
            raise Tampered("the logs have flaws; nothing is signed", hint="vault.audit.verify() names what is wrong")
        if report.doubtful and not first:
            raise Tampered(
                "entries were begun and never said done, and their effect is not there; nothing is signed",
                hint="vault.audit.verify() names them, and counts them as told from then on",
            )
        if report.seen_before is not None or first:
            self._keep(self._found(verifier))
        return self._witness.read() or self._signed(self._found(verifier))

    def seen(self) -> merkle_log.Checkpoint | None:
        raise InvalidRequest("a fleet has a checkpoint for each log", hint="vault.audit.verify() compares them")

    def seen_logs(self) -> dict[str, merkle_log.Checkpoint]:
        """The checkpoint last seen of each worker's log; none if nothing was kept. Tampered if it cannot be used."""
        text = self._witness.read()
        found: dict[str, merkle_log.Checkpoint] = {}
        for note in text.split(BETWEEN) if text is not None else ():
            worker = note.partition("\n")[0].rpartition("/")[2]
            found[worker] = self._state.log.open_checkpoint(note, worker)
            Sighting.parse(found[worker].extensions)
        return found

    def _found(self, verifier: FleetVerifier) -> dict[str, merkle_log.Checkpoint]:
        """Each log as it was walked, with what was seen of its unsettled entries."""
        log, sighted = self._state.log, verifier.sighted
        return {
            name: merkle_log.Checkpoint(log.origin_of(name), *one.checkpoint, sighted.get(name, Sighting()).lines)
            for name, one in verifier.walked.items()
        }

    def _keep(self, seen: dict[str, merkle_log.Checkpoint]) -> None:
        """Keep checkpoints as seen, but never an older one than another process has kept meanwhile."""
        now = self.seen_logs()
        newest = {**seen, **{name: one for name, one in now.items() if name not in seen or seen[name].size < one.size}}
        self._witness.keep(self._signed(newest))

    def _signed(self, checked: dict[str, merkle_log.Checkpoint]) -> str:
        return BETWEEN.join(self._state.log.sign(one) for _, one in sorted(checked.items()))

    # Verifying.

    def verify(
        self, *, archive: str | Path | None = None, progress: Progress | None = None, first: bool = False
    ) -> VerificationReport:
        """Check all logs and objects. What is sound is seen now, if anything was before or `first` says to begin here.

        Unsettled entries are seen as they are, too.
        """
        verifier, report = self._run(archive, progress)
        if report.is_sound and (report.seen_before is not None or first):
            self._keep(self._found(verifier))
        return report

    def look(self, *, archive: str | Path | None = None, progress: Progress | None = None) -> VerificationReport:
        return self._run(archive, progress)[1]

    def _run(self, archive: str | Path | None, progress: Progress | None) -> tuple[FleetVerifier, VerificationReport]:
        if archive is not None:
            raise InvalidRequest("the logs of a fleet are not archived")
        state = self._afresh()
        bad: list[str] = []
        try:
            seen = self.seen_logs()
        except (Tampered, KeyUnavailable) as error:
            seen, bad = {}, [error.message]
        logs = state.store if isinstance(state.store, FleetStore) else self._logs
        verifier = FleetVerifier(
            state.store,
            logs,
            state.vault_id,
            state.log.public_key,
            partial(state.tag_of, is_fresh=True),
            seen,
            self._clerk.now(),
        )
        report = replace(verifier.run(progress), notes=tuple(map(_note, logs.buried())))
        return verifier, report.with_findings(
            [(Flaw.WITNESS_INVALID, f"the last seen checkpoint cannot be used: {one}") for one in bad]
        )

    def _afresh(self) -> Replica:
        """The vault as the bucket has it. What this process has seen before must not hide what is to be named."""
        state, shelves = self._state, LineCache(engines.load(_ENGINE), 0)
        with suppress(StrongroomError):
            return Replica(
                state.vault_id, self._logs.afresh(), state.source, shelves, state.random, state.records.ring()
            )
        return state

    # What one log has and several have not.

    def prove(self, index: int) -> str:
        """A proof that an entry, by its number among all, is in its worker's log. All of them are verified first."""
        found = next((one for number, one in enumerate(self._merged()) if number == index), None)
        if found is None:
            raise InvalidRequest(f"the logs have entries 0 to {self.size() - 1}")
        verifier, report = self._run(None, None)
        if not report.is_sound:
            raise Tampered("the logs have flaws; nothing is proven", hint="vault.audit.verify() names what is wrong")
        _, worker, number = found
        walked, log = verifier.walked[worker], self._state.log
        leaves = [merkle_log.leaf_hash(data) for _, data in walked.entries]
        path = merkle_log.inclusion_proof(lambda low, high: merkle_log.tree_hash(leaves[low:high]), number, len(leaves))
        note = log.sign(merkle_log.Checkpoint(log.origin_of(worker), *walked.checkpoint))
        return merkle_log.Proof(number, tuple(path), note).text()

    def export(self, directory: str | Path) -> int:  # noqa: ARG002
        raise InvalidRequest("the logs of a fleet are not exported as one", hint="`audit show --json` has all entries")

    def accept_restore(self) -> VerificationReport:
        raise InvalidRequest("a fleet is not restored from a backup", hint="use `strongroom migrate`")

    def archive(self, directory: str | Path, *, keep: int = 0) -> int:  # noqa: ARG002
        raise InvalidRequest("the logs of a fleet are not archived")


def _note(name: str) -> str:
    return f"{name} was forgotten, and bytes of it lie beside its tombstone; compacting its actor removes them"


def audit_of(clerk: DecisionRecorder, witness: Witness) -> Audit:
    """The owner's view of a vault's log, or of its logs."""
    store = clerk.state.store
    return FleetAudit(clerk, witness, store) if isinstance(store, FleetStore) else Audit(clerk, witness)
