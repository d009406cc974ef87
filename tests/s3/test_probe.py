"""What a server must keep to: one that does passes, one that does not is refused by name, and nothing is left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from typing import Any

import obstore
import pytest

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import BucketListing, BucketObject, Changed, NameTaken, S3Bucket
from strongroom.store.s3.bucket_probe import PLACE, Probe, Trial
from strongroom.store.s3.location import access
from tests.s3.proxy import proxied
from tests.s3.servers import BUCKET, Server


def wrong(trials: Sequence[Trial]) -> list[str]:
    return [trial.what for trial in trials if trial.wrong]


def begun(probe: Probe) -> Generator[Trial, None, None]:
    """The trials, so that one can leave them halfway."""
    trials = probe.run()
    assert isinstance(trials, Generator)
    return trials


@pytest.mark.requirement("s3-probe-refuses")
def test_server_that_ignores_conditions_is_refused_by_the_name_of_each(rclone: Server, prefix: str) -> None:
    failed = wrong(_trials_of_a_server_that_keeps_no_etags(S3Bucket(rclone.access(prefix))))
    assert len(failed) == 4
    assert "If-None-Match" in failed[0]
    assert "If-Match" in failed[1]
    assert "not there" in failed[2]
    assert "at the same time" in failed[3]


def _trials_of_a_server_that_keeps_no_etags(bucket: S3Bucket) -> list[Trial]:
    """All trials. On a busy machine rclone may list an object without etag after several writers at once."""
    for number in range(5):
        with suppress(StoreUnavailable):
            return list(Probe(bucket, f"try{number}").run())
    raise AssertionError("the trials came to no end")


@pytest.mark.requirement("s3-probe-refuses")
def test_server_that_ignores_conditions_is_unavailable_and_nothing_is_left(rclone: Server, prefix: str) -> None:
    bucket = S3Bucket(rclone.access(prefix))
    with pytest.raises(StoreUnavailable) as caught:
        Probe(bucket, "one").check()
    assert caught.value.hint
    assert bucket.list(PLACE) == []


class Altered(S3Bucket):
    """The bucket of a test as a server would show it that returns other bytes than it was given."""

    def get(self, name: str) -> BucketObject | None:
        found = super().get(name)
        return found and found._replace(body=found.body + b"?")


class Phantom(S3Bucket):
    """Has what was never written."""

    def get(self, name: str) -> BucketObject | None:
        return super().get(name) or BucketObject(b"phantom", "0" * 32)


class Stubborn(S3Bucket):
    """Never replaces anything."""

    def swap(self, name: str, body: bytes, etag: str) -> str:
        return super().swap(name, body, "0" * 32)


class Padded(S3Bucket):
    """Lists an empty object as if it had a byte."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        return [one._replace(size=max(1, one.size)) for one in super().list(prefix, after, limit)]


class Late(S3Bucket):
    """Does not list the newest object yet."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        found = super().list(prefix, after, limit)
        return found[:-1] if prefix.endswith("list/") else found


class Repeating(S3Bucket):
    """Lists from the start, whatever it is told."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        return super().list(prefix, "", limit)


class Keeping(S3Bucket):
    """Says that it deletes, and does not."""

    def delete(self, names: Sequence[str]) -> None:
        pass


class Looking(S3Bucket):
    """Looks first, and writes then: conditions hold for one writer at a time only. Here all look, then all write."""

    raced = "/new"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._race = threading.Barrier(4)

    def create(self, name: str, body: bytes) -> str:
        if self.get(name) is not None:
            raise NameTaken(name)
        return self._written(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        found = self.get(name)
        if found is None or found.etag != etag:
            raise Changed(name)
        return self._written(name, body)

    def _written(self, name: str, body: bytes) -> str:
        if name.endswith(self.raced):
            self._race.wait(60)
        etag = obstore.put(self._store, self._prefix + name, body)["e_tag"]
        assert etag is not None
        return etag.strip('"')


class SwapsLooking(Looking):
    """Creates as it should."""

    raced = "/old"
    create = S3Bucket.create


class Forgetful(S3Bucket):
    """Loses some races that nobody else runs, as where an answer got lost."""

    def __init__(self, *given: Any, every: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self._every = every
        self._count = 0

    def create(self, name: str, body: bytes) -> str:
        self._count += 1
        if self._count % self._every == 0:
            raise NameTaken(name)
        return super().create(name, body)


@pytest.mark.requirement("s3-probe-fits")
@pytest.mark.parametrize("every", [7, 11])
def test_trial_that_loses_a_race_which_nobody_runs_begins_again_elsewhere(s3: Server, prefix: str, every: int) -> None:
    bucket = Forgetful(s3.access(prefix), quoted=s3.quoted, every=every)
    trials = {trial.what: trial.wrong for trial in Probe(bucket, "one").run()}
    assert not any(wrong for what, wrong in trials.items() if "same time" not in what)
    assert bucket.list(PLACE) == []


@pytest.mark.requirement("s3-probe-refuses")
def test_server_that_loses_every_race_is_unavailable(s3: Server, prefix: str) -> None:
    bucket = Forgetful(s3.access(prefix), quoted=s3.quoted, every=1)
    with pytest.raises(StoreUnavailable):
        Probe(bucket, "one").check()
    assert bucket.list(PLACE) == []


@pytest.mark.requirement("s3-probe-fits")
@pytest.mark.parametrize("skip", range(0, 24, 4))
def test_lost_answer_or_a_conflict_during_the_trials_ends_nothing(s3: Server, prefix: str, skip: int) -> None:
    with proxied(s3.endpoints[0]) as proxy:
        bucket = S3Bucket(s3.access(prefix, endpoint=proxy.endpoint), quoted=s3.quoted)
        faults: list[Callable[[], None]] = [
            lambda: proxy.lose(1),
            lambda: proxy.refuse(1, 409, "ConditionalRequestConflict", only="PUT"),
        ]
        for fault in faults:
            with closing(begun(Probe(bucket, f"a{skip}"))) as trials:
                for at, trial in enumerate(trials):
                    assert not trial.wrong
                    if at == skip // 4:
                        fault()


@pytest.mark.requirement("s3-probe-refuses")
@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Altered, "comes back"),
        (Phantom, "comes back"),
        (Stubborn, "If-Match"),
        (Padded, "empty"),
        (Looking, "at the same time"),
        (SwapsLooking, "at the same time"),
        (Late, "just written"),
        (Repeating, "goes on after"),
        (Keeping, "deleted"),
    ],
)
def test_each_defect_is_refused_by_its_name(s3: Server, prefix: str, kind: type[S3Bucket], named: str) -> None:
    bucket = kind(s3.access(prefix), quoted=s3.quoted)
    with closing(begun(Probe(bucket, "one"))) as trials:
        first = next(trial for trial in trials if trial.wrong)
    assert named in first.what
    with pytest.raises(StoreUnavailable):
        Probe(bucket, "two").check()


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
@pytest.mark.requirement("s3-probe-refuses")
def test_probe_with_a_wrong_login_is_unavailable(s3: Server, prefix: str, variable: str) -> None:
    with pytest.raises(StoreUnavailable):
        Probe(S3Bucket(access(f"{BUCKET}/{prefix}", s3.environment() | {variable: "another"})), "one").check()


@pytest.mark.requirement("s3-probe-fits")
@pytest.mark.parametrize("assumed", [True, False])
def test_fit_server_passes_and_the_form_of_its_etags_is_known(s3: Server, prefix: str, assumed: bool) -> None:
    bucket = S3Bucket(s3.access(prefix), quoted=assumed)
    Probe(bucket, "one").check()
    assert bucket.quoted is s3.quoted
    assert bucket.list(PLACE) == []


@pytest.mark.requirement("s3-probe-fits")
def test_ceph_and_seaweedfs_are_what_the_tests_run_on(s3: Server) -> None:
    asked = os.environ.get("STRONGROOM_TEST_S3", "seaweedfs")
    assert (s3.name, len(s3.endpoints)) == {"seaweedfs": ("SeaweedFS", 1), "ceph": ("Ceph", 2)}[asked]


def test_objects_before_a_probe_are_there_after_it(bucket: S3Bucket) -> None:
    bucket.create("a/1", b"one")
    bucket.create(f"{PLACE}other/1", b"of a probe at the same time")
    Probe(bucket, "one").check()
    assert [one.name for one in bucket.list(PLACE)] == [f"{PLACE}other/1"]
    assert bucket.get("a/1") is not None


@pytest.mark.parametrize("stop_after", range(1, 8))
def test_probe_that_is_left_halfway_leaves_nothing(bucket: S3Bucket, stop_after: int) -> None:
    with closing(begun(Probe(bucket, "one"))) as trials:
        for _ in range(stop_after):
            next(trials)
        assert bucket.list(PLACE)
    assert bucket.list(PLACE) == []
