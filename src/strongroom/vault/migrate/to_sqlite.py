"""Move a vault out of a bucket into a SQLite file, which has one log.

The file is written under another name, and renamed after all of its objects have been compared. Its log begins with an
entry `migrate`, followed by the entries of all workers' logs, merged by time. Workers log intents, and their clocks
differ, so the merged entries may describe another state than the real one. If they do, entries `migrate` at the end
record the real state.
"""

from __future__ import annotations

import hashlib
import heapq
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from strongroom.audit.entry import Decision, Entry, Mark, decode_entry, digest
from strongroom.audit.fleet_verifier import told_entries
from strongroom.audit.verifier import Expected
from strongroom.errors import InvalidRequest, StoreUnavailable, Tampered, VaultExists, VaultMissing
from strongroom.memory.vault_records import ARCHIVED
from strongroom.model import Millis
from strongroom.store import Delete, Effect, Object, PutNew
from strongroom.store.fleet_contract import FleetStore, LogBundle
from strongroom.store.sqlite import SqliteStore
from strongroom.vault import create_open
from strongroom.vault.backup import _settle, check_free
from strongroom.vault.create_open import Clock
from strongroom.vault.migrate.move import OP, PAGE, Bars, MigrationOrigin, Moved

_ROWS = 512
_MARKS = 256
"""The most object states (marks) in one entry. An entry can hold far more."""


class ToFile:
    """One run of a move from a bucket to a file."""

    def __init__(self, origin: MigrationOrigin, target: Path, now: Clock, bars: Bars) -> None:
        self._origin = origin
        self._target = target
        self._now = now
        self._bars = bars
        self._draft = target.absolute().with_name(f".{target.name}.migrating")
        self._place = self._draft
        if not isinstance(origin.store, FleetStore):
            raise InvalidRequest("the source is not a vault in a bucket")
        self._logs: FleetStore = origin.store
        self._time = 0

    def run(self) -> Moved:
        already = self._is_there()
        self._place = self._target if already else self._draft
        store = SqliteStore.open(str(self._target)) if already else self._begun()
        try:
            if not already:
                store.authenticate(self._origin.state.mac)
                self._carry_logs(store)
                self._copy(store)
            objects = self._compare(store)
            if not already:
                self._settle_accounts(store)
            self._origin.check_unchanged()
            store.scrub()
            size = store.head().size
        finally:
            store.close()
        if not already:
            self._origin.set_aside()
            self._publish()
        return Moved(self._origin.state.vault_id, self._origin.place, str(self._target), objects, size, 1, already)

    # The place.

    def _is_there(self) -> bool:
        """Whether the target already is this vault in its current state.

        Raises `VaultExists` if the target is anything else.
        """
        try:
            found = create_open.identify(self._target)
        except VaultMissing:
            check_free(self._target)
            return False
        if found != self._origin.state.vault_id:
            raise VaultExists(f"{self._target} holds another vault", hint="name another place as the target")
        store = SqliteStore.open(str(self._target))
        try:
            if not self._is_first(store):
                raise VaultExists(
                    "the target holds this vault in another state",
                    hint="use the vault at the target, or move it away first",
                )
        finally:
            store.close()
        return True

    def _begun(self) -> SqliteStore:
        """The unfinished vault file of an earlier run, or a new one."""
        try:
            store = SqliteStore.open(str(self._draft))
        except VaultMissing:
            now = self._now()
            entry = Entry(v=1, time=now, op=OP, decision=Decision.ALLOW, data_class="admin", detail=self._detail())
            shutil.rmtree(self._draft, ignore_errors=True)
            return SqliteStore.create(str(self._draft), self._origin.state.mac, [entry.encoded()], [], now)
        if self._is_first(store):
            return store
        store.close()
        raise VaultExists(
            f"{self._draft} is left over from an unfinished move of another vault, or of an earlier state of this one",
            hint="remove that directory, and run migrate again",
        )

    def _detail(self) -> str:
        return f"from a bucket: {self._origin.entries} entries of {self._origin.logs} logs, state {self._origin.mark}"

    def _is_first(self, store: SqliteStore) -> bool:
        rows = list(store.entries(0, 1))
        return bool(rows) and rows[0][2] is not None and decode_entry(rows[0][2]).detail == self._detail()

    def _publish(self) -> None:
        try:
            _settle(self._draft, self._target.absolute())
        except OSError as error:
            raise StoreUnavailable(f"cannot write {self._target}: {error.strerror or error}") from None

    # The logs.

    def _rows(self) -> Iterator[bytes]:
        """The entries of all logs, ordered by time. Entries of one log keep their order."""
        merged = heapq.merge(*map(self._log, self._logs.logs()), key=lambda one: one[:2])
        return (entry for _, _, entry in merged)

    def _log(self, worker: str) -> Iterator[tuple[int, str, bytes]]:
        latest = 0
        for _, entry in told_entries(self._bundles(worker)):
            latest = max(latest, entry.time)
            yield latest, worker, entry.encoded()

    def _bundles(self, worker: str) -> Iterator[LogBundle]:
        for _, bundle in self._logs.bundles(worker):
            if bundle is None:
                raise Tampered("a bundle of log entries in the bucket cannot be decoded")
            yield bundle

    def _carry_logs(self, store: SqliteStore) -> None:
        told = self._bars("log")
        there, whole = store.head().size - 1, self._origin.entries
        self._time = store.head().time
        batch: list[bytes] = []
        for number, entry in enumerate(self._rows()):
            if number >= there:
                batch.append(entry)
            if len(batch) == _ROWS:
                store.commit(batch, [], self._time)
                batch = []
                told(number + 1, whole)
        if batch:
            store.commit(batch, [], self._time)
        told(whole, whole)

    # The objects.

    def _copy(self, store: SqliteStore) -> None:
        told, count, done = self._bars("copying"), self._origin.count(), 0
        for page in self._origin.pages():
            new = [one for one in page if store.get(one.name) is None]
            store.commit([], [PutNew(one.name, one.body or b"") for one in new], self._time)
            store.commit([], list(_deletes(store, page)), self._time)
            done += len(page)
            told(done, count)

    def _compare(self, store: SqliteStore) -> int:
        told, count, done = self._bars("comparing"), self._origin.count(), 0
        for page in self._origin.pages():
            for one in page:
                if _hash(store.get(one.name)) != _hash(one):
                    raise Tampered(
                        "an object at the target differs from the object at the source",
                        hint=f"remove {self._place}, and run migrate again",
                    )
            done += len(page)
            told(done, count)
        if sum(len(page) for page in _all(store)) != done:
            raise VaultExists(
                "the target holds objects that the source does not have",
                hint=f"remove {self._place}, and run migrate again",
            )
        return done

    # Reconciling the merged log with the real state.

    def _settle_accounts(self, store: SqliteStore) -> None:
        """Record the real state of the objects in the log.

        Entries are written for each actor whose objects differ from what the merged entries describe, and so for the
        vault's own objects.
        """
        expected, shelves = self._expected(store)
        actual = self._actual(store, shelves)
        for owner in sorted({*expected, *actual}):
            said, there = expected.get(owner, {}), actual.get(owner, {})
            if {tag: one.digest for tag, one in said.items()} != {tag: one.digest for tag, one in there.items()}:
                entries = list(self._corrections(owner, list(there.values())))
                store.commit([one.encoded() for one in entries], [], self._time)

    def _expected(self, store: SqliteStore) -> tuple[Mapping[str, Mapping[str, Mark]], dict[str, str]]:
        """The state of the objects according to the log, and the tag of the namespace of every object in it.

        Verification will derive the same state.
        """
        archived = store.get(ARCHIVED)
        found = Expected(0, {})
        if archived is not None and archived.body is not None:
            found = msgspec.json.decode(archived.body, type=Expected)
        shelves = {mark.tag: mark.shelf for held in found.owners.values() for mark in held.values()}
        first = found.size
        for number, _, data in store.entries(0, store.head().size):
            entry = decode_entry(data or b"")
            shelves |= {mark.tag: mark.shelf for mark in entry.objects}
            if number >= first:
                found.apply(entry)
        return {owner: held for owner, held in found.owners.items() if held}, shelves

    def _actual(self, store: SqliteStore, shelves: Mapping[str, str]) -> dict[str, dict[str, Mark]]:
        found: dict[str, dict[str, Mark]] = {}
        for page in _all(store):
            for one in page:
                owner, tag = self._origin.state.tag_of(one.name)
                if tag not in shelves:
                    raise Tampered("the source holds an object that is not in its logs")
                found.setdefault(owner, {})[tag] = Mark(tag, "" if one.body is None else digest(one.body), shelves[tag])
        return found

    def _corrections(self, owner: str, marks: Sequence[Mark]) -> Iterator[Entry]:
        for at in range(0, max(len(marks), 1), _MARKS):
            yield Entry(
                v=1,
                time=Millis(self._time),
                op=OP,
                decision=Decision.ALLOW,
                data_class="admin",
                actor=owner,
                objects=tuple(marks[at : at + _MARKS]),
                erased="" if at else "actor",  # resets what earlier entries said
                detail="what is there, where intents of workers were not carried out",
            )


def _deletes(store: SqliteStore, page: Sequence[Object]) -> Iterator[Effect]:
    """Effects that delete objects which are still in the store, but are tombstones in `page`."""
    for one in page:
        if one.body is None and (held := store.get(one.name)) is not None and held.body is not None:
            yield Delete(one.name, held.version)


def _hash(one: Object | None) -> bytes:
    if one is None:
        return b"none"
    return b"gone" if one.body is None else hashlib.sha256(one.body).digest()


def _all(store: SqliteStore) -> Iterator[Sequence[Object]]:
    after = ""
    while page := store.list("", after, PAGE):
        yield page
        after = page[-1].name
