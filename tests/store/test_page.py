"""The page on writing a store: its example passes the suite and, registered, carries a vault."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import strongroom
from strongroom import FileKeys
from strongroom.store import Backend, Store
from strongroom.store.conformance import StoreContract

PAGE = Path(__file__).parents[2] / "docs" / "stores.md"


class Whole(StoreContract):
    """The suite as it is for a store that promises everything."""


TESTS = Whole.asked()


@pytest.fixture
def metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page's example, installed as a package of somebody else would be."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    registered = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    group, entry = registered[0].strip().splitlines()
    (tmp_path / "metered.py").write_text(blocks[0])
    (tmp_path / "test_metered.py").write_text("from metered import MeteredStore\n" + blocks[1])
    info = tmp_path / "metered-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: metered\nVersion: 1.0\n")
    section = group.removeprefix('[project.entry-points."').removesuffix('"]')
    (info / "entry_points.txt").write_text(f"[{section}]\n{entry.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("test_metered")
    for name in ("metered", "test_metered"):
        sys.modules.pop(name, None)


@pytest.mark.requirement("store-contract", "project-docs")
@pytest.mark.parametrize("name", TESTS)
def test_example_passes_the_suite(metered: ModuleType, name: str) -> None:
    assert issubclass(metered.TestMeteredStore, StoreContract)
    contract = metered.TestMeteredStore()
    contract.setup_method()
    try:
        getattr(contract, name)()
    finally:
        contract.teardown_method()


@pytest.mark.requirement("project-docs")
def test_example_carries_a_vault_once_registered(metered: ModuleType, tmp_path: Path) -> None:
    with strongroom.create(f"metered://{tmp_path / 'vault'}", keys=FileKeys(tmp_path / "keys")) as vault:
        cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"])
        vault.memory(cap).put("Trip to Chengdu")
        assert [hit.text for hit in vault.memory(cap).get("trip")] == ["Trip to Chengdu"]
    counts = sys.modules["metered"].commits
    assert counts["done"] >= 4
    assert (tmp_path / "vault" / "vault.db").exists()


@pytest.mark.requirement("project-docs")
def test_page_names_every_method_of_the_contract() -> None:
    text = PAGE.read_text()
    for protocol in (Backend, Store):
        methods = [name for name in vars(protocol) if not name.startswith("_")]
        assert len(methods) >= 2
        assert [name for name in methods if f"`{name}(" not in text and f"`{name}`" not in text] == []
