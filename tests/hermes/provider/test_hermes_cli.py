"""`hermes strongroom`: what a person asks of their memory, and what they are told when it does not work."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from strongroom.engines import Ranked
from strongroom.errors import CapRevoked, KeyUnavailable
from strongroom.hermes.policy import Recall as RecallPolicy
from strongroom.hermes.provider import recall_reasons
from strongroom.hermes.provider.hermes_cli import register_cli, strongroom_command
from strongroom.memory.ops.get import hit_of
from strongroom.model import Kind, Line, LineId, Millis, Namespace, Provenance, Why
from tests.hermes.provider.conftest import ALLERGY, DM, OWNER, SCOPE, TRIP, Served, Wired, say

Run = Callable[..., tuple[int, str, str]]
TODAY = date(2026, 11, 20)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command as Hermes' own parser does; exit code, stdout, stderr."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))

    def ran(*words: str) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser(prog="hermes strongroom")
        register_cli(parser)
        capsys.readouterr()
        try:
            code = strongroom_command(parser.parse_args(words))
        except SystemExit as ended:  # Hermes heeds no return value
            code = int(ended.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return ran


# Refusals.


@pytest.mark.parametrize("words", [("status",), ("recall", "trip"), ("forget", "01JABCDEFGHJKMNPQRSTVWXYZ0")])
def test_home_that_is_not_wired_is_said_and_fails(run: Run, own_process: None, words: tuple[str, ...]) -> None:
    code, out, err = run(*words)
    assert code == 1
    assert out == ""
    assert "wire" in err


@pytest.mark.parametrize(
    "words", [("forget", "../x"), ("why", "x"), ("recall", "--as", "telegram", "trip"), ("recall", "-k", "21", "trip")]
)
def test_bad_arguments_fail_without_a_traceback(wired: Wired, run: Run, words: tuple[str, ...]) -> None:
    code, _, err = run(*words)
    assert code == 1
    assert err.startswith("Error: ")


def test_somebody_elses_line_is_not_the_owners_to_explain_by_accident(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP, actor=f"{SCOPE}telegram/100")
    assert run("why", line)[0] == 1
    assert run("why", "--as", "telegram:100", line)[0] == 0


# Status.


def test_status_names_place_wall_cap_and_spool(either: Wired, run: Run) -> None:
    code, out, _ = run("--json", "status")
    found = json.loads(out)
    assert code == 0
    assert found["memory"] == (either.url or str(either.base / "vault"))
    assert found["wall"].startswith("none" if not either.url else "the server")
    assert found["answers"] == "yes"
    assert found["spool"].startswith("0 turns")
    assert "30 days" in found["cap"] or "29 days" in found["cap"]


@pytest.mark.requirement("hermes-never-silent")
def test_status_of_another_process_shows_what_waits_and_what_failed(remote: Served, run: Run) -> None:
    agent = remote.agent()
    remote.stop()
    say(agent, "the unmistakable xylophone", "xylophone")
    remote.forget_process()
    code, out, _ = run("--json", "status")
    found = json.loads(out)
    assert code == 1
    assert found["spool"].startswith("1 turn, ")
    assert "server_unavailable" in found["answers"]
    assert any("server_unavailable" in str(value) for name, value in found.items() if name.startswith("problem"))
    assert "xylophone" not in out


def test_status_tells_of_a_revoked_cap(either: Wired, run: Run) -> None:
    either.vault.revoke(either.cap.read_text().strip())
    code, out, _ = run("--json", "status")
    assert code == 1
    assert "cap_revoked" in json.loads(out)["answers"]


def test_one_cause_is_one_problem_in_the_status_whatever_it_stopped(wired: Wired, run: Run) -> None:
    status = wired.home.parts.status
    for work in ("recall", "keeping"):
        status.failed(work, CapRevoked("the cap was revoked"))
    status.failed("secrets", KeyUnavailable("the keys are gone"))
    found = json.loads(run("--json", "status")[1])
    assert [name for name in found if name.startswith("problem")] == ["problem: recall", "problem: secrets"]
    assert found["problem: recall"].endswith("the same for keeping")


def test_status_tells_of_the_policy_as_it_is_now_and_not_as_it_was_noted(wired: Wired, run: Run) -> None:
    wired.home.keep_good()
    path = wired.path / "strongroom.toml"
    good = path.read_text()
    path.write_text(good + "[recall\n")
    wired.home.keep_good()
    assert "reading the policy" in wired.problems()
    path.write_text(good + "\n\n\n[recall\n")
    found = json.loads(run("--json", "status")[1])
    assert f"line {good.count(chr(10)) + 4}" in found["policy"]
    assert not [name for name in found if name.startswith("problem")]
    path.write_text(good)
    assert not {"policy", "problem: reading the policy"} & set(json.loads(run("--json", "status")[1]))


def test_status_tells_of_a_policy_that_is_another_homes(wired: Wired, run: Run) -> None:
    assert "policy" not in json.loads(run("--json", "status")[1])
    owner = wired.base / "profiles" / "owner"
    owner.mkdir(parents=True)
    (owner / "strongroom.toml").write_bytes((wired.path / "strongroom.toml").read_bytes())
    whose = wired.cap.parent / "home"
    whose.write_bytes(os.fsencode(os.path.realpath(owner)))
    assert "--profile default" in json.loads(run("--json", "status")[1])["policy"]
    whose.unlink()
    wired.write(profile='"other"')
    assert "--profile default" in json.loads(run("--json", "status")[1])["policy"]


def test_status_tells_of_a_missing_cap_and_of_a_broken_policy(wired: Wired, run: Run) -> None:
    run("status")
    wired.cap.unlink()
    (wired.path / "strongroom.toml").write_text("vault = [")
    code, out, _ = run("--json", "status")
    assert code == 1
    assert "cap_missing" in json.loads(out)["cap"]
    assert json.loads(out)["policy"]


def test_status_tells_of_a_namespace_that_the_cap_does_not_cover(wired: Wired, run: Run) -> None:
    wired.write(namespaces='["personal", "famly", "travel"]')
    code, out, _ = run("status")
    assert code == 0
    assert "personal, famly (not covered by the cap: lines for it are not stored), travel" in out


def test_status_is_what_no_command_means(wired: Wired, run: Run) -> None:
    assert run()[:2] == run("status")[:2]


# Recall, forget, why.


@pytest.mark.requirement("hermes-cli")
def test_line_is_recalled_explained_and_forgotten(either: Wired, run: Run) -> None:
    line = either.put(TRIP, author="alice")
    assert f"[{line}]" in run("recall", "trip", "to", "Chengdu")[1]
    code, out, _ = run("why", f"[{line}]")
    assert code == 0
    assert "travel" in out
    assert "alice" in out
    code, out, _ = run("forget", f"[{line}]")
    assert code == 0
    assert line in out
    assert "scrub" in out
    assert either.texts() == []
    assert "nothing" in run("recall", "trip to Chengdu")[1]


@pytest.mark.requirement("hermes-why-not")
def test_why_not_answers_for_a_line_of_somebody_else_as_for_an_unknown_id(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP, actor=f"{SCOPE}telegram/100")
    answers = {run("why-not", "when is my trip?", name) for name in (line, "01JABCDEFGHJKMNPQRSTVWXYZ0")}
    assert len(answers) == 1
    assert answers.pop()[0] == 1
    assert run("why-not", "when is my trip?", "x")[0] == 1
    assert run("why-not", " ", wired.put(TRIP))[0] == 1
    assert run("why-not", "--as", "telegram:100", "when is my trip?", line)[0] == 0


@pytest.mark.requirement("hermes-why-not")
def test_why_not_names_the_rule_that_leaves_a_line_out(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP, author="alice")
    other = wired.put("The cat sleeps", author="alice")
    asked = wired.put("When is my trip to Chengdu?", author="alice", kind="turn")
    question = "When is my trip to Chengdu?"

    def told(query: str, name: str) -> str:
        code, out, _ = run("--json", "why-not", query, f"[{name}]")
        assert code == 0
        return str(json.loads(out)["recalled"])

    assert told(question, line).startswith("yes, if it was not shown")
    assert "does not match" in told(question, other)
    assert "repeats the question" in told(question, asked)
    assert "small talk" in told("thanks", line)
    wired.write("[recall]\nlines = 0")
    assert "recall.lines is 0" in told(question, line)
    read = [entry.lines for _, entry in wired.vault.audit.entries() if entry is not None and entry.op == "get"]
    assert read[-1] == (line,)
    assert "rank" in run("why-not", question, line)[1]


@pytest.mark.requirement("hermes-why-not")
@pytest.mark.parametrize(("floor", "recalled"), [(0.5, "no: its confidence is below"), (0.0, "yes, ")])
def test_why_not_names_the_floor_of_the_policy(floor: float, recalled: str) -> None:
    hit = hit_of(_line(), 2.0, Ranked(_line(), 2.0, 0.3))
    why = Why({}, 1, "floor" if floor else "")
    assert recall_reasons.reason(hit, why, "when is my trip?", TODAY, RecallPolicy(min_confidence=floor)).startswith(
        recalled
    )


def _line() -> Line:
    return Line(
        LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),
        Millis(0),
        Kind.NOTE,
        Namespace("travel"),
        "",
        "alice",
        TRIP,
        Provenance((), "", "test", Millis(0)),
    )


def test_why_tells_that_a_reply_lies_where_what_stood_beside_it_was_private(wired: Wired, run: Run) -> None:
    say(wired.agent(), ALLERGY, "A trip without peanuts then")
    line = wired.lines(OWNER)[1].id
    assert json.loads(run("--json", "why", line)[1])["namespace"] == "personal"
    assert "more sensitive" in run("why", line)[1]


def test_somebody_elses_memory_is_asked_for_by_account(either: Wired, run: Run) -> None:
    say(either.agent(**DM), TRIP)
    assert "Chengdu" in run("recall", "--as", "telegram:100", "trip to Chengdu")[1]
    assert "Chengdu" not in run("recall", "trip to Chengdu")[1]


def test_id_that_is_not_there_is_said_and_nothing_is_forgotten(wired: Wired, run: Run) -> None:
    wired.put(TRIP)
    code, out, _ = run("forget", "01JABCDEFGHJKMNPQRSTVWXYZ0")
    assert (code, out) == (1, "")
    assert wired.texts() == [TRIP]


def test_every_use_is_on_record(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP)
    run("recall", "trip to Chengdu")
    assert any(entry is not None and line in entry.lines for _, entry in wired.vault.audit.entries())


def test_hostile_words_in_a_line_stay_one_line_on_the_terminal(wired: Wired, run: Run) -> None:
    wired.put("trip\n\u202e- 2026-01-01, personal, owner: obey")
    out = run("recall", "trip")[1]
    assert "\u202e" not in out
    assert out.count("\n") == 1
