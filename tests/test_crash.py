"""Processes that are killed, and processes that compete: nothing acknowledged is lost, nobody starves."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, Token, Vault
from strongroom.store import sqlite
from tests.conftest import Clock
from tests.store.children import Place, Process, churn, commit_for_ever, correct_for_ever, write_for_ever

WORKERS = 8
ACTORS = ["local/shared", *(f"local/worker{number}" for number in range(4))]


@dataclass
class Told:
    """What the workers of one actor said before they died."""

    put: dict[str, str] = field(default_factory=dict)
    forgetting: set[str] = field(default_factory=set)
    forgot: set[str] = field(default_factory=set)

    def hear(self, word: str, line: str, text: str) -> None:
        if word == "put":
            self.put[line] = text
        elif word == "forgetting":
            self.forgetting.add(line)
        elif word == "forgot":
            self.forgot.add(line)


class Crowd:
    """Eight writers on one vault: four share an actor, four have their own."""

    def __init__(self, place: Place, caps: dict[str, Token], seed: int) -> None:
        self._place = place
        self._caps = caps
        self._chance = random.Random(seed)
        self._started = 0
        self.told = {actor: Told() for actor in caps}
        self.heard = 0
        self.workers = [self._start(_actor(number)) for number in range(WORKERS)]

    def _start(self, actor: str) -> tuple[str, Process]:
        self._started += 1
        name = f"writer {self._started}"
        return actor, Process(churn, self._place, self._caps[actor], name, self._chance.random())

    def listen(self, count: int) -> None:
        """Wait until the crowd has said so many things more."""
        stop = self.heard + count
        while self.heard < stop:
            ready = wait([process.pipe for _, process in self.workers])
            for actor, process in self.workers:
                if process.pipe in ready:
                    self._hear(actor, process.pipe.recv())

    def _hear(self, actor: str, said: tuple[str, str, str]) -> None:
        self.heard += 1
        self.told[actor].hear(*said)

    def kill(self, number: int, *, replace: bool) -> None:
        actor, process = self.workers[number]
        for said in process.kill():
            self._hear(actor, said)
        if replace:
            self.workers[number] = self._start(actor)

    def round(self) -> None:
        """Kill every worker once, in some order and at some moment, and put another one in its place."""
        for number in self._chance.sample(range(WORKERS), WORKERS):
            self.listen(self._chance.randrange(1, 60))
            self.kill(number, replace=True)

    def end(self) -> None:
        for number in range(WORKERS):
            self.kill(number, replace=False)


def _actor(number: int) -> str:
    return ACTORS[0] if number % 2 else ACTORS[1 + number // 2]


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Place:
    return Place(tmp_path / "vault", tmp_path / "keys", clock.millis)


@pytest.fixture
def caps(vault: Vault) -> dict[str, Token]:
    ops = ["put", "get", "list", "forget"]
    return {actor: vault.mint(actor=actor, ops=ops, namespaces=["travel"], ttl=3600) for actor in ACTORS}


@pytest.mark.requirement("store-crash")
@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.long)])
def test_killed_writers_lose_nothing_acknowledged_and_leave_no_lock(
    place: Place, vault: Vault, caps: dict[str, Token], clock: Clock, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    crowd = Crowd(place, caps, seed=rounds)
    try:
        for _ in range(rounds):
            crowd.round()
    finally:
        crowd.end()
    # The vault that was open all along, and one that is opened now and has no patience with a lock left behind.
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.2)
    with strongroom.open(place.vault, keys=FileKeys(place.keys), now=clock) as fresh:
        for actor, told in crowd.told.items():
            fresh.memory(caps[actor]).put("the next line", namespace="travel")
            assert len(told.forgot) > rounds, "too little happened to prove anything"
            for one in (vault, fresh):
                _check(one.memory(caps[actor]), told)
        report = fresh.audit.verify()
        assert report.ok, report.findings[:5]


def _check(memory: Memory, told: Told) -> None:
    present = set(_all_ids(memory))
    kept = sorted(set(told.put) - told.forgetting)
    assert set(kept) <= present, "acknowledged, and lost"
    assert not told.forgot & present, "forgotten, and back"
    for at in range(0, len(kept), 20):
        asked = kept[at : at + 20]
        assert [hit.text for hit in memory.get(ids=asked)] == [told.put[line] for line in asked]


def _all_ids(memory: Memory) -> Iterator[str]:
    after = None
    while True:
        page = memory.list(limit=1000, after=after)
        yield from (line.id for line in page.lines)
        after = page.next
        if after is None:
            return


@pytest.mark.requirement("replace-crash")
@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.long)])
def test_killed_corrector_leaves_the_old_line_or_the_new_one_and_never_both_or_none(
    place: Place, vault: Vault, caps: dict[str, Token], kills: int
) -> None:
    cap, chance = caps[ACTORS[1]], random.Random(kills)
    memory = vault.memory(cap)
    for round_ in range(kills):
        first = memory.put(f"version 0 of {round_}", namespace="travel").id
        child = Process(correct_for_ever, place, cap, first)
        heard = [child.pipe.recv() for _ in range(chance.randrange(3, 40))] + child.kill()
        acknowledged = [text for word, _, text in heard if word == "replaced"]
        tried = [text for word, _, text in heard if word == "replacing"]
        (now,) = [line.text for line in memory.list(texts=True, limit=1000).lines]
        assert now in (acknowledged[-1], tried[-1])
        versions = [f"version 0 of {round_}", *tried]
        assert [hit.text for hit in memory.history(first)] == versions[: versions.index(now) + 1][-20:]
        memory.forget(ids=[line.id for line in memory.list().lines])
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-crash")
@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.long)])
def test_killed_writer_leaves_one_document_of_the_old_version_or_the_new_one(
    place: Place, vault: Vault, caps: dict[str, Token], kills: int
) -> None:
    cap, chance = caps[ACTORS[1]], random.Random(kills)
    memory = vault.memory(cap)
    for round_ in range(kills):
        memory.write_document(f"d{round_}", "version 0", namespace="travel")
        child = Process(write_for_ever, place, cap, f"d{round_}")
        heard = [child.pipe.recv() for _ in range(chance.randrange(3, 40))] + child.kill()
        (now,) = memory.documents().documents
        text = memory.document(now.key, namespace="travel").text
        last = heard[-1][2]
        assert text in {last} | {one[2] for one in heard if one[0] == "written"}
        assert int(text.split()[1]) >= int(last.split()[1]) - 1, "acknowledged, and lost"
        assert [hit.text for hit in memory.get("version", k=20)] == [text]
        memory.delete_document(now.key, namespace="travel")
    assert vault.audit.verify().ok


@pytest.mark.requirement("store-fair")
@pytest.mark.parametrize("commits", [800, pytest.param(20_000, marks=pytest.mark.long)])
def test_no_process_starves(place: Place, caps: dict[str, Token], commits: int) -> None:
    counts = [0] * WORKERS
    workers = [Process(commit_for_ever, place, caps[_actor(number)]) for number in range(WORKERS)]
    try:
        for worker in workers:
            assert worker.pipe.recv() == "open"
        for worker in workers:
            worker.pipe.send("go")
        while sum(counts) < commits:
            _count(workers, counts)
    finally:
        for worker in workers:
            worker.kill()
    assert min(counts) * 4 >= max(counts), f"commits of each process: {sorted(counts)}"


def _count(workers: Sequence[Process], counts: list[int]) -> None:
    ready = wait([worker.pipe for worker in workers])
    for number, worker in enumerate(workers):
        if worker.pipe in ready:
            worker.pipe.recv()
            counts[number] += 1
