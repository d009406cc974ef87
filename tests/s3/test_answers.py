"""Answers that get lost, and errors of a store under load.

A write that was obeyed is recognised though its answer never came, and never taken for someone else's. What a store
asks to try again is tried again, a bounded number of times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import Changed, NameTaken, S3Bucket
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
def test_create_whose_answer_got_lost_where_another_was_first_is_taken(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    etag = bucket.create("a/1", b"theirs")
    proxy.lose(1)
    with pytest.raises(NameTaken):
        through.create("a/1", b"ours")
    assert proxy.lost == 1
    assert bucket.get("a/1") == (b"theirs", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_swap_whose_answer_got_lost_where_another_was_first_is_changed(
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
def test_create_whose_answer_got_lost_is_known_as_our_own(bucket: S3Bucket, through: S3Bucket, proxy: Proxy) -> None:
    proxy.lose(1)
    etag = through.create("a/1", b"ours")
    assert (proxy.lost, proxy.writes) == (1, 2)
    assert bucket.get("a/1") == (b"ours", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_swap_whose_answer_got_lost_is_known_as_our_own(bucket: S3Bucket, through: S3Bucket, proxy: Proxy) -> None:
    old = bucket.create("a/1", b"one")
    proxy.lose(1)
    etag = through.swap("a/1", b"ours", old)
    assert (proxy.lost, proxy.writes) == (1, 2)
    assert etag != old
    assert bucket.get("a/1") == (b"ours", etag)


@pytest.mark.requirement("s3-lost-answer")
def test_write_whose_answers_are_all_lost_is_unavailable_and_our_own_when_tried_again(
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
def test_swap_whose_answers_are_all_lost_is_our_own_when_tried_again(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    old = bucket.create("a/1", b"one")
    proxy.lose(ALWAYS)
    with pytest.raises(StoreUnavailable):
        through.swap("a/1", b"ours", old)
    proxy.lose(0)
    assert bucket.get("a/1") == (b"ours", through.swap("a/1", b"ours", old))


@pytest.mark.requirement("s3-errors")
@pytest.mark.parametrize("theirs", [True, False])
def test_failed_condition_is_a_lost_race(bucket: S3Bucket, through: S3Bucket, proxy: Proxy, *, theirs: bool) -> None:
    etag = bucket.create("a/1", b"one")
    proxy.refuse(ALWAYS, 412, "PreconditionFailed", only="PUT")
    with pytest.raises(Changed):
        through.swap("a/1", b"ours", etag)
    with pytest.raises(NameTaken):
        through.create("a/1" if theirs else "a/2", b"ours")
    assert bucket.get("a/1") == (b"one", etag)


@pytest.mark.requirement("s3-errors")
def test_conflict_that_was_not_executed_is_tried_again(bucket: S3Bucket, through: S3Bucket, proxy: Proxy) -> None:
    proxy.refuse(2, 409, "ConditionalRequestConflict", only="PUT")
    etag = through.create("a/1", b"one")
    proxy.refuse(2, 409, "ConditionalRequestConflict", only="PUT")
    etag = through.swap("a/1", b"two", etag)
    assert bucket.get("a/1") == (b"two", etag)


@pytest.mark.requirement("s3-errors")
def test_conflict_that_stays_and_changes_nothing_is_unavailable_and_no_lost_race(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy
) -> None:
    etag = bucket.create("a/1", b"one")
    proxy.refuse(ALWAYS, 409, "ConditionalRequestConflict", only="PUT")
    with pytest.raises(StoreUnavailable):
        through.create("a/2", b"ours")
    with pytest.raises(StoreUnavailable):
        through.swap("a/1", b"ours", etag)
    assert (bucket.get("a/1"), bucket.get("a/2")) == ((b"one", etag), None)


@pytest.mark.requirement("s3-errors")
def test_conflict_with_what_is_there_is_a_lost_race(bucket: S3Bucket, through: S3Bucket, proxy: Proxy) -> None:
    old = bucket.create("a/1", b"one")
    bucket.swap("a/1", b"theirs", old)
    proxy.refuse(ALWAYS, 409, "ConditionalRequestConflict", only="PUT")
    with pytest.raises(NameTaken):
        through.create("a/1", b"ours")
    with pytest.raises(Changed):
        through.swap("a/1", b"ours", old)


@pytest.mark.requirement("fleet-honest-answers")
@pytest.mark.parametrize("how", ["empty", "short"])
def test_torn_answer_is_asked_for_again(bucket: S3Bucket, through: S3Bucket, proxy: Proxy, how: str) -> None:
    etag = bucket.create("a/1", b"one" * 100)
    proxy.tear(1, how)
    assert through.get("a/1") == (b"one" * 100, etag)
    assert proxy.cut_short == 1


@pytest.mark.requirement("fleet-honest-answers")
@pytest.mark.parametrize("how", ["empty", "short"])
@pytest.mark.parametrize("call", ["get", "list"])
def test_answers_that_stay_torn_are_unavailable_and_nothing_is_missing(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, how: str, call: str
) -> None:
    bucket.create("a/1", b"one" * 100)
    proxy.tear(ALWAYS, how)
    with pytest.raises(StoreUnavailable):
        CALLS[call](through)
    assert proxy.cut_short


@pytest.mark.requirement("fleet-honest-answers", "s3-tombstone")
def test_object_of_no_bytes_is_read_as_one(bucket: S3Bucket, through: S3Bucket) -> None:
    etag = bucket.swap("a/1", b"", bucket.create("a/1", b"one"))
    assert through.get("a/1") == (b"", etag)


@pytest.mark.requirement("s3-errors")
def test_clock_that_the_server_refuses_is_named(through: S3Bucket, proxy: Proxy) -> None:
    proxy.refuse(ALWAYS, 403, "RequestTimeTooSkewed")
    with pytest.raises(StoreUnavailable) as caught:
        through.get("a/1")
    assert "clock" in (caught.value.hint or "")


@pytest.mark.requirement("s3-retries")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_store_that_is_busy_for_a_moment_is_asked_again(
    bucket: S3Bucket, through: S3Bucket, proxy: Proxy, call: Callable[[S3Bucket], object], status: int, code: str
) -> None:
    bucket.create("a/1", b"one")
    proxy.refuse(2, status, code)
    call(through)
    assert proxy.refused == 2


@pytest.mark.requirement("s3-retries")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_store_that_stays_busy_is_unavailable_after_a_bounded_number_of_tries(
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


class _Versioned(BaseHTTPRequestHandler):
    """What a server answers to a write that keeps the old object, or that does not."""

    version = ""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("etag", '"0123"')
        if self.version:
            self.send_header("x-amz-version-id", self.version)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.requirement("s3-errors")
@pytest.mark.parametrize(("version", "keeps"), [("", False), ("null", False), ("3HL4kqtJlcpXroDTDmJ", True)])
def test_bucket_tells_with_a_write_that_it_keeps_versions(s3: Server, version: str, *, keeps: bool) -> None:
    handler = type("Handler", (_Versioned,), {"version": version})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        bucket = S3Bucket(s3.access("t", endpoint=f"http://127.0.0.1:{server.server_address[1]}"))
        assert not bucket.keeps_versions
        bucket.create("a/1", b"one")
        server.shutdown()
        thread.join()
    assert bucket.keeps_versions is keeps
