"""A fleet of workers on a simulated bucket, run from a seed: the same seed gives the same history.

    python -m tests.fleet.simulation --seed 17 --trace
    python -m tests.fleet.simulation --seeds 0 1000

Every worker is a whole vault with a clock of its own. Workers die at any request and are started anew. Clients are in
`clients`, what a history may be in `checking`, and what must be in the bucket at the end in `ending`. When all is over,
`attacker` undoes something that was acknowledged.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from random import Random
from typing import Any

import pytest

import strongroom
from strongroom import Vault, engines
from strongroom.crypto import inbox
from strongroom.errors import StrongroomError
from strongroom.memory import ended_lines, ended_search
from strongroom.memory.ops import replace
from strongroom.store import Effect, HeadMac, s3
from strongroom.store.s3 import S3Store, s3_store
from strongroom.store.s3.worker_log import Later
from strongroom.vault import create_open
from tests.fleet.attacker import Attacker
from tests.fleet.checking import Checker
from tests.fleet.clients import Client, Ending, Owner
from tests.fleet.ending import check_bucket
from tests.fleet.expiry import GIVEN_UP
from tests.fleet.history import History
from tests.fleet.primitives import Primitives, Threads, waited
from tests.fleet.rules import Rule
from tests.fleet.scheduler import Scheduler, Stuck
from tests.fleet.simulated import Died, Server, SimulatedBucket, Weather
from tests.fleet.workers import Worker
from tests.vault.test_store_failures import MemoryKeys, MemoryWitness

BEGAN = 1_779_440_000_000
_IDENTITY = inbox.new_identity()
_engine = cache(engines.load)


class World:
    """All that a seed decides."""

    def __init__(
        self, seed: int, *, corrects: bool = False, documents: bool = False, expires: bool = False, **bucket: bool
    ) -> None:
        self.seed = seed
        self.corrects = corrects
        """Whether clients replace lines, too: another series of seeds, so that those of before stay what they are."""
        self.has_documents = documents
        """Whether clients write a document where they would write a profile: the same rules hold for both."""
        self.expires = expires
        """Whether lines are given ends, and documents with an end are written; workers then sweep now and then."""
        self.random = Random(f"world/{seed}")
        self._bytes = Random(f"bytes/{seed}")
        self.scheduler = Scheduler(seed, BEGAN)
        self.weather = Weather.of(self.random)
        self.server = Server(self.scheduler, self.weather.calm)
        self.history = History(is_late=self.weather.late > 0)
        self._bucket = bucket
        self.keys = MemoryKeys()
        self.workers = [Worker(self, f"w{number}") for number in range(self.random.randint(2, 4))]
        self.views = self.random.choice([1, 2, 4096])
        """How many actors a worker has in view: with few, views come and go."""
        self.left = 0
        """Clients that are not done yet."""
        self.packed = 0
        """Lines that compaction has put into packs."""
        self.stores: list[S3Store] = []
        """Of every worker that there ever was."""

    def bucket(self, name: str) -> SimulatedBucket:
        return SimulatedBucket(self.server, name, **self._bucket)

    def bytes(self, count: int) -> bytes:
        return self._bytes.randbytes(count)

    def open(self, worker: Worker) -> Vault:
        return strongroom.open(f"s3://{worker.name}", keys=self.keys, witness=MemoryWitness(), now=worker.clock)

    def begin(self) -> None:
        """The founding of the vault, in fair weather; then everybody at once."""
        founder = self.workers[0]
        strongroom.create(f"s3://{founder.name}", keys=self.keys, witness=MemoryWitness(), now=founder.clock).close()
        for worker in self.workers:
            worker.start()
        self.server.weather = self.weather
        owner = Owner(self)
        owner.provide()
        clients = [Client(self, number) for number in range(self.random.randint(2, 5))]
        self.left = len(clients) + 1
        self.scheduler.spawn(owner.name, owner.run)
        for client in clients:
            self.scheduler.spawn(client.name, client.run)
        self.scheduler.spawn("fate", self._fate)
        for worker in self.workers:
            self.scheduler.spawn("compactor", worker.compacts)
            if self.expires:
                self.scheduler.spawn("sweeper", worker.sweeps)

    def _fate(self) -> None:
        """Workers die and come back until the clients are done; then the weather turns fair, and all is looked at."""
        deadly = self.random.choice([0.0, 0.1, 0.3])
        while self.left:
            self.scheduler.pause(self.random.randrange(50, 1500))
            if self.random.random() < deadly:
                worker = self.random.choice(self.workers)
                worker.kill()
                self.scheduler.pause(self.random.randrange(10, 2000))
                worker.start()
        self.server.weather = self.weather.calm
        self.scheduler.pause(20_000)
        Ending(self).run()
        if self.taken_logs:
            self.history.note(Rule.FALSE_TAKEN_LOG, f"{self.taken_logs} logs")
        Attacker(self).run()

    # What stands in for the world outside.

    @contextmanager
    def isolated(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            primitives = Primitives(self.scheduler)
            for name, module in list(sys.modules.items()):
                if name.startswith("strongroom."):
                    if vars(module).get("threading") is threading:
                        patch.setattr(module, "threading", primitives)
                    if vars(module).get("wait") is concurrent.futures.wait:
                        patch.setattr(module, "wait", waited)
            genuine = os.urandom
            patch.setattr(os, "urandom", lambda count: self.bytes(count) if _is_simulated() else genuine(count))
            patch.setattr(secrets, "token_hex", lambda count: self.bytes(count).hex())
            patch.setattr(inbox, "new_identity", lambda: _IDENTITY)
            patch.setattr(engines, "load", _engine)
            patch.setattr(create_open, "backend", lambda location: (_Backend(self), location))
            patch.setattr(s3, "S3Store", self._store)
            patch.setattr(s3_store, "clock", _Clock(self.scheduler))
            if self.expires:
                for module in (replace, ended_lines, ended_search):
                    patch.setattr(module, "UNCONFIRMED", GIVEN_UP)
            yield

    def _store(self, bucket: SimulatedBucket, **_: Any) -> S3Store:
        worker = next(one for one in self.workers if one.bucket is bucket)
        store = S3Store(
            bucket,
            random=self.bytes,
            now=worker.clock,
            threads=Threads(self.scheduler, bucket.worker),
            packs=False,
            views=self.views,
            later=self._later(bucket),
        )
        self.stores.append(store)
        return store

    @property
    def taken_logs(self) -> int:
        """How many logs the workers gave up because something foreign was in the way: each is an alarm."""
        return sum(store.taken_logs for store in self.stores)

    def _later(self, bucket: SimulatedBucket) -> Later:
        """The timer of one worker: a task that begins later, and ends with the worker."""

        def later(seconds: float, act: Callable[[], None]) -> Callable[[], object]:
            def ring() -> None:
                with suppress(Died):
                    act()

            self.scheduler.spawn(f"{bucket.worker}.timer", ring, round(seconds * 1000))
            return lambda: None

        return later

    def worker(self, name: str) -> Worker:
        return next(one for one in self.workers if one.name == name)


class _Backend:
    """The backend in which a bucket is called by the name of a worker."""

    def __init__(self, world: World) -> None:
        self._world = world

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> S3Store:
        return s3.create(self._bucket(location), location, mac, entries, effects, time)

    def open(self, location: str) -> S3Store:
        return s3.open_store(self._bucket(location), location)

    def _bucket(self, location: str) -> SimulatedBucket:
        return self._world.worker(location.removeprefix("s3://")).bucket


class _Clock:
    """What the store finds under the name of the module `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        return self._scheduler.now / 1000

    def sleep(self, seconds: float) -> None:
        self._scheduler.pause(round(seconds * 1000))


def _is_simulated() -> bool:
    return threading.current_thread().name.startswith("simulated")


class Outcome:
    """What a seed came to."""

    def __init__(self, world: World, violations: Sequence[str]) -> None:
        self.seed = world.seed
        self.violations = violations
        self.packed = world.packed
        self.trace = world.server.trace
        self.calls = [str(call) for call in world.history.calls]

    @property
    def text(self) -> str:
        """What to read of a failure, and how to see it again."""
        found = "\n".join(f"  {one}" for one in self.violations[:10])
        return f"seed {self.seed}:\n{found}\n  python -m tests.fleet.simulation --seed {self.seed} --trace"


def simulate(seed: int, **options: bool) -> Outcome:
    """Run one seed to its end."""
    world = World(seed, **options)
    violations: list[str] = []
    with world.isolated():
        world.scheduler.spawn("world", world.begin)
        try:
            world.scheduler.run()
        except (Stuck, StrongroomError, Died) as error:
            violations.append(f"{Rule.HALT}: {type(error).__name__}: {error}")
        else:
            violations += check_bucket(world.server, world.history)
    return Outcome(world, violations + list(Checker(world.history).violations()))


def main(arguments: Sequence[str] | None = None, say: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description="Run a simulated fleet from a seed.")
    parser.add_argument("--seed", type=int, help="one seed, with its calls")
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "STOP"), help="many seeds")
    parser.add_argument("--correct", action="store_true", help="let the clients replace lines, too")
    parser.add_argument("--documents", action="store_true", help="let the clients write documents for profiles")
    parser.add_argument("--expire", action="store_true", help="let lines and documents have ends, and workers sweep")
    parser.add_argument("--trace", action="store_true", help="show every request of the seed, too")
    given = parser.parse_args(arguments)
    options = {"corrects": given.correct, "documents": given.documents, "expires": given.expire}
    if given.seed is not None:
        outcome = simulate(given.seed, **options)
        lines = [*(outcome.trace if given.trace else []), *outcome.calls, *map("WRONG: {}".format, outcome.violations)]
        for line in lines:
            say(line)
        return bool(outcome.violations)
    bad = 0
    for seed in range(*(given.seeds or (0, 40))):
        outcome = simulate(seed, **options)
        if outcome.violations:
            bad += 1
            say(outcome.text)
    say(f"{bad} seeds failed")
    return bool(bad)


def run_alone() -> None:
    """Begin this command anew with fixed hashes, unless it has them: the order of sets must be the seed's, too."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.fleet.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})


if __name__ == "__main__":
    run_alone()
    sys.exit(main())
