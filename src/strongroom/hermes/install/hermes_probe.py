"""Find the Python that runs Hermes, and ask it in a child process what it can import. Nothing is changed.

`strongroom` may be installed in another environment than Hermes, so what counts is what Hermes' Python can import.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.host.plugins import hermes_stubs

LEAST = (0, 19)
PATIENCE = 120.0
"""Seconds to wait for a child process. A cold start of Hermes takes a few."""
MARK = "strongroom-wire:"
"""The prefix of the line on which a child process prints its result."""
_SCRIPT_LIMIT = 16 * 1024


@dataclass(frozen=True, slots=True)
class Hermes:
    """An installed Hermes. `lacks`: modules its Python cannot import; `broken`: why it cannot import the provider."""

    python: Path
    version: str
    strongroom: str
    lacks: frozenset[str]
    broken: str
    platforms: frozenset[str] = frozenset()
    """The chat platforms that it supports; empty if unknown."""

    @property
    def is_tested(self) -> bool:
        """Whether its version is at least the first one this was tested with."""
        numbers = re.findall(r"\d+", self.version)[:2]
        return tuple(map(int, numbers)) >= LEAST


def find(python: str | None = None, path: str | None = None) -> Hermes:
    """Find Hermes: in the environment of this Python, else by the `hermes` on the search path."""
    found = Path(python) if python else _own() or _on_path(path)
    if found is None:
        raise InvalidRequest(
            "there is no `hermes` on the search path",
            hint="install Hermes, or name the Python that runs it with --python",
        )
    said = ask(found, ("-c", _PROBE))
    if not said["hermes"]:
        raise InvalidRequest(f"{found} cannot import Hermes", hint="name the Python that runs it with --python")
    lacks = frozenset(map(str, said["lacks"]))
    platforms = frozenset(map(str, said["platforms"]))
    return Hermes(found, str(said["hermes"]), str(said["strongroom"]), lacks, str(said["broken"]), platforms)


def _own() -> Path | None:
    """This Python, if Hermes is installed in it. Stubs with its module names, as in a provider host, do not count."""
    return Path(sys.executable) if sys.executable and hermes_stubs.elsewhere("hermes_cli") is not None else None


def _on_path(path: str | None) -> Path | None:
    script = shutil.which("hermes", path=path)
    return None if script is None else python_of(Path(script))


def python_of(script: Path, depth: int = 0) -> Path:
    """The Python that a script runs with: by its first line, or by the program that it executes."""
    try:
        text = script.read_bytes()[:_SCRIPT_LIMIT].decode("utf-8", "replace")
    except OSError as error:
        raise InvalidRequest(f"cannot read {script}: {error.strerror}") from None
    for words in _commands(text):
        program = Path(words[0])
        if program.name.startswith("python") and program.is_absolute():
            return program
        if depth < 3 and program.name in ("hermes", "hermes-agent") and program.is_absolute() and program != script:
            return python_of(program, depth + 1)
    beside = script.resolve().parent / "python"
    if beside.exists():
        return beside
    raise InvalidRequest(
        f"cannot find out which Python {script} runs with", hint="name the Python that runs Hermes with --python"
    )


def _commands(text: str) -> list[list[str]]:
    """The commands in a script's first line and its `exec` lines."""
    found = []
    for line in text.splitlines():
        command = re.match(r"#!\s*(.+)|\s*'*exec'*\s+(.+)", line)
        if command is None:
            continue
        try:
            words = shlex.split(command[1] or command[2])
        except ValueError:
            continue
        if words:
            found.append(words)
    return found


def ask(python: Path, program: Sequence[str], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a program (`-c` or `-m` and its arguments) in a Python and return the JSON object that it prints last."""
    command = [str(python), "-B", "-P", *program]
    try:
        done = subprocess.run(  # noqa: S603 - the Python that the user runs Hermes with
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, **(environ or {})},
        )
    except subprocess.TimeoutExpired:
        raise ProviderUnavailable(
            f"{python} did not answer within {PATIENCE:.0f} seconds", hint="run this again, or check that Hermes starts"
        ) from None
    except OSError as error:
        raise InvalidRequest(f"cannot start {python}: {error.strerror}", hint="name another with --python") from None
    for line in reversed(done.stdout.decode("utf-8", "replace").splitlines()):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    raise ProviderUnavailable(
        f"{python} ended with exit code {done.returncode} and without an answer", hint="check that Hermes starts"
    )


# Source text, not a module: strongroom may not be installed in that Python.
_PROBE = (
    """
import json
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
def of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
lacks = [one for one in ("detect_secrets", "httpx", "strongroom") if find_spec(one) is None]
broken, platforms = "", []
hermes = (of("hermes-agent") or "unknown") if find_spec("hermes_cli") is not None else ""
if hermes:
    try:
        from strongroom.provider import register
    except Exception as error:
        broken = (type(error).__name__ + " " + str(getattr(error, "name", None) or "")).strip()
    try:
        from gateway.config import Platform
        platforms = sorted({one.value for one in Platform} | Platform._scan_bundled_plugin_platforms())
    except Exception:
        pass  # another version of Hermes: nothing is known of them
found = dict(hermes=hermes, strongroom=of("strongroom"), lacks=lacks, broken=broken, platforms=platforms)
"""
    f'print("\\n{MARK}" + json.dumps(found), flush=True)'
)
