"""Simulated fleets, run from seeds: no history breaks a rule, and a rule that is broken is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strongroom.audit import fleet
from strongroom.audit.unsettled import Sighting
from strongroom.memory import forgetting
from strongroom.store.s3 import S3Store, packs, reading, views
from strongroom.store.s3.layout import Table
from strongroom.store.s3.log import WorkerLog
from strongroom.store.s3.views import ActorView, View
from strongroom.store.s3.writing import Writer
from tests.fleet.primitives import Lock
from tests.fleet.scheduler import Scheduler, Stuck
from tests.fleet.simulation import simulate

_GROUP = 10
_ROOT = Path(__file__).parents[2]
Plant = Callable[[pytest.MonkeyPatch], None]


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
def test_a_simulated_fleet_keeps_every_promise(first: int) -> None:
    run = _command("--seeds", str(first), str(first + _GROUP))

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.long
@pytest.mark.requirement("fleet-simulated")
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_a_thousand_simulated_fleets_keep_every_promise(first: int) -> None:
    run = _command("--seeds", str(first), str(first + 100))

    assert run.returncode == 0, run.stdout + run.stderr


# The same seed, the same history.


@pytest.mark.requirement("fleet-reproducible")
@pytest.mark.parametrize("seed", [3, 8, 21])
def test_a_seed_run_twice_has_the_same_requests_and_answers(seed: int) -> None:
    once, again = simulate(seed), simulate(seed)

    assert once.trace == again.trace
    assert once.calls == again.calls


@pytest.mark.requirement("fleet-reproducible")
def test_a_seed_has_the_same_history_in_another_process_whatever_its_hashes_are() -> None:
    once, again = (_command("--seed", "2", "--trace", hashes=hashes).stdout for hashes in ("1", "2"))

    assert once.count("\n") > 500
    assert once == again


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


# Planted faults: each is found within a few seeds.


@pytest.mark.requirement("fleet-simulated")
def test_simulated_fleets_pack_lines_and_lose_workers_and_answers() -> None:
    outcomes = [simulate(seed) for seed in range(4)]

    assert any(outcome.packed for outcome in outcomes)
    for word in ("dies", "refused", "lost", "torn", "repeated", "Taken", "Changed"):
        assert any(line.endswith(word) for outcome in outcomes for line in outcome.trace), word


def _found_within(seeds: int, rule: str, **options: bool) -> str:
    """The first time that a seed breaks this rule, and no other one; empty if none does."""
    for seed in range(seeds):
        for found in simulate(seed, **options).violations:
            if rule in found:
                return found
    return ""


def _forgetful_log(patch: pytest.MonkeyPatch) -> None:
    put: Any = WorkerLog._put

    def forgets(self: Any, attempt: Any) -> None:
        try:
            put(self, attempt)
        finally:
            self._unclear = None

    patch.setattr(WorkerLog, "_put", forgets)


def _late_joiner(patch: pytest.MonkeyPatch) -> None:
    refresh: Any = View.refresh

    def joins(self: Any) -> int:
        return int(self.latest if self._running else refresh(self))

    patch.setattr(View, "refresh", joins)


def _no_tombstones(patch: pytest.MonkeyPatch) -> None:
    put: Any = Writer._put

    def deletes(self: Any, change: Any, *known: Any) -> str:
        etag: str = put(self, change, *known)
        if not hasattr(change, "body"):
            self._bucket.delete([self._reader.place(change.name)])
        return etag

    patch.setattr(Writer, "_put", deletes)


def _packs_without_tombstones(patch: pytest.MonkeyPatch) -> None:
    encoded: Any = packs.encoded

    def living(shelf: str, records: Any) -> bytes:
        return bytes(encoded(shelf, {name: one for name, one in records.items() if one.body is not None}))

    patch.setattr(packs, "encoded", living)


def _unlogged(patch: pytest.MonkeyPatch) -> None:
    commit: Any = S3Store.commit

    def silent(self: Any, entries: Any, effects: Any, time: int, **options: Any) -> Any:
        return commit(self, entries if effects else (), effects, time, **options)

    patch.setattr(S3Store, "commit", silent)


def _late_done(patch: pytest.MonkeyPatch) -> None:
    """As it was before: `done` comes with whatever is written next."""
    for name in ("confirm", "carried_out"):
        patch.setattr(WorkerLog, name, WorkerLog.released)


def _goes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(View, "_is_back", lambda *_: False)
    patch.setattr(ActorView, "_is_head_back", lambda *_: False)


def _believes_any_body(patch: pytest.MonkeyPatch) -> None:
    for module in (views, reading):
        patch.setattr(module, "as_listed", lambda bucket, one: bucket.get(one.name))


def _nothing_unsettled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleet, "judge", lambda *_: ([], Sighting()))


PLANTED: dict[str, Plant] = {
    "revocations are not announced": lambda patch: patch.setattr(Writer, "_announce", lambda self: None),
    "a purge leaves the generation": lambda patch: patch.setattr(Table, "purged", lambda self, _: self),
    "a look that began before counts": _late_joiner,
    "an unclear bundle is not written again": _forgetful_log,
    "forgetting leaves no tombstone": _no_tombstones,
    "reads are not logged": _unlogged,
    "a worker goes back": _goes_back,
    "a body is believed that contradicts the list": _believes_any_body,
    "packs leave tombstones out": _packs_without_tombstones,
    "done is not said before the acknowledgement": _late_done,
    "what nobody said done is not named": _nothing_unsettled,
}
RARE: dict[str, Plant] = {
    "nobody looks again after writing keys": lambda patch: patch.setattr(Writer, "_look_again", lambda *_: None),
    "an erasure does not look again": lambda patch: patch.setattr(forgetting, "_is_back", lambda *_: False),
}


@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found_within_forty_seeds(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[planted](monkeypatch)

    assert _found_within(40)


@pytest.mark.long
@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("planted", RARE)
def test_a_planted_fault_that_seldom_shows_is_found_within_four_hundred_seeds(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    RARE[planted](monkeypatch)

    assert _found_within(400)


@pytest.mark.requirement("fleet-simulation-finds")
def test_a_bucket_that_takes_its_own_lost_answer_for_another_worker_is_found() -> None:
    assert _found_within(40, knows_its_own=False)
