"""The long demonstration, run in this process, in a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from demo.__main__ import demo
from tests.cli.conftest import Cli, Done, home

__all__ = ["home"]


@pytest.fixture
def run_demo(home: Path) -> Cli:
    """Runs `python -m demo` with these options."""

    def run(*arguments: str) -> Done:
        done = CliRunner().invoke(demo, arguments, prog_name="python -m demo")
        return Done(done.exit_code, done.stdout, done.stderr)

    return run
