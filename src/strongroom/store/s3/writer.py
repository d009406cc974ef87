"""The writer: carries out a commit's effects, in an order that leaves a valid state after a crash at any point.

* An erasure begins with the actor's own head. The next step voids caps, the caller's own too, and whatever fails before
  that can be requested again.
* Otherwise, the vault's own objects come first, and their announcement.
* Then keys with their purges, one write for each actor, and records of caps. After these the vault is read once more,
  because they must not be used if a revocation, an erasure or a rotation came between.
* Then everything else, concurrently.

A commit that changes the vault and expects something of an actor must read that actor afterwards: objects made before
the change was announced are there by then. A commit that loses a race has written some of its objects or none; a retry
finds them under the same names.

Places are fixed when the conditions are checked: an object sealed with the keys of that moment belongs to the
generation of that moment, and is gone with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress

from msgspec.structs import replace

from strongroom.errors import StoreUnavailable
from strongroom.store import Delete, Effect, Expect, Lost, Purge, PutNew, Swap, Version
from strongroom.store.s3 import object_names, packs
from strongroom.store.s3.bucket import Changed, NameTaken
from strongroom.store.s3.bucket_replica import ActorView
from strongroom.store.s3.known_objects import Known, shelf_of
from strongroom.store.s3.object_names import ActorHead
from strongroom.store.s3.packs import Pack, Record
from strongroom.store.s3.reader import Reader

_TRIES = 64
_SWEEPS = 8
_LINES = "/lines/"
Change = PutNew | Swap | Delete
Random = Callable[[int], bytes]
Places = Mapping[str, str]
"""The place of each object, by its name."""


class Writer:
    """Carries out effects on a bucket. Thread-safe."""

    def __init__(self, reader: Reader, random: Random, left_over: Callable[[str], object] = lambda _: None) -> None:
        self._reader = reader
        self._left_over = left_over
        """Called with actors whose packs still hold bytes of forgotten lines."""
        self._bucket = reader.bucket
        self._random = random

    def check(self, effects: Sequence[Effect]) -> Places:
        """Raise Lost for a condition that is known not to hold. Returns the place of each object."""
        named = [effect for effect in effects if not isinstance(effect, Purge)]
        try:
            return self._checked(named)
        except Lost:
            if any(not isinstance(effect, Expect) and _is_of_the_vault(effect.name) for effect in named):
                # The winner of the race, even if it is this worker, may have failed before its announcement.
                self._announce()
            raise

    def _checked(self, named: Sequence[Change | Expect]) -> Places:
        views = {self._reader.view(effect.name) for effect in named if object_names.locator_of(effect.name)}
        with ExitStack() as held:
            for view in sorted(views, key=id):
                held.enter_context(view.guard)  # keys and generations of one moment
            for effect in named:
                self._check(effect)
            return {effect.name: self._reader.place(effect.name) for effect in named}

    def _check(self, effect: Change | Expect) -> None:
        known = self._reader.known(effect.name)
        wanted = 0 if isinstance(effect, PutNew) else effect.version
        version = 0 if known is None else known.version
        if version != wanted or (isinstance(effect, Swap | Delete) and (known is None or known.is_gone)):
            raise self._lost(effect.name)

    def _lost(self, name: str) -> Lost:
        if _is_of_the_vault(name):
            self._reader.vault.doubt()
        return Lost(name)

    def carry_out(self, effects: Sequence[Effect], places: Places | None = None) -> Version:
        """Carry out all effects. Returns the number of the last change; raises Lost or StoreUnavailable."""
        changes = [effect for effect in effects if isinstance(effect, PutNew | Swap | Delete)]
        if places is None:
            places = {one.name: self._reader.place(one.name) for one in changes}
        vault = [one for one in changes if _is_of_the_vault(one.name)]
        caps = [one for one in changes if one.name.startswith(object_names.CAPS)]
        rest = [one for one in changes if one not in vault and one not in caps and not object_names.is_keys(one.name)]
        # Heads first in an erasure: the vault's part voids caps, the caller's own too, and whatever fails before that
        # can be asked for again.
        erased = self._write_heads(effects) if vault and any(isinstance(one, Purge) for one in effects) else None
        if vault:
            try:
                for one in vault:
                    self._write(one, places)
            finally:
                # After a lost race too: the winner may have been killed before its announcement.
                self._announce()
        latest = self._write_heads(effects) if erased is None else erased
        self._side_by_side(caps, places)
        if caps or latest:
            self._look_again([one for one in effects if isinstance(one, Expect)], caps)
        return max([latest, *self._write_all(rest, places)])

    # Keys and purges.

    def _write_heads(self, effects: Sequence[Effect]) -> Version:
        """Write the keys of actors, and increment the generations that are purged: one write for each actor."""
        touched: dict[str, list[Effect]] = {}
        for effect in effects:
            name = effect.prefix if isinstance(effect, Purge) else effect.name
            if isinstance(effect, Purge) and object_names.purged_shelf(name) is None:
                self._delete_below(name)
            elif isinstance(effect, Purge) or object_names.is_keys(name):
                touched.setdefault(object_names.locator_of(name) or "", []).append(effect)
        touched = {
            name: all_of for name, all_of in touched.items() if any(not isinstance(one, Expect) for one in all_of)
        }
        work = [self._reader.threads.submit(self._write_head, *one) for one in list(touched.items())[1:]]
        first = [self._write_head(*one) for one in list(touched.items())[:1]]
        return max([*first, *_gathered(work)], default=0)

    def _write_head(self, locator: str, effects: Sequence[Effect]) -> Version:
        view = self._reader.actor(locator)
        with view.guard:
            before, etag = view.head, view.head_etag
        head = before
        for effect in sorted(effects, key=lambda one: not isinstance(one, Expect)):
            head = _with(head, effect, etag)
        body = head.encoded(self._random(8))
        place = view.prefix + object_names.AT
        try:
            written = self._bucket.swap(place, body, etag) if etag else self._bucket.create(place, body)
        except (NameTaken, Changed):
            view.refresh()
            raise Lost(f"{view.prefix}{object_names.KEYS}") from None
        number = view.wrote_head(head, written, etag)
        for _ in range(_SWEEPS if head.table != before.table else 0):
            if not view.sweep():
                break
            view.refresh()  # a compactor that listed before the purge may have filled a pack since
        held = self._reader.actor(locator)
        # Dropped meanwhile: others follow a newer view by now, which may have been refreshed before the write.
        return number if held is view else held.refresh()

    # One object.

    def derived(self, change: Change) -> Version:
        """Write one object that is not in the log. Returns its version."""
        return self._written(change, {change.name: self._reader.place(change.name)})[0].version

    def _write(self, change: Change, places: Places) -> Version:
        return self._written(change, places)[1]

    def _written(self, change: Change, places: Places) -> tuple[Known, Version]:
        """Write an object. Returns its new state, and the number of the change."""
        before = None if isinstance(change, PutNew) else self._reader.known(change.name)
        if not isinstance(change, PutNew) and (before is None or before.version != change.version):
            raise self._lost(change.name)  # changed since the conditions were checked
        place = places[change.name]
        try:
            etag = self._put(change, place, before)
        except (NameTaken, Changed):
            lost = self._lost(change.name)
            self._reader.version(change.name)
            raise lost from None
        size = 0 if isinstance(change, Delete) else len(object_names.frame_body(change.body))
        known = Known(object_names.version_of(etag), isinstance(change, Delete), etag, "", size)
        if change.name.startswith(object_names.CAPS):
            return known, 0
        return known, self._reader.view(change.name).wrote(change.name, place, known, before)

    def _put(self, change: Change, place: str, known: Known | None) -> str:
        if isinstance(change, PutNew):
            return self._bucket.create(place, object_names.frame_body(change.body))
        body = b"" if isinstance(change, Delete) else object_names.frame_body(change.body)
        return self._bucket.swap(place, body, "" if known is None else known.etag)

    def _write_all(self, changes: Sequence[Change], places: Places) -> list[Version]:
        """Write concurrently. All are tried, then the first failure is raised."""
        forgotten = [
            one
            for one in changes
            if isinstance(one, Delete) and _LINES in one.name and object_names.locator_of(one.name)
        ]
        others = [one for one in changes if one not in forgotten]
        return self._side_by_side(others, places) + self._forget(forgotten, places)

    def _side_by_side(self, changes: Sequence[Change], places: Places) -> list[Version]:
        if len(changes) == 1:
            return [self._write(changes[0], places)]
        return _gathered([self._reader.threads.submit(self._write, one, places) for one in changes])

    def _look_again(self, expected: Iterable[Expect], caps: Sequence[Change]) -> None:
        """Check that nothing of the vault has changed while keys or a cap's record were written."""
        pins = [one for one in expected if not one.name.startswith(object_names.ACTORS)]
        if not pins:
            return
        self._reader.vault.refresh()
        try:
            self.check(pins)
        except Lost:
            # The record is unknown to anybody and goes. Keys may be in use by now, and reveal nothing by themselves.
            self._bucket.delete([object_names.plain_place(one.name) for one in caps])
            raise

    # The vault's own objects.

    def _announce(self) -> None:
        """Announce that something of the vault has changed. Every worker checks for announcements before it decides."""
        vault = self._reader.vault
        for _ in range(_TRIES):
            name = vault.next_news()
            try:
                self._bucket.create(name, self._random(16))
            except NameTaken:
                vault.refresh()
                continue
            vault.announced(name)
            return
        raise StoreUnavailable("the vault is too busy: other workers kept changing it")

    # Forgetting.

    def _forget(self, deletes: Sequence[Delete], places: Places) -> list[Version]:
        """Turn lines into tombstones, and void compactions under way that would pack one of these lines.

        Packs that already hold one are left to `Leftovers`, which rewrites them for many forgets at once.
        """
        numbers: list[Version] = []
        for locator in sorted({object_names.locator_of(one.name) or "" for one in deletes}):
            view = self._reader.actor(locator)
            mine = [one for one in deletes if object_names.locator_of(one.name) == locator]
            self._bury(view, mine, places)
            self._take_out(view, {one.name: places[one.name] for one in mine})
            if _hold_bodies(view, [one.name for one in mine]):
                self._left_over(locator)
            numbers.append(view.latest)
        return numbers

    def _bury(self, view: ActorView, deletes: Sequence[Delete], places: Places) -> None:
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

    # Purging.

    def _delete_below(self, prefix: str) -> None:
        """Delete derived data. A concurrent write to one of these places finds it gone, and fails."""
        names = [one.name for one in self._reader.named(prefix, "", 1_000_000)]
        self._bucket.delete([self._reader.place(name) for name in names])
        self._reader.version(prefix)


def _shelf(name: str) -> str:
    """The prefix of a line's name: its whole namespace."""
    return name.partition("lines/")[0]


def _hold_bodies(view: ActorView, names: Sequence[str]) -> bool:
    """Whether packs hold bodies of any of these lines."""
    with view.guard:
        held = list(view.packs.values())
    return any(record.body is not None for pack in held for name in names if (record := pack.records.get(name)))


def _is_of_the_vault(name: str) -> bool:
    """Whether a change of this object must be announced to every worker."""
    return name.startswith(object_names.VAULT) and not name.startswith(object_names.CAPS)


def _with(head: ActorHead, effect: Effect, etag: str) -> ActorHead:
    """An actor's head after a change of its keys, or a purge. Lost if the keys are not the expected ones."""
    if isinstance(effect, Purge):
        _, shelf = object_names.purged_shelf(effect.prefix) or ("", None)
        return ActorHead(head.table.purged(None)) if shelf is None else replace(head, table=head.table.purged(shelf))
    version = 0 if head.keys is None else object_names.version_of(etag)
    if isinstance(effect, PutNew):
        if head.keys is not None:
            raise Lost(effect.name)
        return replace(head, keys=effect.body)
    if version != effect.version or (head.is_gone and not isinstance(effect, Expect)):
        raise Lost(effect.name)
    if isinstance(effect, Expect):
        return head
    return replace(head, keys=b"", is_gone=True) if isinstance(effect, Delete) else replace(head, keys=effect.body)


def _gathered(futures: Sequence[Future[Version]]) -> list[Version]:
    """The results of work on several threads. All of it is over before the first failure is raised."""
    wait(futures)
    return [one.result() for one in futures]
