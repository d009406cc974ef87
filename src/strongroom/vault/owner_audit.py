"""The owner's view of the log: read, verify, prove an entry, store a checkpoint, archive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from strongroom.audit.entry import Entry
from strongroom.audit.log import Witness
from strongroom.audit.verifier import Flaw, Progress, VerificationReport, Verifier
from strongroom.crypto import merkle_log
from strongroom.errors import InvalidRequest, StoreUnavailable, Tampered
from strongroom.memory import DecisionRecorder
from strongroom.store.fleet_contract import FleetStore
from strongroom.vault.log_archive import LogArchive

_ROLLBACKS = {Flaw.LOG_ROLLED_BACK, Flaw.LOG_FORKED}
_BLOCK = 1024
BETWEEN = "\n=\n"
"""The separator between two notes in a text. No line of a note is a single equals sign."""
_ONE_LOG = re.compile(r"strongroom/[^/\n]+\n")
_WORKERS_LOG = re.compile(r"strongroom/[^/\n]+/[^/\n]+\n")


class SeenOf(Witness):
    """The part of a witness file for one kind of vault: for a file with one log, or for a bucket with workers' logs.

    A vault that was migrated has checkpoints of both kinds in one witness file. Writing one kind leaves the other as it
    is.
    """

    def __init__(self, all_of_it: Witness, *, is_fleet: bool) -> None:
        super().__init__(all_of_it.path)
        self._all = all_of_it
        self._other = _ONE_LOG if is_fleet else _WORKERS_LOG

    def read(self) -> str | None:
        """The notes for logs of this kind.

        Text that is no note is included, so that verification reports it.
        """
        notes = [one for one in self._notes() if not self._other.match(one)]
        return BETWEEN.join(notes) if notes else None

    def keep(self, note: str) -> None:
        self._all.keep(BETWEEN.join(sorted([*self._others(), note])))

    def clear(self) -> None:
        """Remove the notes for logs of this kind."""
        if others := self._others():
            self._all.keep(BETWEEN.join(others))
        else:
            self._all.path.unlink(missing_ok=True)

    def _others(self) -> list[str]:
        return [one for one in self._notes() if self._other.match(one)]

    def age(self) -> float | None:
        return self._all.age()

    def _notes(self) -> list[str]:
        text = self._all.read()
        return [] if text is None else text.split(BETWEEN)


class EntryOf(NamedTuple):
    """An entry with its number.

    `entry` is None if it was archived. `worker` is the worker that wrote the entry, if each has a log.
    """

    number: int
    entry: Entry | None
    worker: str = ""


class Audit:
    """`vault.audit` of a vault with one log."""

    def __init__(self, clerk: DecisionRecorder, witness: Witness) -> None:
        self._clerk = clerk
        self._state = clerk.state
        self._witness = SeenOf(witness, is_fleet=isinstance(clerk.state.store, FleetStore))
        # A file, not the log: the entry `backup` is written before the copy, and the copy may fail.
        self._backup = Witness(witness.path.parent / "last-backup")
        self._archive = LogArchive(clerk)

    @property
    def verifier_key(self) -> str:
        """The log's public key as a signed-note verifier key."""
        return self._state.log.verifier_key

    @property
    def public_key(self) -> bytes:
        """The Ed25519 public key of the log."""
        return self._state.log.public_key

    @property
    def origin(self) -> str:
        """The name of the log in its checkpoints."""
        return self._state.log.origin

    def size(self) -> int:
        """The number of entries in the log."""
        return self._state.log.size()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Entry | None]]:
        """Entries with their numbers. An archived entry is None."""
        return self._state.log.entries(start, stop)

    def newest(self) -> Iterator[EntryOf]:
        """The entries, newest first.

        They are read in blocks, so that a caller that stops early does not read the rest.
        """
        stop = self.size()
        while stop > 0:
            start = max(0, stop - _BLOCK)
            yield from (EntryOf(*one) for one in reversed(list(self.entries(start, stop))))
            stop = start

    def seen_age(self) -> float | None:
        """Seconds since a checkpoint was last stored as seen; None if no checkpoint was stored."""
        return self._witness.age()

    def backup_age(self) -> float | None:
        """Seconds since the last backup with these keys was made and verified; None if there is no such backup."""
        return self._backup.age()

    def keep_backup(self, note: str) -> None:
        """Store a backup's checkpoint beside the keys, for `backup_age`."""
        self._backup.keep(note)

    def look(self, *, archive: str | Path | None = None, progress: Progress | None = None) -> VerificationReport:
        """Verify the vault without storing a checkpoint. Also works on a vault that does not open."""
        return self._verify(archive, progress)

    def verify(
        self, *, archive: str | Path | None = None, progress: Progress | None = None, first: bool = False
    ) -> VerificationReport:
        """Check the log's tree, head and last seen checkpoint, and that log and store agree.

        If all is sound, a checkpoint is stored as last seen. If there was no checkpoint before, the report is not `ok`,
        and a checkpoint is stored only with `first`.
        """
        report = self._verify(archive, progress)
        if report.is_sound:
            checked = merkle_log.Checkpoint(self.origin, report.size, bytes.fromhex(report.root))
            self._keep_if_newer(checked, first=first)
        return report

    def checkpoint(self, *, first: bool = False) -> str:
        """Sign the log as it is now, and store that checkpoint as last seen.

        Raises `Tampered` if the log does not continue the last seen checkpoint. If there was no checkpoint before, the
        new one is stored only with `first`: an earlier roll-back can then not be found any more.
        """
        log = self._state.log
        seen = self.seen()  # read before signing: a newer checkpoint of another process is not a roll-back
        note = log.checkpoint()
        new = log.open_checkpoint(note)
        if seen is not None and not self._continues(seen, new.size):
            raise Tampered(
                "the log does not continue the last seen checkpoint",
                hint="run vault.audit.verify(), which lists every fault",
            )
        self._keep_if_newer(new, first=first)
        return note

    def seen(self) -> merkle_log.Checkpoint | None:
        """The last seen checkpoint; None if no checkpoint was stored.

        Raises `Tampered` or `KeyUnavailable` if the checkpoint cannot be used.
        """
        note = self._witness.read()
        return None if note is None else self._state.log.open_checkpoint(note)

    def is_seen(self) -> bool:
        """Whether a last seen checkpoint is stored, usable or not."""
        return self._witness.read() is not None

    def is_extended(self) -> bool:
        """Whether the store has entries after the end of the log. No process with the keys writes such entries."""
        found = next(self._state.store.entries(self.size(), 2**62), None)
        return found is not None and self.size() <= found[0]

    def continues(self, seen: merkle_log.Checkpoint) -> bool:
        """Whether the log continues a checkpoint, according to the hashes in the store.

        `verify` checks these hashes against the entries.
        """
        return self._continues(seen, self.size())

    def _continues(self, seen: merkle_log.Checkpoint, size: int) -> bool:
        return seen.size <= size and (not seen.size or self._state.log.read_range(0, seen.size) == seen.root)

    def prove(self, index: int) -> str:
        """Prove that entry `index` is in the log. Returns the text of a c2sp.org/tlog-proof."""
        return self._state.log.prove(index)

    def export(self, directory: str | Path) -> int:
        """Write the log as c2sp.org/tlog-tiles files. Returns the number of entries."""
        try:
            return self._state.log.export(Path(directory))
        except OSError as error:
            raise StoreUnavailable(f"the log cannot be written to {directory}: {error.strerror}") from None

    def _keep_if_newer(self, checked: merkle_log.Checkpoint, *, first: bool) -> None:
        """Store the verified checkpoint, except if another process has stored a newer one."""
        seen = self.seen()
        if first if seen is None else seen.size <= checked.size:
            self._witness.keep(self._state.log.sign(checked))

    def accept_restore(self) -> VerificationReport:
        """After restoring a backup: accept that the log is older than the last seen checkpoint, and store a new one.

        The log records this. Only a roll-back is accepted; any other finding raises `Tampered`.
        """
        report = self._verify(None, None)
        others = [finding for finding in report.findings if finding.flaw not in _ROLLBACKS]
        if others:
            raise Tampered(
                f"the restored vault has another flaw: {others[0].flaw}",
                hint="run vault.audit.verify(), which lists every fault",
            )
        if report.is_sound:
            raise _nothing_to_accept(report)
        seen = self.seen()
        before = "" if seen is None else seen.text().replace("\n", " ").strip()
        self._clerk.admin.record_owner("accept-restore", detail=f"last seen: {before}")
        self._witness.keep(self._state.log.checkpoint())
        return report

    def archive(self, directory: str | Path, *, keep: int = 0) -> int:
        """Move all entries but the newest `keep` into `directory`, as entry bundles.

        Returns the number of entries moved. Only whole entry bundles, of 256 entries each, are moved. The tree keeps
        the hashes of the entries, so every entry can still be proven. The vault keeps a summary of their effects, so it
        can be verified without these entries.
        """
        if keep < 0:
            raise InvalidRequest("keep must be a number of entries, at least 0")
        report = self._verify(None, None)
        if not report.is_sound:
            raise Tampered(
                "the log has flaws, so nothing was archived", hint="run vault.audit.verify(), which lists every fault"
            )
        return self._archive.move(Path(directory), max(report.size - keep, 0))

    def _verify(self, archive: str | Path | None, progress: Progress | None) -> VerificationReport:
        state = self._state
        try:
            archived = self._archive.summary()
        except Tampered:
            archived = None  # the log has its hash, so verification reports it
        verifier = Verifier(state.store, state.log, state.mac, state.tag_of, archived, state.catch_up)
        return verifier.run(self._witness, None if archive is None else Path(archive), progress)


def _nothing_to_accept(report: VerificationReport) -> InvalidRequest:
    if report.ok:
        return InvalidRequest("the vault was not rolled back, so there is no roll-back to accept")
    return InvalidRequest(
        "there is no earlier checkpoint, so nobody can tell whether the log was rolled back",
        hint="to accept the log as it is now, call vault.audit.checkpoint(first=True)",
    )
