"""What must be in the bucket when all is over: logs that are signed and without gaps, and an entry for every answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from strongroom.audit.entry import Decision, Entry, decode_entry
from strongroom.crypto import merkle_log
from strongroom.store.fleet_contract import Member, is_signed
from strongroom.store.s3 import worker_log
from strongroom.store.s3.bucket import Bucket, BucketListing, BucketObject
from tests.fleet.history import Call, History
from tests.fleet.memory import folders_of
from tests.fleet.rules import Rule
from tests.fleet.simulated import Server

T = TypeVar("T")
_OWNERS = {"mint", "revoke", "erase_actor"}


class Still:
    """The bucket as it lies there: no request takes time, or fails."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.time = 0
        self.keeps_versions = False

    def get(self, name: str) -> BucketObject | None:
        return self._server.get(name)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> list[BucketListing]:
        return self._server.page(prefix, after, limit or len(self._server.objects))

    def folders(self, prefix: str) -> Sequence[str]:
        return folders_of(self._server.objects, prefix)

    def create(self, name: str, body: bytes) -> str:
        raise NotImplementedError

    def swap(self, name: str, body: bytes, etag: str) -> str:
        raise NotImplementedError

    def delete(self, names: Sequence[str]) -> None:
        raise NotImplementedError


class _Inline(Executor):
    """One after the other, here."""

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **_: Any) -> Iterator[T]:
        return map(fn, *iterables)


def check_bucket(server: Server, history: History) -> list[str]:
    """Everything that is wrong with what was left behind."""
    bucket: Bucket = Still(server)
    members = dict(worker_log.roster(bucket))
    entries: list[Entry] = []
    wrong: list[str] = []
    for worker in worker_log.written_logs(bucket):
        wrong += _check_log(bucket, worker, members.pop(worker, None), entries)
    wrong += [f"{Rule.NO_LOG}: {worker}" for worker in members]
    return [*wrong, *_unrecorded(history, entries)]


def _check_log(bucket: Bucket, worker: str, member: Member | None, entries: list[Entry]) -> Iterator[str]:
    edge, is_entered = merkle_log.Range(), member is not None
    for place, (number, bundle) in enumerate(worker_log.bundles(bucket, worker, _Inline()), 1):
        if bundle is None or number != place or bundle.first != edge.size:
            yield f"{Rule.GAP}: {worker} at bundle {place}"
            return
        for entry in bundle.entries:
            edge.append(merkle_log.leaf_hash(entry))
        # Who died before it could enter itself in the roster has acknowledged nothing.
        entries += map(decode_entry, bundle.entries if is_entered else ())
        member = member or bundle.member
        if member is None or edge.packed() != bundle.peaks or not is_signed(worker, bundle, member.public):
            yield f"{Rule.UNSIGNED}: {worker} at bundle {place}"


def _unrecorded(history: History, entries: list[Entry]) -> Iterator[str]:
    """The answers of which no log knows."""
    recorded = {(entry.request, entry.decision, entry.reason) for entry in entries if entry.request}
    links = {(entry.op, str(link)) for entry in entries for link in entry.links}
    for call in history.calls:
        if call.client != "attacker" and not _is_recorded(call, recorded, links):
            yield f"{Rule.UNRECORDED}: {call}"


def _is_recorded(call: Call, recorded: set[tuple[str, Decision, str]], links: set[tuple[str, str]]) -> bool:
    if call.op in _OWNERS:
        return call.op == "erase_actor" or not call.is_ok or (call.op, call.link) in links
    if call.is_ok:
        return (call.request, Decision.ALLOW, "") in recorded
    is_denied = call.outcome in ("cap_revoked", "not_found", "version_conflict", "line_replaced")
    return not is_denied or (call.request, Decision.DENY, call.outcome) in recorded
