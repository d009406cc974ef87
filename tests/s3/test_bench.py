"""The rows of `bench` on S3: what they count, and that they refuse a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from bench import s3 as rows
from bench.__main__ import BENCHMARKS
from bench.buckets import Counting, Place, store_of

from strongroom.store.s3.bucket import BucketListing, S3Bucket
from strongroom.store.s3.compaction import Compactor
from tests.s3.servers import Server


class Large:
    """A bucket with many objects, of which nobody reads any."""

    def __init__(self, count: int) -> None:
        self._listed = [BucketListing(f"a/{number:04d}", "e", 1, 0) for number in range(count)]

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        return self._listed[:limit]

    def delete(self, names: Sequence[str]) -> None:
        pass


@pytest.mark.requirement("s3-bench")
def test_rows_of_s3_are_registered() -> None:
    named = {"put", "get", "threads", "cold", "requests", "done", "loose", "forgets", "growth"}
    assert {f"s3.{one}" for one in named} <= BENCHMARKS.keys()


@pytest.mark.requirement("s3-bench")
@pytest.mark.parametrize(("objects", "requests"), [(0, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_every_page_of_a_list_and_every_batch_of_deletes_counts(objects: int, requests: int) -> None:
    counting = Counting(Large(objects))  # type: ignore[arg-type]
    listed = counting.list("a/")
    assert counting.requests == requests
    counting.delete([one.name for one in listed])
    assert counting.requests == 2 * requests


@pytest.mark.requirement("s3-bench")
def test_get_that_misses_its_line_and_a_worker_that_misses_one_are_refused(
    s3: Server, prefix: str, tmp_path: Path
) -> None:
    place = Place(s3, prefix, tmp_path / "keys")
    vault, counting = place.create()
    with vault:
        putting = rows._Putting(vault, 20)
        rows._checked(place, putting)
        before = counting.requests
        putting.get()
        assert counting.requests > before
        memory = putting._memories[0]
        with pytest.raises(rows.Wrong):
            rows._found(memory, "another", "words")
        store = store_of(vault)
        locator = next(store.reader.locators())
        assert Compactor(store.reader, bytes, settled=0, least=1).compact(locator).lines == 1
        rows._checked(place, putting)
        known = putting._known[3]
        known.update(dict.fromkeys(known, "other words"))
        with pytest.raises(rows.Wrong):
            rows._checked(place, putting)


def test_bare_side_lists_what_the_vault_wrote(s3: Server, prefix: str, bucket: S3Bucket) -> None:
    for number in range(3):
        bucket.create(f"actors/{number}", b"x")
    assert Place(s3, prefix, Path()).bare().list("actors") == 3
