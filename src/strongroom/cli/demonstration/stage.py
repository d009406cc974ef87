"""The place where the demonstration happens: a temporary directory, and processes that see nothing else.

Every command is a fresh process with a scrubbed environment, so nothing of the user's vaults, keys, caps or settings is
read or written. Also here: what a process must have answered, so that a step can say it in one line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strongroom.cli.demonstration import talk
from strongroom.cli.demonstration.partner import PATIENCE, Partner
from strongroom.cli.demonstration.report import Unexpected
from strongroom.cli.errors import BY_FAMILY
from strongroom.errors import BY_REASON

if TYPE_CHECKING:
    from strongroom.cli.demonstration.fleet import Fleet
    from strongroom.cli.demonstration.hermes import Home
    from strongroom.cli.demonstration.users import Apart

_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "SYSTEMROOT")
_PACKAGE = "strongroom.cli.demonstration"
_ATTACKER = Path(__file__).with_name("attacker.py")
_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Done:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The reason that it told, if it told one."""
        with suppress(ValueError, TypeError, KeyError):
            return str(json.loads(self.err)["reason"])
        return self.err.strip() or "no reason"

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.out)
        except ValueError:
            raise Unexpected("a JSON document", self.out or self.err or "nothing") from None


class Stage:
    """The place, its processes, and what the story has learnt so far. What `closing` holds ends with it."""

    has_pages = True
    """Whether the vault keeps pages of its index beside the lines."""

    def __init__(
        self,
        scratch: Path,
        today: date,
        *,
        require_extras: bool = False,
        hermes: Path | None = None,
        store: str = "",
        keep: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.scratch = scratch
        self.today = today
        self.require_extras = require_extras
        self.hermes = hermes
        """The Python of an environment with Hermes, if there is one."""
        self.store = store
        """A place in a bucket, such as s3://bucket/prefix, below which the demonstration may make its own."""
        self.keep = keep
        self.tell = tell or _unheard
        """Says what is going on in a step that takes long."""
        self.vault = str(scratch / "vault")
        """Where the memory is: a directory, or a place in a bucket."""
        self.now = talk.asked(talk.trip_year(today))
        self.keys = Path()
        self.trip = ""
        self.allergy = ""
        self.denied_entry = -1
        self.url = ""
        self.mcp_url = ""
        self.apart: Apart | None = None
        self.fleet: Fleet | None = None
        self.homes: dict[str, Home] = {}
        self.closing = ExitStack()
        self.partners: dict[str, Partner] = {}
        for name in ("home", "tmp"):
            (scratch / name).mkdir()

    def file(self, name: str) -> str:
        return str(self.scratch / name)

    @property
    def owner_cap(self) -> str:
        return str(self.keys / "owner.cap")

    @property
    def other_url(self) -> str:
        """Another server of the same memory than that of `url`, where there is another."""
        return self.url

    # Processes.

    def strongroom(self, *arguments: str, cap: str = "", stdin: str = "") -> Done:
        """Run one command line in a fresh process, with a cap by file."""
        given = ("--cap-file", self.file(cap)) if cap else ()
        return self.run([sys.executable, "-m", "strongroom", *arguments, *given, "--json"], stdin)

    def at_once(self, *commands: Sequence[str], cap: str = "") -> list[Done]:
        """Run several command lines, three processes at a time: for those that do not depend on each other."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda arguments: self.strongroom(*arguments, cap=cap), commands))

    def attack(self, verb: str, *arguments: str) -> Any:
        """Let the attacker do something, and return what it found."""
        return self._answer([sys.executable, "-P", str(_ATTACKER), verb, *arguments], "")

    def play(self, verb: str, *arguments: str, stdin: str = "") -> Any:
        """Let a process do something in Python, and return what it said."""
        return self._answer(self.program("player", verb, *arguments), stdin)

    def ask_reader(self, question: str) -> Any:
        """Ask the one process that keeps the vault open; it starts with the first question."""
        if "reader" not in self.partners:
            self.beside("reader", self.program("player", "read", self.owner_cap))
        return self.partners["reader"].ask(question)

    def visit(self, verb: str, *arguments: str) -> Any:
        """Let a process that has a server's address and a cap do something, and return what it said."""
        return self._answer(self.program("visitor", verb, *arguments), "")

    def beside(self, name: str, command: Sequence[str], surroundings: Mapping[str, Any] | None = None) -> Partner:
        """Start a process that goes on beside the story, until the stage is closed or somebody ends it."""
        given = {"cwd": self.scratch, "env": self.environment()} if surroundings is None else surroundings
        found = Partner(command, given, self.scratch / f"{name}.log")
        self.closing.callback(found.end)
        self.partners[name] = found
        return found

    def program(self, name: str, *arguments: str) -> list[str]:
        """The command that runs one of the demonstration's own programs."""
        return [sys.executable, "-m", f"{_PACKAGE}.{name}", *arguments]

    def close(self) -> None:
        """End every process that still runs, and remove what does not lie in the place."""
        self.closing.close()

    def environment(self) -> dict[str, str]:
        """What a process gets: places in the temporary directory, and of the user's only what programs need to run."""
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

    def _answer(self, command: list[str], stdin: str) -> Any:
        done = self.run(command, stdin)
        if done.code != 0:
            raise Unexpected(f"{Path(command[2]).name} {command[3]} to work", _said_last(done.err))
        return json.loads(done.out) if done.out else None

    def run(self, command: Sequence[str], stdin: str = "", surroundings: Mapping[str, Any] | None = None) -> Done:
        """Run a program to its end."""
        given = {"cwd": self.scratch, "env": self.environment()} if surroundings is None else surroundings
        try:
            done = subprocess.run(  # noqa: S603 - our own programs, and Hermes
                command, input=stdin, capture_output=True, text=True, encoding="utf-8", errors="replace",
                timeout=PATIENCE, check=False, **given,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unexpected("an answer", f"none in {PATIENCE} seconds") from None
        return Done(done.returncode, done.stdout, done.stderr)

    # What must have come.

    def answer(self, *arguments: str, cap: str = "", stdin: str = "") -> Any:
        """The document that a command line answers with; it has to succeed."""
        return answered(self.strongroom(*arguments, cap=cap, stdin=stdin))


def _said_last(errors: str) -> str:
    """What stands below a traceback: the error, and what can be done."""
    told = errors.strip()
    return told.rpartition("\n  ")[2].partition("\n")[2] or told[-200:]


def _unheard(_: str) -> None:
    """Nobody listens."""


def answered(done: Done) -> Any:
    """The document of a process that has to have succeeded."""
    expect("exit 0", "exit 0", f"exit {done.code}" + (f", {done.reason}" if done.code else ""))
    return done.json


def refused(reason: str, *attempts: Done) -> None:
    """Every attempt was refused with this reason and the exit code of its family, and answered nothing."""
    code = BY_FAMILY[BY_REASON[reason].family]
    for done in attempts:
        expect(f"exit {code}, {reason}", (code, reason, ""), (done.code, done.reason, done.out))


def expect(what: str, expected: object, came: object) -> None:
    """These two are the same, or the step has failed."""
    if expected != came:
        raise Unexpected(what, came)


@contextmanager
def place(*, keep: bool) -> Iterator[Path]:
    """A directory that only this user can enter; gone afterwards, whatever happens, unless it is to be kept."""
    scratch = Path(tempfile.mkdtemp(prefix="strongroom-demo-"))
    try:
        yield scratch
    finally:
        if not keep:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def opened(
    scratch: Path,
    today: date,
    *,
    require_extras: bool = False,
    hermes: Path | None = None,
    store: str = "",
    keep: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Stage]:
    """The stage in a directory; its processes end with it."""
    stage = Stage(scratch, today, require_extras=require_extras, hermes=hermes, store=store, keep=keep, tell=tell)
    try:
        yield stage
    finally:
        stage.close()
