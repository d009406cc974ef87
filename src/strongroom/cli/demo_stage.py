"""The sandbox of a demonstration: a temporary directory, and processes that use nothing outside it.

Every command is a fresh process with a clean environment: none of the user's vaults, keys, caps or settings is read or
written. This module also has the assertions on a process's answer, so that a step needs one line for each of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from strongroom.cli.error_output import BY_FAMILY
from strongroom.errors import BY_REASON

OK, FAIL = "ok", "fail"
PATIENCE = 120
"""Seconds to wait for a process to end."""
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "SYSTEMROOT")
_AT_ONCE = 3


class Unexpected(Exception):
    """Raised if a step of the demonstration did not go as expected."""

    def __init__(self, expected: object, came: object) -> None:
        super().__init__(f"expected {expected}, came {came}")
        self.expected, self.came = str(expected), str(came)


class StepOutcome(msgspec.Struct, frozen=True):
    """How a step ended. `reason` is set if it was skipped, `expected` and `came` if it failed. `seen` is its output."""

    number: int
    name: str
    state: str
    sentence: str
    reason: str = ""
    expected: str = ""
    came: str = ""
    seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """How a process ended: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The reason in the error document of the process. Without a document, the text on stderr."""
        with suppress(ValueError, TypeError, KeyError):
            return str(json.loads(self.err)["reason"])
        return self.err.strip() or "no reason"

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.out)
        except ValueError:
            raise Unexpected("a JSON document", self.out or self.err or "nothing") from None


class Place:
    """A directory with a vault, and the processes that use it."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.vault = str(scratch / "vault")
        """The place of the vault: a directory, or a place in a bucket."""
        for name in ("home", "tmp"):
            (scratch / name).mkdir()

    def file(self, name: str) -> str:
        return str(self.scratch / name)

    def strongroom(self, *arguments: str, cap: str = "", stdin: str = "") -> Done:
        """Run one command line in a new process. `cap` is the name of a file with a cap."""
        given = ("--cap-file", self.file(cap)) if cap else ()
        return self.run([sys.executable, "-m", "strongroom", *arguments, *given, "--json"], stdin)

    def at_once(self, *commands: Sequence[str], cap: str = "") -> list[Done]:
        """Run command lines that do not depend on each other, three at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda arguments: self.strongroom(*arguments, cap=cap), commands))

    def answer(self, *arguments: str, cap: str = "", stdin: str = "") -> Any:
        """Run a command line that must succeed, and return its JSON answer."""
        return answered(self.strongroom(*arguments, cap=cap, stdin=stdin))

    def environment(self) -> dict[str, str]:
        """The environment of a process: paths in the temporary directory, and few of the user's variables."""
        return {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "HOME": self.file("home"),
            "TMPDIR": self.file("tmp"),
            "TZ": "UTC",
            "PYTHONUTF8": "1",
            "STRONGROOM_VAULT": self.vault,
            "STRONGROOM_KEYS": self.file("keys"),
            "STRONGROOM_CONFIG": self.file("config.toml"),
        }

    def run(self, command: Sequence[str], stdin: str = "", surroundings: Mapping[str, Any] | None = None) -> Done:
        """Run a program to its end."""
        given = {"cwd": self.scratch, "env": self.environment()} if surroundings is None else surroundings
        try:
            done = subprocess.run(  # noqa: S603 - our own programs, and those that the caller names
                command, input=stdin, capture_output=True, text=True, encoding="utf-8", errors="replace",
                timeout=PATIENCE, check=False, **given,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unexpected("an answer", f"none in {PATIENCE} seconds") from None
        return Done(done.returncode, done.stdout, done.stderr)


def answered(done: Done) -> Any:
    """The JSON answer of a process. Raises `Unexpected` if it failed."""
    expect("exit 0", "exit 0", f"exit {done.code}" + (f", {done.reason}" if done.code else ""))
    return done.json


def refused(reason: str, *attempts: Done) -> None:
    """Check that every attempt failed with this reason and its exit code, and printed no answer."""
    code = BY_FAMILY[BY_REASON[reason].family]
    for done in attempts:
        expect(f"exit {code}, {reason}", (code, reason, ""), (done.code, done.reason, done.out))


def expect(what: str, expected: object, came: object) -> None:
    """Raise `Unexpected` if `came` is not equal to `expected`."""
    if expected != came:
        raise Unexpected(what, came)


@contextmanager
def temporary_directory(*, keep: bool) -> Iterator[Path]:
    """A private temporary directory. With `keep` it stays; otherwise it is removed at the end, even after a signal."""
    with _interrupted_by_signals():
        scratch = Path(tempfile.mkdtemp(prefix="strongroom-demo-"))
        try:
            yield scratch
        finally:
            if not keep:
                shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that servers are stopped and files removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
