"""A probe of the guarantees that a bucket must give, on the bucket itself: some servers silently ignore conditions.

Each trial has a name, writes objects below `probe/` and removes them again. A vault is opened only if all trials pass.
A trial may lose a race although there is no other writer, because the answer to its first attempt got lost. Such a loss
proves nothing, so the trial is repeated under another name. The trial with several writers is separate, because some
servers let losers wait for a second or more. Creating a vault waits for this trial; after opening a vault, it runs a
moment later in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from threading import Barrier

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import Changed, NameTaken, S3Bucket

PLACE = "probe/"
_TRIES = 4
"""The most attempts at one trial."""
_AT_ONCE = "of writers at the same time one wins"
_WRITERS = 4
"""The number of writers that write the same object at once."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: the guarantee that was tried, and the fault found. The fault is empty if the trial passed."""

    what: str
    wrong: str = ""


class Probe:
    """The trials of one probe. The names of all their objects have the same prefix."""

    def __init__(self, bucket: S3Bucket, name: str) -> None:
        self._bucket = bucket
        self._whole = f"{PLACE}{name}/"
        self._begun = 0
        self._place = self._whole
        """The prefix of the objects that the current attempt writes."""

    def run(self, *, at_once: bool = True) -> Generator[Trial, None, None]:
        """Run one trial after the other.

        Also finds out how this server wants etags in conditions, and what its clock says.
        """
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
        """Run only the trial with several concurrent writers, and return its result."""
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
            with suppress(NameTaken, Changed):
                return trial()
        raise StoreUnavailable(
            "the object store's answers kept getting lost during the test of its guarantees", hint="try again"
        )

    def check(self, *, at_once: bool = True) -> None:
        """Raise StoreUnavailable for the first trial that failed, with its name. No error if all passed."""
        with closing(self.run(at_once=at_once)) as trials:
            wrong = next((trial for trial in trials if trial.wrong), None)
        if wrong is not None:
            raise unfit(wrong)

    def _comes_back(self) -> str:
        self._bucket.list(self._place)  # before any write: some servers create a missing bucket at the first
        self._bucket.create(self._place + "a", b"one")
        found = self._bucket.get(self._place + "a")
        if found is None or found.body != b"one":
            return "the object is missing, or its bytes differ"
        if self._bucket.get(self._place + "zz") is not None:
            return "an object that was never written exists"
        self._bucket.create(self._place + "zz", b"one")
        return (
            ""
            if self._bucket.get(self._place + "zz")
            else "an object that was just written, and asked for before, is missing"
        )

    def _once(self) -> str:
        self._bucket.create(self._place + "a", b"one")
        try:
            self._bucket.create(self._place + "a", b"two")
        except NameTaken:
            return ""
        return "the second write replaced the first"

    def _as_it_was(self) -> str:
        """Try a conditional write, with the etag in quotes and without: some servers accept only one of these forms."""
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
            return "a write replaced a version of the object that it did not name"
        return "no write replaces anything"

    def _not_there(self) -> str:
        etag = self._bucket.create(self._place + "a", b"one")
        try:
            self._bucket.swap(self._place + "b", b"two", etag)
        except Changed:
            return ""
        return "the object was created"

    def _at_once(self) -> str:
        """A trial that catches a server which first checks a condition and then writes, not atomically.

        Such a server passes every other trial.
        """
        new, old = f"{self._place}new", f"{self._place}old"
        etag = self._bucket.create(old, b"one")
        ready = Barrier(2 * _WRITERS)

        def creates(number: int) -> bool:
            ready.wait()
            with suppress(NameTaken):
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
        return "" if sizes.get(self._place + "a") == 0 else "the object's size is wrong, or the object is missing"

    def _list(self) -> str:
        names = self._four()
        found = self._bucket.list(f"{self._place}list/")
        self._bucket.time = max((one.modified for one in found), default=0)
        return "" if [one.name for one in found] == names else "an object is missing, or the order is wrong"

    def _after(self) -> str:
        names = self._four()
        found = [one.name for one in self._bucket.list(f"{self._place}list/", names[1])]
        return "" if found == names[2:] else "the list does not continue after that name"

    def _four(self) -> list[str]:
        names = [f"{self._place}list/{number:04d}" for number in range(4)]
        for name in names:
            self._bucket.create(name, name[-4:].encode())
        return names

    def _delete(self) -> str:
        self._four()
        self._bucket.delete([one.name for one in self._bucket.list(self._whole)])
        return "" if not self._bucket.list(self._whole) else "the objects still exist"


def unfit(trial: Trial) -> StoreUnavailable:
    """The error for a server that failed a trial."""
    return StoreUnavailable(
        f"this object store cannot keep a vault: {trial.what}: {trial.wrong}",
        hint="use an object store with conditional writes, such as AWS S3, Ceph, SeaweedFS, MinIO or R2",
    )
