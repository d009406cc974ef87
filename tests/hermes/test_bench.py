"""The benchmark in the real Hermes: what it counts, what it refuses to count, and that the lines stay as they were."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from bench import hermes, hermes_home, hermes_talk, lines, vaults
from bench.__main__ import BENCHMARKS
from bench.hermes import Side
from bench.hermes_child import AFTER, BEGIN, HOLOGRAPHIC, KEEP, PREFETCH, STRONGROOM, talk

import strongroom
from strongroom.hermes import cap_file

LINES = 30
TURNS = 3


def _side(call: str, *millis: float, recalled: int = 5) -> Side:
    side = Side()
    side.add({"taken": {call: [(one / 1e3, one / 2e3) for one in millis]}}, [recalled] * len(millis))
    return side


@pytest.mark.requirement("hermes-bench")
def test_figures_of_a_provider_that_recalled_nothing_are_refused() -> None:
    _side(PREFETCH, 1, 1).check()
    with pytest.raises(RuntimeError, match="0%"):
        _side(PREFETCH, 1, 1, recalled=0).check()


@pytest.mark.requirement("hermes-bench")
def test_one_slow_call_in_fifty_is_in_the_99th_percentile_and_not_in_the_median() -> None:
    side = _side(KEEP, *[2.0] * 98, 50.0, 50.0)
    assert side.figure(KEEP, "ms p50") == pytest.approx(2)
    assert side.figure(KEEP, "ms p99") == pytest.approx(50)
    assert side.figure(KEEP, "ms cpu") == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "millis", "reached"),
    [(PREFETCH, 101, "missed"), (PREFETCH, 99, "floor"), (PREFETCH, 19, "aim"), (KEEP, 31, "missed"), (KEEP, 9, "aim")],
)
@pytest.mark.requirement("hermes-bench")
def test_goals_are_those_of_the_slowest_in_a_hundred(call: str, millis: float, reached: str) -> None:
    side = _side(call, millis, millis)
    rows = {row.unit: row for row in hermes.compared("hermes.size", "some lines", side, side, "itself", [call])}
    goal = rows["ms p99"].goal
    assert goal is not None
    assert goal.reached(rows["ms p99"]) == reached
    assert rows["ms p50"].goal is rows["ms cpu"].goal is None


@pytest.mark.requirement("hermes-bench")
def test_rows_in_hermes_are_registered() -> None:
    assert {"hermes.beside", "hermes.size", "hermes.http", "hermes.first", "hermes.talk"} <= BENCHMARKS.keys()


@pytest.mark.parametrize("of_facts", [False, True])
def test_nothing_is_said_twice_in_the_turns_that_are_measured(of_facts: bool) -> None:
    said = [text for turn in islice(talk(of_facts), 2000) for text in turn]
    assert len(set(said)) == len(said) == 4000


def test_every_fact_that_is_asked_about_is_there_and_none_of_them_is_said() -> None:
    known = [line.text for line in lines.lines(1, 2000, lines.facts(1))]
    asked = [user.removesuffix(" about?").rpartition(" ")[2] for user, _ in islice(talk(True), 4000) if "?" in user]
    assert len(asked) == 2000
    assert {text.split()[2] for text in known} == set(asked)
    assert set(asked).isdisjoint(reply.split()[2] for _, reply in islice(talk(True), 4000))


@pytest.mark.requirement("hermes-bench")
def test_both_providers_do_the_same_turns_and_the_lines_stay_as_they_were(tmp_path: Path) -> None:
    home = hermes_home.make(tmp_path / "home", LINES)
    hermes_home.run(home, "fill", str(LINES))
    with hermes_home.child(home, STRONGROOM, HOLOGRAPHIC) as hermes_process:
        found = hermes_process.turns(TURNS)
    assert {name: {call: len(taken) for call, taken in one["taken"].items()} for name, one in found.items()} == {
        name: dict.fromkeys((BEGIN, PREFETCH, KEEP, AFTER), TURNS) for name in (STRONGROOM, HOLOGRAPHIC)
    }
    assert all(any(one["recalled"]) for one in found.values())
    assert _lines(home) == LINES
    with sqlite3.connect(home.path / "memory_store.db") as facts:
        assert facts.execute("SELECT count(*) FROM facts").fetchone() == (LINES,)
    facts.close()


@pytest.mark.requirement("hermes-bench")
def test_turns_that_are_measured_are_kept(tmp_path: Path) -> None:
    home = hermes_home.make(tmp_path / "home", LINES)
    with vaults.reopen(home.place) as vault:
        before = vault.audit.size()
    with hermes_home.child(home, STRONGROOM) as hermes_process:
        hermes_process.turns(TURNS)
    with vaults.reopen(home.place) as vault:
        done = [entry for _, entry in vault.audit.entries(before) if entry]
    counts = {op: [entry.count for entry in done if entry.op == op] for op in ("put", "forget", "get")}
    assert sum(counts["put"]) == sum(counts["forget"]) == 2 * TURNS
    assert len(counts["get"]) > TURNS


@pytest.mark.requirement("hermes-bench")
def test_call_that_fails_quietly_stops_the_measurement(tmp_path: Path) -> None:
    home = hermes_home.make(tmp_path / "home", LINES)
    (home.place / "runtime.cap").unlink()
    with hermes_home.child(home, STRONGROOM) as hermes_process, pytest.raises(RuntimeError, match="did not work"):
        hermes_process.turns(TURNS)


@pytest.mark.requirement("hermes-bench")
def test_first_prefetch_that_recalls_nothing_is_shown_as_missed(tmp_path: Path) -> None:
    some, none = (hermes_home.make(tmp_path / str(count), count) for count in (LINES, 0))
    found = [hermes._first(home, STRONGROOM) for home in (some, none)]
    assert [one["recalled"] > 0 for one in found] == [True, False]
    full = [{"wall": 1.0, "cpu": 1.0, "recalled": 5.0}]
    for taken, reached in ((found, "missed"), (full, "aim")):
        *_, row = hermes._first_rows("some lines", taken, full)
        assert row.goal is not None
        assert row.goal.reached(row) == reached


def _lines(home: hermes_home.Home) -> int:
    token = cap_file.read(home.place / "runtime.cap")
    owner = strongroom.attenuate(token, actor=hermes_home.OWNER, ttl=60)
    with vaults.reopen(home.place) as vault:
        return len(vault.memory(owner).list(limit=1000).lines)


# What an agent is shown (hermes.talk).


def _shown(turn: str, kind: str, *lines: str, gold: str = "", characters: int = 0) -> hermes_talk.TurnShown:
    of = frozenset([gold] if gold else [])
    time = datetime(2026, 9, 7, tzinfo=UTC)
    return hermes_talk.TurnShown(hermes_talk.ScriptedTurn(turn, time, kind, "", "", of, of), lines, characters)


@pytest.mark.requirement("hermes-bench")
def test_line_that_an_earlier_turn_was_shown_answers_but_fits_only_its_own_turn() -> None:
    known = [hermes_talk.StoredLine(name, datetime(2026, 6, 1, tzinfo=UTC), "s", "user", "") for name in ("a", "b")]
    played = [
        _shown("t1", "small", "a", "filler", characters=90),
        _shown("t2", "past", gold="a"),
        _shown("t3", "past", "b", gold="b", characters=30),
        _shown("t4", "past", gold="c"),
    ]
    found = hermes_talk.TalkFigures.of(played, known)
    assert (found.shown, found.fitting, found.different) == (3, 1, 2)
    assert (found.asked, found.answered, found.whole) == (3, 2, 2)
    assert (found.mean, found.median) == (30, 15)


@pytest.mark.requirement("hermes-bench")
def test_conversation_is_played_in_hermes_at_the_times_of_its_turns(tmp_path: Path) -> None:
    known = hermes_talk.read()
    lines = [line for line in known.stored if line.id in ("m085", "m016")]
    turns = [turn for turn in known.turns if turn.id in ("t02", "t04")]
    home, names = hermes_talk.make(tmp_path / "home", lines)
    played = hermes_talk.play(home, names, turns, {})
    assert [one.lines for one in played] == [("m085",), ()]
    assert played[0].characters > len(lines[1].text) > played[1].characters == 0
    token = cap_file.read(home.place / "runtime.cap")
    owner = strongroom.attenuate(token, actor=hermes_home.OWNER, ttl=60)
    with vaults.reopen(home.place) as vault:
        kept = vault.memory(owner).list(limit=1000).lines
    assert len(kept) == len(lines) + 2 * len(turns)
    assert {line.time.date() for line in kept if line.session not in ("s03", "s15")} == {turns[0].time.date()}


@pytest.mark.requirement("hermes-bench")
def test_conversation_that_hermes_cannot_play_gives_no_figures(tmp_path: Path) -> None:
    known = hermes_talk.read()
    home, names = hermes_talk.make(tmp_path / "home", known.stored[:2])
    (home.place / "runtime.cap").unlink()
    with pytest.raises(RuntimeError, match="Hermes failed"):
        hermes_talk.play(home, names, known.turns[:1], {})
