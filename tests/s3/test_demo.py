"""The demonstration's chapter on the fleet, against a real server: faults make its steps fail, then it is green."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from demo import __main__ as command
from demo import talk
from demo.chapters.fleet_story import FLEET
from demo.fleet_stage import fleet_of
from demo.programs.attacker import Bucket
from demo.report import Step
from demo.stage import Stage
from demo.steps import STEPS
from strongroom.cli.demo_stage import FAIL, OK
from strongroom.cli.error_output import BUG, BY_FAMILY, INTERRUPTED
from strongroom.store.s3.bucket import S3Bucket
from tests.cli.conftest import Cli, Done, home
from tests.demo.conftest import run_demo
from tests.s3.servers import BUCKET, Server, answers

__all__ = ["home", "run_demo"]

ROOT = Path(__file__).parents[2]
REAL = {step.name: step for step in STEPS}
_PATIENCE = 120

Play = Callable[..., Done]


@pytest.fixture
def scratch(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place on the disk in which the demonstration may make its own."""
    place = home.parent / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


@pytest.fixture
def play(run_demo: Cli, s3: Server, prefix: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a story below the test's prefix, with the server's login in the environment, which nobody shows."""
    for name, value in s3.environment().items():
        if name != "HOME":
            monkeypatch.setenv(name, value)

    def run(story: Sequence[Step[Stage]], *options: str) -> Done:
        monkeypatch.setattr(command, "STEPS", story)
        done = run_demo("--json", "--require-extras", "--store", f"s3://{BUCKET}/{prefix}", *options)
        assert os.environ["AWS_SECRET_ACCESS_KEY"] not in done.out + done.err
        return done

    return run


def step(attempt: Callable[[Stage], None]) -> Step[Stage]:
    return Step(attempt.__name__, f"It {attempt.__name__}.", attempt)


def states(done: Done) -> list[str]:
    return [one["state"] for one in done.json["steps"]]


# Faults that the steps have to notice.


@pytest.mark.requirement("demo-fleet", "demo-strict")
def test_wrong_secret_is_refused_before_any_step(play: Play, bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong" * 8)
    done = play(FLEET)
    assert (done.code, done.reason) == (BY_FAMILY["unavailable"], "store_unavailable")
    assert "steps" not in done.out
    assert not bucket.list("")


def speaks_in_clear(stage: Stage) -> None:
    _objects(stage).create("room/note", f"on the {talk.TRIP}".encode())


def loses_a_log(stage: Stage) -> None:
    objects = _objects(stage)
    objects.delete([one.name for one in objects.list("room/logs/")])


def has_a_worker_that_nobody_knows(stage: Stage) -> None:
    fleet_of(stage).logs.append("w0000000000000000000000000")


def leaves_a_copy(stage: Stage) -> None:
    """Of the sealed trip, under another name."""
    objects, fleet = _objects(stage), fleet_of(stage)
    (line,) = [one.name for one in objects.list("room/") if one.name.endswith(f"/lines/{fleet.trip}")]
    found = objects.get(line)
    assert found is not None
    objects.create("room/copy", found.body)


def _objects(stage: Stage) -> S3Bucket:
    from strongroom.store.s3.location import access

    return S3Bucket(access(f"{stage.store.removeprefix('s3://')}/{stage.scratch.name}"))


@pytest.mark.requirement("demo-fleet", "demo-strict")
@pytest.mark.parametrize(
    ("fault", "noticed", "expected"),
    [
        (speaks_in_clear, "fleet_no_plaintext", "none of the texts in the vault's files"),
        (loses_a_log, "fleet_logs", "exit 0"),
        (has_a_worker_that_nobody_knows, "fleet_logs", "every worker in the roster"),
    ],
)
def test_fault_in_the_bucket_fails_the_step_that_looks_for_it(
    play: Play, fault: Callable[[Stage], None], noticed: str, expected: str
) -> None:
    done = play([REAL["fleet_init"], step(fault), REAL[noticed]])
    assert (done.code, states(done)) == (BUG, [OK, OK, FAIL])
    assert done.json["steps"][2]["expected"] == expected, done.json["steps"][2]["came"]


@pytest.mark.requirement("demo-fleet", "demo-strict")
def test_copy_of_a_forgotten_line_that_is_left_in_the_bucket_fails_the_forget(play: Play) -> None:
    done = play([REAL["fleet_init"], REAL["fleet_store"], step(leaves_a_copy), REAL["fleet_forget"]])
    assert (done.code, states(done)) == (BUG, [OK, OK, OK, FAIL])
    forget = done.json["steps"][3]
    assert forget["expected"] == "no piece of them in any file", forget["came"]


@pytest.mark.requirement("demo-fleet", "demo-strict")
def test_object_that_goes_while_the_attacker_looks_does_not_end_the_attack(
    s3: Server, bucket: S3Bucket, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket.create("room/trial", b"of a worker that has just started")
    bucket.create("room/line", b"sealed")
    attacker, names = Bucket(f"s3://{BUCKET}/{prefix}/room"), Bucket.names

    def lists(self: Bucket) -> list[str]:
        found = names(self)
        bucket.delete(["room/trial"])
        return found

    monkeypatch.setattr(Bucket, "names", lists)
    assert attacker.objects("*") == {"line": b"sealed"}
    bucket.create("room/trial", b"of another one")
    assert list(attacker.raw()) == ["line"]


# What is left.


def interrupts(_: Stage) -> None:
    raise KeyboardInterrupt


@pytest.mark.requirement("demo-fleet", "demo-apart")
def test_interrupted_it_leaves_nothing_in_the_bucket(play: Play, bucket: S3Bucket, scratch: Path) -> None:
    bucket.create("somebody/elses", b"own")
    assert play([REAL["fleet_init"], step(interrupts)]).code == INTERRUPTED
    assert [one.name for one in bucket.list("")] == ["somebody/elses"]
    assert not list(scratch.iterdir())


@pytest.mark.requirement("demo-fleet")
def test_keep_keeps_what_is_in_the_bucket_and_says_where(
    play: Play, bucket: S3Bucket, prefix: str, scratch: Path
) -> None:
    done = play([REAL["fleet_init"], REAL["fleet_removed"]], "--keep")
    (kept,) = scratch.iterdir()
    assert (done.code, states(done)) == (0, [OK, OK])
    assert done.json["steps"][1]["seen"] == [f"kept: s3://{BUCKET}/{prefix}/{kept.name}"]
    assert bucket.get(f"{kept.name}/room/vault/format") is not None


# The story.


@pytest.mark.long  # `make demo` tells it too, and the steps before have a test each
@pytest.mark.requirement("demo-fleet")
def test_fleets_story_is_green_on_a_real_server_and_leaves_nothing(play: Play, bucket: S3Bucket, scratch: Path) -> None:
    """The laptop's steps before it are those that it needs: a vault that can move, and a cap for travel."""
    before = [REAL[name] for name in ("init", "store", "narrowed")]
    done = play([*before, *FLEET])
    wrong = [(one["name"], one["expected"], one["came"]) for one in done.json["steps"] if one["state"] != OK]
    assert not wrong
    assert done.code == 0
    assert not bucket.list("")
    assert not list(scratch.iterdir())


# The target.

_TELL = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "aws": {n: v for n, v in os.environ.items() if n.startswith("AWS_")}}))
sys.exit(7)
"""


def beside(command: Sequence[str], **more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "harness.beside_seaweedfs", *command]
    environment = {**os.environ, **more}
    return subprocess.Popen(words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.requirement("demo-fleet")
def test_target_hands_a_server_over_by_the_environment_and_ends_as_the_demonstration_does() -> None:
    with beside([sys.executable, "-c", _TELL], AWS_PROFILE="of-the-user") as child:
        out, _ = child.communicate(timeout=_PATIENCE)
    told = json.loads(out)
    assert (child.returncode, told["argv"]) == (7, ["--store", f"s3://{BUCKET}/demo"])
    names = {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
    assert told["aws"].keys() == names
    assert not answers(told["aws"]["AWS_ENDPOINT_URL"])


@pytest.mark.requirement("demo-fleet", "demo-apart")
def test_signal_reaches_the_demonstration_and_the_server_ends_after_it() -> None:
    waits = "import os; print(os.environ['AWS_ENDPOINT_URL'], flush=True); input()"
    with beside([sys.executable, "-c", waits]) as child:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        assert answers(address)
        child.send_signal(signal.SIGTERM)
        assert child.wait(_PATIENCE) == 128 + signal.SIGTERM
    assert not answers(address)
