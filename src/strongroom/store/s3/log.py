"""The log of one worker: bundles of entries, each an object that is written once, signed with the worker's own key.

The vault certifies that key in the roster, so that a log which is missing is noticed, and one that nobody certified is
told apart. What a bundle holds is durable before anything that it speaks of is done: its entries are intents. A
later entry says which of them were carried out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from strongroom import tlog
from strongroom.cobblestone import context
from strongroom.errors import AuditUnavailable, ClockBehind, StoreUnavailable, Tampered
from strongroom.store import CLOCK_LEEWAY, Commit, Head, HeadMac
from strongroom.store.group import GroupCommit, Request
from strongroom.store.s3 import layout
from strongroom.store.s3.bucket import Bucket, Taken

_SIGNED = "strongroom/bundle/v1"


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker in the roster: the key of its log, and the vault's word for it."""

    v: int = 1
    worker: str
    public: bytes
    since: int
    certificate: bytes


class Bundle(msgspec.Struct, frozen=True, array_like=True):
    """Entries of a log from `first` on, and the log's state after them.

    `done` names earlier entries, each run by its first and the one behind its last, that were carried out since.
    """

    first: int
    entries: list[bytes]
    done: list[tuple[int, int]]
    time: int
    peaks: bytes
    signature: bytes

    @property
    def size(self) -> int:
        return self.first + len(self.entries)


_bundle = msgspec.msgpack.Decoder(Bundle).decode


def signed_part(worker: str, size: int, peaks: bytes, time: int, done: Sequence[tuple[int, int]]) -> bytes:
    return context(_SIGNED, worker, size, peaks, time, msgspec.msgpack.encode(done))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An object to be written, and the log's state once it is."""

    name: str
    body: bytes
    number: int
    edge: tlog.Range
    time: int


class WorkerLog:
    """The log that this process writes. Thread-safe; entries of concurrent threads share a bundle."""

    def __init__(self, bucket: Bucket, worker: str, mac: HeadMac, seed: bytes, now: Callable[[], int]) -> None:
        self._bucket = bucket
        self.worker = worker
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._mac = mac
        self._now = now
        self._number = 0
        self._edge = tlog.Range()
        self._time = 0
        self._unclear: _Attempt | None = None
        """What may have been written, or not: it is written again before anything else."""
        self._done: list[tuple[int, int]] = []
        self._guard = threading.Lock()
        self._group = GroupCommit(self._write)

    def append(self, request: Request) -> Commit:
        """Make entries durable; the number of the first."""
        return self._group.submit(request)

    def carried_out(self, first: int, count: int) -> None:
        """Note that what these entries intended was done, for the next bundle to say."""
        with self._guard:
            self._done.append((first, first + count))

    def flush(self) -> None:
        """Say what was carried out, if no bundle has said it yet."""
        if self._done:
            self._group.submit(Request((), (), self._time))

    def head(self) -> Head:
        size, peaks = self._edge.size, self._edge.packed()
        return Head(size, peaks, self._time, self._mac.sign(size, peaks, self._time))

    def group_sizes(self) -> tuple[dict[int, int], int]:
        return self._group.sizes, self._group.grouped

    def _write(self, group: Sequence[Request]) -> None:
        if self._unclear is not None:
            self._put(self._unclear)
        if not self._number:
            self._put(self._entrance())
        taken = [request for request in group if self._is_timely(request)]
        if taken:
            self._write_bundle(taken)

    def _is_timely(self, request: Request) -> bool:
        if request.time >= self._time - CLOCK_LEEWAY or request.accept_clock:
            return True
        request.error = ClockBehind(
            "this machine's clock is far behind the log's latest entry",
            hint="set the clock; if it is right, vault.accept_clock() takes it",
        )
        return False

    def _write_bundle(self, taken: Sequence[Request]) -> None:
        edge = tlog.Range(self._edge.size, self._edge.peaks)
        latest = self._time
        places: list[int] = []
        for request in taken:
            places.append(edge.size)
            latest = request.time if request.accept_clock else max(latest, request.time)
            for leaf in request.leaves:
                edge.append(leaf)
        with self._guard:
            done, self._done = self._done, []
        try:
            self._put(self._bundle([entry for request in taken for entry in request.entries], done, edge, latest))
        except AuditUnavailable:
            with self._guard:  # said twice is said
                self._done = done + self._done
            raise
        for request, place in zip(taken, places, strict=True):
            request.commit = Commit(place, 0)

    def _bundle(self, entries: list[bytes], done: list[tuple[int, int]], edge: tlog.Range, latest: int) -> _Attempt:
        signature = self._key.sign(signed_part(self.worker, edge.size, edge.packed(), latest, done))
        bundle = Bundle(self._edge.size, entries, done, latest, edge.packed(), signature)
        name = f"{layout.LOGS}{self.worker}/{self._number:012d}"
        return _Attempt(name, msgspec.msgpack.encode(bundle), self._number + 1, edge, latest)

    def _entrance(self) -> _Attempt:
        """The entry in the roster, which comes before the first bundle."""
        public = self._key.public_key().public_bytes_raw()
        certificate = self._mac.certify(self.worker, public)
        member = Member(worker=self.worker, public=public, since=self._now(), certificate=certificate)
        return _Attempt(f"{layout.ROSTER}{self.worker}", msgspec.json.encode(member), 1, tlog.Range(), 0)

    def _put(self, attempt: _Attempt) -> None:
        self._unclear = attempt
        try:
            self._bucket.create(attempt.name, attempt.body)
        except Taken:
            raise AuditUnavailable(
                "another process writes this worker's log", hint="start the worker again; it gets a log of its own"
            ) from None
        except StoreUnavailable as error:
            raise AuditUnavailable(error.message, hint=error.hint) from None
        self._unclear = None
        self._number, self._edge, self._time = attempt.number, attempt.edge, attempt.time


# Reading any worker's log.


def members(bucket: Bucket) -> Iterator[Member]:
    """The roster."""
    for one in bucket.list(layout.ROSTER):
        found = bucket.get(one.name)
        try:
            member = msgspec.json.decode(found.body if found else b"", type=Member)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Tampered("a worker's entry in the roster does not read") from None
        if f"{layout.ROSTER}{member.worker}" != one.name:
            raise Tampered("a worker's entry in the roster is another's")
        yield member


def written_logs(bucket: Bucket) -> list[str]:
    """The workers of which there are bundles, in the roster or not."""
    return sorted({one.name.split("/")[1] for one in bucket.list(layout.LOGS)})


def bundles(bucket: Bucket, worker: str) -> Iterator[Bundle]:
    """The bundles of a log in order; Tampered for one that does not read."""
    for one in bucket.list(f"{layout.LOGS}{worker}/"):
        found = bucket.get(one.name)
        try:
            yield _bundle(found.body if found else b"")
        except msgspec.DecodeError:
            raise Tampered("a bundle of a log does not read") from None


def is_signed(bundle: Bundle, member: Member) -> bool:
    """Whether a bundle was signed by the worker whose log it is in."""
    try:
        key = Ed25519PublicKey.from_public_bytes(member.public)
        signed = signed_part(member.worker, bundle.size, bundle.peaks, bundle.time, bundle.done)
        key.verify(bundle.signature, signed)
    except (ValueError, InvalidSignature):
        return False
    return True
