"""Nothing is done in one piece that is larger than a bound: others get their turn between two portions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strongroom
from strongroom import NewLine, Token, Vault
from strongroom.engines.lexical import index as lexical_index
from strongroom.memory import stored_pages
from strongroom.memory.line_cache import cache
from strongroom.memory.ops import forget
from strongroom.model import LINE_LIMIT, LineId
from tests.memory.test_stored_pages import (
    Reopen,
    answers,
    batches,
    derived,
    held_in_pages,
    later,
    page_of,
    source,
    written,
)

LONG = 2_000
MANY = 400
"""So many long lines are several pages."""


def _put(vault: Vault, cap: Token, count: int, length: int) -> list[LineId]:
    later(vault)
    made = [NewLine(text=(f"boat {number} " * length)[:length], namespace="work") for number in range(count)]
    memory = vault.memory(cap)
    return [one.id for at in range(0, count, 100) for one in memory.put_many(made[at : at + 100])]


@pytest.fixture
def lines(vault: Vault, cap: Token) -> list[LineId]:
    return _put(vault, cap, MANY, LONG)


@pytest.fixture
def large_pages(vault: Vault, cap: Token, lines: list[LineId], reopen: Reopen) -> list[LineId]:
    """The lines are in pages of any size, as they were written before."""
    with pytest.MonkeyPatch.context() as patch, reopen() as other:
        patch.setattr(stored_pages, "PAGE_TEXT", 1 << 40)
        patch.setattr(stored_pages, "_NEWEST", 1)
        answers(other, cap)
    assert [len(page_of(vault, thing).records) for thing in written(vault)] == [MANY - 1]
    return lines


def _sizes(vault: Vault) -> list[int]:
    """The characters of each portion that comes onto a shelf."""
    return [sum(len(line.text) for line in batch.lines) for batch in source(vault).batches() if batch.lines]


def _pages(vault: Vault) -> list[int]:
    return [sum(len(record.text) for record in page_of(vault, thing).records) for thing in written(vault)]


@pytest.mark.requirement("server-fair")
def test_shelf_of_long_lines_is_loaded_in_bounded_portions(vault: Vault, lines: list[LineId]) -> None:
    assert sum(sizes := _sizes(vault)) == MANY * LONG
    assert max(sizes) <= stored_pages.PAGE_TEXT
    assert 0 < max(_pages(vault)) <= stored_pages.PAGE_TEXT
    assert max(_sizes(vault)) <= stored_pages.PAGE_TEXT, "also from the pages"


@pytest.mark.requirement("server-fair")
def test_lines_of_the_greatest_length_are_loaded_a_few_at_a_time(vault: Vault, cap: Token) -> None:
    made = _put(vault, cap, stored_pages.LOOSE_LIMIT + 1, LINE_LIMIT)
    assert max(_sizes(vault)) <= stored_pages.PAGE_TEXT
    assert sorted(name for batch in batches(vault) for name in batch) == made


@pytest.mark.requirement("server-fair", "pages-fresh")
def test_large_pages_of_a_version_before_are_written_anew_in_bounded_ones(
    vault: Vault, cap: Token, reopen: Reopen, large_pages: list[LineId]
) -> None:
    with reopen() as fresh:
        assert max(_sizes(fresh)) <= stored_pages.PAGE_TEXT
    assert 0 < max(_pages(vault)) <= stored_pages.PAGE_TEXT
    assert len([thing for thing in derived(vault) if thing.body is None]) == 1, "the large one is gone"
    held = held_in_pages(vault)
    assert len(held) == len(set(held))
    with reopen() as fresh:
        assert sorted(name for batch in batches(fresh) for name in batch) == large_pages


@pytest.mark.requirement("server-fair")
def test_process_that_closes_leaves_bounded_pages(vault: Vault, cap: Token, reopen: Reopen) -> None:
    with reopen() as other:
        other.memory(cap).put("one", namespace="work")
        other.memory(cap).get("load it")
        _put(other, cap, MANY, LONG)
    assert 0 < max(_pages(vault)) <= stored_pages.PAGE_TEXT


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The lines and characters of each commit that forgets."""
    found: list[tuple[int, int]] = []
    real = forget._delete

    def delete(clerk: Any, grant: Any, held: Any, caller: Any, portion: Any) -> Any:
        found.append((len(portion), sum(len(line.text) for line in portion)))
        return (yield from real(clerk, grant, held, caller, portion))

    monkeypatch.setattr(forget, "_delete", delete)
    return found


@pytest.mark.requirement("server-fair")
@pytest.mark.parametrize("length", [20, LONG, LINE_LIMIT])
def test_lines_that_one_commit_forgets_are_bounded(
    vault: Vault, cap: Token, portions: list[tuple[int, int]], length: int
) -> None:
    made = _put(vault, cap, 150, length)
    forgotten = vault.memory(cap).forget(namespaces=["work"])
    assert sorted(forgotten.ids) == made
    assert max(count for count, _ in portions) <= forget._PORTION
    assert max(size for _, size in portions) < forget._PORTION_TEXT + length


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters that the engine reads, of each line."""
    found: list[int] = []
    real: Callable[..., Any] = getattr(lexical_index, "extract")  # noqa: B009 - mypy: it is not exported

    def counted(line: Any, *more: Any) -> Any:
        found.append(len(line.text))
        return real(line, *more)

    monkeypatch.setattr(lexical_index, "extract", counted)
    return found


@pytest.mark.requirement("server-fair")
def test_one_put_reads_a_bounded_number_of_characters(vault: Vault, cap: Token, read: list[int]) -> None:
    memory = vault.memory(strongroom.attenuate(cap, namespaces=["work"], now=lambda: vault._clerk.now()))
    memory.put("a boat")
    memory.get("boat")
    most = 0
    for number in range(250):
        read.clear()
        memory.put((f"boat {number} " * 40)[:200])
        most = max(most, sum(read))
    assert 0 < most <= cache._READ_AT_ONCE + 200
