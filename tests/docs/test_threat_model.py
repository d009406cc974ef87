"""Every claim of the threat model has a mechanism, and a test that exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, code, name, pages, rows, section

PAGE = DOCS / "threat-model.md"
CLAIMS = list(rows(section(PAGE, "## Claims")))


@functools.cache
def named_tests(path: Path) -> frozenset[str]:
    """The names of the tests in a file, without importing it."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.requirement("project-docs")
def test_threat_model_has_claims() -> None:
    assert len(CLAIMS) > 20


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("cells", CLAIMS, ids=lambda cells: cells[0])
def test_claim_has_a_mechanism_and_tests_that_exist(cells: list[str]) -> None:
    claim, mechanism, proofs = cells
    assert claim
    assert mechanism
    assert code(proofs), "a claim needs a test"
    for proof in code(proofs):
        check_exists(proof)


def check_exists(proof: str) -> None:
    """Check that `tests/file.py::test_name` is there."""
    file, _, test = proof.partition("::")
    assert file.startswith("tests/"), proof
    assert (ROOT / file).is_file(), f"there is no {file}"
    assert test in named_tests(ROOT / file), f"there is no {proof}"


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for proof in re.findall(r"`(tests/[a-z0-9_/]+\.py::\w+)`", page.read_text()):
        check_exists(proof)


LIMITS = [
    ("SECURITY.md", "## Honest limits"),
    ("docs/fleet.md", "## What is promised"),
    ("docs/fleet.md", "## What the operator of the bucket sees, and can do"),
]


@pytest.mark.requirement("project-docs", "docs-fleet")
@pytest.mark.parametrize(("page", "heading"), LIMITS)
def test_each_promise_and_each_limit_of_a_fleet_names_its_test(page: str, heading: str) -> None:
    (table,) = (part for part in section(ROOT / page, heading).split("\n\n") if "| test |\n" in part)
    found = list(rows(table))
    assert len(found) > 5
    for *said, proofs in found:
        assert all(said)
        assert [proof for proof in code(proofs) if proof.startswith("tests/")], said[0]


@pytest.mark.requirement("project-docs")
def test_every_attack_that_is_tried_has_its_claim() -> None:
    named = {proof for cells in CLAIMS for proof in code(cells[2])}
    tried = {f"tests/test_attacks.py::{test}" for test in named_tests(ROOT / "tests" / "test_attacks.py")}
    assert tried
    assert not tried - named


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize(
    "part", ["read access", "write access", "a cap", "issuer key", "root key", "log key", "name key", "same user"]
)
def test_page_says_what_an_attacker_with_each_part_can_do(part: str) -> None:
    having = [cells for cells in rows(section(PAGE, "## What each part gives an attacker")) if part in cells[0]]
    assert having
    assert all(can and cannot for _, can, cannot in having)
