"""Verification: is the log sound, does it continue its last seen checkpoint, and do log and store agree?

Works offline on any copy of the vault, given its keys. Every flaw has a name, and all flaws are reported. The report is
`ok` only if there was a checkpoint to compare with, because an older copy of the vault is as sound as the newest.
Anyone who holds the keys *and* the files could still have rewritten the entries after the last checkpoint that was kept
elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from strongroom.audit.entry import Decision, Entry, Mark, decode_entry, encode_hash
from strongroom.audit.log import AuditLog, VaultMac, Witness, bundle_path
from strongroom.audit.object_history import VAULT
from strongroom.audit.unfinished_entries import Unsettled
from strongroom.crypto import merkle_log
from strongroom.errors import KeyUnavailable, Tampered
from strongroom.store import Head, Object, Store, Version

Progress = Callable[[int, int], None]
"""A progress callback. It is called with the amount done and the total."""


class Flaw(StrEnum):
    """The name of each kind of flaw."""

    HEAD_FORGED = "head_forged"
    LOG_ROLLED_BACK = "log_rolled_back"
    LOG_FORKED = "log_forked"
    LOG_TRUNCATED = "log_truncated"
    LOG_EDITED = "log_edited"
    ENTRY_EDITED = "entry_edited"
    ENTRY_MISSING = "entry_missing"
    ENTRY_EXTRA = "entry_extra"
    WITNESS_INVALID = "witness_invalid"
    ARCHIVE_DAMAGED = "archive_damaged"
    OBJECT_MISSING = "object_missing"
    OBJECT_EXTRA = "object_extra"
    OBJECT_ALTERED = "object_altered"
    OBJECT_REVIVED = "object_revived"
    LOG_MISSING = "log_missing"
    LOG_UNKNOWN = "log_unknown"
    ROSTER_FORGED = "roster_forged"
    ROSTER_MISSING = "roster_missing"


class Finding(msgspec.Struct, frozen=True):
    """One flaw. Its place is an entry of the log (its index), or an object of the store (its name)."""

    flaw: Flaw
    message: str
    entry: int | None = None
    object: str | None = None


class VerificationReport(msgspec.Struct, frozen=True):
    """The extent and the findings of a verification.

    `seen_before` is the number of entries that the last seen checkpoint covers. If there was no usable checkpoint, it
    is None, and a roll-back cannot be ruled out. `unsettled` are entries of workers that were begun and never stated as
    done. `recent` is the number of such entries that are too young to be judged. `notes` are no flaws, but the owner
    should act on them.
    """

    size: int
    root: str
    objects: int
    findings: tuple[Finding, ...] = ()
    logs: int = 1
    seen_before: int | None = None
    unsettled: tuple[Unsettled, ...] = ()
    recent: int = 0
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if log and store have no flaw, and the log continues its last seen checkpoint.

        False also if an effect of an unsettled entry is missing and was not reported before: a write that was
        acknowledged may be lost.
        """
        return self.is_sound and self.seen_before is not None and not self.doubtful

    @property
    def is_sound(self) -> bool:
        """True if log and store show no flaw. An older copy of the vault shows no flaw either."""
        return not self.findings

    @property
    def doubtful(self) -> tuple[Unsettled, ...]:
        """Entries that are not confirmed as carried out, and whose effect is missing.

        Entries that an earlier verification has reported are left out.
        """
        return tuple(one for one in self.unsettled if one.is_doubtful)

    def with_findings(self, more: Sequence[tuple[Flaw, str]]) -> VerificationReport:
        """A copy of the report with these flaws added in front."""
        found = [Finding(flaw, message) for flaw, message in more]
        return msgspec.structs.replace(self, findings=(*found, *self.findings))


class Expected(msgspec.Struct, dict=True):
    """The last logged state of each object that the store must hold, by the actor's tag ("" for the vault)."""

    size: int = 0
    owners: dict[str, dict[str, Mark]] = {}

    def __post_init__(self) -> None:
        self._by_shelf: dict[str, dict[str, set[str]]] = {}
        """An index of objects' tags by namespace, for actors with an erased namespace. It is not encoded."""

    def apply(self, entry: Entry) -> None:
        """Add one entry. If the entry erases, the erasure comes before its object states."""
        if entry.decision != Decision.ALLOW:
            return
        if entry.erased == "actor":
            self.owners.pop(entry.actor, None)
            self._by_shelf.pop(entry.actor, None)
        if entry.erased == "namespace":
            self._empty(entry.actor, entry.namespaces)
        for mark in entry.objects:
            owner = "" if mark.shelf == VAULT else entry.actor
            self.owners.setdefault(owner, {})[mark.tag] = mark
            if owner in self._by_shelf:
                self._by_shelf[owner].setdefault(mark.shelf, set()).add(mark.tag)

    def _empty(self, owner: str, shelves: Sequence[str]) -> None:
        """Remove the objects of some namespaces of an actor.

        The actor's objects are indexed by namespace at its first erasure. Otherwise a small namespace that is erased
        again and again would each time need a scan of the actor's large namespaces.
        """
        held = self.owners.setdefault(owner, {})
        if owner not in self._by_shelf:
            found = self._by_shelf[owner] = {}
            for tag, mark in held.items():
                found.setdefault(mark.shelf, set()).add(tag)
        for shelf in shelves:
            for tag in self._by_shelf[owner].pop(shelf, ()):
                held.pop(tag, None)

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


TagOf = Callable[[str], tuple[str, str]]
"""Maps an object's name to two tags: the actor's ("" for the vault) and the object's.

Raises Tampered if the actor's keys do not open.
"""


class _Found(msgspec.Struct, frozen=True):
    """An object as it was listed: the hash of its body, and its tags.

    The hash of a tombstone is None. The tags are None if the actor's keys cannot be read.
    """

    name: str
    body: bytes | None
    tags: tuple[str, str] | None


_DERIVED = re.compile(r"actors/[0-9a-f]{32}/memory/[0-9a-f]{32}/derived/[a-z0-9.-]+(?:/[a-z0-9.-]+)?")
"""The names of objects that may exist without a log entry. Any other object must be in the log."""

_OBJECTS = {Flaw.OBJECT_MISSING, Flaw.OBJECT_EXTRA, Flaw.OBJECT_ALTERED, Flaw.OBJECT_REVIVED}
_LOOKS = 5
"""The most comparisons of objects with the log, if they do not match while others write."""


class Verifier:
    """One run of verification over one store."""

    def __init__(
        self,
        store: Store,
        log: AuditLog,
        mac: VaultMac,
        tag_of: TagOf,
        archived: Expected | None,
        catch_up: Callable[[], None],
    ) -> None:
        self._store = store
        self._catch_up = catch_up
        self._log = log
        self._mac = mac
        self._tag_of = tag_of
        self._archived = archived
        self._findings: list[Finding] = []
        self._gone: list[int] = []

    def run(
        self, witness: Witness, archive: Path | None = None, progress: Progress | None = None
    ) -> VerificationReport:
        """Verify the log and all objects.

        If objects do not match while others write, the comparison is repeated before anything is reported.
        """
        for _ in range(_LOOKS):
            self._findings = []
            before = self._newest()
            # Tags are made with cached keys, which must be no older than the objects they tag.
            self._refresh()
            report = self._look(before, witness, archive, progress or (lambda *_: None))
            if self._store.version() == before or not any(one.flaw in _OBJECTS for one in report.findings):
                break
        return report

    def _look(self, before: Version, witness: Witness, archive: Path | None, progress: Progress) -> VerificationReport:
        if self._store.version() < before:
            self._find(Flaw.HEAD_FORGED, "the store has changes that its head does not count")
        objects = list(self._objects())
        seen = self._read_witness(witness)
        head = self._store.head()
        self._check_head(head)
        root, expected = self._walk(head, seen, archive, progress)
        moved = {change.name for change in self._changes(before)}
        self._refresh()
        self._reconcile([thing for thing in objects if thing.name not in moved], expected, moved)
        return VerificationReport(
            head.size,
            root.hex(),
            len(objects),
            tuple(self._findings),
            seen_before=None if seen is None else seen.size,
        )

    def _refresh(self) -> None:
        with suppress(Tampered):  # a flaw that stops a running process is one to report here
            self._catch_up()

    def _newest(self) -> Version:
        """The number of the latest change, read from the objects.

        The number in the log's head is not used, because it is not authenticated.
        """
        newest = 0
        for change in self._changes(0):
            newest = change.version
        return newest

    def _find(self, flaw: Flaw, message: str, *, entry: int | None = None, name: str | None = None) -> None:
        self._findings.append(Finding(flaw, message, entry, name))

    def _check_head(self, head: Head) -> None:
        try:
            self._mac.check(head)
        except Tampered:
            self._find(Flaw.HEAD_FORGED, "the log's head was not written with this vault's keys")

    def _read_witness(self, witness: Witness) -> merkle_log.Checkpoint | None:
        try:
            note = witness.read()
            return None if note is None else self._log.open_checkpoint(note)
        except (Tampered, KeyUnavailable) as error:
            self._find(Flaw.WITNESS_INVALID, f"the last seen checkpoint cannot be used: {error.message}")
            return None

    def _walk(
        self, head: Head, seen: merkle_log.Checkpoint | None, archive: Path | None, progress: Progress
    ) -> tuple[bytes, Expected]:
        """Read the log once and check its leaves and tree.

        The log is also compared with the last seen checkpoint, and the objects that must exist are collected.
        """
        self._gone = []
        edge, expected = merkle_log.Range(), self._start(archive)
        first = expected.size
        for number, leaf, entry in self._rows(head, archive):
            edge.append(leaf)
            if seen is not None and edge.size == seen.size and edge.root() != seen.root:
                self._find(
                    Flaw.LOG_FORKED, "a part of the log before the last seen checkpoint was rewritten", entry=number
                )
            if number >= first or entry is not None:
                self._take(expected, number, leaf, entry, counted=number < first)
            if number % 4096 == 0:
                progress(number, head.size)
        progress(head.size, head.size)
        if seen is not None and head.size < seen.size:
            message = f"the log has {head.size} entries, but {seen.size} were seen before"
            self._find(Flaw.LOG_ROLLED_BACK, message)
        if edge.size == head.size and edge.packed() != head.peaks:
            self._find(Flaw.LOG_EDITED, "the entries do not match the log's head")
        extra = next(self._store.entries(head.size, 2**62), None)
        if extra is not None and self._store.head().size <= extra[0]:
            self._find(Flaw.ENTRY_EXTRA, "there are entries after the end of the log", entry=extra[0])
        if self._gone:
            message = f"{len(self._gone)} entries are gone that were never archived"
            self._find(Flaw.ENTRY_MISSING, message, entry=self._gone[0])
        return edge.root(), expected

    def _start(self, archive: Path | None) -> Expected:
        if archive is None and self._archived is not None:
            return Expected(self._archived.size, {owner: dict(held) for owner, held in self._archived.owners.items()})
        return Expected(0, {})

    def _rows(self, head: Head, archive: Path | None) -> Iterator[tuple[int, bytes, bytes | None]]:
        number = 0
        bundled: list[bytes] = []
        for found, leaf, entry in self._store.entries(0, head.size):
            if found != number:
                self._find(Flaw.ENTRY_MISSING, f"{found - number} entries are missing", entry=number)
            number = found + 1
            if entry is None and archive is not None:
                if found % merkle_log.TILE_WIDTH == 0 or not bundled:
                    bundled = self._bundle(archive, found // merkle_log.TILE_WIDTH)
                place = found % merkle_log.TILE_WIDTH
                entry = bundled[place] if place < len(bundled) else b""
            yield found, leaf, entry
        if number < head.size:
            self._find(Flaw.LOG_TRUNCATED, f"the last {head.size - number} entries are missing", entry=number)

    def _bundle(self, archive: Path, number: int) -> list[bytes]:
        try:
            found = merkle_log.unbundle(bundle_path(archive, number).read_bytes())
        except (OSError, Tampered):
            found = []
        if len(found) != merkle_log.TILE_WIDTH:
            self._find(Flaw.ARCHIVE_DAMAGED, f"the archived entry bundle {number} cannot be read")
            return [b""] * merkle_log.TILE_WIDTH
        return found

    def _take(self, expected: Expected, number: int, leaf: bytes, entry: bytes | None, *, counted: bool) -> None:
        """Check one entry, and add it to the expected objects.

        An entry that the summary of archived entries covers (`counted`) is not added again.
        """
        if entry is None:
            self._gone.append(number)
            return
        if merkle_log.leaf_hash(entry) != leaf:
            self._find(Flaw.ENTRY_EDITED, "an entry differs from the one that was logged", entry=number)
            return
        try:
            said = decode_entry(entry)
        except Tampered:
            self._find(Flaw.ENTRY_EDITED, "an entry cannot be read", entry=number)
            return
        if not counted:
            expected.apply(said)

    def _objects(self) -> Iterator[_Found]:
        after = ""
        while page := self._store.list("", after, 1000):
            # Only digests are kept, because a large vault need not fit into memory. Tags are made at once, because the
            # keys for them may be erased meanwhile.
            for thing in page:
                if _DERIVED.fullmatch(thing.name):
                    self._check_derived(thing.name)
                else:
                    body = None if thing.body is None else hashlib.sha256(thing.body).digest()
                    yield _Found(thing.name, body, self._tags(thing.name))
            after = page[-1].name

    def _check_derived(self, name: str) -> None:
        """Check that the actor of a derived object exists. Derived objects are not in the log."""
        if self._store.get(owner_part(name)) is None and self._store.get(name) is not None:
            self._find(Flaw.OBJECT_EXTRA, "the store has an object of an actor that never existed", name=name)

    def _tags(self, name: str) -> tuple[str, str] | None:
        try:
            return self._tag_of(name)
        except (Tampered, KeyUnavailable):
            return None

    def _changes(self, after: int) -> Iterator[Object]:
        while page := self._store.changes(after):
            yield from page
            after = page[-1].version

    def _reconcile(self, objects: list[_Found], expected: Expected, moved: set[str]) -> None:
        unreadable: set[str] = set()
        for thing in objects:
            if thing.tags is None:
                unreadable.add(owner_part(thing.name))
                continue
            owner, tag = thing.tags
            self._compare(thing, expected.owners.get(owner, {}).pop(tag, None))
        for name in sorted(unreadable):
            self._find(Flaw.OBJECT_ALTERED, "an actor's keys do not open, so its objects cannot be checked", name=name)
        for tags in map(self._tags, moved):
            if tags is not None:
                expected.owners.get(tags[0], {}).pop(tags[1], None)
        if unreadable:
            return  # objects under unreadable keys cannot be told from missing ones
        missing = [mark for held in expected.owners.values() for mark in held.values()]
        for mark in missing:
            what = "a tombstone" if not mark.digest else "an object"
            self._find(Flaw.OBJECT_MISSING, f"{what} that was logged is not in the store (tag {mark.tag})")

    def _compare(self, thing: _Found, mark: Mark | None) -> None:
        if mark is None:
            if self._store.get(thing.name) is None:
                return  # erased since it was listed
            self._find(Flaw.OBJECT_EXTRA, "the store has an object that was never logged", name=thing.name)
        elif thing.body is None and mark.digest:
            self._find(Flaw.OBJECT_MISSING, "an object was deleted without a log entry", name=thing.name)
        elif thing.body is not None and not mark.digest:
            self._find(Flaw.OBJECT_REVIVED, "a deleted object is back", name=thing.name)
        elif thing.body is not None and mark.digest != encode_hash(thing.body):
            self._find(Flaw.OBJECT_ALTERED, "an object differs from the one that was logged", name=thing.name)


def owner_part(name: str) -> str:
    return "/".join(name.split("/")[:2]) + "/keys"
