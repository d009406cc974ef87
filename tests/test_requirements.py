"""Requirements and tests are tied both ways: each requirement has a test, each named id is a requirement."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parent


@functools.cache
def _named_ids() -> dict[str, list[str]]:
    """Requirement ids in `@pytest.mark.requirement(...)`, or in a module's `pytestmark`, with what carries them."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in _marks(node):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("mark.requirement"):
                    for value in mark.args:
                        assert isinstance(value, ast.Constant), f"{path}: ids must be written out"
                        assert isinstance(value.value, str)
                        found.setdefault(value.value, []).append(f"{path.name}::{getattr(node, 'name', '')}")
    return found


def _marks(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.decorator_list
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
        return node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return []


def test_every_requirement_has_a_test() -> None:
    missing = sorted(set(REQUIREMENTS) - set(_named_ids()))
    assert not missing, f"requirements without a test: {missing}"


def test_every_named_id_is_a_requirement() -> None:
    unknown = sorted(set(_named_ids()) - set(REQUIREMENTS))
    assert not unknown, f"tests name unknown requirements: {unknown}"
