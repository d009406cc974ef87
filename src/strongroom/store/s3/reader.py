"""The reader: objects by their names, and changes, wherever in the bucket they are.

The reader knows each part of the bucket as it was at the last call of `version` for that part. A caller that must see
others' writes calls `version` first. A part for which `version` was never called is read on first use. Records of caps
are read one by one, on each use.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import count, islice
from typing import TypeVar

from strongroom.errors import Tampered
from strongroom.store import Effect, Expect, Object, Purge, PutNew, Version
from strongroom.store.s3 import bucket_names, object_names
from strongroom.store.s3.actor_replica import ActorView
from strongroom.store.s3.bucket import Bucket, BucketListing, BucketObject, as_listed, contradiction
from strongroom.store.s3.bucket_replica import VaultView, View
from strongroom.store.s3.known_objects import Known
from strongroom.store.s3.rollback_guard import Pasts

VIEWS = 4096
"""The most actors whose views (replicas) are kept at once."""
_BYTES = 256 * 1024 * 1024
"""The most bytes of packs in RAM, over all views. Beyond that, the least recently used views are dropped."""
_TRIES = 8
T = TypeVar("T")


class Reader:
    """The views (replicas of parts of the bucket) that one process holds, as an LRU cache. Thread-safe."""

    def __init__(
        self,
        bucket: Bucket,
        threads: Executor,
        requests: Executor,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        room: int = VIEWS,
    ) -> None:
        self.bucket = bucket
        self.threads = threads
        self._requests = requests
        """Threads for single requests.

        They are separate from `threads`: a task on `threads` waits for requests, so these need other threads.
        """
        self._views = count(1)
        self.vault = VaultView(bucket, next(self._views), now)
        self._room = room
        self._actors: OrderedDict[str, ActorView] = OrderedDict()
        self._pasts = Pasts()
        self._counted: dict[str, int] = {}
        """For each view, the size of its packs as last counted. The next value is the sum over all views."""
        self._bytes = 0
        self._guard = threading.Lock()

    # Views.

    def view(self, scope: str) -> View:
        locator = object_names.locator_of(scope)
        return self.vault if locator is None else self.actor(locator)

    def actor(self, locator: str, *, fresh: bool = False) -> ActorView:
        """The view (replica) of an actor, after at least one refresh."""
        view = self._held(locator)
        while fresh or not view.is_looked_at:
            view.refresh()
            if self._is_kept(locator, view):
                break
            view, fresh = self._held(locator), True  # dropped meanwhile: others follow a newer view by now
        return view

    def _held(self, locator: str) -> ActorView:
        """The one view (replica) of an actor in this process.

        A new view is registered before its first refresh, so that the change numbers of a view made later are greater.
        """
        with self._guard:
            found = self._actors.get(locator)
            if found is None:
                past = self._pasts.of(locator)
                found = self._actors[locator] = ActorView(self.bucket, next(self._views), locator, self._requests, past)
            self._actors.move_to_end(locator)
            return found

    def _is_kept(self, locator: str, view: ActorView) -> bool:
        """Drop views if they take too much room, and return whether this view is still the registered one."""
        with self._guard:
            if self._actors.get(locator) is not view:
                return False
            self._actors.move_to_end(locator)
            self._bytes += view.bytes - self._counted.get(locator, 0)
            self._counted[locator] = view.bytes
            while len(self._actors) > 1 and (len(self._actors) > self._room or self._bytes > _BYTES):
                self._bytes -= self._counted.pop(self._actors.popitem(last=False)[0], 0)
            return True

    def version(self, scope: str) -> Version:
        """Refresh a part of the bucket. Reads then show every write that was acknowledged before the call."""
        locator = object_names.locator_of(scope)
        if locator is None:
            return self.vault.refresh()
        return self.actor(locator, fresh=True).latest

    def changes(self, after: Version, limit: int, scope: str) -> Sequence[Object]:
        return self.view(scope).changes(after, limit)

    def latest(self, scopes: Iterable[str]) -> dict[str, Version]:
        """The latest known version of each scope. Sends no request."""
        return {scope: self.view(scope).latest for scope in scopes}

    def looks(self, effects: Sequence[Effect], since: Mapping[str, Version]) -> list[Callable[[], object]]:
        """The refreshes for a commit that was decided without a fresh read.

        Each sends one request or more; the caller runs them concurrently.
        """
        if not since:
            return []
        found: dict[View, Callable[[], object]] = {view: view.refresh for view in map(self.view, since)}
        for effect in effects:
            view = self.view(effect.prefix if isinstance(effect, Purge) else effect.name)
            if isinstance(view, ActorView) and _is_of_the_head(effect):
                found.setdefault(view, view.look_at_head)
            else:
                found[view] = view.refresh
        return list(found.values())

    # Objects.

    def known(self, name: str) -> Known | None:
        """The known state of an object; None if the object does not exist."""
        if name.startswith(object_names.CAPS):
            found = self.bucket.get(object_names.plain_place(name))
            return None if found is None else Known(object_names.version_of(found.etag), not found.body, found.etag)
        view = self.view(name)
        if view is self.vault and not self.vault.objects:
            self.vault.refresh()
        return view.objects.get(name)

    def get(self, name: str) -> Object | None:
        if name.startswith(object_names.CAPS):
            raw = self.bucket.get(object_names.plain_place(name))
            return (
                None
                if raw is None
                else Object(name, object_names.version_of(raw.etag), object_names.unframe_body(raw.body, name))
            )
        for _ in range(_TRIES):
            known = self.known(name)
            if known is None:
                return None
            if known.is_gone:
                return Object(name, known.version, None)
            found = self._read(name, known)
            if found is not None:
                return found
            self.vault.doubt()
            self.version(name)  # it was packed, replaced or purged since
        raise contradiction()

    def _read(self, name: str, known: Known) -> Object | None:
        """Read an object's body. None if the object is not at its known place any more."""
        locator = object_names.locator_of(name)
        if locator is not None and object_names.is_keys(name):
            view = self.actor(locator)
            with view.guard:
                keys, version = view.head.keys, object_names.version_of(view.head_etag)
            return None if keys is None else Object(name, version, keys)
        if locator is not None and known.pack:
            pack = self.actor(locator).packs.get(known.pack)
            record = None if pack is None else pack.records.get(name)
            return None if record is None else Object(name, record.version, record.body)
        raw = as_listed(self.bucket, BucketListing(self.place(name), known.etag, known.size, 0))
        if raw is None or (
            (version := object_names.version_of(raw.etag)) != known.version and _is_older(self.view(name), name, raw)
        ):
            return None
        return Object(name, version, object_names.unframe_body(raw.body, name))

    def place(self, name: str) -> str:
        locator = object_names.locator_of(name)
        return (
            object_names.plain_place(name)
            if locator is None
            else object_names.actor_place(name, self.actor(locator).table)
        )

    # Lists.

    def listed(self, prefix: str, after: str, limit: int) -> list[Object]:
        while names := [one.name for one in self.named(prefix, after, limit)]:
            found = self.threads.map(self.get, names) if len(names) > 1 else map(self.get, names)
            if there := [one for one in found if one is not None]:
                return there
            after = names[-1]  # all of these have gone meanwhile, but later ones may exist
        return []

    def named(self, prefix: str, after: str, limit: int) -> list[Object]:
        return list(islice(self._names(prefix, after), limit))

    def _names(self, prefix: str, after: str) -> Iterator[Object]:
        """Every object whose name starts with a prefix, without its body, in the order of names."""
        if object_names.locator_of(prefix) is not None:
            yield from _in_view(self.view(prefix), prefix, after)
            return
        if object_names.ACTORS.startswith(prefix) or prefix.startswith(object_names.ACTORS):
            for locator in self.locators(after):
                yield from self._of_an_actor(locator, prefix, after)
        if object_names.VAULT.startswith(prefix) or prefix.startswith(object_names.VAULT):
            yield from self._of_the_vault(prefix, after)

    def _of_an_actor(self, locator: str, prefix: str, after: str) -> Iterator[Object]:
        """The objects of an actor.

        If they cannot be read, only its keys are listed: whoever reads the keys gets the error.
        """
        try:
            # A page within an actor needs no refresh: it was refreshed when the listing reached it.
            view = self.actor(locator, fresh=object_names.locator_of(after) != locator)
        except Tampered:
            name = f"{object_names.ACTORS}{locator}/{object_names.KEYS}"
            if name.startswith(prefix) and name > after:
                yield Object(name, 0, b"")
        else:
            yield from _in_view(view, prefix, after)

    def _of_the_vault(self, prefix: str, after: str) -> Iterator[Object]:
        if not prefix.startswith(object_names.CAPS):
            self.vault.refresh()
            own = list(_in_view(self.vault, prefix, after))
            yield from (one for one in own if one.name < object_names.CAPS)
        if object_names.CAPS.startswith(prefix) or prefix.startswith(object_names.CAPS):
            yield from bucket_names.cap_records(self.bucket, prefix, after)
        if not prefix.startswith(object_names.CAPS):
            yield from (one for one in own if one.name > object_names.CAPS)

    def locators(self, after: str = "") -> Iterator[str]:
        """Every actor with objects in the bucket.

        With `after`, the name of an object, the list begins with the actor of that object.
        """
        return bucket_names.locators(self.bucket, after)

    def buried(self) -> Iterator[str]:
        """Forgotten lines that still have a body beside their tombstone, among the actors in view.

        No reader uses such a body. Either a forget was killed half-way, or somebody has put the body back.
        """
        with self._guard:
            views = list(self._actors.values())
        for view in views:
            with view.guard:
                yield from sorted(name for name, known in view.objects.items() if known.is_gone and known.size)


def _is_older(view: View, name: str, raw: BucketObject) -> bool:
    """Whether an object was perhaps rolled back or deleted since the last list, so that a new list is needed."""
    return not raw.body or view.is_past(name, object_names.version_of(raw.etag))


def _in_view(view: View, prefix: str, after: str) -> Iterator[Object]:
    with view.guard:
        found = sorted(
            (name, known) for name, known in view.objects.items() if name.startswith(prefix) and name > after
        )
    for name, known in found:
        yield Object(name, known.version, None if known.is_gone else b"")


def _is_of_the_head(effect: Effect) -> bool:
    """Whether an effect depends only on the actor's head (keys and generations)."""
    if isinstance(effect, PutNew):
        return effect.is_new
    return isinstance(effect, Expect) and object_names.is_keys(effect.name)
