"""The project itself: what the core imports, what it depends on, which names are public."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import strongroom

ROOT = Path(__file__).parent.parent
CORE = {"Stemmer", "apsw", "click", "cryptography", "msgspec", "platformdirs", "ulid"}
"""What loads; pyrage does so only where a file is locked or unlocked."""

UNDERNEATH = {"_cffi_backend", "_openssl", "cffi", "cython_runtime", "typing_extensions"}
"""What the core's own libraries bring along."""

EXTRAS = (
    "strongroom.client",
    "strongroom.server",
    "strongroom.store.s3",
    "strongroom.vault.migrate.to_bucket",
)
"""Rooms, and modules, whose libraries come with an extra; what imports them does so when they are used."""

FORBIDDEN = {
    "aiohttp",
    "anthropic",
    "fastapi",
    "flask",
    "httpx",
    "langchain",
    "litellm",
    "mcp",
    "openai",
    "requests",
    "starlette",
    "torch",
    "transformers",
    "uvicorn",
}

IMPORT_ALL = """
import importlib, json, pathlib, sys
before = set(sys.modules)
import strongroom
root = pathlib.Path(strongroom.__file__).parent
for path in sorted(root.rglob("*.py")):
    name = ".".join(("strongroom", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    # One needs pytest.
    others = ("conformance.plugin", "__main__")
    if not name.endswith(others) and not name.startswith(EXTRAS):
        importlib.import_module(name)
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(tops - set(sys.stdlib_module_names))))
"""


def _imported() -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"EXTRAS = {EXTRAS}\n{IMPORT_ALL}"], capture_output=True, text=True, check=True
    )
    return {name for name in json.loads(done.stdout) if not name.startswith("_cython_")}


@pytest.mark.requirement("seed-no-llm", "project-light")
def test_importing_every_module_loads_the_core_libraries_and_nothing_else() -> None:
    loaded = _imported()
    assert loaded >= CORE, "the probe must see the libraries that are there"
    assert loaded - CORE - UNDERNEATH - {"strongroom", "sitecustomize"} == set()
    assert not loaded & FORBIDDEN


@pytest.mark.requirement("project-light")
def test_core_depends_on_the_named_libraries_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.split(">")[0].strip() for requirement in project["dependencies"]}
    assert names == {
        "PyStemmer",
        "apsw",
        "click",
        "cryptography",
        "msgspec",
        "platformdirs",
        "pyrage",
        "python-ulid",
    }


@pytest.mark.requirement("project-hermes")
def test_check_beside_hermes_pins_what_hermes_pins() -> None:
    script = (ROOT / "scripts" / "beside_hermes.py").read_text()
    for pin in ('"hermes-agent": "0.19.0"', '"cryptography": "46.0.7"', '"rich": "14.3.3"'):
        assert pin in script
    makefile = (ROOT / "Makefile").read_text()
    check = makefile.split("\ncheck:")[1].split("\nbench:")[0]
    assert "scripts/beside_hermes.py" in check
    assert '"hermes-agent==0.19.0"' in makefile


@pytest.mark.requirement("project-public")
def test_public_names_are_these() -> None:
    assert sorted(strongroom.__all__) == [
        "AsyncMemory",
        "EnvironmentKeys",
        "FileKeys",
        "KeySource",
        "Memory",
        "NewLine",
        "PassphraseKeys",
        "Token",
        "Vault",
        "actor_path",
        "attenuate",
        "backup",
        "connect",
        "create",
        "errors",
        "local",
        "open",
        "restore",
        "verify",
    ]
    assert all(hasattr(strongroom, name) for name in strongroom.__all__)


@pytest.mark.requirement("gate-no-actor")
def test_no_method_of_memory_takes_an_actor() -> None:
    members = {name: one for kind in reversed(strongroom.Memory.__mro__[:-1]) for name, one in vars(kind).items()}
    verbs = {name for name, one in members.items() if not name.startswith("_") and callable(one)}
    assert verbs == {
        "close",
        "delete_document",
        "deliver",
        "document",
        "document_history",
        "documents",
        "erase",
        "forget",
        "get",
        "history",
        "inbox",
        "list",
        "observe",
        "profile",
        "put",
        "put_many",
        "rename_document",
        "renew",
        "replace",
        "set_profile",
        "snapshot",
        "with_cap",
        "write_document",
    }
    for name in verbs:
        method = members[name]
        assert (
            "actor"
            not in method.__code__.co_varnames[: method.__code__.co_argcount + method.__code__.co_kwonlyargcount]
        )
    assert "actor" not in strongroom.NewLine.__struct_fields__


def test_no_tracked_file_names_an_index_or_this_machine() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        text = (ROOT / name).read_text(errors="replace") if (ROOT / name).is_file() else ""
        for word in ("index" + "-url", "/sim" + "ple/", "find" + "-links"):
            assert word not in text, f"{name}: {word}"
