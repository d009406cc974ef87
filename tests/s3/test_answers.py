"""Answers that get lost, and errors of a store under load.

A write that was obeyed is recognised though its answer never came, and never taken for someone else's. What a store
asks to try again is tried again, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import Changed, S3Bucket, Taken
from tests.s3.proxy import Proxy, proxied
from tests.s3.servers import Server

ALWAYS = 1_000
CALLS: dict[str, Callable[[S3Bucket], object]] = {
    "get": lambda bucket: bucket.get("a/1"),
    "list": lambda bucket: bucket.list("a/"),
    "create": lambda bucket: bucket.create("a/2", b"new"),
    "delete": lambda bucket: bucket.delete(["a/1"]),
}


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


CONFLICTS = pytest.mark.parametrize(
    ("status", "code"), [(409, "ConditionalRequestConflict"), (412, "PreconditionFailed")]
)


@CONFLICTS
@pytest.mark.requirement("s3-errors")
def test_a_create_that_meets_a_conflict_is_a_lost_race_whatever_its_number(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, status: int, code: str
) -> None:
    proxy.refuse(ALWAYS, status, code, only="PUT")
    with pytest.raises(Taken):
        through.create("a/1", b"ours")
    assert bucket.get("a/1") is None


@CONFLICTS
@pytest.mark.requirement("s3-errors")
def test_a_swap_that_meets_a_conflict_is_a_lost_race_whatever_its_number(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, status: int, code: str
) -> None:
    etag = bucket.create("a/1", b"one")
    proxy.refuse(ALWAYS, status, code, only="PUT")
    with pytest.raises(Changed):
        through.swap("a/1", b"ours", etag)
    assert bucket.get("a/1") == (b"one", etag)


@pytest.mark.requirement("s3-retries")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_a_store_that_is_busy_for_a_moment_is_asked_again(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, call: Callable[[S3Bucket], object], status: int, code: str
) -> None:
    bucket.create("a/1", b"one")
    proxy.refuse(2, status, code)
    call(through)
    assert proxy.refused == 2


@pytest.mark.requirement("s3-retries")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_stays_busy_is_unavailable_after_a_bounded_number_of_tries(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, call: Callable[[S3Bucket], object]
) -> None:
    etag = bucket.create("a/1", b"one")
    proxy.refuse(ALWAYS, 503, "SlowDown")
    with pytest.raises(StoreUnavailable):
        call(through)
    assert 2 <= proxy.refused <= 10
    assert [(one.name, one.etag) for one in bucket.list("a/")] == [("a/1", etag)]


@pytest.mark.requirement("s3-errors")
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "ExpiredToken"), (403, "AccessDenied"), (404, "NoSuchBucket"), (405, "MethodNotAllowed"), (307, "Moved")],
)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_any_other_answer_is_unavailable_and_never_taken_for_nothing(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, call: Callable[[S3Bucket], object], status: int, code: str
) -> None:
    proxy.refuse(ALWAYS, status, code)
    with pytest.raises(StoreUnavailable):
        call(through)
    assert proxy.refused
