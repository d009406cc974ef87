"""Views: a process's replica of a part of the bucket, and how it learns of others' writes.

A part is the vault's own objects, or one actor's (`actor_replica`). After `refresh`, a view includes every write that
was acknowledged to any process before the call. Each process numbers the changes that it sees, in increasing order, so
that a follower can ask for newer ones.

A view never goes back. A list may show an older version of an object than the view knows, or lack an object that has no
tombstone. A list takes time and does not show one moment, so the bucket is then read once more. If the second list
shows the fault again, Tampered is raised, and the view keeps the newer state.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile

from strongroom.errors import Tampered
from strongroom.store import Object, Version, is_derived
from strongroom.store.s3 import object_names
from strongroom.store.s3.bucket import Bucket
from strongroom.store.s3.known_objects import Known, by_itself
from strongroom.store.s3.rollback_guard import Past, moment

_ROOM = 1 << 40
"""The size of each view's range of change numbers. A view made later has greater numbers than all earlier views."""
LINES = "/lines/"
_A_WHILE = 60_000
"""How long, in ms, a process relies on announcements of changes alone, without a full refresh.

An attacker who deletes announcements can hide a revocation for this long at most.
"""


class View(ABC):
    """The base class of views: replicas of the vault's own objects or of one actor's. Thread-safe."""

    def __init__(self, bucket: Bucket, which: int, past: Past) -> None:
        self._bucket = bucket
        self._past = past
        self._since = 0
        """The moment at which the present round (one read of the bucket) began."""
        self.guard = threading.Condition(threading.RLock())
        self.objects: dict[str, Known] = {}
        self._changed: dict[str, int] = {}
        """For each object, the number of its last change. The mapping is in the order of these numbers."""
        self._altered: set[int] = set()
        """Numbers of the changes that replaced the content of a line. Only an attacker or a broken bucket does that."""
        self.latest = which * _ROOM
        self._own: dict[str, int] = {}
        """For each object that this process wrote: the round (one read of the bucket) in which it did.

        The list of that round may lack the write.
        """
        self._begun = 0
        self._finished = 0
        self._running = False

    def refresh(self) -> int:
        """Read the bucket, and return the number of the latest change.

        Concurrent callers share one read of the bucket (coalescing), and that read begins after each of their calls.
        """
        with self.guard:
            mine = self._begun + 1
            while self._finished < mine:
                if not self._running:
                    self._running = True
                    self._begun += 1
                    self._since = moment()
                    break
                self.guard.wait()
            else:
                return self.latest
            current = self._begun
        has_looked = False
        try:
            self._look(current)
            has_looked = True
        finally:
            with self.guard:
                self._running = False
                if has_looked:  # otherwise each waiting thread starts a round itself
                    self._finished = max(self._finished, current)
                self.guard.notify_all()
        return self.latest

    @property
    def is_looked_at(self) -> bool:
        """Whether the view has been refreshed at least once."""
        return self._finished > 0

    @abstractmethod
    def _look(self, current: int) -> None:
        """Read the bucket and bring the view up to date. `current` is the number of this round."""

    def changes(self, after: int, limit: int) -> Sequence[Object]:
        """The changes after a number, in order. The version of each returned object is the number of its change."""
        with self.guard:
            newer = list(takewhile(lambda one: one[1] > after, reversed(self._changed.items())))
            return [change for name, number in newer[: -limit - 1 : -1] for change in self._changes_of(name, number)]

    def _changes_of(self, name: str, number: int) -> Iterator[Object]:
        known = self.objects.get(name)
        is_gone = known is None or known.is_gone
        if not is_gone and number in self._altered:
            yield Object(name, number, None)  # a tombstone: a follower must drop what it read before
        yield Object(name, number, None if is_gone else b"")

    def wrote(self, name: str, place: str, known: Known, before: Known | None) -> int:
        """Record an object that this process has just written over `before`. Returns the number of the change.

        Does nothing if a refresh or another thread has recorded a newer state, or if the generation of the object's
        place was purged meanwhile.
        """
        with self.guard:
            if self.objects.get(name) != before or not self._counts(place):
                return self._changed.get(name, 0)
            self.objects[name] = known
            self._own[name] = self._begun
            self._is_over(name, before)
            return self._note(name)

    def _counts(self, place: str) -> bool:  # noqa: ARG002
        """Whether objects at this place belong to this view."""
        return True

    def _note(self, name: str) -> int:
        self._altered.discard(self._changed.pop(name, 0))
        self.latest += 1
        self._changed[name] = self.latest
        return self.latest

    def _is_over(self, name: str, before: Known | None) -> None:
        """Remember that a version was replaced.

        Not needed for a line: it changes only into a tombstone, and the tombstone shows that the line's version is
        past.
        """
        if before is not None and not before.is_gone and LINES not in name:
            self._past.replaced(name, before.version)

    def is_past(self, name: str, version: Version) -> bool:
        """Whether this version of an object has been replaced by a newer one."""
        return self._past.has_replaced(name, version, moment())

    def _is_back(self, name: str, known: Known | None, current: int) -> bool:
        """Whether this refresh found an older version of an object than the view already knows (a rollback)."""
        before = self.objects.get(name)
        if before is None or self._own.get(name, -1) >= current or is_derived(name):
            return False
        if known is None or (before.is_gone and not known.is_gone):
            return True
        return known.version != before.version and self._past.has_replaced(name, known.version, self._since)

    def _took(self, name: str, before: Known | None, known: Known | None) -> None:
        """Record the state of an object that a refresh found, if it differs from the known one."""
        if before is None or known is None or before[:2] != known[:2]:
            self._is_over(name, before)
            number = self._note(name)
            if LINES in name and before is not None and known is not None and not before.is_gone:
                self._altered.add(number)

    def _take(self, found: Mapping[str, Known], current: int) -> None:
        """Replace the view's objects by the objects that a round found. The caller holds the guard."""
        self._own = {name: began for name, began in self._own.items() if began >= current}
        merged = dict(found)
        merged.update({name: self.objects[name] for name in self._own if name in self.objects})
        for name, known in merged.items():
            self._took(name, self.objects.get(name), known)
        vanished = self.objects.keys() - merged.keys()
        self.objects = merged
        for name in vanished:
            self._note(name)


class VaultView(View):
    """A view (replica) of the vault's own objects, without records of caps, which are read one by one."""

    def __init__(self, bucket: Bucket, which: int, now: Callable[[], int]) -> None:
        super().__init__(bucket, which, Past())
        self._now = now
        self._heard = 0
        self._loaded = -1
        self._loaded_at = 0
        self._is_deaf = False
        """Whether the last known announcement has been deleted.

        New announcements may then have any number, so every refresh is a full one.
        """
        self._doubts = 0
        """The number of calls of `doubt`. The view is complete if it was loaded at the present number."""

    def _look(self, current: int) -> None:
        doubts, now = self._doubts, self._now()
        is_recent = not self._is_deaf and 0 <= now - self._loaded_at < _A_WHILE
        if is_recent and self._loaded == doubts and self._bucket.get(self.next_news()) is None:
            return  # announcements have no gaps; asking for the next one is cheaper than a list
        heard = self._newest()
        found = {one.name: by_itself(one) for one in self._bucket.list(object_names.VAULT)}
        with self.guard:
            if back := next((name for name in self.objects if self._is_back(name, found.get(name), current)), ""):
                raise put_back(f"the vault's own {back}")
            self._take(found, current)
            self._heard = max(heard, self._heard)
            self._loaded = -1 if self._own else doubts  # a change under an own write may be missing
            self._loaded_at = now

    def _newest(self) -> int:
        """The number of the last announcement before the first gap. Announcements after a gap do not count."""
        known = heard = self._heard
        there = {
            one.name for one in self._bucket.list(object_names.NEWS, object_names.news(known - 1) if known > 1 else "")
        }
        self._is_deaf = known > 0 and object_names.news(known) not in there
        while object_names.news(heard + 1) in there:
            heard += 1
        return heard

    def doubt(self) -> None:
        """Make the next refresh a full one.

        Needed because a worker may have died between a change and its announcement.
        """
        with self.guard:
            self._doubts += 1

    def next_news(self) -> str:
        """The name of the next announcement, judging by the last one that this view knows."""
        return object_names.news(self._heard + 1)

    def announced(self, name: str) -> None:
        """Record an announcement by this process. Its number is the one after the last known announcement."""
        with self.guard:
            self._heard = max(self._heard, int(name.removeprefix(object_names.NEWS)))


def put_back(what: str) -> Tampered:
    """The error for an object that is older in the bucket than the state already seen, or that is missing."""
    return Tampered(
        f"{what} is missing from the bucket, or was put back to an older state",
        hint="run vault.audit.verify(), which lists every fault; workers that know a newer state refuse this one",
    )
