"""`strongroom replace` and `strongroom history`: a correction, its past, and what is refused."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cli

pytestmark = pytest.mark.requirement("replace")


@pytest.fixture
def old(cli: Cli) -> str:
    assert cli("init").code == 0
    found: str = cli("put", "--namespace", "travel", "My seat is 12A", "--tag", "seats", "--json").json["lines"][0][
        "id"
    ]
    return found


def test_replaced_line_is_recalled_no_more_and_its_history_shows_both(cli: Cli, old: str) -> None:
    done = cli("replace", old, "My seat is 14C", "--json")
    assert done.json["namespace"] == "travel"
    assert "12A" not in cli("get", "which seat?").out
    assert "14C" in cli("get", "which seat?", "--tag", "seats").out
    assert [one["text"] for one in cli("history", old, "--json").json["versions"]] == [
        "My seat is 12A",
        "My seat is 14C",
    ]
    shown = cli("history", done.json["id"]).out.splitlines()
    assert [line.split("  ")[-1] for line in shown] == ["My seat is 12A", "My seat is 14C"]


def test_replace_with_forget_leaves_the_new_text_alone_in_the_history(cli: Cli, old: str) -> None:
    new = cli("replace", old, "My seat is 14C", "--forget", "--json").json["id"]
    assert [one["text"] for one in cli("history", new, "--json").json["versions"]] == ["My seat is 14C"]


def test_replace_reads_its_text_from_stdin(cli: Cli, old: str) -> None:
    assert cli("replace", old, "-", stdin="My seat is 14C\n").code == 0
    assert "14C" in cli("get", "which seat?").out


def test_replace_of_an_unknown_and_of_a_replaced_line_is_refused_by_name(cli: Cli, old: str) -> None:
    assert cli("replace", "01JABCDEFGHJKMNPQRSTVWXYZ0", "x", "--json").reason == "not_found"
    assert cli("history", "01JABCDEFGHJKMNPQRSTVWXYZ0", "--json").reason == "not_found"
    assert cli("replace", old, "My seat is 14C").code == 0
    assert cli("replace", old, "My seat is 15D", "--json").reason == "line_replaced"
    assert cli("replace", "not an id", "x", "--json").reason == "invalid_request"
