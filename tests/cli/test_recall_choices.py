"""`strongroom get --min-confidence --or-newest --explain`: refusals first, then what is shown and what is logged."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, opened
from tests.cli.test_put_get_list import Caps, minted

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
OTHER = "01JABCDEFGHJKMNPQRSTVWXYZ1"


@pytest.fixture
def lines(cli: Cli, vault: None) -> None:
    """Two lines about a trip, and one about something else."""
    for text, name in (("Trip to Chengdu", ID), ("A trip by boat\nto Chengdu", OTHER)):
        assert cli("put", text, "-n", "travel", "--id", name).code == 0
    assert cli("put", "Standup at ten", "-n", "work").code == 0


# Refusals.


@pytest.mark.requirement("cli-recall-choices")
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["trip", "--min-confidence", "1.5"], 2, "usage"),
        (["trip", "--min-confidence", "-1"], 2, "usage"),
        (["trip", "--min-confidence", "high"], 2, "usage"),
        (["trip", "--min-confidence", "nan"], 2, "invalid_request"),
        (["--id", ID, "--or-newest"], 2, "invalid_request"),
        (["--id", ID, "--min-confidence", "0.5"], 2, "invalid_request"),
        (["--id", ID, "--explain"], 2, "invalid_request"),
        (["--tag", "x", "--explain"], 2, "invalid_request"),
        (["--explain"], 2, "usage"),
    ],
)
def test_bad_choice_is_refused_by_name(cli: Cli, lines: None, words: list[str], code: int, reason: str) -> None:
    done = cli("get", *words, "--json")
    assert (done.code, done.reason) == (code, reason)


@pytest.mark.requirement("cli-recall-choices", "explain-denied")
def test_line_outside_the_cap_is_explained_like_an_unknown_id(cli: Cli, lines: None, caps: Caps) -> None:
    cap = str(caps("work.cap", minted(namespaces=["work"])))
    answers = {
        (done.code, done.out, done.err)
        for name in (ID, "01JABCDEFGHJKMNPQRSTVWXYZ9")
        for done in [cli("get", "trip", "--id", name, "--explain", "--cap-file", cap)]
    }
    assert len(answers) == 1
    assert answers.pop()[0] == 4


# Nothing matches.


@pytest.mark.requirement("cli-recall-choices")
def test_command_that_a_note_names_shows_the_newest_lines_with_the_same_cap(
    cli: Cli, lines: None, caps: Caps, home: Path
) -> None:
    cap = str(caps("a cap of work.cap", minted(namespaces=["work"])))
    for words in (["-peanuts? it's"], ["peanuts", "-n", "work"]):
        done = cli("get", "--cap-file", cap, *words[1:], "--", *words[:1])
        (command,) = re.findall("no line matches; `strongroom (.+)` shows the newest lines", done.err)
        shown = cli(*shlex.split(command))
        assert "Standup at ten" in shown.out
        assert "Chengdu" not in shown.out


@pytest.mark.requirement("cli-recall-choices")
def test_note_about_nothing_says_which_choice_left_nothing(cli: Cli, vault: None) -> None:
    assert "strongroom list" in cli("get", "peanuts", "--or-newest").err
    assert "strongroom list" in cli("get", "--tag", "x").err
    assert "-k is 0" in cli("get", "peanuts", "-k", "0").err
    floored = cli("get", "peanuts", "--min-confidence", "0.25").err
    assert "a confidence of at least 0.25; `strongroom get --explain peanuts` shows" in floored


# Explanations.


@pytest.mark.requirement("cli-recall-choices", "explain")
def test_explanation_is_a_table_of_candidates_and_each_is_logged(cli: Cli, lines: None) -> None:
    done = cli("get", "trip to Chengdu", "--explain")
    head, *rows = done.out.splitlines()
    assert head.split() == ["rank", "confidence", "score", "cut", "id", "text", "signals"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert {row.split()[4] for row in rows} == {ID, OTHER}
    assert any("  A trip by boat to Chengdu  " in row for row in rows), "on one line"
    with opened() as held:
        read = [set(entry.lines) for _, entry in held.audit.entries() if entry is not None and entry.op == "get"]
    assert read[-1] == {ID, OTHER}


@pytest.mark.requirement("cli-recall-choices", "explain")
def test_explanation_as_json_has_the_reasons_of_each_line(cli: Cli, lines: None) -> None:
    hits = cli("get", "trip", "--explain", "--json").json["hits"]
    assert [hit["why"]["rank"] for hit in hits] == [1, 2]
    assert all(set(hit["why"]) <= {"rank", "signals", "cut"} for hit in hits)
    (one,) = cli("get", "boat", "--id", ID, "--explain", "--json").json["hits"]
    assert (one["why"]["rank"], one["score"], one["confidence"]) == (0, 0.0, 0.0)
    assert "why" not in cli("get", "trip", "--json").json["hits"][0]
