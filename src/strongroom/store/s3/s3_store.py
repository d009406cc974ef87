"""A `Store` on a bucket, for one worker.

It holds objects and their changes, writes the worker's own log, and reads the logs of other workers.
"""

from __future__ import annotations

import logging
import os
import threading
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress

from strongroom.crypto import merkle_log
from strongroom.errors import (
    AuditUnavailable,
    ClockBehind,
    StoreUnavailable,
    StrongroomError,
    Tampered,
)
from strongroom.store import (
    ANY,
    Commit,
    Delete,
    Effect,
    Expect,
    Head,
    HeadMac,
    Lost,
    Object,
    PutNew,
    Stale,
    Swap,
    Version,
    check_derived,
    check_effects,
)
from strongroom.store.fleet_contract import Member, Numbered
from strongroom.store.group_commit import CommitRequest
from strongroom.store.s3 import bucket_names, object_names, worker_log
from strongroom.store.s3.background_compaction import Background
from strongroom.store.s3.bucket import Bucket
from strongroom.store.s3.bucket_probe import Trial, unfit
from strongroom.store.s3.compaction import Compactor
from strongroom.store.s3.leftovers import Leftovers
from strongroom.store.s3.object_names import Places
from strongroom.store.s3.reader import VIEWS, Reader
from strongroom.store.s3.worker_log import Later, WorkerLog
from strongroom.store.s3.writer import Writer

_logger = logging.getLogger("strongroom.store")
_THREADS = 32
_AT_MOST = 20.0
"""The most seconds from checking a commit's conditions to its first effect. A slower commit gives up."""
_SETTLED = 60.0
"""Seconds after which every commit is over: `_AT_MOST` plus the longest time that a request may take."""
_RACE_AFTER = 2.0
"""Seconds until the trial with several writers: after opening a store, and after a trial without a result.

Long enough that the trial does not start while a single command runs.
"""


class S3Store:
    """A `Store` on a bucket. Thread-safe."""

    is_whole = False
    is_distant = True

    def __init__(
        self,
        bucket: Bucket,
        *,
        random: Callable[[int], bytes] = os.urandom,
        now: Callable[[], int] = lambda: clock.time_ns() // 1_000_000,
        threads: Executor | None = None,
        settled: float = _SETTLED,
        packs: bool = True,
        views: int = VIEWS,
        later: Later | None = None,
    ) -> None:
        self._bucket = bucket
        self._random = random
        self._now = now
        self._settled = settled
        self._later = later or worker_log.on_timer
        self._threads = threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="strongroom-s3")
        self._requests = threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="strongroom-s3-requests")
        self._looks = threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="strongroom-s3-looks")
        """Threads for refreshes.

        They are separate, because loading one namespace can read thousands of bodies.
        """
        self.reader = Reader(bucket, self._threads, self._requests, now, views)
        compactor = Compactor(self.reader, random)
        self._leftovers = Leftovers(compactor.finish, self._later, lambda: clock.monotonic())
        self.writer = Writer(self.reader, random, self._leftovers.add)
        self._background = Background(compactor) if packs else None
        self._log: WorkerLog | None = None
        self._begins = threading.Lock()
        self.taken_logs = 0
        """How often another writer's object blocked a log of this process. Each case is an alarm."""
        self._unfit: Trial | None = None
        self._cancel_race: Callable[[], object] = lambda: None
        self._is_closed = False

    # Objects.

    def get(self, name: str) -> Object | None:
        self._check_open()
        return self.reader.get(name)

    def list(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        self._check_open()
        return self.reader.listed(prefix, after, limit)

    def names(self, prefix: str, after: str = "", limit: int = 1000) -> Sequence[Object]:
        self._check_open()
        return self.reader.named(prefix, after, limit)

    def put_if_absent(self, name: str, body: bytes, *given: Expect) -> Version:
        return self._derived(PutNew(name, body), *given)

    def compare_and_swap(self, name: str, body: bytes, version: Version) -> Version:
        return self._derived(Swap(name, body, version))

    def delete(self, name: str, version: Version) -> Version:
        return self._derived(Delete(name, version))

    def _derived(self, effect: PutNew | Swap | Delete, *given: Expect) -> Version:
        check_derived(effect.name)
        self._writable()
        self.writer.check([*given, effect])
        return self.writer.derived(effect)

    # Following.

    def scope(self, name: str) -> str:
        locator = object_names.locator_of(name)
        return object_names.VAULT if locator is None else f"{object_names.ACTORS}{locator}/"

    def version(self, scope: str = "") -> Version:
        self._check_open()
        newest = self.reader.version(scope)
        self._consider(scope)
        return newest

    def versions(self, scopes: Sequence[str]) -> Sequence[Version]:
        self._check_open()
        if not scopes:
            return []
        *others, last = scopes
        asked = [self._looks.submit(self.reader.version, scope) for scope in others]
        newest = self.reader.version(last)
        self._consider(last)
        return [*(one.result() for one in asked), newest]

    def _consider(self, scope: str) -> None:
        """Queue an actor for compaction if it has many lines outside packs.

        Only a process that writes a log does this.
        """
        locator = object_names.locator_of(scope)
        if locator is not None and self._log is not None and self._background is not None:
            self._background.consider(self.reader.actor(locator))

    def changes(self, after: Version, limit: int = 1000, scope: str = "") -> Sequence[Object]:
        self._check_open()
        return self.reader.changes(after, limit, scope)

    # The ledger.

    def authenticate(self, mac: HeadMac) -> None:
        self._check_open()
        if self._log is None:
            self._mac, self._log = mac, self._new_log(mac)

    def _new_log(self, mac: HeadMac) -> WorkerLog:
        worker = f"w{self._now():013d}{self._random(6).hex()}"
        return WorkerLog(self._bucket, worker, mac, self._random(32), self._now, self._later)

    def race_later(self, race: Callable[[], Trial]) -> None:
        """Start the trial with several writers in a moment, in the background.

        If the trial fails, the store refuses all calls.
        """

        def run() -> None:
            try:
                trial = race()
            except StoreUnavailable:
                self.race_later(race)
                return
            if trial.wrong:
                self._unfit = trial
                _logger.error("unfit store: %s: %s", trial.what, trial.wrong)

        if not self._is_closed:
            self._cancel_race = self._later(_RACE_AFTER, run)

    def check_log(self) -> None:
        """If the last attempt to write the log failed, try again. Raises AuditUnavailable if that fails, too."""
        own = self._writable()
        try:
            own.check()
        except AuditUnavailable:
            if not own.is_taken:
                raise
            self._writable()

    def commit(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> Commit:
        check_effects(effects)
        own = self._writable()
        began = clock.monotonic()
        if self.reader.latest(since) != since:
            raise Stale(ANY)
        places = self.writer.check(effects)
        # Refreshes and the log's write run concurrently: one round trip instead of two (optimistic concurrency).
        looks = [self._looks.submit(look) for look in self.reader.looks(effects, since)]
        own, first = self._appended(own, lambda: CommitRequest(entries, effects, time, accept_clock=accept_clock))
        try:
            if looks:
                places = self._looked(looks, effects, since)
            if clock.monotonic() - began > _AT_MOST:
                raise StoreUnavailable("the object store was too slow, so nothing was done", hint="try again")
        except (Lost, StrongroomError):
            own.given_up(first, len(entries), changes=bool(_changes(effects)))
            raise
        version = self._carried_out(own, first, len(entries), effects, places)
        for scope in {*since, *(self.scope(one.name) for one in effects if isinstance(one, PutNew))}:
            self._consider(scope)
        return Commit(first, version)

    def _appended(self, own: WorkerLog, request: Callable[[], CommitRequest]) -> tuple[WorkerLog, int]:
        """Make entries durable. Returns the log and the number of the first entry.

        If another writer's object blocks this log, a new log is begun.
        """
        try:
            return own, own.append(request()).first
        except AuditUnavailable:
            if not own.is_taken:
                raise
        own = self._writable()
        return own, own.append(request()).first

    def _carried_out(
        self, own: WorkerLog, first: int, count: int, effects: Sequence[Effect], places: Places
    ) -> Version:
        """Carry out the effects, and state in the log that this was done. Returns the number of the last change."""
        try:
            version = self.writer.carry_out(effects, places)
        except Lost:
            if _is_one_write(effects):
                own.given_up(first, count, changes=True)
            raise
        changes = _changes(effects)
        if not changes:
            own.released(first, count)
        elif all(map(_may_be_said_later, changes)):
            own.carried_out(first, count)
        else:
            self._confirm(own, first, count)
        return version

    def _confirm(self, own: WorkerLog, first: int, count: int) -> None:
        try:
            own.confirm(first, count)
        except AuditUnavailable as error:
            raise AuditUnavailable(
                f"the request may have been carried out, but the log could not record that: {error.message}",
                hint="try again: a request that was already carried out is not carried out twice",
            ) from None

    def _looked(
        self, looks: Sequence[Future[object]], effects: Sequence[Effect], since: Mapping[str, Version]
    ) -> Places:
        """Check the conditions again after the refreshes that ran while the log was written.

        Raises Stale or Lost.
        """
        for look in looks:
            look.result()
        if (latest := self.reader.latest(since)) != since:
            raise Stale(latest)
        return self.writer.check(effects)

    def group_sizes(self) -> tuple[Mapping[int, int], int]:
        return ({}, 0) if self._log is None else self._log.group_sizes()

    def head(self) -> Head:
        self._check_open()
        return Head(0, b"", 0, b"") if self._log is None else self._log.head()

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        """The entries of this worker's own log."""
        self._check_open()
        for _, bundle in self.bundles(self.worker) if self.worker else ():
            for number, entry in enumerate(bundle.entries, bundle.first) if bundle is not None else ():
                if start <= number < stop:
                    yield number, merkle_log.leaf_hash(entry), entry

    # The fleet.

    @property
    def worker(self) -> str:
        return "" if self._log is None else self._log.worker

    def roster(self) -> Sequence[tuple[str, Member | None]]:
        self._check_open()
        return list(worker_log.roster(self._bucket))

    def logs(self) -> Sequence[str]:
        self._check_open()
        return list(worker_log.written_logs(self._bucket))

    def bundles(self, worker: str) -> Iterator[Numbered]:
        self._check_open()
        return worker_log.bundles(self._bucket, worker, self._requests)

    def get_many(self, names: Sequence[str]) -> Sequence[Object | None]:
        self._check_open()
        read = self._threads.map if len(names) > 1 else map
        return list(read(self._readable, names))

    def _readable(self, name: str) -> Object | None:
        try:
            return self.reader.get(name)
        except Tampered:
            return None

    def scopes(self) -> Iterator[str]:
        self._check_open()
        yield from (f"{object_names.ACTORS}{locator}/" for locator in self.reader.locators())
        yield object_names.VAULT

    def strays(self) -> Iterator[str]:
        self._check_open()
        return bucket_names.strays(self._bucket)

    def buried(self) -> Iterator[str]:
        self._check_open()
        return self.reader.buried()

    def settle(self) -> None:
        clock.sleep(self._settled)

    def archive(self, stop: int) -> None:  # noqa: ARG002
        raise StoreUnavailable("the log of a vault in a bucket cannot be archived")

    def scrub(self) -> bool:
        """Remove the bytes of forgotten lines from packs now. Returns whether deleted bytes are gone from the bucket.

        False if the bucket keeps old versions, as far as its answers show. The store cannot know which bytes the
        server's disks still hold before their next clean-up, or who has copies.
        """
        self._check_open()
        return self._leftovers.take_out() and not self._bucket.keeps_versions

    def scrub_soon(self) -> bool:
        self._check_open()
        return self._leftovers.take_out_soon() and not self._bucket.keeps_versions

    def afresh(self) -> S3Store:
        """A store on the same bucket with an empty cache. It only reads, and need not be closed."""
        other = S3Store(self._bucket, random=self._random, now=self._now, threads=self._threads, packs=False)
        other.reader = Reader(self._bucket, self._threads, self._requests, self._now)
        return other

    def close(self) -> None:
        if self._background is not None:
            self._background.close()
        self._cancel_race()
        if not self._is_closed:
            self._leftovers.close()
        if not self._is_closed and self._log is not None:
            with suppress(AuditUnavailable, StoreUnavailable, ClockBehind):  # verification will report it
                self._log.close()
        self._is_closed = True
        for threads in (self._threads, self._requests, self._looks):
            threads.shutdown(wait=False, cancel_futures=True)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed", hint="open the store again")
        if self._unfit is not None:
            raise unfit(self._unfit)

    def _writable(self) -> WorkerLog:
        self._check_open()
        if self._log is None:
            raise AuditUnavailable("the vault's keys are not open, so nothing can be logged")
        with self._begins:
            if self._log.is_taken:
                self.taken_logs += 1
                taken, self._log = self._log, self._new_log(self._mac)
                _logger.error("log taken: %s goes on as %s; verify the vault", taken.worker, self._log.worker)
            return self._log


def _changes(effects: Sequence[Effect]) -> list[Effect]:
    """The effects that change something. An `Expect` is only a condition."""
    return [one for one in effects if not isinstance(one, Expect)]


def _may_be_said_later(change: Effect) -> bool:
    """Whether the caller may get the answer before the log states that this change was carried out.

    True for a new object of an actor, except the actor's head.
    """
    return (
        isinstance(change, PutNew)
        and object_names.locator_of(change.name) is not None
        and not object_names.is_keys(change.name)
    )


def _is_one_write(effects: Sequence[Effect]) -> bool:
    """Whether a commit has only one write, so that losing its race means that nothing was written."""
    changes = _changes(effects)
    return len(changes) == 1 and isinstance(changes[0], PutNew | Swap) and not object_names.is_keys(changes[0].name)
