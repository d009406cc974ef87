"""A shelf of one actor in a bucket in memory, and workers on it that can be stopped at any request."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from strongroom.store import Delete, Purge
from strongroom.store.s3 import layout
from strongroom.store.s3.bucket import Bucket, Found, Listed
from strongroom.store.s3.compacting import Compactor
from strongroom.store.s3.packs import is_claim
from strongroom.store.s3.reading import Reader
from strongroom.store.s3.writing import Writer
from tests.fleet.memory import MemoryBucket

T = TypeVar("T")
LOCATOR = "a" * 32
SHELF = f"actors/{LOCATOR}/memory/{'b' * 32}/"
PLACE = f"actors/{LOCATOR}/g000000/memory/{'b' * 32}/g000000/"
LONG = 600_000


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class Clocked(MemoryBucket):
    """A bucket that dates what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.modified: dict[str, int] = {}

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        return [one._replace(modified=self.modified[one.name]) for one in super().list(prefix, after, limit)]

    def create(self, name: str, body: bytes) -> str:
        etag = super().create(name, body)
        self.modified[name] = self.now
        return etag

    def swap(self, name: str, body: bytes, etag: str) -> str:
        new = super().swap(name, body, etag)
        self.modified[name] = self.now
        return new


class Client:
    """One process's way to the bucket; `before` is called ahead of each request with its number."""

    def __init__(self, bucket: Bucket, before: Callable[[int], object] = lambda _: None) -> None:
        self._bucket = bucket
        self._before = before
        self.count = 0
        self.time = 0
        self.keeps_versions = False

    def _step(self) -> Bucket:
        number, self.count = self.count, self.count + 1
        self._before(number)
        return self._bucket

    def get(self, name: str) -> Found | None:
        return self._step().get(name)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        return self._step().list(prefix, after, limit)

    def folders(self, prefix: str) -> Sequence[str]:
        return self._step().folders(prefix)

    def create(self, name: str, body: bytes) -> str:
        return self._step().create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        return self._step().swap(name, body, etag)

    def delete(self, names: Sequence[str]) -> None:
        self._step().delete(names)


class Inline(Executor):
    """Runs everything at once, where it is asked for: the order of requests is always the same."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - who asks for the result hears of it
            future.set_exception(error)
        return future


class Worker:
    """A process: reads, writes and compacts."""

    def __init__(self, bucket: Bucket, random: Random, *, settled: int = 120_000, least: int = 1) -> None:
        self.reader = Reader(bucket, Inline(), Inline())
        self.writer = Writer(self.reader, random.randbytes)
        self.compactor = Compactor(self.reader, random.randbytes, settled=settled, least=least)

    def compact(self) -> object:
        return self.compactor.compact(LOCATOR)

    def forget(self, numbers: Iterable[int]) -> None:
        """As the vault does: what is gone already is not asked for."""
        view = self.reader.actor(LOCATOR, fresh=True)
        known = {name_of(number): view.objects[name_of(number)] for number in numbers}
        deletes = [Delete(name, one.version) for name, one in known.items() if not one.is_gone]
        if deletes:
            self.writer.carry_out(deletes)
            self.compactor.finish(LOCATOR)

    def purge(self) -> None:
        self.reader.actor(LOCATOR, fresh=True)
        self.writer.carry_out([Purge(SHELF)])


class Shelf:
    """A bucket with lines, some in packs."""

    def __init__(self, seed: int = 1) -> None:
        self.bucket = Clocked()
        self._seeds = itertools.count(seed * 1000)

    def put(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.bucket.create(PLACE + name_of(number).removeprefix(SHELF), layout.framed(body_of(number)))

    def client(self, before: Callable[[int], object] = lambda _: None) -> Client:
        return Client(self.bucket, before)

    def worker(self, before: Callable[[int], object] = lambda _: None) -> Worker:
        return Worker(self.client(before), Random(next(self._seeds)))

    def killed(self, at: int, work: Callable[[Worker], object]) -> None:
        """Let a worker do something until a request at which it dies."""

        def die(number: int) -> None:
            if number >= at:
                raise Killed

        with suppress(Killed):
            work(self.worker(die))

    def alive(self) -> dict[int, bytes]:
        """What a process that has just started finds, by numbers; each line once."""
        reader = self.worker().reader
        names = [one.name for one in reader.named(f"actors/{LOCATOR}/", "", 100_000)]
        assert len(names) == len(set(names))
        found = reader.listed(f"actors/{LOCATOR}/", "", 100_000)
        return {int(one.name[-26:]): one.body for one in found if one.body is not None}

    def bytes_of(self, number: int) -> list[str]:
        """Where in the bucket the bytes of a line are, whatever it counts as."""
        return [name for name, body in self.bucket.objects.items() if body_of(number) in body]

    def loose(self) -> list[int]:
        return sorted(int(name[-26:]) for name in self.bucket.objects if "/lines/" in name)

    def packs(self) -> dict[str, bytes]:
        found = {name: body for name, body in self.bucket.objects.items() if "/packs/" in name}
        return {name: body for name, body in found.items() if not is_claim(len(body))}

    def claims(self) -> list[str]:
        return [name for name in self.bucket.objects if "/packs/" in name and name not in self.packs()]


def name_of(number: int) -> str:
    return f"{SHELF}lines/{number:026d}"


def body_of(number: int) -> bytes:
    return f"<the sealed line {number}>".encode()


def whole(numbers: Iterable[int]) -> dict[int, bytes]:
    return {number: body_of(number) for number in numbers}


def once(at: int, action: Callable[[], object]) -> Callable[[int], None]:
    """Something that happens ahead of one request."""

    def before(number: int) -> None:
        if number == at:
            action()

    return before
