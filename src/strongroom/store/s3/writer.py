"""The writer: carries out a commit's effects, in an order that leaves a valid state after a crash at any point.

* An erasure first writes the actor's head (its keys and generations). Only the next step voids caps, including the
  caller's own, so an erasure that fails before can be requested again.
* Any other commit first writes the vault's own objects, and announces their change to all workers.
* Then keys with their purges are written, one write for each actor, and records of caps. After that the vault is read
  once more: if it was changed by a revocation, an erasure or a rotation meanwhile, the new keys and records must not be
  used.
* Then all other objects are written, concurrently.

A commit may change the vault and have a condition on an actor. Such a commit must read the actor after the
announcement, to see all objects made before it. A commit that loses a race may have written some of its objects; a
retry finds them under the same names.

The place of each object is fixed when the conditions are checked. So an object sealed with the keys of that moment is
written into the generation of that moment, and a purge of that generation removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack

from msgspec.structs import replace

from strongroom.errors import StoreUnavailable
from strongroom.store import Delete, Effect, Expect, Lost, Purge, PutNew, Swap, Version
from strongroom.store.s3 import object_names
from strongroom.store.s3.bucket import Changed, NameTaken
from strongroom.store.s3.burial import Burial
from strongroom.store.s3.known_objects import Known
from strongroom.store.s3.object_names import ActorHead, Places
from strongroom.store.s3.reader import Reader

_TRIES = 64
_SWEEPS = 8
_LINES = "/lines/"
Change = PutNew | Swap | Delete
Random = Callable[[int], bytes]


class Writer:
    """Carries out effects on a bucket. Thread-safe."""

    def __init__(self, reader: Reader, random: Random, left_over: Callable[[str], object] = lambda _: None) -> None:
        self._reader = reader
        self._burial = Burial(reader, random, left_over)
        self._bucket = reader.bucket
        self._random = random

    def check(self, effects: Sequence[Effect]) -> Places:
        """Return the place of each object. Raises Lost for a condition that is known not to hold."""
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
        """Write the keys of actors and increment the generations that are purged.

        One write for each actor does both.
        """
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
        """Write one object of derived data, which needs no log entry. Returns its version."""
        return self._written(change, {change.name: self._reader.place(change.name)})[0].version

    def _write(self, change: Change, places: Places) -> Version:
        return self._written(change, places)[1]

    def _written(self, change: Change, places: Places) -> tuple[Known, Version]:
        """Write an object. Returns its new state and the number of the change."""
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
        """Write several objects concurrently. Every write is tried before the first failure is raised."""
        forgotten = [
            one
            for one in changes
            if isinstance(one, Delete) and _LINES in one.name and object_names.locator_of(one.name)
        ]
        others = [one for one in changes if one not in forgotten]
        return self._side_by_side(others, places) + self._burial.bury(forgotten, places)

    def _side_by_side(self, changes: Sequence[Change], places: Places) -> list[Version]:
        if len(changes) == 1:
            return [self._write(changes[0], places)]
        return _gathered([self._reader.threads.submit(self._write, one, places) for one in changes])

    def _look_again(self, expected: Iterable[Expect], caps: Sequence[Change]) -> None:
        """Check that nothing of the vault has changed while keys or records of caps were written."""
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
        """Announce a change of the vault's own objects. Every worker looks for announcements before it decides."""
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
        raise StoreUnavailable("the vault is too busy: other workers kept changing its own objects; try again")

    # Purging.

    def _delete_below(self, prefix: str) -> None:
        """Delete derived data. A concurrent write to a deleted object fails, because the object is gone."""
        names = [one.name for one in self._reader.named(prefix, "", 1_000_000)]
        self._bucket.delete([self._reader.place(name) for name in names])
        self._reader.version(prefix)


def _is_of_the_vault(name: str) -> bool:
    """Whether an object belongs to the vault itself, so that a change of it is announced to every worker."""
    return name.startswith(object_names.VAULT) and not name.startswith(object_names.CAPS)


def _with(head: ActorHead, effect: Effect, etag: str) -> ActorHead:
    """An actor's head (keys and generations) after a change of its keys, or a purge.

    Raises Lost if the keys are not at the expected version.
    """
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
    """The results of work on several threads. All threads finish before the first failure is raised."""
    wait(futures)
    return [one.result() for one in futures]
