"""Why a minted cap is void, from the vault's state, and since when, from the log.

The time is unknown if the log's entry about it is archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from strongroom.audit.entry import Decision, Entry
from strongroom.gate import NEVER
from strongroom.memory.replica import Replica
from strongroom.model import Actor, CapRecord, Void
from strongroom.vault.owner_audit import EntryOf

_LEEWAY = 60
"""The most seconds by which the clocks of two workers are assumed to differ."""


def judge(state: Replica, record: CapRecord) -> CapRecord:
    """The record of a cap, with the reason why the gate would refuse the cap, if any. Expiry is not checked here."""
    not_before = state.standing.not_before.get(state.slots.actor(Actor(record.actor)), 0)
    is_old = record.issued < not_before
    if record.link in state.standing.revoked:
        return replace(record, revoked=True, void=Void.REVOKED)
    if is_old:
        since = None if not_before == NEVER else not_before - 1
        return replace(record, revoked=True, void=Void.ACTOR_REVOKED, void_since=since)
    if record.issuer and record.issuer not in state.records.secrets.issuers:
        return replace(record, void=Void.ISSUER_ROTATED)
    return record


def shut_out(state: Replica, record: CapRecord) -> Iterator[Actor]:
    """The actors for whom a cap for a scope of actors is void, because their caps were revoked after it was issued."""
    if record.actor.endswith("/"):
        for locator in [one for one, before in state.standing.not_before.items() if record.issued < before]:
            held = state.stored_keys.read(locator)
            if held is not None and held.keys.actor.startswith(record.actor):
                yield held.keys.actor


def date(records: Iterable[CapRecord], newest: Iterable[EntryOf]) -> Iterator[CapRecord]:
    """The records of caps, each void one with the time since which it is void.

    The time is that of the revocation or rotation in the log, or None if that entry is archived. `newest` yields the
    log's entries, newest first, and is read only as far as needed.
    """
    found = list(records)
    undated = [one for one in found if one.void and one.void_since is None]
    revoked: dict[str, int] = {}
    rotations: list[int] = []
    first = min((one.issued for one in undated), default=None)
    for _, entry, _ in newest if first is not None else ():
        if entry is None or first is None or entry.time // 1000 < first - _LEEWAY:
            break
        if entry.op == "rotate-issuer":
            rotations.insert(0, entry.time // 1000)
        elif entry.op == "revoke" and entry.decision == Decision.ALLOW:
            revoked |= dict.fromkeys(_links(entry), entry.time // 1000)
    for one in found:
        if one in undated:
            yield replace(one, void_since=revoked.get(one.link) if one.revoked else _replaced(one, rotations))
        else:
            yield one


def _links(entry: Entry) -> Iterable[str]:
    """The links that an entry revokes.

    If the revocation was made with an admin cap, `entry.links` are the links of the admin cap, and `detail` holds the
    revoked link.
    """
    if not entry.detail:
        return entry.links
    words = entry.detail.split(" ")
    return words[1:] if words[0] == "link" and len(words) == 2 else ()


def _replaced(record: CapRecord, rotations: list[int]) -> int | None:
    """The time at which the vault dropped a cap's issuer, from the times of issuer rotations.

    A rotation adds the new issuer in one entry and drops the old issuer in the next.
    """
    later = [time for time in rotations if time >= record.issued][:2]
    return later[-1] if later else None
