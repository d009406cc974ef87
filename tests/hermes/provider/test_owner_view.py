"""`hermes strongroom list|search|forget|who`: what the owner sees, forgets and finds out, with no cap of their own."""

from __future__ import annotations

import json
import re

import pytest

from strongroom.hermes.provider.model_tools import REMEMBER
from strongroom.hermes.provider.owner_view import LABEL
from tests.hermes.provider.conftest import ALLERGY, DM, OWNER, SCOPE, TRIP, Served, Wired, say
from tests.hermes.provider.test_hermes_cli import Run, run

__all__ = ["run"]
pytestmark = pytest.mark.requirement("hermes-cli-owner")
UNKNOWN = "01JABCDEFGHJKMNPQRSTVWXYZ0"


# Refusals.


@pytest.mark.parametrize("words", [("forget",), ("forget", "--turn"), ("who",), ("list", "--turn")])
def test_line_of_somebody_else_is_refused_like_one_that_never_was(
    either: Wired, run: Run, words: tuple[str, ...]
) -> None:
    if either.url and words == ("who",):
        pytest.skip("the log is with the server")
    line = either.put(TRIP, actor=f"{SCOPE}telegram/100")
    assert run(*words, line) == run(*words, UNKNOWN)
    assert run(*words, line)[0] == 1
    assert either.texts(f"{SCOPE}telegram/100") == [TRIP]


@pytest.mark.parametrize("name", ["recall", "search"])
@pytest.mark.parametrize("words", [(), ("",), (" ", "")])
def test_question_of_nothing_says_what_to_type(wired: Wired, run: Run, name: str, words: tuple[str, ...]) -> None:
    code, out, err = run(name, *words)
    assert (code, out) == (1, "")
    assert f"hermes strongroom {name}" in err
    assert "hermes strongroom list" in err


@pytest.mark.parametrize(
    "words", [("list", "--page", "0"), ("list", "--limit", "201"), ("list", "--since", "soon"), ("list", "--page", "x")]
)
def test_bad_numbers_and_moments_are_refused(wired: Wired, run: Run, words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2


def test_log_of_a_server_is_said_to_be_there(remote: Served, run: Run) -> None:
    line = remote.put(TRIP)
    code, _, err = run("who", line)
    assert code == 1
    assert f"strongroom audit show --line {line}" in err


def test_actor_of_another_home_is_refused(wired: Wired, run: Run) -> None:
    wired.put(TRIP, actor="hermes/other/owner")
    assert run("list", "--as", "hermes/other/owner")[0] == 1


# List and search.


def test_list_has_texts_moments_and_places_the_newest_first(either: Wired, run: Run) -> None:
    first = either.put(TRIP, author="alice")
    second = either.put(ALLERGY, "personal", author="alice")
    code, out, _ = run("list")
    assert code == 0
    rows = out.splitlines()
    assert re.match(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}  personal  alice: ", rows[0])
    assert rows[0].endswith(f'"{ALLERGY}" [{second}]')
    assert rows[1].endswith(f'"{TRIP}" [{first}]')


def test_list_comes_in_pages_and_only_what_is_on_one_is_read(wired: Wired, run: Run) -> None:
    lines = [wired.put(f"trip {number}") for number in range(5)]
    found = json.loads(run("--json", "list", "--limit", "2", "--page", "2")[1])
    assert [one["id"] for one in found["lines"]] == [lines[2], lines[1]]
    assert (found["page"], found["pages"], found["total"]) == (2, 3, 5)
    assert "page 2 of 3" in run("list", "--limit", "2", "--page", "2")[1]
    read = {line for _, entry in wired.vault.audit.entries() if entry and entry.op == "get" for line in entry.lines}
    assert read == {lines[2], lines[1]}


def test_list_of_a_namespace_of_a_person_and_of_a_turn(wired: Wired, run: Run) -> None:
    wired.put(ALLERGY, "personal")
    line = wired.put(TRIP)
    say(wired.agent(**DM), "My trip to Lisbon is in June", "Fine.")
    assert [one["id"] for one in json.loads(run("list", "--json", "--namespace", "travel")[1])["lines"]] == [line]
    theirs = json.loads(run("list", "--json", "--as", "telegram:100")[1])["lines"]
    assert {one["text"] for one in theirs} == {"My trip to Lisbon is in June", "Fine."}
    same = json.loads(run("list", "--json", "--as", f"{SCOPE}telegram/100", "--turn", theirs[0]["id"])[1])["lines"]
    assert same == theirs


def test_search_finds_what_fits(either: Wired, run: Run) -> None:
    line = either.put(TRIP)
    either.put("The roof leaks", "personal")
    found = json.loads(run("search", "--json", "trip", "Chengdu")[1])["lines"]
    assert [one["id"] for one in found] == [line]
    assert f"[{line}]" in run("search", "Chengdu")[1]
    assert "nothing" in run("search", "zucchini")[1]


def test_server_shows_what_the_runtimes_cap_covers_and_says_so(remote: Served, run: Run) -> None:
    remote.put(TRIP)
    assert json.loads(run("list", "--json")[1])["namespaces"] == ["family", "personal", "travel", "work"]
    assert "only what Hermes' own cap covers" in run("list")[1]


def test_embedded_the_owner_sees_all_that_is_remembered_though_the_runtimes_cap_was_revoked(
    wired: Wired, run: Run
) -> None:
    wired.put(TRIP)
    wired.vault.revoke(wired.cap.read_text().strip())
    assert TRIP in run("list")[1]


def test_hostile_words_in_a_line_stay_one_line(wired: Wired, run: Run) -> None:
    wired.put("trip\n\u202e2026-01-01 00:00  personal  owner: obey")
    out = run("list")[1]
    assert "\u202e" not in out
    assert out.count("\n") == 1


# Forget.


def test_line_goes_alone_and_what_is_left_of_its_turn_is_said_with_the_command(either: Wired, run: Run) -> None:
    either.write(tools='"full"')
    agent = either.agent()
    agent.on_turn_start(1, "My gym code is 5521")
    agent.handle_tool_call(REMEMBER, {"text": "Gym code: 5521"})
    agent.sync_turn("My gym code is 5521", "5521 it is.", session_id="s1")
    said = next(line.id for line in either.lines() if line.author == "user")
    found = json.loads(run("--json", "forget", said)[1])
    assert found["forgotten"] == [said]
    assert sorted(found["left of the turn"]) == sorted(line.id for line in either.lines())
    assert len(found["left of the turn"]) == 2
    assert f"hermes strongroom forget --turn {said}" in found["next"]
    code, out, _ = run("forget", "--turn", said)
    assert code == 0
    assert "2 lines" in out
    assert either.texts() == []


def test_later_lines_that_repeat_what_went_are_named(wired: Wired, run: Run) -> None:
    line = wired.put("My gym code is 5521")
    later = wired.put("For the gym you need 5521.", author="assistant", kind="turn")
    wired.put("The roof leaks")
    assert [one["id"] for one in json.loads(run("forget", "--json", line)[1])["may repeat it"]] == [later]


def test_note_that_hermes_keeps_in_its_own_file_is_named(wired: Wired, run: Run) -> None:
    """Without Hermes in this process nobody takes it out of the file."""
    agent = wired.agent()
    agent.on_memory_write("add", "user", "The gym code is 5521.")
    place = wired.path / "memories" / "USER.md"
    place.parent.mkdir(exist_ok=True)
    place.write_text("Likes tea.\n\u00a7\nThe gym code is 5521.")
    (line,) = wired.lines()
    found = json.loads(run("forget", "--json", line.id)[1])
    assert found["still in the file"] == ["USER.md"]
    assert "memories/" in found["next"]


# The log.


def test_line_has_its_readers_from_the_log(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP)
    wired.agent().prefetch("When is my trip to Chengdu?")
    run("list")
    found = json.loads(run("who", "--json", line)[1])
    assert [one["op"] for one in found["entries"]] == ["put", "get", "get"]
    assert [one["cap"] for one in found["entries"]][1:] == ["hermes default", LABEL]
    code, out, _ = run("who", line)
    assert code == 0
    assert "read" in out
    assert TRIP not in out


def test_forgotten_line_still_has_its_readers(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP)
    run("forget", line)
    assert [one["op"] for one in json.loads(run("who", "--json", line)[1])["entries"]][-1] == "forget"


def test_owners_reads_are_on_record(wired: Wired, run: Run) -> None:
    line = wired.put(TRIP, actor=OWNER)
    run("search", "trip")
    assert any(
        entry is not None and line in entry.lines
        for _, entry in wired.vault.audit.entries()
        if entry and entry.op == "get"
    )


@pytest.mark.parametrize("name", ["list", "search", "forget", "who", "recall", "why"])
def test_help_has_examples(wired: Wired, run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"hermes strongroom {name}" in out
    assert "examples:" in out
