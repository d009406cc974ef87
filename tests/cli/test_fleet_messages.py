"""What verify and doctor say of a vault in a bucket, on a bucket in memory: as on a file, and each hint is true."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from strongroom.cli import bucketquery
from strongroom.cli.errors import UNSEEN
from strongroom.keys import default_directory
from strongroom.store.s3 import bucket as buckets
from strongroom.store.s3.bucket import Listed
from strongroom.vault.opening import identify
from tests.cli.conftest import Cli, Done
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
REASON_OF_DOCTOR = "unseen"


class Timed(MemoryBucket):
    """One that tells when an object was written: now, as doctor asks about what it wrote just before."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        found = super().list(prefix, after, limit)
        return [Listed(one.name, one.etag, one.size, round(time.time() * 1000)) for one in found]


@pytest.fixture
def bucket(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Timed:
    """A vault in a bucket that all commands use, with a line in it, and its logs seen."""
    made = used_by_vaults(Timed(), monkeypatch)
    monkeypatch.setattr(buckets, "S3Bucket", lambda _: made)
    monkeypatch.setattr(bucketquery, "ask", lambda *_: None)
    monkeypatch.setenv("STRONGROOM_VAULT", PLACE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    assert cli("init", PLACE).code == 0
    assert cli("put", "line one", "-n", "work").code == 0
    assert cli("audit", "verify").code == 0
    return made


def witness() -> Path:
    return default_directory(identify(PLACE)) / "checkpoint"


def check(done: Done, name: str) -> dict[str, str]:
    (found,) = [one for one in done.json["checks"] if one["name"] == name]
    return dict(found)


def hinted(text: str) -> list[list[str]]:
    return [one.split() for one in re.findall("`strongroom ([^`]+)`", text)]


@pytest.mark.requirement("fleet-doctor")
def test_doctor_of_a_bucket_opens_the_vault_and_looks_at_the_witness_and_writes_nothing(
    cli: Cli, bucket: Timed
) -> None:
    before = dict(bucket.objects)
    done = cli("doctor", "--json")
    assert (done.code, done.json["ok"]) == (0, True), done.out
    assert (check(done, "opening")["state"], check(done, "last seen")["state"]) == ("ok", "ok")
    assert bucket.objects == before


@pytest.mark.requirement("audit-unseen", "fleet-doctor")
def test_without_a_witness_verify_and_doctor_end_as_on_a_file_and_the_hint_mends_it(cli: Cli, bucket: Timed) -> None:
    witness().unlink()
    for _ in range(2):
        done = cli("audit", "verify", "--json")
        assert (done.code, done.json["ok"], done.json["is_sound"], done.json["seen"]) == (UNSEEN, False, True, False)
        looked = cli("doctor", "--json")
        assert (looked.code, check(looked, "last seen")["reason"]) == (UNSEEN, REASON_OF_DOCTOR)
    assert not witness().exists()
    assert hinted(done.json["hint"]) == hinted(check(looked, "last seen")["hint"]) == [["audit", "checkpoint", "--yes"]]
    assert cli("audit", "checkpoint").code == 2, "it is not accepted without a yes"
    assert cli(*hinted(done.json["hint"])[0]).code == 0
    assert [cli("audit", "verify").code, cli("doctor").code] == [0, 0]


@pytest.mark.requirement("audit-unseen", "fleet-doctor")
def test_a_damaged_witness_of_a_bucket_is_mended_by_what_its_hints_say(cli: Cli, bucket: Timed) -> None:
    witness().write_text("rubbish")
    verified, looked = cli("audit", "verify", "--json"), cli("doctor", "--json")
    assert (verified.code, looked.code) == (6, 6)
    (found,) = verified.json["findings"]
    assert found["flaw"] == "witness_invalid"
    assert hinted(found["hint"]) == hinted(check(looked, "last seen")["hint"]) == [["audit", "checkpoint", "--yes"]]
    witness().rename("moved-away")
    assert cli(*hinted(found["hint"])[0]).code == 0
    assert [cli("audit", "verify").code, cli("doctor").code] == [0, 0]


@pytest.mark.requirement("fleet-doctor")
def test_doctor_of_a_bucket_misses_a_log_that_was_seen_although_the_roster_forgot_it(cli: Cli, bucket: Timed) -> None:
    worker = next(name for name in bucket.objects if name.startswith("roster/")).removeprefix("roster/")
    bucket.delete([name for name in bucket.objects if name == f"roster/{worker}" or name.startswith(f"logs/{worker}/")])
    looked = cli("doctor", "--json")
    assert (looked.code, check(looked, "logs")["state"], check(looked, "last seen")["state"]) == (6, "ok", "fail")
    (named,) = hinted(check(looked, "last seen")["hint"])
    assert cli(*named).code == 6
