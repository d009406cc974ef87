"""A bucket that misbehaves as a seed has it: slow, out of reach, its answers lost, its lists not of one moment.

`Server` holds the objects. Each worker has a `SimulatedBucket` of its own, which tries again a few times, as a real
client does, and looks at what is there before it says that a race was lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import BucketListing, BucketObject, Changed, NameTaken
from tests.fleet.memory import folders_of
from tests.fleet.scheduler import Scheduler

T = TypeVar("T")


_SORE = 0.2
_HEAVY = 0.5


class Died(BaseException):
    """The worker is dead: none of its threads gets any further."""


class Conflict(Exception):
    """A write was given up, and nobody says whether anything has changed."""


class NoAnswer(Exception):
    """One try of a request came to nothing that the client heard of."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely what is for each try of a request."""

    refused: float = 0.0
    """No effect, no answer."""
    lost: float = 0.0
    """The effect, but no answer."""
    late: float = 0.0
    """No answer, and the effect only when the client has long given up."""
    outage: float = 0.0
    """That a time begins in which every try fails."""
    slow: float = 0.0
    page: int = 1000
    by_parts: bool = False
    """Whether names are ordered part by part, and not by their bytes."""
    tries: int = 3
    sore: str = ""
    """A part of names: writes of such objects fail often, however often they are tried."""
    conflict: float = 0.0
    """That a conditional write is given up for another one that was given up, too: no effect, and a 409."""
    torn: float = 0.0
    """That an object of an actor comes with none of its bytes, or with half of them, and the etag of all."""
    twice: float = 0.0
    """That a write arrives once more, after its answer."""
    heavy: str = ""
    """A part of names: writes of such objects are often long under way, and much happens meanwhile."""

    @classmethod
    def of(cls, random: Random) -> Weather:
        rough = random.choice([0.0, 0.01, 0.03, 0.08])
        return cls(
            refused=rough,
            lost=random.choice([0.0, rough, 2 * rough]),
            late=random.choice([0.0, 0.0, rough / 2]),
            outage=random.choice([0.0, 0.0, 0.004]),
            slow=random.choice([0.0, 0.02, 0.1]),
            page=random.choice([2, 5, 50, 1000]),
            by_parts=random.random() < 0.5,
            sore=random.choice(["", "", "", "create news/", "vault/", "caps/", "logs/", "/at", "/lines/", "/packs/"]),
            tries=random.choice([1, 2, 3] if rough < 0.05 else [3, 4]),
            heavy=random.choice(["", "", "/at", "/at", "vault/"]),
            conflict=random.choice([0.0, 0.0, rough]),
            torn=random.choice([0.0, rough, 2 * rough]),
            twice=random.choice([0.0, rough]),
        )

    @property
    def calm(self) -> Weather:
        return Weather(page=self.page, by_parts=self.by_parts)


class Server:
    """The objects, and the clock that dates them."""

    def __init__(self, scheduler: Scheduler, weather: Weather) -> None:
        self.scheduler = scheduler
        self.weather = weather
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.trace: list[str] = []
        self.sealed: dict[str, list[bytes]] = {}
        """The sealed bodies with which lines and documents were first written, by name."""

    def note(self, *words: object) -> None:
        self.trace.append(f"{self.scheduler.now} " + " ".join(map(str, words)))

    def get(self, name: str) -> BucketObject | None:
        body = self.objects.get(name)
        return None if body is None else BucketObject(body[0], etag_of(body[0]))

    def page(self, prefix: str, after: str, limit: int) -> list[BucketListing]:
        names = sorted((name for name in self.objects if name.startswith(prefix)), key=self._order)
        rest = [name for name in names if not after or self._order(name) > self._order(after)]
        found = [(name, *self.objects[name]) for name in rest[:limit]]
        return [BucketListing(name, etag_of(body), len(body), modified) for name, body, modified in found]

    def _order(self, name: str) -> list[str]:
        return name.split("/") if self.weather.by_parts else [name]

    def create(self, name: str, body: bytes) -> str:
        if name in self.objects:
            raise NameTaken(name)
        self.objects[name] = body, self.scheduler.now
        if "/lines/" in name or "/documents/" in name:
            self.sealed.setdefault(name, []).append(body[1:])
        return etag_of(body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        if name not in self.objects or etag_of(self.objects[name][0]) != etag:
            raise Changed(name)
        self.objects[name] = body, self.scheduler.now
        return etag_of(body)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.objects.pop(name, None)


class SimulatedBucket:
    """One worker's way to the server."""

    def __init__(
        self, server: Server, worker: str, *, knows_its_own: bool = True, looks_into_conflicts: bool = True
    ) -> None:
        self._server = server
        self.worker = worker
        self.is_dead = False
        self.time = 0
        self.keeps_versions = False
        self._knows_its_own = knows_its_own
        self._looks_into_conflicts = looks_into_conflicts
        self._out_until = 0
        self._random = server.scheduler.random

    # The contract.

    def get(self, name: str) -> BucketObject | None:
        found = self._whole(name)
        if found is None or not name.startswith("actors/") or self._random.random() >= self._server.weather.torn:
            return found
        self._server.note(self.worker, "get", name, "torn")
        return found._replace(body=found.body[: self._random.choice([0, len(found.body) // 2])])

    def _whole(self, name: str) -> BucketObject | None:
        return self._tried(f"get {name}", lambda: self._server.get(name))

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        size = self._server.weather.page if limit is None else limit
        found = page = self._page(prefix, after, size)
        while limit is None and len(page) == size:
            page = self._page(prefix, page[-1].name, size)
            found = [*found, *page]
        return found

    def folders(self, prefix: str) -> Sequence[str]:
        return self._tried(f"folders {prefix}", lambda: folders_of(self._server.objects, prefix))

    def _page(self, prefix: str, after: str, size: int) -> Sequence[BucketListing]:
        return self._tried(f"list {prefix} after {after}", lambda: self._server.page(prefix, after, size))

    def create(self, name: str, body: bytes) -> str:
        for _ in range(self._server.weather.tries):
            try:
                return self._tried(f"create {name}", lambda: self._server.create(name, body), writes=True)
            except Conflict:
                if not self._looks_into_conflicts:
                    raise NameTaken(name) from None
                if self._whole(name) is not None:
                    return self._own(name, body, NameTaken(name))
            except NameTaken:
                return self._own(name, body, NameTaken(name))
        raise StoreUnavailable("the simulated store kept giving up a write")

    def swap(self, name: str, body: bytes, etag: str) -> str:
        for _ in range(self._server.weather.tries):
            try:
                return self._tried(f"swap {name}", lambda: self._server.swap(name, body, etag), writes=True)
            except Conflict:
                if not self._looks_into_conflicts:
                    raise Changed(name) from None
                found = self._whole(name)
                if found is None or found.etag != etag:
                    return self._own(name, body, Changed(name))
            except Changed:
                return self._own(name, body, Changed(name))
        raise StoreUnavailable("the simulated store kept giving up a write")

    def delete(self, names: Sequence[str]) -> None:
        gone = list(names)
        self._tried(f"delete {' '.join(gone)}", lambda: self._server.delete(gone), writes=True)

    def _own(self, name: str, body: bytes, lost: Exception) -> str:
        found = self._whole(name) if body and self._knows_its_own else None
        if found is None or found.body != body:
            raise lost
        return found.etag

    # One request.

    def _tried(self, what: str, act: Callable[[], T], *, writes: bool = False) -> T:
        if writes and self._server.weather.sore in what and self._random.random() < self._soreness:
            self._fail(what, act)
        for number in range(self._server.weather.tries):
            try:
                return self._try(what, act, writes=writes)
            except NoAnswer:
                self._server.scheduler.pause(20 << number)
        raise StoreUnavailable("the simulated store did not answer")

    @property
    def _soreness(self) -> float:
        return _SORE if self._server.weather.sore else 0.0

    def _fail(self, what: str, act: Callable[[], object]) -> None:
        """Have every try fail, with the effect or without."""
        self._pass_time()
        if self._random.random() < 0.5:
            self._arrive(what, act)
        else:
            self._server.note(self.worker, what, "fails")
        raise StoreUnavailable("the simulated store did not answer")

    def _try(self, what: str, act: Callable[[], T], *, writes: bool) -> T:
        self._pass_time()
        if writes and self._server.weather.heavy and self._server.weather.heavy in what:
            self._dawdle()
        fate = self._fate(writes=writes)
        if fate == "conflict" and what.startswith("delete "):
            fate = "done"
        self._server.note(self.worker, what, fate)
        if fate == "refused":
            raise NoAnswer
        if fate == "conflict":
            raise Conflict
        if fate == "late":
            self._server.scheduler.spawn("late", lambda: self._arrive(what, act), self._random.randrange(50, 3000))
            raise NoAnswer
        answer = self._answer(act)
        if writes and self._random.random() < self._server.weather.twice:
            self._server.note(self.worker, what, "repeated")
            self._server.scheduler.spawn("again", lambda: self._arrive(what, act), self._random.randrange(1, 3000))
        self._pass_time()
        if fate == "lost":
            raise NoAnswer
        return answer

    def _answer(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (NameTaken, Changed) as error:
            self._server.note(self.worker, type(error).__name__)
            raise

    def _arrive(self, what: str, act: Callable[[], object]) -> None:
        self._server.note(self.worker, what, "arrives")
        try:
            act()
        except (NameTaken, Changed) as error:
            self._server.note(self.worker, type(error).__name__)

    def _pass_time(self) -> None:
        self._check_alive()
        slow = self._random.random() < self._server.weather.slow
        self._server.scheduler.pause(self._random.randrange(100, 1200) if slow else self._random.randrange(1, 25))
        self._check_alive()

    def _dawdle(self) -> None:
        if self._random.random() < _HEAVY:
            self._server.scheduler.pause(self._random.randrange(300, 5000))
            self._check_alive()

    def _check_alive(self) -> None:
        if self.is_dead:
            raise Died

    def _fate(self, *, writes: bool) -> str:
        weather, now, drawn = self._server.weather, self._server.scheduler.now, self._random.random()
        if self._random.random() < weather.outage:
            self._out_until = now + self._random.randrange(50, 3000)
        if weather.outage and now < self._out_until:
            return "lost" if drawn < 0.3 else "refused"
        if drawn < weather.refused:
            return "refused"
        if drawn < weather.refused + weather.lost:
            return "lost"
        if writes and drawn < weather.refused + weather.lost + weather.late:
            return "late"
        return "conflict" if writes and drawn > 1 - weather.conflict else "done"


def etag_of(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
