"""The benchmarks' own arithmetic, loading and load, on tiny hand-made data; none of it measures anything."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from bench import (
    evaldata,
    fair,
    filler,
    growth,
    lines,
    rankers,
    recall,
    scores,
    served,
    vaults,
)
from bench.__main__ import BENCHMARKS
from bench.evaldata import NoData, Pool, Question, new_line
from bench.load import Load, Plan, Report, request
from bench.measure import Goal, Run
from bench.peers import FullText, Okapi, any_word
from bench.rankers import Answered
from bench.scores import BM25, FTS5, OURS, RECENCY, Score
from bench.served import Side
from bench.server import Kind, Server, running

from strongroom.engines import Ranked
from strongroom.model import Line, LineId

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def _line(name: str, session: str = "s1", *, day: int = 0, text: str = "something") -> Line:
    return new_line(0, START + timedelta(days=day), session, "user", text, name)


def _ids(*names: str) -> frozenset[LineId]:
    return frozenset(map(LineId, names))


def _answered(gold: str, ours: Sequence[str], fts5: Sequence[str] = ()) -> Answered:
    question = Question("which?", START, _ids(*gold.split()))
    ranked = {OURS: [Ranked(_line(name), 1) for name in ours], FTS5: [Ranked(_line(name), 1) for name in fts5]}
    ranked[RECENCY] = []
    return Answered(question, ranked, Pool([], []))


RANKED = [_line("a", "s1"), _line("b", "s2"), _line("c", "s1"), _line("d", "s3")]


def test_line_just_below_k_is_not_recalled() -> None:
    assert scores.recall(_ids("c"), RANKED, 2) == 0
    assert scores.recall(_ids("c"), RANKED, 3) == 1


def test_recall_is_the_share_of_the_lines_that_answer() -> None:
    assert scores.recall(_ids("a", "c", "never"), RANKED, 2) == pytest.approx(1 / 3)
    assert scores.recall(_ids("a", "c", "never"), RANKED, 4) == pytest.approx(2 / 3)


def test_one_of_several_lines_is_a_hit_only_within_k() -> None:
    assert scores.hit(_ids("d", "b"), RANKED, 1) == 0
    assert scores.hit(_ids("d", "b"), RANKED, 2) == 1


@pytest.mark.requirement("recall-bench")
def test_sessions_count_as_found_only_when_all_of_them_are() -> None:
    assert scores.recall_all({"s1", "s3"}, RANKED, 3) == 0
    assert scores.recall_all({"s1", "s3"}, RANKED, 4) == 1


@pytest.mark.requirement("recall-bench")
def test_mean_is_over_questions_and_not_over_lines() -> None:
    answered = [_answered("a b c", ["a", "x"], ["x"]), _answered("y", ["y"], ["y"])]
    figures = rankers.mean(answered, lambda question, ranked: scores.recall(question.gold, ranked, 5))
    assert figures[OURS] == pytest.approx(100 * (1 / 3 + 1) / 2)
    assert figures[FTS5] == pytest.approx(50)
    assert figures[RECENCY] == 0


def test_each_kind_of_question_has_a_row_of_its_own() -> None:
    asked = [Question("one", START, _ids("a"), kind="first"), Question("two", START, _ids("b"), kind="second")]
    answered = [Answered(question, {OURS: [Ranked(_line("a"), 1)]}, Pool([], [])) for question in asked]
    shown = list(recall.scores("row", answered, recall.LOCOMO))
    found = {(score.what, score.questions): score.percent[OURS] for score in shown}
    assert found["R@5", 2] == 50
    assert found["first: R@5", 1] == 100
    assert found["second: R@5", 1] == 0


@pytest.mark.parametrize(("percent", "reached"), [(71.94, "missed"), (71.95, "yes"), (72.0, "yes")])
def test_goal_is_reached_by_the_figure_as_it_is_shown(percent: float, reached: str) -> None:
    assert Score("row", "R@5", 10, {OURS: percent}, 72).reached == reached


def test_missing_engine_reaches_no_goal() -> None:
    assert Score("row", "R@5", 10, {FTS5: 99.0}, 72).reached == ""


def test_table_shows_one_decimal_and_says_when_there_is_no_data() -> None:
    shown = scores.table(
        [
            Score("with", "R@5", 3, {OURS: 66.666, FTS5: 0.0, BM25: 1.0, RECENCY: 100.0}, 72),
            Score("without", "R@5", 0, {}, 72),
        ]
    ).splitlines()
    assert shown[1].split() == ["with", "R@5", "3", "66.7", "0.0", "1.0", "100.0", "72", "missed"]
    assert shown[2].split() == ["without", "R@5", "0", *["no", "data"] * 4, "72"]


def test_fts5_is_asked_without_stop_words_unless_there_is_nothing_else() -> None:
    assert any_word('Where did I put the "Red" kite?') == '"put" OR "red" OR "kite"'
    assert any_word("who are you") == '"who" OR "are" OR "you"'


def test_fts5_stems_and_ranks_the_better_match_first() -> None:
    table = FullText.of(["the kites", "nothing of it", "a red kite flying"])
    assert table.search("which red kite flew?", 5) == [2, 0]
    assert table.read("which red kite flew?", 1) == ["a red kite flying"]
    assert table.search("?!", 5) == []


def test_bm25_leaves_stop_words_out_and_ranks_the_rarer_and_the_shorter_first() -> None:
    texts = Okapi(["the kites", "nothing of the", "a red kite flying over the hill", "kite kite", "a kite and a cart"])
    assert [number for number, _ in texts.score("which red kites?", 2)] == [2, 3]
    assert [number for number, _ in texts.score("kite", 9)] == [3, 0, 4, 2]
    assert texts.score("which of the?", 5) == []
    assert Okapi([]).score("kite", 5) == []


def test_best_scores_of_peers_come_first() -> None:
    texts = ["a red kite", "a blue kite in the wind", "nothing"]
    for found in (FullText.of(texts).score("red kite", 5), Okapi(texts).score("red kite", 5)):
        assert [number for number, _ in found] == [0, 1]
        assert found[0][1] > found[1][1] > 0


def _write_locomo(directory: Path) -> None:
    turns = [{"speaker": "Ann", "dia_id": f"D1:{n}", "text": f"turn {n}", "extra": 1} for n in (1, 2)]
    late = [{"speaker": "Bo", "dia_id": "D10:1", "text": "late"}]
    conversation = {
        "speaker_a": "Ann",
        "session_10_date_time": "12:05 am on 3 June, 2023",
        "session_10": late,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": turns,
    }
    asked = [
        {"question": "both?", "evidence": ["D1:2; D10:1", "D9:9"], "category": 1, "answer": "x"},
        {"question": "none?", "evidence": [], "category": 4},
        {"question": "missing?", "evidence": ["D7:1"], "category": 4},
    ]
    (directory / "locomo_dev.json").write_text(json.dumps([{"conversation": conversation, "qa": asked}]))


def test_locomo_drops_questions_without_evidence_and_reads_two_turns_in_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_locomo(tmp_path)
    monkeypatch.setenv("EVAL_DIR", str(tmp_path))
    (pool,) = evaldata.locomo()
    assert [(line.session, line.author, line.text) for line in pool.lines] == [
        ("1", "Ann", "turn 1"),
        ("1", "Ann", "turn 2"),
        ("10", "Bo", "late"),
    ]
    assert pool.lines[1].time - pool.lines[0].time == 1000
    assert sorted(line.id for line in pool.lines) == [line.id for line in pool.lines]
    (question,) = pool.questions
    assert question.gold == {pool.lines[1].id, pool.lines[2].id}
    assert question.kind == "multi-hop"
    assert question.now == datetime(2023, 6, 4, 0, 5, tzinfo=UTC)


def test_longmemeval_drops_abstentions_and_marks_the_turns_that_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "which?",
        "question_date": "2023/05/30 (Tue) 10:18",
        "answer_session_ids": ["s2"],
        "haystack_dates": ["2023/05/20 (Sat) 07:47", "2023/05/21 (Sun) 08:00"],
        "haystack_session_ids": ["s1", "s2"],
        "haystack_sessions": [
            [{"role": "user", "content": "hello"}, {"role": "assistant", "content": " "}],
            [{"role": "user", "content": "it is red", "has_answer": True}],
        ],
    }
    with gzip.open(tmp_path / "longmemeval_dev.json.gz", "wb") as file:
        file.write(json.dumps([one, one | {"question_id": "q2_abs"}]).encode())
    monkeypatch.setenv("EVAL_DIR", str(tmp_path))
    (pool,) = evaldata.longmemeval()
    assert [(line.session, line.author, line.text) for line in pool.lines] == [
        ("s1", "user", "hello"),
        ("s2", "user", "it is red"),
    ]
    (question,) = pool.questions
    assert question.gold == {pool.lines[1].id}
    assert question.sessions == {"s2"}
    assert question.now == datetime(2023, 5, 30, 10, 18, tzinfo=UTC)


@pytest.mark.requirement("recall-bench")
def test_rows_without_their_data_stay_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVAL_DIR", str(tmp_path))
    with pytest.raises(NoData):
        next(evaldata.locomo())
    shown = list(recall.locomo(Run(tmp_path, quick=True)))
    assert [(score.name, score.questions) for score in shown] == [("recall.locomo", 0)] * 2
    assert "EVAL_DIR" in capsys.readouterr().err


@pytest.mark.requirement("recall-bench")
def test_text_alone_leaves_each_line_its_words_and_its_author_s_name() -> None:
    pool = recall.text_alone(Pool([_line("a"), _line("b", day=1)], [Question("who?", START, _ids("b"))]))
    assert {(line.session, line.author, line.time) for line in pool.lines} == {("", "", pool.lines[0].time)}
    first = _line("a")
    assert pool.lines[0].text == f"{first.author}: {first.text}"
    assert [line.id for line in pool.lines] == ["a", "b"]


def _write_set(file: Path, gold: Sequence[str]) -> Path:
    told = {"id": "t1", "time": "2026-03-02T09:00:00+00:00", "session": "s1", "author": "user", "text": "the kite"}
    asked = {"id": "q1", "question": "what?", "now": "2026-03-03T09:00:00+00:00", "gold": list(gold)}
    file.write_text(json.dumps({"about": "a set", "lines": [told], "questions": [asked]}))
    return file


@pytest.mark.parametrize("gold", [[], ["t1", "t2"]])
def test_set_whose_gold_names_no_line_is_refused(tmp_path: Path, gold: Sequence[str]) -> None:
    with pytest.raises(ValueError, match="gold"):
        evaldata.own_set(_write_set(tmp_path / "set.json", gold))


def test_question_is_asked_of_the_lines_told_up_to_then() -> None:
    early, late = Question("early?", START, _ids("a")), Question("late?", START + timedelta(days=2), _ids("b"))
    pools = list(recall.told(Pool([_line("a"), _line("b", day=1), _line("c", day=3)], [late, early])))
    assert [[line.id for line in pool.lines] for pool in pools] == [["a"], ["a", "b"]]
    assert [pool.questions for pool in pools] == [[early], [late]]


@pytest.mark.parametrize("older", [False, True])
def test_set_is_hidden_among_unrepeated_lines_of_other_sessions(older: bool) -> None:
    pool = Pool([_line("a"), _line("b", day=30)], [])
    among = recall.hidden(pool, 1, 40, older=older)
    added = [line for line in among.lines if line not in pool.lines]
    assert len(added) == len({line.id for line in added}) == len({line.text for line in added}) == 40
    assert {line.session for line in added}.isdisjoint({"s1"})
    assert [line.time for line in among.lines] == sorted(line.time for line in among.lines)
    assert recall.hidden(pool, 1, 40, older=older) == among != recall.hidden(pool, 2, 40, older=older)


def test_filler_reaches_into_the_time_of_a_set_unless_it_is_to_be_older() -> None:
    pool = Pool([_line("a"), _line("b", day=300)], [])
    assert [line.id for line in recall.hidden(pool, 1, 40, older=True).lines[-2:]] == ["a", "b"]
    names = [line.id for line in recall.hidden(pool, 1, 40).lines]
    assert names[0] != "a"
    assert names[-1] == "b"
    assert names.index(LineId("a")) < len(names) - 2


def test_filler_repeats_no_turn_and_names_no_day() -> None:
    said = [text for _, _, text in islice(filler.turns(1), 2000)]
    assert len(set(said)) == len(said)
    words = {word.strip(".,?") for text in said for word in text.split()}
    assert words.isdisjoint({"today", "tomorrow", "yesterday", "Monday", "Saturday", "May", "week", "month"})
    assert {"going", "weekend"} <= words


def test_lines_to_measure_are_unrepeated_and_of_usual_length() -> None:
    made = list(lines.lines(1, 2000))
    assert len({line.text for line in made}) == len(made)
    lengths = sorted(len(line.text) for line in made)
    assert 90 <= lengths[len(lengths) // 2] <= 130
    assert len({line.author for line in made}) > 2
    assert made == list(lines.lines(1, 2000))
    assert len(set(lines.questions(40))) == 40


# Growth.


@pytest.mark.requirement("growth")
@pytest.mark.parametrize("power", [1, 2])
def test_exponent_is_that_of_the_points(power: int) -> None:
    assert growth.exponent([(size, 3e-6 * size**power) for size in (10, 20, 40, 80)]) == pytest.approx(power)


@pytest.mark.requirement("growth", "rotate-ends")
def test_rotation_ends_beside_a_process_that_puts_and_erases_without_pause(tmp_path: Path) -> None:
    (row,) = growth._contended(Run(tmp_path, quick=True))
    assert row.ours > 0


# The load on a server.


def _asked(what: str, reports: Sequence[Report], cpu: Sequence[float]) -> Side:
    return Side(what, Server(0, 0), [], 100, list(cpu), list(reports))


def _report(wall: float, *latencies: float) -> Report:
    return Report(wall, wall / 10, {200: len(latencies)}, list(latencies))


@pytest.mark.requirement("server-bench")
def test_rows_of_the_issue_are_registered() -> None:
    assert {"serve.get", "serve.put", "serve.mcp", "serve.ram"} <= BENCHMARKS.keys()


@pytest.mark.requirement("server-bench")
def test_sides_figures_are_medians_over_turns_and_percentiles_over_all_answers() -> None:
    side = _asked("get", [_report(1, 0.001, 0.002), _report(9, 0.003, 0.1), _report(2, 0.002, 0.002)], [0.5, 0.9, 0.01])
    assert side.micros == pytest.approx(0.5 / 100 * 1e6)
    assert side.rate == pytest.approx(50)
    assert side.millis(50) == pytest.approx(2)
    assert side.millis(99) > 99
    assert list(side.busy) == pytest.approx([1.41 / 12, 0.1])


@pytest.mark.requirement("server-bench")
def test_get_at_more_than_five_times_the_echo_misses_its_floor() -> None:
    echo = _asked("echo", [_report(1, 0.001, 0.001)], [0.010])
    goal = Goal("ratio", 5, 3)
    for cpu, reached in ((0.0501, "missed"), (0.0499, "floor"), (0.0299, "aim")):
        row, *others = served.compared("serve.get", _asked("get", [_report(1, 0.002, 0.002)], [cpu]), echo, goal)
        assert goal.reached(row) == reached
        assert [(other.unit, other.goal) for other in others] == [("req/s", None), ("ms p50", None), ("ms p99", None)]


def test_answer_that_is_no_success_stops_the_measurement(tmp_path: Path) -> None:
    with running("echo", tmp_path) as server, Load() as load:
        side = Side("echo", server, [request("/echo", b'{"query": "x"}'), request("/echo", b"no JSON")], 4)
        with pytest.raises(RuntimeError, match="500"):
            side.turn(load, 4)


def test_load_asks_exactly_as_often_as_told_and_keeps_its_connections(tmp_path: Path) -> None:
    with running("echo", tmp_path) as server, Load() as load:
        for count in (3, 50):
            report = load.run(Plan(server.port, 8, count, [request("/echo", b'{"query": "x", "k": 5}')]))
            assert report.statuses == {200: count}
            assert len(report.latencies) == count
            assert 0 < max(report.latencies) <= report.wall
        assert server.cpu() > 0
        assert server.resident() > 1e6


@pytest.mark.requirement("server-bench")
def test_commit_is_left_out_only_where_the_row_says_so(tmp_path: Path) -> None:
    with vaults.make(tmp_path) as vault, Load() as load:
        cap, known = served.filled(vault, 10)
        kinds: list[tuple[Kind, int]] = [("unlogged", 0), ("vault", 12)]
        for kind, entries in kinds:
            size = vault.audit.size()
            with running(kind, tmp_path) as server:
                Side(kind, server, served.asking(cap, known), 12).turn(load, 12)
            assert vault.audit.size() - size == entries


@pytest.mark.requirement("server-bench")
def test_mixed_load_is_answered_as_meant(tmp_path: Path) -> None:
    with vaults.make(tmp_path) as vault, Load() as load, running("vault", tmp_path) as server:
        mixed = served._mixed(*served.filled(vault, 10))
        filled = vault.audit.size()
        report = load.run(Plan(server.port, 4, len(mixed), mixed))
        assert report.statuses == {200: 40, 400: 20, 401: 160, 403: 20, 404: 80}
        assert vault.audit.size() - filled == 80


@pytest.mark.requirement("server-fair", "server-bench")
def test_paced_load_asks_on_time_whatever_else_is_asked(tmp_path: Path) -> None:
    with running("echo", tmp_path) as server, Load() as load:
        asked = [request("/echo", b"{}")]
        report = load.run(Plan(server.port, 2, 10, asked, pace=0.01))
        assert report.statuses == {200: 10}
        report = load.run(Plan(server.port, 2, 1 << 40, asked, seconds=0.05))
        assert sum(report.statuses.values()) == len(report.latencies) > 0
        assert load.run(Plan(server.port, 20, 0, [])).latencies == []


@pytest.mark.requirement("server-fair", "server-bench")
def test_every_fair_scenario_is_answered_as_meant(tmp_path: Path) -> None:
    with vaults.make(tmp_path) as vault:
        caps = fair._filled(vault, 100_000)
    for scenario in fair._scenarios(caps):
        report, idle, peak = fair._measured(Run(tmp_path, quick=True), caps, scenario, 6)
        assert len(report.latencies) == 6
        assert 0 < idle <= peak
    with vaults.reopen(tmp_path) as vault:
        assert vault.memory(caps.large).list().lines == ()
        assert len(vault.memory(caps.small).list(limit=1000).lines) > 100
