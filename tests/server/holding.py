"""Loads and forgets of one actor that do not end until a test says so."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from strongroom.memory.line_cache.cache import Batch
from strongroom.memory.ops import forget
from strongroom.memory.stored_pages import CachePageSet

DEADLOCK = 60.0
HELD = "local/alice"


@contextmanager
def loads_held(
    monkeypatch: pytest.MonkeyPatch, began: threading.Event | None = None, held: Container[str] = (HELD,)
) -> Iterator[threading.Event]:
    """The shelves of these actors have ever another portion to load, until the event is set; `began` tells of the
    first."""
    go, real = threading.Event(), CachePageSet.batches

    def batches(source: CachePageSet) -> Iterator[Batch]:
        if source._actor in held and began is not None:
            began.set()
        while source._actor in held and not go.wait(0.001):
            yield Batch(())
        yield from real(source)

    monkeypatch.setattr(CachePageSet, "batches", batches)
    try:
        yield go
    finally:
        go.set()


@contextmanager
def forgets_held(monkeypatch: pytest.MonkeyPatch, began: threading.Semaphore) -> Iterator[threading.Event]:
    """Alice's forgets keep their thread, until the event is set."""
    go, real = threading.Event(), forget._delete

    def delete(clerk: Any, grant: Any, *more: Any) -> Any:
        if grant.actor == HELD:
            began.release()
            assert go.wait(DEADLOCK)
        return (yield from real(clerk, grant, *more))

    monkeypatch.setattr(forget, "_delete", delete)
    try:
        yield go
    finally:
        go.set()
