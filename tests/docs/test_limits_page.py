"""The page of limits gives every number as the code has it."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from tests.docs.pages import DOCS, code, rows

LIMITS = list(rows((DOCS / "limits.md").read_text()))


@pytest.mark.requirement("project-docs")
def test_limits_page_names_each_limit_once() -> None:
    named = [where for _, _, where in LIMITS]
    assert len(named) > 60
    assert len(named) == len(set(named))


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize(("value", "where"), [(value, where) for _, value, where in LIMITS])
def test_limit_is_the_one_in_the_code(value: str, where: str) -> None:
    assert float(value) == resolve_name(code(where)[0])
