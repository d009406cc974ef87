"""The recall sets with a form of their own are as bench/sets/README.md describes them; nothing is recalled here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from bench.evaldata import SETS

pytestmark = pytest.mark.requirement("recall-bench")

CHANGED_FACTS = ("changed_facts", "changed_facts_b")
STANDING = ("standing", "standing_b")


def _read(name: str) -> dict[str, Any]:
    return dict(json.loads((SETS / f"{name}.json").read_bytes()))


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    assert moment.utcoffset() == timedelta(), f"{text} is not in UTC"
    return moment


def _check_lines(lines: Sequence[Mapping[str, str]], now: str) -> None:
    """Lines are complete, in order of time, told before `now`, and each is told once."""
    times = [_moment(line["time"]) for line in lines]
    assert times == sorted(times)
    assert times[-1] < _moment(now)
    assert {line["author"] for line in lines} == {"user", "assistant"}
    assert all(line["session"] and line["text"].strip() == line["text"] != "" for line in lines)
    assert len({line["text"] for line in lines}) == len(lines)


def _check_unique(rows: Sequence[Mapping[str, Any]]) -> None:
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == len(ids)


def _told(node: Any) -> set[str]:
    """The texts, questions and ids anywhere in a set."""
    if isinstance(node, list):
        return {text for one in node for text in _told(one)}
    if not isinstance(node, dict):
        return set()
    own = {node[key] for key in ("text", "question", "id") if key in node}
    return own.union(*(_told(value) for value in node.values()))


@pytest.mark.parametrize("name", CHANGED_FACTS)
def test_changed_facts_are_sixty_of_four_kinds(name: str) -> None:
    cases = _read(name)["cases"]
    _check_unique(cases)
    assert Counter(case["kind"] for case in cases) == {"plain": 20, "corrected": 20, "loose": 10, "other": 10}


@pytest.mark.parametrize("name", CHANGED_FACTS)
def test_changed_facts_name_lines_of_the_user_in_the_order_of_their_kind(name: str) -> None:
    for case in _read(name)["cases"]:
        lines, old, new = case["lines"], case["old"], case["new"]
        assert 6 <= len(lines) <= 14, case["id"]
        _check_lines(lines, case["now"])
        assert old, case["id"]
        assert {lines[at]["author"] for at in (*old, new)} == {"user"}, case["id"]
        earlier = new < min(old) if case["kind"] == "other" else max(old) < new
        assert earlier, case["id"]


@pytest.mark.parametrize("name", STANDING)
def test_standing_instructions_are_ten_in_each_of_six_histories(name: str) -> None:
    histories = _read(name)["histories"]
    _check_unique(histories)
    _check_unique([line for history in histories for line in history["lines"]])
    assert len(histories) == 6
    for history in histories:
        spoken = {line["id"] for line in history["lines"] if line["author"] == "user"}
        assert len(set(history["standing"])) == 10
        assert set(history["general"]) <= set(history["standing"]) <= spoken


@pytest.mark.parametrize("name", STANDING)
def test_standing_cases_have_one_instruction_of_their_history(name: str) -> None:
    read = _read(name)
    histories = {history["id"]: history for history in read["histories"]}
    cases, counter = read["cases"], read["counter"]
    _check_unique([*cases, *counter])
    assert (len(cases), len(counter)) == (60, 30)
    assert len({gold for case in cases for gold in case["gold"]}) == 60
    for case in cases:
        history, (gold,) = histories[case["history"]], case["gold"]
        assert gold in history["standing"], case["id"]
        assert case.get("general", False) == (gold in history["general"]), case["id"]
    for asked in (*cases, *counter):
        _check_lines(histories[asked["history"]]["lines"], asked["now"])


@pytest.mark.parametrize(("first", "second"), [CHANGED_FACTS, STANDING])
def test_second_sets_share_no_line_question_or_id_with_the_first(first: str, second: str) -> None:
    told, told_again = (_told(_read(name)) for name in (first, second))
    assert not told & told_again


def test_conversation_has_sixty_turns_of_six_kinds_after_a_hundred_lines() -> None:
    read = _read("hermes_conversation")
    stored, filler, turns = read["stored"], read["filler"], read["turns"]
    assert (len(stored), len(filler)) == (100, 900)
    _check_unique([*stored, *filler])
    assert len({line["text"] for line in (*stored, *filler)}) == 1000
    _check_unique(turns)
    assert Counter(turn["kind"] for turn in turns) == {
        "past": 15,
        "here": 5,
        "small": 10,
        "task": 15,
        "fact": 10,
        "preference": 5,
    }
    for lines in (stored, filler):
        _check_lines(lines, turns[0]["time"])
    times = [_moment(turn["time"]) for turn in turns]
    assert times == sorted(times)


def test_conversation_turns_name_at_most_twenty_stored_lines() -> None:
    read = _read("hermes_conversation")
    stored = {line["id"] for line in read["stored"]}
    told: dict[str, str] = {}
    for turn in read["turns"]:
        gold, fits = set(turn["gold"]), set(turn["fits"])
        assert turn["user"], turn["id"]
        assert turn["reply"], turn["id"]
        assert gold <= fits <= stored, turn["id"]
        assert bool(gold) == (turn["kind"] in {"past", "preference"}), turn["id"]
        assert len(gold) <= 3, turn["id"]
        assert ("told" in turn) == (turn["kind"] == "here"), turn["id"]
        assert turn.get("told") is None or told[turn["told"]] == "fact", turn["id"]
        told[turn["id"]] = turn["kind"]
    assert len({line for turn in read["turns"] for line in turn["gold"]}) <= 20


def test_silence_has_twenty_questions_of_either_kind_in_each_pool() -> None:
    pools = _read("silence")["pools"]
    _check_unique(pools)
    _check_unique([line for pool in pools for line in pool["lines"]])
    _check_unique([question for pool in pools for question in pool["questions"]])
    assert len(pools) == 5
    for pool in pools:
        lines = {line["id"] for line in pool["lines"]}
        assert 75 <= len(lines) <= 85, pool["id"]
        assert Counter(bool(question["gold"]) for question in pool["questions"]) == {True: 20, False: 20}
        for question in pool["questions"]:
            assert set(question["gold"]) <= lines, question["id"]
            _check_lines(pool["lines"], question["now"])


def test_languages_have_twelve_pairs_each_with_its_gold_in_the_pool() -> None:
    pools = _read("languages")["pools"]
    assert [pool["language"] for pool in pools] == ["de", "fr", "es", "it", "pt", "ru", "tr", "el", "ar", "zh"]
    _check_unique([line for pool in pools for line in pool["lines"]])
    _check_unique([question for pool in pools for question in pool["questions"]])
    for pool in pools:
        lines = {line["id"] for line in pool["lines"]}
        assert len(lines) >= 40, pool["language"]
        assert len({gold for question in pool["questions"] for gold in question["gold"]}) == 12
        for question in pool["questions"]:
            (gold,) = question["gold"]
            assert gold in lines, question["id"]
            _check_lines(pool["lines"], question["now"])
