"""How work grows: counted in steps of SQLite's machine and of Python's, at two sizes; a quadratic plan fails.

Nothing is timed. `python -m bench growth` does that, over more sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, NewLine, Vault
from strongroom.archive.export_import import export_lines
from strongroom.audit.entry import Decision, Entry, Mark
from strongroom.audit.log import VaultMac
from strongroom.audit.verifier import Expected
from strongroom.model import Millis
from strongroom.store import Effect, PutNew, Store
from strongroom.store.fake import FakeStores
from strongroom.store.sqlite import SqliteStore
from tests.conftest import ALL_OPS, NAMESPACES, Clock

MOST = 1.3
"""The exponent at most: n log n over a factor of four in size is below it, and n squared is 2."""


MAC = VaultMac("vault", bytes(32), bytes(32))


class Steps:
    """Counts steps of Python's interpreter, and those of SQLite's machine where a connection tells of them."""

    def __init__(self) -> None:
        self.python = self.sqlite = 0

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.python += event == "opcode"
        return self._trace

    def _step(self) -> bool:
        self.sqlite += 1
        return False

    @contextmanager
    def counted(self, store: Store) -> Iterator[Steps]:
        if isinstance(store, SqliteStore):
            store._drain()
            connect = store._connect

            def watched() -> Any:
                connection = connect()
                connection.set_progress_handler(self._step, 1)
                return connection

            store._connect = watched  # type: ignore[method-assign]
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield self
        finally:
            sys.settrace(before)


def _exponent(small: int, large: int, factor: float) -> float:
    return log(max(large, 1) / max(small, 1)) / log(factor)


def _check(found: list[Steps], factor: float) -> None:
    small, large = found
    assert _exponent(small.python, large.python, factor) <= MOST, "steps of Python"
    assert _exponent(small.sqlite, large.sqlite, factor) <= MOST, "steps of SQLite"


# The store's pages.

Paging = Callable[[Store], object]


def _all(page: Callable[[Any], Any], key: str, after: Any) -> int:
    count = 0
    while found := page(after):
        after = getattr(found[-1], key)
        count += len(found)
    return count


PAGINGS: dict[str, Paging] = {
    "list": lambda store: _all(lambda after: store.list("a/", after, 10), "name", ""),
    "names": lambda store: _all(lambda after: store.names("a/", after, 10), "name", ""),
    "changes": lambda store: _all(lambda after: store.changes(after, 10), "version", 0),
    "entries": lambda store: sum(1 for _ in store.entries(0, 10**9)),
}


@pytest.mark.requirement("growth")
@pytest.mark.parametrize("kind", ["sqlite", "fake"])
@pytest.mark.parametrize("name", PAGINGS)
def test_pages_of_a_store_take_no_more_steps_for_being_many(name: str, kind: str, tmp_path: Path) -> None:
    found = []
    for size in (200, 800):
        effects: list[Effect] = [PutNew(f"a/{number:06}", b"x") for number in range(size)]
        backend: Any = SqliteStore if kind == "sqlite" else FakeStores()
        with_entries = [b"entry"] * size
        store = backend.create(str(tmp_path / str(size)), MAC, with_entries, effects, 1)
        with Steps().counted(store) as steps:
            assert PAGINGS[name](store) != 0
        found.append(steps)
        store.close()
    _check(found, 4)


# A vault's operations.


def _vault(place: Path, size: int, *, actors: bool) -> Vault:
    vault = strongroom.create(place / "vault", keys=FileKeys(place / "keys"), now=Clock())
    for number in range(size if actors else 1):
        cap = vault.mint(actor=f"local/a{number}", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
        count = 1 if actors else size
        lines = [NewLine(text=f"line {line}", namespace="work", session=f"s{line % 2}") for line in range(count)]
        for at in range(0, count, 256):
            vault.memory(cap).put_many(lines[at : at + 256])
    return vault


def _memory(vault: Vault) -> strongroom.Memory:
    return vault.memory(vault.mint(actor="local/a0", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600))


def _export(vault: Vault) -> object:
    return export_lines(_memory(vault), vault=vault.id, actor="local/a0", now=Millis(0))


BY_ACTORS: dict[str, Callable[[Vault], object]] = {
    "actors": lambda vault: list(vault.actors()),
    "caps": lambda vault: list(vault.caps()),
    "verify": lambda vault: vault.audit.verify(),
    "rotate the root": lambda vault: vault.rotate_root(),
    "erase one": lambda vault: vault.erase("local/a0"),
}
BY_LINES: dict[str, Callable[[Vault], object]] = {
    "verify": lambda vault: vault.audit.verify(),
    "export": _export,
    "forget by filter": lambda vault: _memory(vault).forget(session="s1"),
    "erase": lambda vault: vault.erase("local/a0"),
    "rotate the root": lambda vault: vault.rotate_root(),
}


@pytest.mark.requirement("growth")
@pytest.mark.parametrize("name", BY_ACTORS)
def test_work_over_actors_grows_no_faster_than_they_do(name: str, tmp_path: Path) -> None:
    _check([_steps(tmp_path / str(size), size, BY_ACTORS[name], actors=True) for size in (60, 240)], 4)


@pytest.mark.requirement("growth")
@pytest.mark.parametrize("name", BY_LINES)
def test_work_over_lines_grows_no_faster_than_they_do(name: str, tmp_path: Path) -> None:
    _check([_steps(tmp_path / str(size), size, BY_LINES[name], actors=False) for size in (600, 2400)], 4)


def _steps(place: Path, size: int, work: Callable[[Vault], object], *, actors: bool) -> Steps:
    with _vault(place, size, actors=actors) as vault, Steps().counted(vault._state.store) as steps:
        work(vault)
    return steps


@pytest.mark.requirement("growth", "rotate-ends")
def test_rotation_takes_no_more_steps_for_the_lines_of_an_actor(tmp_path: Path) -> None:
    small, large = (
        _steps(tmp_path / str(size), size, lambda vault: vault.rotate_root(), actors=False) for size in (100, 3000)
    )
    assert large.sqlite <= small.sqlite * 1.2


@pytest.mark.requirement("growth")
def test_verifying_many_erasures_of_a_small_namespace_does_not_look_at_a_large_one_each_time() -> None:
    found = []
    for size in (200, 800):
        expected = Expected(0, {})
        expected.apply(_entry([Mark(f"large {number}", "x", "work") for number in range(size)]))
        with Steps().counted(FakeStores().create("here", MAC, [b"x"], [PutNew("a/b", b"")], 1)) as steps:
            for number in range(size):
                expected.apply(_entry([Mark(f"small {number}", "x", "travel")]))
                expected.apply(_entry([], erased="namespace", namespaces=("travel",)))
        assert len(expected.owners["alice"]) == size
        found.append(steps)
    _check(found, 4)


def _entry(objects: list[Mark], **more: Any) -> Entry:
    return Entry(
        v=1,
        time=Millis(0),
        op="put",
        decision=Decision.ALLOW,
        data_class="memory",
        actor="alice",
        objects=tuple(objects),
        **more,
    )
