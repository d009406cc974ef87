"""The host knows no provider by name: adding one touches nothing here. The scanner itself is tested too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import strongroom

ROOT = Path(__file__).parents[2]
HOST = Path(strongroom.__file__).parent / "host"
KNOWN = {
    "byterover",
    "cognee",
    "hindsight",
    "holographic",
    "honcho",
    "langmem",
    "letta",
    "mem0",
    "memgpt",
    "memobase",
    "mnemosyne",
    "openviking",
    "retaindb",
    "supermemory",
    "zep",
}
"""Known whether or not Hermes is installed here."""


def _bundled() -> set[str]:
    """The providers that an installed Hermes brings along, as its directory names them."""
    places = (ROOT / ".venv-hermes").glob("lib/python3*/site-packages/plugins/memory/*/__init__.py")
    return {place.parent.name.lower() for place in places}


def _named(directory: Path, names: set[str]) -> list[str]:
    """Each file below a directory that holds a name, in its path or its text, also inside a longer word."""
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names)), re.IGNORECASE)
    found = []
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        text = f"{path.relative_to(directory)}\n{path.read_text(errors='replace')}"
        hits = {hit.group().lower() for hit in pattern.finditer(text)}
        found += [f"{path.relative_to(directory)}: {hit}" for hit in sorted(hits)]
    return found


@pytest.mark.requirement("cache-new-provider-no-change")
def test_no_provider_is_named_in_the_host() -> None:
    assert (HOST / "cache" / "__init__.py").is_file()
    assert _named(HOST, KNOWN | _bundled()) == []


def test_every_provider_that_hermes_brings_along_is_looked_for() -> None:
    bundled = _bundled()
    if not bundled:
        pytest.skip("no Hermes is installed here")
    assert bundled <= KNOWN, "a provider is new in Hermes: add its name above"


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("cache.py", "from plugins.memory.honcho.client import HonchoClientConfig"),
        ("cache.py", "# as mem0 does it"),
        ("cache.py", "SUPERMEMORY_API_KEY = ''"),
        ("cache.py", "class MyHolographicStore: ..."),
        ("deep/below/thing.yaml", "provider: hindsight"),
        ("openviking.py", ""),
        ("zep/__init__.py", ""),
    ],
)
def test_name_that_is_planted_is_found(tmp_path: Path, where: str, text: str) -> None:
    planted = tmp_path / where
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(text)
    (tmp_path / "clean.py").write_text("import json\n")
    found = _named(tmp_path, KNOWN)
    assert found
    assert {one.partition(":")[0] for one in found} == {where}


def test_planted_name_of_a_provider_that_only_hermes_knows_is_found(tmp_path: Path) -> None:
    (tmp_path / "cache.py").write_text("if provider == 'Brandnew': ...")
    assert _named(tmp_path, KNOWN) == []
    assert _named(tmp_path, KNOWN | {"brandnew"}) == ["cache.py: brandnew"]
