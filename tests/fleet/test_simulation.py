"""Simulated fleets, run from seeds: no history breaks a rule, and a rule that is broken is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.planted import PLANTED, RARE
from tests.fleet.primitives import Lock
from tests.fleet.rules import Rule
from tests.fleet.scheduler import Scheduler, Stuck
from tests.fleet.simulation import simulate

_GROUP = 10
_ROOT = Path(__file__).parents[2]


def _command(*arguments: str, hashes: str = "random") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fleet.simulation", *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.requirement("fleet-simulated", "fleet-nothing-lost", "fleet-revoked-everywhere", "fleet-unsettled")
@pytest.mark.parametrize("first", range(0, 20, _GROUP))
def test_simulated_fleet_keeps_every_promise(first: int) -> None:
    run = _command("--seeds", str(first), str(first + _GROUP))

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.requirement("fleet-simulated", "replace-fleet")
@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.long)])
def test_simulated_fleet_whose_clients_correct_lines_keeps_every_promise(first: int) -> None:
    run = _command("--correct", "--seeds", str(first), str(10 if not first else 1000))

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.requirement("fleet-simulated", "documents-crash", "documents-recall")
@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.long)])
def test_simulated_fleet_whose_clients_write_documents_keeps_every_promise(first: int) -> None:
    run = _command("--documents", "--seeds", str(first), str(10 if not first else 1000))

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.requirement("fleet-simulated", "expire-fleet")
@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.long)])
def test_simulated_fleet_whose_lines_have_ends_keeps_every_promise(first: int) -> None:
    run = _command("--expire", "--correct", "--seeds", str(first), str(10 if not first else 1000))

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.long
@pytest.mark.requirement("fleet-simulated")
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_two_thousand_simulated_fleets_keep_every_promise(first: int) -> None:
    run = _command("--seeds", str(first), str(first + 100))

    assert run.returncode == 0, run.stdout + run.stderr


# The same seed, the same history.


@pytest.mark.requirement("fleet-reproducible")
@pytest.mark.parametrize("seed", [3, 8, 21])
def test_seed_run_twice_has_the_same_requests_and_answers(seed: int) -> None:
    once, again = simulate(seed), simulate(seed)

    assert once.trace == again.trace
    assert once.calls == again.calls


@pytest.mark.requirement("fleet-reproducible")
def test_seed_has_the_same_history_in_another_process_whatever_its_hashes_are() -> None:
    once, again = (_command("--seed", "2", "--trace", hashes=hashes).stdout for hashes in ("1", "2"))

    assert once.count("\n") > 500
    assert once == again


def test_task_that_waits_for_ever_beside_one_that_goes_on_is_reported() -> None:
    scheduler = Scheduler(0, 0)
    lock = Lock(scheduler)

    def take() -> None:
        lock.acquire()

    def go_on() -> None:
        while lock.locked():
            scheduler.pause(1000)

    scheduler.spawn("holds", take)
    scheduler.spawn("waits", take, 10)
    scheduler.spawn("goes on", go_on, 10)

    with pytest.raises(Stuck, match="goes on, waits"):
        scheduler.run()


def test_tasks_that_wait_for_each_other_are_reported_and_not_waited_for() -> None:
    scheduler = Scheduler(0, 0)
    one, other = Lock(scheduler), Lock(scheduler)

    def holding(first: Lock, second: Lock) -> None:
        with first:
            scheduler.pause(10)
            with second:
                pass

    scheduler.spawn("one", lambda: holding(one, other))
    scheduler.spawn("other", lambda: holding(other, one))

    with pytest.raises(Stuck):
        scheduler.run()


@pytest.mark.requirement("fleet-simulated")
def test_simulated_fleets_pack_lines_and_lose_workers_and_answers() -> None:
    outcomes = [simulate(seed) for seed in range(12)]

    assert any(outcome.packed for outcome in outcomes)
    for word in ("dies", "refused", "lost", "conflict", "torn", "repeated", "Taken", "Changed"):
        assert any(line.endswith(word) for outcome in outcomes for line in outcome.trace), word


# Planted faults: each is found within a few seeds.


@pytest.mark.requirement("fleet-simulation-finds")
def test_each_rule_is_broken_by_a_fault() -> None:
    assert {fault.breaks for fault in PLANTED.values()} == set(Rule)


def _found_within(seeds: int, rule: Rule, **options: bool) -> str:
    """What the first seed says that breaks this rule; empty if none does."""
    for seed in range(seeds):
        for found in simulate(seed, **options).violations:
            if found.startswith(f"{rule}: "):
                return found
    return ""


@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("planted", PLANTED)
def test_planted_fault_is_found_within_forty_seeds(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = PLANTED[planted]
    fault.plant(monkeypatch)

    assert _found_within(40, fault.breaks, expires=fault.expires)


@pytest.mark.long
@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("planted", RARE)
def test_planted_fault_that_seldom_shows_is_found_within_four_hundred_seeds(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = RARE[planted]
    fault.plant(monkeypatch)

    assert _found_within(400, fault.breaks)


@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("ignores", ["knows_its_own", "looks_into_conflicts"])
def test_bucket_that_takes_a_lost_answer_or_a_conflict_for_another_worker_is_found(ignores: str) -> None:
    assert _found_within(40, Rule.FALSE_TAKEN_LOG, **{ignores: False})
