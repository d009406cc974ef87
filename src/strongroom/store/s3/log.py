"""The log of one worker: bundles of entries, each an object that is written once, signed with the worker's own key.

The vault certifies that key in the roster, so that a log which is missing is noticed, and one that nobody certified is
told apart. What a bundle holds is durable before anything that it speaks of is done: its entries are intents. A
later entry, `done`, says which of them were carried out. `confirm` writes it at once; else it comes with the next
bundle, or from a timer `WITHIN` seconds after the first that is owed, until the bucket has taken it.
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

from strongroom import tlog
from strongroom.errors import AuditUnavailable, ClockBehind, StoreUnavailable
from strongroom.store import CLOCK_LEEWAY, Commit, Head, HeadMac, fleet
from strongroom.store.fleet import Bundle, Member, Numbered
from strongroom.store.group import GroupCommit, Request
from strongroom.store.s3 import layout
from strongroom.store.s3.bucket import Bucket, Taken

WITHIN = 1.0
"""Seconds from an effect until its `done` is written, if nothing else is written before; then between tries."""
_MOST_RUNS = 1000
"""Runs that one entry names: it has to fit an entry's size."""
_NUMBER = re.compile(r"[0-9]{12}")
_ENDLESS = 1 << 62
_decode = msgspec.msgpack.Decoder(Bundle).decode
Later = Callable[[float, Callable[[], None]], Callable[[], object]]
"""Calls something after so many seconds, on a thread of its own; the answer takes that back."""


def on_timer(seconds: float, act: Callable[[], None]) -> Callable[[], object]:
    """Call `act` later, unless the process ends before."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer.cancel


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
        self._edge = tlog.Range()
        self._time = bucket.time
        """Of the latest entry; before there is one, the server's time."""
        self._unclear: _Attempt | None = None
        """What may have been written, or not: it is written again before anything else."""
        self._done: list[tuple[int, int]] = []
        self._undone: list[tuple[int, int]] = []
        self._later = later
        self._cancel: Callable[[], object] | None = None
        """Takes back the timer that is set; None if none is."""
        self._is_closed = False
        self.is_taken = False
        """Whether something foreign lies where this log goes on. It never will, then."""
        self._guard = threading.Lock()
        self._group = GroupCommit(self._write)

    def append(self, request: Request) -> Commit:
        """Make entries durable; the number of the first."""
        return self._group.submit(request)

    def released(self, first: int, count: int) -> None:
        """Note that these entries, which change nothing, were acted upon. The next bundle says it, whenever that is."""
        with self._guard:
            self._done.append((first, first + count))

    def carried_out(self, first: int, count: int) -> None:
        """Note that what these entries intended was done. The next bundle says it, or the timer."""
        with self._guard:
            self._done.append((first, first + count))
            self._set_timer()

    def given_up(self, first: int, count: int, *, changes: bool) -> None:
        """Note that nothing of what these entries intended was done; for reads, which change nothing, it may wait."""
        with self._guard:
            self._undone.append((first, first + count))
            if changes:
                self._set_timer()

    def confirm(self, first: int, count: int) -> None:
        """Have the log say durably that these entries were carried out. AuditUnavailable: the timer goes on trying."""
        with self._guard:
            self._done.insert(0, (first, first + count))  # in front: one entry says only so many
            self._set_timer()
        self._group.submit(Request((), (), self._time))

    def flush(self) -> None:
        """Say what was carried out and what was not, if no bundle has said it yet."""
        for _ in range(1 + max(len(self._done), len(self._undone)) // _MOST_RUNS):
            if self._done or self._undone:
                self._group.submit(Request((), (), self._time))

    def close(self) -> None:
        """Say what is left to say, and set no timer any more. AuditUnavailable if it cannot be said."""
        with self._guard:
            self._is_closed = True
            cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()
        self.flush()

    def check(self) -> None:
        """Write what could not be written, if anything could not. AuditUnavailable as long as it cannot."""
        if self._unclear is not None:
            self._group.submit(Request((), (), self._time))

    def _set_timer(self) -> None:
        """Have what is owed said soon. The guard is held."""
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

    def _write(self, group: Sequence[Request]) -> None:
        if self._unclear is not None:
            self._put(self._unclear)
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
        for request in taken:
            latest = request.time if request.accept_clock else max(latest, request.time)
        with self._guard:
            done, self._done = self._done[:_MOST_RUNS], self._done[_MOST_RUNS:]
            undone, self._undone = self._undone[:_MOST_RUNS], self._undone[_MOST_RUNS:]
        entries = [self._mac.done(_joined(done), _joined(undone), latest)] if done or undone else []
        for entry in entries:
            edge.append(tlog.leaf_hash(entry))
        places: list[int] = []
        for request in taken:
            places.append(edge.size)
            entries += request.entries
            for leaf in request.leaves:
                edge.append(leaf)
        try:
            if entries:  # else another bundle has said meanwhile all that was to be said
                self._put(self._bundle(entries, edge, latest))
            if not self._is_entered:
                self._put(self._entrance())
        except AuditUnavailable:
            with self._guard:  # said twice is said
                self._done = done + self._done
                # If this bundle comes to be written after all, its entries are of requests that were told of a failure.
                self._undone = [*undone, *([(places[0], edge.size)] if edge.size > places[0] else ()), *self._undone]
            raise
        for request, place in zip(taken, places, strict=True):
            request.commit = Commit(place, 0)

    def _bundle(self, entries: list[bytes], edge: tlog.Range, latest: int) -> _Attempt:
        member = None if self._is_entered else self._member
        draft = Bundle(self._edge.size, entries, latest, edge.packed(), b"", member)
        signature = self._key.sign(fleet.signed_part(self.worker, draft))
        body = msgspec.msgpack.encode(msgspec.structs.replace(draft, signature=signature))
        return _Attempt(f"{layout.LOGS}{self.worker}/{self._number:012d}", body, self._number + 1, edge, latest)

    @cached_property
    def _member(self) -> Member:
        public = self._key.public_key().public_bytes_raw()
        certificate = self._mac.certify(self.worker, public)
        return Member(worker=self.worker, public=public, since=self._now(), certificate=certificate)

    def _entrance(self) -> _Attempt:
        """The entry in the roster. It comes behind the first bundle: a log that is not there is missed from then on."""
        body = msgspec.json.encode(self._member)
        return _Attempt(f"{layout.ROSTER}{self.worker}", body, self._number, self._edge, self._time)

    def _put(self, attempt: _Attempt) -> None:
        self._unclear = attempt
        try:
            self._bucket.create(attempt.name, attempt.body)
        except Taken:
            self.is_taken = self._is_closed = True
            raise AuditUnavailable(
                "something foreign lies where this worker's log goes on", hint="try again; the worker begins a new log"
            ) from None
        except StoreUnavailable as error:
            raise AuditUnavailable(error.message, hint=error.hint) from None
        self._unclear = None
        self._number, self._edge, self._time = attempt.number, attempt.edge, attempt.time
        self._is_entered = self._is_entered or attempt.name.startswith(layout.ROSTER)


def _joined(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same runs, in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for first, behind in sorted(runs):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(behind, joined[-1][1])
        else:
            joined.append((first, behind))
    return joined


# Reading any worker's log.


def roster(bucket: Bucket) -> Iterator[tuple[str, Member | None]]:
    """Every worker in the roster; None for an entry that does not read, or is another's."""
    for one in bucket.list(layout.ROSTER):
        worker = one.name.removeprefix(layout.ROSTER)
        found = bucket.get(one.name)
        try:
            member = msgspec.json.decode(found.body if found else b"", type=Member)
        except layout.UNREADABLE:
            yield worker, None
        else:
            yield worker, member if member.worker == worker else None


def written_logs(bucket: Bucket) -> Sequence[str]:
    """The workers of which there are bundles, in the roster or not."""
    return bucket.folders(layout.LOGS)


def bundles(bucket: Bucket, worker: str, threads: Executor) -> Iterator[Numbered]:
    """The bundles of a log; what is called by no number of ours has number 0."""
    names = [one.name for one in bucket.list(f"{layout.LOGS}{worker}/")]
    for name, found in zip(names, threads.map(bucket.get, names), strict=True):
        number = _NUMBER.fullmatch(name, len(layout.LOGS) + len(worker) + 1)
        yield Numbered(0 if number is None else int(number[0]), _decoded(found.body if found else b""))


def _decoded(body: bytes) -> Bundle | None:
    """A bundle; None if it is none, or has numbers that no log has."""
    try:
        bundle = _decode(body)
    except layout.UNREADABLE:
        return None
    return bundle if 0 <= bundle.first < _ENDLESS and 0 <= bundle.time < _ENDLESS else None
