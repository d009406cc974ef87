"""What verify and doctor say of a vault in a bucket, on a bucket in memory: as on a file, and each hint is true."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from strongroom.cli.doctor import bucket_settings
from strongroom.cli.error_output import UNSEEN
from strongroom.keys import default_directory
from strongroom.store.s3 import bucket as buckets
from strongroom.store.s3.bucket import BucketListing
from strongroom.vault.create_open import identify
from tests.cli.conftest import Cli, Done, opened
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"


class Timed(MemoryBucket):
    """One that tells when an object was written: now, as doctor asks about what it wrote just before."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        found = super().list(prefix, after, limit)
        return [BucketListing(one.name, one.etag, one.size, round(time.time() * 1000)) for one in found]


@pytest.fixture
def bucket(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Timed:
    """A vault in a bucket that all commands use, with a line in it, and its logs seen."""
    made = used_by_vaults(Timed(), monkeypatch)
    monkeypatch.setattr(buckets, "S3Bucket", lambda _: made)
    monkeypatch.setattr(bucket_settings, "ask", lambda *_: None)
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
def test_verify_and_doctor_without_a_witness_end_as_on_a_file_and_the_hint_mends_it(cli: Cli, bucket: Timed) -> None:
    witness().unlink()
    for _ in range(2):
        done = cli("audit", "verify", "--json")
        assert (done.code, done.json["ok"], done.json["is_sound"], done.json["seen"]) == (UNSEEN, False, True, False)
        looked = cli("doctor", "--json")
        assert (looked.code, check(looked, "last seen")["reason"]) == (UNSEEN, "unseen")
    assert not witness().exists()
    assert hinted(done.json["hint"]) == hinted(check(looked, "last seen")["hint"]) == [["audit", "checkpoint", "--yes"]]
    assert cli("audit", "checkpoint").code == 2, "it is not accepted without a yes"
    assert cli(*hinted(done.json["hint"])[0]).code == 0
    assert [cli("audit", "verify").code, cli("doctor").code] == [0, 0]


@pytest.mark.requirement("audit-unseen", "fleet-doctor")
def test_damaged_witness_of_a_bucket_is_mended_by_what_its_hints_say(cli: Cli, bucket: Timed) -> None:
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


# What verify finds in a bucket, and what to do about it.


def worker_of_the_line(bucket: Timed) -> str:
    """The worker that put the line: the last but one that wrote something, for `audit verify` writes nothing."""
    return max(name for name in bucket.objects if name.startswith("roster/")).removeprefix("roster/")


def _log(bucket: Timed) -> list[str]:
    return sorted(name for name in bucket.objects if name.startswith(f"logs/{worker_of_the_line(bucket)}/"))


def _line(bucket: Timed) -> str:
    return min(name for name in bucket.objects if "/lines/" in name)


def _remove(which: Callable[[Timed], list[str]]) -> Callable[[Timed], None]:
    return lambda bucket: bucket.delete(which(bucket))


def _write(which: Callable[[Timed], str], body: bytes = b"rubbish") -> Callable[[Timed], None]:
    return lambda bucket: bucket.objects.__setitem__(which(bucket), body)


def _edit_entry(bucket: Timed) -> None:
    name = _log(bucket)[-1]
    body = bucket.objects[name]
    bucket.objects[name] = body[:60] + bytes([body[60] ^ 1]) + body[61:]


def _sign_falsely(bucket: Timed) -> None:
    name = _log(bucket)[-1]
    first, entries, moment, peaks, signature, *rest = msgspec.msgpack.decode(bucket.objects[name])
    bucket.objects[name] = msgspec.msgpack.encode([first, entries, moment, peaks, bytes(len(signature)), *rest])


LOST: dict[str, Callable[[Timed], None]] = {
    "log_missing": _remove(_log),
    "log_rolled_back": _remove(lambda bucket: _log(bucket)[-1:]),
    "entry_missing": _remove(lambda bucket: _log(bucket)[:1]),
    "log_edited": _write(lambda bucket: _log(bucket)[-1]),
    "log_forked": _edit_entry,
    "entry_edited": _edit_entry,
    "head_forged": _sign_falsely,
    "object_missing": _remove(lambda bucket: [_line(bucket)]),
    "object_altered": _write(_line),
}


@pytest.mark.requirement("cli-hints", "fleet-tampering")
@pytest.mark.parametrize("flaw", LOST)
def test_object_removed_or_edited_in_a_bucket_is_mended_by_putting_it_back_and_no_hint_says_otherwise(
    cli: Cli, bucket: Timed, flaw: str
) -> None:
    assert cli("put", "line two", "-n", "work").code == 0
    assert cli("audit", "verify").code == 0
    kept = dict(bucket.objects)
    LOST[flaw](bucket)
    done = cli("audit", "verify", "--json")
    hints = {one["flaw"]: one["hint"] for one in done.json["findings"]}
    assert (done.code, flaw in hints) == (6, True), hints
    assert "put the objects back" in hints[flaw]
    assert not any("accept-restore" in hint or "strongroom restore" in hint for hint in hints.values())
    assert cli("audit", "checkpoint", "--yes", "--json").code == 6, "a flaw is not accepted away"
    bucket.objects |= kept
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-hints", "fleet-tampering")
def test_log_that_was_cut_and_is_sound_otherwise_is_accepted_as_its_hint_says(cli: Cli, bucket: Timed) -> None:
    LOST["log_rolled_back"](bucket)
    (found,) = cli("audit", "verify", "--json").json["findings"]
    assert found["flaw"] == "log_rolled_back"
    witness().rename("moved-away")
    (_, accepting) = hinted(found["hint"])
    assert cli(*accepting).code == 0
    assert cli("audit", "verify").code == 0


FORGED = "roster/w0000000000000aaaaaaaaaaaa"
STRAY = "logs/w0000000000000aaaaaaaaaaaa/000000000001"
ADDED: dict[str, tuple[Callable[[Timed], None], Callable[[Timed], list[str]]]] = {
    "log_unknown": (
        lambda bucket: bucket.objects.__setitem__(STRAY, bucket.objects[_log(bucket)[0]]),
        lambda _: [STRAY],
    ),
    "roster_forged": (
        lambda bucket: bucket.objects.__setitem__(FORGED, bucket.objects[f"roster/{worker_of_the_line(bucket)}"]),
        lambda _: [FORGED],
    ),
    "object_extra": (
        lambda bucket: bucket.objects.__setitem__(_line(bucket) + "X", bucket.objects[_line(bucket)]),
        lambda bucket: [_line(bucket) + "X"],
    ),
}


@pytest.mark.requirement("cli-hints", "fleet-tampering")
@pytest.mark.parametrize("flaw", ADDED)
def test_object_added_to_a_bucket_is_mended_by_deleting_it_as_its_hint_says(cli: Cli, bucket: Timed, flaw: str) -> None:
    damage, added = ADDED[flaw]
    damage(bucket)
    done = cli("audit", "verify", "--json")
    hints = [str(one["hint"]) for one in done.json["findings"] if one["flaw"] == flaw]
    assert done.code == 6
    assert len(hints) == 1
    assert "delete it from the bucket" in hints[0]
    bucket.delete(added(bucket))
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-hints", "fleet-tampering")
def test_erased_actor_put_back_into_a_bucket_is_mended_by_erasing_it_again(cli: Cli, bucket: Timed) -> None:
    with opened() as owner:
        cap = owner.mint(actor="local/bob", ops=["put"], namespaces=["work"], ttl=600)
        owner.memory(cap).put("a line")
        kept = {name: body for name, body in bucket.objects.items() if name.startswith("actors/")}
        owner.erase("local/bob")
        owner.mint(actor="local/alice", ops=["put"], namespaces=["work"], ttl=600)  # says that it was carried out
    assert cli("audit", "verify").code == 0
    bucket.objects |= kept
    done = cli("audit", "verify", "--json")
    assert (done.code, {one["flaw"] for one in done.json["findings"]}) == (6, {"object_revived"})
    assert all("erase the actor again" in one["hint"] for one in done.json["findings"])
    with opened() as owner:
        owner.erase("local/bob")
    assert cli("audit", "verify").code == 0
