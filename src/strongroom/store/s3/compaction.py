"""Compaction: moves many single lines into a few packs, while others read, write, forget, purge and compact.

A pass works on one namespace of an actor, in its present generation (a purge begins a new one):

1. Create each new pack as a claim: a few bytes that reserve its place.
2. Only then list the namespace, and read lines and small packs.
3. Fill each claim with a conditional write (a swap).
4. Read each pack back and compare every record.
5. Wait for a moment (the rest), and delete the lines and packs that the new packs hold.

Why this is safe, even if a process dies at any request:

* Forgotten lines do not come back. A forget first writes a burial: a pack of tombstones. Every later pack copies all
  tombstones, so at every moment some pack holds the tombstone. A line with a tombstone in any pack is gone, even if
  another object still holds its body. So a delete needs no condition, which S3 does not offer. The delete may hit an
  object that a forget has just emptied, or a pack that a forget has just rewritten, and no line comes back.
* The bytes of forgotten lines are removed. A compactor that claims after the burial sees the burial. If it claimed
  before, the forget sees the claim and voids it by a swap: then the fill fails, and the pass gives up. If the pack was
  already filled, it is rewritten a moment later, for many forgets at once (`finish`). If a forget dies half-way, the
  next pass removes the bytes that are left, in single objects or in packs.
* No line is lost. A line is deleted only after a pack that holds it was read back. A pack is deleted only after other
  packs that hold all of its records were read back. A compactor removes its own claims once it will not fill them. It
  also voids and then removes the claims of a compactor that seems dead. An object that may be a pack is never removed.
* No list misses a line. Lists go by name, lines come before packs, and a pass merges only packs with ids smaller than
  its own. If a line is already deleted when a list reaches it, the line is in a pack that the list has yet to reach. A
  server may assemble one page of a list from several moments; the rest before the delete is longer than any page takes.
* No put is acknowledged twice. Only lines older than SETTLED by the server's clock are packed. So if a request to
  create a line is delayed or sent again, it still finds the object there, and not a free place.

At worst, two concurrent compactors pack the same lines twice. A later pass finds the copies and drops them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from strongroom.errors import Tampered
from strongroom.store.s3 import object_names, packs
from strongroom.store.s3.actor_replica import ActorView
from strongroom.store.s3.bucket import BucketListing, Changed, NameTaken, as_listed
from strongroom.store.s3.compaction_plan import (
    SMALL,
    NamespaceCensus,
    Plan,
    is_small,
    places_to_delete,
    plan_compaction,
    with_tombstones,
)
from strongroom.store.s3.known_objects import read_packs, shelf_of
from strongroom.store.s3.packs import Pack, Record
from strongroom.store.s3.reader import Reader

SETTLED = 75_000
"""Age in ms from which a line may be packed: by then no request to create it is under way.

A commit is over after 60 s.
"""
DEAD = 3_600_000
"""Age in ms from which a claim (a place reserved for a pack) counts as abandoned."""
LOOSE = 128
"""The number of single lines in one namespace that make a pass worthwhile."""
_TRIES = 4
_AT_MOST = 64
"""The most new packs in one pass. Further lines are left to the next pass."""
_AT_ONCE = 16
"""The number of concurrent requests. It is low, because reads for callers use the same threads."""
_EMPTY = hashlib.md5(b"", usedforsecurity=False).hexdigest()
"""The etag of an empty object, a tombstone, on most servers.

On servers with other etags, an actor counts as due a little too early.
"""


class Packed(NamedTuple):
    """The result of a compaction: the number of records in new packs, of new packs and of deleted objects."""

    lines: int = 0
    packs: int = 0
    deleted: int = 0


class _GivenUp(Exception):
    """Another worker changed the objects of this pass, so the pass ends. A later pass does the remaining work."""


class Compactor:
    """Moves the lines of actors into packs. Thread-safe, and safe beside any other compactor."""

    def __init__(
        self, reader: Reader, random: Callable[[int], bytes], *, settled: int = SETTLED, least: int = LOOSE
    ) -> None:
        self._reader = reader
        self._bucket = reader.bucket
        self._random = random
        self._settled = settled
        self._least = least

    def is_due(self, view: ActorView) -> bool:
        """Whether the view shows enough work for a pass. Sends no request."""
        if view.left_over:
            return True
        lines = Counter(place.partition("/lines/")[0] for place in view.places() if "/lines/" in place)
        with view.guard:
            held = dict(view.packs)
        small = Counter(place.rpartition("/")[0] for place, pack in held.items() if is_small(pack))
        return (
            any(count >= self._least for count in lines.values())
            or any(count >= SMALL for count in small.values())
            or _is_unfinished(view, held)
        )

    def compact(self, locator: str, rest: Callable[[], bool] = lambda: True) -> Packed:
        """Compact the namespaces of an actor.

        `rest` is called to wait before a delete. If it returns False, this pass deletes nothing.
        """
        view = self._reader.actor(locator)
        view.refresh()
        done = [Packed(deleted=view.sweep()), *(self._pass(view, place, rest) for place in _shelves(view))]
        view.refresh()
        return Packed(*map(sum, zip(*done, strict=True)))

    def finish(self, locator: str) -> bool:
        """Remove the bytes of forgotten lines from packs, and do nothing else. False if other workers interfered."""
        view = self._reader.actor(locator)
        for _ in range(_TRIES):
            view.refresh()
            with view.guard:
                held, known = dict(view.packs), dict(view.objects)
            unfinished = {
                at: records for at, one in held.items() if (records := with_tombstones(one, known)) != one.records
            }
            if not unfinished:
                return True
            for place, records in unfinished.items():
                look = NamespaceCensus(shelf_of(place), place.rpartition("packs/")[0], {}, {}, {}, 0)
                with suppress(_GivenUp):
                    self._replace(look, place, held[place].etag, records)
        return False

    def _pass(self, view: ActorView, place: str, rest: Callable[[], bool]) -> Packed:
        claims: dict[str, str] = {}
        try:
            first = self._look(place, view.packs)
            plan = plan_compaction(first, None, "")
            if not plan.is_worth_it(self._least):
                return Packed()
            # At least one claim: its modified time also shows the server's clock.
            self._claim(first, min(max(1, len(plan.chunks)), _AT_MOST), claims)
            done = self._work(self._look(place, first.held), claims, rest)
        except _GivenUp:
            done = Packed()
        self._drop(claims)
        return done

    # Claims.

    def _claim(self, look: NamespaceCensus, count: int, claims: dict[str, str]) -> None:
        number = packs.next_number([*look.held, *look.claims])
        for at in range(number, number + count):
            place = f"{look.place}packs/{packs.pack_id(at, self._random(6))}"
            try:
                claims[place] = self._bucket.create(place, packs.claim(self._random(16)))
            except NameTaken:  # our own claim: its answer got lost, and it has been voided since
                raise _GivenUp from None

    def _drop(self, claims: Mapping[str, str]) -> None:
        """Delete those of our own claims that were not filled.

        Nobody else fills our claims, so a claim that is read here as unfilled stays unfilled.
        """
        found = {place: self._bucket.get(place) for place in claims}
        empty = [place for place, one in found.items() if one is not None and packs.is_whole_claim(one.body)]
        if empty:
            self._bucket.delete(empty)

    def _drop_dead(self, look: NamespaceCensus, claims: Mapping[str, str]) -> None:
        """Delete the claims of compactors that seem dead.

        A claim is first replaced by another, so that a compactor that lives after all cannot fill it any more.
        """
        for place, one in look.claims.items():
            if place not in claims and one.modified <= look.newest - DEAD:
                with suppress(Changed):
                    self._bucket.swap(place, packs.claim(self._random(16)), one.etag)
                    self._bucket.delete([place])

    # Reading.

    def _look(self, place: str, known: Mapping[str, Pack]) -> NamespaceCensus:
        """List a namespace and read its packs. Packs that are already known are not read again."""
        for _ in range(_TRIES):
            listed = self._bucket.list(place)
            packed = {one.name: one for one in listed if one.name.startswith(f"{place}packs/")}
            filled = {at: one for at, one in packed.items() if not packs.is_claim(one.size)}
            held = read_packs(self._bucket, self._reader.threads, filled, known)
            if held is not None:
                shelf = shelf_of(f"{place}packs/")
                lines = [one for one in listed if one.name.startswith(f"{place}lines/")]
                claims = {at: one for at, one in packed.items() if packs.is_claim(one.size)}
                loose = {shelf + one.name.removeprefix(place): one for one in lines}
                return NamespaceCensus(
                    shelf, place, loose, held, claims, max((one.modified for one in listed), default=0)
                )
        raise _GivenUp

    def _bodies(self, look: NamespaceCensus, names: Sequence[str]) -> Iterator[tuple[str, Record]]:
        """The bodies of single lines as in the list. Raises _GivenUp if a line has changed since."""
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            for name, found in zip(
                some,
                self._reader.threads.map(lambda name: as_listed(self._bucket, look.loose[name]), some),
                strict=True,
            ):
                if found is None or found.etag != look.loose[name].etag:
                    raise _GivenUp
                yield name, Record(object_names.version_of(found.etag), object_names.unframe_body(found.body))

    # Packing.

    def _work(self, look: NamespaceCensus, claims: dict[str, str], rest: Callable[[], bool]) -> Packed:
        """Do steps 3 to 5 of a pass. Each filled claim is removed from `claims`."""
        if any(place not in look.claims or look.claims[place].etag != etag for place, etag in claims.items()):
            raise _GivenUp
        self._drop_dead(look, claims)
        plan = plan_compaction(look, self._settled, min(claims))
        for place, pack in plan.unfinished.items():
            self._replace(look, place, pack.etag, with_tombstones(pack, plan.known))
        packed: set[str] = set()
        count = len(claims)
        for names, place in zip(plan.chunks, sorted(claims), strict=False):
            self._replace(look, place, claims[place], self._records(look, plan, names))
            del claims[place]
            packed.update(names)
        done = places_to_delete(look, plan, packed | plan.covered)
        if done and rest():
            self._bucket.delete(done)
            return Packed(len(packed), count - len(claims), len(done))
        return Packed(len(packed), count - len(claims))

    def _records(self, look: NamespaceCensus, plan: Plan, names: Sequence[str]) -> dict[str, Record]:
        gone = {name: Record(plan.known[name].version, None) for name in names if plan.known[name].is_gone}
        held = {name: one for pack in plan.absorbed.values() for name, one in pack.records.items()}
        found = {name: held[name] for name in names if name not in gone and name in held}
        return (
            gone | found | dict(self._bodies(look, [name for name in names if name not in gone and name not in held]))
        )

    def _replace(self, look: NamespaceCensus, place: str, etag: str, records: Mapping[str, Record]) -> None:
        """Fill a claim, or rewrite a pack, and read the result back to check it."""
        body = packs.encode_pack(look.shelf, records)
        try:
            written = self._bucket.swap(place, body, etag)
        except Changed:
            raise _GivenUp from None
        found = as_listed(self._bucket, BucketListing(place, written, len(body), 0))
        if found is None or packs.is_claim(len(found.body)):  # another compactor has absorbed it already
            raise _GivenUp
        held = packs.decode_pack(look.shelf, found.body, found.etag).records
        if held.keys() != records.keys() or any(
            held[name] != one and held[name].body is not None for name, one in records.items()
        ):
            raise Tampered(
                "the bucket returned a pack with other bytes than were written",
                hint="no object was deleted; run vault.audit.verify(), which lists every fault",
            )


def _is_unfinished(view: ActorView, held: Mapping[str, Pack]) -> bool:
    """Whether a forget was interrupted after it wrote its tombstones and before it replaced the lines."""
    buried = [pack.records for pack in held.values() if all(one.body is None for one in pack.records.values())]
    for name in {name for records in buried for name in records}:
        known = view.objects.get(name)
        if known is not None and known.etag not in {"", _EMPTY}:
            return True
        if any((one := pack.records.get(name)) and one.body is not None for pack in held.values()):
            return True
    return False


def _shelves(view: ActorView) -> list[str]:
    """The places of the namespaces in a view that have lines."""
    with view.guard:
        shelves = {name.partition("lines/")[0] for name in view.objects if "/lines/" in name}
        return sorted(object_names.actor_place(shelf, view.table) for shelf in shelves)
