"""What an operator has to see to before it is too late: caps that end, backups, disks, scrubs that were put off.

Numbers only, and few: nothing in them tells of an actor, a namespace or a cap.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from strongroom.model import CapRecord, DataClass
from strongroom.store import OnDisk, Store

_DAY = 86_400


class Disk(msgspec.Struct, frozen=True):
    """The file system that a vault is on, and what the vault takes of it, in bytes."""

    size: int
    free: int
    vault: int


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """`soonest` are the seconds until the first of the live caps ends; None: there is none."""

    caps: int
    soonest: int | None
    within_day: int
    within_week: int
    backup_age: float | None
    scrub_is_due: bool
    disk: Disk | None


def upkeep_of(store: Store, caps: Iterable[CapRecord], now: int, backup_age: float | None) -> Upkeep:
    """`now` in seconds since 1970."""
    alive = [cap for cap in caps if not cap.revoked and cap.expires > now]
    # A cap for memory is a parent only of what it was renewed to, and that is the one that counts.
    renewed = {link for cap in alive for link in cap.parents}
    alive = [cap for cap in alive if cap.data_class != DataClass.MEMORY or cap.link not in renewed]
    return Upkeep(
        caps=len(alive),
        soonest=min((cap.expires - now for cap in alive), default=None),
        within_day=_ending(alive, now, _DAY),
        within_week=_ending(alive, now, 7 * _DAY),
        backup_age=backup_age,
        scrub_is_due=isinstance(store, OnDisk) and store.scrub_is_due(),
        disk=_disk(store),
    )


def _ending(caps: Iterable[CapRecord], now: int, within: int) -> int:
    """How many end within so many seconds, of those that were made to live longer than that."""
    return sum(cap.expires - now <= within < cap.expires - cap.issued for cap in caps)


def _disk(store: Store) -> Disk | None:
    if not isinstance(store, OnDisk):
        return None
    with suppress(OSError):
        usage = shutil.disk_usage(store.directory())
        return Disk(usage.total, usage.free, sum(one.stat().st_size for one in store.directory().glob("vault.db*")))
    return None
