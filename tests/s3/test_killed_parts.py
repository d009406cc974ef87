"""Ceph with a part killed in mid-write: what was acknowledged is there, and what was refused is not there twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import BucketObject, S3Bucket
from tests.s3.ceph import Ceph

OBJECTS = 400
KILL_AT = 100
PATIENCE = 120.0


class Writers:
    """Many threads that create objects, and note each that was acknowledged."""

    def __init__(self, bucket: S3Bucket) -> None:
        self.kept: dict[str, BucketObject] = {}
        self.refused: list[str] = []
        self.warm = threading.Event()
        self._bucket = bucket

    def write(self, number: int) -> None:
        name = f"a/{number:04d}"
        try:
            self.kept[name] = BucketObject(name.encode(), self._bucket.create(name, name.encode()))
        except StoreUnavailable:
            self.refused.append(name)
        if len(self.kept) >= KILL_AT:
            self.warm.set()


@pytest.mark.long
@pytest.mark.requirement("s3-killed-parts")
@pytest.mark.parametrize("part", ["osd.1", "mon.0", "gateway.1"])
def test_no_acknowledged_object_is_lost_when_a_part_is_killed_and_every_refused_one_can_be_written(
    ceph: Ceph, prefix: str, part: str
) -> None:
    writers = Writers(S3Bucket(ceph.access(prefix, 1), quoted=ceph.quoted))
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(writers.write, number) for number in range(OBJECTS)]
        assert writers.warm.wait(PATIENCE)
        ceph.kill(part)
        ceph.restart(part)
        for one in done:
            one.result()
    reader = S3Bucket(ceph.access(prefix, 0), quoted=ceph.quoted)
    assert {name: reader.get(name) for name in writers.kept} == writers.kept
    for name in writers.refused:
        reader.create(name, name.encode())
    assert [one.name for one in reader.list("a/")] == [f"a/{number:04d}" for number in range(OBJECTS)]


@pytest.mark.long
@pytest.mark.requirement("s3-killed-parts")
def test_gateway_that_is_down_is_unavailable_and_the_other_one_serves(ceph: Ceph, prefix: str) -> None:
    one, other = (S3Bucket(ceph.access(prefix, at), quoted=ceph.quoted) for at in (0, 1))
    etag = other.create("a/1", b"one")
    ceph.kill("gateway.1")
    try:
        with pytest.raises(StoreUnavailable):
            other.get("a/1")
        assert one.get("a/1") == (b"one", etag)
    finally:
        ceph.restart("gateway.1")
    assert other.get("a/1") == (b"one", etag)
