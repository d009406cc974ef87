"""A process's replica of one actor's objects, whether they are in packs or stored singly.

Only objects of the present generation count: each purge begins a new generation. The code that all replicas share, and
the rule that no replica goes back to an older state, are in `bucket_replica`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from strongroom.errors import StoreUnavailable, Tampered
from strongroom.store.s3 import object_names, packs
from strongroom.store.s3.bucket import Bucket, BucketListing, as_listed
from strongroom.store.s3.bucket_replica import View, put_back
from strongroom.store.s3.known_objects import Known, by_itself, either, in_packs, merge_known, read_packs
from strongroom.store.s3.object_names import ActorHead, Table
from strongroom.store.s3.packs import Pack
from strongroom.store.s3.rollback_guard import Past, is_as_new

_TRIES = 8
_PACKS = "/packs/"


class ActorView(View):
    """The objects of one actor in the present generation (a purge begins a new one), in packs or stored singly."""

    def __init__(self, bucket: Bucket, which: int, locator: str, threads: Executor, past: Past) -> None:
        super().__init__(bucket, which, past)
        self.locator = locator
        self._threads = threads
        self.head = ActorHead()
        self.head_etag = ""
        self.packs: dict[str, Pack] = {}
        self.claims: dict[str, str] = {}
        self.left_over: list[str] = []
        """Objects of purged generations. Any process that sees such objects deletes them."""
        self._last: dict[str, str] = {}
        """The last list of the bucket: the etag of each object by its place."""
        self._in_packs: dict[str, Known] = {}
        self.bytes = 0
        """The approximate size in bytes of the packs in RAM."""

    @property
    def prefix(self) -> str:
        return f"{object_names.ACTORS}{self.locator}/"

    @property
    def table(self) -> Table:
        return self.head.table

    def wrote_head(self, head: ActorHead, etag: str, before: str) -> int:
        """Record that this process has just written the actor's head (keys and generations) over the head `before`.

        Returns the number of the change. If there was a purge, or if a refresh or another thread has read a newer head,
        this view is refreshed instead.
        """
        with self.guard:
            if head.table == self.head.table and self.head_etag == before:
                self._have_head(head, etag)
                return self._take_keys()
        return self.refresh()

    def _have_head(self, head: ActorHead, etag: str) -> None:
        """Replace the known head by a newer one. The caller holds the guard."""
        if etag != self.head_etag:
            self._past.replaced(object_names.AT, object_names.version_of(self.head_etag))
        self._past.reached(head.table)
        self.head, self.head_etag = head, etag

    def _is_head_back(self, head: ActorHead, etag: str) -> bool:
        is_replaced = self._past.has_replaced(object_names.AT, object_names.version_of(etag), self._since)
        return is_replaced or not is_as_new(head.table, self._past.floor(self._since))

    def _take_keys(self) -> int:
        """Take the actor's keys from the head. The caller holds the guard."""
        name = f"{self.prefix}{object_names.KEYS}"
        known = _keys_in(self.head, self.head_etag)
        if known is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = known
        return self._note(name)

    def _counts(self, place: str) -> bool:
        found = object_names.below(place, self.table)
        return found is not None and found.is_current

    def wrote(self, name: str, place: str, known: Known, before: Known | None) -> int:
        with self.guard:
            self._last[place] = ""  # an etag that no list has, so that the next list shows a change
            return super().wrote(name, place, known, before)

    def places(self) -> Sequence[str]:
        """The places in the last list, and the places written since."""
        with self.guard:
            return list(self._last)

    def look_at_head(self) -> None:
        """Refresh only if the head has changed.

        This is enough for commits that need keys and generations but no lines.
        """
        found = self._bucket.get(self.prefix + object_names.AT)
        with self.guard:
            if self.head_etag == ("" if found is None else found.etag):
                return
        self.refresh()

    def _look(self, current: int) -> None:
        doubted = ""
        for _ in range(_TRIES):
            known = self.head_etag
            listed = self._bucket.list(self.prefix)
            if self._see_little(listed, current):
                return None
            if (now := self._head(listed)) is None:
                continue
            head, etag = now
            loose, packed = _split(listed, head.table)
            if (held := read_packs(self._bucket, self._threads, _filled(packed), self.packs)) is None:
                continue
            keys = _keys_in(head, etag)
            found = loose if keys is None else {**loose, f"{self.prefix}{object_names.KEYS}": keys}
            with self.guard:
                if self.head_etag != known:
                    continue  # this process wrote meanwhile: the list may be older
                back = self._back(head, etag, merge_known(loose, in_packs(held)), current)
                if not back:
                    return self._see(current, head, etag, found, packed, held, listed)
            if doubted:
                raise put_back(back)
            doubted = back  # or it was purged while the list was made: the next list shows that
        raise StoreUnavailable("the bucket kept changing while it was read", hint="try again")

    def _back(self, head: ActorHead, etag: str, found: Mapping[str, Known], current: int) -> str:
        """The name of an object that is older in the bucket than in this view; empty if there is none.

        The caller holds the guard.
        """
        if self._is_head_back(head, etag):
            return f"the head of {self.prefix}"
        for name in self.objects:
            is_purged = head.table != self.table and object_names.actor_place(
                name, head.table
            ) != object_names.actor_place(name, self.table)
            if not is_purged and not object_names.is_keys(name) and self._is_back(name, found.get(name), current):
                return name
        return ""

    def _see_little(self, listed: Sequence[BucketListing], current: int) -> bool:
        """Apply a new list if only unpacked objects differ from the last list. Returns False if more has changed.

        This fast path is taken almost always, and saves work for actors with very many lines in packs.
        """
        seen = {one.name: one.etag for one in listed}
        with self.guard:
            last = self._last
            changed = [] if seen == last else [one for one in listed if last.get(one.name) != one.etag]
            vanished = last.keys() - seen.keys() if len(last) + len(changed) > len(seen) else ()
            places = [*(one.name for one in changed), *vanished]
            if not last or not all(_is_by_itself(place, self.table) for place in places):
                return False
            alone = [(one.name, by_itself(one)) for one in changed]
            found = [self._as_found(*one) for one in (*alone, *((place, None) for place in vanished))]
            if any(self._is_back(name, known, current) for name, known in found):
                return False
            for name, known in found:
                self._take_one(name, known, current)
            self._last = seen
            self._look_at_own_again(current)
            return True

    def _as_found(self, place: str, alone: Known | None) -> tuple[str, Known | None]:
        """Return the logical name and the state of an object, merged with its state in packs."""
        found = object_names.below(place, self.table)
        name = "" if found is None else found.name
        return name, either(alone, self._in_packs.get(name))

    def _look_at_own_again(self, current: int) -> None:
        """Make the next round (read of the bucket) read this process's latest writes again.

        The list of the present round may lack these writes.
        """
        own = [name for name, began in self._own.items() if began >= current]
        self._last.update((object_names.actor_place(name, self.table), "") for name in own)

    def _take_one(self, name: str, known: Known | None, current: int) -> None:
        if self._own.get(name, -1) >= current:
            return
        before = self.objects.get(name)
        if known is not None:
            self.objects[name] = known
            self._took(name, before, known)
        elif before is not None:
            del self.objects[name]
            self._note(name)

    def _see(
        self,
        current: int,
        head: ActorHead,
        etag: str,
        loose: Mapping[str, Known],
        packed: Mapping[str, BucketListing],
        held: dict[str, Pack],
        listed: Sequence[BucketListing],
    ) -> None:
        with self.guard:
            purged, table = head.table != self.head.table, head.table
            self._have_head(head, etag)
            self.packs = held
            self.claims = {place: one.etag for place, one in packed.items() if packs.is_claim(one.size)}
            self.left_over = [one.name for one in listed if _is_left_over(one.name, table)]
            if purged:
                self._own.clear()
            self._last = {one.name: one.etag for one in listed}
            self._in_packs = in_packs(held)
            self.bytes = sum(one.size for one in packed.values())
            self._take(merge_known(loose, self._in_packs), current)
            if not self.is_looked_at and head.keys is None:
                self._note(
                    f"{self.prefix}{object_names.KEYS}"
                )  # a follower of an earlier view may hold what was erased since
            self._look_at_own_again(current)

    def _head(self, listed: Sequence[BucketListing]) -> tuple[ActorHead, str] | None:
        """The actor's head as in the list, with its etag. None if the head changed before it was read."""
        at = self.prefix + object_names.AT
        seen, size = next(((one.etag, one.size) for one in listed if one.name == at), ("", 0))
        if seen == self.head_etag:
            return self.head, seen
        if size > object_names.LARGEST_HEAD:
            raise _too_large(at)
        found = as_listed(self._bucket, BucketListing(at, seen, size, 0))
        if seen != ("" if found is None else found.etag):
            return None
        return (ActorHead(), "") if found is None else (ActorHead.decoded(found.body), seen)

    def sweep(self) -> int:
        """Delete the objects of purged generations. Returns the number deleted."""
        with self.guard:
            left = list(self.left_over)
        if left:
            self._bucket.delete(left)
        return len(left)


def _too_large(place: str) -> Tampered:
    return Tampered(
        f"the object {place} in the bucket is larger than any object of Strongroom",
        hint="run vault.audit.verify(), which lists every fault",
    )


def _keys_in(head: ActorHead, etag: str) -> Known | None:
    return None if head.keys is None else Known(object_names.version_of(etag), head.is_gone, etag)


def _split(listed: Sequence[BucketListing], table: Table) -> tuple[dict[str, Known], dict[str, BucketListing]]:
    """Return the unpacked objects of the present generation by their names, and the packs by their places."""
    loose: dict[str, Known] = {}
    packed: dict[str, BucketListing] = {}
    for one in listed:
        found = object_names.below(one.name, table)
        if found is None or not found.is_current:
            continue
        if _PACKS in one.name:
            packed[one.name] = one
        else:
            loose[found.name] = by_itself(one)
    return loose, packed


def _is_left_over(place: str, table: Table) -> bool:
    """Whether a place belongs to an earlier generation.

    A place of a later generation than the known one belongs to live objects: the list is newer than the known head.
    """
    found = object_names.below(place, table)
    return found is not None and place < object_names.actor_place(found.name, table)


def _is_by_itself(place: str, table: Table) -> bool:
    """Whether a place is that of an unpacked object of the present generation."""
    found = object_names.below(place, table)
    return found is not None and found.is_current and _PACKS not in place


def _filled(packed: Mapping[str, BucketListing]) -> dict[str, BucketListing]:
    """The packs that are filled, without claims (places reserved for packs)."""
    if large := next((place for place, one in packed.items() if one.size > packs.LARGEST), ""):
        raise _too_large(large)
    return {place: one for place, one in packed.items() if not packs.is_claim(one.size)}
