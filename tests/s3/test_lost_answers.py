"""Writes that are obeyed and whose answer never comes: they are recognised, and never taken for someone else's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import Changed, S3Bucket, Taken
from tests.s3.proxy import Proxy, proxied
from tests.s3.servers import Server

ALWAYS = 1_000


@pytest.fixture
def proxy(s3: Server) -> Iterator[Proxy]:
    with proxied(s3.endpoints[0]) as made:
        yield made


@pytest.fixture
def through(s3: Server, prefix: str, proxy: Proxy) -> S3Bucket:
    """The bucket of the test, by way of the proxy."""
    return S3Bucket(s3.access(prefix, endpoint=proxy.endpoint), quoted=s3.quoted)


@pytest.mark.requirement("s3-lost-answer")
def test_a_create_whose_answer_got_lost_where_another_was_first_is_taken(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    etag = bucket.create("a/1", b"theirs")
    proxy.lose(1)
    with pytest.raises(Taken):
        through.create("a/1", b"ours")
    assert proxy.lost == 1
    assert bucket.get("a/1") == (b"theirs", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_a_swap_whose_answer_got_lost_where_another_was_first_is_changed(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    old = bucket.create("a/1", b"one")
    new = bucket.swap("a/1", b"theirs", old)
    proxy.lose(1)
    with pytest.raises(Changed):
        through.swap("a/1", b"ours", old)
    assert proxy.lost == 1
    assert bucket.get("a/1") == (b"theirs", new)


@pytest.mark.requirement("s3-lost-answer")
def test_a_create_whose_answer_got_lost_is_known_as_our_own(bucket: S3Bucket, through: S3Bucket, proxy: Proxy) -> None:
    proxy.lose(1)
    etag = through.create("a/1", b"ours")
    assert (proxy.lost, proxy.writes) == (1, 2)
    assert bucket.get("a/1") == (b"ours", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_a_swap_whose_answer_got_lost_is_known_as_our_own(bucket: S3Bucket, through: S3Bucket, proxy: Proxy) -> None:
    old = bucket.create("a/1", b"one")
    proxy.lose(1)
    etag = through.swap("a/1", b"ours", old)
    assert (proxy.lost, proxy.writes) == (1, 2)
    assert etag != old
    assert bucket.get("a/1") == (b"ours", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_a_write_whose_answers_are_all_lost_is_unavailable_and_our_own_when_tried_again(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    proxy.lose(ALWAYS)
    with pytest.raises(StoreUnavailable):
        through.create("a/1", b"ours")
    assert proxy.lost > 1
    proxy.lose(0)
    etag = through.create("a/1", b"ours")
    assert bucket.get("a/1") == (b"ours", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_a_swap_whose_answers_are_all_lost_is_our_own_when_tried_again(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    old = bucket.create("a/1", b"one")
    proxy.lose(ALWAYS)
    with pytest.raises(StoreUnavailable):
        through.swap("a/1", b"ours", old)
    proxy.lose(0)
    assert bucket.get("a/1") == (b"ours", through.swap("a/1", b"ours", old))
