"""The known state of an object in a bucket: stored singly, in a pack, or both."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import NamedTuple

from strongroom.store import Version
from strongroom.store.s3 import object_names, packs
from strongroom.store.s3.bucket import Bucket, BucketListing, as_listed
from strongroom.store.s3.object_names import Table
from strongroom.store.s3.packs import Pack


class Known(NamedTuple):
    """The known state of one object.

    `etag` and `size` belong to the single object; `pack` is the place of the pack that holds it.
    """

    version: Version
    is_gone: bool = False
    etag: str = ""
    pack: str = ""
    size: int = 0


def by_itself(one: BucketListing) -> Known:
    """The state of an object that a list shows as stored singly."""
    return Known(object_names.version_of(one.etag), one.size == 0, one.etag, "", one.size)


def either(alone: Known | None, packed: Known | None) -> Known | None:
    """Merge the state of an object's single copy and of its record in a pack.

    If either is a tombstone, the object is gone. Otherwise the pack's body counts, because the single copy is about to
    be deleted.
    """
    if alone is None or packed is None:
        return alone or packed
    if alone.is_gone and not packed.is_gone:
        return alone._replace(pack=packed.pack)
    return packed._replace(etag=alone.etag, size=alone.size)


def merge_known(loose: Mapping[str, Known], packed: Mapping[str, Known]) -> dict[str, Known]:
    """The state of all objects, whether stored singly, in packs or both."""
    both = {name: either(loose.get(name), packed.get(name)) for name in {*loose, *packed}}
    return {name: known for name, known in both.items() if known is not None}


def in_packs(held: Mapping[str, Pack]) -> dict[str, Known]:
    """The state of the objects in packs. If any pack holds a tombstone for an object, the object is gone."""
    found: dict[str, Known] = {}
    for place, pack in held.items():
        for name, record in pack.records.items():
            if name not in found or record.body is None:
                found[name] = Known(record.version, record.body is None, "", place)
    return found


def read_packs(
    bucket: Bucket, threads: Executor, wanted: Mapping[str, BucketListing], known: Mapping[str, Pack]
) -> dict[str, Pack] | None:
    """The packs by their places. Only packs that are not known yet are read.

    Returns None if a pack changed or was gone before it was read.
    """
    held = {place: pack for place, pack in known.items() if place in wanted and wanted[place].etag == pack.etag}
    missing = [place for place in wanted if place not in held]
    read = threads.map(lambda place: as_listed(bucket, wanted[place]), missing)
    for place, found in zip(missing, read, strict=True):
        if found is None or found.etag != wanted[place].etag:
            return None
        held[place] = packs.decode_pack(shelf_of(place), found.body, found.etag)
    return held


def shelf_of(place: str) -> str:
    """The beginning of the logical names of all objects in the pack at this place."""
    found = object_names.below(place, Table())
    return "" if found is None else found.name.partition("packs/")[0]
