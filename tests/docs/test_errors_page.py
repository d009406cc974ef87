"""The reference of reasons is complete and says the same as the code."""

from __future__ import annotations

import pytest

from strongroom import api, errors
from strongroom.cli.error_output import BY_FAMILY
from tests.docs.pages import DOCS, blocks, code, rows, section

PAGE = DOCS / "errors.md"
TABLE = {code(cells[0])[0]: cells for cells in rows(section(PAGE, "## The reasons"))}


@pytest.mark.requirement("project-docs", "error-tables")
def test_page_lists_every_reason_and_no_other() -> None:
    assert set(TABLE) == set(errors.BY_REASON)


@pytest.mark.requirement("project-docs", "error-tables")
@pytest.mark.parametrize("reason", sorted(errors.BY_REASON))
def test_row_has_family_status_meaning_and_advice(reason: str) -> None:
    _, family, status, meaning, advice = TABLE[reason]
    assert family == errors.BY_REASON[reason].family
    assert status == (str(api.STATUS[reason]) if reason in api.STATUS else "-")
    assert meaning
    assert advice


@pytest.mark.requirement("project-docs", "wire-status")
def test_only_what_never_travels_has_a_dash() -> None:
    dashes = {reason for reason, cells in TABLE.items() if cells[2] == "-"}
    assert dashes == set(errors.BY_REASON) - set(api.STATUS)


@pytest.mark.requirement("project-docs", "cli-exit-codes")
def test_page_gives_each_family_its_exit_code() -> None:
    assert {family: int(code) for family, code in rows(section(PAGE, "## Exit codes"))} == BY_FAMILY


@pytest.mark.requirement("project-docs", "error-tables")
def test_tree_on_the_page_is_the_tree_of_the_module() -> None:
    (tree,) = blocks(PAGE, "text")
    assert tree.text.startswith("StrongroomError\n")
    assert tree.text in (errors.__doc__ or "")
    assert all(f" {reason}" in tree.text for reason in errors.BY_REASON)
