"""Leaving lines out of a get, and a get of none: what is left keeps its scores and its order, whatever is named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, errors
from strongroom.audit import Entry
from strongroom.memory.line_cache.cache import Batch
from strongroom.memory.stored_pages import CachePageSet
from tests.conftest import NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
DEADLOCK = 60.0
"""Only a test that fails waits so long."""


@pytest.fixture(params=["lexical", "recency"])
def full(request: pytest.FixtureRequest, tmp_path: Path, keys: FileKeys, clock: Clock) -> Iterator[strongroom.Memory]:
    """The memory of one who spoke of sixty journeys."""
    with strongroom.create(tmp_path / "ranked", keys=keys, now=clock, engine=request.param) as vault:
        cap = vault.mint(actor="local/alice", ops=["put", "get", "list", "forget"], namespaces=NAMESPACES, ttl=9999)
        memory = vault.memory(cap)
        for number in range(60):
            clock.move(60)
            word = ("trip", "boat", "train")[number % 3]
            memory.put(f"{word} {number} to Chengdu", namespace=NAMESPACES[number % 4], session=f"s{number // 6}")
        yield memory


def _last(vault: Vault) -> Entry:
    entry = list(vault.audit.entries(vault.audit.size() - 1))[-1][1]
    assert entry is not None
    return entry


@pytest.mark.requirement("recall-without")
@pytest.mark.parametrize("query", ["trip to chengdu", "to chengdu", "", "nothing of this"])
def test_others_come_in_the_same_order_with_the_same_scores(full: strongroom.Memory, query: str) -> None:
    every = full.get(query, k=20, or_newest=query == "nothing of this")
    for count in range(0, 20, 3):
        left_out = [hit.id for hit in every[:count]]
        found = full.get(query, k=20, without=left_out, or_newest=query == "nothing of this")
        assert found[: 20 - count] == every[count:]
        assert not {hit.id for hit in found} & set(left_out)
        assert len(found) == len(every), "the next best take their places"


@pytest.mark.requirement("recall-without")
@pytest.mark.parametrize("query", ["trip", ""])
def test_lines_that_are_not_there_change_nothing(full: strongroom.Memory, query: str) -> None:
    gone = full.put("trip that is forgotten", namespace="work").id
    full.forget(ids=[gone])
    strangers = [f"01JABCDEFGHJKMNPQRSTVWX{number:03d}" for number in range(999)]
    assert full.get(query, k=7, without=[gone, *strangers]) == full.get(query, k=7)


class _Sly(str):
    """A text that claims to be another's equal."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(ID)

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.requirement("recall-without")
@pytest.mark.parametrize("bad", ["", "x", ID.lower(), ID + "\n", f"{ID}\n{ID}", _Sly("x")], ids=repr)
def test_text_that_is_no_id_is_refused_among_ids_of_lines_that_are_there(full: strongroom.Memory, bad: str) -> None:
    there = [hit.id for hit in full.get("trip", k=20)]
    for named in ([bad, *there], [*there, bad], [bad]):
        with pytest.raises(errors.InvalidRequest):
            full.get("trip", without=named)


@pytest.mark.requirement("recall-without")
def test_id_of_another_type_of_text_is_taken_for_what_it_says(full: strongroom.Memory) -> None:
    first, second, *_ = full.get("to chengdu", k=20)
    assert full.get("to chengdu", k=1, without=[Token(first.id)]) == [second]


@pytest.mark.requirement("recall-without")
def test_line_behind_the_answer_that_is_left_out_changes_nothing(full: strongroom.Memory) -> None:
    best = full.get("to chengdu", k=20)
    assert len(best) == 20
    for behind in best[5:]:
        assert full.get("to chengdu", k=5, without=[behind.id]) == best[:5]


@pytest.mark.requirement("recall-without")
def test_one_id_in_two_namespaces_is_left_out_of_both(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    for name in ("work", "travel"):
        memory.put(f"trip of {name}", namespace=name, id=ID)
    rest = memory.put("trip of nobody", namespace="work").id
    assert [hit.id for hit in memory.get("trip", k=1, without=[ID])] == [rest]


@pytest.mark.requirement("recall-without", "audit-reads")
def test_excluded_line_is_not_on_record_as_read(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    first, second = (memory.put(f"trip {n}", namespace="work").id for n in range(2))
    memory.get("trip", without=[first])
    assert (_last(vault).lines, _last(vault).count) == ((second,), 1)


@pytest.mark.requirement("recall-warm", "audit-reads")
def test_get_of_none_is_on_record_with_no_line(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("trip", namespace="work")
    size = vault.audit.size()
    assert memory.get("trip", k=0) == []
    assert vault.audit.size() == size + 1
    assert (_last(vault).op, _last(vault).decision, _last(vault).count, _last(vault).lines) == ("get", "allow", 0, ())


@pytest.mark.requirement("recall-warm")
def test_get_of_none_without_patience_has_everything_loaded_when_it_returns(
    vault: Vault, cap: Token, reopen: Callable[[], Vault]
) -> None:
    vault.memory(cap).put_many([NewLine(text=f"trip {n}", namespace="work") for n in range(200)])
    fresh = reopen()
    assert fresh.memory(cap).get(k=0) == []
    assert sum(len(shelf.lines) for shelf in fresh._state.shelves.loaded()) == 200


@pytest.mark.requirement("recall-warm")
def test_get_of_none_with_no_patience_returns_at_once_and_the_lines_come_in_the_background(
    vault: Vault, cap: Token, reopen: Callable[[], Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.memory(cap).put("trip", namespace="work")
    fresh, let, began = reopen(), threading.Event(), threading.Event()
    before = CachePageSet.batches

    def slow(self: CachePageSet) -> Iterator[Batch]:
        began.set()
        assert let.wait(DEADLOCK)
        yield from before(self)

    monkeypatch.setattr(CachePageSet, "batches", slow)
    memory = fresh.memory(cap)
    assert memory.get(k=0, patience=0) == []
    assert began.wait(DEADLOCK), "loading has begun, though nothing was waited for"
    assert fresh._state.shelves.loaded() == []
    let.set()
    assert [hit.text for hit in memory.get("trip", patience=DEADLOCK)] == ["trip"]
