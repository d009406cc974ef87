"""The command line on a vault in a real bucket: refusals first, then the verbs, doctor, and moving there and back."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from strongroom.store.s3.bucket import S3Bucket
from tests.cli.conftest import Done
from tests.s3.servers import BUCKET, Server
from tests.s3.shell import PATIENCE, Shell

LINES = 60


def states(done: Done) -> dict[str, str]:
    return {check["name"]: check["state"] for check in done.json["checks"]}


def told(done: Done) -> tuple[int, str]:
    return done.code, done.reason


# Refusals.


@pytest.mark.requirement("fleet-cli")
def test_wrong_secret_is_unavailable_and_is_not_shown(shell: Shell, place: str) -> None:
    assert told(shell("init", place, "--json", AWS_SECRET_ACCESS_KEY="wrong" * 8)) == (7, "store_unavailable")


@pytest.mark.requirement("fleet-cli")
def test_bucket_that_is_missing_is_unavailable(shell: Shell) -> None:
    assert told(shell("init", "s3://no-such-bucket-here/x", "--json")) == (7, "store_unavailable")


@pytest.mark.requirement("fleet-cli")
def test_prefix_without_a_vault_is_missing_and_stays_empty(shell: Shell, place: str, bucket: S3Bucket) -> None:
    assert told(shell("get", "anything", "--vault", place, "--json")) == (4, "vault_missing")
    assert not bucket.list("")


@pytest.mark.requirement("fleet-doctor")
def test_doctor_names_a_wrong_secret_and_a_missing_bucket(shell: Shell, place: str) -> None:
    wrong = shell("doctor", "--store", place, "--json", AWS_SECRET_ACCESS_KEY="wrong" * 8)
    missing = shell("doctor", "--store", "s3://no-such-bucket-here/x", "--json")
    for done in (wrong, missing):
        assert done.code == 7
        assert (states(done)["credentials"], states(done)["bucket"], states(done)["vault"]) == ("ok", "fail", "skip")


@pytest.mark.requirement("fleet-doctor")
def test_doctor_fails_an_unfit_server_at_the_trial_and_looks_for_no_vault(rclone: Server, tmp_path: Path) -> None:
    done = Shell(rclone, tmp_path)("doctor", "--store", f"s3://{BUCKET}/x", "--json")
    assert done.code == 7
    assert "fail" in [state for name, state in states(done).items() if name.startswith("trial")]
    assert states(done)["vault"] == "skip"


# What works.


@pytest.mark.requirement("fleet-cli")
def test_verbs_work_on_a_bucket_and_leave_no_vault_on_the_disk(shell: Shell, place: str) -> None:
    assert shell("init", place).code == 0
    put = shell("put", "Trip to Chengdu, May 25-29", "--namespace", "travel", "--vault", place, "--json")
    assert put.code == 0, put.err
    assert "Chengdu" in shell("get", "when is the trip?", "--vault", place).out
    assert shell("list", "--vault", place, "--json").json["lines"]
    minted = shell(
        "cap",
        "mint",
        "--for",
        "a/b",
        "--ops",
        "get",
        "--namespaces",
        "travel",
        "--ttl",
        "1h",
        "--out",
        "x.cap",
        "--vault",
        place,
    )
    assert minted.code == 0, minted.err
    assert shell("audit", "verify", "--vault", place, "--json").json["ok"]
    assert shell("forget", put.json["lines"][0]["id"], "--yes", "--vault", place).code == 0
    assert "Chengdu" not in shell("get", "when is the trip?", "--vault", place).out
    assert not list(shell.home.rglob("vault.db"))


@pytest.mark.requirement("fleet-doctor")
def test_doctor_finds_a_sound_vault_sound_and_leaves_nothing(shell: Shell, place: str, bucket: S3Bucket) -> None:
    assert shell("init", place).code == 0
    done = shell("doctor", "--store", place, "--json")
    assert done.code == 0, done.out
    found = states(done)
    assert set(found.values()) <= {"ok", "skip"}
    assert (found["bucket"], found["clock"], found["vault"], found["logs"]) == ("ok",) * 4
    assert not bucket.list("probe/")


# Moving.


def _filled(shell: Shell) -> None:
    assert shell("init", "./vault", "--namespaces", "travel").code == 0
    code = (
        "import sys, strongroom; v = strongroom.open('vault');"
        "t = v.mint(actor='local/owner', ops=['put'], namespaces=['travel'], ttl=600); m = v.memory(t);"
        f"[m.put(f'trip {{n}}', namespace='travel') for n in range({LINES})]; v.close()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=shell.home, env=shell.env, check=True, timeout=PATIENCE)


def _write_behind(part: str, number: int) -> Callable[[bytes], bool]:
    """True of what is written below a part of the vault, once so many objects were."""
    writes = re.compile(rf"PUT /\S+/{part}/".encode())
    numbers = count()
    return lambda request: writes.match(request) is not None and next(numbers) >= number


def _ids(shell: Shell, place: str) -> list[str]:
    done = shell("list", "--vault", place, "--limit", "100", "--json")
    assert done.code == 0, done.err
    return sorted(line["id"] for line in done.json["lines"])


@pytest.mark.requirement("fleet-migrate-resumes")
def test_move_that_is_killed_twice_each_way_ends_equal_and_verifies(shell: Shell, place: str, bucket: S3Bucket) -> None:
    _filled(shell)
    before = _ids(shell, "./vault")
    assert len(before) == LINES
    for part, behind in (("logs", 1), ("actors", 20)):
        shell.killed_at(["migrate", "./vault", place], _write_behind(part, behind))
        assert bucket.list("logs/")
        assert bucket.get("vault/format") is None
        for command in (["get", "what", "--vault", place], ["init", place], ["audit", "verify", "--vault", place]):
            refused = shell(*command, "--json")
            assert refused.code == 7, refused.err
            assert "strongroom migrate` again" in refused.err
    moved = shell("migrate", "./vault", place, "--json")
    assert moved.code == 0, moved.err
    assert shell("audit", "verify", "--vault", place, "--json").json["ok"]
    draft = shell.home / ".back.migrating" / "vault.db"
    for _ in range(2):
        shell.killed_at(["migrate", place, "./back"], lambda _: draft.exists())
        assert not (shell.home / "back").exists()
    back = shell("migrate", place, "./back", "--json")
    assert back.code == 0, back.err
    assert shell("audit", "verify", "--vault", "./back", "--json").json["ok"]
    assert _ids(shell, "./back") == before
    assert _ids(shell, place) == before
