"""What was acknowledged and is undone in the bucket afterwards is named by the next verification. Every way of it.

    python -m tests.fleet.test_undoing

prints who notices what, as the page on fleets has it: the worker that acknowledged it, another that served the actor
before it and after it, one that starts afterwards, and `audit verify`.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault
from strongroom.audit import VerificationReport
from strongroom.audit.entry import DONE, decode_entry
from strongroom.audit.unfinished_entries import IS_OVER, EntryState, Sighting
from strongroom.audit.verifier import Flaw
from strongroom.errors import AuditUnavailable, StoreUnavailable, StrongroomError, Tampered
from strongroom.store import CLOCK_LEEWAY, s3
from strongroom.store.s3 import worker_log
from strongroom.store.s3.bucket import BucketListing, BucketObject
from strongroom.store.s3.worker_log import on_timer
from strongroom.vault import create_open
from tests.conftest import ALL_OPS as OPS
from tests.docs.pages import DOCS, rows, section
from tests.fleet.memory import MemoryBucket, Timers
from tests.fleet.test_auditing import Clock

PLACE = "s3://bucket/room"
ALICE = "local/alice"


class Way:
    """One worker's way to the bucket, which can be cut, for all requests or for those that a test picks."""

    def __init__(self, bucket: MemoryBucket) -> None:
        self._bucket = bucket
        self.time = 0
        self.keeps_versions = False
        self.cut: Callable[[str], bool] = lambda _: False

    def freeze(self) -> None:
        """From now on, answer with the bucket as it is at this moment."""
        frozen = MemoryBucket()
        frozen.objects = dict(self._bucket.objects)
        self._bucket = frozen

    def _through(self, what: str) -> MemoryBucket:
        if self.cut(what):
            raise StoreUnavailable("the bucket is out of reach")
        return self._bucket

    def get(self, name: str) -> BucketObject | None:
        return self._through(f"get {name}").get(name)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        return self._through(f"list {prefix}").list(prefix, after, limit)

    def folders(self, prefix: str) -> Sequence[str]:
        return self._through(f"list {prefix}").folders(prefix)

    def create(self, name: str, body: bytes) -> str:
        return self._through(f"create {name}").create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        return self._through(f"swap {name}").swap(name, body, etag)

    def delete(self, names: Sequence[str]) -> None:
        self._through("delete").delete(names)


class Worker(NamedTuple):
    """A vault that is open, its way to the bucket, and its timers."""

    vault: Vault
    way: Way
    timers: Timers

    def cut_off(self) -> None:
        self.way.cut = lambda _: True

    def reconnect(self) -> None:
        self.way.cut = lambda _: False


class Scene:
    """A vault in a bucket, with what an attacker keeps of it."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.bucket = MemoryBucket()
        self.clock = Clock()
        self.keys = FileKeys(home / "keys")
        self.workers: list[Worker] = []
        self._patch = patch
        self._start(lambda: strongroom.create(PLACE, keys=self.keys, now=self.clock)).vault.close()
        self.owner = self.start()
        """Puts down what is there before, and says so."""

    def _start(self, begin: Callable[[], Vault]) -> Worker:
        way, timers = Way(self.bucket), Timers()

        class Backend(s3.S3Backend):
            create = staticmethod(lambda place, *rest: s3.create(way, place, *rest))  # type: ignore[assignment]
            open = staticmethod(lambda place: s3.open_store(way, place))  # type: ignore[assignment]

        self._patch.setattr(create_open, "backend", lambda place: (Backend, place))
        self._patch.setattr(worker_log, "on_timer", timers.later)
        worker = Worker(begin(), way, timers)
        self.workers.append(worker)
        return worker

    def start(self) -> Worker:
        return self._start(lambda: strongroom.open(PLACE, keys=self.keys, now=self.clock))

    def cap(self, actor: str = ALICE) -> Token:
        return self.owner.vault.mint(actor=actor, ops=OPS, namespaces=self.owner.vault.namespaces, ttl=3600)

    def changed_by(self, act: Callable[[], object]) -> Mapping[str, bytes | None]:
        """What was there before of all that an act changes, but for the logs: None where nothing was."""
        before = dict(self.bucket.objects)
        act()
        after = self.bucket.objects
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return {name: before.get(name) for name in changed if not name.startswith(("logs/", "roster/"))}

    def undo(self, before: Mapping[str, bytes | None]) -> None:
        """What somebody can do who writes to the bucket and has no keys."""
        for name, body in before.items():
            self.bucket.objects.pop(name, None)
            if body is not None:
                self.bucket.objects[name] = body

    def verify(self) -> VerificationReport:
        return self.start().vault.audit.verify()

    def close(self) -> None:
        for worker in self.workers:
            worker.cut_off()
            worker.vault.close()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    yield made
    made.close()


class Act(NamedTuple):
    """Something that a worker acknowledges, on a cap and a line; and whether a worker shows that it was undone."""

    do: Callable[[Vault, Token, str], object]
    is_undone: Callable[[Vault, Token, str], bool]


def _lines(vault: Vault, cap: Token) -> list[str]:
    return [one.id for one in vault.memory(cap).list(namespaces=["travel"]).lines]


def _profile(vault: Vault, cap: Token) -> str:
    return vault.memory(cap).profile("travel").text or ""


def _set_profile(vault: Vault, cap: Token) -> None:
    before = vault.memory(cap).profile("travel")
    vault.memory(cap).set_profile("new", namespace="travel", version=before.version)


def _admits(vault: Vault, cap: Token) -> bool:
    _lines(vault, cap)
    return True


ACTS: dict[str, Act] = {
    "put": Act(lambda v, c, _: v.memory(c).put("new", namespace="travel"), lambda v, c, _: len(_lines(v, c)) < 2),
    "forget": Act(lambda v, c, one: v.memory(c).forget(ids=[one]), lambda v, c, one: one in _lines(v, c)),
    "revoke": Act(lambda v, c, _: v.revoke(c), lambda v, c, _: _admits(v, c)),
    "revoke actor": Act(lambda v, c, _: v.revoke_actor(ALICE), lambda v, c, _: _admits(v, c)),
    "erase namespace": Act(lambda v, c, _: v.memory(c).erase(["travel"]), lambda v, c, one: one in _lines(v, c)),
    "erase actor": Act(lambda v, c, _: v.erase(ALICE), lambda v, c, _: _admits(v, c)),
    "profile": Act(lambda v, c, _: _set_profile(v, c), lambda v, c, _: _profile(v, c) == "old"),
    "rotate": Act(lambda v, c, _: v.rotate_issuer(), lambda v, c, _: _admits(v, c)),
}
FATES: dict[str, Callable[[Worker], object]] = {
    "goes on": lambda worker: _go_on(worker),
    "idles": lambda worker: worker.timers.tick(),
    "is killed": lambda worker: worker.cut_off(),
    "is partitioned": lambda worker: _try_cut_off(worker),
}
DELAYS = (1, 5, 60)


def _go_on(worker: Worker) -> None:
    cap = worker.vault.mint(actor="local/bob", ops=OPS, namespaces=["travel"], ttl=600)
    worker.vault.memory(cap).put("mine")
    worker.timers.tick()


def _try_cut_off(worker: Worker) -> None:
    worker.cut_off()
    worker.timers.tick()


class Noticed(NamedTuple):
    """Who noticed: the worker that did it, another that saw it, one that starts anew, and verification."""

    running: str
    another: str
    new: str
    verify: str


def _told(look: Callable[[], bool]) -> str:
    try:
        return "no" if look() else "not undone there"
    except StoreUnavailable:
        return "cut off"
    except StrongroomError as error:
        return f"`{error.reason}`"


def play(scene: Scene, what: str, fate: str, delay: int, *, gap: int = 600) -> tuple[Noticed, VerificationReport]:
    """A worker acknowledges something, meets its fate, and then it is undone."""
    act, cap = ACTS[what], scene.cap()
    line = scene.owner.vault.memory(cap).put("old", namespace="travel").id
    scene.owner.vault.memory(cap).set_profile("old", namespace="travel")
    scene.owner.timers.tick()
    scene.clock.pass_by(gap)
    worker, other = scene.start(), scene.start()
    for one in (worker, other):
        _lines(one.vault, cap)
    before = scene.changed_by(lambda: act.do(worker.vault, cap, line))
    _told(lambda: act.is_undone(other.vault, cap, line))
    FATES[fate](worker)
    scene.clock.pass_by(delay)
    scene.undo(before)
    running = _told(lambda: act.is_undone(worker.vault, cap, line))
    another = _told(lambda: act.is_undone(other.vault, cap, line))
    new = _told(lambda: act.is_undone(scene.start().vault, cap, line))
    scene.clock.pass_by(120)
    report = scene.verify()
    found = {f"`{one.flaw.value}`" for one in report.findings} | {f"unsettled, {one.state}" for one in report.doubtful}
    return Noticed(running, another, new, ", ".join(sorted(found)) or "NOTHING"), report


@pytest.mark.requirement("fleet-tampering")
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("what", ACTS)
def test_acknowledged_operation_that_is_undone_is_named_by_verification(
    scene: Scene, what: str, fate: str, delay: int
) -> None:
    noticed, report = play(scene, what, fate, delay)

    assert not report.ok, noticed
    assert report.findings or report.doubtful, noticed
    assert report.findings or what == "put", "only a put may be acknowledged before its log says that it was done"
    assert noticed.another not in ("no", "not undone there"), "whoever has seen it does not go back"
    assert noticed == _told_by_the_page()[what, fate]


@cache
def _told_by_the_page() -> Mapping[tuple[str, str], Noticed]:
    """Who notices, by what was done and what became of the worker."""
    found = rows(section(DOCS / "fleet.md", "## Who notices what was undone"))
    return {(what, fate): Noticed(*told) for what, fate, *told in found}


@pytest.mark.requirement("fleet-tampering", "docs-fleet")
def test_page_tells_of_every_cell_and_of_the_bound_for_puts() -> None:
    assert set(_told_by_the_page()) == {(what, fate) for what in ACTS for fate in FATES}
    said = section(DOCS / "fleet.md", "## Who notices what was undone")
    assert f"**{worker_log.WITHIN:g} s**" in said
    assert f"**{(IS_OVER + CLOCK_LEEWAY) // 1000} s**" in said


@pytest.mark.requirement("fleet-tampering")
def test_put_that_was_undone_behind_a_partitioned_worker_is_missed_once_the_worker_is_back(scene: Scene) -> None:
    cap, worker = scene.cap(), scene.start()
    scene.owner.vault.memory(cap).put("the first makes keys", namespace="travel")
    before = scene.changed_by(lambda: worker.vault.memory(cap).put("a trip", namespace="travel"))
    _try_cut_off(worker)
    scene.undo({name: body for name, body in before.items() if "/lines/" in name})
    scene.clock.pass_by(120)
    assert {one.state for one in scene.verify().doubtful} == {EntryState.MISSING}
    worker.reconnect()
    worker.timers.tick()
    assert {one.flaw for one in scene.verify().findings} == {Flaw.OBJECT_MISSING}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("what", ACTS)
def test_acknowledged_operation_left_alone_is_no_flaw_and_in_no_doubt(scene: Scene, what: str, fate: str) -> None:
    act, cap = ACTS[what], scene.cap()
    line = scene.owner.vault.memory(cap).put("old", namespace="travel").id
    scene.owner.vault.memory(cap).set_profile("old", namespace="travel")
    worker = scene.start()
    act.do(worker.vault, cap, line)
    FATES[fate](worker)
    scene.clock.pass_by(120)

    report = scene.verify()

    assert report.ok, report


# When it is said.


def _said(worker: Worker) -> list[str]:
    """What a worker's log says was done, or was not."""
    entries = [decode_entry(data) for _, _, data in worker.vault.store.entries(0, 1000) if data is not None]
    return [one.detail for one in entries if one.op == DONE]


def _bundles(scene: Scene) -> int:
    return sum(name.startswith("logs/") for name in scene.bucket.objects)


@pytest.mark.requirement("fleet-done")
def test_put_waits_for_no_done_and_an_idle_worker_says_it_when_its_timer_rings(scene: Scene) -> None:
    worker, cap = scene.start(), scene.cap()
    memory = worker.vault.memory(cap)
    memory.put("the first makes keys", namespace="travel")
    worker.timers.tick()
    before = _bundles(scene)
    memory.put("a trip", namespace="travel")
    assert _bundles(scene) == before + 1
    worker.timers.tick()
    assert _bundles(scene) == before + 2
    assert _said(worker)[-1] == "2-3"
    worker.timers.tick()
    assert not worker.timers.waiting
    assert _bundles(scene) == before + 2, "there is nothing more to say"


@pytest.mark.requirement("fleet-done")
def test_read_sets_no_timer(scene: Scene) -> None:
    worker, cap = scene.start(), scene.cap()
    _lines(worker.vault, cap)
    assert not worker.timers.waiting


@pytest.mark.requirement("fleet-done")
def test_partitioned_worker_goes_on_trying_to_say_what_it_did(scene: Scene) -> None:
    worker, cap = scene.start(), scene.cap()
    scene.owner.vault.memory(cap).put("the first makes keys", namespace="travel")
    worker.vault.memory(cap).put("a trip", namespace="travel")
    worker.cut_off()
    for _ in range(3):
        worker.timers.tick()
    worker.reconnect()
    assert not _said(worker)
    worker.timers.tick()
    assert set(_said(worker)) == {"0-1"}


@pytest.mark.requirement("fleet-done")
def test_worker_that_is_closed_says_it_and_leaves_no_timer(scene: Scene) -> None:
    worker, cap = scene.start(), scene.cap()
    scene.owner.vault.memory(cap).put("the first makes keys", namespace="travel")
    worker.vault.memory(cap).put("a trip", namespace="travel")
    before = _bundles(scene)
    worker.vault.close()
    assert _bundles(scene) == before + 1
    assert not worker.timers.waiting


@pytest.mark.requirement("fleet-done")
@pytest.mark.parametrize("what", ["forget", "revoke", "erase namespace"])
def test_operation_without_its_done_is_not_acknowledged_and_done_once(scene: Scene, what: str) -> None:
    cap = scene.cap()
    line = scene.owner.vault.memory(cap).put("old", namespace="travel").id
    worker = scene.start()
    _lines(worker.vault, cap)
    bundles = iter(range(100))
    worker.way.cut = lambda one: one.startswith("create logs/") and next(bundles) > 0
    with pytest.raises(AuditUnavailable):
        ACTS[what].do(worker.vault, cap, line)
    worker.reconnect()
    assert not _is_undone(ACTS[what], scene, cap, line), "it was done"
    worker.timers.tick()
    scene.clock.pass_by(120)
    report = scene.verify()
    assert (report.ok, report.unsettled) == (True, ()), "the timer says so"


def _is_undone(act: Act, scene: Scene, cap: Token, line: str) -> bool:
    return _told(lambda: act.is_undone(scene.start().vault, cap, line)) == "no"


def test_entries_of_a_bundle_that_came_too_late_for_their_request_are_said_not_done(scene: Scene) -> None:
    worker, cap = scene.start(), scene.cap()
    memory = worker.vault.memory(cap)
    memory.put("the first makes keys", namespace="travel")
    reaches = scene.bucket.create

    def answers_nothing(name: str, body: bytes) -> str:
        reaches(name, body)
        raise StoreUnavailable("no answer")

    scene.bucket.create = answers_nothing  # type: ignore[method-assign]
    with pytest.raises(AuditUnavailable):
        memory.put("a trip", namespace="travel")
    scene.bucket.create = _idempotent(scene.bucket, reaches)  # type: ignore[method-assign,assignment]
    memory.put("another trip", namespace="travel")
    assert any(detail.endswith("not 2-3") for detail in _said(worker)), _said(worker)
    scene.clock.pass_by(120)
    assert scene.verify().ok


def _idempotent(bucket: MemoryBucket, create: Callable[[str, bytes], str]) -> Callable[[str, bytes], str]:
    """As a real client does it: what is there and is one's own was written by oneself."""

    def own(name: str, body: bytes) -> str:
        if bucket.objects.get(name) == body and body:
            return str(getattr(bucket.get(name), "etag", ""))
        return create(name, body)

    return own


@pytest.mark.requirement("fleet-done")
def test_timer_of_a_log_rings_by_itself_on_another_thread() -> None:
    rang: Queue[int] = Queue()
    on_timer(0.0, lambda: rang.put(threading.get_ident()))
    assert rang.get(timeout=60) != threading.get_ident()


@pytest.mark.requirement("fleet-done")
def test_timer_of_a_log_that_is_cancelled_never_rings_and_leaves_no_thread() -> None:
    rang, before = threading.Event(), set(threading.enumerate())
    cancel = on_timer(3600, rang.set)
    (thread,) = set(threading.enumerate()) - before
    cancel()
    thread.join(60)
    assert (thread.is_alive(), rang.is_set()) == (False, False)


# Undone together with the log.


def _done_with_all_before(scene: Scene, what: str) -> tuple[Worker, dict[str, bytes]]:
    """A worker that has acknowledged something, and the whole bucket as it was before, logs included."""
    cap = scene.cap()
    line = scene.owner.vault.memory(cap).put("old", namespace="travel").id
    scene.owner.vault.memory(cap).set_profile("old", namespace="travel")
    scene.owner.timers.tick()
    worker = scene.start()
    _lines(worker.vault, cap)
    assert scene.verify().ok
    before = dict(scene.bucket.objects)
    ACTS[what].do(worker.vault, cap, line)
    worker.timers.tick()
    return worker, before


def _undo_with_the_log(scene: Scene, before: Mapping[str, bytes]) -> None:
    scene.bucket.objects.clear()
    scene.bucket.objects.update(before)
    scene.clock.pass_by(120)


@pytest.mark.requirement("fleet-tampering")
@pytest.mark.parametrize("what", ACTS)
def test_operation_undone_with_the_end_of_a_killed_workers_log_is_named_if_a_verification_saw_it(
    scene: Scene, what: str
) -> None:
    worker, before = _done_with_all_before(scene, what)
    worker.cut_off()
    assert scene.verify().ok
    _undo_with_the_log(scene, before)
    assert Flaw.LOG_ROLLED_BACK in {one.flaw for one in scene.verify().findings}


@pytest.mark.requirement("fleet-tampering")
@pytest.mark.parametrize("what", ACTS)
def test_operation_undone_with_the_end_of_a_log_is_named_once_its_worker_writes_again(scene: Scene, what: str) -> None:
    worker, before = _done_with_all_before(scene, what)
    _undo_with_the_log(scene, before)
    worker.vault.mint(actor="local/bob", ops=OPS, namespaces=["travel"], ttl=600)
    assert scene.verify().findings


@pytest.mark.requirement("fleet-tampering")
def test_operation_undone_with_the_end_of_a_killed_workers_log_that_nobody_saw_is_not_found(scene: Scene) -> None:
    worker, before = _done_with_all_before(scene, "forget")
    worker.cut_off()
    _undo_with_the_log(scene, before)
    assert scene.verify().ok, "then the page promises too little"


@pytest.mark.requirement("fleet-tampering")
def test_older_profile_is_served_by_a_worker_that_saw_only_the_newer_one(scene: Scene) -> None:
    cap, worker = scene.cap(), scene.start()
    memory = scene.owner.vault.memory(cap)
    old = memory.set_profile("old", namespace="travel")
    before = scene.changed_by(lambda: memory.set_profile("new", namespace="travel", version=old.version))
    assert _profile(worker.vault, cap) == "new"
    scene.undo(before)
    assert _profile(worker.vault, cap) == "old", "then the page promises too little"
    assert Flaw.OBJECT_ALTERED in {one.flaw for one in scene.verify().findings}


@pytest.mark.requirement("fleet-tampering")
def test_worker_that_is_answered_with_an_old_state_of_the_bucket_misses_what_is_newer(scene: Scene) -> None:
    cap, worker = scene.cap(), scene.start()
    scene.owner.vault.memory(cap).put("old", namespace="travel")
    assert len(_lines(worker.vault, cap)) == 1
    worker.way.freeze()
    scene.owner.vault.memory(cap).put("new", namespace="travel")
    scene.owner.vault.revoke(cap)
    assert len(_lines(worker.vault, cap)) == 1, "then the page promises too little"


# Entries that nobody says done.


def _killed_after_a_put(scene: Scene, *texts: str) -> list[str]:
    """A worker that is killed right after it has acknowledged; the places of its lines."""
    cap = scene.cap()
    scene.owner.vault.memory(cap).put("the first makes keys", namespace="travel")
    worker = scene.start()
    lines = [NewLine(text=text, namespace="travel") for text in texts]
    changed = scene.changed_by(lambda: worker.vault.memory(cap).put_many(lines))
    worker.cut_off()
    return sorted(name for name in changed if "/lines/" in name)


@pytest.mark.requirement("fleet-unsettled")
def test_put_of_a_killed_worker_is_named_once_it_cannot_be_under_way_any_more(scene: Scene) -> None:
    _killed_after_a_put(scene, "a trip")
    scene.clock.pass_by(80)
    young = scene.verify()
    assert (young.ok, young.unsettled, young.recent) == (True, (), 1)
    scene.clock.pass_by(20)
    report = scene.verify()
    (found,) = report.unsettled
    assert report.ok
    assert (found.op, found.state, found.is_known, report.recent) == ("put", EntryState.THERE, False, 0)


@pytest.mark.requirement("fleet-unsettled")
def test_seen_put_of_a_killed_worker_is_demanded_from_then_on(scene: Scene) -> None:
    (line,) = _killed_after_a_put(scene, "a trip")
    scene.clock.pass_by(120)
    assert scene.verify().ok
    again = scene.verify()
    assert (again.ok, [one.is_known for one in again.unsettled]) == (True, [True])
    scene.bucket.delete([line])
    assert {one.flaw for one in scene.verify().findings} == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("fleet-unsettled")
def test_killed_workers_put_that_is_not_there_is_told_once_and_counted_afterwards(scene: Scene) -> None:
    (line,) = _killed_after_a_put(scene, "a trip")
    scene.bucket.delete([line])
    scene.clock.pass_by(120)
    assert [one.state for one in scene.owner.vault.audit.look().doubtful] == [EntryState.MISSING]
    assert [one.state for one in scene.verify().doubtful] == [EntryState.MISSING], "only a look that counts settles it"
    again = scene.verify()
    assert (again.ok, again.doubtful) == (True, ())
    assert [(one.state, one.is_known) for one in again.unsettled] == [(EntryState.MISSING, True)]


@pytest.mark.requirement("fleet-unsettled")
def test_no_checkpoint_is_signed_over_a_doubt_that_nobody_was_told_of(scene: Scene) -> None:
    (line,) = _killed_after_a_put(scene, "a trip")
    scene.bucket.delete([line])
    scene.clock.pass_by(120)
    with pytest.raises(Tampered):
        scene.owner.vault.audit.checkpoint()
    assert not scene.verify().ok
    scene.owner.vault.audit.checkpoint()


@pytest.mark.requirement("fleet-unsettled")
def test_batch_that_is_there_in_part_is_doubtful_and_its_rest_demanded(scene: Scene) -> None:
    lines = _killed_after_a_put(scene, "one", "two", "three")
    scene.bucket.delete([lines[1]])
    scene.clock.pass_by(120)
    assert [one.state for one in scene.verify().doubtful] == [EntryState.PARTLY]
    assert scene.verify().ok
    scene.bucket.delete([lines[0]])
    assert {one.flaw for one in scene.verify().findings} == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("fleet-unsettled")
def test_put_that_nobody_said_done_and_somebody_forgot_is_in_no_doubt(scene: Scene) -> None:
    _killed_after_a_put(scene, "a trip")
    memory = scene.owner.vault.memory(scene.cap())
    memory.forget(ids=[one.id for one in memory.list().lines])
    scene.clock.pass_by(120)
    assert scene.verify().ok


@pytest.mark.requirement("fleet-unsettled")
@pytest.mark.parametrize("what", ACTS)
def test_log_of_a_worker_of_an_earlier_version_is_read_and_its_last_entries_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    cap = scene.cap()
    line = scene.owner.vault.memory(cap).put("old", namespace="travel").id
    scene.clock.pass_by(600)
    with monkeypatch.context() as patch:
        for name in ("confirm", "carried_out"):
            patch.setattr(worker_log.WorkerLog, name, worker_log.WorkerLog.released)
        worker = scene.start()
        before = scene.changed_by(lambda: ACTS[what].do(worker.vault, cap, line))
        worker.cut_off()
    scene.clock.pass_by(120)
    report = scene.verify()
    assert report.ok
    assert {one.state for one in report.unsettled} == {EntryState.THERE}
    scene.undo(before)
    assert scene.verify().findings, "what was seen is demanded"


@pytest.mark.requirement("fleet-unsettled")
@pytest.mark.parametrize(
    "lines", [["there 0"], ["there 0.0 0.0"], ["there 1.0", "there 2.0"], ["other 0.0"], ["there "]]
)
def test_witness_with_other_lines_about_unsettled_entries_is_refused(lines: list[str]) -> None:
    with pytest.raises(Tampered):
        Sighting.parse(lines)


# In one log there is an order, whatever the clocks say.


@pytest.mark.requirement("fleet-tampering")
def test_older_profile_of_the_same_moment_and_worker_is_no_longer_allowed(scene: Scene) -> None:
    memory = scene.owner.vault.memory(scene.cap())
    before = memory.set_profile("old", namespace="travel")
    kept = scene.changed_by(lambda: memory.set_profile("new", namespace="travel", version=before.version))
    scene.undo(kept)
    assert {one.flaw for one in scene.verify().findings} == {Flaw.OBJECT_ALTERED}


@pytest.mark.requirement("fleet-tampering")
def test_namespace_that_is_put_back_a_moment_after_its_lines_were_put_is_found(scene: Scene) -> None:
    memory = scene.owner.vault.memory(scene.cap())
    memory.put("a trip", namespace="travel")
    scene.undo(scene.changed_by(lambda: memory.erase(["travel"])))
    assert Flaw.OBJECT_ALTERED in {one.flaw for one in scene.verify().findings}


@pytest.mark.requirement("fleet-tampering")
def test_line_that_was_put_a_moment_after_an_erasure_is_missed(scene: Scene) -> None:
    memory = scene.owner.vault.memory(scene.cap())
    memory.put("a trip", namespace="travel")
    memory.erase(["travel"])
    kept = scene.changed_by(lambda: memory.put("another trip", namespace="travel"))
    scene.owner.timers.tick()
    scene.bucket.delete([name for name in kept if "/lines/" in name])
    assert {one.flaw for one in scene.verify().findings} == {Flaw.OBJECT_MISSING}


def main() -> None:
    sys.stdout.write(
        "| done | then the worker | worker | another | new worker | `verify` |\n|---|---|---|---|---|---|\n"
    )
    for what in ACTS:
        for fate in FATES:
            with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
                scene = Scene(Path(home), patch)
                noticed, _ = play(scene, what, fate, DELAYS[-1])
                scene.close()
            sys.stdout.write(f"| {' | '.join((what, fate, *noticed))} |\n")


if __name__ == "__main__":
    main()
