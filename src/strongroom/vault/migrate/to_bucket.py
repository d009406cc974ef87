"""Move a vault into a bucket. Every run writes the same objects, so a run continues an interrupted one.

The first object holds an entry `migrate`, in a log of its own. The whole log of the source follows, as the log of a
worker whose name is derived from that log. The objects come next, unchanged. After everything has been compared, the
format record makes the prefix a vault. The keys of both logs are derived from the vault's own keys, so that a later run
can sign with them, too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from strongroom.audit.entry import Decision, Entry, decode_entry, done_entry
from strongroom.audit.log import bundle_path
from strongroom.crypto import merkle_log
from strongroom.crypto.hmac_state import context
from strongroom.errors import InvalidRequest, Tampered, VaultExists
from strongroom.memory.vault_records import FORMAT, VaultFormatRecord
from strongroom.model import Millis
from strongroom.store import Head, Object, fleet_contract
from strongroom.store import s3 as places
from strongroom.store.fleet_contract import LogBundle, Member
from strongroom.store.s3 import object_names
from strongroom.store.s3.bucket import Bucket, NameTaken
from strongroom.vault.create_open import Clock
from strongroom.vault.migrate.move import OP, Bars, MigrationOrigin, Moved

_BUNDLE = 512
_THREADS = 32
_SCHEME = "s3://"


class CarriedLog:
    """A log that is written to the bucket as a whole, with a signing key derived from the vault's keys."""

    def __init__(self, origin: MigrationOrigin, worker: str, since: int) -> None:
        state = origin.state
        self.worker = worker
        seed = hmac.digest(
            state.records.secrets.log_seed, context("strongroom/moved-log/v1", state.vault_id, worker), "sha256"
        )
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes_raw()
        self.member = Member(worker=worker, public=public, since=since, certificate=state.mac.certify(worker, public))
        self._edge = merkle_log.Range()
        self._number = 1

    def place(self, number: int) -> str:
        return f"{object_names.LOGS}{self.worker}/{number:012d}"

    def bundle(self, entries: list[bytes], time: int) -> tuple[str, bytes]:
        """The next log bundle, made of these entries: its name in the bucket and its bytes."""
        first = self._edge.size
        for entry in entries:
            self._edge.append(merkle_log.leaf_hash(entry))
        member = self.member if self._number == 1 else None
        draft = LogBundle(first, entries, time, self._edge.packed(), b"", member)
        signature = self._key.sign(fleet_contract.signed_part(self.worker, draft))
        self._number += 1
        return self.place(self._number - 1), msgspec.msgpack.encode(msgspec.structs.replace(draft, signature=signature))

    def all_done(self, time: int) -> tuple[str, bytes]:
        """The log's last object (`LogBundle`): one entry, which confirms that all earlier entries were carried out."""
        return self.bundle([done_entry([(0, self._edge.size)], (), Millis(time)).encoded()], time)

    def is_own(self, bundle: LogBundle) -> bool:
        return fleet_contract.is_signed(self.worker, bundle, self.member.public)

    @property
    def entrance(self) -> tuple[str, bytes]:
        """The log's entry in the roster (the list of workers): its name and its bytes.

        The roster entry is written after the log's first bundle.
        """
        return f"{object_names.ROSTER}{self.worker}", msgspec.json.encode(self.member)

    @property
    def peaks(self) -> bytes:
        return self._edge.packed()


class ToBucket:
    """One run of moving a vault from a file to a bucket."""

    def __init__(self, origin: MigrationOrigin, target: str, now: Clock, bars: Bars, archive: Path | None) -> None:
        self._origin = origin
        self._target = target
        self._now = now
        self._bars = bars
        self._archive = archive
        self._head = origin.store.head()
        name = f"{self._head.time:013d}{_name_of(origin.state.vault_id, self._head)}"
        self._own = CarriedLog(origin, f"{object_names.MOVING}{name}", self._head.time)
        self._carried = CarriedLog(origin, f"s{name}", self._head.time)

    def run(self) -> Moved:
        place = self._target.removeprefix(_SCHEME)
        bucket: Bucket = places.bucket_at(place)
        already = self._check_target(bucket)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="strongroom-move") as threads:
            run = _Writing(bucket, threads, self._target)
            if not already:
                self._announce(run)
                self._carry_log(run)
                self._copy(run)
            objects = self._compare(run)
            self._compare_log(run)
            self._origin.check_unchanged()
            if not already:
                self._finish(run)
        entries = self._head.size
        return Moved(self._origin.state.vault_id, self._origin.place, self._target, objects, entries, 2, already)

    # What is there.

    def _check_target(self, bucket: Bucket) -> bool:
        """Whether the target already is this vault. Raises `VaultExists` if the target holds anything else."""
        found = bucket.get(FORMAT)
        if found is not None and _vault_in(found.body) != self._origin.state.vault_id:
            raise VaultExists(f"{self._target} holds another vault", hint="name another prefix as the target")
        workers = {name.split("/")[1] for name in _top(bucket)}
        if workers - {self._own.worker, self._carried.worker}:
            if found is not None:
                message = "the target holds this vault, but in another state: it was used there, or moved there before"
                raise VaultExists(
                    message, hint="use the vault at the target; to move the source again, name another prefix"
                )
            raise VaultExists(
                "the target holds other objects, or an unfinished move of an earlier state of this vault",
                hint="empty the target's prefix, or name another prefix",
            )
        return found is not None

    # Writing.

    def _announce(self, run: _Writing) -> None:
        """Write the entry `migrate` before anything else.

        If an earlier run wrote an entry, check that entry instead.
        """
        root = merkle_log.Range.of(self._head.size, self._head.peaks).root().hex()
        detail = f"to a bucket: {self._head.size} entries, root {root}, as the log of {self._carried.worker}"
        found = run.bucket.get(self._own.place(1))
        if found is None:
            now = Millis(max(self._now(), self._head.time))
            entry = Entry(v=1, time=now, op=OP, decision=Decision.ALLOW, data_class="admin", detail=detail)
            run.create(*self._own.bundle([entry.encoded()], now))
        else:
            bundle = _decoded(found.body)
            if not self._own.is_own(bundle) or [decode_entry(one).detail for one in bundle.entries] != [detail]:
                raise Tampered("the first log entry at the target was not written by a move of this vault")
            self._own.bundle(bundle.entries, bundle.time)
        run.create(*self._own.entrance)

    def _carry_log(self, run: _Writing) -> None:
        told = self._bars("log")
        there = {one.name for one in run.bucket.list(f"{object_names.LOGS}{self._carried.worker}/")}
        waiting = []
        for entries in self._bundles():
            name, body = self._carried.bundle(entries, decode_entry(entries[-1]).time)
            if name not in there:
                waiting.append((name, body))
            if len(waiting) == _THREADS:
                run.create_all(waiting)
                waiting = []
            told(min(self._carried._edge.size, self._head.size), self._head.size)
        run.create_all(waiting)
        if self._carried.peaks != self._head.peaks:
            raise Tampered("the source's entries do not match the head of its log")
        run.create(*self._carried.all_done(self._head.time))
        run.create(*self._carried.entrance)

    def _bundles(self) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        for number, _, entry in self._origin.store.entries(0, self._head.size):
            batch.append(self._archived(number) if entry is None else entry)
            if len(batch) == _BUNDLE:
                yield batch
                batch = []
        if batch:
            yield batch

    def _archived(self, number: int) -> bytes:
        """An archived entry of the source's log, read from the archive.

        A comparison with the head of the log later shows whether the entry is genuine.
        """
        if self._archive is None:
            raise InvalidRequest(
                "the move needs the whole log, but its old entries were archived",
                hint="give the directory with the archived entries with --archive",
            )
        try:
            held = merkle_log.unbundle(bundle_path(self._archive, number // merkle_log.TILE_WIDTH).read_bytes())
            return held[number % merkle_log.TILE_WIDTH]
        except (OSError, IndexError):
            raise Tampered(f"entry {number} is missing from the archive {self._archive}") from None

    def _copy(self, run: _Writing) -> None:
        told, count, done = self._bars("copying"), self._origin.count(), 0
        there = run.present()
        for page in self._origin.pages():
            new = [one for one in map(_placed, page) if one[0] not in there and one[0] != FORMAT]
            run.create_all(new)
            done += len(page)
            told(done, count)

    def _finish(self, run: _Writing) -> None:
        run.create(*self._own.all_done(self._head.time))
        self._origin.set_aside()
        stored = self._origin.store.get(FORMAT)
        if stored is None or stored.body is None:
            raise Tampered("the source's format record is missing")
        run.create(FORMAT, object_names.frame_body(stored.body))

    # Comparing.

    def _compare(self, run: _Writing) -> int:
        """Read every object back and compare it. Returns the number of objects.

        Raises `VaultExists` if the target holds objects that the source lacks.
        """
        told, count, done = self._bars("comparing"), self._origin.count(), 0
        extra = run.present()
        for page in self._origin.pages():
            wanted = [one for one in map(_placed, page) if one[0] != FORMAT]
            run.compare(wanted)
            extra -= {name for name, _ in wanted}
            done += len(page)
            told(done, count)
        if extra - {FORMAT}:
            raise VaultExists(
                "the target holds objects that the source does not have",
                hint="empty the target's prefix, or name another prefix",
            )
        return done

    def _compare_log(self, run: _Writing) -> None:
        edge = merkle_log.Range()
        for one in sorted(run.bucket.list(f"{object_names.LOGS}{self._carried.worker}/")):
            found = run.bucket.get(one.name)
            entries = _decoded(b"" if found is None else found.body).entries
            for entry in entries[: self._head.size - edge.size]:  # without the last, which confirms the others
                edge.append(merkle_log.leaf_hash(entry))
        if edge.packed() != self._head.peaks:
            raise Tampered("the log at the target differs from the log of the source")


class _Writing:
    """Creates and compares many objects in parallel."""

    def __init__(self, bucket: Bucket, threads: ThreadPoolExecutor, target: str) -> None:
        self.bucket = bucket
        self._threads = threads
        self._target = target

    def create(self, name: str, body: bytes) -> None:
        """Write an object. Raises `VaultExists` if an object of this name exists with other bytes."""
        try:
            self.bucket.create(name, body)
        except NameTaken:
            found = self.bucket.get(name)
            if found is None or found.body != body:
                raise VaultExists(
                    f"{self._target} holds another object than the source",
                    hint="empty the target's prefix, or name another prefix",
                ) from None

    def create_all(self, new: Sequence[tuple[str, bytes]]) -> None:
        for _ in self._threads.map(lambda one: self.create(*one), new):
            pass

    def compare(self, wanted: Sequence[tuple[str, bytes]]) -> None:
        for (_, body), found in zip(
            wanted, self._threads.map(self.bucket.get, [one[0] for one in wanted]), strict=True
        ):
            if found is None or hashlib.sha256(found.body).digest() != hashlib.sha256(body).digest():
                raise Tampered(
                    "an object at the target differs from the object at the source",
                    hint="empty the target's prefix, and run migrate again",
                )

    def present(self) -> set[str]:
        """The names of all objects in the bucket, except those of logs."""
        return {
            one.name for part in (object_names.VAULT, "caps/", object_names.ACTORS) for one in self.bucket.list(part)
        }


def _placed(one: Object) -> tuple[str, bytes]:
    """The name that an object gets in an empty bucket, and its bytes in the bucket."""
    if object_names.is_keys(one.name):
        head = object_names.ActorHead(keys=one.body or b"", is_gone=one.body is None)
        # The hash is the same in every run, and unique, since the body is made of encrypted keys.
        return object_names.actor_place(one.name, head.table), head.encoded(hashlib.sha256(one.body or b"").digest())
    actor = object_names.locator_of(one.name)
    place = (
        object_names.plain_place(one.name)
        if actor is None
        else object_names.actor_place(one.name, object_names.Table())
    )
    return place, b"" if one.body is None else object_names.frame_body(one.body)


def _top(bucket: Bucket) -> Iterator[str]:
    yield from (f"logs/{name}" for name in places.worker_log.written_logs(bucket))
    yield from (one.name for one in bucket.list(object_names.ROSTER))


def _name_of(vault_id: str, head: Head) -> str:
    said = context("strongroom/moved-log/v1", vault_id, head.size, head.peaks)
    return hashlib.sha256(said).hexdigest()[:12]


def _decoded(body: bytes) -> LogBundle:
    try:
        return msgspec.msgpack.decode(body, type=LogBundle)
    except object_names.UNREADABLE:
        raise Tampered("a bundle of log entries in the bucket cannot be decoded") from None


def _vault_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(object_names.unframe_body(body) or b"", type=VaultFormatRecord).vault
    except (*object_names.UNREADABLE, Tampered):
        return ""
