"""A vault in a bucket, for any number of workers: `s3://bucket/prefix`.

Each worker has a log of its own. A commit first writes an intent to that log (write-ahead), and then carries out the
effects. A last entry, `done`, states that the effects were carried out. Only then does the caller get its answer. If a
commit only creates objects of an actor, `done` may follow a moment after the answer (ADR 0037). Workers keep no state
that cannot be read again from the bucket.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from strongroom.errors import StoreUnavailable, Tampered, VaultExists, VaultMissing
from strongroom.store import Effect, HeadMac, Lost, PutNew
from strongroom.store.s3 import object_names, worker_log
from strongroom.store.s3.bucket import Bucket, S3Bucket
from strongroom.store.s3.bucket_probe import Probe
from strongroom.store.s3.location import access
from strongroom.store.s3.s3_store import S3Store as S3Store

FORMAT = "vault/format"


class S3Backend:
    """The backend for vaults in a bucket, registered under the name `s3`."""

    @classmethod
    def create(
        cls, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> S3Store:
        return create(bucket_at(location), location, mac, entries, effects, time)

    @classmethod
    def open(cls, location: str) -> S3Store:
        bucket = bucket_at(location, at_once=False)
        store = open_store(bucket, location)
        store.race_later(lambda: Probe(bucket, os.urandom(8).hex()).race())
        return store


def bucket_at(location: str, *, at_once: bool = True) -> S3Bucket:
    """Return the bucket at a location after a probe of its guarantees.

    With `at_once`, the probe also tries several concurrent writers.
    """
    bucket = S3Bucket(access(location))
    Probe(bucket, os.urandom(8).hex()).check(at_once=at_once)
    return bucket


def create(
    bucket: Bucket, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
) -> S3Store:
    """Create a store. The format record is written last: a bucket without a format record holds no store."""
    if bucket.get(FORMAT) is not None:
        raise VaultExists(f"s3://{location} already holds a vault")
    _check_not_half_moved(bucket, location)
    store = S3Store(bucket)
    try:
        store.authenticate(mac)
        first = [effect for effect in effects if isinstance(effect, PutNew) and effect.name == FORMAT]
        store.commit(entries, [effect for effect in effects if effect not in first], time)
        store.writer.carry_out(first)
    except Lost:
        store.close()
        raise VaultExists(
            f"s3://{location} already holds a vault, or objects of a vault",
            hint="name another prefix, or empty this one",
        ) from None
    except BaseException:
        store.close()
        raise
    return store


def open_store(bucket: Bucket, location: str) -> S3Store:
    """Open the store in a bucket.

    Raises VaultMissing if there is no store, and StoreUnavailable if a move into this bucket was interrupted.
    """
    found = bucket.get(FORMAT)
    if found is None:
        _check_not_half_moved(bucket, location)
        raise VaultMissing(f"there is no vault in s3://{location}")
    if not found.body:
        raise Tampered("the vault's format record in the bucket has been deleted")
    return S3Store(bucket)


def _check_not_half_moved(bucket: Bucket, location: str) -> None:
    """Raise StoreUnavailable if moving a vault into this bucket has begun and not ended.

    Called for a bucket that has no format record.
    """
    if any(worker.startswith(object_names.MOVING) for worker in worker_log.written_logs(bucket)):
        raise StoreUnavailable(
            f"the move of a vault to s3://{location} was interrupted, so the vault there cannot be opened yet",
            hint="run the same `strongroom migrate` again: it continues where it was interrupted",
        )
