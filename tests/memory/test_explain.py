"""Explained recalls: every candidate with its reasons, each of them a read, and nothing about what the cap denies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault, engines, errors
from strongroom.memory.ops.explain import CANDIDATES
from strongroom.model import ANSWER_LIMIT, Hit, Why
from tests.conftest import NAMESPACES, Clock
from tests.memory.word_share_engine import DAY, RARE, STANDING, TEXTS, WordShare, fill, owner, reads

UNKNOWN = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def cuts(hits: list[Hit]) -> list[tuple[str, int, str]]:
    return [(hit.text, hit.why.rank, hit.why.cut) for hit in hits if hit.why is not None]


def line_of(vault: Vault, text: str, namespace: str = "travel") -> str:
    return vault.memory(owner(vault)).put(text, namespace=namespace, time=DAY).id


# Refusals.


@pytest.mark.requirement("explain-denied")
def test_explaining_a_line_outside_the_cap_is_answered_like_an_unknown_id(judged: Vault, word_share: WordShare) -> None:
    fill(judged)
    secret = line_of(judged, "trip with peanuts", "personal")
    travel = judged.memory(owner(judged, ["travel"]))
    answers = set()
    for name in (secret, UNKNOWN):
        word_share.asked.clear()
        with pytest.raises(errors.LineNotFound) as refused:
            travel.get("trip", ids=[name], explain=True)
        answers.add((refused.value.reason, refused.value.message, refused.value.hint))
        assert word_share.asked == [], "nothing is ranked for either, so that the time says nothing"
    with pytest.raises(errors.LineNotFound) as plain:
        travel.get(ids=[UNKNOWN])
    assert answers == {(plain.value.reason, plain.value.message, plain.value.hint)}
    entries = [entry for _, entry in judged.audit.entries() if entry is not None and entry.op == "get"]
    assert {(entry.decision, entry.reason, entry.lines) for entry in entries[-3:]} == {("deny", "not_found", ())}


@pytest.mark.requirement("explain-denied")
@pytest.mark.parametrize("more", [{}, {"ids": [UNKNOWN]}])
def test_explaining_needs_a_cap_that_reads_and_the_namespace(judged: Vault, more: dict[str, Any]) -> None:
    fill(judged)
    for ops, namespaces, error in (
        (["list"], ["travel"], errors.CapOpMismatch),
        (["get"], ["work"], errors.CapNamespaceDenied),
    ):
        cap = judged.mint(actor="local/alice", ops=ops, namespaces=namespaces, ttl=60)
        with pytest.raises(error):
            judged.memory(cap).get("trip", namespaces=["travel"], explain=True, **more)


@pytest.mark.requirement("explain-denied")
def test_explanation_keeps_to_the_caps_limit(judged: Vault) -> None:
    fill(judged)
    cap = judged.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=60, max_k=1)
    narrow = judged.memory(cap)
    assert len(narrow.get("trip", explain=True, min_confidence=1)) == 1
    assert len(narrow.get("peanuts", explain=True, or_newest=True)) == 1
    with pytest.raises(errors.CapLimitExceeded):
        narrow.get("trip", k=2, explain=True)
    ids = [line.id for line in judged.memory(owner(judged)).list().lines]
    with pytest.raises(errors.CapLimitExceeded):
        narrow.get("trip", ids=ids[:2], explain=True)


@pytest.mark.requirement("explain-bad")
@pytest.mark.parametrize("query", ["", " \n\t"])
def test_explanation_without_a_query_is_refused(judged_memory: Memory, query: str) -> None:
    (line, *_) = judged_memory.list().lines
    for more in ({}, {"ids": [line.id]}, {"ids": [UNKNOWN]}, {"author": "alice"}):
        with pytest.raises(errors.InvalidRequest) as refused:
            judged_memory.get(query, explain=True, **more)
        assert "needs a query" in refused.value.message


@pytest.mark.requirement("explain-bad")
def test_bad_query_of_an_explanation_by_ids_is_refused(judged_memory: Memory) -> None:
    (line, *_) = judged_memory.list().lines
    with pytest.raises(errors.LineTooLarge):
        judged_memory.get("x" * 9000, ids=[line.id], explain=True)
    with pytest.raises(errors.InvalidRequest):
        judged_memory.get("trip", ids=[line.id], explain=True, without=[line.id])
    assert judged_memory.get("x" * 9000, ids=[line.id])[0].id == line.id, "a plain get by ids has no use for a query"


@pytest.mark.requirement("explain-bad")
def test_engine_that_explains_by_what_is_no_number_is_stopped(
    tmp_path: Path, keys: FileKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(WordShare):
        def explain(self, *asked: Any) -> Any:
            return {place: {"words": float("nan")} for place in super().explain(*asked)}

    monkeypatch.setattr(engines, "load", lambda _: Odd())
    with strongroom.create(tmp_path / "odd", keys=keys) as vault:
        fill(vault)
        with pytest.raises(RuntimeError):
            vault.memory(owner(vault)).get("trip", explain=True)


# Candidates.


@pytest.mark.requirement("explain")
def test_explanation_has_every_candidate_in_rank_order_with_what_cuts_it(judged: Vault, judged_memory: Memory) -> None:
    shown = judged_memory.get("chengdu", k=1)[0].id
    found = judged_memory.get("boat trip", explain=True, min_confidence=0.6, without=[shown])
    assert cuts(found) == [("boat trip on the lake", 1, ""), ("trip to Chengdu", 2, "shown"), (STANDING, 3, "")]
    floor = judged_memory.get("boat trip", explain=True, min_confidence=0.6)
    assert {text: cut for text, _, cut in cuts(floor)} == {
        "boat trip on the lake": "",
        STANDING: "",
        "trip to Chengdu": "floor",
    }
    assert reads(judged)[-1] == tuple(hit.id for hit in floor)


@pytest.mark.requirement("explain")
def test_lines_that_are_not_cut_are_those_of_the_plain_recall(judged_memory: Memory) -> None:
    for more in ({}, {"min_confidence": 0.6}, {"k": 1}, {"kind": "note"}, {"until": DAY + timedelta(days=1)}):
        plain = judged_memory.get("boat trip", **more)
        explained = judged_memory.get("boat trip", explain=True, **more)
        kept = [hit for hit in explained if hit.why is not None and not hit.why.cut]
        assert [(hit.id, hit.score, hit.confidence) for hit in kept] == [
            (hit.id, hit.score, hit.confidence) for hit in plain
        ]


@pytest.mark.requirement("explain")
def test_signals_are_the_engines_shares_of_the_score(judged_memory: Memory) -> None:
    (boat, *_) = judged_memory.get("boat trip", explain=True)
    assert boat.why == Why({"words": 2.0, "rare": RARE}, 1)
    assert sum(boat.why.signals.values()) == boat.score


@pytest.mark.requirement("explain", "recall-newest")
def test_choices_of_a_recall_are_the_same_with_await(judged_memory: Memory) -> None:
    async def ask(awaited: strongroom.AsyncMemory) -> list[list[Hit]]:
        return [
            await awaited.get("boat trip", explain=True),
            await awaited.get("boat trip", min_confidence=0.6),
            await awaited.get("boat trip", or_newest=True),
        ]

    assert asyncio.run(ask(strongroom.AsyncMemory(judged_memory))) == [
        judged_memory.get("boat trip", explain=True),
        judged_memory.get("boat trip", min_confidence=0.6),
        judged_memory.get("boat trip", or_newest=True),
    ]


@pytest.mark.requirement("explain")
@pytest.mark.parametrize("name", ["recency"])
def test_engine_that_cannot_explain_leaves_the_signals_empty(
    tmp_path: Path, keys: FileKeys, clock: Clock, name: str
) -> None:
    with strongroom.create(tmp_path / name, keys=keys, now=clock, engine=name) as vault:
        fill(vault)
        found = vault.memory(owner(vault)).get("trip", explain=True)
        assert [hit.why for hit in found] == [Why({}, 1), Why({}, 2)]


@pytest.mark.requirement("explain")
def test_candidate_that_an_answer_has_no_room_for_is_marked_and_has_no_text(vault: Vault) -> None:
    memory = vault.memory(owner(vault))
    memory.put_many([NewLine(text=f"boat {n} " + "x" * 30_000, namespace="work") for n in range(4)])
    found = memory.get("boat", k=4, explain=True)
    assert [one[1:] for one in cuts(found)] == [(1, ""), (2, ""), (3, "budget"), (4, "budget")]
    assert [bool(hit.text) for hit in found] == [True, True, False, False]
    assert sum(len(hit.text.encode()) for hit in found) <= ANSWER_LIMIT
    assert reads(vault)[-1] == tuple(hit.id for hit in found)
    assert len(memory.get("boat", k=4)) == 2


@pytest.mark.requirement("explain")
def test_newest_lines_of_an_explanation_follow_the_candidates_and_have_no_rank(judged: Vault) -> None:
    memory = judged.memory(owner(judged))
    memory.put_many(
        [NewLine(text=text, namespace="travel", time=DAY + timedelta(days=n)) for n, text in enumerate(TEXTS[:4])]
    )
    found = memory.get("trip by train", explain=True, min_confidence=0.9, or_newest=True, k=3)
    assert cuts(found) == [(TEXTS[1], 1, "floor"), (TEXTS[0], 2, "floor"), (TEXTS[3], 0, "")]
    assert memory.get("trip", k=0, explain=True) == []


# Lines named by their ids.


@pytest.mark.requirement("explain")
def test_line_named_by_its_id_is_explained_wherever_it_ranks(judged: Vault, judged_memory: Memory) -> None:
    ids = {text: line.id for line in judged_memory.list(texts=True).lines if (text := line.text)}
    wanted = [ids["seat: 12A"], ids["trip to Chengdu"], ids["boat trip on the lake"]]
    found = judged_memory.get("boat trip", ids=wanted, explain=True, min_confidence=0.6)
    assert [hit.id for hit in found] == wanted
    assert [one[2] for one in cuts(found)] == ["floor", "floor", ""]
    seat, chengdu, boat = (hit.why for hit in found if hit.why is not None)
    assert (seat.rank, seat.signals) == (0, {"words": 0.0, "rare": 0.0})
    assert (found[0].score, found[0].confidence) == (0.0, 0.0)
    assert boat.rank < chengdu.rank
    assert (chengdu.signals, found[1].confidence) == ({"words": 1.0, "rare": 0.0}, 0.5)
    assert reads(judged)[-1] == tuple(wanted)


@pytest.mark.requirement("explain")
def test_line_behind_the_candidates_has_no_rank(vault: Vault) -> None:
    memory = vault.memory(owner(vault))
    memory.put_many(
        [
            NewLine(text=f"boat {n}", namespace="work", time=DAY + timedelta(minutes=n))
            for n in range(2 * CANDIDATES + 1)
        ]
    )
    best, *_ = memory.get("boat", k=1)
    assert memory.get("boat", ids=[best.id], explain=True)[0].why == Why(
        memory.get("boat", k=1, explain=True)[0].why.signals,  # type: ignore[union-attr]
        1,
    )
    ranks = [
        hit.why.rank
        for line in memory.list(limit=1000).lines
        for hit in memory.get("boat", ids=[line.id], explain=True)
        if hit.why is not None
    ]
    assert sorted(rank for rank in ranks if rank) == list(range(1, CANDIDATES + 1))


# Denied namespaces.

WORDS = st.lists(st.sampled_from(["trip", "boat", "seat:", "always", "lake", "Chengdu"]), min_size=1, max_size=5)


@pytest.mark.requirement("explain-denied")
@pytest.mark.parametrize("name", ["lexical", "word-share"])
def test_denied_namespace_changes_no_score_confidence_signal_or_rank_of_an_explanation(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    load = engines.load
    monkeypatch.setattr(engines, "load", lambda wanted: WordShare() if name == "word-share" else load(wanted))

    @settings(max_examples=25, deadline=None)
    @given(meant=st.lists(WORDS, min_size=1, max_size=6), others=st.lists(WORDS, min_size=1, max_size=8), query=WORDS)
    def prove(meant: list[list[str]], others: list[list[str]], query: list[str]) -> None:
        place = tmp_path_factory.mktemp("denied")
        with strongroom.create(place / "vault", keys=FileKeys(place / "keys")) as vault:
            everything = vault.memory(owner(vault))
            travel = vault.memory(owner(vault, ["travel"]))
            lines = [NewLine(text=" ".join(words), author="a", time=DAY, namespace="travel") for words in meant]
            ids = [receipt.id for receipt in everything.put_many(lines)]

            def explained() -> list[list[Hit]]:
                asked = " ".join(query)
                best = travel.get(asked, explain=True, min_confidence=0.5, k=20, now=DAY)
                newest = travel.get(f"peanuts {asked}", explain=True, or_newest=True, k=20, now=DAY)
                return [best, newest, travel.get(asked, explain=True, ids=ids, now=DAY)]

            alone = explained()
            others_said = [" ".join(words) for words in others]
            everything.put_many(
                [
                    NewLine(text=text, author="a", time=DAY + timedelta(days=n), namespace=NAMESPACES[n % 3])
                    for n, text in enumerate(others_said)
                ]
            )
            assert explained() == alone

    prove()
