"""The specification says what the code keeps of a cap, what it puts on record, and what an admin cap may mint."""

from __future__ import annotations

import re

import pytest

from strongroom.cli.log_view import OPS
from strongroom.model import CapRecord, Op
from strongroom.vault.issue import _MEMORY_OPS
from tests.docs.pages import DOCS, code, rows, section
from tests.vault.test_local_transport import AUDITING

CAP, LINE, AUDIT = (DOCS / "spec" / f"{name}.md" for name in ("cap", "line", "audit"))


@pytest.mark.requirement("project-docs")
def test_page_names_every_field_of_a_caps_record_in_order() -> None:
    (cells,) = [row for row in rows(LINE.read_text()) if row[0] == "`vault/caps/<link id>`"]
    assert [name for name in code(cells[1]) if name in CapRecord.__struct_fields__] == list(CapRecord.__struct_fields__)


@pytest.mark.requirement("project-docs")
def test_page_names_every_operation_that_an_entry_may_be_about() -> None:
    (cells,) = [row for row in rows(section(AUDIT, "## 2. Entry")) if row[0] == "`op`"]
    assert set(code(cells[2])) == OPS


@pytest.mark.requirement("project-docs")
def test_page_names_every_detail_of_what_is_done_with_a_cap() -> None:
    table = [row for row in rows(section(AUDIT, "## 2. Entry")) if len(row) == 4]
    assert {code(op)[0] for op, *_ in table} == {"renew", "mint", "revoke", "audit"}
    told = {re.sub("<.*?>", "0", detail) for *_, cell, _ in table for detail in code(cell)}
    assert told == {*AUDITING, "caps listed", "link 0", "link 0, revoked before"}


@pytest.mark.requirement("project-docs")
def test_page_names_the_ops_that_an_admin_cap_does_not_mint() -> None:
    (rule,) = re.findall(r"^2\. every op is one of the memory's: (.*), else", CAP.read_text(), re.MULTILINE)
    assert set(code(rule)) == set(Op) - _MEMORY_OPS
