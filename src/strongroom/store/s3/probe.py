"""What a bucket must keep to, tried on the bucket itself. There are servers that ignore a condition and say nothing.

Each trial is named, writes below `probe/` and removes what it wrote. A vault is opened only where all of them hold.
One that loses a race which nobody else runs has learned nothing, since answers get lost: it begins again elsewhere.

The trial with several writers is one apart: some servers have those who lose wait for a second or more. A vault is made
only where it holds; a process that opens one runs it a moment later, beside its work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from threading import Barrier

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import Changed, S3Bucket, Taken

PLACE = "probe/"
_TRIES = 4
"""How often a trial begins, at most."""
_AT_ONCE = "of writers at the same time one wins"
_WRITERS = 4
"""How many write the same object at once."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: what was tried, and what is wrong; empty if nothing is."""

    what: str
    wrong: str = ""


class Probe:
    """Trials below one name of their own."""

    def __init__(self, bucket: S3Bucket, name: str) -> None:
        self._bucket = bucket
        self._whole = f"{PLACE}{name}/"
        self._begun = 0
        self._place = self._whole
        """Where the present trial writes."""

    def run(self, *, at_once: bool = True) -> Generator[Trial, None, None]:
        """Try one thing after the other. Also settles how this server wants its etags, and what time it has."""
        trials: dict[str, Callable[[], str]] = {
            "an object comes back": self._comes_back,
            "a new object is written once (If-None-Match)": self._once,
            "an object is replaced only as it was (If-Match)": self._as_it_was,
            "an object that is not there is not replaced": self._not_there,
            _AT_ONCE: self._at_once,
            "an empty object is listed as empty": self._empty,
            "a list has what was just written": self._list,
            "a list goes on after a name": self._after,
            "objects are deleted, many at once": self._delete,
        }
        if not at_once:
            del trials[_AT_ONCE]
        try:
            for what, trial in trials.items():
                yield Trial(what, self._tried(trial))
        finally:
            self._remove()

    def race(self) -> Trial:
        """Try only what several writers do at the same time."""
        try:
            return Trial(_AT_ONCE, self._tried(self._at_once))
        finally:
            self._remove()

    def _remove(self) -> None:
        with suppress(StoreUnavailable):
            self._bucket.delete([one.name for one in self._bucket.list(self._whole)])

    def _tried(self, trial: Callable[[], str]) -> str:
        for _ in range(_TRIES):
            self._begun += 1
            self._place = f"{self._whole}{self._begun:02d}/"
            with suppress(Taken, Changed):
                return trial()
        raise StoreUnavailable("the object store kept losing its own answers while it was tried", hint="try again")

    def check(self, *, at_once: bool = True) -> None:
        """Raise StoreUnavailable, by name, for the first thing that this server does not keep to."""
        with closing(self.run(at_once=at_once)) as trials:
            wrong = next((trial for trial in trials if trial.wrong), None)
        if wrong is not None:
            raise unfit(wrong)

    def _comes_back(self) -> str:
        self._bucket.list(self._place)  # first: there are servers that make a bucket when something is put into it
        self._bucket.create(self._place + "a", b"one")
        found = self._bucket.get(self._place + "a")
        if found is None or found.body != b"one":
            return "it is not there, or not the same"
        if self._bucket.get(self._place + "zz") is not None:
            return "what was never written is there"
        self._bucket.create(self._place + "zz", b"one")
        return "" if self._bucket.get(self._place + "zz") else "what was just written, and missed before, is not there"

    def _once(self) -> str:
        self._bucket.create(self._place + "a", b"one")
        try:
            self._bucket.create(self._place + "a", b"two")
        except Taken:
            return ""
        return "the second write replaced the first"

    def _as_it_was(self) -> str:
        """Also with the etag in the other form: some servers compare it with its quotes, or without."""
        etag = self._bucket.create(self._place + "a", b"one")
        for quoted in (True, False):
            self._bucket.quoted = quoted
            try:
                new = self._bucket.swap(self._place + "a", b"two", etag)
            except Changed:
                continue
            try:
                self._bucket.swap(self._place + "a", b"three", etag)
            except Changed:
                return "" if new != etag else "two objects have one etag"
            return "a write replaced what it had not seen"
        return "no write replaces anything"

    def _not_there(self) -> str:
        etag = self._bucket.create(self._place + "a", b"one")
        try:
            self._bucket.swap(self._place + "b", b"two", etag)
        except Changed:
            return ""
        return "it was made"

    def _at_once(self) -> str:
        """A server that looks first and writes then passes all other trials, and loses what two write at once."""
        new, old = f"{self._place}new", f"{self._place}old"
        etag = self._bucket.create(old, b"one")
        ready = Barrier(2 * _WRITERS)

        def creates(number: int) -> bool:
            ready.wait()
            with suppress(Taken):
                return bool(self._bucket.create(new, b"made by %d" % number))
            return False

        def swaps(number: int) -> bool:
            ready.wait()
            with suppress(Changed):
                return bool(self._bucket.swap(old, b"replaced by %d" % number, etag))
            return False

        with ThreadPoolExecutor(2 * _WRITERS, thread_name_prefix="strongroom-probe") as threads:
            creating, swapping = threads.map(creates, range(_WRITERS)), threads.map(swaps, range(_WRITERS))
            made, replaced = sum(creating), sum(swapping)
        if made != 1:
            return f"{made} of {_WRITERS} made the same new object"
        return "" if replaced == 1 else f"{replaced} of {_WRITERS} replaced the same object"

    def _empty(self) -> str:
        etag = self._bucket.create(self._place + "a", b"one")
        self._bucket.swap(self._place + "a", b"", etag)
        sizes = {one.name: one.size for one in self._bucket.list(self._place)}
        return "" if sizes.get(self._place + "a") == 0 else "its size is wrong, or it is not there"

    def _list(self) -> str:
        names = self._four()
        found = self._bucket.list(f"{self._place}list/")
        self._bucket.time = max((one.modified for one in found), default=0)
        return "" if [one.name for one in found] == names else "something is missing, or in another order"

    def _after(self) -> str:
        names = self._four()
        found = [one.name for one in self._bucket.list(f"{self._place}list/", names[1])]
        return "" if found == names[2:] else "it does not go on there"

    def _four(self) -> list[str]:
        names = [f"{self._place}list/{number:04d}" for number in range(4)]
        for name in names:
            self._bucket.create(name, name[-4:].encode())
        return names

    def _delete(self) -> str:
        self._four()
        self._bucket.delete([one.name for one in self._bucket.list(self._whole)])
        return "" if not self._bucket.list(self._whole) else "they are still there"


def unfit(trial: Trial) -> StoreUnavailable:
    """What is said of a server that does not keep to something."""
    return StoreUnavailable(
        f"this object store cannot keep a vault: {trial.what}: {trial.wrong}",
        hint="use one with conditional writes, such as AWS S3, Ceph, SeaweedFS, MinIO or R2",
    )
