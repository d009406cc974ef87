"""The architecture page is true where a test can tell: tree, layers, gate, caps, objects."""

from __future__ import annotations

import re
import tomllib

import pytest

from strongroom.caps.chain import Grantable, Narrowing
from strongroom.memory import vault_records
from strongroom.memory.cap_index import CAPS
from tests.docs.pages import DOCS, ROOT, blocks, code, rows, section

PAGE = DOCS / "architecture.md"
PACKAGE = ROOT / "src" / "strongroom"


def layers() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [one["layers"] for one in settings if one["type"] == "layers"]
    return list(found)


@pytest.mark.requirement("project-docs")
def test_layers_are_the_ones_that_are_checked() -> None:
    shown = [block.text.split("\n")[:-1] for block in blocks(PAGE, "text")]
    assert layers() in shown


@pytest.mark.requirement("project-docs")
def test_every_top_level_module_has_its_row() -> None:
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    named = [code(cells[0])[0] for cells in rows(section(PAGE, "## Layers"))]
    assert sorted(named) == sorted(modules - {"__init__"})


@pytest.mark.requirement("project-docs")
def test_tree_shows_every_package_and_every_top_level_module() -> None:
    (tree,) = [block.text for block in blocks(PAGE, "text") if block.text.startswith("src/strongroom/\n")]
    shown: list[str] = []
    above: dict[int, str] = {}
    for indent, name in re.findall(r"^((?:  )+)([a-z_0-9]+(?:/|\.py)) +\S", tree, re.MULTILINE):
        above[len(indent)] = above.get(len(indent) - 2, "") + name
        shown.append(above[len(indent)])
    packages = {f"{path.parent.relative_to(PACKAGE)}/" for path in PACKAGE.glob("*/**/__init__.py")}
    assert sorted(shown) == sorted(packages | {path.name for path in PACKAGE.glob("[a-z]*.py")})


@pytest.mark.requirement("seed-architecture")
def test_page_states_the_gates_order() -> None:
    gate = section(PAGE, "## The gate")
    assert "verify → op → data class → namespaces → limits" in gate
    steps = ["1. *Verify*", "2. *Op*", "3. *Data class*", "4. *Namespaces*", "5. *Limits*"]
    places = [gate.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.requirement("seed-architecture")
def test_page_states_the_namespace_field_and_claim() -> None:
    assert "**The namespace field.**" in section(PAGE, "## The gate")
    assert "`namespaces_allowed`" in section(PAGE, "## The gate")
    claims = {claim for cells in rows(section(PAGE, "## Caps")) for claim in code(cells[0])}
    assert claims == {*Grantable.__struct_fields__, *Narrowing.__struct_fields__}


@pytest.mark.requirement("project-docs")
def test_page_names_every_kind_of_object() -> None:
    kinds = [value for key, value in vars(vault_records).items() if key.isupper() and not key.startswith("_")]
    kinds = [CAPS, *(value for value in kinds if isinstance(value, str))]
    assert len(kinds) == 8
    named = [code(cells[0])[0] for cells in rows(section(PAGE, "## Objects in the store"))]
    assert not [kind for kind in kinds if not any(one.startswith(kind) for one in named)]
    assert not [one for one in named if not any(one.startswith(kind) for kind in kinds)]
