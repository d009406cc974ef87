"""A home of its own for each test of the command line, and two ways to run it: in this process and as a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import strongroom
from strongroom import Vault, settings
from strongroom.cli.app import app
from strongroom.keys import default_directory
from strongroom.vault.create_open import identify

KEPT = {"PATH", "LANG", "LC_ALL", "PYTHONPATH", "COVERAGE_PROCESS_START"}


@dataclass(frozen=True)
class Done:
    """How a run of the command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error that `--json` told; nothing else may stand on stderr then."""
        return json.loads(self.err)

    @property
    def reason(self) -> str:
        return str(self.error["reason"])


Cli = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and an environment that names nothing outside it."""
    place = tmp_path / "home"
    place.mkdir()
    for name in list(os.environ):
        if name.startswith(("STRONGROOM_", "XDG_", "HERMES_")) or name in ("NO_COLOR", "VISUAL", "EDITOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def cli(home: Path) -> Cli:
    """Runs a command line in this process."""

    def run(*arguments: str, stdin: str | bytes = "") -> Done:
        done = CliRunner().invoke(app, arguments, input=stdin, prog_name="strongroom")
        return Done(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def process(home: Path) -> Cli:
    """Runs a command line as a process of its own, as a shell would."""

    def run(*arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "strongroom", *arguments],
            input=stdin,
            cwd=home,
            env=environment(env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a child process gets: the test's own home, and nothing else of this machine."""
    mine = {name: value for name, value in os.environ.items() if name in KEPT | {"HOME", "TZ"}}
    return {
        **mine,
        "TERM": "xterm",
        **{k: v for k, v in os.environ.items() if k.startswith("STRONGROOM_")},
        **(more or {}),
    }


@pytest.fixture
def vault(cli: Cli) -> None:
    """A vault made by `strongroom init`, in its default place."""
    done = cli("init")
    assert done.code == 0, done.err


@pytest.fixture
def caps(vault: None, home: Path) -> Callable[..., Path]:
    """Writes a cap into a file of mode 0600, as `cap mint --out` does, and names the file."""

    def write(name: str, token: str, *, mode: int = 0o600) -> Path:
        path = home / name
        path.write_text(token + "\n")
        path.chmod(mode)
        return path

    return write


def opened() -> Vault:
    """The test's vault, opened by the library."""
    place = settings.find().vault
    return strongroom.open(place, keys=settings.keys_of(identify(place), str))


def put_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a line and a document for somebody whose memory nobody opens, and let two hours pass: both have ended."""
    with opened() as vault:
        memory = vault.memory(vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=60))
        ends = datetime.now(UTC) + timedelta(hours=1)
        memory.put("the code is 1111", namespace="travel", expires=ends)
        memory.write_document("code", "the code is 1111", namespace="travel", expires=ends)
    genuine = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: genuine() + 7_200_000_000_000)


def owner_cap() -> Path:
    """Where the owner's cap lies."""
    return default_directory(identify(settings.find().vault)) / "owner.cap"
