"""The page on Hermes is true: its sessions run in the real Hermes, and its tables are those of the code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from strongroom.cli import hook
from strongroom.hermes import cap_file, policy
from strongroom.hermes.install import isolation_advice, policy_template
from strongroom.hermes.policy import Tools
from strongroom.hermes.provider import model_tools
from tests.docs.pages import DOCS, Step, blocks, code, rows, section
from tests.docs.test_shell import drifts, is_run, run_session, sessions
from tests.hermes import homes
from tests.hermes.rig_model import Model

PAGE = DOCS / "hermes.md"
SAID = "my trip to Chengdu is on May 25."
QUESTION = "When is my trip to Chengdu?"


@pytest.mark.long
@pytest.mark.requirement("docs-hermes", "docs-shell")
def test_page_leads_from_nothing_to_the_first_recall_and_all_that_it_shows_happens(tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    with Model() as model:
        model.answers(SAID, "Have a good trip!")
        model.answers(QUESTION, "On May 25.")
        model.answers("the Blue Crane.", "The Blue Crane it is.")
        model.answers("Good morning.", "Good morning!")
        homes.make(tmp_path / "made", model_url=model.url).hermes.rename(user / ".hermes")
        path = f'export PATH="$PATH:{homes.PYTHON.parent}" NO_PROXY="*" PYTHONDONTWRITEBYTECODE=1'
        session = [Step(path, "", 0), *(step for step in sessions(PAGE) if is_run(step))]
        found = drifts(session, run_session(session, user))
        assert not found, "\n".join(found)
        assert SAID in model.seen(QUESTION).recalled


@pytest.mark.requirement("docs-hermes")
def test_page_gives_every_key_of_the_policy_with_its_default_and_no_other() -> None:
    wiring = policy_template.Wiring(*("",) * 7, policy.SENSITIVITY)
    told = {code(cells[0])[0]: cells[1] for cells in rows(section(PAGE, "## The policy"))}
    by_wire = {key for key, default in told.items() if default == "by `wire`"}
    assert by_wire == set(policy_template.Wiring.__slots__)
    unset = {key for key, default in told.items() if default in ("built in", "none")}
    written = _flat(tomllib.loads(policy_template.policy_text(wiring)))
    assert {key: tomllib.loads(f"it = {code(told[key])[0]}")["it"] for key in set(told) - by_wire - unset} == {
        key: value for key, value in written.items() if key not in by_wire
    }
    known = {name for name in policy._File.__struct_fields__ if name not in ("recall", "keep", "session", "api_server")}
    assert {key.partition(".")[0] for key in told} == known | {"recall", "keep", "session", "api_server"}


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


@pytest.mark.requirement("docs-hermes")
def test_page_names_the_tools_of_each_setting() -> None:
    named: set[str] = set()
    for cells in rows(section(PAGE, "## Tools for the model")):
        named |= set(code(cells[1]))
        assert named == {
            str(schema["name"]) for schema in model_tools.tool_schemas(Tools(code(cells[0])[0].strip('"')))
        }
    assert len(named) == 3


@pytest.mark.requirement("docs-hermes")
def test_page_closes_what_wire_says_is_out_of_reach_in_the_same_words() -> None:
    closed = " ".join(cells[2] for cells in rows(section(PAGE, "## What the gate cannot reach inside Hermes")))
    settings = ("memory.memory_enabled: false", "agent.disabled_toolsets: [session_search]", "logging.level: WARNING")
    told = " ".join(one.closed_by for one in isolation_advice.beyond({}))
    assert [one for one in (*settings, "strongroom scrub hermes") if one not in closed or one not in told] == []


@pytest.mark.requirement("docs-hermes")
def test_page_shows_hooks_that_exist_and_gives_them_more_time_than_they_take() -> None:
    (snippet,) = blocks(PAGE, "yaml")
    commands = [line.rpartition(" ")[2] for line in snippet.text.splitlines() if "strongroom hook" in line]
    assert commands
    assert set(commands) <= set(hook.hook.commands)
    limits = [float(line.rpartition(" ")[2]) for line in snippet.text.splitlines() if "timeout:" in line]
    assert len(limits) == len(commands)
    assert min(limits) > hook.LIMIT


@pytest.mark.requirement("docs-hermes")
def test_page_mints_for_a_server_what_wire_mints_itself() -> None:
    ops = f"--ops {','.join(cap_file.OPS)} "
    assert PAGE.read_text().count(ops) == 2


@pytest.mark.requirement("docs-hermes")
def test_page_shows_a_picture_that_is_there() -> None:
    assert "](images/hermes.svg)" in PAGE.read_text()
    assert (DOCS / "images" / "hermes.svg").read_text().startswith("<svg ")
