"""Names that are read from the bucket at each call, without a replica: cap records, actors and stray objects."""

from __future__ import annotations

from collections.abc import Iterator

from strongroom.store import Object
from strongroom.store.s3 import object_names
from strongroom.store.s3.bucket import PAGE, Bucket, BucketListing


def cap_records(bucket: Bucket, prefix: str, after: str) -> Iterator[Object]:
    """Records of caps, read page by page, because there may be very many."""
    place = object_names.plain_place(after) if after.startswith(object_names.CAPS) else ""
    below = object_names.plain_place(max(prefix, object_names.CAPS)).rpartition("/")[0] + "/"
    while page := bucket.list(below, place, PAGE) if after <= object_names.CAPS + "~" else ():
        if page[-1].name <= place:
            return  # only names of earlier pages: the end
        yield from (one for one in map(_cap_record, page) if one.name.startswith(prefix))
        place = page[-1].name


def _cap_record(one: BucketListing) -> Object:
    name = object_names.CAPS + one.name.removeprefix("caps/")
    return Object(name, object_names.version_of(one.etag), b"" if one.size else None)


def locators(bucket: Bucket, after: str = "") -> Iterator[str]:
    """Every actor with objects in the bucket.

    With `after`, the name of an object, the list begins with the actor of that object.
    """
    for locator in bucket.folders(object_names.ACTORS):
        place = f"{object_names.ACTORS}{locator}/"
        is_behind = place > after[: len(place)] or object_names.locator_of(after) == locator
        if is_behind and object_names.locator_of(place) is not None:
            yield locator


def _unheard(bucket: Bucket) -> Iterator[str]:
    """Announcements of changes that no reader reaches, because an earlier number is missing."""
    numbered = enumerate(sorted(one.name for one in bucket.list(object_names.NEWS)), 1)
    yield from (name for number, name in numbered if name != object_names.news(number))


def strays(bucket: Bucket) -> Iterator[str]:
    """Objects at places that we never use, so that no reader looks at them."""
    yield from _unheard(bucket)
    for part in (object_names.ACTORS, object_names.LOGS):
        place = ""
        while (page := bucket.list(part, place, PAGE)) and page[-1].name > place:
            yield from (one.name for one in page if object_names.is_stray(one.name))
            place = page[-1].name
