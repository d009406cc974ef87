"""Simulated fleets, run from seeds: no history breaks a rule, and a rule that is broken is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from strongroom.audit import fleet_verifier
from strongroom.audit.fleet_verifier import FleetVerifier
from strongroom.audit.unfinished_entries import Sighting
from strongroom.errors import AuditUnavailable, Unavailable
from strongroom.memory import Memory
from strongroom.memory.ops import forget
from strongroom.store.s3 import S3Store, bucket_replica, known_objects, packs, reader
from strongroom.store.s3.bucket_replica import ActorView, View
from strongroom.store.s3.object_names import Table
from strongroom.store.s3.worker_log import WorkerLog
from strongroom.store.s3.writer import Writer
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
    outcomes = [simulate(seed) for seed in range(12)]

    assert any(outcome.packed for outcome in outcomes)
    for word in ("dies", "refused", "lost", "conflict", "torn", "repeated", "Taken", "Changed"):
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
    encoded: Any = packs.encode_pack

    def living(shelf: str, records: Any) -> bytes:
        return bytes(encoded(shelf, {name: one for name, one in records.items() if one.body is not None}))

    patch.setattr(packs, "encode_pack", living)


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
    for module in (bucket_replica, known_objects, reader):
        patch.setattr(module, "as_listed", lambda bucket, one: bucket.get(one.name))


def _nothing_unsettled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleet_verifier, "judge", lambda *_: ([], Sighting()))


def _copies_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    take: Any = FleetVerifier._take

    def passes(self: Any, walked: Any, bundle: Any, public: Any) -> None:
        if bundle.first == walked.edge.size:
            take(self, walked, bundle, public)

    patch.setattr(FleetVerifier, "_take", passes)


def _stays_in_a_taken_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(S3Store, "_appended", lambda _, own, request: (own, own.append(request()).first))


def _silent_about_a_taken_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(S3Store, "taken_logs", property(lambda _: 0, lambda *_: None), raising=False)


def _reads_fail_for_good(patch: pytest.MonkeyPatch) -> None:
    commit: Any = S3Store.commit

    def gives_up(self: Any, entries: Any, effects: Any, time: int, **options: Any) -> Any:
        if not effects and vars(self).get("has_failed"):
            raise AuditUnavailable("it failed once")
        try:
            return commit(self, entries, effects, time, **options)
        except Unavailable:
            self.has_failed = True
            raise

    patch.setattr(S3Store, "commit", gives_up)


def _profiles_stay(patch: pytest.MonkeyPatch) -> None:
    put: Any = Writer._put

    def stays(self: Any, change: Any, place: str, known: Any) -> str:
        written: str = known.etag if place.endswith("/profile") and known else put(self, change, place, known)
        return written

    patch.setattr(Writer, "_put", stays)


def _new_ids(patch: pytest.MonkeyPatch) -> None:
    put: Any = Memory.put_many

    def puts(self: Any, lines: Any, **named: Any) -> Any:
        return put(self, [replace(one, id=None) for one in lines], **named)

    patch.setattr(Memory, "put_many", puts)


def _listed(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Plant:
    """Have a list show other lines than those that are there."""
    listed: Any = Memory.list

    def plant(patch: pytest.MonkeyPatch) -> None:
        def lists(self: Any, *given: Any, **named: Any) -> Any:
            found = listed(self, *given, **named)
            return replace(found, lines=change(found.lines))

        patch.setattr(Memory, "list", lists)

    return plant


def _half_got(patch: pytest.MonkeyPatch) -> None:
    get: Any = Memory.get

    def gets(self: Any, *given: Any, **named: Any) -> Any:
        return get(self, *given, **named)[1:]

    patch.setattr(Memory, "get", gets)


class Planted(NamedTuple):
    """A fault, and the rule that a seed is seen to break."""

    plant: Plant
    breaks: str


PLANTED: dict[str, Planted] = {
    "revocations are not announced": Planted(
        lambda patch: patch.setattr(Writer, "_announce", lambda self: None), "a void cap was accepted"
    ),
    "a revocation holds for caps that are minted afterwards": Planted(
        lambda patch: patch.setattr(Writer, "_announce", lambda self: None), "a good cap was refused"
    ),
    "a purge leaves the generation": Planted(
        lambda patch: patch.setattr(Table, "purged", lambda self, _: self), "an audit found a flaw"
    ),
    "a look that began before counts": Planted(_late_joiner, "a void cap was accepted"),
    "an unclear bundle is not written again": Planted(_forgetful_log, "a false alarm"),
    "who failed once answers no reads any more": Planted(_reads_fail_for_good, "a healthy store, and no answer"),
    "forgetting leaves no tombstone": Planted(_no_tombstones, "an audit found a flaw"),
    "reads are not logged": Planted(_unlogged, "no log knows of it"),
    "a log is not written until something changes": Planted(_unlogged, "there is no log of"),
    "a worker goes back": Planted(_goes_back, "a worker that had seen it went back"),
    "a body is believed that contradicts the list": Planted(_believes_any_body, "a line is missing"),
    "a body is packed that contradicts the list": Planted(_believes_any_body, "compaction failed"),
    "two workers read different bodies": Planted(_believes_any_body, "the workers do not agree"),
    "packs leave tombstones out": Planted(_packs_without_tombstones, "a line is back"),
    "done is not said before the acknowledgement": Planted(_late_done, "no audit named it"),
    "what nobody said done is not named": Planted(_nothing_unsettled, "no audit named it"),
    "a copied bundle is passed over": Planted(_copies_are_passed_over, "a bundle was planted, and no audit named it"),
    "a worker stays in a log that was taken": Planted(_stays_in_a_taken_log, "its worker did not go on"),
    "a taken log raises no alarm": Planted(_silent_about_a_taken_log, "0 alarms were raised"),
    "a profile is not written over": Planted(_profiles_stay, "an old profile"),
    "what is sent again is put under a new id": Planted(_new_ids, "one line under several ids"),
    "a list shows a line twice": Planted(_listed(lambda lines: (*lines, *lines[:1])), "a line is there twice"),
    "a list leaves a line out": Planted(_listed(lambda lines: lines[1:]), "a line is missing"),
    "a get leaves a line out": Planted(_half_got, "what is listed is not what is got"),
}
RARE: dict[str, Planted] = {
    "nobody looks again after writing keys": Planted(
        lambda patch: patch.setattr(Writer, "_look_again", lambda *_: None), "is back"
    ),
    "an erasure does not look again": Planted(
        lambda patch: patch.setattr(forget, "_is_back", lambda *_: False), "is back"
    ),
}


@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found_within_forty_seeds(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = PLANTED[planted]
    fault.plant(monkeypatch)

    assert _found_within(40, fault.breaks)


@pytest.mark.long
@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("planted", RARE)
def test_a_planted_fault_that_seldom_shows_is_found_within_four_hundred_seeds(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = RARE[planted]
    fault.plant(monkeypatch)

    assert _found_within(400, fault.breaks)


@pytest.mark.requirement("fleet-simulation-finds")
@pytest.mark.parametrize("ignores", ["knows_its_own", "looks_into_conflicts"])
def test_a_bucket_that_takes_a_lost_answer_or_a_conflict_for_another_worker_is_found(ignores: str) -> None:
    assert _found_within(40, "a false alarm", **{ignores: False})
