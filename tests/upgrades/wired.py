"""A wired home of Hermes at a time of one's choice: processes with a clock that was moved, and paths that can move.

A fixture of a home has names in the place of what differs from machine to machine: the directory that all of it is
in, the model's address, and the digits by which 0.1 calls what is kept outside a home.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.hermes import homes
from tests.hermes.homes import Home
from tests.hermes.rig_model import Model
from tests.hermes.rigs import ANSWER_SECONDS, Rig, Settings

CLOCK = Path(__file__).with_name("clock")
ROOT, MODEL, DIGITS = b"@ROOT@", b"@MODEL@", b"@HOME@"
DATA = Path("user", "data", "strongroom")


def at(millis: int) -> Settings:
    """The surroundings of a process that starts at this time, if it starts now."""
    ahead = millis * 1_000_000 - time.time_ns()
    path = os.pathsep.join((str(CLOCK), str(homes.ROOT)))
    return Settings(environment={"STRONGROOM_TEST_AHEAD": str(ahead), "PYTHONPATH": path})


def command(rig: Rig, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Hermes' environment with the rig's clock, as a user would: it does not see the tests."""
    assert homes.PYTHON.exists(), homes.MISSING
    return subprocess.run(
        [homes.PYTHON.parent / words[0], *words[1:]],
        cwd=rig.home.work,
        env=rig.environment(PYTHONPATH=str(CLOCK)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )


def named(files: Mapping[str, bytes], root: Path, model: str) -> dict[str, bytes]:
    """The files of a home without this machine's paths."""
    swaps = {os.fsencode(root): ROOT, model.encode(): MODEL, _digits(root): DIGITS}
    found = {
        name.replace(_digits(root).decode(), DIGITS.decode()): _swapped(body, swaps) for name, body in files.items()
    }
    left = [name for name, body in found.items() if any(word in body for word in swaps)]
    assert not left, f"these name this machine: {left}"
    return found


def placed(files: Mapping[str, bytes], root: Path, model: Model, settings: Settings) -> Rig:
    """A home of a fixture in a directory of this machine, ready to be used."""
    root = root.resolve()
    swaps = {ROOT: os.fsencode(root), MODEL: model.url.encode(), DIGITS: _digits(root)}
    for name, body in files.items():
        path = root / name.replace(DIGITS.decode(), _digits(root).decode())
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(_swapped(body, swaps))
        path.chmod(0o600)
    for directory in ("work", "tmp", *(f"user/{name}" for name in ("config", "data", "state", "cache", "runtime"))):
        (root / directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    return Rig(Home(root), model, settings.environment)


def _swapped(body: bytes, swaps: Mapping[bytes, bytes]) -> bytes:
    for old, new in swaps.items():
        body = body.replace(old, new) if _is_text(body) else body
    return body


def _is_text(body: bytes) -> bool:
    """Sealed bytes and databases are never touched."""
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False


def _digits(root: Path) -> bytes:
    """How 0.1 calls what a home keeps elsewhere: the start of a hash of the home's path."""
    return hashlib.sha256(os.fsencode(root.resolve() / "hermes")).hexdigest()[:8].encode()
