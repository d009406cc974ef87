"""The rows of recall on further sets: their loading, their own arithmetic and calibration, on tiny hand-made data."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench import calibration, formed_sets, packed_sets, rankers, recall, recall_forms, scores, silence
from bench.evaldata import Pool, Question, new_line
from bench.measure import Run
from bench.rankers import Answered
from bench.scores import OURS, Score

from strongroom.engines import Ranked
from strongroom.model import Line, LineId

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def _line(name: str) -> Line:
    return new_line(0, START, "s1", "user", "something", name)


def _ids(*names: str) -> frozenset[LineId]:
    return frozenset(map(LineId, names))


def _write_packed(directory: Path) -> None:
    turns = [[["I moved", "user", 0.0], ["Where to?", "assistant", 1.5]], [["To Graz", "user", 0.0]]]
    asked = {"question": "where?", "now": "2026-03-02T10:00:00Z", "gold": [[1, 0], [0, 0]], "kind": "where", "id": "1"}
    sessions = [["s1", 0, "2026-03-01T10:00:00Z"], ["s2", 1, "2026-03-02T09:00:00Z"]]
    pools = [{"name": "one", "sessions": sessions, "questions": [asked, asked | {"gold": []}, asked | {"kind": "the"}]}]
    with lzma.open(directory / "friendsqa_dev.json.xz", "wb") as file:
        file.write(json.dumps({"turns": turns, "pools": pools}).encode())


def test_packed_set_leaves_out_questions_without_gold_and_joins_rare_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_packed(tmp_path)
    monkeypatch.setenv("EVAL_DIR", str(tmp_path))
    (pool,) = packed_sets.friendsqa()
    assert [(line.session, line.author, line.text) for line in pool.lines] == [
        ("s1", "user", "I moved"),
        ("s1", "assistant", "Where to?"),
        ("s2", "user", "To Graz"),
    ]
    assert pool.lines[1].time - pool.lines[0].time == 1500
    assert [question.kind for question in pool.questions] == ["where", "other"]
    assert pool.questions[0].gold == {pool.lines[0].id, pool.lines[2].id}
    assert pool.questions[0].sessions == {"s1", "s2"}
    assert pool.questions[0].now == START + timedelta(hours=1)
    assert len(rankers.answer_public(packed_sets.friendsqa, 1)) == 2


def test_changed_fact_is_right_only_above_every_outdated_line() -> None:
    new, old = _ids("new"), _ids("old", "older")
    assert scores.newest_first(new, old, [_line("talk"), _line("new"), _line("old")]) == 1
    assert scores.newest_first(new, old, [_line("older"), _line("new"), _line("old")]) == 0
    assert scores.newest_first(new, old, [_line("talk"), _line("old")]) == 0
    assert scores.newest_first(new, old, [_line("talk")]) == 1


def test_auc_counts_pairs_in_the_right_order_and_half_of_the_equal_ones() -> None:
    assert scores.auc([0.9, 0.5], [0.5, 0.1]) == pytest.approx(3.5 / 4)
    assert scores.auc([0.1], [0.9]) == 0


@pytest.mark.parametrize("name", ["changed_facts", "changed_facts_b"])
def test_changed_facts_are_loaded_with_what_holds_and_what_is_outdated(name: str) -> None:
    pools = list(formed_sets.changed(name))
    assert len(pools) == 60
    for pool in pools:
        (question,) = pool.questions
        ids = {line.id for line in pool.lines}
        assert len(ids) == len(pool.lines)
        assert len(question.gold) == 1
        assert question.gold | question.unwanted <= ids
        assert not question.gold & question.unwanted


@pytest.mark.parametrize("name", ["standing", "standing_b"])
def test_standing_cases_want_one_instruction_and_counter_questions_none_but_general_ones(name: str) -> None:
    asked = [question for pool in formed_sets.standing(name) for question in pool.questions]
    counter = [question for question in asked if question.kind == formed_sets.COUNTER]
    assert (len(asked), len(counter)) == (90, 30)
    assert all(len(question.gold) == 1 and not question.unwanted for question in asked if question not in counter)
    assert all(question.unwanted and not question.gold for question in counter)


def test_languages_and_silence_are_loaded_whole() -> None:
    asked = [question for pool in formed_sets.languages() for question in pool.questions]
    assert (len(asked), len({question.kind for question in asked})) == (120, 10)
    assert Counter(bool(one.gold) for pool in formed_sets.silence() for one in pool.questions) == {
        True: 100,
        False: 100,
    }


def _conversation(*people: str, asked: str) -> Pool:
    lines = [new_line(0, START, "s1", people[n % 2], "words", f"{people[n % 2]}{n}") for n in range(3)]
    return Pool(lines, [Question(asked, START, frozenset({lines[0].id}))])


def test_questions_of_another_conversation_are_asked_about_its_own_people() -> None:
    pools = [_conversation("Ann Bo", "Cy", asked="Ann?"), _conversation("Cy", "Ann", asked="Cy met Ann and Anna?")]
    first, second = silence.swapped(pools)
    assert [(one.text, bool(one.gold)) for one in first.questions] == [("Ann?", True), ("Ann met Cy and Anna?", False)]
    assert [one.text for one in second.questions] == ["Cy met Ann and Anna?", "Cy?"]


def test_line_below_the_floor_is_not_shown_and_a_line_at_it_is() -> None:
    ranked = [Ranked(_line("a"), 1, 0.2), Ranked(_line("b"), 1, 0.1), Ranked(_line("c"), 1, 0.05)]
    assert [one.line.id for one in silence.above_floor(ranked, 0.1)] == ["a", "b"]
    assert silence.is_kept(Question("?", START, _ids("b", "c")), ranked, 0.1)
    assert not silence.is_kept(Question("?", START, _ids("c")), ranked, 0.1)


def test_fair_floor_costs_one_in_twenty_questions_their_line_at_most() -> None:
    ranked = [[Ranked(_line("a"), 1, at / 100), Ranked(_line("b"), 1, 0.9)] for at in range(40)]
    answered = [Answered(Question("?", START, _ids("a")), {OURS: some}, Pool([], [])) for some in ranked]
    answered.append(Answered(Question("?", START, _ids("never")), {OURS: ranked[0]}, Pool([], [])))
    floor = silence.fair_floor(answered)
    assert floor == 0.02
    assert sum(not silence.is_kept(one.question, one.ranked[OURS], floor) for one in answered[:-1]) == 2


def test_calibration_has_a_bin_for_each_confidence_that_occurs_and_leaves_out_standing_lines() -> None:
    ranked = [
        Ranked(_line("a"), 1, 1.0),
        Ranked(_line("b"), 1, 0.16),
        Ranked(_line("c"), 1, 0.18),
        Ranked(_line("d"), 1, 0.3, standing=True),
    ]
    answered = [Answered(Question("?", START, _ids("a", "c", "d")), {OURS: ranked}, Pool([], []))]
    low, high = calibration.bins("set", answered)
    assert (low.low, low.high, low.lines, low.gold) == (0.15, 0.2, 2, 0.5)
    assert low.confidence == pytest.approx(0.17)
    assert (high.low, high.lines, high.confidence, high.gold) == (0.7, 1, 1.0, 1.0)
    assert calibration.table([low, high]).splitlines() == [
        "| confidence | set |",
        "| --- | --- |",
        "| 0.15 to 0.20 | 0.170 / 0.500 (2) |",
        "| 0.70 to 1.00 | 1.000 / 1.000 (1) |",
    ]


@pytest.mark.requirement("recall-bench")
@pytest.mark.parametrize("rows", [recall.beam, recall.friends, recall.longmemeval_fit, silence.rows])
def test_further_public_sets_say_so_when_they_are_missing(
    rows: Callable[[Run], Iterator[Score]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_DIR", str(tmp_path))
    shown = list(rows(Run(tmp_path, quick=True)))
    assert any(score.questions == 0 and not score.percent for score in shown)


@pytest.mark.requirement("recall-bench")
def test_kind_that_is_kept_apart_counts_in_the_detail_only() -> None:
    asked = [Question("one", START, _ids("a"), kind="first"), Question("two", START, _ids("b"), kind="second")]
    answered = [Answered(question, {OURS: [Ranked(_line("a"), 1)]}, Pool([], [])) for question in asked]
    shown = {
        score.what: (score.questions, score.percent[OURS])
        for score in recall.scores("row", answered, recall.LOCOMO, "second")
    }
    assert shown["R@5"] == (1, 100)
    assert shown["second: R@5"] == (1, 0)


@pytest.mark.requirement("recall-bench")
def test_row_of_our_own_sets_names_what_was_missed(tmp_path: Path) -> None:
    first = next(recall_forms.languages(Run(tmp_path, quick=True)))
    assert first.questions == 120
    assert len(first.misses) == round(120 * (1 - first.percent[OURS] / 100))
