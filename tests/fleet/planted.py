"""Faults that are planted into the code of a fleet, each with the rule that a seed is then seen to break.

They are what an earlier version did, what a careless change would do, and for each rule at least one that breaks it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from strongroom.audit import fleet_verifier
from strongroom.audit.log_walk import LogWalk
from strongroom.audit.unfinished_entries import Sighting, judge
from strongroom.errors import AuditUnavailable, LineNotFound, StoreUnavailable, Unavailable
from strongroom.memory import Memory, ended_lines
from strongroom.memory.line_cache.line_states import LineStates
from strongroom.memory.ops import forget
from strongroom.store import s3
from strongroom.store.fleet_contract import LogBundle
from strongroom.store.s3 import S3Store, actor_replica, known_objects, packs, reader
from strongroom.store.s3.actor_replica import ActorView
from strongroom.store.s3.bucket_replica import View
from strongroom.store.s3.object_names import Table
from strongroom.store.s3.worker_log import WorkerLog
from strongroom.store.s3.writer import Writer
from tests.fleet.rules import Rule

Plant = Callable[[pytest.MonkeyPatch], None]


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
    for module in (actor_replica, known_objects, reader):
        patch.setattr(module, "as_listed", lambda bucket, one: bucket.get(one.name))


def _nothing_unsettled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleet_verifier, "judge", lambda *_: ([], Sighting()))


def _copies_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    take: Any = LogWalk._take

    def passes(self: Any, walked: Any, bundle: Any, public: Any) -> None:
        if bundle.first == walked.edge.size:
            take(self, walked, bundle, public)

    patch.setattr(LogWalk, "_take", passes)


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


def _texts_changed(patch: pytest.MonkeyPatch) -> None:
    put: Any = Memory.put_many

    def puts(self: Any, lines: Any, **named: Any) -> Any:
        return put(self, [replace(one, text=f"{one.text}, it seems") for one in lines], **named)

    patch.setattr(Memory, "put_many", puts)


def _several_are_not_found(patch: pytest.MonkeyPatch) -> None:
    get: Any = Memory.get

    def gets(self: Any, *given: Any, ids: Any = None, **named: Any) -> Any:
        if ids is not None and len(ids) > 1:
            raise LineNotFound("some of these lines are not there")
        return get(self, *given, ids=ids, **named)

    patch.setattr(Memory, "get", gets)


def _profiles_changed(patch: pytest.MonkeyPatch) -> None:
    write: Any = Memory.set_profile

    def writes(self: Any, text: str, **named: Any) -> Any:
        return write(self, text.upper(), **named)

    patch.setattr(Memory, "set_profile", writes)


def _profiles_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Memory, "set_profile", lambda *_, **__: None)


def _keeps_a_lock(patch: pytest.MonkeyPatch) -> None:
    """A write of the log that fails keeps the lock of that log."""
    write: Any = WorkerLog._write_bundle

    def writes(self: Any, taken: Any) -> None:
        try:
            write(self, taken)
        except AuditUnavailable:
            self._guard.acquire()
            raise

    patch.setattr(WorkerLog, "_write_bundle", writes)


def _opens_once(patch: pytest.MonkeyPatch) -> None:
    open_store: Any = s3.open_store

    def opens(bucket: Any, location: str) -> S3Store:
        if bucket.worker.partition(".")[2] not in ("", "1"):
            raise StoreUnavailable("this worker was here before")
        store: S3Store = open_store(bucket, location)
        return store

    patch.setattr(s3, "open_store", opens)


def _late_bundle(change: Callable[[Any], Any]) -> Plant:
    """Have workers write another bundle than they should, when all of them have begun."""
    draft: Any = WorkerLog._bundle

    def plant(patch: pytest.MonkeyPatch) -> None:
        def drafts(self: Any, *given: Any) -> Any:
            attempt = draft(self, *given)
            return change(attempt) if attempt.name.endswith("/000000000040") else attempt

        patch.setattr(WorkerLog, "_bundle", drafts)

    return plant


def _skipped(attempt: Any) -> Any:
    return dataclasses.replace(attempt, number=attempt.number + 1)


def _badly_signed(attempt: Any) -> Any:
    bundle = msgspec.msgpack.decode(attempt.body, type=LogBundle)
    return dataclasses.replace(attempt, body=msgspec.msgpack.encode(replace(bundle, signature=bytes(64))))


def _tells_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleet_verifier, "judge", lambda begun, _, said, store: judge(begun, Sighting(), said, store))


class Planted(NamedTuple):
    """A fault, the rule that a seed is seen to break, and whether that takes lines with an end."""

    plant: Plant
    breaks: Rule
    expires: bool = False


PLANTED: dict[str, Planted] = {
    "revocations are not announced": Planted(
        lambda patch: patch.setattr(Writer, "_announce", lambda self: None), Rule.VOID_CAP
    ),
    "a revocation holds for caps that are minted afterwards": Planted(
        lambda patch: patch.setattr(Writer, "_announce", lambda self: None), Rule.GOOD_CAP
    ),
    "a purge leaves the generation": Planted(
        lambda patch: patch.setattr(Table, "purged", lambda self, _: self), Rule.FLAW
    ),
    "a look that began before counts": Planted(_late_joiner, Rule.VOID_CAP),
    "an unclear bundle is not written again": Planted(_forgetful_log, Rule.FALSE_TAKEN_LOG),
    "who failed once answers no reads any more": Planted(_reads_fail_for_good, Rule.NO_ANSWER),
    "forgetting leaves no tombstone": Planted(_no_tombstones, Rule.FLAW),
    "reads are not logged": Planted(_unlogged, Rule.UNRECORDED),
    "a log is not written until something changes": Planted(_unlogged, Rule.NO_LOG),
    "a worker goes back": Planted(_goes_back, Rule.WENT_BACK),
    "a body is believed that contradicts the list": Planted(_believes_any_body, Rule.MISSING),
    "a body is packed that contradicts the list": Planted(_believes_any_body, Rule.COMPACTION),
    "two workers read different bodies": Planted(_believes_any_body, Rule.DISAGREEING),
    "packs leave tombstones out": Planted(_packs_without_tombstones, Rule.BACK),
    "done is not said before the acknowledgement": Planted(_late_done, Rule.UNNAMED),
    "what nobody said done is not named": Planted(_nothing_unsettled, Rule.UNNAMED),
    "a copied bundle is passed over": Planted(_copies_are_passed_over, Rule.UNNAMED_BUNDLE),
    "a worker stays in a log that was taken": Planted(_stays_in_a_taken_log, Rule.STOPPED),
    "a taken log raises no alarm": Planted(_silent_about_a_taken_log, Rule.NO_ALARM),
    "a profile is not written over": Planted(_profiles_stay, Rule.OLD_PROFILE),
    "what is sent again is put under a new id": Planted(_new_ids, Rule.TWO_IDS),
    "a list shows a line twice": Planted(_listed(lambda lines: (*lines, *lines[:1])), Rule.TWICE),
    "a list leaves a line out": Planted(_listed(lambda lines: lines[1:]), Rule.MISSING),
    "a get leaves a line out": Planted(_half_got, Rule.LISTED_NOT_GOT),
    "a get of several lines fails": Planted(_several_are_not_found, Rule.NOT_FOUND),
    "a put changes the text": Planted(_texts_changed, Rule.INVENTED),
    "a profile is changed": Planted(_profiles_changed, Rule.INVENTED_PROFILE),
    "a profile is acknowledged and not written": Planted(_profiles_dropped, Rule.MISSING_PROFILE),
    "a lost race is a defect": Planted(
        lambda patch: patch.setattr(Writer, "_lost", lambda _, name: LookupError(name)), Rule.DEFECT
    ),
    "a write that fails keeps its lock": Planted(_keeps_a_lock, Rule.HALT),
    "a worker that was killed does not open again": Planted(_opens_once, Rule.NO_START),
    "a log leaves a number out": Planted(_late_bundle(_skipped), Rule.GAP),
    "a bundle is signed by nobody": Planted(_late_bundle(_badly_signed), Rule.UNSIGNED),
    "what was told is told again": Planted(_tells_again, Rule.UNSETTLED),
    "lines with an end go on": Planted(
        lambda patch: patch.setattr(LineStates, "_is_over", lambda *_: False), Rule.EXPIRED, expires=True
    ),
    "what has ended is hidden and not forgotten": Planted(
        lambda patch: patch.setattr(ended_lines, "_forget", lambda *_: ended_lines.EndedCount()),
        Rule.STORED,
        expires=True,
    ),
    "a sweep leaves bytes in packs": Planted(
        lambda patch: patch.setattr(S3Store, "scrub", lambda _: True), Rule.STORED, expires=True
    ),
    "a newer generation is taken for an older one": Planted(
        lambda patch: patch.setattr(actor_replica, "is_as_new", lambda table, floor: table == floor), Rule.FALSE_ALARM
    ),
}
RARE: dict[str, Planted] = {
    "nobody looks again after writing keys": Planted(
        lambda patch: patch.setattr(Writer, "_look_again", lambda *_: None), Rule.BACK
    ),
    "an erasure does not look again": Planted(
        lambda patch: patch.setattr(forget, "_is_back", lambda *_: False), Rule.BACK
    ),
}
