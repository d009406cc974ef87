"""demo: whatever is not ok makes it exit 1, it leaves nothing behind, and the story is green to its end."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strongroom.cli import demo
from strongroom.cli.demo import Step, Story
from strongroom.cli.demo_stage import FAIL, OK, Unexpected
from strongroom.cli.error_output import BUG, INTERRUPTED
from tests.cli.conftest import Cli, environment

REAL = {step.name: step for step in demo.STEPS}


@pytest.fixture
def scratch(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place in which the demonstration may make its own."""
    place = home.parent / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


def passes(_: Story) -> None:
    """A step that is ok."""


def breaks(_: Story) -> None:
    raise ValueError("it broke")


def answers_otherwise(_: Story) -> None:
    raise Unexpected("exit 3", "exit 0")


def interrupts(_: Story) -> None:
    raise KeyboardInterrupt


def step(attempt: Callable[[Story], None]) -> Step:
    return Step(attempt.__name__, f"It {attempt.__name__}.", attempt)


# Whatever is not ok makes it exit 1.


@pytest.mark.requirement("demo-strict")
@pytest.mark.parametrize(
    ("attempt", "expected", "came"),
    [
        (answers_otherwise, "exit 3", "exit 0"),
        (breaks, "the step to finish", "ValueError: it broke"),
    ],
)
def test_step_that_is_not_ok_makes_it_exit_1_and_the_rest_are_not_run(
    cli: Cli,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempt: Callable[[Story], None],
    expected: str,
    came: str,
) -> None:
    monkeypatch.setattr(demo, "STEPS", [step(passes), step(attempt), step(passes)])
    done = cli("demo", "--json")
    assert (done.code, done.json["ok"]) == (BUG, False)
    assert [one["state"] for one in done.json["steps"]] == [OK, FAIL, FAIL]
    assert (done.json["steps"][1]["expected"], done.json["steps"][1]["came"]) == (expected, came)
    assert done.json["steps"][2]["came"] == "it was not run, because step 2 failed"
    told = cli("demo")
    assert f" 2  fail  It {attempt.__name__}.\n        expected: {expected}\n        came:     {came}\n" in told.out
    assert told.out.splitlines()[-1] == "3 steps: 1 ok; NOT green"


@pytest.mark.requirement("demo-strict")
def test_demonstration_without_steps_is_not_green(cli: Cli, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "STEPS", [])
    assert cli("demo").code == BUG


def lend_the_owners_cap(story: Story) -> None:
    (cap,) = story.scratch.rglob("owner.cap")
    shutil.copy(cap, story.file("travel.cap"))


def leave_a_copy(story: Story) -> None:
    shutil.copy(Path(story.vault) / "vault.db", Path(story.vault) / "vault.db.bak")


def speak_in_clear(story: Story) -> None:
    (Path(story.vault) / "note").write_text("Chengdu")


def choose_the_newest(story: Story) -> None:
    Path(story.file("config.toml")).write_text('engine = "recency"')


@pytest.mark.requirement("demo-strict")
@pytest.mark.parametrize(
    ("fault", "noticed", "expected"),
    [
        (lend_the_owners_cap, "denied", "exit 3, cap_namespace_denied"),
        (speak_in_clear, "no_plaintext", "none of the texts in the vault's files"),
        (choose_the_newest, "recall", f"{demo.TRIP!r} first"),
        (leave_a_copy, "forget", "no piece of it in any file"),
    ],
)
def test_fault_fails_the_step_that_looks_for_it(
    cli: Cli,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Story], None],
    noticed: str,
    expected: str,
) -> None:
    monkeypatch.setattr(demo, "STEPS", [REAL["init"], REAL["store"], step(fault), REAL[noticed]])
    found = cli("demo", "--json").json["steps"]
    assert [one["state"] for one in found] == [OK, OK, OK, FAIL]
    assert found[3]["expected"] == expected


@pytest.mark.requirement("demo-strict")
@pytest.mark.parametrize("name", ["swapped_lines", "edited_log"])
def test_tampering_that_changes_nothing_fails_its_step(
    cli: Cli, scratch: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    story = [REAL[one] for one in ("init", "store", "narrowed", "denied", "log_verifies", name)]
    monkeypatch.setattr(demo, "STEPS", story)
    monkeypatch.setattr(demo, "_swap", lambda _: None)
    monkeypatch.setattr(demo, "_rewrite", lambda *_: None)
    assert [one["state"] for one in cli("demo", "--json").json["steps"]] == [OK] * 5 + [FAIL]


# It works in a place of its own.


@pytest.mark.requirement("demo-apart")
@pytest.mark.parametrize(("attempt", "code"), [(passes, 0), (breaks, BUG), (interrupts, INTERRUPTED)])
def test_nothing_is_left_behind_however_it_ends(
    cli: Cli,
    home: Path,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempt: Callable[[Story], None],
    code: int,
) -> None:
    monkeypatch.setattr(demo, "STEPS", [step(attempt)])
    assert cli("demo").code == code
    assert not list(scratch.iterdir())
    assert not list(home.iterdir())
    told = cli("demo", "--keep")
    (kept,) = scratch.iterdir()
    assert (told.code, str(kept) in told.err, stat.S_IMODE(kept.stat().st_mode)) == (code, True, 0o700)


@pytest.mark.requirement("demo-apart", "demo-strict")
def test_story_is_green_away_from_a_checkout_with_a_home_that_cannot_be_written(home: Path, scratch: Path) -> None:
    # Where modes do not bind, as for root, the emptiness of the home still shows that nothing was written.
    home.chmod(0o500)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "strongroom", "demo", "--json"],
        cwd=home.parent,
        env=environment({"TMPDIR": str(scratch)}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    home.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = json.loads(done.stdout)
    assert [(one["number"], one["name"], one["state"]) for one in found["steps"]] == [
        (number, one.name, OK) for number, one in enumerate(demo.STEPS, start=1)
    ]
    assert (found["ok"], found["kept"], found["summary"]) == (True, None, "13 steps: 13 ok; all is green")
    assert not list(scratch.iterdir())
    assert not os.listdir(home)
