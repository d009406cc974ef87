"""List: a page costs its own lines, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import NewLine, Token, Vault
from strongroom.errors import InvalidRequest
from strongroom.memory.line_cache.cache import CachedNamespace
from strongroom.model import Line


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """Every line that a listing has looked at."""
    found: list[Line] = []
    real = CachedNamespace.from_id

    def from_id(shelf: CachedNamespace, start: str) -> Iterator[Line]:
        for line in real(shelf, start):
            found.append(line)
            yield line

    monkeypatch.setattr(CachedNamespace, "from_id", from_id)
    return found


@pytest.mark.requirement("server-fair")
@pytest.mark.parametrize("count", [50, 200, 800])
def test_page_looks_at_no_more_lines_than_it_gives(vault: Vault, cap: Token, looked: list[Line], count: int) -> None:
    memory = vault.memory(cap)
    for at in range(0, count, 200):
        some = range(at, min(at + 200, count))
        memory.put_many([NewLine(text=f"line {number}", namespace="work") for number in some])
    after, pages = None, 0
    while True:
        looked.clear()
        page = memory.list(limit=10, after=after)
        pages += 1
        assert len(looked) <= 10 + 2, "those of the page, one before it, one that shows that there are more"
        after = page.next
        if after is None:
            break
    assert pages == count // 10


@pytest.mark.requirement("server-fair")
def test_shelf_is_sorted_once_and_stays_in_order(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    names = [memory.put(f"line {number}", namespace="work").id for number in range(20)]
    assert [line.id for line in memory.list().lines] == names
    (shelf,) = vault._state.shelves.loaded()
    ordered = shelf._by_id._sorted
    early = "01JABCDEFGHJKMNPQRSTVWXYZ0"
    memory.put("before all others", namespace="work", id=early)
    memory.forget(ids=names[3:5])
    names.append(memory.put("after them", namespace="work").id)
    assert [line.id for line in memory.list().lines] == [early, *names[:3], *names[5:]]
    assert shelf._by_id._sorted is ordered


def test_standing_lines_are_listed_alone_and_only_those_that_the_cap_covers(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("Always answer in metric units.", namespace="work")
    memory.put("The meeting was moved to Tuesday.", namespace="work")
    memory.put("Call me Sam.", namespace="family")
    both = memory.list(standing=True, texts=True)
    texts = {line.text: line.id for line in both.lines}
    assert texts.keys() == {"Always answer in metric units.", "Call me Sam."}
    narrow = vault.memory(cap).list(standing=True, namespaces=["work"])
    assert [line.namespace for line in narrow.lines] == ["work"]
    memory.forget(ids=[texts["Always answer in metric units."]])
    assert [line.namespace for line in memory.list(standing=True).lines] == ["family"]


def test_list_of_standing_lines_goes_page_by_page(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    for number in range(3):
        memory.put(f"Never call before {number + 7} in the morning.", namespace="work")
        memory.put(f"Note {number} about the weather.", namespace="work")
    first = memory.list(standing=True, limit=2)
    rest = memory.list(standing=True, limit=2, after=first.next)
    assert (len(first.lines), len(rest.lines), rest.next) == (2, 1, None)


def test_engine_that_recognises_no_standing_lines_is_named(tmp_path: Path) -> None:
    with strongroom.create(tmp_path / "vault", engine="recency") as vault:
        memory = vault.memory(vault.mint(actor="local/a", ops=["put", "list"], namespaces=["work"], ttl=60))
        memory.put("Always answer in metric units.")
        with pytest.raises(InvalidRequest, match="recognises no standing lines"):
            memory.list(standing=True)
