"""Compaction on a real server: the same rules, with its etags, its clock, its lists and its races."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from os import urandom
from typing import Any

import pytest

from strongroom.store import Delete
from strongroom.store.s3 import compaction_plan, object_names, packs
from strongroom.store.s3.bucket import S3Bucket
from strongroom.store.s3.compaction import Compactor, Packed
from strongroom.store.s3.reader import Reader
from strongroom.store.s3.writer import Writer

LOCATOR = "a" * 32
SHELF = f"actors/{LOCATOR}/memory/{'b' * 32}/"
PLACE = f"actors/{LOCATOR}/g000000/memory/{'b' * 32}/g000000/"
COUNT = 150


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def requests() -> Iterator[Executor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def reader(bucket: S3Bucket, threads: Executor, requests: Executor) -> Reader:
    return Reader(bucket, threads, requests)


@pytest.fixture(autouse=True)
def _lines(bucket: S3Bucket, threads: Executor) -> None:
    list(
        threads.map(lambda number: bucket.create(_place(number), object_names.frame_body(_body(number))), range(COUNT))
    )


def _place(number: int) -> str:
    return f"{PLACE}lines/{number:026d}"


def _body(number: int) -> bytes:
    return f"<the sealed line {number}>".encode()


def _alive(reader: Reader) -> dict[int, bytes]:
    reader.version(SHELF)
    found = reader.listed(SHELF, "", 10_000)
    assert len(found) == len({one.name for one in found}) == COUNT
    return {int(one.name[-26:]): one.body for one in found if one.body is not None}


def _whole(*gone: int) -> dict[int, bytes]:
    return {number: _body(number) for number in range(COUNT) if number not in gone}


def _compactor(reader: Reader, *, settled: int = 0) -> Compactor:
    return Compactor(reader, urandom, settled=settled, least=1)


def _forget(reader: Reader, *numbers: int) -> None:
    names = [f"{SHELF}lines/{number:026d}" for number in numbers]
    reader.version(SHELF)
    known = {name: reader.known(name) for name in names}
    Writer(reader, urandom).carry_out([Delete(name, one.version) for name, one in known.items() if one is not None])
    _compactor(reader).finish(LOCATOR)  # as the vault does, at once or a moment later


def _holding(bucket: S3Bucket, threads: Executor, number: int) -> list[str]:
    """Where the bytes of a line are."""
    places = [one.name for one in bucket.list(PLACE)]
    found = zip(places, threads.map(bucket.get, places), strict=True)
    return [place for place, one in found if one is not None and _body(number) in one.body]


@pytest.mark.requirement("pack-crash")
def test_lines_just_written_are_not_packed_by_the_servers_clock(reader: Reader, bucket: S3Bucket) -> None:
    assert _compactor(reader, settled=120_000).compact(LOCATOR) == Packed()
    assert len(bucket.list(PLACE)) == COUNT


@pytest.mark.requirement("pack-cold")
def test_lines_move_into_packs_and_a_follower_hears_of_no_change(
    reader: Reader, bucket: S3Bucket, threads: Executor, requests: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_plan, "MOST", 64)
    follower = Reader(bucket, threads, requests)
    number = follower.version(SHELF)
    assert _compactor(reader).compact(LOCATOR) == Packed(COUNT, 3, COUNT)
    assert [len(one.name.rpartition("/")[2]) for one in bucket.list(PLACE)] == [24, 24, 24]
    assert _alive(follower) == _whole()
    assert list(follower.changes(number, 1000, SHELF)) == []


@pytest.mark.requirement("pack-forget")
def test_packed_line_that_is_forgotten_leaves_no_bytes_and_stays_gone(
    reader: Reader, bucket: S3Bucket, threads: Executor, requests: Executor
) -> None:
    _compactor(reader).compact(LOCATOR)
    _forget(Reader(bucket, threads, requests), 7)
    assert _holding(bucket, threads, 7) == []
    _compactor(reader).compact(LOCATOR)
    assert _alive(reader) == _whole(7)


@pytest.mark.requirement("pack-forget")
@pytest.mark.requirement("pack-compactors")
def test_two_racing_compactors_and_forgets_at_once_lose_nothing_and_leave_no_bytes(
    bucket: S3Bucket, threads: Executor, requests: Executor
) -> None:
    gone = (3, 50, 149)
    with ThreadPoolExecutor(5) as racing:
        readers = [Reader(bucket, threads, requests) for _ in range(5)]
        work: list[Future[Any]] = [racing.submit(_compactor(one).compact, LOCATOR) for one in readers[:2]]
        work += [racing.submit(_forget, one, number) for one, number in zip(readers[2:], gone, strict=True)]
        for one in work:
            one.result()
    reader = Reader(bucket, threads, requests)
    assert _alive(reader) == _whole(*gone)
    assert [_holding(bucket, threads, number) for number in gone] == [[], [], []]
    _compactor(reader).compact(LOCATOR)
    assert _alive(reader) == _whole(*gone)
    assert [one.name for one in bucket.list(PLACE) if packs.is_claim(one.size)] == []
