"""Recall that returns matches only: the floor of confidence, and the newest lines where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, engines, errors
from strongroom.engines import Ranked
from tests.conftest import Clock
from tests.memory.word_share_engine import DAY, STANDING, TEXTS, WordShare, WordShareIndex, fill, owner, reads, texts

# Refusals.


@pytest.mark.requirement("recall-confidence-bad")
@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan"), float("inf"), -float("inf"), True, "0.5", [], 10**400])
def test_floor_that_is_no_number_from_0_to_1_is_refused_by_name(judged_memory: Memory, floor: Any) -> None:
    for more in ({}, {"explain": True}, {"k": 0}):
        with pytest.raises(errors.InvalidRequest) as refused:
            judged_memory.get("trip", min_confidence=floor, **more)
        assert "min_confidence" in refused.value.message


@pytest.mark.requirement("recall-confidence-bad")
@pytest.mark.parametrize("name", ["or_newest", "explain"])
@pytest.mark.parametrize("value", [1, 0, "yes", "", None, [True]])
def test_flag_that_is_no_bool_is_refused_by_name(judged_memory: Memory, name: str, value: Any) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        judged_memory.get("trip", **{name: value})
    assert name in refused.value.message


@pytest.mark.requirement("recall-confidence-bad")
def test_ids_take_no_newest_lines_and_no_floor_without_an_explanation(judged_memory: Memory) -> None:
    (line, *_) = judged_memory.list().lines
    for more in ({"or_newest": True}, {"min_confidence": 0.5}, {"or_newest": True, "explain": True}):
        with pytest.raises(errors.InvalidRequest) as refused:
            judged_memory.get("trip", ids=[line.id], **more)
        assert "exclude each other" in refused.value.message


@pytest.mark.requirement("recall-newest-denied")
def test_newest_lines_of_a_denied_namespace_are_denied_and_never_come(vault: Vault) -> None:
    fill(vault)
    vault.memory(owner(vault)).put("the newest of all", namespace="personal")
    travel = vault.memory(owner(vault, ["travel"]))
    assert texts(travel.get("peanuts", k=20, or_newest=True)) == list(reversed(TEXTS))
    for more in ({"or_newest": True}, {"explain": True}, {"min_confidence": 0.5}):
        with pytest.raises(errors.CapNamespaceDenied):
            travel.get("newest", namespaces=["personal"], **more)


@pytest.mark.requirement("recall-newest-denied")
def test_newest_lines_keep_to_the_caps_limit(vault: Vault) -> None:
    fill(vault)
    cap = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=60, max_k=2)
    memory = vault.memory(cap)
    assert len(memory.get("peanuts", or_newest=True)) == 2
    with pytest.raises(errors.CapLimitExceeded):
        memory.get("peanuts", k=3, or_newest=True)


class _Boasting(WordShare):
    """An engine with a confidence, or a later line, that cannot be."""

    said: dict[str, Any] = {}  # noqa: RUF012 - set by the test

    def rank(self, query: str, indexes: Any, k: int, now: datetime) -> list[Ranked]:
        return [Ranked(one.line, one.score, **self.said) for one in super().rank(query, indexes, k, now)]


@pytest.mark.requirement("recall-confidence-bad")
@pytest.mark.parametrize(
    "said", [{"confidence": 1.5}, {"confidence": float("nan")}, {"superseded_by": "01JABCDEFGHJKMNPQRSTVWXYZ0"}]
)
def test_engine_that_says_what_cannot_be_is_stopped(
    tmp_path: Path, keys: FileKeys, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    engine = _Boasting()
    engine.said = said
    monkeypatch.setattr(engines, "load", lambda _: engine)
    with strongroom.create(tmp_path / "boasting", keys=keys) as vault:
        fill(vault)
        with pytest.raises(RuntimeError):
            vault.memory(owner(vault)).get("trip")
        assert reads(vault)[-1] == ()


# Matches only.


@pytest.mark.requirement("recall-matches-only")
@pytest.mark.parametrize("name", ["lexical", "recency"])
def test_line_that_does_not_match_is_not_returned_and_not_logged_as_read(
    tmp_path: Path, keys: FileKeys, clock: Clock, name: str
) -> None:
    with strongroom.create(tmp_path / name, keys=keys, now=clock, engine=name) as vault:
        fill(vault)
        memory = vault.memory(owner(vault))
        assert memory.get("peanuts") == []
        assert memory.get("peanuts", author="alice", k=20) == []
        assert reads(vault) == [(), ()]
        assert texts(memory.get("Chengdu")) == ["trip to Chengdu"]


@pytest.mark.requirement("recall-matches-only")
@pytest.mark.parametrize("name", ["lexical", "recency"])
@pytest.mark.parametrize("query", ["", "  \n"])
def test_empty_query_gives_the_newest_lines_that_the_filter_allows(
    tmp_path: Path, keys: FileKeys, clock: Clock, name: str, query: str
) -> None:
    with strongroom.create(tmp_path / name, keys=keys, now=clock, engine=name) as vault:
        fill(vault)
        memory = vault.memory(owner(vault))
        found = memory.get(query, k=3)
        assert texts(found) == list(TEXTS[:1:-1])
        assert {(hit.score, hit.confidence) for hit in found} == {(0.0, 1.0)}
        assert texts(memory.get(query, until=DAY + timedelta(days=2))) == [TEXTS[1], TEXTS[0]]
        assert texts(memory.get(query, k=2, without=[found[0].id])) == [TEXTS[3], TEXTS[2]]


@pytest.mark.requirement("recall-matches-only")
def test_engine_of_before_that_gives_the_newest_lines_a_score_of_0_returns_none_of_them(
    tmp_path: Path, keys: FileKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old(WordShare):
        def rank(self, query: str, indexes: Any, k: int, now: datetime) -> list[Ranked]:
            every = [line for index in indexes for line in index.lines.values()]
            return [*super().rank(query, indexes, k, now)] or [Ranked(line, 0.0) for line in every][:k]

    monkeypatch.setattr(engines, "load", lambda _: Old())
    with strongroom.create(tmp_path / "old", keys=keys) as vault:
        vault.memory(owner(vault)).put("trip to Chengdu", namespace="travel")
        assert vault.memory(owner(vault)).get("peanuts") == []
        assert len(vault.memory(owner(vault)).get("trip")) == 1


# The floor.


@pytest.mark.requirement("recall-confidence")
def test_hit_says_its_confidence_the_later_line_and_whether_it_stands(judged_memory: Memory) -> None:
    hits = {hit.text: hit for hit in judged_memory.get("my seat on the trip", k=20)}
    assert hits["seat: 12A"].superseded_by == hits["seat: 14C"].id
    assert hits["seat: 14C"].superseded_by is None
    assert (hits["seat: 14C"].confidence, hits["trip to Chengdu"].confidence) == (0.2, 0.2)
    assert [hit.text for hit in hits.values() if hit.standing] == [STANDING]
    assert all(hit.why is None for hit in hits.values())


@pytest.mark.requirement("recall-confidence")
def test_line_below_the_floor_is_not_returned_and_not_logged_as_read(judged: Vault, judged_memory: Memory) -> None:
    every = judged_memory.get("boat trip")
    assert {hit.text: hit.confidence for hit in every} == {
        "boat trip on the lake": 1.0,
        STANDING: 1.0,
        "trip to Chengdu": 0.5,
    }
    sure = judged_memory.get("boat trip", min_confidence=0.6)
    assert set(texts(sure)) == {"boat trip on the lake", STANDING}
    assert reads(judged)[-1] == tuple(hit.id for hit in sure)
    assert texts(judged_memory.get("boat trip", min_confidence=0.5)) == texts(every)
    for floor in (0, 0.0, None):
        assert judged_memory.get("boat trip", min_confidence=floor) == every


# The newest lines.


@pytest.mark.requirement("recall-newest")
@pytest.mark.parametrize("name", ["lexical", "recency"])
def test_newest_lines_come_only_where_nothing_matches_with_a_score_and_a_confidence_of_0(
    tmp_path: Path, keys: FileKeys, clock: Clock, name: str
) -> None:
    with strongroom.create(tmp_path / name, keys=keys, now=clock, engine=name) as vault:
        fill(vault)
        memory = vault.memory(owner(vault))
        found = memory.get("peanuts", k=2, or_newest=True)
        assert texts(found) == [TEXTS[4], TEXTS[3]]
        assert {(hit.score, hit.confidence) for hit in found} == {(0.0, 0.0)}
        assert reads(vault)[-1] == tuple(hit.id for hit in found)
        assert memory.get("Chengdu", or_newest=True) == memory.get("Chengdu")
        assert memory.get("peanuts", k=0, or_newest=True) == []


@pytest.mark.requirement("recall-newest")
def test_newest_lines_are_those_that_the_filter_and_without_allow(vault: Vault, cap: Token) -> None:
    fill(vault)
    memory = vault.memory(cap)
    memory.put("a note of bo", namespace="work", author="bo", time=DAY + timedelta(days=9))
    found = memory.get("peanuts", k=2, or_newest=True, author="alice")
    assert texts(found) == [TEXTS[4], TEXTS[3]]
    assert texts(memory.get("peanuts", k=1, or_newest=True)) == ["a note of bo"]
    left_out = [found[0].id]
    assert texts(memory.get("peanuts", k=2, or_newest=True, author="alice", without=left_out)) == [TEXTS[3], TEXTS[2]]


@pytest.mark.requirement("recall-newest")
def test_newest_lines_do_not_take_the_places_of_matches_that_are_left_out(judged_memory: Memory) -> None:
    shown = [hit.id for hit in judged_memory.get("chengdu")]
    assert judged_memory.get("chengdu", or_newest=True, without=shown) == []


@pytest.mark.requirement("recall-newest")
def test_newest_lines_follow_standing_lines_that_match_no_word(judged_memory: Memory) -> None:
    found = judged_memory.get("peanuts", k=3, or_newest=True)
    assert [(hit.text, hit.score, hit.confidence) for hit in found] == [
        (STANDING, 0.0, 1.0),
        (TEXTS[4], 0.0, 0.0),
        (TEXTS[3], 0.0, 0.0),
    ]
    assert [hit.why.rank for hit in judged_memory.get("peanuts", k=3, or_newest=True, explain=True) if hit.why] == [
        1,
        0,
        0,
    ]


@pytest.mark.requirement("recall-newest")
def test_matches_below_the_floor_count_as_none(judged: Vault) -> None:
    judged.memory(owner(judged)).put_many(
        [NewLine(text=text, namespace="travel", time=DAY + timedelta(days=n)) for n, text in enumerate(TEXTS[:2])]
    )
    memory = judged.memory(owner(judged))
    found = memory.get("trip by train", min_confidence=0.9, or_newest=True, k=1)
    assert [(hit.text, hit.confidence) for hit in found] == [(TEXTS[1], 0.0)]


@pytest.mark.requirement("recall-newest")
def test_order_of_the_newest_lines_follows_what_is_put_and_forgotten(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)

    def newest() -> list[str]:
        return texts(memory.get("peanuts", k=20, or_newest=True))

    assert newest() == []
    fill(vault)
    assert newest() == list(reversed(TEXTS))
    memory.put("older", namespace="work", time=DAY - timedelta(days=1))
    between = memory.put("between", namespace="travel", time=DAY + timedelta(hours=36))
    assert newest() == [*reversed(TEXTS[2:]), "between", TEXTS[1], TEXTS[0], "older"]
    memory.forget(ids=[between.id])
    assert newest() == [*reversed(TEXTS), "older"]
    (line,) = memory.get(ids=[memory.get("Chengdu")[0].id])
    memory.replace(line.id, "trip to Xi'an", namespace="travel")
    assert newest()[0] == "trip to Xi'an"
    assert "trip to Chengdu" not in newest()


@pytest.mark.requirement("recall-newest")
def test_newest_lines_are_the_same_after_the_vault_was_opened_again(
    vault: Vault, cap: Token, reopen: Callable[[], Vault]
) -> None:
    fill(vault)
    before = vault.memory(cap).get("peanuts", k=20, or_newest=True)
    vault.close()
    assert reopen().memory(cap).get("peanuts", k=20, or_newest=True) == before


def test_index_of_the_engine_for_tests_forgets_a_line(judged: Vault) -> None:
    fill(judged)
    memory = judged.memory(owner(judged))
    memory.forget(author="alice")
    assert memory.get("trip seat", k=20, or_newest=True) == []
    (shelf,) = judged._state.shelves.loaded()
    assert isinstance(shelf.index, WordShareIndex)
    assert shelf.index.lines == {}
