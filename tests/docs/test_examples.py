"""What the pages show is what happens: their Python blocks and the example files run."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strongroom import Vault
from tests.docs.pages import DOCS, PYTHON, ROOT, Block, blocks, name, saved_as

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def typed(page: Path) -> list[Block]:
    """The Python blocks of a page that a reader types; those to be saved as a file are run by test_shell.py."""
    return [block for block in blocks(page, *PYTHON) if saved_as(block) is None]


TAUGHT = [page for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))] if typed(page)]


def run_block(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run one block with the names that the page has made so far. A session must print what it shows."""
    if block.language != "pycon":
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, str(page), "exec", dont_inherit=True), names)  # as a reader runs it
        return
    session = doctest.DocTestParser().get_doctest(block.text, names, name(page), str(page), block.line - 1)
    assert session.examples, f"{name(page)}:{block.line} shows no session"
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(session, out=said.append, clear_globs=False)
    assert outcome.failed == 0, "".join(said)
    names.update(session.globs)


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("page", TAUGHT, ids=name)
def test_python_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("STRONGROOM_VAULT", str(tmp_path / "own-vault"))
    monkeypatch.setenv("STRONGROOM_CONFIG", str(tmp_path / "config.toml"))
    names: dict[str, Any] = {"__name__": "__docs__"}
    try:
        for block in typed(page):
            run_block(block, page, names)
    finally:
        for value in names.values():
            if isinstance(value, Vault):
                value.close()


@pytest.mark.requirement("project-docs")
def test_session_that_prints_something_else_is_noticed() -> None:
    wrong = Block("pycon", ">>> 1 + 1\n3\n", 1)
    with pytest.raises(AssertionError):
        run_block(wrong, ROOT / "README.md", {})


@pytest.mark.requirement("project-docs")
def test_readme_shows_a_recall_and_a_denial() -> None:
    sessions = "".join(block.text for block in blocks(ROOT / "README.md", "pycon"))
    assert "['Trip to Chengdu, May 25-29, 2026']" in sessions
    assert "CapNamespaceDenied" in sessions


def run_example(path: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Run an example as a user would, with every directory it could write to inside `scratch`."""
    environment = {**os.environ, "STRONGROOM_KEYS": str(scratch / "keys"), "TMPDIR": str(scratch)}
    command = [sys.executable, "-W", "error", str(path)]
    return subprocess.run(
        command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    done = run_example(path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
    assert not done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.requirement("project-docs")
def test_every_example_is_named_on_a_page() -> None:
    told = "".join(page.read_text() for page in [ROOT / "README.md", ROOT / "Makefile", *DOCS.glob("*.md")])
    assert not [path.name for path in EXAMPLES if f"examples/{path.name}" not in told]
