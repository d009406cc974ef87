"""The owner's view of the log: read it, verify it, prove an entry, keep a checkpoint, archive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from strongroom.audit.entry import Entry, decode_entry
from strongroom.audit.log import Witness
from strongroom.audit.verifier import Expected, Flaw, Progress, VerificationReport, Verifier
from strongroom.crypto import merkle_log
from strongroom.errors import InvalidRequest, StoreUnavailable, Tampered
from strongroom.memory import DecisionRecorder
from strongroom.memory.vault_records import ARCHIVED
from strongroom.store import Lost, PutNew, Swap
from strongroom.store.fleet_contract import FleetStore

_ROLLBACKS = {Flaw.LOG_ROLLED_BACK, Flaw.LOG_FORKED}
_BLOCK = 1024
BETWEEN = "\n=\n"
"""Between two notes; no line of a note is a single equals sign."""
_ONE_LOG = re.compile(r"strongroom/[^/\n]+\n")
_WORKERS_LOG = re.compile(r"strongroom/[^/\n]+/[^/\n]+\n")


class SeenOf(Witness):
    """What was seen of a vault in one kind of place: of its one log in a file, or of its workers' in a bucket.

    A vault that was moved has been seen in both, and what was seen of the other place stays in the same witness.
    """

    def __init__(self, all_of_it: Witness, *, is_fleet: bool) -> None:
        super().__init__(all_of_it.path)
        self._all = all_of_it
        self._other = _ONE_LOG if is_fleet else _WORKERS_LOG

    def read(self) -> str | None:
        """The notes of this kind, and whatever is none: that is to be found."""
        notes = [one for one in self._notes() if not self._other.match(one)]
        return BETWEEN.join(notes) if notes else None

    def keep(self, note: str) -> None:
        self._all.keep(BETWEEN.join(sorted([*self._others(), note])))

    def clear(self) -> None:
        """As if nothing of this kind had ever been seen."""
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
    """An entry by its number; None where it has been archived. `worker` says whose log it is in, of several."""

    number: int
    entry: Entry | None
    worker: str = ""


class Audit:
    """What `vault.audit` is."""

    def __init__(self, clerk: DecisionRecorder, witness: Witness) -> None:
        self._clerk = clerk
        self._state = clerk.state
        self._witness = SeenOf(witness, is_fleet=isinstance(clerk.state.store, FleetStore))
        # Not the log: its entry `backup` is written before the copy, which may fail.
        self._backup = Witness(witness.path.parent / "last-backup")

    @property
    def verifier_key(self) -> str:
        """The log's public key, for tools that read signed notes."""
        return self._state.log.verifier_key

    @property
    def public_key(self) -> bytes:
        """The log's Ed25519 public key."""
        return self._state.log.public_key

    @property
    def origin(self) -> str:
        """The log's name in its checkpoints."""
        return self._state.log.origin

    def size(self) -> int:
        """How many entries the log has."""
        return self._state.log.size()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Entry | None]]:
        """Entries with their index; None where one has been archived."""
        return self._state.log.entries(start, stop)

    def newest(self) -> Iterator[EntryOf]:
        """Every entry, newest first: who looks for some of the newest need not read the rest."""
        stop = self.size()
        while stop > 0:
            start = max(0, stop - _BLOCK)
            yield from (EntryOf(*one) for one in reversed(list(self.entries(start, stop))))
            stop = start

    def seen_age(self) -> float | None:
        """Seconds since a checkpoint was last kept as seen; None if none ever was."""
        return self._witness.age()

    def backup_age(self) -> float | None:
        """Seconds since a backup was last made and verified with these keys; None if none ever was."""
        return self._backup.age()

    def keep_backup(self, note: str) -> None:
        """Remember, beside the keys, that a backup was made: the checkpoint that it holds."""
        self._backup.keep(note)

    def look(self, *, archive: str | Path | None = None, progress: Progress | None = None) -> VerificationReport:
        """Check as `verify` does, but keep nothing as seen: fit for a vault that does not even open."""
        return self._verify(archive, progress)

    def verify(
        self, *, archive: str | Path | None = None, progress: Progress | None = None, first: bool = False
    ) -> VerificationReport:
        """Check tree, head, what was last seen, and that log and store agree. If all is well, it is seen now.

        Where nothing was seen before, nothing is kept and the report is not `ok`, unless `first` says to begin here.
        """
        report = self._verify(archive, progress)
        if report.is_sound:
            checked = merkle_log.Checkpoint(self.origin, report.size, bytes.fromhex(report.root))
            self._keep_if_newer(checked, first=first)
        return report

    def checkpoint(self, *, first: bool = False) -> str:
        """Sign the log as it stands and keep that as last seen. Tampered if it does not continue what was seen.

        Where nothing was seen before, it is signed and not kept, unless `first` says to begin here: a roll-back that
        was made until now is not found any more then.
        """
        log = self._state.log
        seen = self.seen()  # before signing: what another process keeps meanwhile is no rollback
        note = log.checkpoint()
        new = log.open_checkpoint(note)
        if seen is not None and not self._continues(seen, new.size):
            raise Tampered(
                "the log does not continue what was last seen", hint="vault.audit.verify() names what is wrong"
            )
        self._keep_if_newer(new, first=first)
        return note

    def seen(self) -> merkle_log.Checkpoint | None:
        """The checkpoint last seen; None if none was kept. Tampered or KeyUnavailable if it cannot be used."""
        note = self._witness.read()
        return None if note is None else self._state.log.open_checkpoint(note)

    def is_seen(self) -> bool:
        """Whether anything was kept as last seen, usable or not."""
        return self._witness.read() is not None

    def is_extended(self) -> bool:
        """Whether there are entries behind the log's end, where no process of this vault puts any."""
        found = next(self._state.store.entries(self.size(), 2**62), None)
        return found is not None and self.size() <= found[0]

    def continues(self, seen: merkle_log.Checkpoint) -> bool:
        """Whether the log continues a checkpoint. Only hashes are read: whether they fit the entries, `verify` says."""
        return self._continues(seen, self.size())

    def _continues(self, seen: merkle_log.Checkpoint, size: int) -> bool:
        return seen.size <= size and (not seen.size or self._state.log.read_range(0, seen.size) == seen.root)

    def prove(self, index: int) -> str:
        """A proof that entry `index` is in the log, as c2sp.org/tlog-proof text."""
        return self._state.log.prove(index)

    def export(self, directory: str | Path) -> int:
        """Write the log as c2sp.org/tlog-tiles files; returns the number of entries."""
        try:
            return self._state.log.export(Path(directory))
        except OSError as error:
            raise StoreUnavailable(f"the log cannot be written to {directory}: {error.strerror}") from None

    def _keep_if_newer(self, checked: merkle_log.Checkpoint, *, first: bool) -> None:
        """Keep exactly what was checked, unless another process has meanwhile kept more."""
        seen = self.seen()
        if first if seen is None else seen.size <= checked.size:
            self._witness.keep(self._state.log.sign(checked))

    def accept_restore(self) -> VerificationReport:
        """After restoring a backup: record that the log is older than what was seen, and take it as seen.

        Only a rollback is accepted; any other finding raises Tampered.
        """
        report = self._verify(None, None)
        others = [finding for finding in report.findings if finding.flaw not in _ROLLBACKS]
        if others:
            raise Tampered(
                f"the restored vault has another flaw: {others[0].flaw}",
                hint="vault.audit.verify() names what is wrong",
            )
        if report.is_sound:
            raise self._nothing_to_accept(report)
        seen = self.seen()
        before = "" if seen is None else seen.text().replace("\n", " ").strip()
        self._clerk.admin.record_owner("accept-restore", detail=f"last seen: {before}")
        self._witness.keep(self._state.log.checkpoint())
        return report

    def _nothing_to_accept(self, report: VerificationReport) -> InvalidRequest:
        if report.ok:
            return InvalidRequest("nothing was rolled back, so there is nothing to accept")
        return InvalidRequest(
            "nothing was kept as last seen, so whether the log was rolled back is not known",
            hint="vault.audit.checkpoint(first=True) takes it as it stands",
        )

    def archive(self, directory: str | Path, *, keep: int = 0) -> int:
        """Move old entries into `directory` as entry bundles, all but the newest `keep`. Returns how many left.

        Only whole bundles of 256 move. The tree keeps their hashes, so everything stays provable, and the vault keeps
        what they said about its objects, so it stays verifiable without them.
        """
        if keep < 0:
            raise InvalidRequest("keep is a number of entries")
        report = self._verify(None, None)
        if not report.is_sound:
            raise Tampered("the log has flaws; nothing was archived", hint="vault.audit.verify() names what is wrong")
        expected = self._archived() or Expected(0, {})
        before = expected.size
        # What an interrupted run had written and recorded, but not dropped yet.
        self._state.store.archive(before)
        stop = max(report.size - keep, 0) // merkle_log.TILE_WIDTH * merkle_log.TILE_WIDTH
        if stop <= before:
            return 0
        try:
            self._state.log.export(Path(directory))
            self._check_bundles(Path(directory), expected, stop)
            stored = self._state.store.get(ARCHIVED)
            body = expected.encoded()
            effect = PutNew(ARCHIVED, body) if stored is None else Swap(ARCHIVED, body, stored.version)
            self._clerk.admin.record_owner("archive", [effect], detail=f"entries before {stop}")
        except OSError as error:
            raise StoreUnavailable(f"the archive cannot be written or read back: {error}") from None
        except Lost:
            raise StoreUnavailable("another process is archiving", hint="try again") from None
        self._state.store.archive(stop)
        if not self._state.store.scrub():
            raise StoreUnavailable(
                "archived, but another process is reading, so what was archived may still lie in the journal",
                hint="vault.scrub() removes it when that has finished; so do a server and `strongroom doctor`",
            )
        return stop - before

    def _check_bundles(self, directory: Path, expected: Expected, stop: int) -> None:
        """Read back what was written, against the tree's own hashes, before anything is dropped."""
        bundles: list[bytes] = []
        for number, leaf, _ in self._state.store.entries(expected.size, stop):
            if number % merkle_log.TILE_WIDTH == 0:
                path = directory / "tile" / "entries" / merkle_log.tile_path(number // merkle_log.TILE_WIDTH)
                bundles = merkle_log.unbundle(path.read_bytes())
            entry = bundles[number % merkle_log.TILE_WIDTH] if len(bundles) == merkle_log.TILE_WIDTH else b""
            if merkle_log.leaf_hash(entry) != leaf:
                raise Tampered("an archived bundle does not read back as written")
            expected.apply(decode_entry(entry))
        expected.size = stop

    def _archived(self) -> Expected | None:
        stored = self._state.store.get(ARCHIVED)
        if stored is None or stored.body is None:
            return None
        try:
            return msgspec.json.decode(stored.body, type=Expected)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Tampered("the summary of archived entries is damaged") from None

    def _verify(self, archive: str | Path | None, progress: Progress | None) -> VerificationReport:
        state = self._state
        try:
            archived = self._archived()
        except Tampered:
            archived = None  # the log knows its hash: verification names it
        verifier = Verifier(state.store, state.log, state.mac, state.tag_of, archived, state.catch_up)
        return verifier.run(self._witness, None if archive is None else Path(archive), progress)
