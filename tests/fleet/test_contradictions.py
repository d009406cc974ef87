"""Answers that contradict the list: asked for again, then unavailable; never taken for a line that was forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import strongroom
from strongroom import FileKeys, Memory, Vault
from strongroom.errors import StoreUnavailable
from strongroom.store.s3 import packs
from strongroom.store.s3.bucket import BucketObject, NameTaken
from strongroom.store.s3.object_names import frame_body
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.fleet.shelf import LOCATOR, PLACE, Shelf, Worker, name_of, whole

pytestmark = pytest.mark.requirement("fleet-honest-answers")
ALWAYS = 1000
PARTS = ("/lines/", "/packs/", "/at")


class Torn(MemoryBucket):
    """Answers with a part of the bytes, and the etag of all, for objects with a part of names."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.times, self.bytes = "", 0, 0

    def tear(self, part: str, times: int, of: int = 0) -> None:
        self.part, self.times, self.bytes = part, times, of

    def get(self, name: str) -> BucketObject | None:
        found = super().get(name)
        if found is None or not self.times or self.part not in name:
            return found
        self.times -= 1
        return found._replace(body=found.body[: self.bytes])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Torn:
    return used_by_vaults(Torn(), monkeypatch)


@pytest.fixture
def memory(bucket: Torn, tmp_path: Path) -> Iterator[Memory]:
    """A worker that has not read anything yet, of a memory with one line."""
    keys = FileKeys(tmp_path / "keys")
    first = strongroom.create("s3://bucket/room", keys=keys)
    cap = first.mint(actor="local/alice", ops=["put", "get", "list"], namespaces=first.namespaces, ttl=3600)
    first.memory(cap).put("a trip", namespace="travel")
    vault: Vault = strongroom.open("s3://bucket/room", keys=keys)
    yield vault.memory(cap)
    for one in (vault, first):
        one.close()


@pytest.mark.parametrize("of", [0, 1, 20])
@pytest.mark.parametrize("part", ["/lines/", "/at"])
def test_one_torn_answer_is_asked_for_again(memory: Memory, bucket: Torn, part: str, of: int) -> None:
    bucket.tear(part, 1, of)
    assert [one.text for one in memory.get("trip")] == ["a trip"]
    assert bucket.times == 0


@pytest.mark.parametrize("of", [0, 1, 20])
@pytest.mark.parametrize("part", ["/lines/", "/at"])
def test_answers_that_stay_torn_are_unavailable_and_the_line_is_there_afterwards(
    memory: Memory, bucket: Torn, part: str, of: int
) -> None:
    bucket.tear(part, ALWAYS, of)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            memory.get("trip")
    bucket.tear("", 0)
    assert [one.text for one in memory.get("trip")] == ["a trip"]


def test_listed_line_that_no_get_finds_is_unavailable(memory: Memory, bucket: Torn) -> None:
    whole_get = bucket.get
    bucket.get = lambda name: None if "/lines/" in name else whole_get(name)  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        memory.get("trip")


# Packing.


def _shelf() -> tuple[Shelf, Torn]:
    made = Shelf()
    torn = Torn()
    torn.objects = made.bucket.objects
    made.put(range(10))
    made.bucket.now += 600_000
    return made, torn


def _through(made: Shelf, torn: Torn) -> Worker:
    """A worker whose reads are torn, on the shelf's own bucket."""
    worker = made.worker()
    worker.reader.bucket.get = torn.get  # type: ignore[method-assign]
    return worker


@pytest.mark.parametrize("of", [0, packs.CLAIM_SIZE, 30])
@pytest.mark.parametrize("times", [1, 2, 5, 11, ALWAYS])
@pytest.mark.parametrize("part", ["/lines/", "/packs/"])
def test_compactor_that_reads_torn_answers_loses_nothing(part: str, times: int, of: int) -> None:
    made, torn = _shelf()
    worker = _through(made, torn)
    torn.tear(part, times, of)
    for _ in range(2):
        try:
            worker.compact()
        except StoreUnavailable:
            continue
    assert made.alive() == whole(range(10))


def test_pack_that_comes_empty_is_not_taken_for_an_unfilled_claim() -> None:
    made, torn = _shelf()
    made.worker().compact()
    (pack,) = made.packs()
    worker = _through(made, torn)
    torn.tear("/packs/", 1)
    worker.compactor._drop({pack: "an etag"})
    assert made.alive() == whole(range(10))


# A conflict that changed nothing.


class Conflicted(Torn):
    """Takes a name for one in use, once, though nothing is there."""

    def __init__(self) -> None:
        super().__init__()
        self.conflicts = 1

    def create(self, name: str, body: bytes) -> str:
        if "/packs/" in name and self.conflicts:
            self.conflicts -= 1
            raise NameTaken(name)
        return super().create(name, body)


def test_burial_whose_name_was_taken_without_effect_is_written_under_another() -> None:
    bucket = Conflicted()
    bucket.create(PLACE + "lines/" + name_of(1)[-26:], frame_body(b"<the sealed line>"))
    worker = Worker(bucket, Random(1))
    worker.forget((1,))
    assert bucket.conflicts == 0
    view = Worker(bucket, Random(2)).reader.actor(LOCATOR)
    assert [one.pack != "" and one.is_gone for one in view.objects.values()] == [True]
