"""The page of failures uses reasons that there are, and explains every finding of a verification."""

from __future__ import annotations

import re

import pytest

from strongroom import errors
from strongroom.audit import Flaw
from tests.docs.pages import DOCS, code, rows, section

PAGE = DOCS / "failures.md"


@pytest.mark.requirement("project-docs")
def test_failures_page_explains_every_finding_and_no_other() -> None:
    named = [code(cells[0])[0] for cells in rows(section(PAGE, "## What `audit verify` finds"))]
    assert sorted(named) == sorted(Flaw)


@pytest.mark.requirement("project-docs", "error-tables")
def test_failures_page_gives_only_reasons_that_there_are() -> None:
    reasons = [word for _, cell, _ in rows(section(PAGE, "## When a part fails")) for word in code(cell)]
    named = [word for word in reasons if re.fullmatch("[a-z_]+", word)]
    assert len(named) > 10
    assert not set(named) - set(errors.BY_REASON)
