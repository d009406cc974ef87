"""The log of one worker: bundles of entries, each an object that is written once, signed with the worker's own key.

The vault certifies that key in the roster (the list of workers). So a missing log is noticed, and a log that the vault
did not certify is recognised.

A bundle is durable before its entries are carried out: they are intents (write-ahead). A later entry, `done`, states
which of them were carried out. `confirm` writes `done` at once. Otherwise `done` is part of the next bundle, or a timer
writes it `WITHIN` seconds after the first effect that is due. The timer retries until the bucket has accepted the
bundle.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from strongroom.crypto import merkle_log
from strongroom.errors import AuditUnavailable, ClockBehind, StoreUnavailable
from strongroom.store import CLOCK_LEEWAY, Commit, Head, HeadMac, fleet_contract
from strongroom.store.fleet_contract import LogBundle, Member, Numbered
from strongroom.store.group_commit import CommitRequest, GroupCommit
from strongroom.store.s3 import object_names
from strongroom.store.s3.bucket import Bucket, NameTaken

WITHIN = 1.0
"""The most seconds from an effect until the timer writes its `done` to the log.

If writing fails, the timer tries again after this many seconds.
"""
_MOST_RUNS = 1000
"""The most runs (ranges of numbers) that one entry names, so that the entry does not become too large."""
_NUMBER = re.compile(r"[0-9]{12}")
_ENDLESS = 1 << 62
_decode = msgspec.msgpack.Decoder(LogBundle).decode
Later = Callable[[float, Callable[[], None]], Callable[[], object]]
"""Calls a function after some seconds, on a thread of its own. Returns a function that cancels the call."""


def on_timer(seconds: float, act: Callable[[], None]) -> Callable[[], object]:
    """Call `act` later, if the process is still running then."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer.cancel


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An object to be written to the bucket, and the state of the log after the write."""

    name: str
    body: bytes
    number: int
    edge: merkle_log.Range
    time: int


class WorkerLog:
    """The log that this process writes. Thread-safe; concurrent commits share a log bundle (group commit)."""

    def __init__(
        self, bucket: Bucket, worker: str, mac: HeadMac, seed: bytes, now: Callable[[], int], later: Later = on_timer
    ) -> None:
        self._bucket = bucket
        self.worker = worker
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._mac = mac
        self._now = now
        self._number = 1
        self._is_entered = False
        self._edge = merkle_log.Range()
        self._time = bucket.time
        """The time of the latest entry. Before the first entry, the server's time."""
        self._unclear: _Attempt | None = None
        """A write whose outcome is unknown. It is repeated before any other write."""
        self._done: list[tuple[int, int]] = []
        self._undone: list[tuple[int, int]] = []
        self._later = later
        self._cancel: Callable[[], object] | None = None
        """A function that cancels the running timer. None if no timer is running."""
        self._is_closed = False
        self.is_taken = False
        """Whether another writer's object blocks this log. If so, the log stays blocked for good."""
        self._guard = threading.Lock()
        self._group = GroupCommit(self._write)

    def append(self, request: CommitRequest) -> Commit:
        """Make entries durable. Returns the number of the first entry."""
        return self._group.submit(request)

    def released(self, first: int, count: int) -> None:
        """Record that these entries are done. Used for entries that change nothing.

        The next log bundle, whenever there is one, states that they are done. No timer is started.
        """
        with self._guard:
            self._done.append((first, first + count))

    def carried_out(self, first: int, count: int) -> None:
        """Record that the intents in these entries were carried out.

        The next log bundle states this, or one that the timer writes.
        """
        with self._guard:
            self._done.append((first, first + count))
            self._set_timer()

    def given_up(self, first: int, count: int, *, changes: bool) -> None:
        """Record that these entries had no effect. For entries of reads, the statement in the log may wait."""
        with self._guard:
            self._undone.append((first, first + count))
            if changes:
                self._set_timer()

    def confirm(self, first: int, count: int) -> None:
        """Write to the log at once that these entries were carried out.

        If that fails with AuditUnavailable, the timer retries.
        """
        with self._guard:
            self._done.insert(0, (first, first + count))  # first, because one entry states a limited number of runs
            self._set_timer()
        self._group.submit(CommitRequest((), (), self._time))

    def flush(self) -> None:
        """Write to the log every outcome that no log bundle states yet."""
        for _ in range(1 + max(len(self._done), len(self._undone)) // _MOST_RUNS):
            if self._done or self._undone:
                self._group.submit(CommitRequest((), (), self._time))

    def close(self) -> None:
        """Write all remaining outcomes to the log, and never start the timer again.

        Raises AuditUnavailable if the outcomes cannot be written.
        """
        with self._guard:
            self._is_closed = True
            cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()
        self.flush()

    def check(self) -> None:
        """Repeat the write whose outcome is unknown, if there is one. AuditUnavailable if it fails again."""
        if self._unclear is not None:
            self._group.submit(CommitRequest((), (), self._time))

    def _set_timer(self) -> None:
        """Start the timer if it is not running. The caller holds the guard."""
        if self._cancel is None and not self._is_closed:
            self._cancel = self._later(WITHIN, self._tick)

    def _tick(self) -> None:
        with self._guard:
            self._cancel = None
            if self._is_closed:
                return
        try:
            self.flush()
        except (AuditUnavailable, ClockBehind):
            with self._guard:
                self._set_timer()

    def head(self) -> Head:
        edge, time = self._edge, self._time
        return Head(edge.size, edge.packed(), time, self._mac.sign(edge.size, edge.packed(), time))

    def group_sizes(self) -> tuple[dict[int, int], int]:
        return self._group.sizes, self._group.grouped

    def _write(self, group: Sequence[CommitRequest]) -> None:
        if self._unclear is not None:
            self._put(self._unclear)
        taken = [request for request in group if self._is_timely(request)]
        if taken:
            self._write_bundle(taken)

    def _is_timely(self, request: CommitRequest) -> bool:
        if request.time >= self._time - CLOCK_LEEWAY or request.accept_clock:
            return True
        request.error = ClockBehind(
            "this machine's clock is far behind the log's latest entry",
            hint="set this machine's clock; if it is right, the owner can call vault.accept_clock()",
        )
        return False

    def _write_bundle(self, taken: Sequence[CommitRequest]) -> None:
        edge = merkle_log.Range(self._edge.size, self._edge.peaks)
        latest = self._time
        for request in taken:
            latest = request.time if request.accept_clock else max(latest, request.time)
        with self._guard:
            done, self._done = self._done[:_MOST_RUNS], self._done[_MOST_RUNS:]
            undone, self._undone = self._undone[:_MOST_RUNS], self._undone[_MOST_RUNS:]
        entries = [self._mac.done(_joined(done), _joined(undone), latest)] if done or undone else []
        for entry in entries:
            edge.append(merkle_log.leaf_hash(entry))
        places: list[int] = []
        for request in taken:
            places.append(edge.size)
            entries += request.entries
            for leaf in request.leaves:
                edge.append(leaf)
        try:
            if entries:  # empty if another bundle has stated everything meanwhile
                self._put(self._bundle(entries, edge, latest))
            if not self._is_entered:
                self._put(self._entrance())
        except AuditUnavailable:
            with self._guard:  # back into the queue; stating an outcome twice is harmless
                self._done = done + self._done
                # If this bundle is written after all, its callers have been told of a failure, so its entries are
                # undone.
                self._undone = [*undone, *([(places[0], edge.size)] if edge.size > places[0] else ()), *self._undone]
            raise
        for request, place in zip(taken, places, strict=True):
            request.commit = Commit(place, 0)

    def _bundle(self, entries: list[bytes], edge: merkle_log.Range, latest: int) -> _Attempt:
        member = None if self._is_entered else self._member
        draft = LogBundle(self._edge.size, entries, latest, edge.packed(), b"", member)
        signature = self._key.sign(fleet_contract.signed_part(self.worker, draft))
        body = msgspec.msgpack.encode(msgspec.structs.replace(draft, signature=signature))
        return _Attempt(f"{object_names.LOGS}{self.worker}/{self._number:012d}", body, self._number + 1, edge, latest)

    @cached_property
    def _member(self) -> Member:
        public = self._key.public_key().public_bytes_raw()
        certificate = self._mac.certify(self.worker, public)
        return Member(worker=self.worker, public=public, since=self._now(), certificate=certificate)

    def _entrance(self) -> _Attempt:
        """This log's entry in the roster, the list of workers.

        The roster entry is written after the first log bundle. From then on, `audit verify` reports a missing log.
        """
        body = msgspec.json.encode(self._member)
        return _Attempt(f"{object_names.ROSTER}{self.worker}", body, self._number, self._edge, self._time)

    def _put(self, attempt: _Attempt) -> None:
        self._unclear = attempt
        try:
            self._bucket.create(attempt.name, attempt.body)
        except NameTaken:
            self.is_taken = self._is_closed = True
            raise AuditUnavailable(
                "another writer's object has the name of this worker's next log entry",
                hint="try again; the worker begins a new log",
            ) from None
        except StoreUnavailable as error:
            raise AuditUnavailable(error.message, hint=error.hint) from None
        self._unclear = None
        self._number, self._edge, self._time = attempt.number, attempt.edge, attempt.time
        self._is_entered = self._is_entered or attempt.name.startswith(object_names.ROSTER)


def _joined(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs (ranges of numbers) in order, with adjoining ones merged."""
    joined: list[tuple[int, int]] = []
    for first, behind in sorted(runs):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(behind, joined[-1][1])
        else:
            joined.append((first, behind))
    return joined


# Reading any worker's log.


def roster(bucket: Bucket) -> Iterator[tuple[str, Member | None]]:
    """Every worker in the roster, with its entry.

    The entry is None if it cannot be decoded or names another worker.
    """
    for one in bucket.list(object_names.ROSTER):
        worker = one.name.removeprefix(object_names.ROSTER)
        found = bucket.get(one.name)
        try:
            member = msgspec.json.decode(found.body if found else b"", type=Member)
        except object_names.UNREADABLE:
            yield worker, None
        else:
            yield worker, member if member.worker == worker else None


def written_logs(bucket: Bucket) -> Sequence[str]:
    """The workers that have log bundles, whether or not they are in the roster."""
    return bucket.folders(object_names.LOGS)


def bundles(bucket: Bucket, worker: str, threads: Executor) -> Iterator[Numbered]:
    """The bundles of a worker's log. A bundle whose name is not a valid number has number 0."""
    names = [one.name for one in bucket.list(f"{object_names.LOGS}{worker}/")]
    for name, found in zip(names, threads.map(bucket.get, names), strict=True):
        number = _NUMBER.fullmatch(name, len(object_names.LOGS) + len(worker) + 1)
        yield Numbered(0 if number is None else int(number[0]), _decoded(found.body if found else b""))


def _decoded(body: bytes) -> LogBundle | None:
    """Read a log bundle. None if it does not decode, or has impossible numbers."""
    try:
        bundle = _decode(body)
    except object_names.UNREADABLE:
        return None
    return bundle if 0 <= bundle.first < _ENDLESS and 0 <= bundle.time < _ENDLESS else None
