"""Filters on get, list and forget: what a line must be, and that every other line might as well not be there."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom import NewLine, Token, Vault, errors
from strongroom.memory import Memory
from tests.conftest import ALL_OPS

MAY = [datetime(2026, 5, day, tzinfo=UTC) for day in range(1, 29)]
FILTERS: dict[str, dict[str, Any]] = {
    "kind": {"kind": "fact"},
    "author": {"author": "alice"},
    "one tag": {"tags": ["trip"]},
    "all tags": {"tags": ["trip", "paid"]},
    "meta": {"meta": {"city": "Chengdu"}},
    "meta of two": {"meta": {"city": "Chengdu", "n": 1}},
    "turn": {"turn": "t1"},
    "since": {"since": MAY[9]},
    "until": {"until": MAY[9]},
}
LINES: list[dict[str, Any]] = [
    {"kind": "fact"},
    {"author": "alice", "tags": ("trip",)},
    {"tags": ("trip", "paid"), "meta": {"city": "Chengdu"}},
    {"meta": {"city": "Chengdu", "n": 1}, "turn": "t1"},
    {"meta": {"city": "Chengdu", "n": True}},
    {"meta": {"city": ["Chengdu"]}, "time": MAY[20]},
    {"time": MAY[2]},
]


def _means(line: dict[str, Any], condition: dict[str, Any]) -> bool:
    """What a filter means, told a second time."""
    ((name, value),) = condition.items()
    when = line.get("time", MAY[15])
    if name == "since":
        return bool(when >= value)
    if name == "until":
        return bool(when < value)
    if name == "tags":
        return set(value) <= set(line.get("tags", ()))
    if name == "meta":
        meta = line.get("meta", {})
        return all(key in meta and repr(meta[key]) == repr(one) for key, one in value.items())
    return bool(line.get(name, {"kind": "note"}.get(name, "")) == value)


@pytest.fixture
def memory(vault: Vault, cap: Token) -> Memory:
    memory = vault.memory(cap)
    memory.put_many(
        [NewLine(text=f"the plan {n}", namespace="work", **{"time": MAY[15], **one}) for n, one in enumerate(LINES)]
    )
    return memory


@pytest.mark.requirement("filters-denied")
@pytest.mark.parametrize("condition", FILTERS.values(), ids=list(FILTERS))
def test_filter_on_a_denied_namespace_is_the_denial_of_any_other_request(
    vault: Vault, memory: Memory, condition: dict[str, Any]
) -> None:
    travel = vault.memory(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=60))
    calls: list[Callable[[], object]] = [
        lambda: travel.get("plan", namespaces=["work"], **condition),
        lambda: travel.list(namespaces=["work"], **condition),
        lambda: travel.forget(namespaces=["work"], **condition),
    ]
    for call in calls:
        with pytest.raises(errors.CapNamespaceDenied):
            call()
    assert travel.get("plan", **condition) == []
    assert travel.list(**condition).lines == ()
    assert travel.forget(**condition).ids == ()
    assert len(memory.list().lines) == len(LINES)


@pytest.mark.requirement("filters")
@pytest.mark.parametrize("condition", FILTERS.values(), ids=list(FILTERS))
def test_get_list_and_forget_mean_the_same_lines_by_a_filter(memory: Memory, condition: dict[str, Any]) -> None:
    meant = {f"the plan {n}" for n, one in enumerate(LINES) if _means(one, condition)}
    assert 0 < len(meant) < len(LINES)
    assert {hit.text for hit in memory.get("plan", k=20, **condition)} == meant
    assert {line.text for line in memory.list(texts=True, **condition).lines} == meant
    assert len(memory.forget(**condition).ids) == len(meant)
    assert {line.text for line in memory.list(texts=True).lines} == {f"the plan {n}" for n in range(len(LINES))} - meant


@pytest.mark.requirement("filters")
def test_get_takes_the_session_of_the_asker_and_the_session_of_the_lines_apart(memory: Memory) -> None:
    memory.put("the plan of monday", namespace="work", session="monday")
    assert len(memory.get("plan", k=20, session="monday")) == len(LINES) + 1
    assert [hit.text for hit in memory.get("plan", from_session="monday")] == ["the plan of monday"]
    assert memory.get("plan", from_session="")
    assert memory.get("plan", from_session="tuesday") == []


@pytest.mark.requirement("filters")
def test_filtered_get_follows_what_is_put_and_forgotten(memory: Memory) -> None:
    assert len(memory.get("plan", k=20, tags=["trip"])) == 2
    added = memory.put("another plan", namespace="work", tags=["trip"])
    assert len(memory.get("plan", k=20, tags=["trip"])) == 3
    memory.forget(ids=[added.id])
    assert len(memory.get("plan", k=20, tags=["trip"])) == 2


@pytest.mark.requirement("filters")
def test_forgotten_line_leaves_the_filtered_indexes_in_ram(vault: Vault, memory: Memory) -> None:
    memory.get("plan", tags=["paid"])
    (shelf,) = vault._state.shelves.loaded()
    (kept,) = shelf.filtered._kept.values()
    assert len(kept.lines) == 1
    memory.forget(tags=["paid"])
    assert kept.lines == {}


@pytest.mark.requirement("filters")
def test_filtered_indexes_are_few_and_count_towards_the_budget(vault: Vault, memory: Memory) -> None:
    memory.get("plan")
    before = vault.usage().shelf_bytes
    for number in range(20):
        memory.get("plan", since=MAY[0], until=MAY[27].replace(minute=number))
    (shelf,) = vault._state.shelves.loaded()
    assert len(shelf.filtered._kept) == 4
    assert vault.usage().shelf_bytes > before


@pytest.mark.requirement("filters-bad")
@pytest.mark.parametrize(
    "condition",
    [
        {"kind": "rumour"},
        {"tags": ["x"] * 17 + [f"{n}" for n in range(17)]},
        {"tags": [""]},
        {"meta": {"a": float("nan")}},
        {"meta": {"a": "x" * 3000}},
        {"author": "two\nlines"},
        {"turn": "x" * 300},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is the fault
        {"until": "tomorrow"},
    ],
    ids=str,
)
def test_bad_filter_is_refused_by_name_and_forgets_nothing(memory: Memory, condition: dict[str, Any]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: memory.get("plan", **condition),
        lambda: memory.list(**condition),
        lambda: memory.forget(**condition),
    ]
    for call in calls:
        with pytest.raises(errors.Invalid):
            call()
    assert len(memory.list().lines) == len(LINES)


@pytest.mark.requirement("filters-bad")
def test_forget_by_a_meta_without_members_is_refused_and_forgets_nothing(memory: Memory) -> None:
    conditions: list[dict[str, Any]] = [{"meta": {}}, {"meta": {}, "tags": ()}]
    for nothing in conditions:
        with pytest.raises(errors.InvalidRequest):
            memory.forget(**nothing)
    assert len(memory.list().lines) == len(LINES)
    assert len(memory.list(meta={}).lines) == len(LINES)


@pytest.mark.requirement("filters-bad")
def test_get_by_ids_takes_no_filter(memory: Memory) -> None:
    (line, *_) = memory.list().lines
    for condition in (*FILTERS.values(), {"from_session": "s"}):
        with pytest.raises(errors.InvalidRequest):
            memory.get(ids=[line.id], **condition)


WORDS = st.lists(st.sampled_from(["plan", "trip", "heron", "box", "anna", "2026", "may"]), min_size=1, max_size=6).map(
    " ".join
)


@pytest.mark.requirement("filters-blind")
@settings(max_examples=40, deadline=None)
@given(meant=st.lists(WORDS, min_size=1, max_size=6), others=st.lists(WORDS, max_size=8), query=WORDS)
def test_lines_that_a_filter_leaves_out_change_no_byte_of_an_answer(
    meant: list[str], others: list[str], query: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import strongroom
    from strongroom import FileKeys

    place = tmp_path_factory.mktemp("blind")
    ids = [f"01JABCDEFGHJKMNPQRSTVWXY{n:02d}" for n in range(20)]
    with strongroom.create(place / "vault", keys=FileKeys(place / "keys")) as vault:
        cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["work"], ttl=3600)
        memory = vault.memory(cap)
        memory.put_many([NewLine(text=text, id=ids[n], tags=("in",), time=MAY[3]) for n, text in enumerate(meant)])
        alone = memory.get(query, tags=["in"], k=20, now=MAY[20])
        if others:
            memory.put_many([NewLine(text=text, tags=("out",), time=MAY[4]) for text in others])
        beside = memory.get(query, tags=["in"], k=20, now=MAY[20])
        assert beside == alone
        memory.forget(tags=["out"])
        assert memory.get(query, tags=["in"], k=20, now=MAY[20]) == alone


@pytest.mark.requirement("list-texts")
def test_list_with_texts_needs_a_cap_for_both_and_is_on_record_as_a_read(vault: Vault, memory: Memory) -> None:
    for ops in (["list"], ["get"]):
        narrow = vault.memory(vault.mint(actor="local/alice", ops=ops, namespaces=["work"], ttl=60))
        with pytest.raises(errors.CapOpMismatch):
            narrow.list(texts=True)
    page = memory.list(texts=True)
    *_, (_, entry) = [one for one in vault.audit.entries() if one[1] is not None]
    assert entry is not None
    assert (entry.op, entry.lines) == ("get", tuple(line.id for line in page.lines))
    memory.list()
    *_, (_, entry) = [one for one in vault.audit.entries() if one[1] is not None]
    assert entry is not None
    assert (entry.op, entry.lines, entry.count) == ("list", (), len(LINES))


@pytest.mark.requirement("list-texts")
def test_list_with_texts_gives_max_k_lines_a_page_and_all_of_them_by_pages(vault: Vault, memory: Memory) -> None:
    cap = vault.mint(actor="local/alice", ops=["list", "get"], namespaces=["work"], ttl=60, max_k=3)
    narrow = vault.memory(cap)
    seen: list[str] = []
    after = None
    while True:
        page = narrow.list(texts=True, after=after)
        assert len(page.lines) <= 3
        seen += [line.text or "" for line in page.lines]
        memory.put(
            f"written meanwhile {len(seen)}", namespace="work", id="01AAAAAAAAAAAAAAAAAAAAAA" + f"{len(seen):02d}"
        )
        after = page.next
        if after is None:
            break
    assert seen == [f"the plan {n}" for n in range(len(LINES))]
    assert len(narrow.list(limit=100).lines) > 3, "without texts the cap's limit does not count"


@pytest.mark.requirement("list-texts")
def test_list_with_texts_ends_a_page_at_a_mebibyte(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    for _ in range(2):
        memory.put_many([NewLine(text="x" * 32_000, namespace="travel") for _ in range(20)])
    page = memory.list(namespaces=["travel"], texts=True, limit=1000)
    assert len(page.lines) == 1024 * 1024 // 32_000
    rest = memory.list(namespaces=["travel"], texts=True, limit=1000, after=page.next)
    assert (len(page.lines) + len(rest.lines), rest.next) == (40, None)


@pytest.mark.requirement("filters")
def test_filter_is_let_go_of_with_its_shelf(vault: Vault, memory: Memory) -> None:
    memory.get("plan", tags=["trip"])
    (shelf,) = vault._state.shelves.loaded()
    held = weakref.ref(shelf.filtered)
    memory.erase(["work"])
    del shelf
    memory.get("plan")
    gc.collect()
    assert held() is None
