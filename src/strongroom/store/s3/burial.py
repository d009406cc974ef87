"""Forgetting lines in a bucket: each gets a tombstone that outlasts its body, whichever process dies or packs.

Bodies in packs stay until the packs are rewritten (`leftovers`); nobody reads them, because a tombstone decides.
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
    """Turns lines into tombstones. Thread-safe."""

    def __init__(self, reader: Reader, random: Callable[[int], bytes], left_over: Callable[[str], object]) -> None:
        self._reader = reader
        self._bucket = reader.bucket
        self._random = random
        self._left_over = left_over
        """Called with actors whose packs still hold bytes of forgotten lines."""

    def bury(self, deletes: Sequence[Delete], places: Places) -> list[Version]:
        """Turn lines into tombstones, and make sure that no claim becomes a pack with one of them.

        Packs that already hold one are left to `Leftovers`, which rewrites them for many forgets at once.
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
        """Write a pack of tombstones. From then on the lines are gone for everybody, whichever process dies or packs.

        A tombstone in the place of the line would not be safe, because a compactor deletes without a condition what it
        has packed. Every pack claimed from now on sees this one.
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

        A taken id is never assumed to be our own write: otherwise a missing burial could count as written.
        """
        for _ in range(_TRIES):
            number = packs.next_number([*view.packs, *view.claims])
            place = f"{beside}packs/{packs.pack_id(number, self._random(6))}"
            with suppress(NameTaken):
                return place, self._bucket.create(place, body)
        raise StoreUnavailable("the object store kept taking new names for names in use", hint="try again")

    def _take_out(self, view: ActorView, places: Places) -> None:
        """Empty the single objects, and void claims that might be filled with them.

        After a lost race it reads again.
        """
        done: set[str] = set()
        for _ in range(_TRIES):
            view.refresh()
            names = [name for name, place in places.items() if self._reader.place(name) == place]
            left = self._left(view, names, done)
            if not left:
                return
            done.update(self._reader.threads.map(self._replace, left) if len(left) > 1 else map(self._replace, left))
        raise StoreUnavailable("the vault is too busy: other workers kept packing the same lines")

    def _left(self, view: ActorView, names: Sequence[str], done: Collection[str]) -> list[tuple[str, bytes, str]]:
        """The objects still to be replaced: place, new bytes, and the present etag."""
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
    """The prefix of a line's name: its whole namespace."""
    return name.partition("lines/")[0]


def _hold_bodies(view: ActorView, names: Sequence[str]) -> bool:
    """Whether packs hold bodies of any of these lines."""
    with view.guard:
        held = list(view.packs.values())
    return any(record.body is not None for pack in held for name in names if (record := pack.records.get(name)))
