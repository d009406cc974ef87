"""A bucket in memory that keeps every condition, for tests of what stands on buckets."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

from strongroom.store import s3
from strongroom.store.s3 import log
from strongroom.store.s3.bucket import PAGE, Changed, Found, Listed, Taken
from strongroom.vault import opening


class MemoryBucket:
    """What any S3 does, and nothing else. Counts requests by their kind."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: dict[str, int] = {}
        self.time = 0
        self.keeps_versions = False
        self.timers = Timers()
        self._guard = threading.Lock()

    def get(self, name: str) -> Found | None:
        with self._guard:
            self._count("get")
            body = self.objects.get(name)
            return None if body is None else Found(body, _etag(body))

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        with self._guard:
            names = sorted(name for name in self.objects if name.startswith(prefix) and name > after)[:limit]
            for _ in range(max(1, -(-len(names) // PAGE))):
                self._count("list")
            return [Listed(name, _etag(self.objects[name]), len(self.objects[name]), 0) for name in names]

    def folders(self, prefix: str) -> Sequence[str]:
        with self._guard:
            found = folders_of(self.objects, prefix)
            for _ in range(max(1, -(-len(found) // PAGE))):
                self._count("list")
            return found

    def create(self, name: str, body: bytes) -> str:
        with self._guard:
            self._count("put")
            if name in self.objects:
                raise Taken(name)
            self.objects[name] = body
            return _etag(body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        with self._guard:
            self._count("put")
            if name not in self.objects or _etag(self.objects[name]) != etag:
                raise Changed(name)
            self.objects[name] = body
            return _etag(body)

    def delete(self, names: Sequence[str]) -> None:
        with self._guard:
            self._count("delete")
            for name in names:
                self.objects.pop(name, None)

    def _count(self, kind: str) -> None:
        self.requests[kind] = self.requests.get(kind, 0) + 1


def folders_of(names: Iterable[str], prefix: str) -> list[str]:
    """What a list with a delimiter gives."""
    parts = (name.removeprefix(prefix).partition("/") for name in names if name.startswith(prefix))
    return sorted({name for name, slash, _ in parts if name and slash})


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


B = TypeVar("B", bound=MemoryBucket)


class Timers:
    """What workers want to do a moment later: done when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def later(self, _: float, act: Callable[[], None]) -> Callable[[], object]:
        self.waiting.append(act)
        return lambda: self.waiting.remove(act) if act in self.waiting else None

    def tick(self) -> None:
        """Let the moment pass."""
        due, self.waiting = self.waiting, []
        for act in due:
            act()


def used_by_vaults(bucket: B, monkeypatch: pytest.MonkeyPatch) -> B:
    """Have every vault that is made or opened lie in this bucket; no timer of theirs ever rings by itself."""

    class Backend(s3.S3Backend):
        create = staticmethod(lambda place, *rest: s3.create(bucket, place, *rest))  # type: ignore[assignment]
        open = staticmethod(lambda place: s3.open_store(bucket, place))  # type: ignore[assignment]

    monkeypatch.setattr(opening, "backend", lambda place: (Backend, place))
    monkeypatch.setattr(log, "on_timer", bucket.timers.later)
    return bucket
