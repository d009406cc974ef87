"""A server that is killed under load: what it acknowledged is there once, and its clients' retries leave no second."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from ulid import ULID

import strongroom
from strongroom import FileKeys, Memory, Token, Vault
from strongroom.errors import ServerUnavailable
from tests.conftest import Clock
from tests.server_children import Moment, Service
from tests.store.children import Place

T = TypeVar("T")

# httpcore 1.0 leaves the socket of a refused connection to the collector.
pytestmark = pytest.mark.filterwarnings(r"ignore:unclosed <socket.socket fd=\d+, family=1,:ResourceWarning")

CONNECTIONS = 32
PATIENCE = 120.0
"""Seconds after which a wait is given up: nothing here takes nearly as long."""


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Place:
    return Place(tmp_path / "vault", tmp_path / "keys", clock.millis)


@pytest.fixture
def service(place: Place, vault: Vault) -> Iterator[Service]:
    """A server on the vault. Its socket has a directory of its own: the path of a socket must be short."""
    assert vault.id
    with TemporaryDirectory() as directory:
        made = Service(place, Path(directory) / "socket")
        try:
            yield made
        finally:
            made.kill()


@pytest.fixture
def cap(vault: Vault) -> Token:
    ops = ["put", "get", "list", "forget"]
    return vault.mint(actor="local/alice", ops=ops, namespaces=["travel"], ttl=3600)


class Crowd:
    """Holders of one cap, each with a connection of its own, who put, forget and read until they are told to stop.

    Half of them leave retrying to the client. The others see every failure, wait until the server is back, and send
    the same call with the same id again.
    """

    def __init__(self, url: str, cap: Token, clock: Clock, seed: int) -> None:
        self._url = url
        self._cap = cap
        self._clock = clock
        self._seed = seed
        self._changed = threading.Condition()
        self._stopping = False
        self._starts = 1
        self._failure: BaseException | None = None
        self.put: dict[str, str] = {}
        self.forgot: set[str] = set()
        self.acknowledged: Counter[int] = Counter()
        self.interrupted: set[int] = set()
        self._pool = ThreadPoolExecutor(CONNECTIONS)
        self._running = [self._pool.submit(self._run, number) for number in range(CONNECTIONS)]

    # What the test does with them.

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            met = self._changed.wait_for(lambda: self._failure is not None or condition(), PATIENCE)
        if self._failure is not None:
            raise self._failure
        assert met, "it took far too long"

    def restarted(self) -> None:
        """Tell those who wait that the server is back."""
        with self._changed:
            self._starts += 1
            self.interrupted.clear()
            self.acknowledged.clear()
            self._changed.notify_all()

    def stop(self) -> None:
        """Let everybody finish what they are at."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._pool.shutdown()

    # What each of them does.

    def _run(self, number: int) -> None:
        stubborn = number % 2 == 0
        retries = 0 if stubborn else 20
        try:
            with strongroom.connect(self._url, self._cap, timeout=PATIENCE, retries=retries, now=self._clock) as memory:
                Holder(self, memory, number, self._seed, stubborn=stubborn).run()
        except BaseException as error:  # noqa: BLE001 - the test has to hear of it
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def is_over(self) -> bool:
        return self._stopping

    def done(self, number: int) -> None:
        with self._changed:
            self.acknowledged[number] += 1
            self._changed.notify_all()

    def insist(self, number: int, call: Callable[[], T]) -> T:
        """Repeat a call until the server answers it, waiting for the next server after each failure."""
        while True:
            seen = self._starts
            try:
                return call()
            except ServerUnavailable:
                self._wait_for_another(number, seen)

    def _wait_for_another(self, number: int, seen: int) -> None:
        """Say that a call failed, and wait for a server after the one that was seen."""
        with self._changed:
            self.interrupted.add(number)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._starts > seen, PATIENCE), "no other server came"


class Holder:
    """One of the crowd: remembers what it was told to be done."""

    def __init__(self, crowd: Crowd, memory: Memory, number: int, seed: int, *, stubborn: bool) -> None:
        self._crowd = crowd
        self._memory = memory
        self._number = number
        self._stubborn = stubborn
        self._chance = random.Random(seed * CONNECTIONS + number)
        self._own: list[str] = []
        self._said = 0

    def run(self) -> None:
        while not self._crowd.is_over():
            turn = self._chance.random()
            if self._own and turn < 0.2:
                self._forget(self._own.pop(self._chance.randrange(len(self._own))))
            elif self._own and turn < 0.4:
                self._read(self._chance.choice(self._own))
            else:
                self._put()
            self._crowd.done(self._number)

    def _put(self) -> None:
        text = f"holder {self._number} says {self._said}"
        self._said += 1
        name = str(ULID.from_int(self._chance.getrandbits(100))) if self._stubborn else None
        receipt = self._call(lambda: self._memory.put(text, namespace="travel", id=name))
        assert not receipt.forgotten
        assert name in (None, receipt.id)
        self._crowd.put[receipt.id] = text
        self._own.append(receipt.id)

    def _forget(self, line: str) -> None:
        answer = self._call(lambda: self._memory.forget(ids=[line]))
        assert {*answer.ids, *answer.missing} == {line}
        self._crowd.forgot.add(line)

    def _read(self, line: str) -> None:
        (hit,) = self._call(lambda: self._memory.get(ids=[line]))
        assert hit.text == self._crowd.put[line]

    def _call(self, call: Callable[[], T]) -> T:
        return self._crowd.insist(self._number, call) if self._stubborn else call()


def _texts(memory: Memory) -> dict[str, str]:
    """Every line there is, by id."""
    found: dict[str, str] = {}
    after = None
    while True:
        page = memory.list(limit=1000, after=after)
        ids = [line.id for line in page.lines]
        for at in range(0, len(ids), 20):
            found |= {hit.id: hit.text for hit in memory.get(ids=ids[at : at + 20])}
        after = page.next
        if after is None:
            return found


def _check_log(place: Place) -> None:
    report = strongroom.verify(place.vault, keys=FileKeys(place.keys))
    assert report.ok, report.findings[:5]


@pytest.mark.requirement("server-crash")
@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.long)])
def test_server_killed_under_load_loses_nothing_acknowledged_and_retries_duplicate_nothing(
    place: Place, service: Service, vault: Vault, cap: Token, clock: Clock, rounds: int
) -> None:
    chance = random.Random(rounds)
    url = service.start()
    crowd = Crowd(url, cap, clock, seed=rounds)
    stubborn = set(range(0, CONNECTIONS, 2))
    try:
        for _ in range(rounds):
            enough = chance.randrange(100, 500)
            crowd.wait_until(lambda: crowd.acknowledged.total() >= enough)  # noqa: B023 - awaited right here
            service.kill()
            # Everybody who retries without help was in the middle of something, or found nobody there.
            crowd.wait_until(lambda: crowd.interrupted >= stubborn)
            service.start()
            crowd.restarted()
        crowd.wait_until(lambda: len(crowd.acknowledged) == CONNECTIONS)
    finally:
        crowd.stop()
    expected = {line: text for line, text in crowd.put.items() if line not in crowd.forgot}
    assert len(crowd.forgot) > rounds, "too little happened to prove anything"
    assert len(set(crowd.put.values())) == len(crowd.put), "one text was acknowledged under two ids"
    with strongroom.connect(url, cap, now=clock) as served, place.open() as fresh:
        # As the server tells it, as a vault does that is opened now, and as one that was open all along.
        for memory in (served, fresh.memory(cap), vault.memory(cap)):
            found = _texts(memory)
            assert found.keys() >= expected.keys(), "acknowledged, and lost"
            assert not found.keys() & crowd.forgot, "forgotten, and back"
            assert found == expected, "written twice, or by nobody"
    service.kill()
    _check_log(place)


def _in_background(
    pool: ThreadPoolExecutor, url: str, cap: Token, clock: Clock, call: Callable[[Memory], T]
) -> Future[T]:
    def work() -> T:
        with strongroom.connect(url, cap, timeout=PATIENCE, retries=20, now=clock) as memory:
            return call(memory)

    return pool.submit(work)


@pytest.mark.requirement("server-crash")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_put_whose_server_dies_around_its_commit_is_there_once_after_the_retry(
    place: Place, service: Service, vault: Vault, cap: Token, clock: Clock, moment: Moment
) -> None:
    url = service.start(fatal=moment)
    with ThreadPoolExecutor(1) as pool:
        put = _in_background(pool, url, cap, clock, lambda memory: memory.put("a trip", namespace="travel"))
        service.wait_until_dead()
        written = _texts(vault.memory(cap))
        assert list(written.values()) == (["a trip"] if moment == "after" else [])
        service.start()
        receipt = put.result(PATIENCE)
    assert not receipt.duplicate
    assert _texts(vault.memory(cap)) == {receipt.id: "a trip"}
    assert written.keys() <= {receipt.id}
    _check_log(place)


@pytest.mark.requirement("server-crash")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_forget_whose_server_dies_around_its_commit_is_carried_out_once(
    place: Place, service: Service, vault: Vault, cap: Token, clock: Clock, moment: Moment
) -> None:
    line = vault.memory(cap).put("a trip", namespace="travel").id
    url = service.start(fatal=moment)
    with ThreadPoolExecutor(1) as pool:
        forget = _in_background(pool, url, cap, clock, lambda memory: memory.forget(ids=[line]))
        service.wait_until_dead()
        assert list(_texts(vault.memory(cap))) == ([] if moment == "after" else [line])
        service.start()
        forgotten = forget.result(PATIENCE)
    assert (forgotten.ids, forgotten.missing) == (((), (line,)) if moment == "after" else ((line,), ()))
    assert _texts(vault.memory(cap)) == {}
    _check_log(place)
