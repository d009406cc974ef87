"""Forgetting lines in a bucket: each line gets a tombstone that outlasts its body.

The line stays forgotten if a process dies or packs lines meanwhile. Packs still hold the bodies until the packs are
rewritten (`leftovers`); no reader uses these bodies, because a tombstone always decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from strongroom.errors import StoreUnavailable
from strongroom.store import Delete, Version
from strongroom.store.s3 import object_names, packs
from strongroom.store.s3.actor_replica import ActorView
from strongroom.store.s3.bucket import Changed, NameTaken
from strongroom.store.s3.known_objects import shelf_of
from strongroom.store.s3.object_names import Places
from strongroom.store.s3.packs import Pack, Record
from strongroom.store.s3.reader import Reader

_TRIES = 64


class Burial:
    """Forgets lines: writes their tombstones and empties their objects. Thread-safe."""

    def __init__(self, reader: Reader, random: Callable[[int], bytes], left_over: Callable[[str], object]) -> None:
        self._reader = reader
        self._bucket = reader.bucket
        self._random = random
        self._left_over = left_over
        """Called with each actor whose packs still hold bytes of forgotten lines."""

    def bury(self, deletes: Sequence[Delete], places: Places) -> list[Version]:
        """Turn lines into tombstones, and make sure that no pack begun before can still bring one of them back.

        Packs that already hold such a line are left to `Leftovers`, which rewrites them for many forgets at once.
        """
        numbers: list[Version] = []
        for locator in sorted({object_names.locator_of(one.name) or "" for one in deletes}):
            view = self._reader.actor(locator)
            mine = [one for one in deletes if object_names.locator_of(one.name) == locator]
            self._write_tombstones(view, mine, places)
            self._take_out(view, {one.name: places[one.name] for one in mine})
            if _hold_bodies(view, [one.name for one in mine]):
                self._left_over(locator)
            numbers.append(view.latest)
        return numbers

    def _write_tombstones(self, view: ActorView, deletes: Sequence[Delete], places: Places) -> None:
        """Write a pack of tombstones. From now on the lines are gone for all processes.

        Writing the tombstone over the line's own object would not be safe, because a compactor deletes objects after
        packing them, and its deletes have no condition. Every compaction that begins from now on sees this pack.
        """
        for shelf in sorted({_shelf(one.name) for one in deletes}):
            records = {one.name: Record(one.version + 1, None) for one in deletes if _shelf(one.name) == shelf}
            # Placed beside the lines: if they were purged meanwhile, this belongs to the purged generation.
            place, etag = self._written_pack(
                _shelf(places[next(iter(records))]), view, packs.encode_pack(shelf, records)
            )
            with view.guard:
                view.packs = {**view.packs, place: Pack(etag, records)}

    def _written_pack(self, beside: str, view: ActorView, body: bytes) -> tuple[str, str]:
        """Write a pack under a new id. Returns its place and its etag.

        If an id is taken, the pack there is never assumed to be our own write: otherwise a missing burial could count
        as written.
        """
        for _ in range(_TRIES):
            number = packs.next_number([*view.packs, *view.claims])
            place = f"{beside}packs/{packs.pack_id(number, self._random(6))}"
            with suppress(NameTaken):
                return place, self._bucket.create(place, body)
        raise StoreUnavailable("the object store kept refusing new names as already in use", hint="try again")

    def _take_out(self, view: ActorView, places: Places) -> None:
        """Empty the lines' own objects, and void claims (reserved places of packs) that might be filled with them.

        If an object was changed first, the bucket is read again and the work is repeated.
        """
        done: set[str] = set()
        for _ in range(_TRIES):
            view.refresh()
            names = [name for name, place in places.items() if self._reader.place(name) == place]
            left = self._left(view, names, done)
            if not left:
                return
            done.update(self._reader.threads.map(self._replace, left) if len(left) > 1 else map(self._replace, left))
        raise StoreUnavailable("the vault is too busy: other workers kept packing the lines to be forgotten; try again")

    def _left(self, view: ActorView, names: Sequence[str], done: Collection[str]) -> list[tuple[str, bytes, str]]:
        """The objects still to be replaced, each with its place, its new bytes and its present etag."""
        shelves = {_shelf(name) for name in names}
        with view.guard:
            loose = [(name, known.etag) for name in names if (known := view.objects.get(name)) and known.etag]
            claimed = list(view.claims.items())
        left = [(self._reader.place(name), b"", etag) for name, etag in loose if etag not in done]
        # Claims are replaced, not deleted: one may have become a pack by now, which must not be lost.
        left += [
            (place, packs.claim(self._random(16)), etag)
            for place, etag in claimed
            if etag not in done and shelf_of(place) in shelves
        ]
        return left

    def _replace(self, one: tuple[str, bytes, str]) -> str:
        """Replace an object. Returns the new etag, or "" if the object had changed."""
        place, body, etag = one
        try:
            return self._bucket.swap(place, body, etag)
        except Changed:
            return ""


def _shelf(name: str) -> str:
    """The part of a line's name before `lines/`: the actor and the namespace."""
    return name.partition("lines/")[0]


def _hold_bodies(view: ActorView, names: Sequence[str]) -> bool:
    """Whether any pack holds the body of one of these lines."""
    with view.guard:
        held = list(view.packs.values())
    return any(record.body is not None for pack in held for name in names if (record := pack.records.get(name)))
