"""The bucket on a real server: refusals and faults first, then each call's contract, then races."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.store.s3 import bucket as module
from strongroom.store.s3.bucket import Changed, NameTaken, S3Bucket
from strongroom.store.s3.location import access
from tests.s3.servers import BUCKET, Server

CALLS: dict[str, Callable[[S3Bucket], object]] = {
    "get": lambda bucket: bucket.get("a/1"),
    "list": lambda bucket: bucket.list("a/"),
    "create": lambda bucket: bucket.create("a/2", b"new"),
    "swap": lambda bucket: bucket.swap("a/1", b"new", "0" * 32),
    "delete": lambda bucket: bucket.delete(["a/1"]),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An endpoint where nobody answers: the port is taken, and not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def stranger(s3: Server, prefix: str, **variables: str) -> S3Bucket:
    """A client of the bucket with something wrong about its login."""
    return S3Bucket(access(f"{BUCKET}/{prefix}", s3.environment() | variables), quoted=s3.quoted)


def together(count: int, work: Callable[[int], object]) -> list[object]:
    """What each of many at once comes to."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def fill(bucket: S3Bucket, names: list[str]) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: bucket.create(name, name.encode()), names))


@every_call
@pytest.mark.requirement("s3-errors")
def test_wrong_secret_is_unavailable_and_changes_nothing(
    s3: Server, prefix: str, bucket: S3Bucket, call: Callable[[S3Bucket], object]
) -> None:
    bucket.create("a/1", b"one")
    with pytest.raises(StoreUnavailable):
        call(stranger(s3, prefix, AWS_SECRET_ACCESS_KEY="another"))
    assert [one.name for one in bucket.list("a/")] == ["a/1"]


@pytest.mark.requirement("s3-errors")
def test_wrong_login_has_one_hint_whatever_is_called_and_it_is_not_to_try_again(
    s3: Server, prefix: str, nobody: str
) -> None:
    def hints(bucket: S3Bucket) -> set[str]:
        found = set()
        for call in CALLS.values():
            with pytest.raises(StoreUnavailable) as caught:
                call(bucket)
            found.add(caught.value.hint)
        return found

    wrong = hints(stranger(s3, prefix, AWS_SECRET_ACCESS_KEY="another"))
    assert len(wrong) == 1
    assert not wrong & hints(stranger(s3, prefix, AWS_ENDPOINT_URL=nobody))


@pytest.mark.parametrize("call", [CALLS["get"], CALLS["list"]], ids=["get", "list"])
@pytest.mark.requirement("s3-errors")
def test_bucket_that_is_missing_is_unavailable_and_never_empty(
    s3: Server, prefix: str, call: Callable[[S3Bucket], object]
) -> None:
    """SeaweedFS makes a bucket at the first write, so only reads are the same everywhere."""
    with pytest.raises(StoreUnavailable):
        call(S3Bucket(s3.access(prefix, bucket="no-such-bucket"), quoted=s3.quoted))


@every_call
@pytest.mark.requirement("s3-errors")
def test_server_that_is_down_is_unavailable(
    s3: Server, prefix: str, nobody: str, call: Callable[[S3Bucket], object]
) -> None:
    with pytest.raises(StoreUnavailable):
        call(S3Bucket(s3.access(prefix, endpoint=nobody)))


@pytest.mark.requirement("s3-deadline")
def test_server_that_never_answers_is_unavailable_after_the_deadline(
    s3: Server, prefix: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", module._TIMEOUT / 100)
    monkeypatch.setattr(module, "_PATIENCE", module._PATIENCE / 100)
    hung = S3Bucket(s3.access(prefix, endpoint=silent))
    for call in CALLS.values():
        with pytest.raises(StoreUnavailable):
            call(hung)


@pytest.mark.requirement("s3-no-secrets")
def test_nothing_secret_is_in_any_error(s3: Server, prefix: str, nobody: str) -> None:
    token = "marked-session-token"
    secret = "marked-secret-of-another"
    unfit = [
        stranger(s3, prefix, AWS_SECRET_ACCESS_KEY=secret),
        stranger(s3, prefix, AWS_ACCESS_KEY_ID="marked-key", AWS_SESSION_TOKEN=token),
        stranger(s3, prefix, AWS_ENDPOINT_URL=nobody, AWS_SESSION_TOKEN=token),
    ]
    for bucket in unfit:
        for call in CALLS.values():
            with pytest.raises(StoreUnavailable) as caught:
                call(bucket)
            said = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caught.value.hint
            for word in (secret, token, s3.login.secret, s3.login.key, "marked-key", "Signature=", "X-Amz-", "<Error>"):
                assert word not in said


@pytest.mark.requirement("s3-create-only")
def test_object_is_created_once_and_the_first_one_stays(bucket: S3Bucket) -> None:
    etag = bucket.create("a/1", b"one")
    with pytest.raises(NameTaken):
        bucket.create("a/1", b"two")
    assert bucket.get("a/1") == (b"one", etag)


def test_create_of_the_same_body_again_is_our_own(bucket: S3Bucket) -> None:
    assert bucket.create("a/1", b"one") == bucket.create("a/1", b"one")


def test_empty_object_is_never_taken_for_our_own(bucket: S3Bucket) -> None:
    bucket.create("a/1", b"")
    with pytest.raises(NameTaken):
        bucket.create("a/1", b"")
    with pytest.raises(Changed):
        bucket.swap("a/1", b"", "0" * 32)


@pytest.mark.requirement("s3-swap")
@pytest.mark.parametrize("other_form", [False, True])
def test_swap_with_an_old_etag_replaces_nothing_whether_in_quotes_or_not(
    s3: Server, prefix: str, bucket: S3Bucket, other_form: bool
) -> None:
    old = bucket.create("a/1", b"one")
    new = bucket.swap("a/1", b"two", old)
    with pytest.raises(Changed):
        S3Bucket(s3.access(prefix), quoted=s3.quoted is not other_form).swap("a/1", b"three", old)
    assert bucket.get("a/1") == (b"two", new)


@pytest.mark.requirement("s3-swap")
def test_swap_of_what_is_not_there_makes_nothing(bucket: S3Bucket) -> None:
    etag = bucket.create("a/1", b"one")
    with pytest.raises(Changed):
        bucket.swap("a/2", b"two", etag)
    bucket.delete(["a/1"])
    with pytest.raises(Changed):
        bucket.swap("a/1", b"two", etag)
    assert bucket.list("a/") == []


@pytest.mark.requirement("s3-swap")
def test_every_call_gives_the_same_etag_without_quotes(bucket: S3Bucket) -> None:
    first = bucket.create("a/1", b"one")
    etag = bucket.swap("a/1", b"two", first)
    found = bucket.get("a/1")
    assert found is not None
    assert found.etag == etag == bucket.list("a/")[0].etag
    assert etag != first
    assert not set('"/ ') & set(etag)


def test_missing_object_is_none_or_nothing_and_its_delete_no_error(bucket: S3Bucket) -> None:
    assert bucket.get("a/1") is None
    assert bucket.list("a/") == []
    bucket.delete(["a/1", "a/2"])
    bucket.delete([])


@pytest.mark.parametrize("body", [bytes(range(256)), b"\0", b"z" * 3_000_000], ids=["bytes", "nul", "large"])
def test_bytes_come_back_as_they_went(bucket: S3Bucket, body: bytes) -> None:
    etag = bucket.create("a/1", body)
    assert bucket.get("a/1") == (body, etag)
    assert bucket.list("a/")[0].size == len(body)


@pytest.mark.requirement("s3-tombstone")
def test_tombstone_is_there_with_no_bytes_and_is_not_created_over(bucket: S3Bucket) -> None:
    etag = bucket.swap("a/1", b"", bucket.create("a/1", b"one"))
    assert bucket.get("a/1") == (b"", etag)
    assert [(one.name, one.size, one.etag) for one in bucket.list("a/")] == [("a/1", 0, etag)]
    with pytest.raises(NameTaken):
        bucket.create("a/1", b"two")


def test_list_has_what_is_below_its_prefix_and_nothing_beside_it(s3: Server, prefix: str, bucket: S3Bucket) -> None:
    fill(bucket, ["a/1", "a/2/3", "ab/1", "b/1"])
    S3Bucket(s3.access(f"{prefix}x")).create("a/9", b"of another prefix")
    assert {one.name for one in bucket.list("a/")} == {"a/1", "a/2/3"}


@pytest.mark.requirement("s3-list-order")
def test_list_is_whole_whatever_order_a_server_gives_to_punctuation(bucket: S3Bucket) -> None:
    """One server walks a tree, so that `data/1` comes before `data!`; nothing may depend on that.

    Nor may an object have the name of another's directory: there, two such creates at once may lose the object.
    """
    names = {"a/data/1", "a/data!", "a/data-old/1", "a/data.x", "a/data0"}
    fill(bucket, sorted(names))
    found = [one.name for one in bucket.list("a/")]
    assert len(found) == len(names)
    assert set(found) == names


@pytest.mark.requirement("s3-list-after")
def test_list_goes_on_after_a_name_that_need_not_be_there(bucket: S3Bucket) -> None:
    fill(bucket, [f"a/{number:04d}" for number in range(0, 10, 2)])
    assert [one.name for one in bucket.list("a/", "a/0002")] == ["a/0004", "a/0006", "a/0008"]
    assert [one.name for one in bucket.list("a/", "a/0003")] == ["a/0004", "a/0006", "a/0008"]
    assert bucket.list("a/", "a/0008") == []


@pytest.mark.requirement("s3-list-after")
def test_2500_objects_are_listed_in_order_each_once(bucket: S3Bucket) -> None:
    names = [f"many/{number:05d}" for number in range(2500)]
    fill(bucket, names)
    assert [one.name for one in bucket.list("many/")] == names
    assert [one.name for one in bucket.list("many/", names[1200])] == names[1201:]
    assert [one.name for one in bucket.list("many/", names[99], 1100)] == names[100:1200]
    assert [one.name for one in bucket.list("many/", limit=3)] == names[:3]


@pytest.mark.requirement("s3-bulk-delete")
def test_1200_objects_are_deleted_and_their_neighbours_stay(bucket: S3Bucket) -> None:
    names = [f"many/{number:05d}" for number in range(1201)]
    fill(bucket, names)
    bucket.delete([*names[:1200], "many/never-there"])
    assert [one.name for one in bucket.list("many/")] == names[1200:]


@pytest.mark.requirement("s3-race", "s3-bulk-delete")
def test_objects_that_eight_clients_delete_at_once_are_gone_and_no_client_is_refused(s3: Server, prefix: str) -> None:
    clients = [S3Bucket(s3.access(prefix, at % len(s3.endpoints)), quoted=s3.quoted) for at in range(8)]
    names = [f"many/{number:02d}" for number in range(30)]
    for _ in range(4):
        fill(clients[0], names)
        together(8, lambda number: clients[number].delete(names))
        assert not clients[0].list("many/")


@pytest.mark.requirement("s3-race")
def test_one_of_16_that_create_at_once_through_every_gateway_wins(s3: Server, prefix: str) -> None:
    clients = [S3Bucket(s3.access(prefix, at), quoted=s3.quoted) for at in range(len(s3.endpoints))]

    def create(number: int) -> bytes | None:
        body = b"%d" % number
        try:
            clients[number % len(clients)].create("a/1", body)
        except NameTaken:
            return None
        return body

    winners = [body for body in together(16, create) if body is not None]
    found = clients[0].get("a/1")
    assert found is not None
    assert winners == [found.body]


@pytest.mark.requirement("s3-race")
def test_counter_that_many_swap_at_once_loses_no_step(s3: Server, prefix: str) -> None:
    clients = [S3Bucket(s3.access(prefix, at), quoted=s3.quoted) for at in range(len(s3.endpoints))]
    clients[0].create("a/1", b"0 by nobody")

    def count(number: int) -> None:
        client, steps = clients[number % len(clients)], 0
        while steps < 10:
            found = client.get("a/1")
            assert found is not None
            body = b"%d by %d" % (int(found.body.split()[0]) + 1, number)
            try:
                client.swap("a/1", body, found.etag)
            except Changed:
                continue
            steps += 1

    together(4, count)
    found = clients[0].get("a/1")
    assert found is not None
    assert found.body.startswith(b"40 ")
