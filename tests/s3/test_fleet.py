"""A fleet of real servers over a real bucket: refusals first, then workers killed under load."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from ulid import ULID

import strongroom
from strongroom import Memory, Token, Vault
from strongroom.errors import AuditUnavailable, ServerUnavailable, StoreUnavailable, StrongroomError
from strongroom.store import fleet_contract as logs
from strongroom.store.s3.bucket import Bucket, BucketListing, BucketObject, S3Bucket
from tests.s3 import workers
from tests.s3.ceph import Ceph
from tests.s3.servers import BUCKET, Server
from tests.s3.workers import Fleet

T = TypeVar("T")

# httpcore 1.0 leaves the socket of a refused connection to the collector.
pytestmark = pytest.mark.filterwarnings(r"ignore:unclosed <socket.socket fd=\d+:ResourceWarning")

WORKERS = 4
ACTORS = 16
PATIENCE = 300.0
TRIES = 200
PASSING = (ServerUnavailable, StoreUnavailable, AuditUnavailable)
ALL_OPS = ["put", "get", "list", "forget", "erase"]


@pytest.fixture
def place(s3: Server, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the vault is. This process finds the login and the keys where any process does."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "keys"))
    return f"s3://{BUCKET}/{prefix}"


@pytest.fixture
def vault(place: str) -> Iterator[Vault]:
    """The owner's: a worker like the others, which writes a log, too."""
    with strongroom.create(place) as made:
        yield made


@pytest.fixture
def cap(vault: Vault) -> Token:
    return vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=3600)


@pytest.fixture
def pair(s3: Server, place: str, vault: Vault, tmp_path: Path) -> Iterator[Fleet]:
    """Two workers."""
    with workers.fleet(s3, place, tmp_path / "keys", 2) as made:
        yield made


@pytest.fixture
def both(pair: Fleet, cap: Token) -> Iterator[list[Memory]]:
    """One cap's memory at each of the two."""
    with ExitStack() as stack:
        yield [stack.enter_context(strongroom.connect(url, cap, timeout=PATIENCE)) for url in pair.urls]


def texts(memory: Memory) -> dict[str, str]:
    """Every line there is, by id; none may be listed twice."""
    found: dict[str, str] = {}
    ids: list[str] = []
    after = None
    while True:
        page = memory.list(limit=1000, after=after)
        ids += [line.id for line in page.lines]
        after = page.next
        if after is None:
            break
    assert len(set(ids)) == len(ids), "listed twice"
    for at in range(0, len(ids), 20):
        found |= {hit.id: hit.text for hit in memory.get(ids=ids[at : at + 20])}
    assert found.keys() == set(ids)
    return found


def check_logs(place: str, vault: Vault, wrote: int) -> None:
    """Every log holds together, and the roster has each of so many workers that wrote, and nobody else."""
    report = strongroom.verify(place)
    assert not report.findings, report.findings[:5]
    # What a killed worker had begun and nobody was told done may never have come to be: that is told once.
    assert {one.op for one in report.doubtful} <= {"put"}, report.doubtful
    store = vault.store
    assert isinstance(store, logs.FleetStore)
    roster = dict(store.roster())
    assert None not in roster.values()
    assert sorted(roster) == sorted(store.logs())
    assert len(roster) == wrote


# A worker that has not heard of it yet.


@pytest.mark.requirement("fleet-stale-worker")
@pytest.mark.parametrize("everything", [False, True], ids=["a cap", "an actor"])
def test_stale_worker_refuses_a_revoked_cap_from_the_next_request_on(
    vault: Vault, cap: Token, both: list[Memory], everything: bool
) -> None:
    lines = [memory.put(f"trip {number}", namespace="travel").id for number, memory in enumerate(both)]
    for memory in both:
        assert texts(memory).keys() == set(lines)  # so the cap, the shelf and the answer are all held
    if everything:
        vault.revoke_actor("local/alice")
    else:
        vault.revoke(cap)
    calls: list[Callable[[Memory], object]] = [
        lambda memory: memory.get("trip"),
        lambda memory: memory.put("another", namespace="travel"),
        lambda memory: memory.list(),
        lambda memory: memory.forget(ids=lines),
    ]
    for call in calls:
        for memory in both:
            with pytest.raises(StrongroomError) as denied:
                call(memory)
            assert denied.value.reason == "cap_revoked"
    fresh = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=3600)
    assert sorted(texts(vault.memory(fresh))) == sorted(lines)


@pytest.mark.requirement("fleet-forget-everywhere")
def test_forget_is_seen_by_the_other_worker_at_once_and_the_line_does_not_come_back(
    place: str, vault: Vault, both: list[Memory]
) -> None:
    one, other = both
    kept = one.put("trip to Lima", namespace="travel").id
    gone = one.put("trip to Oslo", namespace="travel").id
    assert texts(other).keys() == {kept, gone}
    assert one.forget(ids=[gone]).ids == (gone,)
    assert [hit.id for hit in other.get("trip")] == [kept]
    assert texts(other) == {kept: "trip to Lima"}
    assert other.put("trip to Oslo", namespace="travel", id=gone).forgotten
    for memory in both:
        assert texts(memory) == {kept: "trip to Lima"}
    check_logs(place, vault, 3)


# An erase during a get.


class Pausing:
    """A bucket that does something else right before its request of a number, counted from `arm` on."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._guard = threading.Lock()
        self.asked = 0
        self.time = 0
        self.keeps_versions = False
        self._at = -1
        self._do: Callable[[], object] = lambda: None

    def arm(self, at: int, do: Callable[[], object]) -> None:
        self.asked, self._at, self._do = 0, at, do

    def _count(self) -> None:
        with self._guard:
            if self.asked == self._at:
                self._do()  # whoever asks for something else meanwhile waits as well
            self.asked += 1

    def get(self, name: str) -> BucketObject | None:
        self._count()
        return self._bucket.get(name)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        self._count()
        return self._bucket.list(prefix, after, limit)

    def folders(self, prefix: str) -> Sequence[str]:
        self._count()
        return self._bucket.folders(prefix)

    def create(self, name: str, body: bytes) -> str:
        self._count()
        return self._bucket.create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        self._count()
        return self._bucket.swap(name, body, etag)

    def delete(self, names: Sequence[str]) -> None:
        self._count()
        self._bucket.delete(names)


@pytest.fixture
def paused(s3: Server, prefix: str, place: str, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paused]:
    """A second worker in this process, which can be held up between any two of its requests."""
    bucket = Pausing(S3Bucket(s3.access(prefix), quoted=s3.quoted))
    cap = vault.mint(actor="local/first", ops=["get"], namespaces=["travel"], ttl=60)
    with monkeypatch.context() as patch:
        patch.setattr("strongroom.store.s3.bucket_at", lambda location, **_: bucket)
        patch.setattr("strongroom.store.s3.S3Store.race_later", lambda *_: None)
        opened = strongroom.open(place)
    with opened:
        opened.memory(cap).get("anything")  # its first entry in the log takes a request more
        yield Paused(opened, bucket)


class Paused(NamedTuple):
    vault: Vault
    bucket: Pausing


def _outcome(memory: Memory) -> set[str] | str:
    """What a get comes to: the texts, or the reason why there are none."""
    try:
        return {hit.text for hit in memory.get("trip", k=20)}
    except StrongroomError as error:
        return error.reason


@pytest.mark.requirement("fleet-erase-during-get")
@pytest.mark.parametrize("everything", [False, True], ids=["a namespace", "an actor"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_get_during_an_erase_answers_with_all_or_nothing_and_the_next_one_with_nothing(
    vault: Vault, paused: Paused, everything: bool, warm: bool
) -> None:
    told = {"trip to Lima", "trip to Oslo", "trip to Riga"}

    def prepared(number: int) -> tuple[Token, Memory]:
        actor = f"local/a{number}"
        cap = vault.mint(actor=actor, ops=ALL_OPS, namespaces=["travel"], ttl=3600)
        vault.memory(cap).put_many([strongroom.NewLine(text=text, namespace="travel") for text in sorted(told)])
        memory = paused.vault.memory(cap)
        if warm:
            assert _outcome(memory) == told
        return cap, memory

    def erase(number: int, cap: Token) -> None:
        if everything:
            vault.erase(f"local/a{number}")
        else:
            vault.memory(cap).erase(["travel"])

    afterwards: set[str] | str = "cap_revoked" if everything else set()
    seen: list[set[str] | str] = []
    for number in count():
        cap, memory = prepared(number)
        paused.bucket.arm(number, lambda number=number, cap=cap: erase(number, cap))  # type: ignore[misc]
        outcome = _outcome(memory)
        if paused.bucket.asked <= number:
            break  # the get was over before
        seen.append(outcome)
        assert _outcome(memory) == afterwards, (number, seen)
    assert len(seen) >= 3
    assert all(one in (told, set(), "cap_revoked") for one in seen), seen
    if not warm:  # else its requests go out at once, and in any order
        assert seen[0] == afterwards, "it was erased before the get looked at anything"
        assert seen[-1] == told, "it was erased when the get had read everything"


# Workers killed under load.


class Load(NamedTuple):
    """How much is asked of a fleet, and how many of its workers are killed meanwhile."""

    clients: int
    operations: int
    kills: int


class Crowd:
    """Clients of a fleet who put and get at any worker. What failed is sent again, with the same id, to any other.

    They go on until they have done as much as they should, and whatever is done to the fleet meanwhile is over.
    """

    def __init__(self, fleet: Fleet, caps: Sequence[Token], load: Load) -> None:
        self._fleet = fleet
        self._caps = caps
        self._load = load
        self._changed = threading.Condition()
        self._begun = 0
        self._is_disturbed = True
        self._failure: BaseException | None = None
        self.done = 0
        self.gets = 0
        self.refused = 0
        self.served: dict[str, int] = {}
        """How often each worker answered."""
        self.kept: list[dict[str, str]] = [{} for _ in caps]
        """The acknowledged lines of each actor."""

    def run(self, meanwhile: Callable[[Crowd], None]) -> None:
        """Do all of it, while something else is done as well. The first failure of anybody ends it."""
        with ThreadPoolExecutor(self._load.clients + 1) as pool:
            clients = [partial(self._client, number) for number in range(self._load.clients)]
            for work in (*clients, partial(self._disturb, meanwhile)):
                pool.submit(self._watched, work)
        if self._failure is not None:
            raise self._failure

    def _disturb(self, meanwhile: Callable[[Crowd], None]) -> None:
        meanwhile(self)
        with self._changed:
            self._is_disturbed = False

    def _watched(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test has to hear of it
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            met = self._changed.wait_for(lambda: self._failure is not None or condition(), PATIENCE)
        assert met, "it took far too long"
        assert self._failure is None, "somebody else has failed"

    def _client(self, number: int) -> None:
        chance = random.Random(number)
        with ExitStack() as stack:
            client = Client(self, stack, self._fleet, self._caps, chance)
            while self._next():
                client.act()

    def _next(self) -> bool:
        with self._changed:
            self._begun += 1
            return (self._is_disturbed or self._begun <= self._load.operations) and self._failure is None

    def answered(self, url: str) -> None:
        with self._changed:
            self.done += 1
            self.served[url] = self.served.get(url, 0) + 1
            self._changed.notify_all()

    def was_refused(self) -> None:
        with self._changed:
            self.refused += 1
            self._changed.notify_all()

    def keep(self, actor: int, line: str, text: str) -> None:
        with self._changed:
            self.kept[actor][line] = text

    def known(self, actor: int) -> list[tuple[str, str]]:
        """The acknowledged lines of an actor, by id."""
        with self._changed:
            return list(self.kept[actor].items())


class Client:
    """One of the crowd, with connections of its own."""

    def __init__(
        self, crowd: Crowd, stack: ExitStack, fleet: Fleet, caps: Sequence[Token], chance: random.Random
    ) -> None:
        self._crowd = crowd
        self._stack = stack
        self._fleet = fleet
        self._caps = caps
        self._chance = chance
        self._memories: dict[tuple[str, int], Memory] = {}

    def act(self) -> None:
        actor = self._chance.randrange(len(self._caps))
        known = self._crowd.known(actor)
        turn = self._chance.random()
        if not known or turn < 0.5:
            self._put(actor)
        elif turn < 0.8:
            self._read(actor, *self._chance.choice(known))
        else:
            self._ask(actor, *known[-1])

    def _put(self, actor: int) -> None:
        line = str(ULID.from_int(self._chance.getrandbits(100)))
        text = f"the trip of {line}"
        receipt = self._insist(actor, lambda memory: memory.put(text, namespace="travel", id=line))
        assert receipt.id == line
        assert not receipt.forgotten
        self._crowd.keep(actor, line, text)

    def _read(self, actor: int, line: str, text: str) -> None:
        """Whatever was acknowledged before, to whomever and by whichever worker, is found."""
        hits = self._insist(actor, lambda memory: memory.get(ids=[line]))
        assert [hit.text for hit in hits] == [text], "acknowledged, and not found"
        self._crowd.gets += 1

    def _ask(self, actor: int, line: str, text: str) -> None:
        hits = self._insist(actor, lambda memory: memory.get(text, k=5))
        assert line in [hit.id for hit in hits], "acknowledged, and not found"
        self._crowd.gets += 1

    def _insist(self, actor: int, call: Callable[[Memory], T]) -> T:
        """Ask any worker; another one for as long as there is no answer."""
        for _ in range(TRIES):
            url = self._chance.choice(self._fleet.urls)
            try:
                answer = call(self._memory(url, actor))
            except PASSING:
                self._crowd.was_refused()
                continue
            self._crowd.answered(url)
            return answer
        raise AssertionError("no worker answered")

    def _memory(self, url: str, actor: int) -> Memory:
        known = self._memories.get((url, actor))
        if known is None:
            made = strongroom.connect(url, self._caps[actor], timeout=PATIENCE, retries=1)
            known = self._memories[url, actor] = self._stack.enter_context(made)
        return known


@contextmanager
def _without(server: Server, part: str) -> Iterator[None]:
    """Have a part of the server killed until the block ends."""
    if not part or not isinstance(server, Ceph):
        yield
        return
    server.kill(part)
    try:
        yield
    finally:
        server.restart(part)


def _killing(fleet: Fleet, load: Load, server: Server) -> Callable[[Crowd], None]:
    """Kill workers one after another, each once it has answered somebody; and parts of the server, if it has any."""
    chance = random.Random(load.operations)
    parts = ["osd.1", "mon.0"] if isinstance(server, Ceph) else []

    def kill(crowd: Crowd) -> None:
        for number in range(load.kills):
            enough = load.operations * (number + 1) // (load.kills + 2)
            at = chance.randrange(WORKERS)
            crowd.wait_until(lambda: crowd.done >= enough and fleet.urls[at] in crowd.served)  # noqa: B023
            fleet.workers[at].kill()
            refused = crowd.refused
            crowd.wait_until(lambda: crowd.refused > refused)  # noqa: B023
            with _without(server, parts[number] if number < len(parts) else ""):
                fleet.replace(at)

    return kill


@pytest.mark.requirement("fleet-killed-workers")
@pytest.mark.parametrize(
    "load", [Load(8, 400, 3), pytest.param(Load(32, 20_000, 30), marks=pytest.mark.long)], ids=["small", "full"]
)
def test_workers_killed_under_load_lose_nothing_acknowledged_and_leave_nothing_twice(
    s3: Server, place: str, vault: Vault, tmp_path: Path, load: Load
) -> None:
    caps = [
        vault.mint(actor=f"local/a{number}", ops=["put", "get", "list"], namespaces=["travel"], ttl=24 * 3600)
        for number in range(ACTORS)
    ]
    with workers.fleet(s3, place, tmp_path / "keys", WORKERS) as fleet:
        crowd = Crowd(fleet, caps, load)
        crowd.run(_killing(fleet, load, s3))
        assert crowd.done >= load.operations
        assert crowd.refused >= load.kills, "nobody asked a worker that had been killed"
        assert crowd.gets > load.operations // 5
        for url in fleet.urls:
            for cap, expected in zip(caps, crowd.kept, strict=True):
                with strongroom.connect(url, cap, timeout=PATIENCE) as memory:
                    found = texts(memory)
                assert found.keys() >= expected.keys(), "acknowledged, and lost"
                assert found == expected, "written twice, or by nobody"
        assert fleet.stop() == [0] * WORKERS
    assert fleet.started == WORKERS + load.kills
    check_logs(place, vault, fleet.started + 1)
