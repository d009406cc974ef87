"""scripts/setup.sh: what it installs outside its environment, and that it can be told not to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "setup.sh"


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.requirement("project-setup")
@pytest.mark.parametrize(("told", "asked"), [({}, True), ({"NO_SYSTEM_PACKAGES": "1"}, False)])
def test_root_without_a_compiler_is_told_what_is_installed_and_can_refuse_it(
    tmp_path: Path, told: dict[str, str], asked: bool
) -> None:
    """With an apt-get that only writes down what it was asked for, and a Python that makes no environment."""
    _program(tmp_path / "apt-get", f'echo "$@" >> {tmp_path}/asked; exit 1')
    _program(tmp_path / "id", "echo 0")
    _program(tmp_path / "python", f'[ "$1" != -m ] || exit 1; exec {sys.executable} "$@"')
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CC": "no-such-compiler"}
    environment.pop("NO_SYSTEM_PACKAGES", None)
    done = subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path / "venv"), "nothing"],
        env={**environment, "PYTHON": str(tmp_path / "python"), **told},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (tmp_path / "asked").exists() is asked
    assert ("NO_SYSTEM_PACKAGES=1" in done.stdout) is asked
    assert "apt-get install gcc libc6-dev python3-dev" in done.stderr
