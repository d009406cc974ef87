"""The stage of the long demonstration: the place of the short one, and the programs and partners that it needs beside.

Every process has a scrubbed environment, so nothing of the user's vaults, keys, caps or settings is read or written.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo import talk
from demo.partner import Partner
from strongroom.cli.demo_stage import Place, Unexpected

if TYPE_CHECKING:
    from demo.fleet_stage import Fleet
    from demo.hermes_home import Home
    from demo.os_users import Apart

ROOT = str(Path(__file__).parents[1])
"""The checkout, in which this package is found."""
_ATTACKER = Path(__file__).parent / "programs" / "attacker.py"


class Stage(Place):
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
        super().__init__(scratch)
        self.today = today
        self.require_extras = require_extras
        self.hermes = hermes
        """The Python of an environment with Hermes, if there is one."""
        self.store = store
        """A place in a bucket, such as s3://bucket/prefix, below which the demonstration may make its own."""
        self.keep = keep
        self.tell = tell or _unheard
        """Says what is going on in a step that takes long."""
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

    @property
    def owner_cap(self) -> str:
        return str(self.keys / "owner.cap")

    @property
    def other_url(self) -> str:
        """Another server of the same memory than that of `url`, where there is another."""
        return self.url

    # Processes.

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
        return [sys.executable, "-m", f"demo.programs.{name}", *arguments]

    def close(self) -> None:
        """End every process that still runs, and remove what does not lie in the place."""
        self.closing.close()

    def environment(self) -> dict[str, str]:
        """Its programs are found where this package is, wherever that may be."""
        given = super().environment()
        return {**given, "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, given.get("PYTHONPATH"))))}

    def _answer(self, command: list[str], stdin: str) -> Any:
        done = self.run(command, stdin)
        if done.code != 0:
            raise Unexpected(f"{Path(command[2]).name} {command[3]} to work", _said_last(done.err))
        return json.loads(done.out) if done.out else None


def _said_last(errors: str) -> str:
    """What stands below a traceback: the error, and what can be done."""
    told = errors.strip()
    return told.rpartition("\n  ")[2].partition("\n")[2] or told[-200:]


def _unheard(_: str) -> None:
    """Nobody listens."""


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
