"""What a bucket must keep to, tried on the bucket itself. There are servers that ignore a condition and say nothing.

Each trial is named, writes below `probe/` and removes what it wrote. A vault is opened only where all of them hold.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.bucket import Changed, S3Bucket, Taken

PLACE = "probe/"


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: what was tried, and what is wrong; empty if nothing is."""

    what: str
    wrong: str = ""


class Probe:
    """Trials below one name of their own."""

    def __init__(self, bucket: S3Bucket, name: str) -> None:
        self._bucket = bucket
        self._place = f"{PLACE}{name}/"

    def run(self) -> Generator[Trial, None, None]:
        """Try one thing after the other. Also settles how this server wants its etags, and what time it has."""
        trials: dict[str, Callable[[], str]] = {
            "an object comes back": self._comes_back,
            "a new object is written once (If-None-Match)": self._once,
            "an object is replaced only as it was (If-Match)": self._as_it_was,
            "an object that is not there is not replaced": self._not_there,
            "an empty object is listed as empty": self._empty,
            "a list has what was just written": self._list,
            "a list goes on after a name": self._after,
            "objects are deleted, many at once": self._delete,
        }
        try:
            for what, trial in trials.items():
                yield Trial(what, trial())
        finally:
            with suppress(StoreUnavailable):
                self._bucket.delete([one.name for one in self._bucket.list(self._place)])

    def check(self) -> None:
        """Raise StoreUnavailable, by name, for the first thing that this server does not keep to."""
        with closing(self.run()) as trials:
            wrong = next((trial for trial in trials if trial.wrong), None)
        if wrong is not None:
            raise StoreUnavailable(
                f"this object store cannot keep a vault: {wrong.what}: {wrong.wrong}",
                hint="use one with conditional writes, such as AWS S3, Ceph, SeaweedFS, MinIO or R2",
            )

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
        try:
            self._bucket.create(self._place + "a", b"two")
        except Taken:
            return ""
        return "the second write replaced the first"

    def _as_it_was(self) -> str:
        """Also with the etag in the other form: some servers compare it with its quotes, or without."""
        for quoted in (True, False):
            self._bucket.quoted = quoted
            found = self._bucket.get(self._place + "a")
            if found is None:
                return "the object is gone"
            try:
                new = self._bucket.swap(self._place + "a", b"three %d" % quoted, found.etag)
            except Changed:
                continue
            try:
                self._bucket.swap(self._place + "a", b"four", found.etag)
            except Changed:
                return "" if new != found.etag else "two objects have one etag"
            return "a write replaced what it had not seen"
        return "no write replaces anything"

    def _not_there(self) -> str:
        found = self._bucket.get(self._place + "a")
        try:
            self._bucket.swap(self._place + "b", b"five", found.etag if found else "0")
        except Changed:
            return ""
        return "it was made"

    def _empty(self) -> str:
        etag = self._bucket.create(self._place + "c", b"six")
        self._bucket.swap(self._place + "c", b"", etag)
        sizes = {one.name: one.size for one in self._bucket.list(self._place)}
        return "" if sizes.get(self._place + "c") == 0 else "its size is wrong, or it is not there"

    def _list(self) -> str:
        for number in range(4):
            self._bucket.create(f"{self._place}list/{number:04d}", b"seven")
        found = self._bucket.list(f"{self._place}list/")
        names = [one.name for one in found]
        self._bucket.time = max((one.modified for one in found), default=0)
        wanted = [f"{self._place}list/{number:04d}" for number in range(4)]
        return "" if names == wanted else "something is missing, or in another order"

    def _after(self) -> str:
        names = [one.name for one in self._bucket.list(f"{self._place}list/", f"{self._place}list/0001")]
        wanted = [f"{self._place}list/{number:04d}" for number in (2, 3)]
        return "" if names == wanted else "it does not go on there"

    def _delete(self) -> str:
        self._bucket.delete([one.name for one in self._bucket.list(self._place)])
        return "" if not self._bucket.list(self._place) else "they are still there"
