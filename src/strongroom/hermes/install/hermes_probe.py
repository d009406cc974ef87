"""Find the Python that runs Hermes, and ask it in a child process which modules it can import. Nothing is changed.

`strongroom` and Hermes may be in different environments, so only the imports of Hermes' Python count.
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
"""Seconds to wait for a child process. A cold start of Hermes takes a few seconds."""
MARK = "strongroom-wire:"
"""The prefix of the line on which a child process prints its result."""
_SCRIPT_LIMIT = 16 * 1024


@dataclass(frozen=True, slots=True)
class Hermes:
    """An installed Hermes. `lacks` has the modules that its Python cannot import.

    `broken` is the reason why that Python cannot import the provider; empty if it can.
    """

    python: Path
    version: str
    strongroom: str
    lacks: frozenset[str]
    broken: str
    platforms: frozenset[str] = frozenset()
    """The chat platforms that this Hermes supports; empty if unknown."""

    @property
    def is_tested(self) -> bool:
        """Whether this version of Hermes is at least the first version that Strongroom was tested with."""
        numbers = re.findall(r"\d+", self.version)[:2]
        return tuple(map(int, numbers)) >= LEAST


def find(python: str | None = None, path: str | None = None) -> Hermes:
    """Find Hermes by the given Python, in this Python's environment, or by the `hermes` on the search path."""
    found = Path(python) if python else _own() or _on_path(path)
    if found is None:
        raise InvalidRequest(
            "there is no `hermes` on the search path",
            hint="install Hermes, or use --python to name the Python that runs it",
        )
    said = ask(found, ("-c", _PROBE))
    if not said["hermes"]:
        raise InvalidRequest(
            f"the Python {found} cannot import Hermes", hint="use --python to name the Python that runs Hermes"
        )
    lacks = frozenset(map(str, said["lacks"]))
    platforms = frozenset(map(str, said["platforms"]))
    return Hermes(found, str(said["hermes"]), str(said["strongroom"]), lacks, str(said["broken"]), platforms)


def _own() -> Path | None:
    """This Python, if Hermes is installed in its environment.

    A provider host has stub modules with Hermes' names; they do not count.
    """
    return Path(sys.executable) if sys.executable and hermes_stubs.elsewhere("hermes_cli") is not None else None


def _on_path(path: str | None) -> Path | None:
    script = shutil.which("hermes", path=path)
    return None if script is None else python_of(Path(script))


def python_of(script: Path, depth: int = 0) -> Path:
    """Find the Python that runs a script: named in the script, named in a script that it calls, or in the same
    directory.
    """
    try:
        text = script.read_bytes()[:_SCRIPT_LIMIT].decode("utf-8", "replace")
    except OSError as error:
        raise InvalidRequest(f"cannot read the script {script}: {error.strerror}") from None
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
        f"cannot find out which Python runs the script {script}",
        hint="use --python to name the Python that runs Hermes",
    )


def _commands(text: str) -> list[list[str]]:
    """The commands in the first line and the `exec` lines of a script."""
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
    """Run a program in another Python, and return the JSON object that the program prints last.

    `program` is `-c` or `-m` with its arguments.
    """
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
            f"the Python {python} did not answer within {PATIENCE:.0f} seconds",
            hint="run this command again, or check that Hermes starts",
        ) from None
    except OSError as error:
        raise InvalidRequest(
            f"cannot start the Python {python}: {error.strerror}", hint="use --python to name another Python"
        ) from None
    for line in reversed(done.stdout.decode("utf-8", "replace").splitlines()):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    raise ProviderUnavailable(
        f"the Python {python} ended with exit code {done.returncode} and without an answer",
        hint="check that Hermes starts",
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
