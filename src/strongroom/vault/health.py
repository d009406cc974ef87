"""Figures for monitoring: caps that end soon, the age of the backup, disk space, a scrub that is due.

The figures are plain numbers that reveal no actor, namespace or cap.
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
    """The size of a vault's file system, its free space, and the size of the vault's files, in bytes."""

    size: int
    free: int
    vault: int


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """Figures about caps, backup, scrub and disk.

    `soonest` is the number of seconds until the first live cap ends, or None if there is no live cap.
    """

    caps: int
    soonest: int | None
    within_day: int
    within_week: int
    backup_age: float | None
    scrub_is_due: bool
    disk: Disk | None


def upkeep_of(store: Store, caps: Iterable[CapRecord], now: int, backup_age: float | None) -> Upkeep:
    """Collect the figures for monitoring. `now` is in seconds since 1970."""
    alive = [cap for cap in caps if not cap.revoked and cap.expires > now]
    # A memory cap that is a parent was renewed, and only its newest renewal counts.
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
    """How many caps end within `within` seconds. A cap that was issued for no longer than that does not count."""
    return sum(cap.expires - now <= within < cap.expires - cap.issued for cap in caps)


def _disk(store: Store) -> Disk | None:
    if not isinstance(store, OnDisk):
        return None
    with suppress(OSError):
        usage = shutil.disk_usage(store.directory())
        return Disk(usage.total, usage.free, sum(one.stat().st_size for one in store.directory().glob("vault.db*")))
    return None
