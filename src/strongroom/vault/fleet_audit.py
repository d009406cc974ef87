"""The owner's view of the logs of a fleet: `Audit` for a vault in a bucket, where each worker has a log.

The last seen checkpoint is a text of several signed notes, one for each log. Entries of all logs are merged by their
times. An entry is identified by its worker and its number in that worker's log.
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
"""The name of the engine with which a vault is read for verification.

Nothing is ranked here, and this engine loads fastest.
"""


class FleetAudit(Audit):
    """`vault.audit` of a vault in a bucket, where every worker has its own log."""

    def __init__(self, clerk: DecisionRecorder, witness: Witness, logs: FleetStore) -> None:
        super().__init__(clerk, witness)
        self._logs = logs

    # Reading.

    def size(self) -> int:
        """The number of entries in all logs together."""
        return sum(1 for worker in self._logs.logs() for _ in self._read(worker))

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Entry | None]]:
        """The entries of all logs, ordered by time, each with its number in that order.

        An entry's number may change when entries are added.
        """
        for number, (entry, _, _) in enumerate(self._merged()):
            if number >= start and (stop is None or number < stop):
                yield number, entry

    def newest(self) -> Iterator[EntryOf]:
        """Every entry, newest first. All logs are read once."""
        merged = [EntryOf(number, entry, worker) for number, (entry, worker, _) in enumerate(self._merged())]
        return reversed(merged)

    def _merged(self) -> Iterator[tuple[Entry, str, int]]:
        """The entries of all logs, ordered by time, each with its worker and its number in the worker's log."""
        return heapq.merge(*map(self._read, self._logs.logs()), key=lambda one: one[0].time)

    def _read(self, worker: str) -> Iterator[tuple[Entry, str, int]]:
        bundles = (bundle for _, bundle in self._logs.bundles(worker) if bundle is not None)
        return ((entry, worker, number) for number, entry in told_entries(bundles))

    # What was seen.

    def checkpoint(self, *, first: bool = False) -> str:
        """Verify all logs and sign a note for each. Raises `Tampered` if any log has a flaw.

        If there is no earlier checkpoint, `first` accepts the logs as they are, including unsettled entries (writes
        that no log states as done).
        """
        verifier, report = self._run(None, None)
        if not report.is_sound:
            raise Tampered(
                "the logs have flaws, so nothing was signed", hint="run vault.audit.verify(), which lists every fault"
            )
        if report.doubtful and not first:
            raise Tampered(
                "some writes were begun and never confirmed, and their effects are missing, so nothing was signed",
                hint="vault.audit.verify() lists these writes; after that they count as reported",
            )
        if report.seen_before is not None or first:
            self._keep(self._found(verifier))
        return self._witness.read() or self._signed(self._found(verifier))

    def seen(self) -> merkle_log.Checkpoint | None:
        raise InvalidRequest(
            "a vault in a bucket has a checkpoint for each worker's log, not a single one",
            hint="use vault.audit.seen_logs()",
        )

    def seen_logs(self) -> dict[str, merkle_log.Checkpoint]:
        """The last seen checkpoint of each worker's log, by worker. Empty if no checkpoint was stored.

        Raises `Tampered` if a checkpoint cannot be read.
        """
        text = self._witness.read()
        found: dict[str, merkle_log.Checkpoint] = {}
        for note in text.split(BETWEEN) if text is not None else ():
            worker = note.partition("\n")[0].rpartition("/")[2]
            found[worker] = self._state.log.open_checkpoint(note, worker)
            Sighting.parse(found[worker].extensions)
        return found

    def _found(self, verifier: FleetVerifier) -> dict[str, merkle_log.Checkpoint]:
        """A checkpoint of each verified log.

        It includes the state of the log's unsettled entries: writes that the log does not state as done.
        """
        log, sighted = self._state.log, verifier.sighted
        return {
            name: merkle_log.Checkpoint(log.origin_of(name), *one.checkpoint, sighted.get(name, Sighting()).lines)
            for name, one in verifier.walked.items()
        }

    def _keep(self, seen: dict[str, merkle_log.Checkpoint]) -> None:
        """Store these checkpoints as last seen.

        If another process has stored a newer checkpoint of a log meanwhile, the newer one is kept.
        """
        now = self.seen_logs()
        newest = {**seen, **{name: one for name, one in now.items() if name not in seen or seen[name].size < one.size}}
        self._witness.keep(self._signed(newest))

    def _signed(self, checked: dict[str, merkle_log.Checkpoint]) -> str:
        return BETWEEN.join(self._state.log.sign(one) for _, one in sorted(checked.items()))

    # Verifying.

    def verify(
        self, *, archive: str | Path | None = None, progress: Progress | None = None, first: bool = False
    ) -> VerificationReport:
        """Check all logs and objects. If all are sound, store the checkpoints as last seen.

        The checkpoints include unsettled entries: writes that no log states as done. If there is no earlier checkpoint,
        they are stored only with `first`.
        """
        verifier, report = self._run(archive, progress)
        if report.is_sound and (report.seen_before is not None or first):
            self._keep(self._found(verifier))
        return report

    def look(self, *, archive: str | Path | None = None, progress: Progress | None = None) -> VerificationReport:
        return self._run(archive, progress)[1]

    def _run(self, archive: str | Path | None, progress: Progress | None) -> tuple[FleetVerifier, VerificationReport]:
        if archive is not None:
            raise InvalidRequest(
                "the log of a vault in a bucket cannot be archived", hint="run the command without --archive"
            )
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
        """The vault as it is in the bucket now. A cached object must not hide a missing or altered one."""
        state, shelves = self._state, LineCache(engines.load(_ENGINE), 0)
        with suppress(StrongroomError):
            return Replica(
                state.vault_id, self._logs.afresh(), state.source, shelves, state.random, state.records.ring()
            )
        return state

    # What works for one log and not, or differently, for several.

    def prove(self, index: int) -> str:
        """Verify all logs, then prove that an entry is in its worker's log.

        `index` is the entry's number among the entries of all logs.
        """
        found = next((one for number, one in enumerate(self._merged()) if number == index), None)
        if found is None:
            raise InvalidRequest(f"there is no entry {index}: the logs have entries 0 to {self.size() - 1}")
        verifier, report = self._run(None, None)
        if not report.is_sound:
            raise Tampered(
                "the logs have flaws, so nothing was proven", hint="run vault.audit.verify(), which lists every fault"
            )
        _, worker, number = found
        walked, log = verifier.walked[worker], self._state.log
        leaves = [merkle_log.leaf_hash(data) for _, data in walked.entries]
        path = merkle_log.inclusion_proof(lambda low, high: merkle_log.tree_hash(leaves[low:high]), number, len(leaves))
        note = log.sign(merkle_log.Checkpoint(log.origin_of(worker), *walked.checkpoint))
        return merkle_log.Proof(number, tuple(path), note).text()

    def export(self, directory: str | Path) -> int:  # noqa: ARG002
        raise InvalidRequest(
            "the logs of a vault in a bucket cannot be exported as one log",
            hint="`strongroom audit show --json` prints all entries",
        )

    def accept_restore(self) -> VerificationReport:
        raise InvalidRequest(
            "a vault in a bucket is not restored from a backup, so there is no roll-back to accept",
            hint="to go back to a copy, use `strongroom migrate`",
        )

    def archive(self, directory: str | Path, *, keep: int = 0) -> int:  # noqa: ARG002
        raise InvalidRequest("the log of a vault in a bucket cannot be archived")


def _note(name: str) -> str:
    return f"{name} was forgotten, but its bytes are still in the bucket; the next compaction of its actor removes them"


def audit_of(clerk: DecisionRecorder, witness: Witness) -> Audit:
    """The owner's view of a vault's log, or of the logs of its workers."""
    store = clerk.state.store
    return FleetAudit(clerk, witness, store) if isinstance(store, FleetStore) else Audit(clerk, witness)
